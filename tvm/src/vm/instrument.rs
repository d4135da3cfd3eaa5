//! Watching the calls of a virtual machine: a hook before and after each gets the function and its tensors.
//!
//! TVM's own way (`set_instrument`) turns the function's name and every element type among the arguments into text and
//! back, twice a call. Here the functions themselves are wrapped: when it starts, a machine looks up every function
//! that it calls by name. It looks first in the modules that it is linked with, then among TVM's global functions. A
//! machine that is linked with nothing, and started while wrappers are registered under those names, always calls the
//! wrappers. Functions of the Relax program itself are not wrapped, but what they call is.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use tvm_ffi::collections::shape::Shape;
use tvm_ffi::collections::tensor::Tensor;
use tvm_ffi::{Any, AnyView, Function};

use crate::call::{call, int, invoke, text, value};
use crate::dtype::DType;
use crate::error::{Error, Result};

/// Prefix of the names of the machine's own functions.
const BUILTINS: &str = "vm.builtin.";

/// When the hook is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The call is about to be made.
    Before,
    /// The call has returned.
    After,
}

/// A call of the virtual machine, as the hook sees it.
///
/// Each field is read on demand: a hook that only takes the time pays for nothing else.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    symbol: &'a str,
    moment: Moment,
    arguments: &'a [AnyView<'a>],
    result: Option<&'a Any>,
}

/// A tensor that a call was given or has returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorFacts {
    /// Where its elements lie; equal for tensors that share memory.
    pub address: usize,
    /// Extents of the dimensions.
    pub shape: Vec<i64>,
    /// Element type. `None` for an unknown one.
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

impl Call<'_> {
    /// Whether the call is about to be made or has returned.
    #[inline]
    pub fn moment(&self) -> Moment {
        self.moment
    }

    /// Name of the function.
    pub fn symbol(&self) -> &str {
        self.symbol
    }

    /// The tensors among the call's arguments, in order.
    pub fn tensors(&self) -> Vec<TensorFacts> {
        self.arguments.iter().filter_map(TensorFacts::of).collect()
    }

    /// The same tensors, to be kept: they keep their memory alive.
    pub fn kept_tensors(&self) -> Vec<crate::tensor::Tensor> {
        let tensors = self.arguments.iter();
        tensors
            .filter_map(crate::tensor::Tensor::of_argument)
            .collect()
    }

    /// The shapes among the call's arguments, in order.
    pub fn shapes(&self) -> Vec<Vec<i64>> {
        self.arguments
            .iter()
            .filter_map(|a| Some(a.try_as::<Shape>()?.as_slice().to_vec()))
            .collect()
    }

    /// The tensor that was returned, if it was one; known after the call only.
    pub fn result(&self) -> Option<TensorFacts> {
        self.result.and_then(|r| TensorFacts::of(&AnyView::from(r)))
    }
}

/// Called at each call.
type CallHook = Box<dyn Fn(&Call<'_>)>;

/// The hook for each call of a machine, if there is one; it can be changed during the machine's life.
#[derive(Clone, Default)]
pub(super) struct Hook(Rc<RefCell<Option<CallHook>>>);

impl Hook {
    pub(super) fn set(&self, hook: Option<CallHook>) {
        self.0.replace(hook);
    }

    #[inline]
    fn call(&self, call: &Call<'_>) {
        if let Some(hook) = &*self.0.borrow() {
            hook(call);
        }
    }

    /// `function` with the hook before and after it.
    fn around(&self, symbol: String, function: Function) -> Function {
        let hook = self.clone();
        let watched = move |arguments: &[AnyView<'_>]| {
            let mut call = Call {
                symbol: &symbol,
                moment: Moment::Before,
                arguments,
                result: None,
            };
            hook.call(&call);
            let result = function.call_packed(arguments);
            call.moment = Moment::After;
            call.result = result.as_ref().ok();
            hook.call(&call);
            result
        };
        Function::from_packed(move |arguments: &[AnyView<'_>]| {
            // No panic may cross into TVM.
            catch_unwind(AssertUnwindSafe(|| watched(arguments))).unwrap_or_else(|_| {
                let message = "the hook of the virtual machine panicked";
                Err(tvm_ffi::Error::new(tvm_ffi::RUNTIME_ERROR, message, ""))
            })
        })
    }
}

/// Calls `start` while these kernels and the machine's own functions stand among TVM's global functions with `hook`
/// around them. Afterwards the global functions are what they were.
pub(super) fn with_wrappers<T>(
    hook: &Hook,
    mut functions: Vec<(String, Function)>,
    start: impl FnOnce() -> Result<T>,
) -> Result<T> {
    for name in builtins()? {
        let function = Function::get_global(&name).map_err(|e| Error::from_tvm(&name, &e))?;
        functions.push((name, function));
    }
    let around = |(name, function): (String, Function)| {
        let wrapped = hook.around(name.clone(), function);
        (name, wrapped)
    };
    with_globals(functions.into_iter().map(around).collect(), start)
}

/// Calls `start` with these functions registered as TVM's global functions. Afterwards the earlier ones are back.
pub(super) fn with_globals<T>(
    functions: Vec<(String, Function)>,
    start: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let mut originals = Vec::with_capacity(functions.len());
    let wrapped = functions.into_iter().try_for_each(|(name, function)| {
        originals.push((name.clone(), Function::get_global(&name).ok()));
        replace(&name, Some(function))
    });
    let started = wrapped.and_then(|()| start());
    originals
        .into_iter()
        .try_for_each(|(name, original)| replace(&name, original))?;
    started
}

/// Puts `function`, or none, in the place of the global function `name`.
fn replace(name: &str, function: Option<Function>) -> Result<()> {
    call("ffi.FunctionRemoveGlobal", &[&text(name)])?;
    function.map_or(Ok(()), |function| {
        Function::register_global(name, function).map_err(|e| Error::from_tvm(name, &e))
    })
}

/// Names of the machine's own functions.
fn builtins() -> Result<Vec<String>> {
    const LIST: &str = "ffi.FunctionListGlobalNamesFunctor";
    let names: Function = value(LIST, call(LIST, &[])?)?;
    // With a negative number, the function returns the number of names.
    let count: i64 = value(LIST, invoke(LIST, &names, &[&int(-1)])?)?;
    let mut builtins = Vec::new();
    for i in 0..count {
        let name: tvm_ffi::String = value(LIST, invoke(LIST, &names, &[&int(i)])?)?;
        if name.as_str().starts_with(BUILTINS) {
            builtins.push(name.as_str().to_owned());
        }
    }
    Ok(builtins)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libs::Libraries;

    #[test]
    fn wrappers_call_the_hook_at_every_call_and_leave_nothing_behind() {
        Libraries::load().unwrap();
        const NAME: &str = "opbench.test.negated";
        let negated = Function::from_packed(|arguments: &[AnyView<'_>]| {
            let number: Option<i64> = arguments[0].try_as();
            Ok(Any::from(-number.unwrap()))
        });
        let seen = Rc::new(RefCell::new(Vec::new()));
        let in_hook = Rc::clone(&seen);
        let hook = Hook::default();
        hook.set(Some(Box::new(move |call: &Call<'_>| {
            let seen = (call.symbol().to_owned(), call.moment());
            in_hook.borrow_mut().push(seen);
        })));
        let copied = || call("vm.builtin.copy", &[&int(5)]).unwrap();
        let (own, builtin) = with_wrappers(&hook, vec![(NAME.to_owned(), negated)], || {
            let builtin = Function::get_global("vm.builtin.copy").unwrap();
            Ok((call(NAME, &[&int(3)])?, builtin))
        })
        .unwrap();
        assert_eq!(value::<i64>(NAME, own).unwrap(), -3);
        let twice = [Moment::Before, Moment::After];
        assert_eq!(
            *seen.borrow(),
            twice.map(|moment| (NAME.to_owned(), moment))
        );
        // Whoever looked a name up meanwhile goes on calling the wrapper; others no more.
        assert!(Function::get_global(NAME).is_err());
        assert_eq!(value::<i64>("copy", copied()).unwrap(), 5);
        assert_eq!(seen.borrow().len(), 2);
        invoke("copy", &builtin, &[&int(5)]).unwrap();
        assert_eq!(seen.borrow().len(), 4);
        hook.set(Some(Box::new(|_| panic!("in the hook"))));
        assert!(invoke("copy", &builtin, &[&int(5)]).is_err());
    }
}
