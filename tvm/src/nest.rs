//! Loop nests written by hand: the smallest language in which a kernel of one's own can be put before TVM's pipeline.
//!
//! Operators come from models. This module is for kernels that no model has, such as those that measure a machine's
//! peak rates, and for other algorithms of an operator ([`crate::algorithm`]). A nest uses buffers of `float32` with
//! 64-bit indices (`values.rs`), and is compiled like an operator. So generated code can reach every rate that it
//! reaches. The compiler does not know the values in [`Integers`]; otherwise it could compute a loop of known extent in
//! one step. This module only constructs the TensorIR; its callers define the nests.

mod values;

use crate::call::{Obj, array, boolean, call, int, map, none, text};
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::{PrimFunc, index_constant, index_var};

pub use values::{Buffer, Condition, Index, Integers, Value};

/// How a loop is executed. The numbers are those of TVM's `ForKind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopKind {
    /// One after the other.
    Serial = 0,
    /// Distributed over the threads of the pool.
    Parallel = 1,
    /// All iterations at once, as one vector.
    Vectorized = 2,
    /// One after the other, each written out.
    Unrolled = 3,
}

/// Something that is done.
#[derive(Debug, Clone)]
pub struct Stmt(pub(crate) Obj);

impl Stmt {
    /// One statement after the other.
    ///
    /// # Errors
    /// Fails if there is no statement, or if TVM fails.
    pub fn sequence(statements: &[Stmt]) -> Result<Stmt> {
        // TVM has no sequence of one.
        if let [only] = statements {
            return Ok(only.clone());
        }
        let all = array(statements.iter().map(|s| &s.0))?;
        Ok(Stmt(call("tirx.SeqStmt", &[&all, &none()])?))
    }

    /// Allocates a local buffer, from here to the end of the enclosing loop.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn allocate(buffer: &Buffer) -> Result<Stmt> {
        Ok(Stmt(call(
            "tirx.AllocBuffer",
            &[&buffer.0, &map([])?, &none()],
        )?))
    }

    /// `self` where `condition` holds.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn only_where(&self, condition: &Condition) -> Result<Stmt> {
        let arguments = [&condition.0, &self.0, &none(), &none()];
        Ok(Stmt(call("tirx.IfThenElse", &arguments)?))
    }

    /// A block of a schedule around `self`, with local buffers of its own: what it reads and writes is all of these buffers.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn block(&self, name: &str, touched: Touched<'_>) -> Result<Stmt> {
        let whole = |buffers: &[&Buffer]| -> Result<Obj> {
            let regions = buffers.iter().map(|b| b.whole());
            array(&regions.collect::<Result<Vec<_>>>()?)
        };
        block(
            name,
            Domain {
                iterators: &[],
                values: &[],
            },
            [&whole(touched.reads)?, &whole(touched.writes)?],
            &array(touched.locals.iter().map(|b| &b.0))?,
            &self.0,
        )
    }

    /// `out[place(i, j, …)] = value(i, j, …)` for all axes' values, as a block with these axes, which schedules transform.
    /// `source` is what the value reads.
    ///
    /// # Errors
    /// Fails if a callback or TVM does.
    pub fn elements(
        name: &str,
        [source, out]: [&Buffer; 2],
        extents: &[i64],
        place: impl FnOnce(&[Index]) -> Result<Vec<Index>>,
        value: impl FnOnce(&[Index]) -> Result<Value>,
    ) -> Result<Stmt> {
        /// `IterVarType::kDataPar` of TVM.
        const DATA_PARALLEL: i64 = 0;
        let variables = |prefix: &str| -> Result<Vec<Index>> {
            let named = (0..extents.len()).map(|i| index_var(&format!("{prefix}{i}")));
            named.map(|variable| variable.map(Index)).collect()
        };
        let (loops, axes) = (variables("i")?, variables("v_i")?);
        let one = index_constant(1)?;
        let zero = index_constant(0)?;
        let range =
            |from: &Obj, extent: &Obj| call("ir.Range_from_min_extent", &[from, extent, &none()]);
        let mut iterators = Vec::new();
        for (axis, &extent) in axes.iter().zip(extents) {
            let whole = range(&zero, &index_constant(extent)?)?;
            iterators.push(call(
                "tirx.IterVar",
                &[&whole, &axis.0, &int(DATA_PARALLEL), &text(""), &none()],
            )?);
        }
        let place = place(&axes)?;
        let places = place.iter().map(|index| range(&index.0, &one));
        let places = array(&places.collect::<Result<Vec<_>>>()?)?;
        let written = call("tirx.BufferRegion", &[&out.0, &places])?;
        let store = out.store(&value(&axes)?, &place)?;
        let values: Vec<Obj> = loops.iter().map(|l| l.0.clone()).collect();
        let mut nest = block(
            name,
            Domain {
                iterators: &iterators,
                values: &values,
            },
            [&array([&source.whole()?])?, &array([&written])?],
            &array([])?,
            &store.0,
        )?;
        for (variable, &extent) in loops.iter().zip(extents).rev() {
            nest = Stmt::over(variable, LoopKind::Serial, &Index::constant(extent)?, &nest)?;
        }
        Ok(nest)
    }

    /// A loop from 0 to `extent`. `body` makes its body from the loop variable.
    ///
    /// # Errors
    /// Fails if the body or TVM does.
    pub fn repeat(
        name: &str,
        kind: LoopKind,
        extent: &Index,
        body: impl FnOnce(&Index) -> Result<Stmt>,
    ) -> Result<Stmt> {
        let variable = Index(index_var(name)?);
        let body = body(&variable)?;
        Stmt::over(&variable, kind, extent, &body)
    }

    fn over(variable: &Index, kind: LoopKind, extent: &Index, body: &Stmt) -> Result<Stmt> {
        let range = [&index_constant(0)?, &extent.0];
        looped(&variable.0, range, kind as i64, body, &none())
    }

    /// A loop whose iterations are the indices of a device's grid along an axis, such as `blockIdx.x`.
    ///
    /// # Errors
    /// Fails if the body or TVM does.
    pub fn bound(
        axis: &str,
        extent: &Index,
        body: impl FnOnce(&Index) -> Result<Stmt>,
    ) -> Result<Stmt> {
        /// `ForKind::kThreadBinding` and `IterVarType::kThreadIndex` of TVM.
        const THREAD_BINDING: i64 = 4;
        const THREAD_INDEX: i64 = 1;
        let variable = Index(index_var(axis)?);
        let body = body(&variable)?;
        let thread = call(
            "tirx.IterVar",
            &[
                &none(),
                &variable.0,
                &int(THREAD_INDEX),
                &text(axis),
                &none(),
            ],
        )?;
        let range = [&index_constant(0)?, &extent.0];
        looped(&variable.0, range, THREAD_BINDING, &body, &thread)
    }
}

/// A loop of TVM's `ForKind`, from a number over an extent of the counter's type.
pub(crate) fn looped(
    counter: &Obj,
    [from, extent]: [&Obj; 2],
    kind: i64,
    body: &Stmt,
    thread: &Obj,
) -> Result<Stmt> {
    let (kind, none) = (int(kind), none());
    let annotations = map([])?;
    let parts = [
        counter,
        from,
        extent,
        &kind,
        &body.0,
        thread,
        &annotations,
        &none,
        &none,
    ];
    Ok(Stmt(call("tirx.For", &parts)?))
}

/// The buffers of a block.
#[derive(Debug, Clone, Copy)]
pub struct Touched<'a> {
    /// The buffers that it reads.
    pub reads: &'a [&'a Buffer],
    /// The buffers that it writes.
    pub writes: &'a [&'a Buffer],
    /// Its own buffers.
    pub locals: &'a [Buffer],
}

/// A parameter of a function.
#[derive(Debug, Clone, Copy)]
pub enum Parameter<'a> {
    /// A buffer of numbers.
    Data(&'a Buffer),
    /// A buffer of loop counts.
    Counts(&'a Integers),
}

/// A function of these parameters; none overlaps another.
///
/// # Errors
/// Fails if TVM does.
pub fn function(parameters: &[Parameter<'_>], body: &Stmt) -> Result<PrimFunc> {
    let parameters = array(parameters.iter().map(|parameter| match parameter {
        Parameter::Data(buffer) => &buffer.0,
        Parameter::Counts(integers) => &integers.0,
    }))?;
    let of_type = call("ir.TypeMissing", &[])?;
    let noalias = map([(&text("tirx.noalias"), &boolean(true))])?;
    let attributes = call(
        "ffi.MakeObjectFromPackedArgs",
        &[&text("ir.DictAttrs"), &text("__dict__"), &noalias],
    )?;
    let handle = call(
        "tirx.PrimFunc",
        &[&parameters, &body.0, &of_type, &attributes, &none()],
    )?;
    Ok(PrimFunc { handle })
}

/// The iterators of a block, each with its role.
struct Domain<'a> {
    iterators: &'a [Obj],
    values: &'a [Obj],
}

/// A block that touches these regions (read, written) and has these local buffers.
fn block(
    name: &str,
    domain: Domain<'_>,
    [reads, writes]: [&Obj; 2],
    locals: &Obj,
    body: &Obj,
) -> Result<Stmt> {
    let nothing = array([])?;
    let block = call(
        "s_tir.SBlock",
        &[
            &array(domain.iterators)?,
            reads,
            writes,
            &text(name),
            body,
            &none(),
            locals,
            &nothing,
            &map([])?,
            &none(),
        ],
    )?;
    realized(&block, domain.values)
}

/// A block whose iterators have these values.
pub(crate) fn realized(block: &Obj, values: &[Obj]) -> Result<Stmt> {
    let always = call("ir.IntImm", &[&DType::Bool.object(), &int(1), &none()])?;
    Ok(Stmt(call(
        "s_tir.SBlockRealize",
        &[&array(values)?, &always, block, &none()],
    )?))
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;
    use crate::{DType, Device, Target, Tensor, compile::Asserts};

    #[test]
    fn a_nest_of_every_kind_of_loop_runs() {
        let data = Buffer::new("data", &[64]).unwrap();
        let counts = Integers::new("counts", 1).unwrap();
        let out = Buffer::new("out", &[16]).unwrap();
        let sum = Buffer::new("sum", &[8]).unwrap();
        let n = |value: i64| Index::constant(value).unwrap();
        let each = |body: &dyn Fn(&Index) -> Result<Stmt>| {
            Stmt::repeat("u", LoopKind::Unrolled, &n(2), |u| {
                Stmt::repeat("v", LoopKind::Vectorized, &n(4), |v| {
                    body(&u.times(&n(4))?.plus(v)?)
                })
            })
        };
        // Two tasks; each sums groups of eight elements of its own, and adds 1 to the double.
        let body = Stmt::repeat("t", LoopKind::Parallel, &n(2), |t| {
            let steps = Stmt::repeat("i", LoopKind::Serial, &counts.load(0)?, |i| {
                let start = t.times(&n(32))?.plus(&i.times(&n(8))?)?;
                each(&|l| {
                    let sum_now = sum
                        .load(from_ref(l))?
                        .plus(&data.load(&[start.plus(l)?])?)?;
                    sum.store(&sum_now, from_ref(l))
                })
            })?;
            let end = each(&|l| {
                let result = sum.load(from_ref(l))?.times(&Value::constant(2.0)?)?;
                let result = result.plus(&Value::constant(1.0)?)?;
                out.store(&result, &[t.times(&n(8))?.plus(l)?])
            })?;
            let begin = each(&|l| sum.store(&Value::constant(0.0)?, from_ref(l)))?;
            Stmt::sequence(&[Stmt::allocate(&sum)?, begin, steps, end])
        })
        .unwrap();
        let parameters = [
            Parameter::Data(&data),
            Parameter::Counts(&counts),
            Parameter::Data(&out),
        ];
        let function = function(&parameters, &body).unwrap();
        let target = Target::llvm(&crate::target::host_cpu().unwrap(), 2).unwrap();
        let module = function.to_module().unwrap();
        let compiled = crate::compile(&module, &target, Asserts::Kept).unwrap();
        let kernel = compiled.module.function(crate::ir::ENTRY).unwrap();
        let ones_up: Vec<u8> = (0..64u16)
            .flat_map(|i| f32::from(i).to_le_bytes())
            .collect();
        for steps in [0u16, 3, 4] {
            let tensors = [
                Tensor::from_bytes(Device::cpu(), &[64], DType::Float32, &ones_up).unwrap(),
                Tensor::from_bytes(
                    Device::cpu(),
                    &[1],
                    DType::Int64,
                    &i64::from(steps).to_le_bytes(),
                )
                .unwrap(),
                Tensor::zeros(Device::cpu(), &[16], DType::Float32).unwrap(),
            ];
            kernel.bind(&tensors).call().unwrap();
            let found: Vec<f32> = tensors[2]
                .bytes()
                .unwrap()
                .chunks_exact(4)
                .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
                .collect();
            let expected: Vec<f32> = (0..16u16)
                .map(|o| {
                    let first = 32 * (o / 8) + o % 8;
                    let sum: u16 = (0..steps).map(|i| first + 8 * i).sum();
                    f32::from(2 * sum + 1)
                })
                .collect();
            assert_eq!(found, expected, "{steps} steps");
        }
    }
}
