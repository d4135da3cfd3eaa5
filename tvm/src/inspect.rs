//! Description of a schedule's block: its iteration variables and how they index its buffers.
//!
//! Read from the live TensorIR through TVM's reflection, so that it is right at any point of a schedule, for operators
//! of any origin. Index expressions are reduced to the iterators in them and their factors, which suffices for a
//! schedule space.

use crate::call::{Obj, call, elements, field, text, value};
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::{IrModule, is_prim_func, type_key};

/// A block's iteration space and its accesses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockInfo {
    /// The block's name.
    pub name: String,
    /// Iteration variables, outermost first, in the order of the block's loops where it is unscheduled.
    pub iters: Vec<Iter>,
    /// Buffers read (a reduction's own output not among them).
    pub reads: Vec<Access>,
    /// Buffers written.
    pub writes: Vec<Access>,
}

/// An iteration variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Iter {
    /// Its name, without TVM's `v_` prefix.
    pub name: String,
    /// Number of its values.
    pub extent: i64,
    /// Its role in the computation.
    pub kind: IterKind,
}

/// The role of an iteration variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IterKind {
    /// Its values can be computed in any order, or at once.
    Spatial,
    /// Its values are combined by a commutative reduction.
    Reduction,
    /// Anything else.
    Other,
}

/// One buffer as a block touches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The buffer's name.
    pub buffer: String,
    /// Its elements' type. `None` for a type that tensors cannot have.
    pub dtype: Option<DType>,
    /// Extents of its dimensions (0 where not constant).
    pub shape: Vec<i64>,
    /// The index of each dimension.
    pub indices: Vec<Index>,
}

/// An index expression.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Index {
    /// The iterators in it (places in [`BlockInfo::iters`]), each with its constant factor where it has one.
    pub terms: Vec<(usize, Option<i64>)>,
    /// The constant that is added.
    pub offset: i64,
    /// Number of consecutive values that the block touches at once: 1 for a point, more for a region.
    pub extent: i64,
    /// The iterator that this index is, divided by a constant and rounded down, and the constant. None if it is
    /// anything else, apart from constants that are added.
    pub quotient: Option<(usize, i64)>,
}

impl Index {
    /// The iterator, if this index is one iterator, with or without an added constant.
    pub fn plain(&self) -> Option<usize> {
        match self.terms[..] {
            [(iter, Some(1))] if self.extent == 1 => Some(iter),
            _ => None,
        }
    }

    /// Whether `iter` occurs in the index.
    pub fn uses(&self, iter: usize) -> bool {
        self.terms.iter().any(|t| t.0 == iter)
    }
}

impl Access {
    /// Whether `iter` occurs in any index.
    pub fn uses(&self, iter: usize) -> bool {
        self.indices.iter().any(|i| i.uses(iter))
    }
}

impl BlockInfo {
    /// Whether the block reduces anything.
    pub fn is_reduction(&self) -> bool {
        self.iters.iter().any(|i| i.kind == IterKind::Reduction)
    }

    /// Number of innermost iterators that every access either traverses contiguously, in order, or does not use at all.
    pub fn contiguous_suffix(&self) -> usize {
        let n = self.iters.len();
        let fits = |suffix: usize| {
            let iters: Vec<usize> = (n - suffix..n).collect();
            self.reads.iter().chain(&self.writes).all(|access| {
                if !iters.iter().any(|&i| access.uses(i)) {
                    return true;
                }
                let dims = access.indices.len();
                dims >= suffix
                    && iters
                        .iter()
                        .zip(&access.indices[dims - suffix..])
                        .zip(&access.shape[dims - suffix..])
                        .all(|((&iter, index), &extent)| {
                            index.plain() == Some(iter) && extent == self.iters[iter].extent
                        })
            })
        };
        (1..=n).rev().find(|&suffix| fits(suffix)).unwrap_or(0)
    }

    /// Places of the iterators of this kind.
    pub fn of_kind(&self, kind: IterKind) -> impl Iterator<Item = usize> + '_ {
        self.iters
            .iter()
            .enumerate()
            .filter(move |(_, i)| i.kind == kind)
            .map(|(p, _)| p)
    }

    pub(crate) fn of(node: &Obj) -> Result<BlockInfo> {
        let name = string(&field(node, "name_hint")?)?;
        let mut names = Vec::new();
        let mut iters = Vec::new();
        for iter in elements(&field(node, "iter_vars")?)? {
            let full_name = string(&field(&field(&iter, "var")?, "name")?)?;
            let kind: i64 = value("IterVar.iter_type", field(&iter, "iter_type")?)?;
            iters.push(Iter {
                name: full_name
                    .strip_prefix("v_")
                    .unwrap_or(&full_name)
                    .to_owned(),
                extent: constant(&field(&field(&iter, "dom")?, "extent")?).unwrap_or(0),
                // `IterVarType` of TVM: kDataPar and kCommReduce.
                kind: match kind {
                    0 => IterKind::Spatial,
                    2 => IterKind::Reduction,
                    _ => IterKind::Other,
                },
            });
            names.push(full_name);
        }
        let accesses = |list: &str| -> Result<Vec<Access>> {
            elements(&field(node, list)?)?
                .iter()
                .map(|region| access(region, &names))
                .collect()
        };
        let writes = accesses("writes")?;
        let mut reads = accesses("reads")?;
        reads.retain(|r| !writes.iter().any(|w| w.buffer == r.buffer));
        Ok(BlockInfo {
            name,
            iters,
            reads,
            writes,
        })
    }
}

/// Whether `test` holds for a loop or a block of a TensorIR function of a module that is not lowered yet.
pub(crate) fn any_statement(
    module: &IrModule,
    test: impl Fn(&Obj) -> Result<bool>,
) -> Result<bool> {
    for (_, function) in module.entries()? {
        if is_prim_func(&function) && any_statement_in(&field(&function, "body")?, &test)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The same for a statement and the statements inside it.
pub(crate) fn any_statement_in(
    statement: &Obj,
    test: &impl Fn(&Obj) -> Result<bool>,
) -> Result<bool> {
    match type_key(statement) {
        Some("tirx.SeqStmt") => {
            for part in elements(&field(statement, "seq")?)? {
                if any_statement_in(&part, test)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Some("tirx.For") => {
            Ok(test(statement)? || any_statement_in(&field(statement, "body")?, test)?)
        }
        Some("tirx.AttrStmt") => any_statement_in(&field(statement, "body")?, test),
        Some("s_tir.SBlockRealize") => {
            let block = field(statement, "block")?;
            Ok(test(&block)? || any_statement_in(&field(&block, "body")?, test)?)
        }
        _ => Ok(false),
    }
}

/// Number of statements of all functions of a module; counting stops beyond `limit`.
pub(crate) fn statements(module: &IrModule, limit: u64) -> Result<u64> {
    let mut count = 0;
    for (_, function) in module.entries()? {
        if is_prim_func(&function) {
            count_statements(&field(&function, "body")?, limit, &mut count)?;
        }
    }
    Ok(count)
}

fn count_statements(statement: &Obj, limit: u64, count: &mut u64) -> Result<()> {
    if *count > limit {
        return Ok(());
    }
    match type_key(statement) {
        Some("tirx.SeqStmt") => {
            for part in elements(&field(statement, "seq")?)? {
                count_statements(&part, limit, count)?;
            }
        }
        Some("tirx.For" | "tirx.AttrStmt" | "tirx.While") => {
            *count += 1;
            count_statements(&field(statement, "body")?, limit, count)?;
        }
        Some("tirx.IfThenElse") => {
            *count += 1;
            for branch in ["then_case", "else_case"] {
                count_statements(&field(statement, branch)?, limit, count)?;
            }
        }
        // No `else` branch.
        Some("None") | None => {}
        Some(_) => *count += 1,
    }
    Ok(())
}

fn access(region: &Obj, names: &[String]) -> Result<Access> {
    let buffer = field(region, "source")?;
    let buffer_type = field(&buffer, "ty")?;
    let dtype = field(&field(&buffer_type, "dtype")?, "dtype")?;
    let shape = elements(&field(&buffer_type, "shape")?)?
        .iter()
        .map(|d| constant(d).unwrap_or(0))
        .collect();
    let indices = elements(&field(region, "region")?)?
        .iter()
        .map(|range| {
            let min = field(range, "min")?;
            let mut index = Index {
                terms: Vec::new(),
                offset: 0,
                extent: constant(&field(range, "extent")?).unwrap_or(0),
                quotient: quotient(&min, names)?,
            };
            collect_terms(&min, Some(1), names, &mut index)?;
            Ok(index)
        })
        .collect::<Result<_>>()?;
    Ok(Access {
        buffer: string(&field(&buffer, "name")?)?,
        dtype: dtype.0.try_as().and_then(DType::from_dl),
        shape,
        indices,
    })
}

/// The iterator and the constant of an index that divides one by the other, whatever constants are added.
fn quotient(expr: &Obj, names: &[String]) -> Result<Option<(usize, i64)>> {
    let expr = without_constant(expr)?;
    if type_key(&expr) != Some("prim.FloorDiv") {
        return Ok(None);
    }
    let dividend = without_constant(&field(&expr, "a")?)?;
    if type_key(&dividend) != Some("ir.Var") {
        return Ok(None);
    }
    let name = string(&field(&dividend, "name")?)?;
    let iter = names.iter().position(|n| *n == name);
    Ok(iter.zip(constant(&field(&expr, "b")?)))
}

/// The expression without an added or subtracted constant; another expression unchanged.
fn without_constant(expr: &Obj) -> Result<Obj> {
    let sum = matches!(type_key(expr), Some("prim.Add" | "prim.Sub"));
    match sum && constant(&field(expr, "b")?).is_some() {
        true => field(expr, "a"),
        false => Ok(expr.clone()),
    }
}

/// Adds the iterators and constants of `expr`, each multiplied by `factor`, to `index`.
fn collect_terms(
    expr: &Obj,
    factor: Option<i64>,
    names: &[String],
    index: &mut Index,
) -> Result<()> {
    match type_key(expr) {
        Some("ir.Var") => {
            let name = string(&field(expr, "name")?)?;
            if let Some(iter) = names.iter().position(|n| *n == name) {
                match index.terms.iter_mut().find(|t| t.0 == iter) {
                    // Twice in one expression: no single factor describes it.
                    Some(term) => term.1 = None,
                    None => index.terms.push((iter, factor)),
                }
            }
        }
        Some("prim.Add") => {
            collect_terms(&field(expr, "a")?, factor, names, index)?;
            collect_terms(&field(expr, "b")?, factor, names, index)?;
        }
        Some("prim.Sub") => {
            collect_terms(&field(expr, "a")?, factor, names, index)?;
            collect_terms(&field(expr, "b")?, factor.map(|f| -f), names, index)?;
        }
        Some("prim.Mul") => {
            let (a, b) = (field(expr, "a")?, field(expr, "b")?);
            let times = |c: Option<i64>| factor.zip(c).map(|(f, c)| f * c);
            collect_terms(&a, times(constant(&b)), names, index)?;
            collect_terms(&b, times(constant(&a)), names, index)?;
        }
        _ if let (Some(added), Some(factor)) = (constant(expr), factor) => {
            index.offset += factor * added;
        }
        _ => {
            for part in ["a", "b", "value", "condition", "true_value", "false_value"] {
                if let Ok(part) = field(expr, part)
                    && type_key(&part).is_some()
                {
                    collect_terms(&part, None, names, index)?;
                }
            }
            if let Ok(args) = field(expr, "args").and_then(|a| elements(&a)) {
                for part in args {
                    collect_terms(&part, None, names, index)?;
                }
            }
        }
    }
    Ok(())
}

pub(crate) fn constant(expr: &Obj) -> Option<i64> {
    if type_key(expr) != Some("ir.IntImm") {
        return None;
    }
    field(expr, "value").ok()?.0.try_as()
}

/// The scope of an allocated buffer, and its bytes if its extents are constants.
pub(crate) fn allocation(statement: &Obj) -> Result<(String, Option<i64>)> {
    let buffer = field(&field(statement, "buffer")?, "ty")?;
    let dtype = field(&field(&buffer, "dtype")?, "dtype")?;
    let dtype: tvm_ffi::DLDataType = value("PrimType.dtype", dtype)?;
    let bits = u64::from(dtype.bits) * u64::from(dtype.lanes);
    let shape = elements(&field(&buffer, "shape")?)?;
    let extents: Option<i64> = shape.iter().map(constant).product();
    let scope = string(&field(&buffer, "storage_scope")?)?;
    Ok((
        scope,
        extents.map(|extents| extents * bits.div_ceil(8) as i64),
    ))
}

/// The value of an integer annotation of a block or loop.
pub(crate) fn annotation(annotations: &Obj, key: &str) -> Result<Option<i64>> {
    let found = entry(annotations, key)?;
    Ok(found.and_then(|found| found.0.try_as::<i64>().or_else(|| constant(&found))))
}

/// An attribute of a function.
pub(crate) fn attribute(function: &Obj, key: &str) -> Result<Option<Obj>> {
    entry(&field(&field(function, "attrs")?, "__dict__")?, key)
}

/// An entry of a map by its name.
fn entry(map: &Obj, key: &str) -> Result<Option<Obj>> {
    const COUNT: &str = "ffi.MapCount";
    let count: i64 = value(COUNT, call(COUNT, &[map, &text(key)])?)?;
    let found = (count > 0).then(|| call("ffi.MapGetItem", &[map, &text(key)]));
    found.transpose()
}

pub(crate) fn string(object: &Obj) -> Result<String> {
    let text: tvm_ffi::String = value("a name", object.clone())?;
    Ok(text.as_str().to_owned())
}
