//! Running TVM's passes over a module.
//!
//! A pass is made by a global function (`tirx.transform.StmtSimplify`, …) and applied with `transform.RunPass`. A pass
//! context is bound to the thread that entered it, so [`Context`] is a guard that must not move to another thread.

use std::marker::PhantomData;

use crate::call::{Obj, array, boolean, call, int, map, none, text};
use crate::error::Result;

/// Makes the pass `name` with its constructor's arguments.
pub(crate) fn make(name: &str, args: &[&Obj]) -> Result<Obj> {
    call(name, args)
}

/// Applies one pass.
pub(crate) fn run(pass: &Obj, module: &Obj) -> Result<Obj> {
    call("transform.RunPass", &[pass, module])
}

/// Makes and applies passes that take no argument, in order.
pub(crate) fn run_all(names: &[&str], module: Obj) -> Result<Obj> {
    names
        .iter()
        .try_fold(module, |module, name| run(&make(name, &[])?, &module))
}

/// A pass context in force on this thread until dropped.
pub(crate) struct Context {
    handle: Obj,
    _bound_to_thread: PhantomData<*const ()>,
}

impl Context {
    /// Enters a context with these boolean options set.
    pub(crate) fn enter(options: &[(&str, bool)]) -> Result<Context> {
        let pairs: Vec<(Obj, Obj)> = options
            .iter()
            .map(|(k, v)| (text(k), boolean(*v)))
            .collect();
        let config = if pairs.is_empty() {
            none()
        } else {
            map(pairs.iter().map(|(k, v)| (k, v)))?
        };
        let empty = array([])?;
        /// TVM's default optimisation level.
        const OPT_LEVEL: i64 = 2;
        let handle = call(
            "transform.PassContext",
            &[&int(OPT_LEVEL), &empty, &empty, &empty, &config],
        )?;
        call("transform.EnterPassContext", &[&handle])?;
        Ok(Context {
            handle,
            _bound_to_thread: PhantomData,
        })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // Leaving fails only if contexts were left out of order, which the guard rules out.
        let _ = call("transform.ExitPassContext", &[&self.handle]);
    }
}
