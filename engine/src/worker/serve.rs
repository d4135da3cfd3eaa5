//! The child's side: reads requests, does them, answers.

use std::cell::OnceCell;
use std::io::{BufRead, Write};

use anyhow::Context;
use opdata::Status;
use tvm_bridge::IrModule;

use super::bench::{Bench, spaces};
use super::shared::{Replies, Shared};
use super::side_by_side::SideBySide;
use super::whole_model::LoadedModel;
use crate::protocol::{Contents, Reply, Request, Setup};
use crate::schedule::Scheduler;

/// Serves requests from `input` until it ends; `contents` are the files of the import.
///
/// # Errors
/// Fails if a request cannot be understood, or the setup fails.
pub fn serve(
    input: impl BufRead,
    output: impl Write + Send + 'static,
    contents: Contents,
) -> anyhow::Result<()> {
    let replies = Replies::to(output);
    let mut lines = input.lines();
    let Some(first) = lines.next() else {
        return Ok(());
    };
    let Request::Setup(setup) = parse(&first?)? else {
        anyhow::bail!("the first request must be a setup")
    };
    let mut shared = set_up(setup, contents)?;
    replies.send(&Reply::Ready);
    let mut bench = Bench::new();
    let mut whole_model: Option<LoadedModel> = None;
    let mut side_by_side = SideBySide::default();
    for line in lines {
        match parse(&line?)? {
            Request::Setup(_) => anyhow::bail!("a worker is set up once"),
            Request::Spaces { symbols } => {
                let described = spaces(&shared, &symbols);
                let reply = described.map(|spaces| Reply::Spaces { spaces });
                answer(&mut shared, &replies, None, reply);
            }
            Request::Build { kernels, jobs } => {
                bench.build(&shared, &kernels, jobs, &replies);
                replies.send(&Reply::AllBuilt);
            }
            Request::Measure(spec) => {
                let id = Some(spec.id);
                let measured = bench.measure(&mut shared, &spec);
                answer(&mut shared, &replies, id, measured.map(Reply::Measured));
            }
            Request::Drop { ids } => bench.forget(&ids),
            Request::BuildWholeModel(spec) => {
                let built = LoadedModel::build(&shared, *spec);
                let reply = built.map(|(ready, built)| {
                    whole_model = Some(built);
                    Reply::WholeModelReady(ready)
                });
                answer(&mut shared, &replies, None, reply);
            }
            Request::DropWholeModel => whole_model = None,
            Request::MeasureWholeModel {
                at,
                policy,
                counting,
            } => {
                let measured = match &whole_model {
                    Some(whole_model) => whole_model
                        .measure(&mut shared, &at, policy, counting)
                        .map(Reply::WholeModelMeasured),
                    None => Err(anyhow::anyhow!("the whole model was not built")),
                };
                answer(&mut shared, &replies, None, measured);
            }
            Request::ProfileWholeModel(spec) => {
                let profiled = match &whole_model {
                    Some(whole_model) => whole_model.profile(&mut shared, &spec),
                    None => Err(anyhow::anyhow!("the whole model was not built")),
                };
                let reply = profiled.map(|p| Reply::WholeModelProfiled(Box::new(p)));
                answer(&mut shared, &replies, None, reply);
            }
            Request::SideBySide(order) => {
                let reply = side_by_side.perform(&mut shared, order);
                answer(&mut shared, &replies, None, reply.map(Reply::SideBySide));
            }
        }
    }
    Ok(())
}

fn parse(line: &str) -> anyhow::Result<Request> {
    serde_json::from_str(line).with_context(|| format!("not a request: {line}"))
}

fn answer(shared: &mut Shared, replies: &Replies, id: Option<u64>, result: anyhow::Result<Reply>) {
    if result.is_err() {
        // There is no answer then: the parent notices the end of this process, and starts another for the next request.
        shared.session.after_failure();
    }
    replies.send(&result.unwrap_or_else(|error| Reply::Refused {
        id,
        status: Status::Crashed,
        reason: format!("{error:#}"),
    }));
}

fn set_up(setup: Setup, contents: Contents) -> anyhow::Result<Shared> {
    die_with_parent();
    setup
        .device
        .limit_memory(setup.memory_limit_mib)
        .context("cannot set the memory limit")?;
    let json = contents.module(&setup.module)?;
    let session = setup.device.open(&setup.opening())?;
    let target = session.target().clone();
    Ok(Shared {
        module: IrModule::from_json(&json)?,
        scheduler: Scheduler::new(session.templates(), target.clone(), setup.seed),
        target,
        session,
        setup,
        contents,
        plain: OnceCell::new(),
        kernels: Default::default(),
    })
}

/// Asks the kernel to kill this process when its parent ends, so that no worker outlives a killed run.
fn die_with_parent() {
    // SAFETY: a plain system call with constant arguments.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}
