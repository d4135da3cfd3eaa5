//! IR modules and functions: JSON in and out, lookup, replacement.
//!
//! The JSON is that of TVM's graph serialiser (`tvm.ir.save_json` writes it on the Python side). Modules and functions
//! are immutable here: every change makes a new module.

use crate::call::{Obj, array, binary, boolean, call, elements, field, map, none, text, value};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::libs::Libraries;

/// An `IRModule`.
#[derive(Debug, Clone)]
pub struct IrModule {
    pub(crate) handle: Obj,
}

/// A TensorIR function.
#[derive(Debug, Clone)]
pub struct PrimFunc {
    pub(crate) handle: Obj,
}

/// Name under which a lone function stands in its module.
pub const ENTRY: &str = "main";

impl IrModule {
    /// Reads a module from TVM's JSON.
    ///
    /// # Errors
    /// Fails if the text is not a module of this TVM version.
    pub fn from_json(json: &str) -> Result<IrModule> {
        Libraries::load()?;
        let handle = call("ffi.FromJSONGraphString", &[&text(json)])?;
        Ok(IrModule { handle })
    }

    /// Writes the module as TVM's JSON.
    ///
    /// # Errors
    /// Fails if the serialiser does.
    pub fn to_json(&self) -> Result<String> {
        to_json(&self.handle)
    }

    /// A hash of the module's structure, equal for modules that differ in variable names alone.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn structural_hash(&self) -> Result<u64> {
        structural_hash(&self.handle)
    }

    /// Names of the module's functions, sorted.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn function_names(&self) -> Result<Vec<String>> {
        let vars = elements(&call("ir.Module_GetGlobalVars", &[&self.handle])?)?;
        let mut names = vars
            .iter()
            .map(global_var_name)
            .collect::<Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    /// The TensorIR function called `name`.
    ///
    /// # Errors
    /// Fails if there is none.
    pub fn prim_func(&self, name: &str) -> Result<PrimFunc> {
        Ok(PrimFunc {
            handle: call("ir.Module_Lookup_str", &[&self.handle, &text(name)])?,
        })
    }

    /// The function called `name`, Relax or TensorIR, as TVMScript.
    ///
    /// # Errors
    /// Fails if there is none.
    pub fn function_script(&self, name: &str) -> Result<String> {
        script(&call("ir.Module_Lookup_str", &[&self.handle, &text(name)])?)
    }

    /// A module in which the functions of `replacements` replace those of the same names.
    ///
    /// # Errors
    /// Fails if a name is not in the module.
    pub fn with_functions<'a>(
        &self,
        replacements: impl IntoIterator<Item = (&'a str, &'a PrimFunc)>,
    ) -> Result<IrModule> {
        let copy = call("ir.Module_Clone", &[&self.handle])?;
        for (name, function) in replacements {
            let var = call("ir.Module_GetGlobalVar", &[&copy, &text(name)])?;
            call("ir.Module_UpdateFunction", &[&copy, &var, &function.handle])?;
        }
        Ok(IrModule { handle: copy })
    }

    /// A module that holds the named functions alone.
    pub(crate) fn of_functions(functions: &[(Obj, Obj)]) -> Result<IrModule> {
        let functions = map(functions.iter().map(|(k, v)| (k, v)))?;
        Ok(IrModule {
            handle: call("ir.IRModule", &[&functions, &none(), &map([])?])?,
        })
    }

    /// A module with the functions of these names alone.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn only(&self, names: &[String]) -> Result<IrModule> {
        let mut entries = self.entries()?;
        let all = self.function_names()?;
        let mut named = all.iter().map(|name| names.contains(name));
        entries.retain(|_| named.next().unwrap_or(false));
        IrModule::of_functions(&entries)
    }

    /// The module's functions distributed over at most `parts` modules of about equal size.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn distribute(&self, parts: usize) -> Result<Vec<IrModule>> {
        let entries = self.entries()?;
        let functions_of = |part: usize| {
            entries
                .iter()
                .skip(part)
                .step_by(parts.max(1))
                .cloned()
                .collect::<Vec<_>>()
        };
        (0..parts.max(1))
            .map(functions_of)
            .filter(|p| !p.is_empty())
            .map(|p| IrModule::of_functions(&p))
            .collect()
    }

    /// Global variables with their functions.
    pub(crate) fn entries(&self) -> Result<Vec<(Obj, Obj)>> {
        let vars = elements(&call("ir.Module_GetGlobalVars", &[&self.handle])?)?;
        vars.into_iter()
            .map(|var| {
                let function = call("ir.Module_Lookup", &[&self.handle, &var])?;
                Ok((var, function))
            })
            .collect()
    }

    /// The module with its PrimFuncs replaced by those of `other`. `None` if `other` changes nothing.
    pub(crate) fn with_changed(
        &self,
        other: impl Fn(&PrimFunc) -> Result<Option<PrimFunc>>,
    ) -> Result<Option<IrModule>> {
        let mut functions = self.entries()?;
        let mut changed = false;
        for (_, function) in functions.iter_mut().filter(|(_, f)| is_prim_func(f)) {
            let own = PrimFunc {
                handle: function.clone(),
            };
            if let Some(other) = other(&own)? {
                *function = other.handle;
                changed = true;
            }
        }
        changed
            .then(|| IrModule::of_functions(&functions))
            .transpose()
    }
}

impl PrimFunc {
    /// Writes the function as TVM's JSON.
    ///
    /// # Errors
    /// Fails if the serialiser does.
    pub fn to_json(&self) -> Result<String> {
        to_json(&self.handle)
    }

    /// Reads a function from TVM's JSON.
    ///
    /// # Errors
    /// Fails if the text is not a function of this TVM version.
    pub fn from_json(json: &str) -> Result<PrimFunc> {
        Libraries::load()?;
        let handle = call("ffi.FromJSONGraphString", &[&text(json)])?;
        Ok(PrimFunc { handle })
    }

    /// The function as TVMScript, for people.
    ///
    /// # Errors
    /// Fails if the printer does.
    pub fn script(&self) -> Result<String> {
        script(&self.handle)
    }

    /// The block around the function's body.
    pub(crate) fn root_block(&self) -> Result<Obj> {
        field(&field(&self.handle, "body")?, "block")
    }

    /// A module with this function alone, named [`ENTRY`].
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn to_module(&self) -> Result<IrModule> {
        let named = self.with_symbol(ENTRY)?;
        Ok(IrModule {
            handle: call("ir.Module_FromExpr", &[&named.handle, &map([])?])?,
        })
    }

    /// The same function with its exported symbol set.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn with_symbol(&self, symbol: &str) -> Result<PrimFunc> {
        let handle = call(
            "ir.BaseFuncWithAttr",
            &[&self.handle, &text("global_symbol"), &text(symbol)],
        )?;
        Ok(PrimFunc { handle })
    }

    /// The same function with another body.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub(crate) fn with_statement(&self, body: &Obj) -> Result<PrimFunc> {
        let [params, ret_type, attrs] =
            ["params", "ret_type", "attrs"].map(|name| field(&self.handle, name));
        let parts = [&params?, body, &ret_type?, &attrs?, &none()];
        let handle = call("tirx.PrimFunc", &parts)?;
        Ok(PrimFunc { handle })
    }

    /// The same function without an exported symbol: private to its module.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn without_symbol(&self) -> Result<PrimFunc> {
        let arguments = [&self.handle, &text("global_symbol")];
        let handle = call("ir.BaseFuncWithoutAttr", &arguments)?;
        Ok(PrimFunc { handle })
    }

    /// A hash of the function's structure, equal for functions that differ in variable names alone.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn structural_hash(&self) -> Result<u64> {
        structural_hash(&self.handle)
    }
}

fn structural_hash(object: &Obj) -> Result<u64> {
    const NAME: &str = "ffi.StructuralHash";
    let hash: i64 = value(
        NAME,
        call(NAME, &[object, &boolean(false), &boolean(false)])?,
    )?;
    Ok(hash as u64)
}

fn to_json(object: &Obj) -> Result<String> {
    const NAME: &str = "ffi.ToJSONGraphString";
    let json: tvm_ffi::String = value(NAME, call(NAME, &[object, &none()])?)?;
    Ok(json.as_str().to_owned())
}

pub(crate) fn script(object: &Obj) -> Result<String> {
    const NAME: &str = "node.TVMScriptPrinterScript";
    let printed: tvm_ffi::String = value(
        NAME,
        call(NAME, &[object, &call("node.PrinterConfig", &[&map([])?])?])?,
    )?;
    Ok(printed.as_str().to_owned())
}

fn global_var_name(var: &Obj) -> Result<String> {
    let name: tvm_ffi::String = value("GlobalVar.name_hint", field(var, "name_hint")?)?;
    Ok(name.as_str().to_owned())
}

/// Whether a function of a module is a TensorIR one (not a Relax function).
pub(crate) fn is_prim_func(function: &Obj) -> bool {
    type_key(function) == Some("tirx.PrimFunc")
}

/// Name of an object's type, for example `ir.Var`.
pub(crate) fn type_key(object: &Obj) -> Option<&'static str> {
    // SAFETY: the index comes from a live value, so it is registered; type information is never freed.
    let info = unsafe { tvm_ffi::tvm_ffi_sys::TVMFFIGetTypeInfo(object.0.type_index()).as_ref() };
    info.map(|i| i.type_key.as_str())
}

/// An index map `(axes…) -> (axes in another order, some split)`, as layout transformations take it.
#[derive(Debug, Clone)]
pub struct IndexMap {
    pub(crate) handle: Obj,
}

impl IndexMap {
    fn new<'a>(vars: &[Obj], target: impl IntoIterator<Item = &'a Obj>) -> Result<IndexMap> {
        let handle = call("tirx.IndexMap", &[&array(vars)?, &array(target)?, &none()])?;
        Ok(IndexMap { handle })
    }

    /// Splits the last of `dims` axes into `(…, last mod stride, last div stride)`: one phase after the other.
    ///
    /// # Errors
    /// Fails if there is no axis, or if TVM fails.
    pub fn phases(dims: usize, stride: i64) -> Result<IndexMap> {
        let vars = index_vars(dims)?;
        let Some((last, others)) = vars.split_last() else {
            return Err(Error::unexpected("IndexMap::phases", "no axis"));
        };
        let stride = index_constant(stride)?;
        let phase = binary("prim.FloorMod", last, &stride)?;
        let place = binary("prim.FloorDiv", last, &stride)?;
        IndexMap::new(&vars, others.iter().chain([&phase, &place]))
    }

    /// Fuses axes: each group of `groups` becomes one axis, its first member the slowest; an empty group is an axis of
    /// one value. `extents` are those of the source axes.
    ///
    /// # Errors
    /// Fails if a group has an axis that there is not, or if TVM does.
    pub fn fused(extents: &[i64], groups: &[Vec<usize>]) -> Result<IndexMap> {
        let vars = index_vars(extents.len())?;
        let axis_of = |group: &Vec<usize>| {
            let mut fused: Option<Obj> = None;
            for &axis in group {
                let (Some(var), Some(&extent)) = (vars.get(axis), extents.get(axis)) else {
                    return Err(Error::unexpected(
                        "IndexMap::fused",
                        format!("no axis {axis}"),
                    ));
                };
                fused = Some(match fused {
                    None => var.clone(),
                    Some(slower) => {
                        let scaled = binary("prim.Mul", &slower, &index_constant(extent)?)?;
                        binary("prim.Add", &scaled, var)?
                    }
                });
            }
            fused.map_or_else(|| index_constant(0), Ok)
        };
        let target = groups.iter().map(axis_of).collect::<Result<Vec<_>>>()?;
        IndexMap::new(&vars, &target)
    }

    /// Splits axis `axis` of `dims` into `(axis div inner, axis mod inner)`, in its place.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn split(dims: usize, axis: usize, inner: i64) -> Result<IndexMap> {
        let vars = index_vars(dims)?;
        let inner = index_constant(inner)?;
        let mut target = Vec::with_capacity(dims + 1);
        for (place, var) in vars.iter().enumerate() {
            if place == axis {
                target.push(binary("prim.FloorDiv", var, &inner)?);
                target.push(binary("prim.FloorMod", var, &inner)?);
            } else {
                target.push(var.clone());
            }
        }
        IndexMap::new(&vars, &target)
    }

    /// The permutation that puts source axis `order[i]` at place `i`.
    ///
    /// # Errors
    /// Fails if `order` is not a permutation, or if TVM does.
    pub fn permutation(order: &[usize]) -> Result<IndexMap> {
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..order.len()) {
            let what = format!("{order:?} is no permutation");
            return Err(Error::unexpected("IndexMap::permutation", what));
        }
        let vars = index_vars(order.len())?;
        IndexMap::new(&vars, order.iter().map(|&axis| &vars[axis]))
    }
}

/// Block variables of imported operators are 64-bit, and an index map's have to agree with them.
pub(crate) fn index_constant(value: i64) -> Result<Obj> {
    call(
        "ir.IntImm",
        &[&DType::Int64.object(), &crate::call::int(value), &none()],
    )
}

fn index_vars(count: usize) -> Result<Vec<Obj>> {
    (0..count).map(|i| index_var(&format!("i{i}"))).collect()
}

pub(crate) fn index_var(name: &str) -> Result<Obj> {
    let of_type = call("ir.PrimType", &[&DType::Int64.object()])?;
    call("ir.Var", &[&text(name), &of_type, &none()])
}
