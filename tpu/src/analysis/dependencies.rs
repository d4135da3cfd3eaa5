//! Finds the command that each command waited for.
//!
//! In `cmd_id_dep` a whole command names the last command of the core's other engine (TIU or GDMA) that must have ended
//! before it. Ids begin anew in each section. So the meant command is the latest one with that id, in the same kernel
//! launch, that had ended by then.

use std::collections::HashMap;

use crate::profile::{CoreProfile, Profile};
use crate::report::{Engine, Stream};
use crate::view::Viewer;

/// Maximum difference between the clocks of two engines, in ns.
const SLACK_NS: i64 = 50;

/// A command and the one it waited for, by their indices among the events of their engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dependency {
    /// Engine of the command that waited; the other one's is the other of TIU and GDMA.
    pub engine: Engine,
    /// The command that waited.
    pub waited: u32,
    /// The command that it waited for.
    pub source: u32,
}

/// The dependencies between TIU and GDMA of a core, in order of the commands that waited.
pub fn dependencies(profile: &Profile, core: &CoreProfile) -> Vec<Dependency> {
    // Only whole commands name the command that they wait for.
    if core.file.pool.is_empty() {
        return Vec::new();
    }
    let viewer = |engine| {
        let number = core.number;
        Viewer::new(profile, Stream::new(engine, number))
    };
    let (Some(tiu), Some(gdma)) = (viewer(Engine::Tiu), viewer(Engine::Gdma)) else {
        return Vec::new();
    };
    let mut found = between(Engine::Tiu, &tiu, &gdma);
    found.extend(between(Engine::Gdma, &gdma, &tiu));
    found
}

fn between(engine: Engine, waiting: &Viewer, sources: &Viewer) -> Vec<Dependency> {
    let events = sources.events();
    let mut latest: HashMap<(Option<u32>, u32), u32> = HashMap::new();
    let mut next = 0;
    let mut found = Vec::new();
    for view in waiting.views() {
        while let Some(source) = events.get(next) {
            if source.end_ns > view.event.start_ns + SLACK_NS {
                break;
            }
            latest.insert((source.scope(), source.id.wrapping_add(1)), next as u32);
            next += 1;
        }
        let Some(id) = view.waits_for() else {
            continue;
        };
        if let Some(&source) = latest.get(&(view.event.scope(), id)) {
            found.push(Dependency {
                engine,
                waited: view.index as u32,
                source,
            });
        }
    }
    waiting.release();
    sources.release();
    found
}
