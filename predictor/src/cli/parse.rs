//! Values of the command line: numbers, shares, times, names of models.

use std::num::NonZeroUsize;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use oplearn::models::ModelKind;
use opmodels::Source;

/// Numbers in the order given, each once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Numbers(Vec<u64>);

impl std::ops::Deref for Numbers {
    type Target = Vec<u64>;

    fn deref(&self) -> &Vec<u64> {
        &self.0
    }
}

impl Numbers {
    /// Each number; one `None` if there are none.
    pub fn or_none(&self) -> Vec<Option<u64>> {
        match self.is_empty() {
            true => vec![None],
            false => self.iter().copied().map(Some).collect(),
        }
    }
}

/// A longer list is a mistake.
const MOST_NUMBERS: usize = 1024;

/// Reads `1,2,8`, `1..4` (1, 2, 3, 4) or a mixture.
pub fn numbers(text: &str) -> Result<Numbers, String> {
    let bad = || format!("`{text}`: give numbers above 0 such as 1,2,4 or a range such as 1..64");
    let mut found = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once("..").unwrap_or((part, part));
        let first: u64 = first.trim().parse().map_err(|_| bad())?;
        let last: u64 = last
            .trim_start_matches('=')
            .trim()
            .parse()
            .map_err(|_| bad())?;
        if first == 0 || last < first || last - first >= MOST_NUMBERS as u64 {
            return Err(bad());
        }
        for number in first..=last {
            if !found.contains(&number) {
                found.push(number);
            }
        }
    }
    if found.len() > MOST_NUMBERS {
        return Err(bad());
    }
    Ok(Numbers(found))
}

/// Reads numbers as [`numbers`] does, but refuses an empty list.
pub fn some_numbers(text: &str) -> Result<Numbers, String> {
    let found = numbers(text)?;
    if found.is_empty() {
        return Err("give numbers above 0 such as 1,2,4 or a range such as 1..64".to_owned());
    }
    Ok(found)
}

/// Parses a count.
pub fn whole(text: &str) -> Result<usize, String> {
    text.parse()
        .map_err(|_| "give a whole number such as 20".to_owned())
}

/// Reads a whole number above 0.
pub fn some(text: &str) -> Result<NonZeroUsize, String> {
    text.parse()
        .map_err(|_| "give a whole number above 0 such as 20".to_owned())
}

/// A share above 0, up to 1.
pub fn share(text: &str) -> Result<f64, String> {
    text.parse::<f64>()
        .ok()
        .filter(|share| *share > 0.0 && *share <= 1.0)
        .ok_or_else(|| "give a share above 0 and up to 1, e.g. 0.9".to_owned())
}

/// A weight from 0 to 1.
pub fn weight(text: &str) -> Result<f64, String> {
    let weight = text.parse::<f64>().ok();
    weight
        .filter(|weight| (0.0..=1.0).contains(weight))
        .ok_or_else(|| "give a number from 0 to 1, e.g. 0.5".to_owned())
}

/// The level of an interval: a share above 0 and below 1, as nothing is certain.
pub fn level(text: &str) -> Result<f64, String> {
    let level = share(text).ok().filter(|level| *level < 1.0);
    level.ok_or_else(|| "give a share above 0 and below 1, e.g. 0.9".to_owned())
}

/// Parses a time above 0, such as `90s`, `45m` or `2h 30m`.
pub fn budget(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text.trim()) {
        Ok(budget) if !budget.is_zero() => Ok(budget),
        Ok(_) => Err("no time at all: give one such as 90s, 45m or 2h".to_owned()),
        Err(error) => Err(format!(
            "{error}: give a time with its unit such as 90s, 45m or 2h"
        )),
    }
}

/// Names of models, each with a description.
pub fn model_kinds() -> impl TypedValueParser<Value = ModelKind> {
    let names = ModelKind::ALL.map(|kind| PossibleValue::new(kind.name()).help(kind.about()));
    PossibleValuesParser::new(names).try_map(|given| {
        let mut kinds = ModelKind::ALL.into_iter();
        kinds
            .find(|kind| kind.name() == given)
            .ok_or("no such name")
    })
}

/// A source of models.
pub fn model_source(text: &str) -> Result<Source, String> {
    let known = || opmodels::sources::names().join(", ");
    Source::find(text).map_err(|_| format!("there is no such source; sources are {}", known()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_none_are_refused_in_words() {
        assert_eq!(whole("0").unwrap(), 0);
        assert_eq!(some("7").unwrap().get(), 7);
        for wrong in ["", "-1", "1.5", "garbage"] {
            assert!(whole(wrong).unwrap_err().contains("whole number"));
        }
        assert!(some("0").unwrap_err().contains("above 0"));
        assert_eq!((share("1"), level("0.9")), (Ok(1.0), Ok(0.9)));
        assert!(level("1").is_err() && share("1.1").is_err() && share("nan").is_err());
    }

    #[test]
    fn lists_and_ranges_of_numbers_are_read() {
        assert_eq!(*numbers("1,2,8").unwrap(), [1, 2, 8]);
        assert_eq!(*numbers("1..4,3,6").unwrap(), [1, 2, 3, 4, 6]);
        assert_eq!(*numbers("").unwrap(), [0u64; 0]);
        assert!(some_numbers(",").is_err());
        for wrong in ["0", "4..1", "two", "1..1000000", "1..", "-1"] {
            assert!(numbers(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn budgets_have_units() {
        assert_eq!(budget("2h"), Ok(Duration::from_secs(7200)));
        assert_eq!(budget("1h 30m"), Ok(Duration::from_secs(5400)));
        for bad in ["", "2", "0s", "soon", "-1h", "2 hats"] {
            let error = budget(bad).unwrap_err();
            assert!(error.ends_with("such as 90s, 45m or 2h"), "{bad}: {error}");
        }
    }
}
