//! Values of a nest: buffers and their elements, indices, conditions, and arithmetic on them.

use super::Stmt;
use crate::call::{Obj, array, binary, call, elements, field, int, none, text};
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::index_constant;
use crate::libs::Libraries;

/// A buffer of `float32`: a parameter of the function, or memory inside it.
///
/// Memory of a constant size up to 2 KiB is on a CPU's stack, where LLVM can hold it in registers (`crate::stack`). More
/// than that is a workspace of TVM's runtime.
#[derive(Debug, Clone)]
pub struct Buffer(pub(crate) Obj);

/// A parameter that holds 64-bit integers.
#[derive(Debug, Clone)]
pub struct Integers(pub(super) Obj);

/// A 64-bit integer.
#[derive(Debug, Clone)]
pub struct Index(pub(super) Obj);

/// A condition: an expression of type bool.
#[derive(Debug, Clone)]
pub struct Condition(pub(super) Obj);

/// A `float32`.
#[derive(Debug, Clone)]
pub struct Value(pub(super) Obj);

impl Buffer {
    /// A buffer of these extents.
    ///
    /// # Errors
    /// Fails if TVM cannot be loaded, or refuses an extent.
    pub fn new(name: &str, extents: &[i64]) -> Result<Buffer> {
        Ok(Buffer(buffer(name, extents, &DType::Float32.object())?))
    }

    /// The element at `place`.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn load(&self, place: &[Index]) -> Result<Value> {
        let place = array(place.iter().map(|i| &i.0))?;
        Ok(Value(call("tirx.BufferLoad", &[&self.0, &place, &none()])?))
    }

    /// Sets the element at `place`.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn store(&self, value: &Value, place: &[Index]) -> Result<Stmt> {
        let place = array(place.iter().map(|i| &i.0))?;
        Ok(Stmt(call(
            "tirx.BufferStore",
            &[&self.0, &value.0, &place, &none()],
        )?))
    }

    /// The whole buffer as a region, as blocks declare their reads and writes.
    pub(super) fn whole(&self) -> Result<Obj> {
        let shape = elements(&field(&field(&self.0, "ty")?, "shape")?)?;
        let zero = index_constant(0)?;
        let ranges = shape
            .iter()
            .map(|extent| call("ir.Range_from_min_extent", &[&zero, extent, &none()]))
            .collect::<Result<Vec<_>>>()?;
        call("tirx.BufferRegion", &[&self.0, &array(&ranges)?])
    }
}

impl Integers {
    /// Makes a buffer of `elements` integers.
    ///
    /// # Errors
    /// Fails if TVM cannot be loaded, or refuses the extent.
    pub fn new(name: &str, elements: i64) -> Result<Integers> {
        Ok(Integers(buffer(name, &[elements], &DType::Int64.object())?))
    }

    /// The integer at `place`.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn load(&self, place: i64) -> Result<Index> {
        let place = array([&index_constant(place)?])?;
        Ok(Index(call("tirx.BufferLoad", &[&self.0, &place, &none()])?))
    }
}

impl Index {
    /// A constant.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn constant(value: i64) -> Result<Index> {
        Ok(Index(index_constant(value)?))
    }

    /// `self + other`.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn plus(&self, other: &Index) -> Result<Index> {
        Ok(Index(binary("prim.Add", &self.0, &other.0)?))
    }

    /// `self × other`.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn times(&self, other: &Index) -> Result<Index> {
        Ok(Index(binary("prim.Mul", &self.0, &other.0)?))
    }

    /// `self × factor + offset`.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn scaled(&self, factor: i64, offset: i64) -> Result<Index> {
        let scaled = match factor {
            1 => self.clone(),
            _ => self.times(&Index::constant(factor)?)?,
        };
        match offset {
            0 => Ok(scaled),
            _ => scaled.plus(&Index::constant(offset)?),
        }
    }

    /// Quotient and remainder of `self / divisor`.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn divided(&self, divisor: i64) -> Result<(Index, Index)> {
        let divisor = index_constant(divisor)?;
        let part = |op| binary(op, &self.0, &divisor).map(Index);
        Ok((part("prim.FloorDiv")?, part("prim.FloorMod")?))
    }

    /// Whether `least ≤ self < end`.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn within(&self, least: i64, end: i64) -> Result<Condition> {
        let from = binary("prim.GE", &self.0, &index_constant(least)?)?;
        let to = binary("prim.LT", &self.0, &index_constant(end)?)?;
        Ok(Condition(binary("prim.And", &from, &to)?))
    }
}

impl Condition {
    /// Whether both hold.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn and(&self, other: &Condition) -> Result<Condition> {
        Ok(Condition(binary("prim.And", &self.0, &other.0)?))
    }
}

impl Value {
    /// A constant.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn constant(value: f32) -> Result<Value> {
        let value = Obj(tvm_ffi::Any::from(f64::from(value)));
        Ok(Value(call(
            "ir.FloatImm",
            &[&DType::Float32.object(), &value, &none()],
        )?))
    }

    /// `self + other`.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn plus(&self, other: &Value) -> Result<Value> {
        Ok(Value(binary("prim.Add", &self.0, &other.0)?))
    }

    /// `self × other`.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn times(&self, other: &Value) -> Result<Value> {
        Ok(Value(binary("prim.Mul", &self.0, &other.0)?))
    }

    /// `self − other`.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn minus(&self, other: &Value) -> Result<Value> {
        Ok(Value(binary("prim.Sub", &self.0, &other.0)?))
    }

    /// `self` where `condition` holds, 0 elsewhere. `self` is not evaluated there.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn where_holds(&self, condition: &Condition) -> Result<Value> {
        let zero = Value::constant(0.0)?;
        Ok(Value(call(
            "prim._OpIfThenElse",
            &[&condition.0, &self.0, &zero.0, &none()],
        )?))
    }
}

fn buffer(name: &str, extents: &[i64], dtype: &Obj) -> Result<Obj> {
    Libraries::load()?;
    let nothing = array([])?;
    let extents = extents
        .iter()
        .map(|&extent| index_constant(extent))
        .collect::<Result<Vec<_>>>()?;
    let of_type = call(
        "tirx.BufferType",
        &[
            &text("global"),
            &call("ir.PrimType", &[dtype])?,
            &array(&extents)?,
            &nothing,
            &none(),
            // Tensors are aligned to a cache line, and have no offset.
            &int(64),
            &int(1),
            &none(),
            &nothing,
            &none(),
        ],
    )?;
    call("tirx.BufferVar", &[&text(name), &of_type, &none()])
}
