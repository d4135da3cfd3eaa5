//! A TorchScript model with its inputs, run through `tch`.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::{Context as _, bail};
use optorch::protocol::{self, Load, StoredTensor};
use tch::{CModule, Cuda, Device, IValue, Kind, Tensor};

/// A model that is loaded.
pub struct Model {
    module: CModule,
    inputs: Vec<IValue>,
    device: Device,
    /// Gradients are off: no model is trained here.
    _no_grad: tch::NoGradGuard,
}

impl Model {
    /// Loads a model and its inputs.
    ///
    /// # Errors
    /// Fails if the file is not TorchScript, or if values are missing.
    pub fn load(load: &Load) -> anyhow::Result<Model> {
        tch::set_num_threads(i32::try_from(load.threads)?);
        tch::set_num_interop_threads(1);
        // Optimised, the executor rewrites operators (addmm becomes mm and add): what is measured is the model's own.
        tch::jit::f_set_graph_executor_optimize(false)?;
        let device = match load.device {
            protocol::Device::Cpu => Device::Cpu,
            protocol::Device::Cuda if Cuda::is_available() => Device::Cuda(0),
            protocol::Device::Cuda => bail!(
                "there is no GPU of NVIDIA that it can use, or PyTorch is installed without its half for GPUs, as scripts/setup \
                 --with torch does"
            ),
        };
        let path = load.model.display();
        let mut module = CModule::load_on_device(&load.model, device)
            .map_err(first_line)
            .with_context(|| format!("{path} cannot be loaded as TorchScript"))?;
        module.f_set_eval()?;
        let inputs = tensors(&load.tensors, &load.inputs)?;
        Ok(Model {
            module,
            inputs: inputs
                .into_iter()
                .map(|tensor| IValue::Tensor(tensor.to_device(device)))
                .collect(),
            device,
            _no_grad: tch::no_grad_guard(),
        })
    }

    /// Makes one run and returns its outputs.
    ///
    /// # Errors
    /// Fails if the model does.
    pub fn run(&self) -> anyhow::Result<IValue> {
        let result = self.module.forward_is(&self.inputs);
        if let Device::Cuda(place) = self.device {
            // Kernels still run after the call that started them has returned.
            Cuda::synchronize(place as i64);
        }
        result.map_err(first_line).context("the model does not run")
    }

    /// Largest difference of an output to the expected one, over the largest expected value.
    ///
    /// # Errors
    /// Fails if the model does not run, or has other outputs.
    pub fn error(&self, load: &Load) -> anyhow::Result<f64> {
        let expected = tensors(&load.tensors, &load.outputs)?;
        let mut found = Vec::new();
        flatten(self.run()?, &mut found);
        if found.len() != expected.len() {
            bail!(
                "the model has {} outputs in libtorch and {} in Python",
                found.len(),
                expected.len()
            );
        }
        let mut largest: f64 = 0.0;
        for (found, expected) in found.iter().zip(&expected) {
            if found.size() != expected.size() {
                bail!(
                    "an output has the shape {:?} in libtorch and {:?} in Python",
                    found.size(),
                    expected.size()
                );
            }
            let found = found.to_device(Device::Cpu).to_kind(Kind::Double);
            let expected = expected.to_kind(Kind::Double);
            let scale = f64::try_from(expected.abs().max())?;
            let difference = f64::try_from((found - expected).abs().max())?;
            // A difference that is NaN is not a small one.
            if difference.is_nan() {
                return Ok(f64::MAX);
            }
            largest = largest.max(difference / scale.max(f64::MIN_POSITIVE));
        }
        Ok(largest.min(f64::MAX))
    }
}

/// The tensors of a result, in the order of the importer: lists and values of dictionaries one after the other.
fn flatten(value: IValue, into: &mut Vec<Tensor>) {
    match value {
        IValue::Tensor(tensor) => into.push(tensor),
        IValue::TensorList(tensors) => into.extend(tensors),
        IValue::Tuple(values) | IValue::GenericList(values) => {
            for value in values {
                flatten(value, into);
            }
        }
        IValue::GenericDict(entries) => {
            for (_, value) in entries {
                flatten(value, into);
            }
        }
        _ => {}
    }
}

/// Reads tensors out of a file of values.
fn tensors(path: &Path, stored: &[StoredTensor]) -> anyhow::Result<Vec<Tensor>> {
    let mut file = File::open(path).with_context(|| path.display().to_string())?;
    let read = stored.iter().map(|tensor| {
        let mut bytes = vec![0; usize::try_from(tensor.bytes)?];
        file.seek(SeekFrom::Start(tensor.offset))?;
        file.read_exact(&mut bytes)
            .with_context(|| format!("{} ends too early", path.display()))?;
        Ok(Tensor::f_from_data_size(
            &bytes,
            &tensor.shape,
            kind(&tensor.dtype)?,
        )?)
    });
    read.collect()
}

/// The element type of NumPy's name.
fn kind(dtype: &str) -> anyhow::Result<Kind> {
    Ok(match dtype {
        "float16" => Kind::Half,
        "bfloat16" => Kind::BFloat16,
        "float32" => Kind::Float,
        "float64" => Kind::Double,
        "int8" => Kind::Int8,
        "int16" => Kind::Int16,
        "int32" => Kind::Int,
        "int64" => Kind::Int64,
        "uint8" => Kind::Uint8,
        "bool" => Kind::Bool,
        other => bail!("tensors of {other} are not known here"),
    })
}

/// libtorch's message, without its trace of C++ frames.
fn first_line(error: tch::TchError) -> anyhow::Error {
    let text = error.to_string();
    let lines = text
        .lines()
        .take_while(|l| !l.starts_with("Exception raised") && !l.starts_with("frame #"));
    let words: Vec<&str> = lines.map(str::trim).filter(|l| !l.is_empty()).collect();
    anyhow::anyhow!("{}", words.join(" "))
}
