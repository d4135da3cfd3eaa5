//! Points chosen one by one, as `oppredict suggest` writes them.
//! The form is that of [`opdata::contract::points`].

use std::collections::BTreeMap;

use opdata::CacheState;
use opdata::contract::points::POINTS_VERSION;
use opengine::device::{Conditions, DeviceRef};
use opengine::schedule::{Choice, ScheduleSpec};
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::error::{SweepError, SweepText};
use super::{SpaceKind, Sweep};

const AGAIN: &str = "write the file anew with the `oppredict suggest` of this version";

/// A schedule of an operator, and the conditions of its measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChosenPoint {
    /// Name of the operator, for people.
    pub operator: String,
    /// Hash of the operator's computation.
    pub workload: String,
    /// Its schedule.
    #[serde(rename = "recipe")]
    pub schedule_spec: ScheduleSpec,
    /// Numbers of threads.
    pub threads: Vec<u32>,
    /// State of the caches.
    pub cache: CacheState,
}

impl ChosenPoint {
    /// The conditions of the measurement.
    pub fn conditions(&self) -> impl Iterator<Item = Conditions> + '_ {
        self.threads
            .iter()
            .map(|&threads| Conditions::new(threads, self.cache))
    }
}

/// A point as the file has it.
pub(super) type RawPoint = opdata::contract::points::ChosenPoint<Spanned<String>>;

/// Refuses files of another version.
pub(super) fn check_version(
    version: Option<&Spanned<u64>>,
    toml_text: &SweepText<'_>,
) -> Result<(), SweepError> {
    match version {
        Some(version) if *version.get_ref() != POINTS_VERSION => Err(toml_text.wrong(
            version.span().start,
            format!(
                "the points have version {}, and this program reads version {POINTS_VERSION}",
                version.get_ref()
            ),
            AGAIN,
        )),
        _ => Ok(()),
    }
}

/// A point of the file, checked.
pub(super) fn read(
    point: &Spanned<RawPoint>,
    toml_text: &SweepText<'_>,
) -> Result<ChosenPoint, SweepError> {
    let raw = point.get_ref();
    if raw.threads.is_empty() || raw.threads.contains(&0) {
        return Err(toml_text.wrong(
            point.span().start,
            format!(
                "a point of {} has no number of threads from 1 up",
                raw.operator
            ),
            "as in threads = [1, 2]",
        ));
    }
    let schedule_spec = match &raw.knobs {
        None => ScheduleSpec::Default,
        Some(knobs) => {
            let choice: Choice = serde_json::from_str(knobs.get_ref())
                .map_err(|error| toml_text.wrong(knobs.span().start, no_knobs(&error), AGAIN))?;
            if choice.is_without_template() {
                return Err(toml_text.wrong(
                    knobs.span().start,
                    "these knobs alone do not make a schedule".to_owned(),
                    "give knobs of the space template, or none for the default schedule",
                ));
            }
            ScheduleSpec::Template { choice }
        }
    };
    Ok(ChosenPoint {
        operator: raw.operator.clone(),
        workload: raw.workload.clone(),
        schedule_spec,
        threads: raw.threads.clone(),
        cache: raw.cache,
    })
}

fn no_knobs(error: &serde_json::Error) -> String {
    format!("no knobs that this program knows: {error}")
}

/// Reads the knobs of a point as those of a device, with defaults for missing ones.
///
/// # Errors
/// Fails if the device has no such knobs, with the fault and its remedy.
pub(super) fn complete(
    point: &mut ChosenPoint,
    device: DeviceRef,
) -> Result<(), (String, &'static str)> {
    if let ScheduleSpec::Template { choice } = &mut point.schedule_spec {
        let read = device.read_choice(choice.clone());
        *choice = read.map_err(|error| (no_knobs(&error), AGAIN))?;
    }
    Ok(())
}

/// Threads and cache states of all points, as settings.
pub(super) fn settings(points: &[ChosenPoint]) -> BTreeMap<&'static str, Vec<String>> {
    let mut settings: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    let mut add = |key, value: String| {
        let values = settings.entry(key).or_default();
        if !values.contains(&value) {
            values.push(value);
        }
    };
    for point in points {
        for Conditions { threads, cache, .. } in point.conditions() {
            add("threads", threads.to_string());
            add("cache", cache.as_str().to_owned());
        }
    }
    settings
}

/// Checks what else the file says against its points.
pub(super) fn agree(sweep: &Sweep, toml_text: &SweepText<'_>) -> Result<(), SweepError> {
    let wrong = |problem: &str, next| Err(toml_text.wrong(0, problem.to_owned(), next));
    let draws = sweep.schedules > 0
        || sweep.max_points.is_some()
        || !sweep.operators.is_empty()
        || !sweep.vary.is_empty()
        || !sweep.fix.is_empty();
    match (sweep.space, sweep.points.is_empty()) {
        (SpaceKind::Points, true) => wrong(
            "the space points has no point",
            "list some in [[points]], or let `oppredict suggest` choose them",
        ),
        (SpaceKind::Points, false) if draws => wrong(
            "the points are listed, and nothing is drawn",
            "leave out schedules, max-points, operators and factors of the schedule",
        ),
        (SpaceKind::Points, false) | (_, true) => Ok(()),
        (_, false) => wrong(
            "points are listed, but the space is another",
            "use space = \"points\", or leave [[points]] out",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::sweep::SweepFile;

    const HEAD: &str =
        "space = 'points'\nversion = 1\nmachine = 'm'\n[settings]\nmodelname = 'mlp'\n";
    const POINT: &str =
        "[[points]]\noperator = 'add'\nworkload = 'w'\nthreads = [1, 2]\ncache = 'model'\n";

    fn parse(text: &str) -> Result<SweepFile, SweepError> {
        let file = SweepFile::parse(Path::new("p.toml"), text)?;
        file.for_device(opengine::device::named("llvm").unwrap())
    }

    #[test]
    fn points_are_read_and_say_what_to_measure_at() {
        let knobs = r#"knobs = '{"template":"spatial","vector_length":8,"unroll":1,"parallel_extent":null}'"#;
        let hot = POINT.replace("model", "hot").replace("[1, 2]", "[2, 4]");
        let file = parse(&format!("{HEAD}{POINT}{hot}{knobs}")).unwrap();
        assert_eq!(file.sweep.machine.as_deref(), Some("m"));
        assert_eq!(file.sweep.points[0].schedule_spec, ScheduleSpec::Default);
        assert_eq!(file.sweep.points[1].schedule_spec.space(), "template");
        assert_eq!(file.settings["threads"], ["1", "2", "4"]);
        assert_eq!(file.settings["cache"], ["model", "hot"]);
        assert_eq!(file.settings["modelname"], ["mlp"]);
    }

    #[test]
    fn errors_name_line_and_remedy() {
        let error = |text: &str| parse(text).unwrap_err().to_string();
        insta::assert_snapshot!(
            [
                error(HEAD),
                error(&format!("{}{POINT}", HEAD.replace("version = 1", "version = 2"))),
                error(&format!("{HEAD}{POINT}knobs = '{{\"template\": \"magic\"}}'")),
                error(&format!("{HEAD}{POINT}knobs = '{{\"template\": \"recorded\"}}'")),
                error(&format!("{HEAD}{}", POINT.replace("[1, 2]", "[0]"))),
                error(&format!("schedules = 3\n{HEAD}{POINT}")),
                error(&format!("{}{POINT}", HEAD.replace("points", "default"))),
            ]
            .join("\n"),
            @r#"
            p.toml:1: the space points has no point; list some in [[points]], or let `oppredict suggest` choose them
            p.toml:2: the points have version 2, and this program reads version 1; write the file anew with the `oppredict suggest` of this version
            p.toml:11: no knobs that this program knows: unknown variant `magic`, expected one of `contraction`, `rows`, `partial`, `spatial`, `dot`, `convolution`; write the file anew with the `oppredict suggest` of this version
            p.toml:11: these knobs alone do not make a schedule; give knobs of the space template, or none for the default schedule
            p.toml:6: a point of add has no number of threads from 1 up; as in threads = [1, 2]
            p.toml:1: the points are listed, and nothing is drawn; leave out schedules, max-points, operators and factors of the schedule
            p.toml:1: points are listed, but the space is another; use space = "points", or leave [[points]] out
            "#
        );
    }
}
