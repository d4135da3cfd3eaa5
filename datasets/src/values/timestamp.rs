//! A UTC time to the millisecond, written as RFC 3339: `2026-01-31T12:00:00.000Z`.
//!
//! Written at one fixed width, so that text order is time order (years 0 to 9999).

use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::schema::{ColumnType, excerpt, text_field};

/// Milliseconds in a day.
const DAY_MS: i64 = 86_400_000;
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

    /// From milliseconds since 1970; times outside the years 0 to 9999 become the nearest inside.
    pub fn from_unix_ms(unix_ms: i64) -> Self {
        Self(unix_ms.clamp(FIRST_MS, LAST_MS))
    }

    /// Milliseconds since 1970.
    pub fn unix_ms(self) -> i64 {
        self.0
    }

    /// The form for file names, to the second: `20260131T120000Z`.
    pub fn compact(self) -> String {
        let (year, month, day) = civil_from_days(self.0.div_euclid(DAY_MS));
        let (hour, minute, second, _) = clock(self.0.rem_euclid(DAY_MS));
        format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
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
        let (year, month, day) = civil_from_days(self.0.div_euclid(DAY_MS));
        let (hour, minute, second, ms) = clock(self.0.rem_euclid(DAY_MS));
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z"
        )
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
    let number = |range: std::ops::Range<usize>| text[range].parse::<i64>().ok();
    let date = (number(0..4)?, number(5..7)?, number(8..10)?);
    let time = (
        number(11..13)?,
        number(14..16)?,
        number(17..19)?,
        number(20..23)?,
    );
    let days = days_from_civil(date.0, date.1, date.2);
    let ms = ((time.0 * 60 + time.1) * 60 + time.2) * 1000 + time.3;
    // A 31st of February or a 25th hour lands on another date or time.
    let exists = civil_from_days(days) == date && ms < DAY_MS && clock(ms) == time;
    exists.then_some(Timestamp(days * DAY_MS + ms))
}

fn clock(ms: i64) -> (i64, i64, i64, i64) {
    (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000)
}

/// Days since 1970-01-01 of a proleptic Gregorian date. The year is counted from March, so that
/// the leap day is its last; 146,097 days make 400 years.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The inverse of [`days_from_civil`]: year, month, day.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = (shifted_month + 2) % 12 + 1;
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
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
