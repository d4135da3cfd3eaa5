//! Readers of single values with units: counts, shares, durations and sizes. An error is the problem as a clause, to
//! which the caller adds the setting and its origin.

use opdata::Shard;

/// A whole number within bounds.
pub(crate) fn count(text: &str, low: u64, high: u64) -> Result<u64, String> {
    let number: u64 = text
        .trim()
        .parse()
        .map_err(|_| format!("not a whole number from {low} up"))?;
    if number < low {
        Err(format!("must be at least {low}"))
    } else if number > high {
        Err(format!("must be at most {high}"))
    } else {
        Ok(number)
    }
}

/// A share: `0.03` or `3%`, within 0 to 1.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let (digits, scale) = match text.strip_suffix('%') {
        Some(digits) => (digits.trim(), 0.01),
        None => (text, 1.0),
    };
    let number: f64 = digits
        .parse()
        .map_err(|_| "not a share such as 0.03 or 3%".to_owned())?;
    let share = number * scale;
    if (0.0..=1.0).contains(&share) {
        Ok(share)
    } else {
        Err("a share lies between 0 and 1 (or 0% and 100%)".to_owned())
    }
}

/// A multiple: `0`, `0.5` or `3`, up to 100.
pub(crate) fn times(text: &str) -> Result<f64, String> {
    let times: f64 = text
        .trim()
        .parse()
        .map_err(|_| "not a number of times such as 0.5 or 3".to_owned())?;
    if (0.0..=100.0).contains(&times) {
        Ok(times)
    } else {
        Err("must be between 0 and 100".to_owned())
    }
}

/// A duration in nanoseconds: a number with `ns`, `us`, `ms`, `s`, `m` or `h`; seconds without.
pub(crate) fn duration_ns(text: &str) -> Result<u64, String> {
    const UNITS: &[(&str, f64)] = &[
        ("ns", 1.0),
        ("us", 1e3),
        ("µs", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
        ("m", 60e9),
        ("h", 3600e9),
        ("", 1e9),
    ];
    let ns = quantity(text, UNITS, "a duration such as 500ms, 2s or 1m")?;
    if ns < 1.0 {
        Err("must be more than nothing".to_owned())
    } else if ns > 7.0 * 24.0 * 3600e9 {
        Err("must be at most a week (168h)".to_owned())
    } else {
        Ok(ns.round() as u64)
    }
}

/// A size in MiB: a number with `MiB`, `GiB`, `MB` or `GB`; MiB without.
pub(crate) fn size_mib(text: &str) -> Result<u64, String> {
    const MIB: f64 = 1024.0 * 1024.0;
    const UNITS: &[(&str, f64)] = &[
        ("MiB", 1.0),
        ("GiB", 1024.0),
        ("TiB", 1024.0 * 1024.0),
        ("MB", 1e6 / MIB),
        ("GB", 1e9 / MIB),
        ("", 1.0),
    ];
    let mib = quantity(text, UNITS, "a size such as 4096 (MiB) or 4GiB")?;
    if mib < 256.0 {
        Err("must be at least 256 MiB, which the compiler itself needs".to_owned())
    } else if mib > 1024.0 * 1024.0 * 1024.0 {
        Err("is more than any machine has".to_owned())
    } else {
        Ok(mib.round() as u64)
    }
}

/// A larger number of threads is refused as a mistake.
const MAX_THREADS: u64 = 1024;

/// Thread counts: `4`, `max` (all `cores`), or a range of both, as in `1..max`.
pub(crate) fn thread_counts(text: &str, cores: u32) -> Result<Vec<u32>, String> {
    let one = |text: &str| match text.trim() {
        "max" => Ok(cores),
        "0" => Err("a kernel needs at least one thread".to_owned()),
        number => count(number, 1, MAX_THREADS).map(|n| n as u32),
    };
    match text.split_once("..") {
        None => Ok(vec![one(text)?]),
        Some((low, high)) => {
            let (low, high) = (one(low)?, one(high)?);
            if low > high {
                return Err(format!("the range from {low} to {high} is empty"));
            }
            Ok((low..=high).collect())
        }
    }
}

/// A shard: `2/4` is the second of four.
pub(crate) fn shard(text: &str) -> Result<Shard, String> {
    let (index, of) = text.split_once('/').ok_or("not a part such as 1/4")?;
    let of = count(of, 1, 1_000_000)?;
    let index = count(index, 1, of)?;
    Ok(Shard {
        index: index as u32,
        count: of as u32,
    })
}

fn quantity(text: &str, units: &[(&str, f64)], what: &str) -> Result<f64, String> {
    let text = text.trim();
    let split = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (digits, unit) = (text[..split].trim(), text[split..].trim());
    let wrong = || format!("not {what}");
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    let (_, scale) = units
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit))
        .ok_or_else(wrong)?;
    Ok(number * scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_units() {
        assert_eq!(duration_ns("500ms"), Ok(500_000_000));
        assert_eq!(duration_ns("1.5 s"), Ok(1_500_000_000));
        assert_eq!(duration_ns("2"), Ok(2_000_000_000));
        assert_eq!(duration_ns("1m"), Ok(60_000_000_000));
        assert_eq!(share("3%"), Ok(0.03));
        assert_eq!(share("0.5"), Ok(0.5));
        assert_eq!(times(" 2.5"), Ok(2.5));
        assert_eq!(size_mib("4GiB"), Ok(4096));
        assert_eq!(size_mib("512"), Ok(512));
        assert_eq!(count(" 7 ", 1, 10), Ok(7));
    }

    #[test]
    fn refuses_the_rest() {
        for bad in ["", "s", "-1s", "0s", "1y", "nan", "1e3s", "1000h"] {
            assert!(duration_ns(bad).is_err(), "{bad}");
        }
        for bad in ["", "x", "-1", "2", "101%", "NaN"] {
            assert!(share(bad).is_err(), "{bad}");
        }
        for bad in ["", "x", "-1", "101", "50%", "NaN"] {
            assert!(times(bad).is_err(), "{bad}");
        }
        for bad in ["", "1", "10KiB", "99999999TiB"] {
            assert!(size_mib(bad).is_err(), "{bad}");
        }
        assert!(count("0", 1, 10).is_err());
        assert!(count("11", 1, 10).is_err());
        assert!(count("1.5", 1, 10).is_err());
    }

    #[test]
    fn reads_thread_counts_and_shards() {
        assert_eq!(thread_counts("max", 8), Ok(vec![8]));
        assert_eq!(thread_counts("2..4", 8), Ok(vec![2, 3, 4]));
        assert_eq!(thread_counts("7..max", 8), Ok(vec![7, 8]));
        for bad in ["0", "4..2", "x", "1..", "..", "2000"] {
            assert!(thread_counts(bad, 8).is_err(), "{bad}");
        }
        assert_eq!(shard("2/4"), Ok(Shard { index: 2, count: 4 }));
        for bad in ["0/4", "5/4", "1", "1/0", "a/b", "1/2/3"] {
            assert!(shard(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in ".*") {
            let _ = (duration_ns(&text), share(&text), size_mib(&text), count(&text, 0, 9));
            let _ = (thread_counts(&text, 2), shard(&text));
        }
    }
}
