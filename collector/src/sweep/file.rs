//! Sweep files: TOML → [`Sweep`], with errors that name the file, the line and the remedy.
//!
//! ```toml
//! about = "one line for `opcollect list sweeps`"
//! space = "template"           # default | template | metaschedule | traces | points
//! draw = "sobol"               # grid | random | latin-hypercube | sobol
//! schedules = 32               # of every operator, beside the default one
//! max-points = 5000
//! operators = ["conv2d"]       # kinds or functions; all if left out
//! traces = "records.json"      # of the space traces: a MetaSchedule database, or one trace a line
//! [vary]                       # factor = "all" or a list of values
//! tile = "all"
//! threads = [1, 2, "max"]      # also cache, batch and input-size
//! [fix]
//! unroll = 0
//! [settings]                   # any setting of the command line, which goes before it
//! budget = "60ms"
//! ```
//!
//! The space `points` has a form of its own, described in [`super::points`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use opreport::nearest::closest;
use serde::Deserialize;
use toml::{Spanned, Value};

use super::agree::agree;
use super::error::{SweepError, SweepText, near};
use super::points::{self, RawPoint};
use super::unchecked::Unchecked;
use super::{Draw, SpaceKind, Sweep, traces};
use crate::config::{Given, SETTINGS, Setting};

/// A sweep as its file has it.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepFile {
    /// The factors that vary.
    pub sweep: Sweep,
    /// One line about it.
    pub about: String,
    /// Settings of the run that the sweep brings, as texts; the command line goes before them.
    pub settings: BTreeMap<&'static str, Vec<String>>,
    /// The parts that only a device can check.
    pub(super) unchecked: Unchecked,
}

/// The file's own form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Raw {
    #[serde(default)]
    about: String,
    space: SpaceKind,
    #[serde(default = "random")]
    draw: Draw,
    #[serde(default)]
    schedules: u32,
    max_points: Option<Spanned<u64>>,
    #[serde(default)]
    operators: Vec<String>,
    traces: Option<Spanned<PathBuf>>,
    version: Option<Spanned<u64>>,
    machine: Option<String>,
    #[serde(default)]
    points: Vec<Spanned<RawPoint>>,
    #[serde(default)]
    vary: BTreeMap<Spanned<String>, Spanned<Value>>,
    #[serde(default)]
    fix: BTreeMap<Spanned<String>, Spanned<Value>>,
    #[serde(default)]
    settings: BTreeMap<Spanned<String>, Spanned<Value>>,
}

fn random() -> Draw {
    Draw::Random
}

impl SweepFile {
    /// The sweep called `name` in `folder`, or the file of that path if it ends in `.toml`.
    ///
    /// # Errors
    /// Fails if there is none, or if it is faulty.
    pub fn find(name: &str, folder: &Path) -> Result<SweepFile, SweepError> {
        if name.ends_with(".toml") {
            return SweepFile::read(Path::new(name));
        }
        let path = folder.join(format!("{name}.toml"));
        if name.contains('/') || !path.is_file() {
            let names = SweepFile::names(folder);
            return Err(SweepError::Unknown {
                name: name.to_owned(),
                nearest: closest(name, names.iter().map(String::as_str)).map(str::to_owned),
            });
        }
        SweepFile::read(&path)
    }

    /// Names of the sweeps in `folder`, sorted.
    pub fn names(folder: &Path) -> Vec<String> {
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = files
            .filter_map(|file| {
                let name = file.file_name().into_string().ok()?;
                name.strip_suffix(".toml").map(str::to_owned)
            })
            .collect();
        names.sort();
        names
    }

    fn read(path: &Path) -> Result<SweepFile, SweepError> {
        let text = opdata::read_text(path).map_err(|e| SweepError::Unreadable {
            path: path.to_owned(),
            reason: e.to_string(),
        })?;
        SweepFile::parse(path, &text)
    }

    /// Reads a sweep's text; `path` names it.
    ///
    /// # Errors
    /// Fails if the text is not a sweep.
    pub fn parse(path: &Path, text: &str) -> Result<SweepFile, SweepError> {
        let toml_text = SweepText { path, text };
        let raw: Raw = toml::from_str(text).map_err(|error| {
            toml_text.wrong(
                error.span().map_or(0, |s| s.start),
                error.message().replace('\n', ", "),
                "see docs/sweeps.md for the keys of a sweep",
            )
        })?;
        let name = path
            .file_stem()
            .map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        let mut file = SweepFile {
            sweep: Sweep {
                name,
                space: raw.space,
                draw: raw.draw,
                schedules: raw.schedules,
                max_points: raw.max_points.as_ref().map(|m| *m.get_ref()),
                operators: raw.operators,
                traces: Vec::new(),
                points: Vec::new(),
                machine: raw.machine,
                vary: BTreeMap::new(),
                fix: BTreeMap::new(),
                batches: Vec::new(),
                input_sizes: Vec::new(),
            },
            about: raw.about,
            settings: BTreeMap::new(),
            unchecked: Unchecked::new(path),
        };
        if let Some(cap) = raw.max_points.filter(|m| *m.get_ref() == 0) {
            return Err(toml_text.wrong(
                cap.span().start,
                "max-points = 0 leaves nothing to measure".to_owned(),
                "give at least 1, or leave it out",
            ));
        }
        if let Some(traces) = &raw.traces {
            let at = traces.span().start;
            file.sweep.traces = traces::read(traces.get_ref())
                .map_err(|(problem, next)| toml_text.wrong(at, problem, next))?;
            file.sweep.schedules = u32::try_from(file.sweep.traces.len()).unwrap_or(u32::MAX);
        }
        points::check_version(raw.version.as_ref(), &toml_text)?;
        for point in &raw.points {
            file.sweep.points.push(points::read(point, &toml_text)?);
            let knobs = point.get_ref().knobs.as_ref();
            let line = knobs.map(|k| toml_text.line(k.span().start));
            file.unchecked.knobs.push(line);
        }
        for (key, value) in &raw.settings {
            file.setting(&toml_text, key, value)?;
        }
        for (key, value) in &raw.vary {
            file.vary(&toml_text, key, value)?;
        }
        for (key, value) in &raw.fix {
            file.fix(&toml_text, key, value)?;
        }
        agree(&file.sweep, &toml_text)?;
        file.settings.extend(points::settings(&file.sweep.points));
        Ok(file)
    }

    fn setting(
        &mut self,
        toml_text: &SweepText<'_>,
        key: &Spanned<String>,
        value: &Spanned<Value>,
    ) -> Result<(), SweepError> {
        let name = key.get_ref().as_str();
        let Some(setting) = SETTINGS
            .iter()
            .find(|s| s.key == name && !["sweep", "config"].contains(&s.key))
        else {
            let close = closest(name, SETTINGS.iter().map(|s| s.key)).map(str::to_owned);
            return Err(toml_text.wrong(
                key.span().start,
                format!("unknown setting `{name}`{}", near(&close)),
                "`opcollect --print-config` lists all",
            ));
        };
        self.settings
            .insert(setting.key, texts(toml_text, setting, value)?);
        Ok(())
    }
}

/// A setting's value as the texts that the command line would have.
pub(super) fn texts(
    toml_text: &SweepText<'_>,
    setting: &Setting,
    value: &Spanned<Value>,
) -> Result<Vec<String>, SweepError> {
    Given::from(value.get_ref())
        .texts(setting)
        .map_err(|wrong| {
            let problem = format!("`{}` is {}", setting.key, wrong.found);
            let next = format!("give {}", wrong.expected);
            toml_text.wrong(value.span().start, problem, &next)
        })
}

#[cfg(test)]
mod tests {
    use opengine::device::named;
    use opengine::schedule::{Factor, FactorValue};

    use super::super::Values;
    use super::*;

    const HEAD: &str = "space = 'template'\nschedules = 4\n";

    fn parse(text: &str) -> Result<SweepFile, SweepError> {
        let file = SweepFile::parse(Path::new("s.toml"), text)?;
        file.for_device(named("llvm").unwrap())
    }

    fn error(rest: &str) -> String {
        parse(&format!("{HEAD}{rest}")).unwrap_err().to_string()
    }

    #[test]
    fn a_sweep_is_read() {
        let file = parse(&format!(
            "{HEAD}about = 'x'\nmax-points = 9\n[vary]\ntile = 'all'\nvector-length = [8, 16]\nthreads = [1, 'max']\nbatch = [1, 4]\n[fix]\nunroll = 0\n[settings]\nbudget = '60ms'"
        ))
        .unwrap();
        let sweep = &file.sweep;
        assert_eq!(
            (sweep.name.as_str(), sweep.draw, sweep.max_points),
            ("s", Draw::Random, Some(9))
        );
        assert_eq!(sweep.vary[&Factor::named("tile")], Values::All);
        let lengths = vec![FactorValue::Number(8), FactorValue::Number(16)];
        let vector_length = Factor::named("vector-length");
        assert_eq!(sweep.vary[&vector_length], Values::Listed(lengths));
        assert_eq!(sweep.fix[&Factor::named("unroll")], FactorValue::Number(0));
        assert_eq!(sweep.batches, [1, 4]);
        assert_eq!(file.settings["threads"], ["1", "max"]);
        assert_eq!(file.settings["budget"], ["60ms"]);
    }

    #[test]
    fn errors_name_line_and_remedy() {
        insta::assert_snapshot!(
            [
                error("[vary]\ntyle = 'all'"),
                error("[vary]\ntile = []"),
                error("[vary]\ntile = 3"),
                error("[vary]\nbatch = [0]"),
                error("[vary]\nthreads = []"),
                error("max-points = 0\n[vary]\ntile = 'all'"),
                error("[vary]\ntile = 'all'\n[fix]\ntile = 4"),
                error("[vary]\ntile = 'all'\n[settings]\nbugdet = '1s'"),
                error("[vary]\nthreads = [1]"),
                parse("space = 'template'\n[vary]\ntile = 'all'").unwrap_err().to_string(),
                parse("space = 'metaschedule'\nschedules = 2\n[vary]\ntile = 'all'").unwrap_err().to_string(),
                parse("space = 'default'\nschedules = 2").unwrap_err().to_string(),
                parse("space = 'tempalte'").unwrap_err().to_string(),
            ]
            .join("\n"),
            @r#"
            s.toml:4: unknown factor `tyle` (did you mean tile?); factors are tile, cache-tile, reduction-tile, vector-length, vector-blocks, loop-order, level-order, fuse, parallel-extent, unroll, compute-at, padding, cache-write, algorithm, threads, cache, batch, input-size
            s.toml:4: `tile` varies over no value; list values, or write "all" for those that each operator offers
            s.toml:4: `tile` is neither "all" nor a list of values; write "all", or a list such as [1, 2, 4]
            s.toml:4: `batch` takes whole numbers from 1 up; as in batch = [1, 4, 16]
            s.toml:4: `threads` must be a list of at least one value; list its values, as in threads = [1, 2, "max"]
            s.toml:3: max-points = 0 leaves nothing to measure; give at least 1, or leave it out
            s.toml:6: `tile` is both varied and fixed; keep it in one of [vary] and [fix]
            s.toml:6: unknown setting `bugdet` (did you mean budget?); `opcollect --print-config` lists all
            s.toml:1: no factor of the schedule varies, but several schedules are wanted; name factors in [vary], or set schedules to 1 (or 0 for the default schedule alone)
            s.toml:1: factors are named, but schedules = 0 leaves none to draw; set schedules to how many each operator shall get
            s.toml:1: the space metaschedule draws all factors of a schedule by TVM's rules; use space = "template" to vary or fix factors, or leave [vary] to threads, cache, batch and input-size
            s.toml:1: the space default has one schedule, without factors; use space = "template", or remove `schedules` and the factors of the schedule
            s.toml:1: unknown variant `tempalte`, expected one of `default`, `as-is`, `template`, `metaschedule`, `traces`, `points`; see docs/sweeps.md for the keys of a sweep
            "#
        );
    }

    #[test]
    fn the_sweeps_that_come_with_the_program_are_sound() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/sweeps");
        let names = SweepFile::names(&folder);
        for wanted in [
            "batch",
            "default",
            "full",
            "input-size",
            "quick",
            "reorder",
            "split",
            "threads",
            "tile",
        ] {
            assert!(names.iter().any(|n| n == wanted), "{wanted}");
        }
        for name in &names {
            let file = SweepFile::find(name, &folder).unwrap();
            // A sweep whose name begins with a device's name has that device's factors.
            let device = name.split('-').next().and_then(named);
            let device = device.or(named("llvm"));
            let file = file.for_device(device.unwrap()).unwrap();
            assert!(!file.about.is_empty(), "{name}");
        }
        let error = SweepFile::find("quik", &folder).unwrap_err();
        assert!(error.to_string().contains("did you mean quick?"), "{error}");
    }
}
