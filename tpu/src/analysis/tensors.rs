//! Shapes and element types of the tensors that a command reads and writes, for commands without an unknown part.

use std::fmt;

use serde::Serialize;

use crate::chip::names::data_type;
use crate::view::{Decoded, Detail, Role, View};

/// Tensors of a command: extents N, C, H, W.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Tensors {
    /// Shapes of its inputs.
    pub inputs: Vec<Vec<u64>>,
    /// Shapes of its outputs.
    pub outputs: Vec<Vec<u64>>,
    /// Element types of its inputs and outputs, if the command names them.
    pub dtypes: Vec<&'static str>,
}

impl fmt::Display for Tensors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |shapes: &[Vec<u64>]| {
            let one = |shape: &Vec<u64>| {
                let extents: Vec<String> = shape.iter().map(u64::to_string).collect();
                extents.join("x")
            };
            shapes.iter().map(one).collect::<Vec<_>>().join(";")
        };
        write!(
            f,
            "{}->{} {}",
            list(&self.inputs),
            list(&self.outputs),
            self.dtypes.join(";")
        )
    }
}

/// The tensors of a working command.
pub(super) fn tensors(view: &View) -> Option<Tensors> {
    let command = view.decoded.filter(|_| view.role == Role::Work)?;
    let dtype = |field: &str| data_type(u32::try_from(command.get(field)?).ok()?);
    let (inputs, outputs, dtypes) = match &view.detail {
        Detail::Tiu(_) => {
            let operands = ["opd0", "opd1"]
                .into_iter()
                .filter(|operand| command.value(&format!("opt_{operand}_const")) == 0);
            let inputs: Vec<Vec<u64>> = operands
                .filter_map(|operand| {
                    extents(
                        &command,
                        [
                            &format!("{operand}_n"),
                            &format!("{operand}_c"),
                            &format!("{operand}_h"),
                            &format!("{operand}_w"),
                        ],
                    )
                })
                .collect();
            let output = extents(&command, ["res0_n", "res0_c", "res0_h", "res0_w"])?;
            let types = [dtype("opt_opd0_prec"), dtype("opt_res0_prec")];
            (inputs, output, types)
        }
        Detail::Dma(_) => {
            let input = extents(
                &command,
                ["src_nsize", "src_csize", "src_hsize", "src_wsize"],
            )?;
            let output = extents(
                &command,
                ["dst_nsize", "dst_csize", "dst_hsize", "dst_wsize"],
            );
            let output = output.unwrap_or_else(|| input.clone());
            (vec![input], output, [dtype("src_data_format"), None])
        }
    };
    Some(Tensors {
        inputs,
        outputs: vec![outputs],
        dtypes: dtypes.into_iter().flatten().collect(),
    })
}

/// The extents in these fields; `None` if the command has none of them. An extent that a command does not have is 1.
fn extents(command: &Decoded, fields: [&str; 4]) -> Option<Vec<u64>> {
    let values = fields.map(|field| command.get(field).filter(|&extent| extent > 0));
    values
        .iter()
        .any(Option::is_some)
        .then(|| values.map(|extent| extent.unwrap_or(1)).to_vec())
}
