//! Calling TVM's global functions by name.
//!
//! Every call of this crate goes through [`call`]. So names are looked up once a thread, errors are shaped in one
//! place, and `libtvm_*` is certainly loaded. Functions that TVM calls are registered here, by [`register`]. [`Obj`]
//! is a counted reference to any TVM object.

use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tvm_ffi::object::ObjectRef;
use tvm_ffi::{Any, AnyView, FieldGetter, Function, Object, ObjectRefCore};

use crate::error::{Error, Result};

/// A counted reference to a TVM object (or a plain value) of any type.
#[derive(Clone, Default)]
pub(crate) struct Obj(pub(crate) Any);

// SAFETY: TVM's objects count their references atomically and the runtime may be called from any thread. The IR objects
// shared between threads here (functions, modules, targets) are immutable after construction.
unsafe impl Send for Obj {}
// SAFETY: as above; no method of `Obj` hands out interior mutability.
unsafe impl Sync for Obj {}

impl std::fmt::Debug for Obj {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Obj(type {})", self.0.type_index())
    }
}

impl Obj {
    pub(crate) fn view(&self) -> AnyView<'_> {
        AnyView::from(&self.0)
    }
}

/// A string as TVM takes it.
pub(crate) fn text(s: &str) -> Obj {
    Obj(Any::from(tvm_ffi::String::from(s)))
}

/// An integer as TVM takes it.
pub(crate) fn int(i: i64) -> Obj {
    Obj(Any::from(i))
}

/// A boolean as TVM takes it.
pub(crate) fn boolean(b: bool) -> Obj {
    Obj(Any::from(b))
}

/// TVM's `None`.
pub(crate) fn none() -> Obj {
    Obj::default()
}

/// A TVM array of the given elements.
pub(crate) fn array<'a>(items: impl IntoIterator<Item = &'a Obj>) -> Result<Obj> {
    let items: Vec<&Obj> = items.into_iter().collect();
    call("ffi.Array", &items)
}

/// A TVM map from the given pairs.
pub(crate) fn map<'a>(pairs: impl IntoIterator<Item = (&'a Obj, &'a Obj)>) -> Result<Obj> {
    let flat: Vec<&Obj> = pairs.into_iter().flat_map(|(k, v)| [k, v]).collect();
    call("ffi.Map", &flat)
}

/// The elements of a TVM array.
pub(crate) fn elements(array: &Obj) -> Result<Vec<Obj>> {
    let n: i64 = value("ffi.ArraySize", call("ffi.ArraySize", &[array])?)?;
    (0..n)
        .map(|i| call("ffi.ArrayGetItem", &[array, &int(i)]))
        .collect()
}

/// Converts a result to a Rust value.
pub(crate) fn value<T>(name: &str, result: Obj) -> Result<T>
where
    T: tvm_ffi::AnyCompatible,
{
    result.0.try_as::<T>().ok_or_else(|| {
        Error::unexpected(name, format!("a value of type {}", result.0.type_index()))
    })
}

/// A reflected field of a TVM object.
///
/// # Errors
/// Fails if `object` is a plain value, or has no such field.
pub(crate) fn field(object: &Obj, name: &str) -> Result<Obj> {
    let reference: ObjectRef = object
        .0
        .try_as()
        .ok_or_else(|| Error::unexpected(name, "a plain value where an object was expected"))?;
    let shape = |e: tvm_ffi::Error| Error::from_tvm(name, &e);
    let getter = FieldGetter::new(object.0.type_index(), name).map_err(shape)?;
    getter
        .get_any::<Object>(ObjectRef::data(&reference))
        .map(Obj)
        .map_err(shape)
}

/// Calls the global function `name`.
///
/// # Errors
/// Fails if the function does not exist, or it raised.
pub(crate) fn call(name: &str, args: &[&Obj]) -> Result<Obj> {
    let function = global(name)?;
    invoke(name, &function, args)
}

/// `a op b`; `op` is a name of TVM's expression constructors (`prim.FloorDiv`).
pub(crate) fn binary(op: &str, a: &Obj, b: &Obj) -> Result<Obj> {
    call(op, &[a, b, &none()])
}

/// Calls `function`; `name` only labels errors.
pub(crate) fn invoke(name: &str, function: &Function, args: &[&Obj]) -> Result<Obj> {
    let views: Vec<AnyView<'_>> = args.iter().map(|o| o.view()).collect();
    function
        .call_packed(&views)
        .map(Obj)
        .map_err(|e| Error::from_tvm(name, &e))
}

/// Looks a global function up, once a thread.
fn global(name: &str) -> Result<Function> {
    thread_local! {
        static FUNCTIONS: RefCell<HashMap<String, Function>> = RefCell::new(HashMap::new());
    }
    if let Some(found) = FUNCTIONS.with_borrow(|m| m.get(name).cloned()) {
        return Ok(found);
    }
    let function = Function::get_global(name).map_err(|e| Error::from_tvm(name, &e))?;
    FUNCTIONS.with_borrow_mut(|m| m.insert(name.to_owned(), function.clone()));
    Ok(function)
}

/// A method of a TVM module by name (`module` must be an `ffi.Module`).
pub(crate) fn module_function(module: &Obj, name: &str) -> Result<Function> {
    let found = call(
        "ffi.ModuleGetFunction",
        &[module, &text(name), &boolean(true)],
    )?;
    found
        .0
        .try_as::<Function>()
        .ok_or_else(|| Error::unexpected("ffi.ModuleGetFunction", format!("no function `{name}`")))
}

/// `callback` as a function that TVM can call; an error, or a panic, becomes TVM's error. `name` is for messages.
pub(crate) fn packed(
    name: String,
    callback: impl Fn(&[AnyView<'_>]) -> std::result::Result<Any, String> + 'static,
) -> Function {
    Function::from_packed(move |arguments: &[AnyView<'_>]| {
        let failed = |message: &str| tvm_ffi::Error::new(tvm_ffi::RUNTIME_ERROR, message, "");
        match catch_unwind(AssertUnwindSafe(|| callback(arguments))) {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(message)) => Err(failed(&message)),
            Err(_) => Err(failed(&format!("{name} panicked"))),
        }
    })
}

/// Registers `callback` as TVM's global function `name`; an error, or a panic, becomes TVM's error.
pub(crate) fn register(
    name: &'static str,
    callback: impl Fn(&[AnyView<'_>]) -> std::result::Result<Any, String> + 'static,
) -> Result<()> {
    let function = packed(name.to_owned(), callback);
    Function::register_global(name, function).map_err(|e| Error::from_tvm(name, &e))
}
