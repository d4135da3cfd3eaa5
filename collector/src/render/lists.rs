//! `opcollect list models|targets|ops`: models, operators and targets.

use opengine::device;
use opengine::measure::counters::{SourceKind, Survey};
use opmodels::graph::{ArgumentRole, Graph, Operator};
use opmodels::simple::{ParamDefault, SimpleOperator};
use opmodels::{InputOverride, Model, ModelInput};
use opreport::table::{Column, Table};
use opreport::{Style, units};
use serde_json::{Value, json};

use super::counters::{counters_text, survey_json};
use super::knobs::{knobs_json, knobs_text, tuners_table};
use super::patterns::{pattern_json, patterns_text};
use super::runs::runs_text;
use crate::operator_ir::OperatorIr;
use crate::patterns::Expanded;
use crate::preview::OperatorKnobs;
use crate::report::read_shapes;
use crate::run_list::ListedRun;
use crate::sweep::SweepFile;
use crate::tuners::TUNERS;

/// Something to list, as a table or as JSON.
#[derive(Clone, Copy)]
pub enum Listing<'a> {
    /// Models of the registry.
    Models(&'a [Model]),
    /// The targets, with whether they are there.
    Targets,
    /// The operators of `--modelsource simple`.
    SimpleOperators(&'a [SimpleOperator]),
    /// The operators of a model.
    Operators(&'a Graph),
    /// The code of operators.
    Ir(&'a [OperatorIr]),
    /// The steps of composite operators.
    Patterns(&'a [Expanded]),
    /// Runs.
    Runs(&'a [ListedRun]),
    /// The sweeps that come with the program.
    Sweeps(&'a [SweepFile]),
    /// The tuners.
    Tuners,
    /// The knobs of operators.
    Knobs(&'a [OperatorKnobs]),
    /// Sources of counters, and their counters here.
    Counters(&'a [(&'a dyn SourceKind, Survey)]),
}

impl Listing<'_> {
    /// The list as a table.
    pub fn text(&self, style: Style) -> String {
        match self {
            Self::Models(models) => models_table(models).render(style),
            Self::Targets => targets_table().render(style),
            Self::SimpleOperators(operators) => simple_table(operators).render(style),
            Self::Sweeps(sweeps) => sweeps_table(sweeps).render(style),
            Self::Runs(runs) => runs_text(runs, style),
            Self::Tuners => tuners_table().render(style),
            Self::Knobs(operators) => knobs_text(operators, style),
            Self::Counters(surveys) => counters_text(surveys, style),
            Self::Ir(operators) => operators.iter().map(|ir| ir_text(ir, style)).collect(),
            Self::Patterns(forms) => patterns_text(forms, style),
            Self::Operators(graph) => operators_table(graph).render(style) + &totals(graph, style),
        }
    }

    /// The list as a JSON object with one key.
    pub fn json(&self) -> Value {
        match self {
            Self::Models(models) => {
                json!({ "models": models.iter().map(model_json).collect::<Vec<_>>() })
            }
            Self::Targets => {
                json!({ "targets": targets_json() })
            }
            Self::SimpleOperators(operators) => {
                json!({ "ops": operators.iter().map(simple_json).collect::<Vec<_>>() })
            }
            Self::Sweeps(sweeps) => {
                json!({ "sweeps": sweeps.iter().map(sweep_json).collect::<Vec<_>>() })
            }
            Self::Runs(runs) => json!({ "runs": runs }),
            Self::Tuners => json!({ "tuners": TUNERS }),
            Self::Knobs(operators) => json!({ "ops": knobs_json(operators) }),
            Self::Counters(surveys) => {
                json!({ "sources": surveys.iter().map(survey_json).collect::<Vec<_>>() })
            }
            Self::Ir(operators) => json!({
                "ops": operators
                    .iter()
                    .map(|ir| json!({"symbol": ir.symbol, "relax": ir.relax, "tir": ir.tir, "schedule": ir.schedule}))
                    .collect::<Vec<_>>(),
            }),
            Self::Patterns(forms) => {
                json!({ "patterns": forms.iter().map(pattern_json).collect::<Vec<_>>() })
            }
            Self::Operators(graph) => json!({
                "model": graph.model,
                "batch": graph.batch,
                "ops": graph.operators,
            }),
        }
    }
}

fn sweeps_table(sweeps: &[SweepFile]) -> Table {
    let mut table = Table::new(&[
        Column::left("sweep"),
        Column::left("space").hides(1),
        Column::left("drawn").hides(0),
        Column::right("schedules"),
        Column::left("about").shrinks_to(30),
    ]);
    for file in sweeps {
        let sweep = &file.sweep;
        table.row([
            sweep.name.clone().into(),
            sweep.space.name().into(),
            sweep.draw.name().into(),
            sweep.schedules.to_string().into(),
            file.about.clone().into(),
        ]);
    }
    table
}

fn sweep_json(file: &SweepFile) -> Value {
    json!({ "about": file.about, "sweep": file.sweep, "settings": file.settings })
}

fn models_table(models: &[Model]) -> Table {
    let mut table = Table::new(&[
        Column::left("model"),
        Column::left("title").shrinks_to(12).hides(2),
        Column::left("task").shrinks_to(12).hides(1),
        Column::left("inputs").shrinks_to(16),
        Column::right("parameters"),
        Column::right("MACs"),
        Column::left("also called").hides(0),
    ]);
    let count =
        |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |v| units::count(v as f64));
    for model in models {
        table.row([
            model.name.clone().into(),
            model.title.clone().into(),
            model.task.clone().into(),
            default_inputs(model).join(" ").into(),
            count(model.params).into(),
            count(model.macs).into(),
            model.aliases.join(", ").into(),
        ]);
    }
    table
}

/// The inputs at their default shapes, as `--input` takes them.
fn default_inputs(model: &Model) -> Vec<String> {
    model
        .inputs
        .iter()
        .map(|input| {
            let shown = InputOverride {
                name: input.name.clone(),
                shape: default_shape(model, input),
                dtype: Some(input.dtype.clone()),
            };
            shown.to_string()
        })
        .collect()
}

/// The shape with the defaults for its symbols; 1 for a symbol without one.
fn default_shape(model: &Model, input: &ModelInput) -> Vec<u64> {
    // A dimension's JSON is a number, or the symbol's name.
    input
        .shape
        .iter()
        .map(|dim| match json!(dim) {
            Value::String(symbol) if symbol == "seq" => model.defaults.seq.unwrap_or(1),
            Value::String(_) => model.defaults.batch.unwrap_or(1),
            extent => extent.as_u64().unwrap_or(1),
        })
        .collect()
}

fn model_json(model: &Model) -> Value {
    let mut object = json!(model);
    object["default_inputs"] = json!(default_inputs(model));
    object
}

fn targets_table() -> Table {
    let mut table = Table::new(&[
        Column::left("target"),
        Column::left("here"),
        Column::left("what"),
        Column::left("lacks").hides(0),
    ]);
    for device in device::ALL {
        table.row([device.name().into(), "yes".into(), device.title().into()]);
    }
    for planned in device::PLANNED {
        table.row([
            planned.name.into(),
            "not built in".into(),
            planned.title.into(),
            planned.lacks.into(),
        ]);
    }
    table
}

/// Every target that has a name.
fn targets_json() -> Vec<Value> {
    let here = device::ALL
        .iter()
        .map(|d| json!({ "name": d.name(), "title": d.title(), "availability": "built_in" }));
    let planned = device::PLANNED.iter().map(|p| {
        json!({
            "name": p.name, "title": p.title, "availability": "not_built_in",
            "lacks": p.lacks,
        })
    });
    here.chain(planned).collect()
}

fn simple_table(operators: &[SimpleOperator]) -> Table {
    let mut table = Table::headed("operator|what|parameters and defaults");
    for operator in operators {
        let parameters: Vec<String> = operator
            .params
            .iter()
            .map(|(key, default)| format!("{key}={}", default_text(*default)))
            .collect();
        table.row([
            operator.name.into(),
            operator.title.into(),
            parameters.join(",").into(),
        ]);
    }
    table
}

fn default_text(default: ParamDefault) -> String {
    match default {
        ParamDefault::Extent(number) | ParamDefault::Count(number) => number.to_string(),
        ParamDefault::Word(word, _) => word.to_owned(),
    }
}

fn simple_json(operator: &SimpleOperator) -> Value {
    let parameters: Vec<Value> = operator
        .params
        .iter()
        .map(|(key, default)| match default {
            ParamDefault::Extent(number) => json!({"name": key, "default": number, "least": 1}),
            ParamDefault::Count(number) => json!({"name": key, "default": number, "least": 0}),
            ParamDefault::Word(word, words) => {
                json!({"name": key, "default": word, "words": words})
            }
        })
        .collect();
    json!({"name": operator.name, "title": operator.title, "parameters": parameters})
}

/// An operator's calls and its tensor function.
fn ir_text(ir: &OperatorIr, style: Style) -> String {
    format!(
        "{}\n{}\n\n{}\n\ndefault schedule on this CPU: {}\n\n",
        style.bold(&ir.symbol),
        ir.relax,
        ir.tir.trim_end(),
        serde_json::to_string(&ir.schedule).unwrap_or_default()
    )
}

fn operators_table(graph: &Graph) -> Table {
    let mut table = Table::new(&[
        Column::left("operator").shrinks_to(20),
        Column::left("kind").hides(1),
        Column::left("types").hides(3),
        Column::left("shapes").shrinks_to(14).hides(2),
        Column::right("count"),
        Column::right("FLOPs"),
        Column::right("traffic"),
        Column::right("FLOPs/byte").hides(0),
    ]);
    // The heaviest first: that is where a reader looks.
    let mut operators: Vec<&Operator> = graph.operators.iter().collect();
    operators.sort_by_key(|operator| std::cmp::Reverse(operator.count * all_flops(operator)));
    for operator in operators {
        let (flops, bytes) = (
            all_flops(operator),
            operator.bytes_read + operator.bytes_written,
        );
        let intensity = if bytes == 0 {
            "-".to_owned()
        } else {
            format!("{:.2}", flops as f64 / bytes as f64)
        };
        table.row([
            operator.name.clone().into(),
            operator.kind.name().into(),
            types(operator).into(),
            read_shapes(operator).into(),
            operator.count.to_string().into(),
            units::count(flops as f64).into(),
            units::bytes(bytes as f64).into(),
            intensity.into(),
        ]);
    }
    table
}

/// Element types of the inputs and of the results: one word if they are equal.
fn types(operator: &Operator) -> String {
    let of = |wanted: fn(ArgumentRole) -> bool| {
        let mut found: Vec<&str> = Vec::new();
        for argument in operator.args.iter().filter(|a| wanted(a.role)) {
            if !found.contains(&argument.dtype.as_str()) {
                found.push(&argument.dtype);
            }
        }
        found.join(",")
    };
    let (read, written) = (
        of(|role| role == ArgumentRole::Input),
        of(|role| role == ArgumentRole::Output),
    );
    if read == written || read.is_empty() {
        return written;
    }
    format!("{read}>{written}")
}

/// Operations of one call, fused rest included.
fn all_flops(operator: &Operator) -> u64 {
    operator.flops + operator.flops_epilogue
}

fn totals(graph: &Graph, style: Style) -> String {
    let totals = graph.totals();
    format!(
        "{}: {} in {}, {}FLOPs, {} of weights\n",
        style.bold(&graph.model),
        units::plural(graph.operators.len() as u64, "operator"),
        units::plural(totals.calls, "call"),
        units::count((totals.flops + totals.flops_epilogue) as f64),
        units::count(totals.weight_elements as f64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::testing;

    #[test]
    fn targets() {
        insta::assert_snapshot!(Listing::Targets.text(Style::PLAIN), @"
        target    here          what                                                                          lacks
        llvm      yes           the CPU of this machine, through LLVM
        cuda      yes           NVIDIA GPUs, through CUDA; kernels are compiled without one (--compile-only)
        pynq      yes           the VTA accelerator of a PYNQ board, simulated
        scripted  yes           scripted times, for tests
        tape      yes           a tape and a reading head, for tests
        opencl    not built in  devices of an OpenCL platform                                                 TVM's wheel writes OpenCL C but has no runtime for it (libtvm_runtime_opencl.so)
        vulkan    not built in  GPUs through Vulkan                                                           TVM's wheel has neither a code generator for SPIR-V nor a runtime for Vulkan
        rocm      not built in  AMD GPUs                                                                      TVM's wheel writes code for AMD GPUs but has no runtime for it (libtvm_runtime_rocm.so)
        metal     not built in  Apple GPUs                                                                    TVM's wheel writes Metal but has no runtime for it, and Linux has no Metal
        ");
        assert_eq!(
            Listing::Targets.json()["targets"][5]["availability"],
            "not_built_in"
        );
    }

    #[test]
    fn models() {
        let registry = testing::registry();
        let listing = Listing::Models(&registry.models);
        insta::assert_snapshot!(listing.text(Style::PLAIN), @r#"
        model      title      task      inputs          parameters  MACs  also called
        bert-tiny  BERT tiny  encoding  ids:1x16:int64     4.386 M     -  bert
        "#);
        let model = &listing.json()["models"][0];
        assert_eq!(model["params"], 4_385_920);
        assert_eq!(model["default_inputs"][0], "ids:1x16:int64");
    }

    #[test]
    fn what_simple_builds() {
        let picked: Vec<SimpleOperator> = opmodels::simple::OPERATORS
            .iter()
            .copied()
            .filter(|operator| ["matmul", "elementwise"].contains(&operator.name))
            .collect();
        insta::assert_snapshot!(Listing::SimpleOperators(&picked).text(Style::PLAIN), @r#"
        operator     what                               parameters and defaults
        matmul       A[m,k] B[k,n]                      m=512,n=512,k=512
        elementwise  one function of one or two X[m,n]  op=add,m=1024,n=1024
        "#);
        let all = Listing::SimpleOperators(opmodels::simple::OPERATORS).json();
        assert_eq!(
            all["ops"].as_array().unwrap().len(),
            opmodels::simple::OPERATORS.len()
        );
    }

    #[test]
    fn operators_of_a_model() {
        let graph = testing::graph();
        let listing = Listing::Operators(&graph);
        insta::assert_snapshot!(listing.text(Style::PLAIN), @r#"
        operator     kind      types    shapes                  count    FLOPs   traffic  FLOPs/byte
        conv2d_relu  conv2d    float32  1x64x56x56;4x64x3x3x16      4  231.2 M  1.67 MiB      131.89
        max_pool2d   max_pool  float32  1x64x112x112                1  1.607 M  1.67 MiB        0.92
        resnet-18: 2 operators in 5 calls, 926.5 MFLOPs, 0 of weights
        "#);
        assert_eq!(listing.json()["ops"][0]["kind"], "max_pool");
    }
}
