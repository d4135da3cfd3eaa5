//! `opcollect vta`: shows simulated runs, fits profiles to logs of boards, compares with them.

use std::path::Path;

use anyhow::Context as _;
use opreport::output::show;
use opreport::table::{Cell, Table};
use opreport::{Exit, Misuse, View, units};
use serde_json::json;
use vtasim::file::read_file;
use vtasim::log::Log;
use vtasim::show::{Timeline, disassembly, summary};
use vtasim::timing::calibrate::{fit, samples};
use vtasim::timing::compare::{Comparison, Task};
use vtasim::timing::{best::best, simulate};
use vtasim::{Profile, Tail, execute, lower, reference, stream};

use crate::cli::vta::{CalibrateArgs, LogArgs, ShowArgs, VtaCommand};

/// Columns of the Gantt chart as text.
const COLUMNS: usize = 68;

/// Carries out a request.
///
/// # Errors
/// Fails if a file cannot be read or written, or if its content makes no sense.
pub(super) fn perform(command: VtaCommand, view: View) -> anyhow::Result<Exit> {
    match command {
        VtaCommand::Show(args) => show_run(&args, view)?,
        VtaCommand::Calibrate(args) => calibrate(&args, view)?,
        VtaCommand::Compare(args) => compare(&args, view)?,
    }
    Ok(Exit::Done)
}

fn profile(name: &str) -> anyhow::Result<Profile> {
    Profile::find(name).map_err(|error| Misuse(error.to_string()).into())
}

fn show_run(args: &ShowArgs, view: View) -> anyhow::Result<()> {
    let profile = profile(&args.profile)?;
    let hardware = &profile.hardware;
    let w = &args.workload;
    let packed = w
        .packed(hardware)
        .map_err(|e| Misuse(format!("{w}: {e}")))?;
    let (program, how) = match &args.stream {
        Some(path) => {
            let text = read_file(path, stream::MAX_BYTES)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let program = stream::read(&text, hardware)
                .map_err(|e| anyhow::anyhow!("{}: {e}", path.display()))?;
            let zeros = |len: u64| vec![0_i8; len as usize];
            let data = zeros(w.batch * w.in_channels * w.height * w.width);
            let weights = zeros(w.out_channels * w.in_channels * w.kernel[0] * w.kernel[1]);
            let mut dram = reference::pack(hardware, w, &packed, &data, &weights, &[]);
            execute::execute(&profile, &program, &mut dram)
                .with_context(|| path.display().to_string())?;
            (program, path.display().to_string())
        }
        None => {
            let fastest = best(&profile, w, Tail::AUTOTVM).map(|(config, _)| config);
            let none = || Misuse(format!("{w}: no configuration of it fits the chip"));
            let mut config = fastest.ok_or_else(none)?;
            for knob in &args.knobs {
                config.set(&knob.name, knob.value);
            }
            let program = lower(hardware, w, &config, Tail::AUTOTVM)
                .map_err(|e| Misuse(format!("{config}: {e}")))?;
            (program, config.to_string())
        }
    };
    let simulated = simulate(&profile, &program)?;
    let timeline = Timeline::of(&profile, &program)?;
    if let Some(path) = &args.svg {
        let title = format!("{w}; {how}; simulated, {}", profile.name);
        write(path, timeline.svg(&title).as_bytes())?;
    }
    if let Some(path) = &args.trace {
        write(path, &timeline.perfetto())?;
    }
    let text = || {
        let doubts: String = profile
            .doubts
            .iter()
            .map(|doubt| format!("doubt: {doubt}\n"))
            .collect();
        let listing = if args.disassembly {
            disassembly(&program)
        } else {
            String::new()
        };
        format!(
            "{w}\n{how}\n{}, simulated: nothing was measured\n{doubts}\n{}\n{}{listing}",
            profile.title,
            summary(&profile, &simulated),
            timeline.text(COLUMNS)
        )
    };
    let object = || {
        let mut object = json!({
            "workload": w, "how": how, "profile": profile.name, "simulated": simulated,
            "limit": simulated.limit(hardware).word(),
        });
        if args.disassembly {
            let lines = program.instructions.iter().map(ToString::to_string);
            object["instructions"] = lines.collect();
        }
        object
    };
    Ok(show(view, object, |_| text())?)
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

fn read(args: &LogArgs) -> anyhow::Result<Log> {
    Log::read(&args.log).with_context(|| format!("cannot read {}", args.log.display()))
}

fn calibrate(args: &CalibrateArgs, view: View) -> anyhow::Result<()> {
    let before = profile(&args.log.profile)?;
    let log = read(&args.log)?;
    let (samples, refused) = samples(&before, &log.tasks());
    let tasks = samples
        .iter()
        .map(|s| s.task)
        .max()
        .map_or(0, |last| last + 1);
    /// A fit of eleven parameters needs more records than that, and tasks to leave out.
    const LEAST: usize = 16;
    if samples.len() < LEAST || tasks < 3 {
        anyhow::bail!(
            "{}: {} of {tasks} tasks ran and can be lowered for {}; a fit needs {LEAST} of 3 tasks or more",
            args.log.log.display(),
            units::plural(samples.len() as u64, "configuration"),
            before.name
        );
    }
    let fitted = fit(&before, &samples);
    let mut after = before.clone();
    after.timing = fitted.timing;
    after.calibration.source = args
        .log
        .log
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    after.calibration.date = opdata::Timestamp::now()
        .to_string()
        .chars()
        .take(10)
        .collect();
    after.calibration.records = samples.len() as u64;
    after.calibration.left_out_error_percent =
        Some((fitted.left_out_error_percent() * 100.0).round() / 100.0);
    if let Some(path) = &args.out {
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        after.name = name;
        write(path, toml::to_string(&after)?.as_bytes())?;
    }
    let parameters = || before.timing.named().into_iter().zip(after.timing.named());
    let text = |style| {
        let mut table = Table::headed("parameter|#before|#fitted");
        for ((name, old), (_, new)) in parameters() {
            let cell = |value: f64| Cell::from(format!("{value:.3}"));
            table.row([
                name.trim_start_matches("timing.").into(),
                cell(old),
                cell(new),
            ]);
        }
        format!(
            "{}\n{} of {tasks} tasks fitted, {refused} cannot be lowered\n\
             mean error {:.2} %, on tasks left out of the fit {:.2} % (largest {:.1} %)\n",
            table.render(style),
            units::plural(samples.len() as u64, "configuration"),
            fitted.error_percent,
            fitted.left_out_error_percent(),
            fitted.left_out_percent.iter().copied().fold(0.0, f64::max)
        )
    };
    let object = || {
        json!({
            "profile": before.name, "configurations": samples.len(), "tasks": tasks, "refused": refused,
            "error_percent": fitted.error_percent,
            "left_out_error_percent": fitted.left_out_error_percent(),
            "timing": after.timing,
        })
    };
    Ok(show(view, object, text)?)
}

fn compare(args: &LogArgs, view: View) -> anyhow::Result<()> {
    let profile = profile(&args.profile)?;
    let log = read(args)?;
    let compared = Comparison::of(&profile, &log);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let largest = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let all = compared.errors_percent();
    let ordered = compared.tasks.iter().map(Task::ordered);
    let (pairs, right) = ordered.fold((0, 0), |(p, r), (pairs, right)| (p + pairs, r + right));
    let chosen: Vec<f64> = compared
        .tasks
        .iter()
        .filter_map(Task::chosen_over_best)
        .collect();
    let found = chosen.iter().filter(|over| **over <= 1.01).count();
    let object = || {
        let tasks = compared.tasks.iter().map(|task| {
            let errors = task.errors_percent();
            json!({
                "workload": task.workload, "configurations": task.times.len(), "mean_error_percent": mean(&errors),
                "largest_error_percent": largest(&errors), "chosen_over_best": task.chosen_over_best(),
            })
        });
        json!({
            "profile": profile.name, "tasks": tasks.collect::<Vec<_>>(), "mean_error_percent": mean(&all),
            "largest_error_percent": largest(&all), "pairs": pairs, "pairs_in_order": right,
            "tasks_with_a_choice": chosen.len(), "best_found": found, "refused": compared.refused,
            "wrongly_refused": compared.wrongly_refused.len(), "wrongly_accepted": compared.wrongly_accepted.len(),
            "unknown": compared.unknown, "other_lines": log.others, "damaged_lines": log.damaged,
        })
    };
    let text = |style| {
        let mut table = Table::headed("task|#configs|#error %|#largest|#in order|#choice");
        for task in &compared.tasks {
            let errors = task.errors_percent();
            let (pairs, right) = task.ordered();
            table.row([
                task.workload.to_string().into(),
                task.times.len().to_string().into(),
                format!("{:.2}", mean(&errors)).into(),
                format!("{:.2}", largest(&errors)).into(),
                Cell::from(if pairs > 0 {
                    format!("{right}/{pairs}")
                } else {
                    String::new()
                }),
                Cell::from(
                    task.chosen_over_best()
                        .map_or_else(String::new, |over| format!("{over:.3}")),
                ),
            ]);
        }
        let mut text = format!(
            "{}\nsimulated with {} beside the board: mean error {:.2} %, largest {:.1} %\n\
         {right} of {pairs} pairs that differ by more than 1 % are in the board's order; the choice of the simulator is \
         within 1 % of the board's best in {found} of {} tasks\n\
         {} that the compiler refused are refused here, {} are not; {} that ran are refused here; {} failed on the board \
         for other reasons\n",
            table.render(style),
            profile.name,
            mean(&all),
            largest(&all),
            chosen.len(),
            compared.refused,
            compared.wrongly_accepted.len(),
            compared.wrongly_refused.len(),
            compared.unknown,
        );
        for (workload, config, why) in compared.wrongly_refused.iter().take(5) {
            text.push_str(&format!(
                "  refused though it ran: {workload}; {config}: {why}\n"
            ));
        }
        for (workload, config) in compared.wrongly_accepted.iter().take(5) {
            text.push_str(&format!(
                "  accepted though it was refused: {workload}; {config}\n"
            ));
        }
        if log.others + log.damaged > 0 {
            text.push_str(&format!(
                "{} lines are of other tasks, {} are damaged\n",
                log.others, log.damaged
            ));
        }
        text
    };
    Ok(show(view, object, text)?)
}
