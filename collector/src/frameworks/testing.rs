//! A made-up comparison, for tests of the output.

use super::contender::{OperatorTime, Round};
use super::kinds::Kind;
use super::{Framework, Measured, ROUNDS, SideBySide};

/// libtorch with two operators, and TVM, which fuses them and takes half the time.
pub(crate) fn side_by_side() -> SideBySide {
    let operator = |name: &str, kind, ns| OperatorTime {
        name: name.to_owned(),
        kind,
        calls: 2.0,
        ns,
    };
    let measured = |framework, version: &str, run_ns, error, operators: Vec<_>| Measured {
        framework,
        version: version.to_owned(),
        checked_against: "PyTorch".to_owned(),
        error,
        rounds: vec![
            Round {
                runs_ns: vec![run_ns; 3],
                operators,
            };
            ROUNDS
        ],
    };
    SideBySide {
        model: "net".to_owned(),
        batch: 1,
        cpu: Some("a processor".to_owned()),
        threads: 2,
        frameworks: vec![
            measured(
                Framework::Torch,
                "2.13.0",
                400_000.0,
                Some(2e-7),
                vec![
                    operator("aten::conv2d", Kind::Convolution, 300_000.0),
                    operator("aten::relu", Kind::Elementwise, 20_000.0),
                ],
            ),
            measured(
                Framework::Tvm,
                "0.27.0",
                200_000.0,
                None,
                vec![operator("fused_conv2d_relu", Kind::Convolution, 150_000.0)],
            ),
        ],
    }
}
