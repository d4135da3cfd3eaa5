//! A UTC time to the millisecond, written as RFC 3339: `2026-01-31T12:00:00.000Z`.
//!
//! Written at one fixed width, so that text order is time order (years 0 to 9999).

use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::SignedDuration;
use jiff::civil::DateTime;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::cell::{ColumnType, excerpt, text_field};

/// 1970-01-01T00:00:00Z.
const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
/// 9999-12-31T23:59:59.999Z, the last time of the fixed-width form.
const LAST_MS: i64 = 253_402_300_799_999;
/// 0000-01-01T00:00:00.000Z, the first.
const FIRST_MS: i64 = -62_167_219_200_000;

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The present.
    pub fn now() -> Self {
        Self::from(SystemTime::now())
    }

    /// The time at these milliseconds since 1970. Times outside the years 0 to 9999 become the nearest inside.
    pub fn from_unix_ms(unix_ms: i64) -> Self {
        Self(unix_ms.clamp(FIRST_MS, LAST_MS))
    }

    /// Milliseconds since 1970.
    pub fn unix_ms(self) -> i64 {
        self.0
    }

    /// The form for file names, to the second: `20260131T120000Z`.
    pub fn compact(self) -> String {
        self.civil().strftime("%Y%m%dT%H%M%SZ").to_string()
    }

    /// The date and the time of day in UTC.
    fn civil(self) -> DateTime {
        EPOCH.saturating_add(SignedDuration::from_millis(self.0))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let ms = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_millis()).unwrap_or(LAST_MS),
            Err(before) => i64::try_from(before.duration().as_millis()).map_or(FIRST_MS, |ms| -ms),
        };
        Self::from_unix_ms(ms)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.civil().strftime("%Y-%m-%dT%H:%M:%S.%3fZ"))
    }
}

impl FromStr for Timestamp {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text).ok_or_else(|| {
            format!(
                "expected a UTC time like `2026-01-31T12:00:00.000Z`, found `{}`",
                excerpt(text)
            )
        })
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

text_field!(Timestamp, ColumnType::Timestamp);

fn parse(text: &str) -> Option<Timestamp> {
    const TEMPLATE: &[u8] = b"0000-00-00T00:00:00.000Z";
    let bytes = text.as_bytes();
    let fits = bytes.len() == TEMPLATE.len()
        && bytes
            .iter()
            .zip(TEMPLATE)
            .all(|(&byte, &pattern)| match pattern {
                b'0' => byte.is_ascii_digit(),
                other => byte == other,
            });
    if !fits {
        return None;
    }
    let number = |range: std::ops::Range<usize>| text[range].parse::<i16>().ok();
    let small = |start: usize| text[start..start + 2].parse::<i8>().ok();
    let date = jiff::civil::Date::new(number(0..4)?, small(5)?, small(8)?).ok()?;
    let nanoseconds = i32::from(number(20..23)?) * 1_000_000;
    let time = jiff::civil::Time::new(small(11)?, small(14)?, small(17)?, nanoseconds).ok()?;
    let since = date.to_datetime(time).duration_since(EPOCH);
    i64::try_from(since.as_millis()).ok().map(Timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_times() {
        assert_eq!(
            Timestamp::from_unix_ms(0).to_string(),
            "1970-01-01T00:00:00.000Z"
        );
        let leap = Timestamp::from_unix_ms(1_709_210_096_789);
        assert_eq!(leap.to_string(), "2024-02-29T12:34:56.789Z");
        assert_eq!(leap.compact(), "20240229T123456Z");
    }

    #[test]
    fn impossible_times_are_refused() {
        for text in [
            "2023-02-29T00:00:00.000Z",
            "2023-13-01T00:00:00.000Z",
            "2023-01-01T24:00:00.000Z",
            "2023-01-01T00:00:00Z",
            "2023-01-01 00:00:00.000Z",
        ] {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn times_read_back(ms in FIRST_MS..=LAST_MS) {
            let time = Timestamp::from_unix_ms(ms);
            prop_assert_eq!(time.to_string().parse(), Ok(time));
        }

        #[test]
        fn text_order_is_time_order(a in FIRST_MS..=LAST_MS, b in FIRST_MS..=LAST_MS) {
            let (a, b) = (Timestamp::from_unix_ms(a), Timestamp::from_unix_ms(b));
            prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
        }
    }
}
