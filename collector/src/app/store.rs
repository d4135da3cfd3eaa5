//! `opcollect best`, `opcollect store` and `opcollect apply`.

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
use crate::render::{applied_json, applied_text, best_json, best_text};
use crate::run::Session;
use crate::store::{Added, Entry, Store};

/// The file of a store that is named, or the installation's.
fn file(named: StoreFile) -> anyhow::Result<PathBuf> {
    match named.store {
        Some(path) => Ok(path),
        None => Ok(Home::find()?.store()),
    }
}

/// A store that is there already.
fn existing(path: &Path) -> anyhow::Result<Store> {
    if !path.is_file() {
        let next = "tune a model (--iftune=true), or fill it: opcollect store import RUN";
        return Err(Misuse(format!("the store {} is not there; {next}", path.display())).into());
    }
    Ok(Store::open(path)?)
}

/// Lists the best schedules: one of each workload, or all that are known of one.
///
/// # Errors
/// There is no store, or it cannot be read.
pub(super) fn best(args: BestArgs, view: View) -> anyhow::Result<Exit> {
    let store = existing(&file(args.store)?)?;
    let mut entries = store.list(args.what.as_deref())?;
    if entries.is_empty()
        && let Some(what) = &args.what
    {
        let message = format!(
            "the store has no operator, kind, model or workload {what}; `opcollect best` lists all"
        );
        return Err(Misuse(message).into());
    }
    // Of one workload, everything that is known.
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
        |style| best_text(&entries, is_one, style),
        || best_json(&entries),
    )?;
    Ok(Exit::Done)
}

/// Compiles a model with the best schedules.
///
/// # Errors
/// As for [`apply`].
pub(super) fn apply_best(
    request: &ApplyRequest,
    session: &mut Session<'_>,
    view: View,
) -> anyhow::Result<Exit> {
    for path in request.library.iter().chain(&request.module) {
        opdata::check_output(path)?;
    }
    if let Some(folder) = request.database.as_deref().filter(|folder| folder.exists()) {
        let message = format!(
            "--database {}: it is there already, and TVM corrupts a database with two writers; name a new folder",
            folder.display()
        );
        return Err(Misuse(message).into());
    }
    let applied = apply(request, session)?;
    show(
        view,
        |style| applied_text(&applied, style),
        || applied_json(&applied),
    )?;
    Ok(Exit::Done)
}

/// Does something with a store.
///
/// # Errors
/// A file cannot be read or written.
pub(super) fn perform(command: StoreCommand, view: View) -> anyhow::Result<Exit> {
    match command {
        StoreCommand::Import { paths, store } => {
            let path = file(store)?;
            let mut added = Added::default();
            for from in &paths {
                let more = import(&path, from)?;
                added.seen += more.seen;
                added.usable += more.usable;
                added.better += more.better;
            }
            say_added(&path, added, view)
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
            say_added(&path, added, view)
        }
        StoreCommand::Export { file: to, store } => export(&existing(&file(store)?)?, &to),
        StoreCommand::Verify { store } => {
            let path = file(store)?;
            let contents = existing(&path)?.verify()?;
            show(
                view,
                |_| {
                    format!(
                        "{}: sound; {} of {} for {}\n",
                        path.display(),
                        units::plural(contents.schedules, "schedule"),
                        units::plural(contents.workloads, "workload"),
                        units::plural(contents.machines, "machine"),
                    )
                },
                || {
                    json!({
                        "store": path,
                        "schedules": contents.schedules,
                        "workloads": contents.workloads,
                        "machines": contents.machines,
                    })
                },
            )?;
            Ok(Exit::Done)
        }
    }
}

fn say_added(path: &Path, added: Added, view: View) -> anyhow::Result<Exit> {
    show(
        view,
        |_| {
            format!(
                "{}: {} new or faster, of {} with a time and a schedule, of {}\n",
                path.display(),
                units::plural(added.better, "schedule"),
                added.usable,
                units::plural(added.seen, "record"),
            )
        },
        || json!({"store": path, "seen": added.seen, "usable": added.usable, "better": added.better}),
    )?;
    Ok(Exit::Done)
}

/// Adds a run, a dataset, or what was exported.
fn import(store: &Path, from: &Path) -> anyhow::Result<Added> {
    if from
        .extension()
        .is_some_and(|extension| extension == "jsonl")
        && is_export(from)?
    {
        let file = std::fs::File::open(from).with_context(|| from.display().to_string())?;
        let mut entries: Vec<Entry> = Vec::new();
        for (number, line) in std::io::BufReader::new(file).lines().enumerate() {
            let at = || format!("{}, line {}", from.display(), number + 1);
            entries.push(serde_json::from_str(&line.with_context(at)?).with_context(at)?);
        }
        let better = Store::open(store)?.add(&entries)?;
        let seen = entries.len() as u64;
        return Ok(Added {
            seen,
            usable: seen,
            better,
        });
    }
    let rows = read_rows(from)?;
    let mut source = from.display().to_string();
    if let Some(row) = rows.first() {
        source = row.run_id.clone();
    }
    Ok(Store::open(store)?.add_rows(&rows, &source)?)
}

/// Whether a file of JSON lines is one that [`export`] wrote.
fn is_export(file: &Path) -> anyhow::Result<bool> {
    let read = std::fs::File::open(file).with_context(|| file.display().to_string())?;
    let mut first = String::new();
    std::io::BufReader::new(read)
        .read_line(&mut first)
        .with_context(|| file.display().to_string())?;
    Ok(first.contains("\"workload\"") && first.contains("\"choice\""))
}

/// Writes all schedules into a file beside the named one, then renames it.
fn export(store: &Store, to: &Path) -> anyhow::Result<Exit> {
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
