//! Tensor intrinsics: pieces of a computation that are one instruction of the target, such as the products of small
//! matrices that tensor cores take.
//!
//! An intrinsic is a pair of functions: what it computes, as loops, and how the target is asked for it. Those of CUDA are
//! written in TVM's Python package, and those of CPUs lie beside this file. The former are asked of it once an installation, in a process of its own (about 20 s), kept
//! as TVM's JSON, and registered from there in milliseconds; rules of MetaSchedule and [`Schedule::tensorize`] use their
//! names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::call::{boolean, call, text};
use crate::error::{Error, Result};
use crate::libs::{Libraries, TVM_VERSION};
use crate::schedule::{Block, Loop, Schedule};
use crate::target::Target;

/// Intrinsics by name, each as the JSON of what it computes and of what the target does.
type Intrinsics = BTreeMap<String, (String, String)>;

/// Registers the intrinsics of CUDA's tensor cores, once a process.
///
/// # Errors
/// TVM cannot be loaded, or its Python package does not say what they are.
pub fn register_cuda() -> Result<()> {
    static DONE: OnceLock<Result<()>> = OnceLock::new();
    DONE.get_or_init(|| register(&intrinsics()?)).clone()
}

fn register(intrinsics: &Intrinsics) -> Result<()> {
    let read = |json: &String| call("ffi.FromJSONGraphString", &[&text(json)]);
    for (name, (computes, does)) in intrinsics {
        let intrinsic = call("s_tir.TensorIntrin", &[&read(computes)?, &read(does)?])?;
        call(
            "s_tir.TensorIntrinRegister",
            &[&text(name), &intrinsic, &boolean(true)],
        )?;
    }
    Ok(())
}

/// What a sum of four products of bytes in each of 16 lanes is on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DotProduct {
    /// One instruction of AVX-512 VNNI.
    Vnni,
    /// Shifts, multiplications and additions of vectors.
    Portable,
}

impl DotProduct {
    /// The best that a target has.
    ///
    /// # Errors
    /// TVM cannot be loaded.
    pub fn of(target: &Target) -> Result<DotProduct> {
        let vnni = crate::llvm::target_has(target, "avx512vnni")?;
        Ok(if vnni { Self::Vnni } else { Self::Portable })
    }

    /// The name of its intrinsic, which is registered by the first call.
    ///
    /// # Errors
    /// TVM cannot be loaded.
    pub fn intrinsic(self) -> Result<&'static str> {
        static DONE: OnceLock<Result<()>> = OnceLock::new();
        DONE.get_or_init(|| {
            let kept = serde_json::from_str(include_str!("dot_products.json"));
            register(&kept.map_err(|e| Error::unexpected("dot_products.json", e))?)
        })
        .clone()?;
        Ok(match self {
            Self::Vnni => "dot_16x4_vnni",
            Self::Portable => "dot_16x4_portable",
        })
    }
}

const ASKED: &str = "tensor intrinsics";
/// Goes up with every change of what `intrinsics.py` prints.
const FORMAT: u32 = 2;

/// From the file that they are kept in, else from TVM's Python package.
fn intrinsics() -> Result<Intrinsics> {
    let libraries = Libraries::load()?;
    let kept = kept_at();
    let read = |path: &PathBuf| std::fs::read(path).ok();
    if let Some(bytes) = kept.as_ref().and_then(read)
        && let Ok(found) = serde_json::from_slice(&bytes)
    {
        return Ok(found);
    }
    let bytes = ask(libraries.site_packages())?;
    let found = serde_json::from_slice(&bytes).map_err(|e| Error::unexpected(ASKED, e))?;
    if let Some(kept) = kept {
        // Where it cannot be kept, the next process asks again.
        let _ = keep(&kept, &bytes);
    }
    Ok(found)
}

/// Beside the other things that are made once an installation.
fn kept_at() -> Option<PathBuf> {
    let imports = opinstall::Home::find().ok()?.imports();
    let file = format!("tensor-intrinsics-{TVM_VERSION}-{FORMAT}.json");
    Some(imports.parent()?.join(file))
}

fn keep(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    // Whole or not at all: other processes may write it too.
    let part = path.with_extension(format!("{}.part", std::process::id()));
    std::fs::write(&part, bytes)?;
    std::fs::rename(&part, path)
}

/// Runs Python of the environment that TVM is installed in.
fn ask(site_packages: &Path) -> Result<Vec<u8>> {
    let python = site_packages
        .ancestors()
        .nth(3)
        .map(|e| e.join("bin/python"));
    let python = python.filter(|p| p.is_file());
    let python = python.ok_or_else(|| Error::unexpected(ASKED, "no Python beside TVM"))?;
    let output = Command::new(python)
        .args(["-c", include_str!("intrinsics.py")])
        .stdin(Stdio::null())
        .output()
        .map_err(|e| Error::unexpected(ASKED, e))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().last().unwrap_or("Python said nothing");
    Err(Error::unexpected(ASKED, last))
}

impl Schedule {
    /// Makes the loops from `l` inwards a block of their own; returns it.
    ///
    /// # Errors
    /// The loops around cannot be told from those inside.
    pub fn blockize(&self, l: &Loop) -> Result<Block> {
        Ok(Block(
            self.call("ScheduleBlockize", &[&l.0, &boolean(true)])?,
        ))
    }

    /// Computes the loops from `l` inwards by the registered intrinsic `name`.
    ///
    /// # Errors
    /// The loops are not what the intrinsic computes, or there is no such intrinsic.
    pub fn tensorize(&self, l: &Loop, name: &str) -> Result<()> {
        self.done("ScheduleTensorize", &[&l.0, &text(name), &boolean(true)])
    }

    /// The blocks inside `block` in program order.
    ///
    /// # Errors
    /// TVM's.
    pub fn blocks_in(&self, block: &Block) -> Result<Vec<Block>> {
        let children = self.call("ScheduleGetChildBlocks", &[&block.0])?;
        Ok(crate::call::elements(&children)?
            .into_iter()
            .map(Block)
            .collect())
    }

    /// Whether a loop runs as the threads or blocks of a GPU.
    ///
    /// # Errors
    /// TVM's.
    pub fn is_bound(&self, l: &Loop) -> Result<bool> {
        /// `ForKind::kThreadBinding` of TVM.
        const BOUND: i64 = 4;
        let kind = crate::call::field(&self.call("ScheduleGet", &[&l.0])?, "kind")?;
        Ok(crate::call::value::<i64>("For.kind", kind)? == BOUND)
    }

    /// Whether a block runs under a condition, because its loops have more steps than it has elements.
    ///
    /// # Errors
    /// TVM's.
    pub fn is_guarded(&self, block: &Block) -> Result<bool> {
        let realize = self.call("GetSBlockRealize", &[&block.0])?;
        let condition = crate::call::field(&realize, "predicate")?;
        // A condition that always holds is the constant 1.
        let always = crate::call::field(&condition, "value")
            .and_then(|number| crate::call::value::<i64>("predicate", number));
        Ok(!matches!(always, Ok(1)))
    }
}
