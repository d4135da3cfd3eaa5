//! The calls of a model's operators as one run of the virtual machine makes them, and which call made each of their inputs.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use anyhow::{Context, bail, ensure};
use opmodels::graph::ArgumentRole;
use tvm_bridge::vm::Moment;
use tvm_bridge::{DType, Kernel, Tensor};

use crate::worker::whole_model::LoadedModel;

/// A model's calls in order.
pub(super) struct Traced {
    pub calls: Vec<TracedCall>,
    /// The model's results.
    pub results: Vec<Source>,
}

/// A call of an operator.
pub(super) struct TracedCall {
    pub symbol: String,
    /// The kernel that is called; `None` where the virtual machine makes a view.
    pub kernel: Option<Kernel>,
    /// Numbers of the calls whose results it reads, ascending.
    pub inputs: Vec<usize>,
    /// The sources of its inputs.
    pub reads: Vec<Source>,
    /// Shape and type of each output.
    pub writes: Vec<(Vec<i64>, DType)>,
}

/// The source of a tensor.
pub(super) enum Source {
    /// The model's own input, weight or constant.
    Given(Tensor),
    /// An output of an earlier call, seen with this shape and type.
    Made {
        call: usize,
        output: usize,
        shape: Vec<i64>,
        dtype: DType,
    },
}

/// Numbers of the calls that made some tensors, ascending.
fn made_by(reads: &[Source]) -> Vec<usize> {
    let made = reads.iter().filter_map(|source| match source {
        Source::Made { call, .. } => Some(*call),
        Source::Given(_) => None,
    });
    let calls: BTreeSet<usize> = made.collect();
    calls.into_iter().collect()
}

/// A tensor's first byte and length in memory.
fn place(tensor: &Tensor) -> anyhow::Result<(usize, usize)> {
    let bytes = tensor
        .host_bytes()
        .context("a tensor that is not on this machine")?;
    Ok((bytes.as_ptr() as usize, bytes.len()))
}

impl Traced {
    /// Runs a model once and notes its calls.
    ///
    /// # Errors
    /// Fails if the model cannot be watched, if its calls are not those of its graph, or if a kernel fails.
    pub fn of(model: &LoadedModel) -> anyhow::Result<Traced> {
        let graph = &model.graph;
        let outputs: HashMap<&str, usize> = graph
            .operators
            .iter()
            .map(|operator| {
                let outputs = operator.args_of(ArgumentRole::Output);
                (operator.symbol.as_str(), outputs.count())
            })
            .collect();
        let (seen, results) = watch(model)?;
        let mut seen = seen.into_iter().peekable();
        // Each output that a call has written, the newest last.
        let mut written: Vec<(usize, usize, usize, usize)> = Vec::new();
        let mut calls: Vec<TracedCall> = Vec::new();
        for call in &graph.calls {
            let symbol = call.symbol.clone();
            let Some((_, tensors)) = seen.next_if(|(own, _)| *own == symbol) else {
                // The virtual machine makes a view of the input instead (a reshape, or a transposition of an axis of
                // one element). Its reader then reads the input's memory.
                let operator = graph.operator(&symbol);
                ensure!(
                    operator.is_some_and(|own| own.flops == 0),
                    "a run does not make the calls of the import's graph, from {symbol} on; import the model again"
                );
                calls.push(TracedCall {
                    symbol,
                    kernel: None,
                    reads: Vec::new(),
                    writes: Vec::new(),
                    inputs: call.inputs.clone(),
                });
                continue;
            };
            let many = outputs
                .get(symbol.as_str())
                .context("an unknown operator")?;
            let inputs = tensors.len().saturating_sub(*many);
            let reads = tensors[..inputs]
                .iter()
                .map(|tensor| source(tensor, &written));
            let reads = reads.collect::<anyhow::Result<Vec<_>>>()?;
            let writes = tensors[inputs..].iter();
            let writes = writes.map(|t| (t.shape().to_vec(), t.dtype())).collect();
            for (output, tensor) in tensors[inputs..].iter().enumerate() {
                let (address, bytes) = place(tensor)?;
                written.push((address, bytes, calls.len(), output));
            }
            let kernels = model.kernels.iter();
            let kernel = kernels
                .filter_map(|module| module.function(&symbol).ok())
                .next()
                .with_context(|| format!("{symbol} was not compiled"))?;
            calls.push(TracedCall {
                symbol,
                kernel: Some(kernel),
                inputs: made_by(&reads),
                reads,
                writes,
            });
        }
        if let Some((symbol, _)) = seen.next() {
            bail!(
                "a run calls {symbol}, which the import's graph does not; import the model again"
            );
        }
        let results = results.iter().map(|tensor| source(tensor, &written));
        let results = results.collect::<anyhow::Result<Vec<_>>>()?;
        Ok(Traced { calls, results })
    }

    /// Lists the calls whose results each call reads.
    pub fn inputs(&self) -> Vec<Vec<usize>> {
        self.calls.iter().map(|call| call.inputs.clone()).collect()
    }
}

/// The newest output written to a tensor's memory. Without one, the tensor is an argument.
fn source(tensor: &Tensor, written: &[(usize, usize, usize, usize)]) -> anyhow::Result<Source> {
    let (address, bytes) = place(tensor)?;
    let holds = |&&(first, length, ..): &&(usize, usize, usize, usize)| {
        address < first + length.max(1) && first < address + bytes.max(1)
    };
    let Some(&(first, length, call, output)) = written.iter().rev().find(holds) else {
        return Ok(Source::Given(tensor.clone()));
    };
    ensure!(
        address == first && bytes <= length,
        "a call reads a part of another call's output that does not begin where the output begins"
    );
    Ok(Source::Made {
        call,
        output,
        shape: tensor.shape().to_vec(),
        dtype: tensor.dtype(),
    })
}

/// Runs a model once; `note` is given the function and the tensors of each operator's call, in the moment before it.
fn run_noting(
    model: &LoadedModel,
    mut note: impl FnMut(&str, Vec<Tensor>) + 'static,
) -> anyhow::Result<()> {
    let watched = model
        .watched
        .as_ref()
        .context("calls cannot be watched here")?;
    let operators = model.graph.operators.iter();
    let symbols: HashSet<String> = operators.map(|o| o.symbol.clone()).collect();
    // The machine calls one hook at a time.
    let note = RefCell::new(move |symbol: &str, tensors| note(symbol, tensors));
    watched.watch(move |call| {
        if call.moment() == Moment::Before && symbols.contains(call.symbol()) {
            (note.borrow_mut())(call.symbol(), call.kept_tensors());
        }
    });
    let ran = watched.machine.runner(&model.graph.entry)?.run();
    watched.unwatch();
    Ok(ran?)
}

/// Function and tensors of each call.
type Seen = Vec<(String, Vec<Tensor>)>;

/// The operators' calls of one run with their tensors, and the model's results.
fn watch(model: &LoadedModel) -> anyhow::Result<(Seen, Vec<Tensor>)> {
    let seen: Rc<RefCell<Seen>> = Rc::default();
    let noted = Rc::clone(&seen);
    run_noting(model, move |symbol, tensors| {
        noted.borrow_mut().push((symbol.to_owned(), tensors));
    })?;
    let watched = model.watched.as_ref();
    let machine = &watched.context("calls cannot be watched here")?.machine;
    Ok((seen.take(), machine.outputs(&model.graph.entry)?))
}

/// The arguments of a call with their values, copied in the moment before the call.
///
/// # Errors
/// Fails as [`Traced::of`] does, or if the call calls no kernel.
pub(super) fn arguments_of(
    model: &LoadedModel,
    traced: &Traced,
    call: usize,
) -> anyhow::Result<Vec<Tensor>> {
    let before = &traced.calls[..call];
    // Its number among the calls that call a kernel.
    let wanted = before.iter().filter(|own| own.kernel.is_some()).count();
    let copied: Rc<RefCell<Option<tvm_bridge::Result<Vec<Tensor>>>>> = Rc::default();
    let noted = Rc::clone(&copied);
    let mut number = 0;
    run_noting(model, move |_, tensors| {
        if number == wanted {
            let copies = tensors.iter().map(Tensor::duplicate);
            *noted.borrow_mut() = Some(copies.collect());
        }
        number += 1;
    })?;
    let copies = copied.take().context("a call that was not made")?;
    Ok(copies?)
}
