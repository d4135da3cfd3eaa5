//! Training samples, with the fitted rates of their estimates. All members that learn from the same samples share
//! them; they are found once, on the first request.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::rates::Rates;
use crate::data::{Dataset, Sample};

/// Share of samples under interference from which on its features are used. A column that is nearly always empty
/// displaces others in the trees that draw it.
const OFTEN_DISTURBED: f64 = 0.25;

/// Some samples of a dataset.
#[derive(Debug)]
pub struct TrainingSet<'a> {
    dataset: &'a Dataset,
    indices: &'a [usize],
    rates: OnceLock<Rates>,
    at_best: OnceLock<Rates>,
    by_machine: OnceLock<BTreeMap<usize, Rates>>,
}

impl<'a> TrainingSet<'a> {
    /// The samples at some positions of a dataset.
    pub fn new(dataset: &'a Dataset, indices: &'a [usize]) -> Self {
        Self {
            dataset,
            indices,
            rates: OnceLock::new(),
            at_best: OnceLock::new(),
            by_machine: OnceLock::new(),
        }
    }

    /// The samples.
    pub fn samples(&self) -> impl Iterator<Item = &'a Sample> + use<'a> {
        let (dataset, indices) = (self.dataset, self.indices);
        indices.iter().map(|&i| &dataset.samples[i])
    }

    /// Whether enough samples were measured under interference to learn its effect.
    pub fn is_often_disturbed(&self) -> bool {
        let disturbed = self.samples().filter(|s| s.disturbed == Some(true)).count();
        disturbed as f64 >= OFTEN_DISTURBED * self.indices.len() as f64
    }

    /// See [`Rates::fit`].
    pub fn rates(&self) -> &Rates {
        let fit = || Rates::fit(self.dataset, self.indices);
        self.rates.get_or_init(fit)
    }

    /// See [`Rates::fit_at_best`].
    pub fn rates_at_best(&self) -> &Rates {
        let fit = || Rates::fit_at_best(self.dataset, self.indices);
        self.at_best.get_or_init(fit)
    }

    /// See [`Rates::by_machine`].
    pub fn rates_by_machine(&self) -> &BTreeMap<usize, Rates> {
        let fit = || Rates::by_machine(self.dataset, self.indices);
        self.by_machine.get_or_init(fit)
    }
}
