//! Launches of kernels: from the first to the last of their commands.

use crate::export::perfetto::args::{Args, Key};
use crate::view::View;
use opreport::trace::{TrackState, Writer};

/// A kernel's time on a track.
pub(super) struct Launch {
    start_ns: i64,
    end_ns: i64,
    kernel: String,
    scope: Option<u32>,
    batches: Vec<u32>,
    modes: Vec<&'static str>,
}

/// Notes an event's launch.
pub(super) fn note_launch(launches: &mut Vec<Launch>, view: &View, offset_ns: i64) {
    let Some(kernel) = view.kernel else { return };
    let (start_ns, end_ns) = (
        view.event.start_ns + offset_ns,
        view.event.end_ns + offset_ns,
    );
    launches.push(Launch {
        start_ns,
        end_ns,
        kernel: kernel.to_string(),
        scope: view.scope,
        batches: view.event.batch().into_iter().collect(),
        modes: view.event.mode().name().into_iter().collect(),
    });
}

/// Joins neighbours of one launch.
fn merge_launches(mut launches: Vec<Launch>) -> Vec<Launch> {
    launches.sort_by_key(|launch| (launch.start_ns, launch.end_ns));
    let mut merged: Vec<Launch> = Vec::new();
    for launch in launches {
        match merged.last_mut() {
            Some(last) if last.scope == launch.scope && last.kernel == launch.kernel => {
                last.end_ns = last.end_ns.max(launch.end_ns);
                for batch in launch.batches {
                    if !last.batches.contains(&batch) {
                        last.batches.push(batch);
                    }
                }
                for mode in launch.modes {
                    if !last.modes.contains(&mode) {
                        last.modes.push(mode);
                    }
                }
            }
            _ => merged.push(launch),
        }
    }
    merged
}

/// Writes launches to their track.
pub(super) fn write_launches(writer: &mut Writer, mut track: TrackState, launches: Vec<Launch>) {
    let merged = merge_launches(launches);
    for mut launch in merged {
        launch.batches.sort_unstable();
        let modes: Vec<&str> = ["RVT", "TDI", "DES"]
            .into_iter()
            .filter(|m| launch.modes.contains(m))
            .collect();
        let category = (!modes.is_empty()).then(|| modes.join("/"));
        writer.begin(
            &mut track,
            launch.start_ns,
            &launch.kernel,
            category.as_deref(),
            |track, out| {
                let args = &mut Args { track, out };
                args.text(Key::Kernel, &launch.kernel);
                if let Some(scope) = launch.scope {
                    args.int(Key::Scope, i64::from(scope));
                }
                match launch.batches.as_slice() {
                    [] => {}
                    [batch] => args.int(Key::Batch, i64::from(*batch)),
                    many => args.text(
                        Key::Batch,
                        &many
                            .iter()
                            .map(u32::to_string)
                            .collect::<Vec<_>>()
                            .join("/"),
                    ),
                }
                if let Some(mode) = &category {
                    args.text(Key::Mode, mode);
                }
            },
        );
        writer.end(&mut track, launch.end_ns);
    }
}

/// Notes an event's launch; neighbours of one launch are joined at once, so that the list stays short.
pub(super) fn push_or_extend(launches: &mut Vec<Launch>, view: &View, offset_ns: i64) {
    let mode = view.event.mode().name();
    let same = launches.last_mut().filter(|last| {
        last.scope == view.scope
            && last.batches.first().copied() == view.event.batch()
            && mode.is_none_or(|mode| last.modes.contains(&mode))
            && view.event.start_ns + offset_ns >= last.start_ns
    });
    match same {
        Some(last) => last.end_ns = last.end_ns.max(view.event.end_ns + offset_ns),
        None => note_launch(launches, view, offset_ns),
    }
}
