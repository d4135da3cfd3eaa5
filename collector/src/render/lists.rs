//! `opcollect list models|targets|ops`: what there is to measure and to compile for.

use serde::Serialize;
use serde_json::{Value, json};

use super::table::{Column, Table};
use super::{Style, units};
use crate::plan::{Availability, TargetKind};

/// A model of the registry.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListedModel {
    /// Name for `--modelname`.
    pub name: String,
    /// Other names it goes by.
    pub aliases: Vec<String>,
    /// Proper name.
    pub title: String,
    /// What it is for, e.g. `image classification`.
    pub task: String,
    /// Inputs with their default shapes, e.g. `data:1x3x224x224`.
    pub inputs: Vec<String>,
    /// Trainable parameters.
    pub params: Option<u64>,
    /// Multiply-adds at the default shapes.
    pub macs: Option<u64>,
}

/// An operator that `--modelsource simple` can build.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SimpleOperator {
    /// Its name, e.g. `matmul`.
    pub name: String,
    /// Its parameters with their defaults, e.g. `("m", "512")`.
    pub parameters: Vec<(String, String)>,
}

/// A distinct operator of an imported model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListedOperator {
    /// Readable name.
    pub name: String,
    /// Kind.
    pub kind: String,
    /// Shapes of inputs and weights.
    pub shapes: String,
    /// Calls in one run of the model.
    pub count: u64,
    /// Floating-point operations of one call.
    pub flops: u64,
    /// Compulsory bytes of one call.
    pub bytes: u64,
}

/// Something to list, as a table or as JSON.
#[derive(Debug, Clone, PartialEq)]
pub enum Listing {
    /// The registry.
    Models(Vec<ListedModel>),
    /// The targets, with whether they are there.
    Targets,
    /// What `--modelsource simple` can build.
    SimpleOperators(Vec<SimpleOperator>),
    /// The operators of a model.
    Operators(Vec<ListedOperator>),
}

impl Listing {
    /// As a table.
    pub fn text(&self, style: Style) -> String {
        match self {
            Self::Models(models) => models_table(models),
            Self::Targets => targets_table(),
            Self::SimpleOperators(operators) => simple_table(operators),
            Self::Operators(operators) => operators_table(operators),
        }
        .render(style)
    }

    /// As an object with one list.
    pub fn json(&self) -> Value {
        match self {
            Self::Models(models) => json!({ "models": models }),
            Self::Targets => {
                let targets: Vec<Value> = TargetKind::ALL
                    .into_iter()
                    .map(|kind| {
                        json!({
                            "name": kind.name(),
                            "title": kind.title(),
                            "availability": kind.availability(),
                        })
                    })
                    .collect();
                json!({ "targets": targets })
            }
            Self::SimpleOperators(operators) => json!({ "ops": operators }),
            Self::Operators(operators) => json!({ "ops": operators }),
        }
    }
}

fn models_table(models: &[ListedModel]) -> Table {
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
            model.inputs.join(" ").into(),
            count(model.params).into(),
            count(model.macs).into(),
            model.aliases.join(", ").into(),
        ]);
    }
    table
}

fn targets_table() -> Table {
    let mut table = Table::new(&[
        Column::left("target"),
        Column::left("here"),
        Column::left("what"),
    ]);
    for kind in TargetKind::ALL {
        let here = match kind.availability() {
            Availability::BuiltIn => "yes",
            Availability::NotBuiltIn => "not built in",
        };
        table.row([kind.name().into(), here.into(), kind.title().into()]);
    }
    table
}

fn simple_table(operators: &[SimpleOperator]) -> Table {
    let mut table = Table::new(&[
        Column::left("operator"),
        Column::left("parameters and defaults"),
    ]);
    for operator in operators {
        let parameters: Vec<String> = operator
            .parameters
            .iter()
            .map(|(key, default)| format!("{key}={default}"))
            .collect();
        table.row([operator.name.clone().into(), parameters.join(",").into()]);
    }
    table
}

fn operators_table(operators: &[ListedOperator]) -> Table {
    let mut table = Table::new(&[
        Column::left("operator").shrinks_to(20),
        Column::left("kind"),
        Column::left("shapes").shrinks_to(14),
        Column::right("count"),
        Column::right("FLOPs"),
        Column::right("traffic"),
        Column::right("FLOPs/byte").hides(0),
    ]);
    for operator in operators {
        let intensity = if operator.bytes == 0 {
            "-".to_owned()
        } else {
            format!("{:.2}", operator.flops as f64 / operator.bytes as f64)
        };
        table.row([
            operator.name.clone().into(),
            operator.kind.clone().into(),
            operator.shapes.clone().into(),
            operator.count.to_string().into(),
            units::count(operator.flops as f64).into(),
            units::bytes(operator.bytes as f64).into(),
            intensity.into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        insta::assert_snapshot!(Listing::Targets.text(Style::PLAIN), @r#"
        target  here          what
        llvm    yes           the CPU of this machine, through LLVM
        cuda    not built in  NVIDIA GPUs
        pynq    not built in  the VTA accelerator on a PYNQ board
        "#);
        assert_eq!(
            Listing::Targets.json()["targets"][1]["availability"],
            "not_built_in"
        );
    }

    #[test]
    fn models() {
        let listing = Listing::Models(vec![ListedModel {
            name: "resnet-18".into(),
            aliases: vec!["resnet18".into()],
            title: "ResNet-18".into(),
            task: "image classification".into(),
            inputs: vec!["data:1x3x224x224".into()],
            params: Some(11_689_512),
            macs: Some(1_814_073_344),
        }]);
        insta::assert_snapshot!(listing.text(Style::PLAIN), @r#"
        model      title      task                  inputs            parameters     MACs  also called
        resnet-18  ResNet-18  image classification  data:1x3x224x224     11.69 M  1.814 G  resnet18
        "#);
        assert_eq!(listing.json()["models"][0]["params"], 11_689_512);
    }

    #[test]
    fn operators() {
        let simple = Listing::SimpleOperators(vec![SimpleOperator {
            name: "matmul".into(),
            parameters: vec![("m".into(), "512".into()), ("n".into(), "512".into())],
        }]);
        insta::assert_snapshot!(simple.text(Style::PLAIN), @r#"
        operator  parameters and defaults
        matmul    m=512,n=512
        "#);
        let listing = Listing::Operators(vec![ListedOperator {
            name: "conv2d_relu".into(),
            kind: "conv2d".into(),
            shapes: "1x64x56x56;4x64x3x3x16".into(),
            count: 4,
            flops: 231_612_416,
            bytes: 1_753_088,
        }]);
        insta::assert_snapshot!(listing.text(Style::PLAIN), @r#"
        operator     kind    shapes                  count    FLOPs   traffic  FLOPs/byte
        conv2d_relu  conv2d  1x64x56x56;4x64x3x3x16      4  231.6 M  1.67 MiB      132.12
        "#);
    }
}
