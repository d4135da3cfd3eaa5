//! The flags that say which model, in which shape; the main job and others share them.

use clap::{Args, ValueHint};

use super::suggest::Suggest;

/// The model, and its shape.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub struct ModelArgs {
    /// Where the model comes from
    #[arg(long, value_name = "SOURCE", value_parser = Suggest(opmodels::sources::names()))]
    pub modelsource: Option<String>,
    /// A name of `list models`, of transformers or of torch, the path of a model's file, or an operator of `list ops`
    #[arg(long, value_name = "NAME")]
    pub modelname: Option<String>,
    /// Batch size [default: the model's own, 1 for those of `list models`]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub batchsize: Option<String>,
    /// Sequence length, for models that have one
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seqlen: Option<String>,
    /// Shape of an input as name:shape[:dtype], e.g. data:1x3x160x160 (repeatable)
    #[arg(long, value_name = "INPUT", action = clap::ArgAction::Append)]
    pub input: Vec<String>,
    /// Hidden size (of a token's vector), for models of source transformers
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub hidden: Option<String>,
    /// Number of layers, for models of source transformers
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub layers: Option<String>,
    /// Number of attention heads, for models of source transformers
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub heads: Option<String>,
    /// Intermediate size of the feed-forward layers, for models of source transformers
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub intermediate: Option<String>,
    /// Configuration of a model of source transformers, as it saves them; --config with a .json file means the same
    #[arg(long, value_name = "FILE.json", value_hint = ValueHint::FilePath)]
    pub model_config: Option<String>,
    /// Fuse neighbouring operators into one kernel (full), or measure each alone (none)
    #[arg(long, value_name = "WHICH", value_parser = Suggest(&["full", "none"]))]
    pub fusion: Option<String>,
    /// Table of sequences of operators that count as one operator each
    #[arg(long, value_name = "FILE.toml", value_hint = ValueHint::FilePath)]
    pub composites: Option<String>,
}
