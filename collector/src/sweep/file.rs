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
//! The space `points` has a form of its own, described in [`points`](super::points).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use opengine::device::DeviceRef;
use opengine::schedule::{Factor, FactorValue};
use serde::Deserialize;
use thiserror::Error;
use toml::{Spanned, Value};

use super::points::{self, RawPoint};
use super::{Draw, SpaceKind, Sweep, Values, traces};
use crate::config::{SETTINGS, nearest};

/// Why a sweep cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SweepError {
    /// There is no such file.
    #[error(
        "there is no sweep `{name}`{}; `opcollect list sweeps` shows those that come with the program, and a path ends in .toml",
        near_words(nearest)
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// A name like it.
        nearest: Option<String>,
    },
    /// The file cannot be read.
    #[error("cannot read the sweep {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The file says something that cannot be.
    #[error("{}:{line}: {problem}; {next}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
        /// What to do.
        next: String,
    },
}

fn near_words(name: &Option<String>) -> String {
    name.as_ref()
        .map_or_else(String::new, |n| format!(" (did you mean {n}?)"))
}

/// A sweep as its file has it.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepFile {
    /// What varies.
    pub sweep: Sweep,
    /// One line about it.
    pub about: String,
    /// Settings of the run that the sweep brings, as texts; the command line goes before them.
    pub settings: BTreeMap<&'static str, Vec<String>>,
    /// The file.
    path: PathBuf,
    /// Factors that it names, each with its line.
    factors: Vec<(Factor, usize)>,
    /// Line of each point's knobs; none for points without.
    knobs: Vec<Option<usize>>,
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

/// Factors of a run, and what they set.
const RUN_FACTORS: [(&str, RunFactor); 4] = [
    ("threads", RunFactor::Setting("threads")),
    ("cache", RunFactor::Setting("cache")),
    ("batch", RunFactor::Batch),
    ("input-size", RunFactor::InputSize),
];

#[derive(Clone, Copy)]
enum RunFactor {
    Setting(&'static str),
    Batch,
    InputSize,
}

impl SweepFile {
    /// The sweep called `name` in `folder`, or the file of that path if it ends in `.toml`.
    ///
    /// # Errors
    /// There is none, or it is wrong.
    pub fn find(name: &str, folder: &Path) -> Result<SweepFile, SweepError> {
        if name.ends_with(".toml") {
            return SweepFile::read(Path::new(name));
        }
        let path = folder.join(format!("{name}.toml"));
        if name.contains('/') || !path.is_file() {
            let names = SweepFile::names(folder);
            return Err(SweepError::Unknown {
                name: name.to_owned(),
                nearest: nearest(name, names.iter().map(String::as_str)).map(str::to_owned),
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
        let text = std::fs::read_to_string(path).map_err(|e| SweepError::Unreadable {
            path: path.to_owned(),
            reason: e.to_string(),
        })?;
        SweepFile::parse(path, &text)
    }

    /// Reads a sweep's text; `path` names it.
    ///
    /// # Errors
    /// It is no sweep.
    pub fn parse(path: &Path, text: &str) -> Result<SweepFile, SweepError> {
        let place = Place { path, text };
        let raw: Raw = toml::from_str(text).map_err(|error| {
            place.wrong(
                error.span().map_or(0, |s| s.start),
                error.message().replace('\n', ", "),
                "see docs/sweeps.md for what a sweep may say",
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
            path: path.to_owned(),
            factors: Vec::new(),
            knobs: Vec::new(),
        };
        if let Some(cap) = raw.max_points.filter(|m| *m.get_ref() == 0) {
            return Err(place.wrong(
                cap.span().start,
                "max-points = 0 leaves nothing to measure".to_owned(),
                "give at least 1, or leave it out",
            ));
        }
        if let Some(traces) = &raw.traces {
            let at = traces.span().start;
            file.sweep.traces = traces::read(traces.get_ref())
                .map_err(|(problem, next)| place.wrong(at, problem, next))?;
            file.sweep.schedules = u32::try_from(file.sweep.traces.len()).unwrap_or(u32::MAX);
        }
        points::check_version(raw.version.as_ref(), &place)?;
        for point in &raw.points {
            file.sweep.points.push(points::read(point, &place)?);
            let knobs = point.get_ref().knobs.as_ref();
            file.knobs.push(knobs.map(|k| place.line(k.span().start)));
        }
        for (key, value) in &raw.settings {
            file.setting(&place, key, value)?;
        }
        for (key, value) in &raw.vary {
            file.vary(&place, key, value)?;
        }
        for (key, value) in &raw.fix {
            file.fix(&place, key, value)?;
        }
        file.agree(&place)?;
        file.settings.extend(points::settings(&file.sweep.points));
        Ok(file)
    }

    /// Checks what only a device knows: the names of factors, and knobs, which get their defaults where they are missing.
    ///
    /// # Errors
    /// The device has no such factor or knob.
    pub fn for_device(mut self, device: DeviceRef) -> Result<SweepFile, SweepError> {
        let known = |factor: &Factor| device.factors().iter().any(|info| info.factor == *factor);
        if let Some((factor, line)) = self.factors.iter().find(|(factor, _)| !known(factor)) {
            let run = RUN_FACTORS.iter().map(|(name, _)| *name);
            let factors = device.factors().iter().map(|info| info.factor.name());
            let names: Vec<&str> = factors.chain(run).collect();
            let name = factor.name();
            let near = nearest(name, names.iter().copied()).map(str::to_owned);
            return Err(self.wrong(
                *line,
                format!("unknown factor `{name}`{}", near_words(&near)),
                &format!("factors are {}", names.join(", ")),
            ));
        }
        for place in 0..self.sweep.points.len() {
            let Some(line) = self.knobs[place] else {
                continue;
            };
            points::complete(&mut self.sweep.points[place], device)
                .map_err(|(problem, next)| self.wrong(line, problem, next))?;
        }
        Ok(self)
    }

    fn wrong(&self, line: usize, problem: String, next: &str) -> SweepError {
        SweepError::Wrong {
            path: self.path.clone(),
            line,
            problem,
            next: next.to_owned(),
        }
    }

    fn setting(
        &mut self,
        place: &Place<'_>,
        key: &Spanned<String>,
        value: &Spanned<Value>,
    ) -> Result<(), SweepError> {
        let name = key.get_ref().as_str();
        let Some(setting) = SETTINGS
            .iter()
            .find(|s| s.key == name && !["sweep", "config"].contains(&s.key))
        else {
            let near = nearest(name, SETTINGS.iter().map(|s| s.key)).map(str::to_owned);
            return Err(place.wrong(
                key.span().start,
                format!("unknown setting `{name}`{}", near_words(&near)),
                "`opcollect --print-config` lists all",
            ));
        };
        let texts = place.texts(value)?;
        self.settings.insert(setting.key, texts);
        Ok(())
    }

    fn vary(
        &mut self,
        place: &Place<'_>,
        key: &Spanned<String>,
        value: &Spanned<Value>,
    ) -> Result<(), SweepError> {
        let name = key.get_ref().as_str();
        if let Some((_, factor)) = RUN_FACTORS.iter().find(|(n, _)| *n == name) {
            return self.vary_run(place, name, *factor, value);
        }
        let factor = self.factor(place, key);
        let wrong = |problem: &str, next| {
            Err(place.wrong(value.span().start, format!("`{name}` {problem}"), next))
        };
        let listed = value.get_ref().as_array();
        let settings = listed.map(|l| l.iter().map(setting_of).collect::<Option<Vec<_>>>());
        let values = match settings.flatten() {
            _ if is_all(value) => Values::All,
            Some(settings) if !settings.is_empty() => Values::Listed(settings),
            Some(_) => {
                return wrong(
                    "varies over no value",
                    "list values, or write \"all\" for those that each operator offers",
                );
            }
            None => {
                return wrong(
                    "is neither \"all\" nor a list of values",
                    "write \"all\", or a list such as [1, 2, 4]",
                );
            }
        };
        self.sweep.vary.insert(factor, values);
        Ok(())
    }

    /// A factor of the schedule, which the device is to know.
    fn factor(&mut self, place: &Place<'_>, key: &Spanned<String>) -> Factor {
        let factor = Factor::from(key.get_ref().as_str());
        self.factors
            .push((factor.clone(), place.line(key.span().start)));
        factor
    }

    /// A factor of the run: what it is, is a setting or another import.
    fn vary_run(
        &mut self,
        place: &Place<'_>,
        name: &str,
        factor: RunFactor,
        value: &Spanned<Value>,
    ) -> Result<(), SweepError> {
        let at = value.span().start;
        if is_all(value) && name == "threads" {
            self.settings.insert("threads", vec!["1..max".to_owned()]);
            return Ok(());
        }
        let Some(listed) = value.get_ref().as_array().filter(|l| !l.is_empty()) else {
            return Err(place.wrong(
                at,
                format!("`{name}` must be a list of at least one value"),
                "list what it shall be, as in threads = [1, 2, \"max\"]",
            ));
        };
        let numbers = || {
            let positive = |v: &Value| v.as_integer().filter(|n| *n > 0).map(|n| n as u64);
            let numbers: Option<Vec<u64>> = listed.iter().map(positive).collect();
            numbers.ok_or_else(|| {
                place.wrong(
                    at,
                    format!("`{name}` takes whole numbers from 1 up"),
                    "as in batch = [1, 4, 16]",
                )
            })
        };
        match factor {
            RunFactor::Setting(setting) => {
                self.settings.insert(setting, place.texts(value)?);
            }
            RunFactor::Batch => self.sweep.batches = numbers()?,
            RunFactor::InputSize => self.sweep.input_sizes = numbers()?,
        }
        Ok(())
    }

    fn fix(
        &mut self,
        place: &Place<'_>,
        key: &Spanned<String>,
        value: &Spanned<Value>,
    ) -> Result<(), SweepError> {
        let name = key.get_ref().as_str();
        let factor = self.factor(place, key);
        if self.sweep.vary.contains_key(&factor) {
            return Err(place.wrong(
                key.span().start,
                format!("`{name}` is both varied and fixed"),
                "keep it in one of [vary] and [fix]",
            ));
        }
        let setting = setting_of(value.get_ref()).ok_or_else(|| {
            place.wrong(
                value.span().start,
                format!("`{name}` is not one value"),
                "fix it to a number, a word, or an order of axes",
            )
        })?;
        self.sweep.fix.insert(factor, setting);
        Ok(())
    }

    /// Checks the parts against each other.
    fn agree(&self, place: &Place<'_>) -> Result<(), SweepError> {
        let sweep = &self.sweep;
        let wrong = |problem: &str, next: &str| Err(place.wrong(0, problem.to_owned(), next));
        let has_factors = !sweep.vary.is_empty() || !sweep.fix.is_empty();
        points::agree(sweep, place)?;
        match sweep.space {
            SpaceKind::Template if sweep.vary.is_empty() && sweep.schedules > 1 => wrong(
                "no factor of the schedule varies, but several schedules are wanted",
                "name factors in [vary], or set schedules to 1 (or 0 for the default schedule alone)",
            ),
            SpaceKind::Template if has_factors && sweep.schedules == 0 => wrong(
                "factors are named, but schedules = 0 leaves none to draw",
                "set schedules to how many each operator shall get",
            ),
            SpaceKind::Traces
                if sweep.operators.len() != 1 || sweep.traces.is_empty() || has_factors =>
            {
                wrong(
                    "the space traces takes recorded traces of one operator, and nothing varies",
                    "name the operator's function in `operators` and the file in `traces`, and leave out factors of the schedule",
                )
            }
            SpaceKind::Template
            | SpaceKind::Metaschedule
            | SpaceKind::Default
            | SpaceKind::Points
                if !sweep.traces.is_empty() =>
            {
                wrong(
                    "traces are given, but the space is another",
                    "use space = \"traces\", or leave `traces` out",
                )
            }
            SpaceKind::Metaschedule if has_factors => wrong(
                "the space metaschedule draws all factors of a schedule by TVM's rules",
                "use space = \"template\" to vary or fix factors, or leave [vary] to threads, cache, batch and input-size",
            ),
            SpaceKind::Metaschedule if sweep.schedules == 0 => wrong(
                "schedules = 0 leaves none to draw",
                "set schedules to how many each operator shall get",
            ),
            SpaceKind::Default if has_factors || sweep.schedules > 0 => wrong(
                "the space default has one schedule, without factors",
                "use space = \"template\", or remove `schedules` and the factors of the schedule",
            ),
            _ => Ok(()),
        }
    }
}

/// A file's text, for errors with lines.
pub(super) struct Place<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Place<'_> {
    pub(super) fn wrong(&self, offset: usize, problem: String, next: &str) -> SweepError {
        SweepError::Wrong {
            path: self.path.to_owned(),
            line: self.line(offset),
            problem,
            next: next.to_owned(),
        }
    }

    /// The line, from 1, of a byte.
    fn line(&self, offset: usize) -> usize {
        let before = self.text.bytes().take(offset);
        before.filter(|b| *b == b'\n').count() + 1
    }

    /// A setting's value as the texts that the command line would have.
    fn texts(&self, value: &Spanned<Value>) -> Result<Vec<String>, SweepError> {
        let text = |v: &Value| match v {
            Value::String(s) => Some(s.clone()),
            Value::Integer(i) => Some(i.to_string()),
            Value::Float(x) => Some(x.to_string()),
            Value::Boolean(b) => Some(b.to_string()),
            _ => None,
        };
        let texts = match value.get_ref() {
            Value::Array(items) => items.iter().map(text).collect(),
            one => text(one).map(|t| vec![t]),
        };
        texts.ok_or_else(|| {
            self.wrong(
                value.span().start,
                "not a value of a setting".to_owned(),
                "give a string, a number, or a list of them",
            )
        })
    }
}

/// Whether a factor is to take whatever is offered.
fn is_all(value: &Spanned<Value>) -> bool {
    value.get_ref().as_str() == Some("all")
}

fn setting_of(value: &Value) -> Option<FactorValue> {
    match value {
        Value::Integer(i) => Some(FactorValue::Number(*i)),
        Value::String(word) => Some(FactorValue::Word(word.clone())),
        Value::Array(axes) => {
            let axes: Option<Vec<String>> =
                axes.iter().map(|a| a.as_str().map(str::to_owned)).collect();
            axes.map(FactorValue::Order)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengine::device::named;

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
        assert_eq!(
            sweep.vary[&Factor::named("vector-length")],
            Values::Listed(lengths)
        );
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
            s.toml:4: unknown factor `tyle` (did you mean tile?); factors are tile, cache-tile, reduction-tile, vector-length, vector-blocks, loop-order, level-order, fuse, parallel-extent, unroll, compute-at, padding, cache-write, threads, cache, batch, input-size
            s.toml:4: `tile` varies over no value; list values, or write "all" for those that each operator offers
            s.toml:4: `tile` is neither "all" nor a list of values; write "all", or a list such as [1, 2, 4]
            s.toml:4: `batch` takes whole numbers from 1 up; as in batch = [1, 4, 16]
            s.toml:4: `threads` must be a list of at least one value; list what it shall be, as in threads = [1, 2, "max"]
            s.toml:3: max-points = 0 leaves nothing to measure; give at least 1, or leave it out
            s.toml:6: `tile` is both varied and fixed; keep it in one of [vary] and [fix]
            s.toml:6: unknown setting `bugdet` (did you mean budget?); `opcollect --print-config` lists all
            s.toml:1: no factor of the schedule varies, but several schedules are wanted; name factors in [vary], or set schedules to 1 (or 0 for the default schedule alone)
            s.toml:1: factors are named, but schedules = 0 leaves none to draw; set schedules to how many each operator shall get
            s.toml:1: the space metaschedule draws all factors of a schedule by TVM's rules; use space = "template" to vary or fix factors, or leave [vary] to threads, cache, batch and input-size
            s.toml:1: the space default has one schedule, without factors; use space = "template", or remove `schedules` and the factors of the schedule
            s.toml:1: unknown variant `tempalte`, expected one of `default`, `template`, `metaschedule`, `traces`, `points`; see docs/sweeps.md for what a sweep may say
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
            let file = file.for_device(named("llvm").unwrap()).unwrap();
            assert!(!file.about.is_empty(), "{name}");
        }
        let error = SweepFile::find("quik", &folder).unwrap_err();
        assert!(error.to_string().contains("did you mean quick?"), "{error}");
    }
}
