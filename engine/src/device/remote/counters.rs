//! Counters of another machine's processor: opened, started and read there, around calls that run there.
//!
//! Both ends: [`open`] is the client's, [`Served`] what a session of `opcollect serve-device` answers. A stock server has
//! none. Messages are JSON.

use std::cell::RefCell;

use serde::{Deserialize, Serialize};
use tvm_bridge::rpc::Session;

use crate::measure::counters::request::CounterRequest;
use crate::measure::counters::{
    self, Count, CounterError, CounterSource, Counters, Opened, Reading, Side,
};

/// The names of the functions.
pub(crate) const OPEN: &str = "opbench.counters.open";
pub(crate) const START: &str = "opbench.counters.start";
pub(crate) const STOP: &str = "opbench.counters.stop";

/// The open counters.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Offer {
    sources: Vec<Counters>,
    refused: Vec<Count>,
    is_automatic: bool,
}

/// Opens counters for the threads that a session has.
pub(super) fn open(session: &Session, request: &CounterRequest) -> Opened {
    let asked = serde_json::to_string(request).unwrap_or_default();
    let offer = session.ask(OPEN, &asked);
    let offer: Offer = offer
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    let meter = |(index, counters): (usize, Counters)| {
        Box::new(RemoteSource {
            session: session.clone(),
            index,
            counters,
        }) as Box<dyn CounterSource>
    };
    Opened {
        meters: offer.sources.into_iter().enumerate().map(meter).collect(),
        refused: offer.refused,
        is_automatic: offer.is_automatic,
        ..Opened::default()
    }
}

/// A source that is read there.
struct RemoteSource {
    session: Session,
    index: usize,
    counters: Counters,
}

impl RemoteSource {
    fn ask<T: for<'a> Deserialize<'a>>(&self, name: &str) -> Result<T, CounterError> {
        let lost = || {
            CounterError::new(
                &*self.counters.source,
                "the connection is lost",
                "measure again",
            )
        };
        let said = self.session.ask(name, &self.index.to_string());
        let said = said.and_then(|text| serde_json::from_str(&text).ok());
        said.unwrap_or_else(|| Err(lost()))
    }
}

impl CounterSource for RemoteSource {
    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn start(&mut self) -> Result<(), CounterError> {
        self.ask(START)
    }

    fn stop(&mut self) -> Result<Vec<Reading>, CounterError> {
        self.ask(STOP)
    }
}

/// The counters of a session.
#[derive(Default)]
pub(crate) struct Served(RefCell<Vec<Box<dyn CounterSource>>>);

impl Served {
    /// Opens the counters that a request names, and closes the others.
    pub fn open(&self, asked: &str) -> String {
        let Ok(request) = serde_json::from_str::<CounterRequest>(asked) else {
            return String::new();
        };
        self.0.borrow_mut().clear();
        let opened = counters::open(&request, Side::Host);
        let sources = opened.meters.iter().map(|meter| meter.counters().clone());
        let offer = Offer {
            sources: sources.collect(),
            refused: opened.refused,
            is_automatic: opened.is_automatic,
        };
        *self.0.borrow_mut() = opened.meters;
        serde_json::to_string(&offer).unwrap_or_default()
    }

    /// Starts the counters of the source with this index.
    pub fn start(&self, index: &str) -> String {
        self.with(index, |source| source.start())
    }

    /// Stops them; returns the readings.
    pub fn stop(&self, index: &str) -> String {
        self.with(index, |source| source.stop())
    }

    fn with<T: Serialize>(
        &self,
        index: &str,
        act: impl FnOnce(&mut dyn CounterSource) -> Result<T, CounterError>,
    ) -> String {
        let mut sources = self.0.borrow_mut();
        let source = index
            .parse()
            .ok()
            .and_then(|index: usize| sources.get_mut(index));
        let none = || CounterError::new("counters", "no such source was opened", "open it first");
        let result = source
            .ok_or_else(none)
            .and_then(|source| act(source.as_mut()));
        serde_json::to_string(&result).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_an_error_of_the_source() {
        let served = Served::default();
        for index in ["0", "-1", "many", ""] {
            let said: Result<(), CounterError> =
                serde_json::from_str(&served.start(index)).unwrap();
            assert_eq!(said.unwrap_err().reason, "no such source was opened");
        }
        assert_eq!(served.open("nonsense"), "");
    }
}
