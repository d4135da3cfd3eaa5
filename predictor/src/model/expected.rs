//! Predictions of a trained model: by its trees, then carried over to the machine that it was adapted to.

use oplearn::features::Point;
use oplearn::features::machine::MachineFacts;
use oplearn::models::Familiarity;

use super::adaptation::Old;
use super::trained::{Expected, New, Trained};
use crate::error::Result;

impl Trained {
    /// Predictions for points of operators of the given kinds.
    ///
    /// # Errors
    /// Fails if XGBoost's library fails.
    pub(crate) fn expected(&self, points: &[&Point], kinds: &[&str]) -> Result<Vec<Expected>> {
        let expected = self.before_adaptation(points)?;
        let Some(adaptation) = &self.adaptation else {
            return Ok(expected);
        };
        let as_is = expected.iter().map(|e| e.centre + e.bias).collect();
        let counting = adaptation.alike.iter().filter(|known| known.share > 0.0);
        let known = counting
            .map(|known| Ok((known.share, self.hosted(&known.machine, points)?)))
            .collect::<Result<Vec<_>>>()?;
        let carried = adaptation.carried(points, kinds, &Old::new(as_is, &known))?;
        // A model of the new measurements alone needs no correction that was found on the old machine.
        let kept = 1.0 - adaptation.own_share();
        let moved = expected
            .into_iter()
            .zip(carried)
            .map(|(old, time)| Expected {
                centre: time - kept * old.bias,
                bias: kept * old.bias,
                ..old
            });
        Ok(moved.collect())
    }

    /// The machines that the trees learned from. An adapted model predicts for another one.
    pub(crate) fn machines_trained_on(&self) -> Vec<&MachineFacts> {
        match &self.adaptation {
            None => self.facts.machines.iter().collect(),
            Some(adaptation) => adaptation.alike.iter().map(|a| &a.machine).collect(),
        }
    }

    /// Predictions of the trees alone for points as if a machine that they learned from ran them, log2 ns.
    ///
    /// # Errors
    /// Fails if XGBoost's library fails.
    pub(crate) fn hosted(&self, machine: &MachineFacts, points: &[&Point]) -> Result<Vec<f64>> {
        let hosted: Vec<Point> = points.iter().map(|point| machine.host(point)).collect();
        let hosted: Vec<&Point> = hosted.iter().collect();
        let expected = self.before_adaptation(&hosted)?;
        Ok(expected.into_iter().map(|e| e.centre + e.bias).collect())
    }

    /// Predictions of the trees alone, before an adaptation carries them over to another machine.
    ///
    /// # Errors
    /// Fails if XGBoost's library fails.
    pub(crate) fn before_adaptation(&self, points: &[&Point]) -> Result<Vec<Expected>> {
        let spread = self.ensemble.spread(points)?;
        let expected = points.iter().zip(spread).map(|(point, (centre, doubt))| {
            let new = if self.ensemble.is_foreign(point) {
                New::Machine
            } else {
                match self.ensemble.familiarity(point) {
                    Familiarity::Unseen => New::Workload,
                    Familiarity::Known => New::Schedule,
                }
            };
            Expected {
                centre,
                bias: self.facts.calibration(new).bias,
                doubt,
                new,
            }
        });
        Ok(expected.collect())
    }
}
