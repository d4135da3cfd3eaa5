//! Finding `libxgboost.so` and looking up the functions of its C interface.
//!
//! `scripts/setup` unpacks the `xgboost-cpu` wheel under `.venv/xgboost`. The library named by [`LIBRARY_VARIABLE`]
//! goes first, then `.venv` beside or above the program and the working directory. An `xgboost` package installed in
//! that environment will do as well.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::error::{Error, Result};

/// Environment variable that names the library to use.
pub const LIBRARY_VARIABLE: &str = "OPPREDICT_XGBOOST";
/// The oldest XGBoost with all functions used here.
const OLDEST_MAJOR: i32 = 2;

pub(super) type Handle = *mut c_void;

type CreateFromDense = unsafe extern "C" fn(*const c_char, *const c_char, *mut Handle) -> c_int;
type SetFloatInfo = unsafe extern "C" fn(Handle, *const c_char, *const f32, u64) -> c_int;
type SetUintInfo = unsafe extern "C" fn(Handle, *const c_char, *const u32, u64) -> c_int;
type Free = unsafe extern "C" fn(Handle) -> c_int;
type Create = unsafe extern "C" fn(*const Handle, u64, *mut Handle) -> c_int;
type SetParam = unsafe extern "C" fn(Handle, *const c_char, *const c_char) -> c_int;
type Update = unsafe extern "C" fn(Handle, c_int, Handle) -> c_int;
type Save = unsafe extern "C" fn(Handle, *const c_char, *mut u64, *mut *const u8) -> c_int;
type Load = unsafe extern "C" fn(Handle, *const c_void, u64) -> c_int;
type PredictDense = unsafe extern "C" fn(
    Handle,
    *const c_char,
    *const c_char,
    Handle,
    *mut *const u64,
    *mut u64,
    *mut *const f32,
) -> c_int;
type PredictMatrix = unsafe extern "C" fn(
    Handle,
    Handle,
    *const c_char,
    *mut *const u64,
    *mut u64,
    *mut *const f32,
) -> c_int;

/// The functions in use. The library stays open as long as the process.
pub(super) struct Library {
    get_last_error: unsafe extern "C" fn() -> *const c_char,
    xgboost_version: unsafe extern "C" fn(*mut c_int, *mut c_int, *mut c_int),
    pub dmatrix_create_from_dense: CreateFromDense,
    pub dmatrix_set_float_info: SetFloatInfo,
    pub dmatrix_set_uint_info: SetUintInfo,
    pub dmatrix_free: Free,
    pub booster_create: Create,
    pub booster_free: Free,
    pub booster_set_param: SetParam,
    pub booster_update: Update,
    pub booster_save: Save,
    pub booster_load: Load,
    pub booster_predict_dense: PredictDense,
    pub booster_predict_matrix: PredictMatrix,
}

impl Library {
    /// Opens the library, once a process.
    pub fn get() -> Result<&'static Self> {
        static OPENED: OnceLock<Library> = OnceLock::new();
        if let Some(library) = OPENED.get() {
            return Ok(library);
        }
        let opened = Self::open(&locate()?)?;
        Ok(OPENED.get_or_init(|| opened))
    }

    fn open(path: &Path) -> Result<Self> {
        let unfit = |detail: String| Error::LibraryUnfit {
            path: path.to_owned(),
            detail,
        };
        // SAFETY: XGBoost's initialisers only register classes; the path is the user's or the project's own.
        let opened = unsafe { libloading::Library::new(path) }.map_err(|e| unfit(e.to_string()))?;
        // The functions below are used until the process ends.
        let library: &'static libloading::Library = Box::leak(Box::new(opened));
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the type is that of the declaration in XGBoost's c_api.h, stable since 1.6.
                *unsafe { library.get($name) }.map_err(|e| unfit(e.to_string()))?
            };
        }
        let library = Self {
            get_last_error: function!(b"XGBGetLastError\0"),
            xgboost_version: function!(b"XGBoostVersion\0"),
            dmatrix_create_from_dense: function!(b"XGDMatrixCreateFromDense\0"),
            dmatrix_set_float_info: function!(b"XGDMatrixSetFloatInfo\0"),
            dmatrix_set_uint_info: function!(b"XGDMatrixSetUIntInfo\0"),
            dmatrix_free: function!(b"XGDMatrixFree\0"),
            booster_create: function!(b"XGBoosterCreate\0"),
            booster_free: function!(b"XGBoosterFree\0"),
            booster_set_param: function!(b"XGBoosterSetParam\0"),
            booster_update: function!(b"XGBoosterUpdateOneIter\0"),
            booster_save: function!(b"XGBoosterSaveModelToBuffer\0"),
            booster_load: function!(b"XGBoosterLoadModelFromBuffer\0"),
            booster_predict_dense: function!(b"XGBoosterPredictFromDense\0"),
            booster_predict_matrix: function!(b"XGBoosterPredictFromDMatrix\0"),
        };
        let [major, minor, patch] = library.version();
        if major < OLDEST_MAJOR {
            return Err(unfit(format!(
                "it is XGBoost {major}.{minor}.{patch}, and version {OLDEST_MAJOR} or later is needed"
            )));
        }
        Ok(library)
    }

    pub fn version(&self) -> [i32; 3] {
        let mut version = [0; 3];
        let [major, minor, patch] = &mut version;
        // SAFETY: three live integers are written.
        unsafe { (self.xgboost_version)(major, minor, patch) };
        version
    }

    /// Turns a status into a result, with the library's message.
    pub fn check(&self, call: &'static str, status: c_int) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the library returns a text that lives until the next call on this thread.
        let text = unsafe { CStr::from_ptr((self.get_last_error)()) }.to_string_lossy();
        let line = text
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty())
            .unwrap_or("no message");
        Err(Error::Xgboost {
            call,
            detail: line.to_owned(),
        })
    }
}

fn locate() -> Result<PathBuf> {
    if let Some(set) = std::env::var_os(LIBRARY_VARIABLE) {
        let path = PathBuf::from(set);
        return if path.is_file() {
            Ok(path)
        } else {
            Err(Error::LibraryMissing {
                variable: LIBRARY_VARIABLE,
                looked: vec![path],
            })
        };
    }
    let candidates = candidates();
    candidates
        .iter()
        .find(|path| path.is_file())
        .cloned()
        .ok_or(Error::LibraryMissing {
            variable: LIBRARY_VARIABLE,
            looked: if candidates.is_empty() {
                vec![PathBuf::from(".venv/xgboost/xgboost/lib")]
            } else {
                candidates
            },
        })
}

fn candidates() -> Vec<PathBuf> {
    let library = Path::new("xgboost/lib/libxgboost.so");
    let places = |environment: PathBuf| {
        let packages = opinstall::site_packages(&environment);
        let unpacked = environment.join("xgboost");
        std::iter::once(unpacked)
            .chain(packages)
            .map(|folder| folder.join(library))
    };
    opinstall::environments()
        .into_iter()
        .flat_map(places)
        .collect()
}
