//! What the virtual machine tells its instrument of a call: which function, before or after, and the tensors it is given.
//!
//! Everything is read when it is asked for: a hook that takes the time only pays for nothing else.

use tvm_ffi::collections::shape::Shape;
use tvm_ffi::collections::tensor::Tensor;
use tvm_ffi::{Any, AnyView};

use crate::dtype::DType;

/// Places of the instrument's arguments: the function comes first, those of the call itself last.
const SYMBOL: usize = 1;
const BEFORE: usize = 2;
const RESULT: usize = 3;
const ARGUMENTS: usize = 4;

/// When the hook is told of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The call is about to be made.
    Before,
    /// The call has returned.
    After,
}

/// A call of the virtual machine, as its instrument sees it.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    arguments: &'a [AnyView<'a>],
}

/// A tensor that a call was given or has returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorFacts {
    /// Where its elements lie; equal for tensors that share memory.
    pub address: usize,
    /// Extents of the dimensions.
    pub shape: Vec<i64>,
    /// Element type; none for one that is not known here.
    pub dtype: Option<DType>,
}

impl TensorFacts {
    /// Bytes of all elements; 0 for an element type that is not known here.
    pub fn bytes(&self) -> u64 {
        let elements: i64 = self.shape.iter().product();
        elements.max(0) as u64 * self.dtype.map_or(0, |d| d.bytes() as u64)
    }

    fn of(value: &AnyView<'_>) -> Option<TensorFacts> {
        let tensor: Tensor = value.try_as()?;
        Some(TensorFacts {
            address: tensor.data_ptr() as usize,
            shape: tensor.shape().to_vec(),
            dtype: DType::from_dl(tensor.dtype()),
        })
    }
}

impl<'a> Call<'a> {
    pub(super) fn new(arguments: &'a [AnyView<'a>]) -> Call<'a> {
        Call { arguments }
    }

    /// Whether the call is about to be made or has returned.
    #[inline]
    pub fn moment(&self) -> Moment {
        match self.arguments.get(BEFORE).and_then(AnyView::try_as) {
            Some(true) => Moment::Before,
            _ => Moment::After,
        }
    }

    /// Name of the function; empty if TVM gave none.
    pub fn symbol(&self) -> String {
        // It comes as a raw C++ string, which has to be copied to become a TVM one.
        self.arguments
            .get(SYMBOL)
            .and_then(|a| Any::from(*a).try_as::<tvm_ffi::String>())
            .map_or_else(String::new, |s| s.as_str().to_owned())
    }

    /// The tensors among the call's arguments, in order.
    pub fn tensors(&self) -> Vec<TensorFacts> {
        let own = self.arguments.get(ARGUMENTS..).unwrap_or_default();
        own.iter().filter_map(TensorFacts::of).collect()
    }

    /// The shapes among the call's arguments, in order.
    pub fn shapes(&self) -> Vec<Vec<i64>> {
        let own = self.arguments.get(ARGUMENTS..).unwrap_or_default();
        own.iter()
            .filter_map(|a| Some(a.try_as::<Shape>()?.as_slice().to_vec()))
            .collect()
    }

    /// The tensor that was returned, if it was one; known after the call only.
    pub fn result(&self) -> Option<TensorFacts> {
        self.arguments.get(RESULT).and_then(TensorFacts::of)
    }
}
