//! Why nothing can be suggested.

use std::path::PathBuf;

use crate::error::Error;

/// Why nothing can be suggested, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum SuggestError {
    /// Reading, training or predicting failed.
    #[error(transparent)]
    Predictor(#[from] Error),
    /// Nothing could be learned.
    #[error(transparent)]
    Learn(#[from] oplearn::Error),
    /// A dataset could not be read.
    #[error(transparent)]
    Data(#[from] opdata::Error),
    /// The installation was not found.
    #[error(transparent)]
    Home(#[from] opinstall::NoHome),
    /// A model could not be imported.
    #[error(transparent)]
    Import(#[from] opmodels::ImportError),
    /// The plan has no form in TOML.
    #[error("the plan cannot be written: {0}; please report it")]
    Form(#[from] toml::ser::Error),
    /// There are no candidates.
    #[error(
        "{} has no candidates; list some with `opcollect plan --sweep default --modelname NAME --candidates DIR`",
        folder.display()
    )]
    NoCandidates {
        /// The folder that was searched.
        folder: PathBuf,
    },
    /// Every candidate was left out.
    #[error("none of the {candidates} candidates is left to choose: {}; list others: another sweep, more schedules, another model", left_out.join("; "))]
    NothingLeft {
        /// Number of candidates.
        candidates: usize,
        /// Why they were left out.
        left_out: Vec<String>,
    },
    /// Not even one point fits.
    #[error(
        "the budget of {budget} is too small: the cheapest candidate takes about {cheapest}; give at least that"
    )]
    BudgetTooSmall {
        /// The time available.
        budget: String,
        /// The time of the cheapest candidate.
        cheapest: String,
    },
    /// No row is of the candidates' machine.
    #[error("{} lists candidates for the machine {candidates}, and the rows are of {rows}: times of one machine do not tell what to measure on another; list the candidates on that machine, or give rows of this one", folder.display())]
    OtherMachine {
        /// The candidates' folder.
        folder: PathBuf,
        /// Their machine.
        candidates: String,
        /// The rows' machines.
        rows: String,
    },
    /// A trained model that does not know the machine.
    #[error(
        "the model was not trained on rows of the machine {machine}, but of {known}; leave --model out to train one on the rows given"
    )]
    ForeignModel {
        /// The rows' machine.
        machine: String,
        /// The model's machines.
        known: String,
    },
    /// The candidates' plan cannot be used.
    #[error("{}: {detail}; list the candidates anew with the `opcollect plan --candidates` of this version", folder.display())]
    Plan {
        /// The candidates' folder.
        folder: PathBuf,
        /// Description of the fault.
        detail: String,
    },
}
