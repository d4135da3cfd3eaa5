//! Compares outputs there with outputs that were checked. TVM copies tensors over a connection byte by byte, which
//! takes longer than most kernels. So a kernel compares two outputs on the device and answers with a few numbers.

use std::cell::RefCell;
use std::collections::HashMap;

use tvm_bridge::compile::{Asserts, Lowered};
use tvm_bridge::nest::{self, Buffer, Index, Integers, LoopKind, Parameter, Stmt, Value};
use tvm_bridge::{DType, Device, Kernel, PrimFunc, Result, Target, Tensor};

use super::compiler::Upload;

/// Elements that are compared at once, one sum for each.
const LANES: i64 = 16;
/// Differences are multiplied by this before they are squared: squares of small ones would be zero.
const MAGNIFIED: f32 = 1e20;
/// Maximum number of elements of a tensor. Only the analysis of the loops uses it.
const MOST: i64 = 1 << 40;

/// A kernel that adds up the squared differences of two tensors, on the processor there.
pub(super) struct Equality {
    kernel: Kernel,
    sums: Tensor,
    device: Device,
    /// The numbers of whole vectors and of elements after them, by elements.
    counts: RefCell<HashMap<i64, Tensor>>,
}

impl Equality {
    pub fn load(upload: &Upload, target: &Target, device: Device) -> anyhow::Result<Equality> {
        let lowered = Lowered::new(&differences()?.to_module()?, target, Asserts::Dropped)?;
        let module = upload.load_kernel(lowered, None)?;
        Ok(Equality::new(
            module.function(tvm_bridge::ir::ENTRY)?,
            device,
        )?)
    }

    fn new(kernel: Kernel, device: Device) -> Result<Equality> {
        Ok(Equality {
            kernel,
            sums: Tensor::zeros(device, &[LANES], DType::Float32)?,
            device,
            counts: RefCell::default(),
        })
    }

    /// Whether each of these equals its counterpart, element by element. NaN equals nothing. Types other than `float32`
    /// are not compared: the answer is `false`.
    ///
    /// # Errors
    /// Fails if the connection is lost.
    pub fn holds(&self, found: &[Tensor], known: &[Tensor]) -> Result<bool> {
        let pairs = || found.iter().zip(known);
        let comparable = |(f, k): (&Tensor, &Tensor)| {
            (f.dtype(), f.shape()) == (DType::Float32, k.shape()) && k.dtype() == f.dtype()
        };
        if found.len() != known.len() || !pairs().all(comparable) {
            return Ok(false);
        }
        for (found, known) in pairs() {
            let elements = found.shape().iter().product();
            let arguments = [
                found.clone(),
                known.clone(),
                self.counts_of(elements)?,
                self.sums.clone(),
            ];
            self.kernel.bind(&arguments).call()?;
            // A sum that is NaN or infinite comes from tensors that differ.
            if self
                .sums
                .bytes()?
                .chunks_exact(4)
                .any(|sum| f32::from_le_bytes(sum.try_into().unwrap_or([0xff; 4])) != 0.0)
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn counts_of(&self, elements: i64) -> Result<Tensor> {
        if let Some(counts) = self.counts.borrow().get(&elements) {
            return Ok(counts.clone());
        }
        let counts = [elements / LANES, elements % LANES].map(i64::to_le_bytes);
        let counts = Tensor::from_bytes(self.device, &[2], DType::Int64, &counts.concat())?;
        self.counts.borrow_mut().insert(elements, counts.clone());
        Ok(counts)
    }
}

/// `sums[lane] = Σ ((found − known) × MAGNIFIED)²` over the elements of a lane. The elements after the last whole
/// vector are added to the first lane.
fn differences() -> Result<PrimFunc> {
    let [found, known] = ["found", "known"].map(|name| Buffer::new(name, &[MOST]));
    let (found, known) = (found?, known?);
    let sums = Buffer::new("sums", &[LANES])?;
    let counts = Integers::new("counts", 2)?;
    let add = |element: &Index, lane: &Index| -> Result<Stmt> {
        let at = std::slice::from_ref(element);
        let difference = found.load(at)?.minus(&known.load(at)?)?;
        let difference = difference.times(&Value::constant(MAGNIFIED)?)?;
        let lane = std::slice::from_ref(lane);
        let sum = sums.load(lane)?.plus(&difference.times(&difference)?)?;
        sums.store(&sum, lane)
    };
    let lanes = |body: &dyn Fn(&Index) -> Result<Stmt>| {
        let extent = Index::constant(LANES)?;
        Stmt::repeat("lane", LoopKind::Vectorized, &extent, body)
    };
    let zero = Value::constant(0.0)?;
    let cleared = lanes(&|lane| sums.store(&zero, std::slice::from_ref(lane)))?;
    let vectors = Stmt::repeat("i", LoopKind::Serial, &counts.load(0)?, |i| {
        lanes(&|lane| add(&i.scaled(LANES, 0)?.plus(lane)?, lane))
    })?;
    let rest = Stmt::repeat("i", LoopKind::Serial, &counts.load(1)?, |i| {
        let element = counts.load(0)?.scaled(LANES, 0)?.plus(i)?;
        add(&element, &Index::constant(0)?)
    })?;
    let parameters = [
        Parameter::Data(&found),
        Parameter::Data(&known),
        Parameter::Counts(&counts),
        Parameter::Data(&sums),
    ];
    nest::function(&parameters, &Stmt::sequence(&[cleared, vectors, rest])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_element_that_differs_is_found_wherever_it_is() {
        let target = Target::llvm(&tvm_bridge::target::host_cpu().unwrap(), 1).unwrap();
        let module = differences().unwrap().to_module().unwrap();
        let lowered = Lowered::new(&module, &target, Asserts::Dropped).unwrap();
        let module = lowered.generate().unwrap().into_module().unwrap();
        let kernel = module.function(tvm_bridge::ir::ENTRY).unwrap();
        let equality = Equality::new(kernel, Device::cpu()).unwrap();
        let tensor = |values: &[f32]| {
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            let shape = [1, values.len() as i64];
            Tensor::from_bytes(Device::cpu(), &shape, DType::Float32, &bytes).unwrap()
        };
        for elements in [1, 15, 16, 50, 64] {
            let values: Vec<f32> = (0..elements).map(|i| 1.0 + i as f32).collect();
            let known = tensor(&values);
            let is_equal = |values: &[f32]| {
                let pair = ([tensor(values)], [known.clone()]);
                equality.holds(&pair.0, &pair.1).unwrap()
            };
            assert!(is_equal(&values));
            for place in 0..values.len() {
                let next = f32::from_bits(values[place].to_bits() + 1);
                for other in [next, f32::NAN, f32::INFINITY, -values[place]] {
                    let mut changed = values.clone();
                    changed[place] = other;
                    assert!(!is_equal(&changed), "{other} at {place} of {elements}");
                }
            }
            assert!(
                is_equal(&values),
                "nothing is left of the comparison before"
            );
        }
        let small = [tensor(&[1e-30])];
        assert!(!equality.holds(&small, &[tensor(&[1.1e-30])]).unwrap());
        assert!(!equality.holds(&small, &[tensor(&[1e-30, 0.0])]).unwrap());
        assert!(!equality.holds(&small, &[]).unwrap());
    }
}
