//! Source `simple`: single operators as models, `conv2d:c=64,h=56,w=56,o=128`.
//!
//! Owns the list of operators, their parameters with defaults, and reading a specification. The graph itself is built
//! by the importer (`opbench_import/simple_ops.py`), which expects complete parameters under the same names.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use opreport::nearest::nearest;
use serde::Serialize;
use serde_json::Map;

use operators::NO_EPILOGUE;
pub use operators::{FUNCTIONS, OPERATORS, ParamDefault, SimpleOperator};

use ParamDefault::{Count, Extent, Word};

use super::{Context, ModelSource, Resolved};
use crate::error::{ImportError, Result, did_you_mean};
use crate::sources::request::ImportRequest;

mod operators;

/// Largest value of a parameter: beyond it, no machine at hand holds the tensors.
const LARGEST: u64 = 1 << 30;
/// Tensors that a concatenation takes at most: each is a parameter of its kernel.
const MOST_INPUTS: u64 = 64;

/// The source.
pub(super) struct Simple;

impl ModelSource for Simple {
    fn name(&self) -> &'static str {
        "simple"
    }

    fn naming(&self) -> &'static str {
        "name an operator, e.g. --modelname matmul:m=512,n=512,k=512; `opcollect list ops` shows them"
    }

    fn is_onnx(&self) -> bool {
        true
    }

    fn resolve(&self, request: &ImportRequest, _context: &mut Context<'_>) -> Result<Resolved> {
        let mut spec: SimpleSpec = request.model.parse()?;
        if let Some(batch) = request.batch {
            spec.set_batch(batch)?;
        }
        if request.seqlen.is_some() || !request.inputs.is_empty() {
            let message = format!(
                "a single operator takes its sizes from its specification ({spec}), not from --seqlen or --input"
            );
            return Err(ImportError::BadShape { message });
        }
        let model = spec.to_string();
        let spec = serde_json::to_value(spec).unwrap_or_default();
        Ok(Resolved {
            source: request.source,
            model,
            file: None,
            batch: None,
            seqlen: None,
            inputs: Vec::new(),
            fills: BTreeMap::new(),
            details: Map::from_iter([("simple".to_owned(), spec)]),
        })
    }
}

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A number.
    Number(u64),
    /// A word.
    Word(String),
}

/// A complete specification: every parameter has a value, except an epilogue that is absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SimpleSpec {
    /// The operator.
    pub op: &'static str,
    /// Values by parameter.
    pub params: BTreeMap<&'static str, Value>,
}

impl FromStr for SimpleSpec {
    type Err = ImportError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = |reason: String| ImportError::BadSpec {
            spec: text.to_owned(),
            reason,
        };
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let operator = OPERATORS
            .iter()
            .find(|o| o.name == name.trim())
            .ok_or_else(|| {
                let all: Vec<&str> = OPERATORS.iter().map(|o| o.name).collect();
                let close = did_you_mean(&nearest(name, all.iter().copied()));
                bad(format!(
                    "no operator '{name}'{close} (known: {})",
                    all.join(", ")
                ))
            })?;
        let mut params: BTreeMap<&'static str, Value> = operator
            .params
            .iter()
            .map(|(key, default)| (*key, default.value()))
            .collect();
        let mut given: Vec<&str> = Vec::new();
        for part in rest.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| bad(format!("'{part}' is not a parameter; write name=value")))?;
            let (key, default) = operator
                .params
                .iter()
                .find(|(k, _)| *k == key.trim())
                .ok_or_else(|| {
                    let known: Vec<&str> = operator.params.iter().map(|(k, _)| *k).collect();
                    bad(format!(
                        "{name} has no parameter '{}' (it has: {})",
                        key.trim(),
                        known.join(", ")
                    ))
                })?;
            if given.contains(key) {
                return Err(bad(format!("{key} is given twice")));
            }
            given.push(key);
            params.insert(key, default.read(key, value.trim()).map_err(bad)?);
        }
        // An operator without an epilogue keeps the name and the import that it had before epilogues existed.
        params.retain(|_, value| *value != Value::Word(NO_EPILOGUE.to_owned()));
        let spec = Self {
            op: operator.name,
            params,
        };
        spec.check().map_err(bad)?;
        Ok(spec)
    }
}

impl ParamDefault {
    /// The default as a value.
    fn value(self) -> Value {
        match self {
            Extent(n) | Count(n) => Value::Number(n),
            Word(word, _) => Value::Word(word.to_owned()),
        }
    }

    /// Reads a value of this type.
    fn read(self, key: &str, text: &str) -> Result<Value, String> {
        if let Word(_, words) = self {
            let known = words.contains(&text);
            return known
                .then(|| Value::Word(text.to_owned()))
                .ok_or_else(|| format!("{key}={text}: not known (known: {})", words.join(", ")));
        }
        let number: u64 = text
            .parse()
            .map_err(|_| format!("{key}={text}: not a whole number"))?;
        let least = u64::from(matches!(self, Extent(_)));
        if !(least..=LARGEST).contains(&number) {
            return Err(format!(
                "{key}={number}: must be between {least} and {LARGEST}"
            ));
        }
        Ok(Value::Number(number))
    }
}

impl SimpleSpec {
    /// The operator's entry in [`OPERATORS`].
    fn operator(&self) -> Option<&'static SimpleOperator> {
        OPERATORS.iter().find(|o| o.name == self.op)
    }

    /// A numeric parameter, or None.
    fn number(&self, key: &str) -> Option<u64> {
        match self.params.get(key) {
            Some(Value::Number(n)) => Some(*n),
            _ => None,
        }
    }

    /// Sets what `--batchsize` means for this operator.
    ///
    /// # Errors
    /// Fails with [`ImportError::BadShape`] if it has no batch, or for a batch of zero.
    pub fn set_batch(&mut self, batch: u64) -> Result<()> {
        let bad = |message: String| ImportError::BadShape { message };
        let operator = self.operator();
        let key = operator.and_then(|o| o.batch).ok_or_else(|| {
            bad(format!(
                "{} has no batch dimension; give its sizes in the specification ({self})",
                self.op
            ))
        })?;
        if batch == 0 {
            return Err(bad("batch size 0 is not a positive number".to_owned()));
        }
        self.params.insert(key, Value::Number(batch));
        Ok(())
    }

    /// Refuses sizes that contradict each other.
    fn check(&self) -> Result<(), String> {
        let groups = self.number("groups").unwrap_or(1);
        for key in ["c", "o"] {
            if let Some(channels) = self.number(key).filter(|c| c % groups != 0) {
                return Err(format!(
                    "{key}={channels} is not divisible by groups={groups}"
                ));
            }
        }
        let (pad, dilation) = (
            self.number("pad").unwrap_or(0),
            self.number("dilation").unwrap_or(1),
        );
        for (window, extent) in [("kd", "d"), ("kh", "h"), ("kw", "w")] {
            let (Some(k), Some(size)) = (self.number(window), self.number(extent)) else {
                continue;
            };
            let reach = (k - 1) * dilation + 1;
            if reach > size + 2 * pad {
                return Err(format!(
                    "{window}={k} (reach {reach}) does not fit into {extent}={size} with pad={pad}"
                ));
            }
            if self.op.ends_with("pool2d") && pad >= k {
                return Err(format!("pad={pad} must be smaller than {window}={k}"));
            }
        }
        self.check_moves()
    }

    /// Checks sizes of operators that move data. TVM would remove an operator that changes nothing from the graph.
    fn check_moves(&self) -> Result<(), String> {
        let number = |key| self.number(key);
        match (number("inputs"), number("scale")) {
            (Some(inputs), _) if !(2..=MOST_INPUTS).contains(&inputs) => {
                return Err(format!(
                    "inputs={inputs}: must be between 2 and {MOST_INPUTS}"
                ));
            }
            (_, Some(scale)) if scale < 2 => {
                return Err(format!("scale={scale}: must be 2 or more"));
            }
            _ => {}
        }
        match (number("c"), number("begin"), number("size")) {
            (Some(c), Some(begin), Some(size)) if begin + size > c || size == c => Err(format!(
                "size={size} from begin={begin} on is no part of c={c} channels"
            )),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for SimpleSpec {
    /// The specification in full, in the order of [`OPERATORS`]; it reads back as itself.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.op)?;
        let order = self.operator().map_or(&[][..], |o| o.params);
        let given = order
            .iter()
            .filter_map(|(key, _)| Some((key, self.params.get(key)?)));
        for (i, (key, value)) in given.enumerate() {
            let separator = if i == 0 { ':' } else { ',' };
            match value {
                Value::Number(n) => write!(f, "{separator}{key}={n}")?,
                Value::Word(w) => write!(f, "{separator}{key}={w}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(text: &str) -> String {
        text.parse::<SimpleSpec>().unwrap_err().to_string()
    }

    #[test]
    fn missing_parameters_take_their_defaults() {
        let spec: SimpleSpec = "conv2d:c=32,o=16".parse().unwrap();
        assert_eq!(
            spec.to_string(),
            "conv2d:n=1,c=32,h=56,w=56,o=16,kh=3,kw=3,stride=1,pad=1,dilation=1,groups=1"
        );
        assert_eq!(
            "matmul".parse::<SimpleSpec>().unwrap().to_string(),
            "matmul:m=512,n=512,k=512"
        );
    }

    #[test]
    fn wrong_specifications_name_what_would_be_right() {
        insta::assert_snapshot!(message("conv2"), @"simple operator 'conv2': no operator 'conv2' (did you mean 'conv2d' or 'conv3d' or 'concat'?) (known: matmul, dense, batch_matmul, matmul_matmul_add, conv2d, depthwise_conv2d, conv3d, excitation, max_pool2d, avg_pool2d, global_avg_pool, transpose, concat, slice, resize2d, gather, softmax, layer_norm, elementwise)");
        insta::assert_snapshot!(message("matmul:x=3"), @"simple operator 'matmul:x=3': matmul has no parameter 'x' (it has: m, n, k)");
        insta::assert_snapshot!(message("matmul:m=0"), @"simple operator 'matmul:m=0': m=0: must be between 1 and 1073741824");
        insta::assert_snapshot!(message("matmul:m=big"), @"simple operator 'matmul:m=big': m=big: not a whole number");
        insta::assert_snapshot!(message("matmul:m"), @"simple operator 'matmul:m': 'm' is not a parameter; write name=value");
        insta::assert_snapshot!(message("matmul:m=1,m=2"), @"simple operator 'matmul:m=1,m=2': m is given twice");
        insta::assert_snapshot!(message("elementwise:op=cos"), @"simple operator 'elementwise:op=cos': op=cos: not known (known: abs, add, div, erf, exp, gelu, max, min, mul, neg, relu, sigmoid, sqrt, sub, tanh)");
    }

    #[test]
    fn an_epilogue_is_named_where_there_is_one() {
        let named = |text: &str| text.parse::<SimpleSpec>().unwrap().to_string();
        assert_eq!(named("dense:m=2,epilogue=none"), named("dense:m=2"));
        assert_eq!(
            named("dense:m=2,epilogue=gelu"),
            "dense:m=2,n=1000,k=2048,epilogue=gelu"
        );
        insta::assert_snapshot!(message("conv2d:epilogue=softmax"), @"simple operator 'conv2d:epilogue=softmax': epilogue=softmax: not known (known: none, bias, relu, relu6, sigmoid, silu, gelu, residual_relu)");
        insta::assert_snapshot!(message("concat:epilogue=relu"), @"simple operator 'concat:epilogue=relu': epilogue=relu: not known (known: none, batch_norm_relu)");
        assert!(message("max_pool2d:epilogue=relu").contains("no parameter 'epilogue'"));
    }

    #[test]
    fn contradicting_sizes_are_refused() {
        assert!(message("conv2d:c=10,groups=4").contains("not divisible by groups=4"));
        assert!(message("conv2d:h=2,kh=7,pad=0").contains("does not fit into h=2"));
        assert!(message("max_pool2d:pad=3").contains("must be smaller than kh=3"));
        assert!(message("concat:inputs=1").contains("must be between 2 and 64"));
        assert!(message("resize2d:scale=1").contains("must be 2 or more"));
        assert!(message("slice:c=8,begin=5,size=4").contains("no part of c=8 channels"));
        assert!(message("slice:c=8,size=8").contains("no part of c=8 channels"));
    }

    #[test]
    fn batch_sizes_set_the_right_parameter() {
        let mut spec: SimpleSpec = "conv2d".parse().unwrap();
        spec.set_batch(4).unwrap();
        assert_eq!(spec.number("n"), Some(4));
        assert!(spec.set_batch(0).is_err());
        assert!(
            "matmul"
                .parse::<SimpleSpec>()
                .unwrap()
                .set_batch(2)
                .unwrap_err()
                .to_string()
                .contains("no batch")
        );
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(index in 0..OPERATORS.len(), factor in 1_u64..9) {
            let operator = &OPERATORS[index];
            let mut spec: SimpleSpec = operator.name.parse().unwrap();
            for key in ["c", "o", "m", "n", "h"] {
                if let Some(number) = spec.number(key) {
                    spec.params.insert(operator.params.iter().find(|p| p.0 == key).unwrap().0, Value::Number(number * factor));
                }
            }
            prop_assert_eq!(spec.to_string().parse::<SimpleSpec>().unwrap(), spec);
        }

        #[test]
        fn no_text_panics(text in ".{0,60}") {
            let _ = text.parse::<SimpleSpec>();
            let _ = format!("conv2d:{text}").parse::<SimpleSpec>();
        }
    }
}
