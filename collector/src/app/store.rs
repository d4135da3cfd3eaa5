//! `opcollect best`, `opcollect store` and `opcollect apply`.

use std::collections::BTreeMap;
use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use opdata::read_rows;
use opinstall::Home;
use opreport::output::show;
use opreport::{Exit, Misuse, View, units};
use serde_json::json;

use crate::apply::{ApplyRequest, apply};
use crate::cli::store::{BestArgs, StoreCommand, StoreFile};
use crate::render::{applied_json, applied_text, best_text};
use crate::run::Session;
use crate::store::{Added, Entry, Store, format_of, read_log};

/// The named store, or else that of the installation.
fn file(named: StoreFile) -> anyhow::Result<PathBuf> {
    match named.store {
        Some(path) => Ok(path),
        None => Ok(Home::find()?.store()),
    }
}

/// Opens a store that exists.
fn existing(path: &Path) -> anyhow::Result<Store> {
    Store::existing(path)?.ok_or_else(|| {
        let next = "tune a model (--iftune=true), or fill it: opcollect store import RUN";
        Misuse(format!("the store {} is not there; {next}", path.display())).into()
    })
}

/// Lists the best schedules: one of each workload, or all that are known of one.
///
/// # Errors
/// Fails if there is no store, or if it cannot be read.
pub(super) fn best(args: BestArgs, view: View) -> anyhow::Result<Exit> {
    let mut store = existing(&file(args.store)?)?;
    let mut entries = store.list(args.what.as_deref())?;
    if entries.is_empty()
        && let Some(what) = &args.what
    {
        let message = format!(
            "the store has no operator, kind, model or workload {what}; `opcollect best` lists all"
        );
        return Err(Misuse(message).into());
    }
    // Whether the arguments ask for all schedules of one workload.
    let is_one = args
        .what
        .as_deref()
        .is_some_and(|what| entries.iter().all(|e| e.key.workload == what));
    if is_one {
        let own = |entry: &Entry| args.what.as_deref() == Some(&entry.key.workload);
        entries = store.all()?.into_iter().filter(own).collect();
    }
    show(
        view,
        || &entries,
        |style| best_text(&entries, is_one, style),
    )?;
    Ok(Exit::Done)
}

/// Compiles a model with the best schedules.
///
/// # Errors
/// Fails as [`apply`] does.
pub(super) fn apply_best(
    request: &ApplyRequest,
    session: &mut Session<'_>,
    view: View,
) -> anyhow::Result<Exit> {
    for path in request
        .options
        .library
        .iter()
        .chain(&request.options.module)
    {
        opdata::check_output(path)?;
    }
    if let Some(folder) = request
        .options
        .database
        .as_deref()
        .filter(|folder| folder.exists())
    {
        let message = format!(
            "--database {}: it is there already, and TVM corrupts a database with two writers; name a new folder",
            folder.display()
        );
        return Err(Misuse(message).into());
    }
    let applied = apply(request, session)?;
    show(
        view,
        || applied_json(&applied),
        |style| applied_text(&applied, style),
    )?;
    Ok(Exit::Done)
}

/// Does something with a store; `here` is this machine, if imported logs were measured on it.
///
/// # Errors
/// Fails if a file cannot be read or written.
pub(super) fn perform(
    command: StoreCommand,
    here: Option<&str>,
    view: View,
) -> anyhow::Result<Exit> {
    match command {
        StoreCommand::Import { paths, store, .. } => {
            let path = file(store)?;
            let mut store = Store::open(&path)?;
            let mut added = Added::default();
            let mut left_out = BTreeMap::new();
            for from in &paths {
                let more = import(&mut store, from, here, &mut left_out)?;
                added.seen += more.seen;
                added.usable += more.usable;
                added.better += more.better;
            }
            say_added(&path, added, &left_out, view)
        }
        StoreCommand::Merge { other, store } => {
            let path = file(store)?;
            let entries = existing(&other)?.all()?;
            let better = Store::open(&path)?.add(&entries)?;
            let seen = entries.len() as u64;
            let added = Added {
                seen,
                usable: seen,
                better,
            };
            say_added(&path, added, &BTreeMap::new(), view)
        }
        StoreCommand::Export { file: to, store } => export(&mut existing(&file(store)?)?, &to),
        StoreCommand::Verify { store } => {
            let path = file(store)?;
            let contents = existing(&path)?.verify()?;
            show(
                view,
                || {
                    json!({
                        "store": path,
                        "schedules": contents.schedules,
                        "workloads": contents.workloads,
                        "machines": contents.machines,
                    })
                },
                |_| {
                    format!(
                        "{}: sound; {} of {} for {}\n",
                        path.display(),
                        units::plural(contents.schedules, "schedule"),
                        units::plural(contents.workloads, "workload"),
                        units::plural(contents.machines, "machine"),
                    )
                },
            )?;
            Ok(Exit::Done)
        }
    }
}

fn say_added(
    path: &Path,
    added: Added,
    left_out: &BTreeMap<String, u64>,
    view: View,
) -> anyhow::Result<Exit> {
    show(
        view,
        || {
            json!({
                "store": path,
                "seen": added.seen,
                "usable": added.usable,
                "better": added.better,
                "left_out": left_out,
            })
        },
        |_| {
            let mut out = format!(
                "{}: {} new or faster, of {} with a time and a schedule, of {}\n",
                path.display(),
                units::plural(added.better, "schedule"),
                added.usable,
                units::plural(added.seen, "record"),
            );
            for (reason, times) in left_out {
                out.push_str(&format!("    left out {times}: {reason}\n"));
            }
            out
        },
    )?;
    Ok(Exit::Done)
}

/// Adds a run, a dataset, what was exported, or a log of another tool.
fn import(
    store: &mut Store,
    from: &Path,
    here: Option<&str>,
    left_out: &mut BTreeMap<String, u64>,
) -> anyhow::Result<Added> {
    let first = match from.extension().is_some_and(|ending| ending == "jsonl") {
        true => first_line(from)?,
        false => String::new(),
    };
    let has = |key: &str| first.contains(&format!("\"{key}\""));
    if has("workload") && has("choice") {
        let entries = exported(from)?;
        let seen = entries.len() as u64;
        return Ok(Added {
            seen,
            usable: seen,
            better: store.add(&entries)?,
        });
    }
    if let Some(format) = format_of(from).filter(|_| !has("row_id")) {
        let log = read_log(from, format, here)?;
        for (reason, times) in log.left_out {
            *left_out.entry(reason).or_default() += times;
        }
        return Ok(Added {
            seen: log.seen,
            usable: log.entries.len() as u64,
            better: store.add(&log.entries)?,
        });
    }
    let rows = read_rows(from)?;
    let mut source = from.display().to_string();
    if let Some(row) = rows.first() {
        source = row.run_id.clone();
    }
    Ok(store.add_rows(&rows, &source)?)
}

/// The entries of a file that [`export`] wrote.
fn exported(from: &Path) -> anyhow::Result<Vec<Entry>> {
    let file = std::fs::File::open(from).with_context(|| from.display().to_string())?;
    let lines = std::io::BufReader::new(file).lines().enumerate();
    let entries = lines.map(|(number, line)| {
        let at = || format!("{}, line {}", from.display(), number + 1);
        serde_json::from_str(&line.with_context(at)?).with_context(at)
    });
    entries.collect()
}

fn first_line(file: &Path) -> anyhow::Result<String> {
    let read = std::fs::File::open(file).with_context(|| file.display().to_string())?;
    let mut first = Vec::new();
    std::io::BufReader::new(read)
        .read_until(b'\n', &mut first)
        .with_context(|| file.display().to_string())?;
    Ok(String::from_utf8_lossy(&first).into_owned())
}

/// Writes all schedules into a file beside the named one, then renames it.
fn export(store: &mut Store, to: &Path) -> anyhow::Result<Exit> {
    let folder = to
        .parent()
        .filter(|f| !f.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)
        .with_context(|| format!("cannot write into {}", folder.display()))?;
    for entry in store.all()? {
        writeln!(file, "{}", serde_json::to_string(&entry)?)?;
    }
    file.as_file().sync_all()?;
    file.persist(to)
        .with_context(|| format!("cannot write {}", to.display()))?;
    Ok(Exit::Done)
}
