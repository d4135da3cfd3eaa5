//! Nightly runs of made-up jobs: history, budgets, resume, retention.

use std::collections::HashMap;
use std::path::Path;
use std::{fs, io};

use opdata::{Row, Status, read_rows};
use opreport::Exit;
use opreport::progress::Silent;
use serde_json::json;

use super::history::{apply, partitions, retention};
use super::report::{NIGHTLY_JSON, SUMMARY_HTML, SUMMARY_MD};
use super::*;
use crate::compare::Verdict;
use crate::compare::testing::{failed, row, write_run};

/// What the stand-in for the main job does with a model.
#[derive(Clone)]
enum Act {
    /// Writes these rows and ends with this code.
    Rows(Vec<Row>, i32),
    /// Writes these rows and a whole model that was measured at this slowdown.
    Model(Vec<Row>, f64),
    /// Writes these rows and stops because its time is over.
    Part(Vec<Row>),
    /// Stops with the first rows because its time is over, and writes all when it is resumed.
    InTwoParts(Vec<Row>),
    /// Ends with this code and these last words.
    Fail(i32, &'static str),
    /// Interrupts the night.
    Interrupt,
    /// Cannot be started.
    Missing,
}

struct StandIn {
    acts: HashMap<&'static str, Act>,
    seen: Vec<String>,
    shares: Vec<Duration>,
}

impl JobRunner for StandIn {
    fn run(&mut self, command: &JobCommand, interrupt: &Interrupt) -> io::Result<JobEnd> {
        let args: Vec<&str> = command.args.iter().filter_map(|a| a.to_str()).collect();
        self.seen.push(args.join(" "));
        self.shares.push(command.stop_after - GRACE);
        let after = |flag: &str| {
            let at = args.iter().position(|arg| *arg == flag)?;
            args.get(at + 1).copied()
        };
        let folder = after("--out").or(after("--resume")).unwrap();
        let name = self
            .acts
            .keys()
            .find(|name| folder.contains(&format!("model={name}/")))
            .unwrap();
        let act = match self.acts[name].clone() {
            Act::InTwoParts(rows) if after("--resume").is_some() => Act::Rows(rows, 0),
            Act::InTwoParts(rows) => Act::Part(rows[..1].to_vec()),
            other => other,
        };
        match act {
            Act::Rows(rows, code) => {
                fs::remove_dir_all(folder).ok();
                write_run(Path::new(folder), folder, &rows, |_| ());
                Ok(JobEnd::Exited(code))
            }
            Act::Model(rows, drift) => {
                fs::remove_dir_all(folder).ok();
                write_run(Path::new(folder), folder, &rows, |_| ());
                let times =
                    |drift| json!({"threads": 1, "taken": {"samples": [1e6]}, "drift": drift});
                let record = json!({"threads": [times(1.0), times(drift)]});
                fs::write(
                    Path::new(folder).join("whole_model.json"),
                    record.to_string(),
                )?;
                Ok(JobEnd::Exited(0))
            }
            Act::Part(rows) => {
                fs::remove_dir_all(folder).ok();
                write_run(Path::new(folder), folder, &rows, |m| {
                    m.state = RunState::Interrupted
                });
                Ok(JobEnd::Exited(0))
            }
            Act::Fail(code, words) => {
                fs::write(&command.log, words)?;
                Ok(JobEnd::Exited(code))
            }
            Act::Interrupt => {
                interrupt.request();
                Ok(JobEnd::Exited(130))
            }
            Act::InTwoParts(_) => unreachable!("it is one of its parts by now"),
            Act::Missing => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

struct NightlyFolder {
    folder: tempfile::TempDir,
}

impl NightlyFolder {
    fn new() -> NightlyFolder {
        NightlyFolder {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn dataset(&self) -> PathBuf {
        self.folder.path().join("nights")
    }

    fn plan(&self, date: &str, models: &[&str]) -> NightlyPlan {
        let mut text = format!(
            "dataset = '{}'\nbudget = '1h'\nkeep = 2\nmax-failed = '10%'\n",
            self.dataset().display()
        );
        for model in models {
            text.push_str(&format!("[[model]]\nname = '{model}'\n"));
        }
        NightlyPlan::parse(Path::new("nightly.toml"), &text, date).unwrap()
    }

    fn night(&self, date: &str, acts: &[(&'static str, Act)]) -> (NightlyReport, StandIn) {
        let models: Vec<&str> = acts.iter().map(|(name, _)| *name).collect();
        self.run(&self.plan(date, &models), acts)
    }

    fn run(&self, plan: &NightlyPlan, acts: &[(&'static str, Act)]) -> (NightlyReport, StandIn) {
        let mut runner = StandIn {
            acts: acts.iter().cloned().collect(),
            seen: Vec::new(),
            shares: Vec::new(),
        };
        let mut session = Session {
            runner: &mut runner,
            interrupt: Interrupt::default(),
            progress: &mut Silent,
            summary: crate::render::nightly_summary,
        };
        (super::run(plan, &mut session).unwrap(), runner)
    }

    fn dates(&self) -> Vec<String> {
        let nights = partitions(&self.dataset()).unwrap();
        nights.into_iter().map(|night| night.date).collect()
    }
}

/// Six operators of a model; one of them slower by a factor.
fn rows(model: &str, factor: f64) -> Vec<Row> {
    (0..6)
        .map(|i| {
            let slower = if i == 3 { factor } else { 1.0 };
            let mut row = row(&format!("op_{i}"), 1, 1e5 * f64::from(i + 1) * slower);
            row.model_name = Some(model.to_owned());
            row
        })
        .collect()
}

fn good(model: &str) -> Act {
    Act::Rows(rows(model, 1.0), 0)
}

#[test]
fn a_second_nightly_run_is_compared_with_the_first() {
    let folder = NightlyFolder::new();
    let (first, _) = folder.night("2026-11-19", &[("mlp", good("mlp")), ("net", good("net"))]);
    assert_eq!(
        (first.exit(), first.comparison.is_none()),
        (Exit::Done, true)
    );
    let alone: Vec<usize> = first.not_compared.iter().map(|n| n.jobs.len()).collect();
    assert_eq!(alone, [2]);
    let slow = Act::Rows(rows("net", 1.5), 0);
    let (second, _) = folder.night("2026-11-20", &[("mlp", good("mlp")), ("net", slow)]);
    assert_eq!((second.exit(), second.regressions()), (Exit::Regression, 1));
    let worst = &second.comparison.as_ref().unwrap().changes[0];
    assert_eq!(
        (worst.model.as_str(), worst.operator.as_str(), worst.verdict),
        ("net, batch 1", "op_3", Verdict::Regression)
    );
    let base = second.jobs[0].baseline.as_ref().unwrap();
    assert!(base.ends_with("date=2026-11-19/model=mlp/backend=llvm/sweep=none"));
    for file in [SUMMARY_MD, SUMMARY_HTML, NIGHTLY_JSON] {
        assert!(second.folder.join(file).metadata().unwrap().len() > 100);
    }
    // The partitions are read as one dataset.
    let rows = read_rows(
        &folder
            .dataset()
            .join("date=2026-11-20/model=net/backend=llvm/sweep=none"),
    );
    assert_eq!(rows.unwrap().len(), 6);
}

#[test]
fn a_job_that_fails_does_not_stop_the_others() {
    let folder = NightlyFolder::new();
    let acts = [
        ("bad", Act::Fail(1, "error: no such operator\n")),
        ("none", Act::Missing),
        ("mlp", good("mlp")),
    ];
    let (night, runner) = folder.night("2026-11-20", &acts);
    assert_eq!(runner.seen.len(), 3);
    assert_eq!(night.jobs[2].outcome, JobOutcome::Done);
    let words: Vec<String> = night.jobs.iter().map(JobReport::words).collect();
    assert_eq!(words[0], "failed (exit code 1): no such operator");
    assert!(words[1].starts_with("failed: it could not be started"));
    assert_eq!(night.exit(), Exit::PointsFailed);
    let (all, _) = folder.night("2026-11-21", &acts[..2]);
    assert_eq!(all.exit(), Exit::Failed);
}

#[test]
fn too_many_failed_points_have_an_exit_code() {
    let folder = NightlyFolder::new();
    let mut some = rows("mlp", 1.0);
    some[0] = failed(some[0].clone(), Status::Crashed, "signal 11");
    let (night, _) = folder.night("2026-11-20", &[("mlp", Act::Rows(some.clone(), 4))]);
    assert_eq!(night.jobs[0].outcome, JobOutcome::PointsFailed);
    assert_eq!(night.findings.reasons[0].reason, "signal 11");
    assert_eq!(night.exit(), Exit::PointsFailed, "1 of 6 is beyond 10 %");
    some.extend((6..20).map(|i| row(&format!("op_{i}"), 1, 1e5)));
    let (night, _) = folder.night("2026-11-21", &[("mlp", Act::Rows(some, 4))]);
    assert_eq!(night.exit(), Exit::Done, "1 of 20 is not");
}

#[test]
fn time_that_is_left_over_goes_to_the_next_jobs() {
    let plan = NightlyFolder::new().plan("2026-11-20", &["a", "b", "c"]);
    let mut jobs = plan.jobs;
    jobs[0].weight = 2.0;
    let hour = Duration::from_secs(3600);
    assert_eq!(share(hour, &jobs), hour / 2);
    assert_eq!(share(hour, &jobs[1..]), hour / 2);
    assert_eq!(share(hour, &jobs[2..]), hour);
    assert_eq!(share(Duration::ZERO, &jobs), Duration::ZERO);
    let folder = NightlyFolder::new();
    let (_, runner) = folder.night("2026-11-20", &[("mlp", good("mlp")), ("net", good("net"))]);
    assert!(runner.shares[0] <= hour / 2 && runner.shares[1] > hour / 2);
    assert!(
        runner.seen[0].contains("--time-budget=1799s"),
        "{}",
        runner.seen[0]
    );
}

#[test]
fn a_night_without_time_begins_nothing() {
    let folder = NightlyFolder::new();
    let mut plan = folder.plan("2026-11-20", &["mlp"]);
    plan.budget_ns = 1_000_000_000;
    let (night, runner) = folder.run(&plan, &[("mlp", good("mlp"))]);
    assert!(runner.seen.is_empty());
    assert_eq!(night.jobs[0].words(), "not begun: no time was left");
}

#[test]
fn an_interrupted_nightly_run_is_resumed() {
    let folder = NightlyFolder::new();
    let acts = [
        ("mlp", good("mlp")),
        ("net", Act::Interrupt),
        ("late", good("late")),
    ];
    let (night, runner) = folder.night("2026-11-20", &acts);
    assert_eq!(
        (night.exit(), night.state),
        (Exit::Interrupted, NightlyState::Interrupted)
    );
    assert_eq!(runner.seen.len(), 2);
    assert_eq!(night.jobs[1].outcome, JobOutcome::Interrupted);
    // A run of `net` that was begun and not finished.
    let begun = folder
        .dataset()
        .join("date=2026-11-20/model=net/backend=llvm/sweep=none");
    write_run(&begun, "net", &rows("net", 1.0)[..2], |m| {
        m.state = RunState::Interrupted
    });
    let acts = [
        ("mlp", good("mlp")),
        ("net", good("net")),
        ("late", good("late")),
    ];
    let (night, runner) = folder.night("2026-11-20", &acts);
    assert_eq!(night.jobs[0].outcome, JobOutcome::Earlier);
    assert_eq!(runner.seen.len(), 2, "{:?}", runner.seen);
    assert!(runner.seen[0].starts_with("--resume") && runner.seen[1].contains("--out"));
    assert_eq!((night.counts().rows(), night.exit()), (18, Exit::Done));
}

#[test]
fn a_job_that_used_up_its_time_is_resumed_with_the_nightly_run() {
    let folder = NightlyFolder::new();
    let part = Act::Part(rows("mlp", 1.0)[..2].to_vec());
    let (night, _) = folder.night("2026-11-20", &[("mlp", part)]);
    assert_eq!(night.jobs[0].outcome, JobOutcome::OutOfTime);
    assert_eq!((night.counts().rows(), night.exit()), (2, Exit::Done));
    let (night, runner) = folder.night("2026-11-20", &[("mlp", good("mlp"))]);
    assert!(runner.seen[0].starts_with("--resume"), "{:?}", runner.seen);
    assert_eq!(night.jobs[0].outcome, JobOutcome::Done);
}

#[test]
fn jobs_that_need_more_than_their_share_get_what_the_night_has_left() {
    let folder = NightlyFolder::new();
    let long = |model| Act::InTwoParts(rows(model, 1.0));
    let acts = [
        ("mlp", long("mlp")),
        ("net", good("net")),
        ("rnn", long("rnn")),
    ];
    let (night, runner) = folder.night("2026-11-20", &acts);
    let resumed = runner.seen.iter().map(|args| args.starts_with("--resume"));
    assert_eq!(
        resumed.collect::<Vec<_>>(),
        [false, false, false, true, true]
    );
    assert!(night.jobs.iter().all(|j| j.outcome == JobOutcome::Done));
    assert_eq!(night.counts().rows(), 18);
    let hour = Duration::from_secs(3600);
    assert!(runner.shares[3] <= hour / 2 && runner.shares[4] > hour / 2);
    assert!(night.jobs[0].share_ns > night.jobs[1].share_ns);
}

#[test]
fn rows_that_cannot_be_read_are_a_failed_job() {
    let folder = NightlyFolder::new();
    folder.night("2026-11-19", &[("mlp", good("mlp"))]);
    let (_, _) = folder.night("2026-11-20", &[("mlp", good("mlp"))]);
    let csv = folder
        .dataset()
        .join("date=2026-11-20/model=mlp/backend=llvm/sweep=none/rows.csv");
    let text = fs::read_to_string(&csv).unwrap();
    fs::write(&csv, &text[..text.len() - 9]).unwrap();
    let (night, _) = folder.night("2026-11-20", &[("mlp", good("mlp"))]);
    assert!(
        night.jobs[0].words().contains("torn"),
        "{}",
        night.jobs[0].words()
    );
    assert!(night.comparison.is_none());
    assert!(
        night.not_compared[0].reason.contains("torn"),
        "{:?}",
        night.not_compared
    );
}

#[test]
fn disturbed_jobs_are_measured_again_where_that_is_wanted() {
    let folder = NightlyFolder::new();
    let mut disturbed = rows("net", 1.0);
    disturbed[2].drift_ratio = Some(1.4);
    let acts = [("mlp", good("mlp")), ("net", Act::Rows(disturbed, 0))];
    let plan = |wanted| NightlyPlan {
        repeat_disturbed: wanted,
        ..folder.plan("2026-11-19", &["mlp", "net"])
    };
    let (night, _) = folder.run(&plan(false), &acts);
    assert_eq!(night.jobs.len(), 2);
    let (night, runner) = folder.run(&plan(true), &acts);
    let labels: Vec<&str> = night.jobs.iter().map(|job| job.label.as_str()).collect();
    let measured = ["net, llvm", "net, llvm, again", "net, llvm, again-2"];
    assert_eq!((labels[0], &labels[1..]), ("mlp, llvm", &measured[..]));
    assert_eq!(runner.seen.len(), 2, "the others were done before");
    for (command, sweep) in runner.seen.iter().zip(["none-again", "none-again-2"]) {
        let folder = format!("date=2026-11-19/model=net/backend=llvm/sweep={sweep} ");
        assert!(format!("{command} ").contains(&folder), "{command}");
    }
    assert_eq!(night.not_compared[0].jobs, ["mlp, llvm", "net, llvm"]);
    let summary = fs::read_to_string(night.folder.join(SUMMARY_MD)).unwrap();
    assert!(
        summary.contains(
            "2 jobs, 1 of them measured again because something else disturbed them; 24 points"
        ),
        "{summary}"
    );
    assert!(summary.contains("| net | llvm | again |"), "{summary}");
    let (next, _) = folder.run(
        &NightlyPlan {
            date: "2026-11-20".to_owned(),
            ..plan(true)
        },
        &acts,
    );
    let baselines: Vec<bool> = next.jobs.iter().map(|job| job.baseline.is_some()).collect();
    assert_eq!(baselines, [true, true, false, false]);
}

#[test]
fn jobs_that_were_quiet_the_second_time_are_not_measured_a_third() {
    let folder = NightlyFolder::new();
    let mut disturbed = rows("net", 1.0);
    disturbed[2].drift_ratio = Some(1.4);
    let plan = NightlyPlan {
        repeat_disturbed: true,
        ..folder.plan("2026-11-19", &["net"])
    };
    let once = NightlyPlan {
        repeat_disturbed: false,
        ..plan.clone()
    };
    folder.run(&once, &[("net", Act::Rows(disturbed, 0))]);
    let (night, _) = folder.run(&plan, &[("net", good("net"))]);
    let labels: Vec<&str> = night.jobs.iter().map(|job| job.label.as_str()).collect();
    assert_eq!(labels, ["net, llvm", "net, llvm, again"]);
}

#[test]
fn a_job_whose_whole_model_alone_was_disturbed_is_measured_again() {
    let folder = NightlyFolder::new();
    let acts = [
        ("mlp", Act::Model(rows("mlp", 1.0), 1.09)),
        ("net", Act::Model(rows("net", 1.0), 1.4)),
    ];
    let plan = NightlyPlan {
        repeat_disturbed: true,
        ..folder.plan("2026-11-19", &["mlp", "net"])
    };
    let (night, _) = folder.run(&plan, &acts);
    let labels: Vec<&str> = night.jobs.iter().map(|job| job.label.as_str()).collect();
    assert_eq!(labels.len(), 4);
    assert!(labels[1..].iter().all(|label| label.starts_with("net, ")));
    let summary = fs::read_to_string(night.folder.join(SUMMARY_MD)).unwrap();
    let machine = summary.split("## Steadiness").nth(1).unwrap();
    assert!(machine.contains("| 0 of 6 | 1 of 2 |"), "{machine}");
}

#[test]
fn old_nights_go_but_never_the_only_baseline() {
    let folder = NightlyFolder::new();
    folder.night("2026-11-16", &[("mlp", good("mlp"))]);
    folder.night("2026-11-17", &[("mlp", good("mlp")), ("net", good("net"))]);
    fs::create_dir(folder.dataset().join("date=2026-02-30")).unwrap();
    fs::create_dir(folder.dataset().join("notes")).unwrap();
    let broken = [("mlp", good("mlp")), ("net", Act::Fail(1, "x"))];
    folder.night("2026-11-18", &broken);
    assert_eq!(
        folder.dates(),
        ["2026-11-17", "2026-11-18"],
        "of three nights two are kept"
    );
    let (night, _) = folder.night("2026-11-19", &broken);
    assert_eq!(night.retention.spared[0].date, "2026-11-17");
    assert_eq!(folder.dates(), ["2026-11-17", "2026-11-18", "2026-11-19"]);
    let (night, _) = folder.night("2026-11-20", &[("mlp", good("mlp")), ("net", good("net"))]);
    assert_eq!(night.retention.removed.len(), 2);
    assert_eq!(folder.dates(), ["2026-11-19", "2026-11-20"]);
    for other in ["date=2026-02-30", "notes"] {
        assert!(folder.dataset().join(other).exists(), "{other} is no night");
    }
}

#[test]
fn each_machine_has_its_own_baseline() {
    let folder = NightlyFolder::new();
    let of_machine = |date: &str, machine: &str| {
        let folder = folder
            .dataset()
            .join(format!("date={date}/model=mlp/backend=llvm/sweep=none"));
        write_run(&folder, date, &rows("mlp", 1.0), |m| {
            m.environment = serde_json::json!({"env_hash": machine});
        });
    };
    of_machine("2026-11-15", "old");
    for date in ["2026-11-16", "2026-11-17", "2026-11-18"] {
        of_machine(date, "new");
    }
    let plan = folder.plan("2026-11-18", &["mlp"]);
    let nights = partitions(&folder.dataset()).unwrap();
    let kept = retention(&plan, &nights);
    assert_eq!(kept.spared[0].date, "2026-11-15");
    assert_eq!(apply(&kept).unwrap().removed.len(), 1);
    assert_eq!(folder.dates(), ["2026-11-15", "2026-11-17", "2026-11-18"]);
    let tonight = &nights[3].runs[0];
    let base = history::baseline(&nights, "2026-11-18", tonight).unwrap();
    assert!(base.folder.to_string_lossy().contains("2026-11-17"));
    let other = JobRun {
        env_hash: Some("third".to_owned()),
        ..tonight.clone()
    };
    assert_eq!(history::baseline(&nights, "2026-11-18", &other), None);
}

#[test]
fn an_estimate_changes_nothing() {
    let folder = NightlyFolder::new();
    for date in ["2026-11-17", "2026-11-18", "2026-11-19"] {
        let folder = folder
            .dataset()
            .join(format!("date={date}/model=mlp/backend=llvm/sweep=none"));
        write_run(&folder, date, &rows("mlp", 1.0), |_| ());
    }
    let found = estimate(folder.plan("2026-11-19", &["mlp", "net"])).unwrap();
    assert_eq!(found.retention.removed.len(), 1);
    assert_eq!(
        (found.jobs[0].finished, found.jobs[1].finished),
        (true, false)
    );
    assert_eq!(found.jobs[1].share_ns, 1_800_000_000_000);
    assert_eq!(folder.dates().len(), 3);
    assert!(!folder.dataset().join(".nightly.lock").exists());
}
