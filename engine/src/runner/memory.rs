//! Refuses operators that need more memory than a worker may use, before anything is built.
//!
//! A worker that meets its limit is killed by its own runtime in the middle of an allocation, with a stack trace for last
//! words. These are lower bounds: what passes can still be too large.

use opdata::Status;
use opmodels::Graph;
use opmodels::graph::{Argument, ArgumentRole};
use tvm_bridge::DType;

use super::Failure;
use crate::protocol::KernelSpec;

/// The check of a result holds it and its reference in double precision.
const CHECK_BYTES: u64 = 2 * size_of::<f64>() as u64;

/// Refuses a kernel whose arguments, reference and check need more than `limit_mib`.
///
/// # Errors
/// Fails if they do.
pub fn check_kernel(kernel: &KernelSpec, limit_mib: u64) -> Result<(), Failure> {
    let is_output = |a: &&Argument| a.role == ArgumentRole::Output;
    let outputs = || kernel.arguments.iter().filter(is_output);
    let arguments = kernel.arguments.iter().map(|a| bytes(&a.shape, &a.dtype));
    let references = outputs().map(|a| bytes(&a.shape, &a.dtype));
    let check = outputs().map(|a| elements(&a.shape).saturating_mul(CHECK_BYTES));
    let needed = total(arguments.chain(references)).saturating_add(check.max().unwrap_or(0));
    check_bytes(
        "the operator's arguments and the check of its result",
        needed,
        limit_mib,
    )
}

/// Refuses a model whose inputs, outputs, reference and check need more than `limit_mib`.
///
/// # Errors
/// Fails if they do.
pub fn check_whole_model(graph: &Graph, limit_mib: u64) -> Result<(), Failure> {
    let inputs = graph.inputs.iter().map(|i| bytes(&i.shape, &i.dtype));
    let outputs = graph.outputs.iter();
    let results = outputs.map(|o| bytes(&o.shape, &o.dtype).saturating_mul(2));
    let check = graph.outputs.iter();
    let check = check.map(|o| elements(&o.shape).saturating_mul(CHECK_BYTES));
    let needed = total(inputs.chain(results)).saturating_add(check.max().unwrap_or(0));
    check_bytes(
        "the model's inputs and the check of its outputs",
        needed,
        limit_mib,
    )
}

fn check_bytes(what: &str, needed: u64, limit_mib: u64) -> Result<(), Failure> {
    let limit = limit_mib.saturating_mul(1 << 20);
    if needed <= limit {
        return Ok(());
    }
    Err(Failure {
        status: Status::Unsupported,
        reason: format!(
            "{what} need {} MiB of memory, and a worker may use {limit_mib} MiB (--memory-limit)",
            needed.div_ceil(1 << 20)
        ),
    })
}

fn elements(shape: &[u64]) -> u64 {
    shape
        .iter()
        .fold(1, |product, &n| product.saturating_mul(n))
}

/// Bytes of a tensor; 0 for an unknown element type.
fn bytes(shape: &[u64], dtype: &str) -> u64 {
    let element = dtype.parse::<DType>().map_or(0, |d| d.bytes() as u64);
    elements(shape).saturating_mul(element)
}

fn total(sizes: impl Iterator<Item = u64>) -> u64 {
    sizes.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::RunnerFactory;
    use crate::runner::testing::{Act, FakeRunner, kernel, order};

    fn argument(role: &str, shape: &[u64]) -> Argument {
        serde_json::from_value(serde_json::json!({
            "name": role, "shape": shape, "dtype": "float32", "role": role,
            "fill": {"kind": "normal", "std": 1.0},
        }))
        .unwrap()
    }

    #[test]
    fn a_result_too_large_to_check_is_refused_before_anything_is_built() {
        let mut large = kernel(0, "matmul");
        large.arguments = vec![
            argument("input", &[30_000, 16]),
            argument("weight", &[16, 30_000]),
            argument("output", &[30_000, 30_000]),
        ];
        let fake = FakeRunner::new(|step| panic!("{step:?}"));
        let mut runner = fake.runner(order(), "".as_ref());
        let mut reasons = Vec::new();
        runner.build(&[large.clone()], &mut |_, result| {
            reasons.push(result.unwrap_err());
        });
        assert_eq!(
            reasons,
            [Failure {
                status: Status::Unsupported,
                reason: "the operator's arguments and the check of its result need 20604 MiB of memory, and a worker may use 1024 MiB (--memory-limit)".to_owned()
            }]
        );
        assert_eq!(check_kernel(&large, 20_604), Ok(()));

        // The others of the same request are built.
        let fake = FakeRunner::new(|_| Act::takes(1e3));
        let mut runner = fake.runner(order(), "".as_ref());
        let mut built = 0;
        runner.build(&[large, kernel(1, "relu")], &mut |_, result| {
            built += u64::from(result.is_ok());
        });
        assert_eq!(built, 1);
    }
}
