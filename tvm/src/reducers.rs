//! Reductions that TVM is to recognise beside its own: extremes that begin at an infinity.
//!
//! To factor a reduction, or to reduce across threads, TVM has to know where it begins. In its own list maxima of
//! floating-point numbers begin at the smallest number, which is larger than minus infinity. The maximum of minus
//! infinities comes out wrong. The importer writes kernels that begin at infinity. Indices of their extremes begin at a
//! value that every other one replaces. The same reductions are registered here.

use tvm_ffi::{Any, AnyView, Function};

use crate::call::{Obj, array, binary, call, elements, field, int, none};
use crate::dtype::DType;
use crate::error::Result;

/// Registers the reductions.
///
/// # Errors
/// Fails if TVM does.
pub(crate) fn register() -> Result<()> {
    for extreme in [Extreme::Largest, Extreme::Smallest] {
        register_one(1, move |x, y| extreme.of(x, y), move |v| extreme.start(v))?;
        for order in ["prim.LT", "prim.GT"] {
            register_one(
                2,
                move |x, y| extreme.place_of(x, y, order),
                move |v| extreme.start_of_place(v, order),
            )?;
        }
    }
    Ok(())
}

#[derive(Debug, Clone, Copy)]
enum Extreme {
    Largest,
    Smallest,
}

impl Extreme {
    /// The larger, or smaller, of two values.
    fn of(self, x: &[Obj], y: &[Obj]) -> Result<Vec<Obj>> {
        let op = match self {
            Extreme::Largest => "prim.Max",
            Extreme::Smallest => "prim.Min",
        };
        Ok(vec![binary(op, &x[0], &y[0])?])
    }

    /// The index of the larger, or smaller, of two values. Of equal values, the index that comes first by `order`.
    fn place_of(self, x: &[Obj], y: &[Obj], order: &str) -> Result<Vec<Obj>> {
        let beyond = match self {
            Extreme::Largest => "prim.GT",
            Extreme::Smallest => "prim.LT",
        };
        let is_beyond = binary(beyond, &x[1], &y[1])?;
        let is_equal = binary("prim.EQ", &x[1], &y[1])?;
        let is_first = binary(order, &x[0], &y[0])?;
        let is_wanted = binary(
            "prim.Or",
            &is_beyond,
            &binary("prim.And", &is_equal, &is_first)?,
        )?;
        let select =
            |condition: &Obj, i: usize| call("prim.Select", &[condition, &x[i], &y[i], &none()]);
        Ok(vec![select(&is_wanted, 0)?, select(&is_beyond, 1)?])
    }

    /// The value that every other value replaces.
    fn start(self, values: &[Obj]) -> Result<Vec<Obj>> {
        Ok(vec![self.of_nothing(&values[0])?])
    }

    /// The start of a reduction to an index: an index that every other one replaces, and its value.
    fn start_of_place(self, values: &[Obj], order: &str) -> Result<Vec<Obj>> {
        let ty = field(&values[0], "ty")?;
        let place = match order {
            "prim.LT" => call("prim.max_value", &[&ty, &none()])?,
            _ => call("ir.IntImm", &[&field(&ty, "dtype")?, &int(-1), &none()])?,
        };
        Ok(vec![place, self.of_nothing(&values[1])?])
    }

    /// The extreme of no values of the type of `value`.
    fn of_nothing(self, value: &Obj) -> Result<Obj> {
        let ty = field(value, "ty")?;
        let dtype = field(&ty, "dtype")?;
        let known = dtype.0.try_as().and_then(DType::from_dl);
        let infinity = match self {
            Extreme::Largest => f64::NEG_INFINITY,
            Extreme::Smallest => f64::INFINITY,
        };
        match known {
            Some(DType::Float16 | DType::BFloat16 | DType::Float32 | DType::Float64) => {
                call("ir.FloatImm", &[&dtype, &Obj(Any::from(infinity)), &none()])
            }
            // All other reductions start with TVM's own values.
            _ => match self {
                Extreme::Largest => call("prim.min_value", &[&ty, &none()]),
                Extreme::Smallest => call("prim.max_value", &[&ty, &none()]),
            },
        }
    }
}

/// Registers the reduction of this number of buffers: how two values of each combine, and their initial values.
fn register_one(
    buffers: i64,
    combined: impl Fn(&[Obj], &[Obj]) -> Result<Vec<Obj>> + 'static,
    start: impl Fn(&[Obj]) -> Result<Vec<Obj>> + 'static,
) -> Result<()> {
    let combined =
        callback(move |arguments| combined(&elements(&arguments[0])?, &elements(&arguments[1])?));
    let start = callback(move |arguments| start(&elements(&arguments[0])?));
    call(
        "s_tir.schedule.RegisterReducer",
        &[&int(buffers), &combined, &start],
    )?;
    Ok(())
}

/// A function of TVM's that answers with an array.
fn callback(answer: impl Fn(&[Obj]) -> Result<Vec<Obj>> + 'static) -> Obj {
    let function = move |arguments: &[AnyView<'_>]| {
        let arguments: Vec<Obj> = arguments.iter().map(|a| Obj(Any::from(*a))).collect();
        let answered = answer(&arguments).and_then(|items| array(&items));
        answered
            .map(|found| found.0)
            .map_err(|e| tvm_ffi::Error::new(tvm_ffi::RUNTIME_ERROR, &e.to_string(), ""))
    };
    Obj(Any::from(Function::from_packed(function)))
}
