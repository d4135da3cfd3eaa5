//! XGBoost through its C interface: matrices, training, prediction, contributions.
//!
//! The library is opened at run time ([`library`]), so that nothing has to be there to build. A [`Booster`] is a trained
//! model; predictions do not change it and may run on several threads at once. They come from [`forest`], which holds
//! the same trees in a quicker layout, wherever it can.

mod forest;
mod library;
mod ubjson;

use std::ffi::{CString, c_void};
use std::ptr;

use forest::Forest;
use library::{Handle, Library};

use crate::error::Result;

pub use library::LIBRARY_VARIABLE;

/// Loads the library, to find out early whether it can be used; returns its version.
///
/// # Errors
/// Fails if it is missing or does not fit.
pub fn version() -> Result<[i32; 3]> {
    Ok(Library::get()?.version())
}

/// Rows of features, one after the other; missing values are NaN.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// Values, `width` a row.
    pub values: &'a [f32],
    /// Features of a row.
    pub width: usize,
}

impl Rows<'_> {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.values.len().checked_div(self.width).unwrap_or(0)
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Describes the array as XGBoost's array interface, which names the address.
    fn interface(&self) -> CString {
        let text = format!(
            "{{\"data\":[{},true],\"shape\":[{},{}],\"typestr\":\"<f4\",\"version\":3}}",
            self.values.as_ptr() as usize,
            self.len(),
            self.width
        );
        // Numbers and fixed text hold no NUL.
        CString::new(text).unwrap_or_default()
    }
}

/// Training labels: the inputs of a training besides the rows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Labels<'a> {
    /// The target of each row.
    pub targets: &'a [f32],
    /// Weight of each row; of each group when ranking. Empty for equal weights.
    pub weights: &'a [f32],
    /// Sizes of consecutive groups, for ranking.
    pub groups: &'a [u32],
}

/// A training matrix in the library's memory.
struct Matrix {
    library: &'static Library,
    handle: Handle,
}

impl Matrix {
    fn new(rows: Rows<'_>, labels: Labels<'_>) -> Result<Self> {
        let library = Library::get()?;
        let mut handle = ptr::null_mut();
        let interface = rows.interface();
        let config = c"{\"missing\":NaN,\"nthread\":1}";
        // SAFETY: the interface names `rows.values`, which outlives the call; the library copies the values.
        library.check("XGDMatrixCreateFromDense", unsafe {
            (library.dmatrix_create_from_dense)(
                interface.as_ptr(),
                config.as_ptr(),
                &raw mut handle,
            )
        })?;
        let matrix = Self { library, handle };
        matrix.set_floats(c"label", labels.targets)?;
        if !labels.groups.is_empty() {
            // SAFETY: pointer and length are of one slice, which the library copies.
            library.check("XGDMatrixSetUIntInfo", unsafe {
                (library.dmatrix_set_uint_info)(
                    handle,
                    c"group".as_ptr(),
                    labels.groups.as_ptr(),
                    labels.groups.len() as u64,
                )
            })?;
        }
        // Quantiles with weights are found more slowly, and weights of 1 say nothing.
        if labels.weights.iter().any(|weight| *weight != 1.0) {
            matrix.set_floats(c"weight", labels.weights)?;
        }
        Ok(matrix)
    }

    fn set_floats(&self, field: &std::ffi::CStr, values: &[f32]) -> Result<()> {
        // SAFETY: the handle is live; pointer and length are of one slice, which the library copies.
        self.library.check("XGDMatrixSetFloatInfo", unsafe {
            (self.library.dmatrix_set_float_info)(
                self.handle,
                field.as_ptr(),
                values.as_ptr(),
                values.len() as u64,
            )
        })
    }
}

impl Drop for Matrix {
    fn drop(&mut self) {
        // SAFETY: created by the library and freed once; a failure to free has no remedy.
        unsafe { (self.library.dmatrix_free)(self.handle) };
    }
}

/// A trained model.
pub struct Booster {
    library: &'static Library,
    handle: Handle,
    forest: Option<Forest>,
}

// SAFETY: the library keeps what it returns in thread-local storage, and nothing here changes a trained booster.
// XGBoost documents prediction as safe from several threads.
unsafe impl Send for Booster {}
// SAFETY: as above; training owns the booster exclusively.
unsafe impl Sync for Booster {}

impl std::fmt::Debug for Booster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Booster").finish_non_exhaustive()
    }
}

impl Booster {
    fn empty(library: &'static Library, matrices: &[Handle]) -> Result<Self> {
        let mut handle = ptr::null_mut();
        // SAFETY: pointer and length are of one slice of live handles (or none).
        library.check("XGBoosterCreate", unsafe {
            (library.booster_create)(matrices.as_ptr(), matrices.len() as u64, &raw mut handle)
        })?;
        Ok(Self {
            library,
            handle,
            forest: None,
        })
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let text = |s: &str| CString::new(s).unwrap_or_default();
        let (name, value) = (text(name), text(value));
        // SAFETY: the handle is live, both texts end in NUL and outlive the call.
        self.library.check("XGBoosterSetParam", unsafe {
            (self.library.booster_set_param)(self.handle, name.as_ptr(), value.as_ptr())
        })
    }

    /// Trains `rounds` trees (a round) on `rows`, with parameters as XGBoost names them.
    ///
    /// # Errors
    /// Fails if the library is missing, or refuses a parameter or the data.
    pub fn train(
        parameters: &[(&str, String)],
        rows: Rows<'_>,
        labels: Labels<'_>,
        rounds: u32,
    ) -> Result<Self> {
        Self::boosted(parameters, &Matrix::new(rows, labels)?, rounds)
    }

    fn boosted(parameters: &[(&str, String)], matrix: &Matrix, rounds: u32) -> Result<Self> {
        let mut booster = Self::empty(matrix.library, &[matrix.handle])?;
        for (name, value) in parameters {
            booster.set(name, value)?;
        }
        for round in 0..rounds {
            let round = i32::try_from(round).unwrap_or(i32::MAX);
            // SAFETY: both handles are live.
            booster.library.check("XGBoosterUpdateOneIter", unsafe {
                (booster.library.booster_update)(booster.handle, round, matrix.handle)
            })?;
        }
        booster.forest = Forest::of_model(&booster.to_bytes()?);
        Ok(booster)
    }

    /// The model as bytes (UBJSON), readable by every later XGBoost.
    ///
    /// # Errors
    /// Fails if the library fails.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let (mut length, mut bytes) = (0, ptr::null());
        // SAFETY: the handle is live; the library owns the bytes until the next call on this thread.
        unsafe {
            self.library.check(
                "XGBoosterSaveModelToBuffer",
                (self.library.booster_save)(
                    self.handle,
                    c"{\"format\":\"ubj\"}".as_ptr(),
                    &raw mut length,
                    &raw mut bytes,
                ),
            )?;
            Ok(copied(bytes, length))
        }
    }

    /// The model from its bytes, predicting on one thread.
    ///
    /// # Errors
    /// Fails if they are not a model.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let library = Library::get()?;
        let mut booster = Self::empty(library, &[])?;
        // Set before anything is loaded. Otherwise loading would start threads that spin.
        booster.set("nthread", "1")?;
        // SAFETY: pointer and length are of one slice, which the library parses and copies.
        library.check("XGBoosterLoadModelFromBuffer", unsafe {
            (library.booster_load)(
                booster.handle,
                bytes.as_ptr().cast::<c_void>(),
                bytes.len() as u64,
            )
        })?;
        booster.forest = Forest::of_model(bytes);
        Ok(booster)
    }

    /// The prediction for each row.
    ///
    /// # Errors
    /// Fails if the width is not that of the training rows.
    pub fn predict(&self, rows: Rows<'_>) -> Result<Vec<f32>> {
        let width = rows.width;
        match self.forest_for(width) {
            _ if rows.is_empty() => Ok(Vec::new()),
            Some(forest) => Ok(forest.predict(rows.len(), |row, feature| {
                rows.values[row * width + feature]
            })),
            None => self.predict_by_library(rows),
        }
    }

    /// The prediction for each of `count` rows of `width` features; `value` returns a feature of a row. So a caller
    /// need not copy features that no tree reads.
    ///
    /// # Errors
    /// Fails if the width is not that of the training rows.
    pub fn predict_from(
        &self,
        count: usize,
        width: usize,
        value: impl Fn(usize, usize) -> f32,
    ) -> Result<Vec<f32>> {
        if let Some(forest) = self.forest_for(width) {
            return Ok(forest.predict(count, value));
        }
        let row = |row| (0..width).map(move |feature| (row, feature));
        let places = (0..count).flat_map(row);
        let values: Vec<f32> = places.map(|(row, feature)| value(row, feature)).collect();
        self.predict(Rows {
            values: &values,
            width,
        })
    }

    /// The quick trees, if they are for rows of this width.
    fn forest_for(&self, width: usize) -> Option<&Forest> {
        self.forest.as_ref().filter(|f| f.width() == width)
    }

    /// Predictions by XGBoost's own library, to compare with.
    fn predict_by_library(&self, rows: Rows<'_>) -> Result<Vec<f32>> {
        let config = c"{\"type\":0,\"training\":false,\"iteration_begin\":0,\"iteration_end\":0,\"strict_shape\":false,\"missing\":NaN}";
        let interface = rows.interface();
        let (mut shape, mut dimensions, mut result) = (ptr::null(), 0, ptr::null());
        // SAFETY: the interface names `rows.values`, which outlives the call; results belong to the library until the
        // next call on this thread and are copied before.
        unsafe {
            self.library.check(
                "XGBoosterPredictFromDense",
                (self.library.booster_predict_dense)(
                    self.handle,
                    interface.as_ptr(),
                    config.as_ptr(),
                    ptr::null_mut(),
                    &raw mut shape,
                    &raw mut dimensions,
                    &raw mut result,
                ),
            )?;
            let length = copied(shape, dimensions).iter().product();
            Ok(copied(result, length))
        }
    }

    /// SHAP values: for each row the contribution of every feature, the constant last (`width + 1` a row).
    ///
    /// # Errors
    /// Fails if the width is not that of the training rows.
    pub fn contributions(&self, rows: Rows<'_>) -> Result<Vec<f32>> {
        let zeros = vec![0.0; rows.len()];
        let labels = Labels {
            targets: &zeros,
            ..Labels::default()
        };
        let matrix = Matrix::new(rows, labels)?;
        let config = c"{\"type\":2,\"training\":false,\"iteration_begin\":0,\"iteration_end\":0,\"strict_shape\":false}";
        let (mut shape, mut dimensions, mut result) = (ptr::null(), 0, ptr::null());
        // SAFETY: both handles are live; results are copied before the next call on this thread.
        unsafe {
            self.library.check(
                "XGBoosterPredictFromDMatrix",
                (self.library.booster_predict_matrix)(
                    self.handle,
                    matrix.handle,
                    config.as_ptr(),
                    &raw mut shape,
                    &raw mut dimensions,
                    &raw mut result,
                ),
            )?;
            let length = copied(shape, dimensions).iter().product();
            Ok(copied(result, length))
        }
    }
}

impl Drop for Booster {
    fn drop(&mut self) {
        // SAFETY: created by the library and freed once; a failure to free has no remedy.
        unsafe { (self.library.booster_free)(self.handle) };
    }
}

/// A copy of `length` values at `values`.
///
/// # Safety
/// They are there, unless `length` is 0.
unsafe fn copied<T: Copy>(values: *const T, length: u64) -> Vec<T> {
    if length == 0 || values.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(values, length as usize) }.to_vec()
}

#[cfg(test)]
mod tests;
