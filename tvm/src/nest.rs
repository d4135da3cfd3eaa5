//! Loop nests written by hand: the smallest language in which a kernel of one's own can be put before TVM's pipeline.
//!
//! Operators come from models; this is for kernels that no model has, such as those that find a machine's limits. A
//! nest works on flat buffers of `float32` with 64-bit indices, and goes the same road as an operator: what it reaches,
//! generated code can reach. Owns the construction of the TensorIR alone; which nests there are is the callers' to say.

use crate::call::{Obj, array, boolean, call, int, map, none, text};
use crate::error::Result;
use crate::ir::{PrimFunc, binary, index_constant, index_var};
use crate::libs::Libraries;

/// How the steps of a loop are taken. The numbers are those of TVM's `ForKind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopKind {
    /// One after the other.
    Serial = 0,
    /// Dealt out to the threads of the pool.
    Parallel = 1,
    /// All at once, as one vector.
    Vectorized = 2,
    /// One after the other, each written out.
    Unrolled = 3,
}

/// Where a buffer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A parameter of the function.
    Parameter,
    /// Registers, or the stack where they do not suffice.
    Local,
}

/// A flat buffer of `float32`.
#[derive(Debug, Clone)]
pub struct Buffer(Obj);

/// A 64-bit integer.
#[derive(Debug, Clone)]
pub struct Index(Obj);

/// A `float32`.
#[derive(Debug, Clone)]
pub struct Value(Obj);

/// Something that is done.
#[derive(Debug, Clone)]
pub struct Stmt(Obj);

impl Buffer {
    /// A buffer of so many elements.
    ///
    /// # Errors
    /// TVM cannot be loaded, or refuses the extent.
    pub fn new(name: &str, elements: i64, place: Place) -> Result<Buffer> {
        Libraries::load()?;
        let scope = match place {
            Place::Parameter => "global",
            Place::Local => "local",
        };
        let nothing = array([])?;
        let of_type = call(
            "tirx.BufferType",
            &[
                &text(scope),
                &call("ir.PrimType", &[&float32()])?,
                &array([&index_constant(elements)?])?,
                &nothing,
                &none(),
                // Aligned to a cache line, which tensors are; at no offset.
                &int(64),
                &int(1),
                &none(),
                &nothing,
                &none(),
            ],
        )?;
        Ok(Buffer(call(
            "tirx.BufferVar",
            &[&text(name), &of_type, &none()],
        )?))
    }

    /// The element at `place`.
    ///
    /// # Errors
    /// TVM's.
    pub fn load(&self, place: &Index) -> Result<Value> {
        Ok(Value(call(
            "tirx.BufferLoad",
            &[&self.0, &array([&place.0])?, &none()],
        )?))
    }

    /// Sets the element at `place`.
    ///
    /// # Errors
    /// TVM's.
    pub fn store(&self, value: &Value, place: &Index) -> Result<Stmt> {
        Ok(Stmt(call(
            "tirx.BufferStore",
            &[&self.0, &value.0, &array([&place.0])?, &none()],
        )?))
    }
}

impl Index {
    /// A constant.
    ///
    /// # Errors
    /// TVM's.
    pub fn constant(value: i64) -> Result<Index> {
        Ok(Index(index_constant(value)?))
    }

    /// `self + other`.
    ///
    /// # Errors
    /// TVM's.
    pub fn plus(&self, other: &Index) -> Result<Index> {
        Ok(Index(binary("prim.Add", &self.0, &other.0)?))
    }

    /// `self × factor`.
    ///
    /// # Errors
    /// TVM's.
    pub fn times(&self, factor: i64) -> Result<Index> {
        Ok(Index(binary(
            "prim.Mul",
            &self.0,
            &index_constant(factor)?,
        )?))
    }
}

impl Value {
    /// A constant.
    ///
    /// # Errors
    /// TVM's.
    pub fn constant(value: f32) -> Result<Value> {
        let value = Obj(tvm_ffi::Any::from(f64::from(value)));
        Ok(Value(call("ir.FloatImm", &[&float32(), &value, &none()])?))
    }

    /// `self + other`.
    ///
    /// # Errors
    /// TVM's.
    pub fn plus(&self, other: &Value) -> Result<Value> {
        Ok(Value(binary("prim.Add", &self.0, &other.0)?))
    }

    /// `self × other`.
    ///
    /// # Errors
    /// TVM's.
    pub fn times(&self, other: &Value) -> Result<Value> {
        Ok(Value(binary("prim.Mul", &self.0, &other.0)?))
    }
}

impl Stmt {
    /// One statement after the other.
    ///
    /// # Errors
    /// There is none, or TVM's.
    pub fn sequence(statements: &[Stmt]) -> Result<Stmt> {
        let all = array(statements.iter().map(|s| &s.0))?;
        Ok(Stmt(call("tirx.SeqStmt", &[&all, &none()])?))
    }

    /// Makes room for a local buffer, from here to the end of the loop that it stands in.
    ///
    /// # Errors
    /// TVM's.
    pub fn allocate(buffer: &Buffer) -> Result<Stmt> {
        Ok(Stmt(call(
            "tirx.AllocBuffer",
            &[&buffer.0, &map([])?, &none()],
        )?))
    }

    /// A loop from 0 to `extent`, over what `body` says of its variable.
    ///
    /// # Errors
    /// The body's, or TVM's.
    pub fn repeat(
        name: &str,
        kind: LoopKind,
        extent: i64,
        body: impl FnOnce(&Index) -> Result<Stmt>,
    ) -> Result<Stmt> {
        let variable = Index(index_var(name)?);
        let body = body(&variable)?;
        Ok(Stmt(call(
            "tirx.For",
            &[
                &variable.0,
                &index_constant(0)?,
                &index_constant(extent)?,
                &int(kind as i64),
                &body.0,
                &none(),
                &map([])?,
                &none(),
                &none(),
            ],
        )?))
    }
}

/// A function of these parameters, none of which overlaps another.
///
/// # Errors
/// TVM's.
pub fn function(parameters: &[Buffer], body: &Stmt) -> Result<PrimFunc> {
    let parameters = array(parameters.iter().map(|p| &p.0))?;
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

fn float32() -> Obj {
    Obj(tvm_ffi::Any::from(tvm_ffi::DLDataType {
        code: tvm_ffi::DLDataTypeCode::kDLFloat as u8,
        bits: 32,
        lanes: 1,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Target, Tensor, compile::Asserts};

    #[test]
    fn a_nest_of_every_kind_of_loop_runs() {
        let data = Buffer::new("data", 64, Place::Parameter).unwrap();
        let out = Buffer::new("out", 16, Place::Parameter).unwrap();
        let sum = Buffer::new("sum", 8, Place::Local).unwrap();
        let each = |body: &dyn Fn(&Index) -> Result<Stmt>| {
            Stmt::repeat("u", LoopKind::Unrolled, 2, |u| {
                Stmt::repeat("v", LoopKind::Vectorized, 4, |v| {
                    body(&u.times(4)?.plus(v)?)
                })
            })
        };
        // Two tasks; each sums the four groups of eight elements that are its own, and adds 1 to the double.
        let body = Stmt::repeat("t", LoopKind::Parallel, 2, |t| {
            let steps = Stmt::repeat("i", LoopKind::Serial, 4, |i| {
                let start = t.times(32)?.plus(&i.times(8)?)?;
                each(&|l| {
                    let sum_now = sum.load(l)?.plus(&data.load(&start.plus(l)?)?)?;
                    sum.store(&sum_now, l)
                })
            })?;
            let end = each(&|l| {
                let result = sum.load(l)?.times(&Value::constant(2.0)?)?;
                let result = result.plus(&Value::constant(1.0)?)?;
                out.store(&result, &t.times(8)?.plus(l)?)
            })?;
            let begin = each(&|l| sum.store(&Value::constant(0.0)?, l))?;
            Stmt::sequence(&[Stmt::allocate(&sum)?, begin, steps, end])
        })
        .unwrap();
        let function = function(&[data, out], &body).unwrap();
        let target = Target::llvm(&crate::target::host_cpu().unwrap(), 2).unwrap();
        let module = function.to_module().unwrap();
        let compiled = crate::compile(&module, &target, Asserts::Kept).unwrap();
        let values = |n: u16| (0..n).flat_map(|i| f32::from(i).to_le_bytes());
        let tensors = [
            Tensor::from_bytes(&[64], DType::Float32, &values(64).collect::<Vec<_>>()).unwrap(),
            Tensor::zeros(&[16], DType::Float32).unwrap(),
        ];
        let kernel = compiled.module.function(crate::ir::ENTRY).unwrap();
        kernel.bind(&tensors).call().unwrap();
        let found: Vec<f32> = tensors[1]
            .bytes()
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect();
        let expected: Vec<f32> = (0..16u16)
            .map(|o| {
                let first = 32 * (o / 8) + o % 8;
                let sum: u16 = (0..4).map(|i| first + 8 * i).sum();
                f32::from(2 * sum + 1)
            })
            .collect();
        assert_eq!(found, expected);
    }
}
