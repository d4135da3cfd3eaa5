//! Summaries of made-up nightly runs, as Markdown and HTML.

use std::path::{Path, PathBuf};
use std::time::Duration;

use opdata::{Row, Status, Timestamp};
use opreport::Style;

use super::*;
use crate::compare::testing::{failed, row, write_run};
use crate::compare::{Options, compare};
use crate::nightly::digest::{Digest, Tally};
use crate::nightly::history::{Retention, SparedNight};
use crate::nightly::report::{JobOutcome, JobReport, NightlyReport, NightlyState, NotCompared};
use crate::nightly::{NightlyPlan, estimate};

fn plan() -> NightlyPlan {
    let text = "dataset = 'nights-of-no-machine'\nbudget = '6h'\n[settings]\nthreads = [1, 'max']\n\
                [[model]]\nname = 'net'\nweight = 2\nsweeps = ['tile']\n\
                [[model]]\nname = 'gone'\nsettings = { input = ['x: 1x3'] }\n";
    NightlyPlan::parse(Path::new("nightly.toml"), text, "2026-11-20").unwrap()
}

fn report() -> NightlyReport {
    let folder = tempfile::tempdir().unwrap();
    let a: Vec<Row> = (0..6)
        .map(|i| row(&format!("op_{i}"), 1, 1e5 * f64::from(i + 1)))
        .collect();
    let mut b = a.clone();
    b[1] = row("op_1", 1, 2.6e5);
    b[2] = failed(b[2].clone(), Status::Crashed, "signal 11 in <f> | *p");
    b[4].drift_ratio = Some(1.2);
    let a = write_run(&folder.path().join("a"), "before", &a, |_| ());
    let b = write_run(&folder.path().join("b"), "tonight", &b, |_| ());
    let options = Options {
        threshold: 0.05,
        allow_other_machine: false,
    };
    let comparison = compare(&[a], std::slice::from_ref(&b), options).unwrap();
    let plan = plan();
    let mut tally = Tally::default();
    let jobs = plan.jobs.iter().map(|job| {
        let mut report = JobReport::new(job, plan.job_folder(job), Duration::from_secs(7200));
        report.wall_ns = 90_000_000_000;
        report
    });
    let mut jobs: Vec<JobReport> = jobs.collect();
    jobs[0].digest = Digest::read(&b, &mut tally).unwrap();
    jobs[0].outcome = JobOutcome::PointsFailed;
    jobs[0].baseline = Some(PathBuf::from("nights/date=2026-11-19/model=net"));
    jobs[1].outcome = JobOutcome::Failed {
        exit_code: Some(1),
        reason: "no such model".to_owned(),
    };
    NightlyReport {
        date: plan.date.clone(),
        config: plan.config.clone(),
        folder: plan.night_folder(),
        started: Timestamp::from_unix_ms(0),
        ended: Timestamp::from_unix_ms(0),
        budget_ns: plan.budget_ns,
        wall_ns: 180_000_000_000,
        max_failed_share: 0.05,
        state: NightlyState::Complete,
        jobs,
        findings: tally.findings(),
        comparison: Some(comparison),
        not_compared: vec![NotCompared {
            reason: "no earlier night on this machine".to_owned(),
            jobs: (1..8).map(|job| format!("gone-{job}, llvm")).collect(),
        }],
        retention: Retention {
            spared: vec![SparedNight {
                date: "2026-11-01".to_owned(),
                baseline_of: vec!["model=gone".into()],
            }],
            removed: vec!["nights/date=2026-10-31".into()],
        },
    }
}

// Longer than other functions: it holds the whole page.
#[test]
fn the_summary_in_markdown() {
    insta::assert_snapshot!(nightly_markdown(&report()), @r"
    # Night of 2026-11-20

    1 regression.

    2 jobs, 1 failed; 6 points, 5 measured, 16.7 % of those tried failed (allowed: 5.0 %); 3 min of 6 h used.

    ## Regressions

    Surely slower than before, by more than 5.0 %.

    | operator | model | shapes | threads | before | tonight | ratio | 95 % interval | p |
    | --- | --- | --- | ---: | ---: | ---: | ---: | --- | ---: |
    | op_1 | net, batch 1 | 1x64;64x64 | 1 | 200.0 µs | 260.0 µs | 1.300 | 1.220 to 1.385 | \<0.001 |

    ## Failed tonight, measured before

    | point (A: before, B: tonight) |
    | --- |
    | op_2, 1 thread, net, batch 1: measured in A, crashed (signal 11 in \<f\> \| \*p) in B |

    ## All operators

    Geometric mean of tonight's times over those before: 1.054 (1.024 to 1.084); 3.0 % from run to run is assumed, with too few operators to tell.

    1 slower, 0 faster, 0 unclear, 4 the same; 6 points in both, 0 only before, 0 only tonight.

    ## Not compared

    | reason | jobs | which |
    | --- | ---: | --- |
    | no earlier night on this machine | 7 | gone-1, llvm; gone-2, llvm; gone-3, llvm; gone-4, llvm; gone-5, llvm; … 2 more |

    ## Jobs

    | model | target | sweep | points | measured | time | of | against | end |
    | --- | --- | --- | ---: | ---: | ---: | ---: | --- | --- |
    | net | llvm | tile | 6 | 5 | 90 s | 2 h | 2026-11-19 | done in 90 s, some points failed |
    | gone | llvm |  | 0 | 0 | 90 s | 2 h |  | failed (exit code 1): no such model |

    ## Points

    5 measured, 1 crashed.

    | points | status | reason | for example |
    | ---: | --- | --- | --- |
    | 1 | crashed | signal 11 in \<f\> \| \*p | tonight.000002 |

    ## Slowest operators

    | operator | model | shapes | threads | best median | GFLOP/s | row |
    | --- | --- | --- | ---: | ---: | ---: | --- |
    | op_5 | net | 1x64;64x64 | 1 | 600.0 µs | 1.67 | tonight.000005 |
    | op_4 | net | 1x64;64x64 | 1 | 500.0 µs | 2.00 | tonight.000004 |
    | op_3 | net | 1x64;64x64 | 1 | 400.0 µs | 2.50 | tonight.000003 |
    | op_1 | net | 1x64;64x64 | 1 | 260.0 µs | 3.85 | tonight.000001 |
    | op_0 | net | 1x64;64x64 | 1 | 100.0 µs | 10.0 | tonight.000000 |

    ## Operators with the highest rates

    | operator | model | shapes | threads | best median | GFLOP/s | row |
    | --- | --- | --- | ---: | ---: | ---: | --- |
    | op_0 | net | 1x64;64x64 | 1 | 100.0 µs | 10.0 | tonight.000000 |
    | op_1 | net | 1x64;64x64 | 1 | 260.0 µs | 3.85 | tonight.000001 |
    | op_3 | net | 1x64;64x64 | 1 | 400.0 µs | 2.50 | tonight.000003 |
    | op_4 | net | 1x64;64x64 | 1 | 500.0 µs | 2.00 | tonight.000004 |
    | op_5 | net | 1x64;64x64 | 1 | 600.0 µs | 1.67 | tonight.000005 |

    ## Steadiness of the machine

    Time of the reference kernel around each point over its best in the run; beyond 1.10 the machine was disturbed. Whole models count once for each number of threads.

    | job | median | 95th percentile | largest | points disturbed | whole models disturbed |
    | --- | ---: | ---: | ---: | ---: | ---: |
    | net, llvm, tile | 1.000 | 1.200 | 1.200 | 1 of 6 | none timed |

    ## Older nights

    Removed 2026-10-31.

    Kept 2026-11-01: no newer night has measured model=gone.
    ");
}

#[test]
fn the_page_stands_alone() {
    let page = nightly_html(&report());
    for part in [
        "<h1>Night of 2026-11-20</h1>",
        "1 regression.",
        "op_1",
        "1.300",
        "<svg",
        "signal 11 in &lt;f&gt; | *p",
        "Reference kernel",
    ] {
        let found = page.contains(part) || page.to_lowercase().contains(&part.to_lowercase());
        assert!(found, "no {part}");
    }
    for outside in ["http:", "https:", "<script src", "src=", "href="] {
        assert!(!page.contains(outside), "{outside}");
    }
    let count = |text: String| page.matches(&text).count();
    for tag in [
        "table", "tr", "td", "th", "svg", "h2", "p", "text", "g", "body", "html",
    ] {
        let opened = count(format!("<{tag}>")) + count(format!("<{tag} "));
        assert_eq!(opened, count(format!("</{tag}>")), "{tag}");
    }
}

#[test]
fn the_json_has_the_same_facts() {
    let object: serde_json::Value = serde_json::from_str(&nightly_json(&report())).unwrap();
    assert_eq!(object["jobs"][1]["outcome"]["outcome"], "failed");
    assert_eq!(object["comparison"]["changes"][0]["operator"], "op_1");
    assert_eq!(object["findings"]["reasons"][0]["points"], 1);
    assert_eq!(object["jobs"][0]["digest"]["drift"]["disturbed"], 1);
}

#[test]
fn the_plan_of_a_night() {
    insta::assert_snapshot!(nightly_plan_text(&estimate(plan()).unwrap(), Style::PLAIN), @r"
    night of 2026-11-20: 2 jobs in 6 h, kept in nights-of-no-machine/date=2026-11-20

    net, llvm, tile  4 h
        opcollect --modelsource local --modelname net --target llvm --sweep tile --out nights-of-no-machine/date=2026-11-20/model=net/backend=llvm/sweep=tile --time-budget=14400s --threads=1,max
    gone, llvm  2 h
        opcollect --modelsource local --modelname gone --target llvm --out nights-of-no-machine/date=2026-11-20/model=gone/backend=llvm/sweep=none --time-budget=7200s '--input=x: 1x3' --threads=1,max

    a regression is surely slower by more than 5.0 %; 0.0 % may fail; 14 nights kept
    ");
}
