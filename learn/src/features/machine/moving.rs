//! Time of an operator's arithmetic and compulsory traffic at the calibrated rates of its machine. Each part of the
//! traffic is at the rate of the cache that holds it.
//!
//! Weights come from where their last reading left them (inside a model `weight_reuse_bytes` ago). Activations come from
//! where the operator before left them. Data that are read in turns stay in a cache if they all fit. A smaller cache has
//! lost them before they are read again.

use opdata::{CacheState, Row};

use crate::features::machine::{MachineFacts, Rates};
use crate::features::operator::Operator;

/// Times at calibrated rates.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct AtBest {
    /// All arithmetic at the calibrated peak, ns; 0 where none is known.
    pub arithmetic: f64,
    /// `arithmetic` times [`MachineFacts::power_shortage`].
    pub short_of_power: f64,
    /// Time of all memory traffic, ns.
    pub moving: f64,
}

/// The times of a row's operator; none without calibrated rates.
pub(in crate::features) fn at_best(
    row: &Row,
    operator: &Operator,
    machine: &MachineFacts,
) -> Option<AtBest> {
    let rates = machine.rates_for(row.threads)?;
    let threads = row.threads.unwrap_or(1);
    let all = operator.bytes();
    let (weights, activations) = match row.cache_state {
        Some(CacheState::Flushed) => (f64::INFINITY, f64::INFINITY),
        Some(CacheState::Model) => {
            let between = row.weight_reuse_bytes.map_or(0.0, |bytes| bytes as f64);
            (between.max(all), all)
        }
        Some(CacheState::Hot) | None => (all, all),
    };
    let weight_rate = rate_of(weights, threads, machine, &rates)?;
    let activation_rate = rate_of(activations, threads, machine, &rates)?;
    let others = operator.input_bytes + operator.output_bytes;
    let arithmetic = rates
        .gflops
        .map_or(0.0, |peak| operator.total_flops() / peak);
    Some(AtBest {
        arithmetic,
        short_of_power: arithmetic * machine.power_shortage(),
        moving: operator.weight_bytes / weight_rate + others / activation_rate,
    })
}

/// The rate of the first cache that holds this many bytes, or of memory, byte/ns: of the levels whose rate is known.
fn rate_of(bytes: f64, threads: u64, machine: &MachineFacts, rates: &Rates) -> Option<f64> {
    let each = threads as f64;
    let levels = [
        (
            machine.l1_bytes.map(|n| n as f64 * each),
            rates.l1_gbytes_per_s,
        ),
        (
            machine.l2_bytes.map(|n| n as f64 * each),
            rates.l2_gbytes_per_s,
        ),
        (machine.l3_bytes.map(|n| n as f64), rates.l3_gbytes_per_s),
        (Some(f64::INFINITY), rates.memory_gbytes_per_s),
    ];
    let known = || {
        let pairs = levels.iter();
        pairs.filter_map(|(capacity, rate)| capacity.zip(*rate))
    };
    let holds = known().find(|(capacity, _)| bytes <= *capacity);
    holds.or_else(|| known().next_back()).map(|(_, rate)| rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::dense_row;

    fn machine() -> MachineFacts {
        MachineFacts {
            l1_bytes: Some(1 << 15),
            l2_bytes: Some(1 << 20),
            l3_bytes: Some(1 << 25),
            rates: vec![Rates {
                threads: 1,
                gflops: Some(100.0),
                l1_gbytes_per_s: Some(200.0),
                l2_gbytes_per_s: Some(100.0),
                l3_gbytes_per_s: Some(50.0),
                memory_gbytes_per_s: Some(10.0),
            }],
            ..MachineFacts::named("m")
        }
    }

    #[test]
    fn weights_come_from_the_cache_that_holds_all_that_is_read_between() {
        // 4 MB of weights, few activations.
        let mut row = dense_row(1, 1024, 1024, "{}");
        row.cache_state = Some(CacheState::Model);
        let operator = Operator::of_row(&row);
        let others = operator.input_bytes + operator.output_bytes;
        let moving = |row: &Row, rate: f64, other_rate: f64| {
            let found = at_best(row, &operator, &machine()).unwrap().moving;
            let wanted = operator.weight_bytes / rate + others / other_rate;
            assert!((found / wanted - 1.0).abs() < 1e-9, "{found} {wanted}");
        };
        moving(&row, 50.0, 50.0);
        row.weight_reuse_bytes = Some(1 << 26);
        moving(&row, 10.0, 50.0);
        // A repeated call finds the weights in the caches.
        row.cache_state = Some(CacheState::Hot);
        moving(&row, 50.0, 50.0);
        row.cache_state = Some(CacheState::Flushed);
        let best = at_best(&row, &operator, &machine()).unwrap();
        assert!((best.moving - operator.bytes() / 10.0).abs() < 1e-6);
        assert!((best.arithmetic - operator.total_flops() / 100.0).abs() < 1e-6);
    }

    #[test]
    fn without_rates_nothing_is_known_and_one_of_memory_is_enough() {
        let row = dense_row(1, 64, 64, "{}");
        let operator = Operator::of_row(&row);
        assert_eq!(at_best(&row, &operator, &MachineFacts::named("m")), None);
        let mut facts = machine();
        facts.rates[0].l1_gbytes_per_s = None;
        facts.rates[0].l2_gbytes_per_s = None;
        facts.rates[0].l3_gbytes_per_s = None;
        let best = at_best(&row, &operator, &facts).unwrap();
        assert!((best.moving - operator.bytes() / 10.0).abs() < 1e-9);
    }
}
