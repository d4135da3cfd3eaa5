//! The value of `--counters`: `auto`, `none`, or a list of sources and events.
//!
//! An item is `source`, which means its default events, or `source:event`. An item with a double colon is a native
//! event of PAPI (`perf::PAGE-FAULTS`), as TVM's users wrote them.

use std::fmt;
use std::str::FromStr;

use opreport::nearest::{closest, did_you_mean};
use serde::{Deserialize, Serialize};

use super::{CounterError, SOURCES, Side, SourceKind, source};

/// Name of the source for PAPI's native events.
const PAPI: &str = "papi";

/// The requested counters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CounterRequest {
    /// No counters are requested.
    #[default]
    None,
    /// The counters available here, from the sources that cost almost nothing.
    Auto,
    /// The listed counters are requested.
    Listed(Vec<CounterItem>),
}

/// One item of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct CounterItem {
    /// The source.
    source: String,
    /// An event of the source; `None` requests its default events.
    event: Option<String>,
}

/// The requested events of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// The source's default events, as far as they count here.
    Usual,
    /// The listed events.
    Listed(Vec<String>),
}

impl CounterRequest {
    /// Reads the values of `--counters`.
    ///
    /// # Errors
    /// Fails with the first value that is invalid, and says why.
    pub fn parse<S: AsRef<str>>(texts: &[S]) -> Result<CounterRequest, CounterError> {
        let alone = |text: &str| {
            CounterError::new(
                format!("`{text}`"),
                "cannot be combined with others",
                "give auto, none, or a list of sources and events",
            )
        };
        let mut items = Vec::new();
        for text in texts.iter().map(|text| text.as_ref().trim()) {
            match text {
                "auto" | "none" if texts.len() > 1 => return Err(alone(text)),
                "auto" => return Ok(CounterRequest::Auto),
                "none" => return Ok(CounterRequest::None),
                item => {
                    let item: CounterItem = item.parse()?;
                    if !items.contains(&item) {
                        items.push(item);
                    }
                }
            }
        }
        Ok(match items.is_empty() {
            true => CounterRequest::None,
            false => CounterRequest::Listed(items),
        })
    }

    /// Whether there is nothing to count.
    pub fn is_none(&self) -> bool {
        *self == CounterRequest::None
    }

    /// Checks that all events that are named count here.
    ///
    /// # Errors
    /// Fails with the first one that does not count here, and says what to do.
    pub fn check(&self) -> Result<(), CounterError> {
        let CounterRequest::Listed(items) = self else {
            return Ok(());
        };
        for item in items {
            let Some(kind) = source(&item.source) else {
                continue;
            };
            match &item.event {
                Some(event) => kind.check(event)?,
                None => {
                    kind.survey().state?;
                }
            }
        }
        Ok(())
    }

    /// Checks that all sources that are named count calls on one side.
    ///
    /// # Errors
    /// Fails with the first one that does not count there, and names those that do.
    pub fn check_side(&self, side: Side) -> Result<(), CounterError> {
        let mut kinds = self.sources().into_iter().map(|(kind, _)| kind);
        // `auto` names no source: it requests those that count here.
        let wrong = kinds.find(|kind| kind.side() != side && *self != CounterRequest::Auto);
        let Some(other) = wrong else {
            return Ok(());
        };
        let where_it_counts = match other.side() {
            Side::Host => "it counts work of threads of this machine",
            Side::Device => "it counts work of a GPU",
        };
        let fit = SOURCES.iter().filter(|kind| kind.side() == side);
        let fit: Vec<&str> = fit.map(|kind| kind.name()).collect();
        Err(CounterError::new(
            other.name(),
            format!("{where_it_counts}, and this target runs elsewhere"),
            format!("for this target there are {}", fit.join(", ")),
        ))
    }

    /// The kinds that are asked, each with its events, in the order of [`SOURCES`].
    pub fn sources(&self) -> Vec<(&'static dyn SourceKind, Selection)> {
        let kinds = SOURCES.iter().copied();
        match self {
            CounterRequest::None => Vec::new(),
            CounterRequest::Auto => kinds
                .filter(|kind| kind.is_automatic())
                .map(|kind| (kind, Selection::Usual))
                .collect(),
            CounterRequest::Listed(items) => kinds
                .filter_map(|kind| Some((kind, selection(items, kind.name())?)))
                .collect(),
        }
    }
}

/// The events that a list requests of a source. `None` if it does not name the source. The name alone requests all its
/// default events.
fn selection(items: &[CounterItem], source: &str) -> Option<Selection> {
    let mut events = Vec::new();
    let mut named = false;
    for item in items.iter().filter(|item| item.source == source) {
        match &item.event {
            None => return Some(Selection::Usual),
            Some(event) => events.push(event.clone()),
        }
        named = true;
    }
    named.then_some(Selection::Listed(events))
}

impl FromStr for CounterItem {
    type Err = CounterError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, event) = match text.split_once(':') {
            Some((_, rest)) if rest.starts_with(':') => (PAPI, Some(text)),
            Some((name, event)) => (name, Some(event)),
            None => (text, None),
        };
        let names = || SOURCES.iter().map(|kind| kind.name());
        let kind = source(name).ok_or_else(|| {
            let near = did_you_mean(closest(name, names()).as_slice());
            let known: Vec<&str> = names().collect();
            CounterError::new(
                format!("`{text}`"),
                format!("there is no source of counters `{name}`{near}"),
                format!(
                    "sources are {}; `opcollect list counters` has their events",
                    known.join(", ")
                ),
            )
        })?;
        if event.is_some_and(str::is_empty) {
            return Err(CounterError::new(
                format!("`{text}`"),
                "there is no event after the colon",
                format!("give {name} alone for its usual events"),
            ));
        }
        Ok(CounterItem {
            source: kind.name().to_owned(),
            event: event.map(str::to_owned),
        })
    }
}

impl fmt::Display for CounterItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.event {
            Some(event) => write!(f, "{}:{event}", self.source),
            None => f.write_str(&self.source),
        }
    }
}

impl From<CounterItem> for String {
    fn from(item: CounterItem) -> String {
        item.to_string()
    }
}

impl TryFrom<String> for CounterItem {
    type Error = CounterError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(texts: &[&str]) -> Result<CounterRequest, String> {
        CounterRequest::parse(texts).map_err(|error| error.to_string())
    }

    #[test]
    fn words_and_lists_are_read() {
        assert_eq!(parsed(&["auto"]), Ok(CounterRequest::Auto));
        assert_eq!(parsed(&["none"]), Ok(CounterRequest::None));
        assert_eq!(parsed(&[]), Ok(CounterRequest::None));
        let listed = parsed(&["perf:page-faults", "perf:cycles", "perf:cycles"]).unwrap();
        let [(kind, events)] = &listed.sources()[..] else {
            panic!("{listed:?}")
        };
        assert_eq!(kind.name(), "perf");
        let wanted = ["page-faults", "cycles"].map(str::to_owned);
        assert_eq!(*events, Selection::Listed(wanted.to_vec()));
        let json = serde_json::to_string(&listed).unwrap();
        assert_eq!(
            serde_json::from_str::<CounterRequest>(&json).unwrap(),
            listed
        );
        // The source alone includes its events.
        let all = parsed(&["perf:cycles", "perf"]).unwrap();
        assert_eq!(all.sources()[0].1, Selection::Usual);
    }

    #[test]
    fn what_is_no_request_is_refused_with_what_to_do() {
        for (texts, error) in [
            (
                &["auto", "perf"][..],
                "`auto`: cannot be combined with others; give auto, none, or a list of sources and events",
            ),
            (
                &["perf:"],
                "`perf:`: there is no event after the colon; give perf alone for its usual events",
            ),
        ] {
            assert_eq!(parsed(texts).unwrap_err(), error);
        }
        let error = parsed(&["perv:cycles"]).unwrap_err();
        assert!(error.contains("did you mean perf?"), "{error}");
        assert!(parsed(&[""]).is_err());
    }
}
