//! Numbers for people: times, sizes, rates and shares with four or three significant digits.

/// A time given in nanoseconds: `412.3 ns`, `1.234 ms`, `12.35 s`.
pub fn time(ns: f64) -> String {
    scaled(ns, 4, &[("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)])
}

/// A time in nanoseconds with three digits, for approximate values: `412 ns`, `1.23 ms`.
pub fn time_rounded(ns: f64) -> String {
    scaled(ns, 3, &[("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)])
}

/// A rate in units of 10⁹ a second, as plain digits for a column headed GFLOP/s or GB/s.
pub fn giga(per_second: f64) -> String {
    significant(per_second / 1e9, 3)
}

/// A count with an SI prefix: `1.81 G`, `231.2 M`, `640`.
pub fn count(value: f64) -> String {
    if value < 1000.0 {
        return format!("{value:.0}");
    }
    scaled(value, 4, &[("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12)])
}

/// A size: `640 B`, `1.5 KiB`, `44.6 MiB`.
pub fn bytes(value: f64) -> String {
    if value < 1024.0 {
        return format!("{value:.0} B");
    }
    const KIB: f64 = 1024.0;
    scaled(
        value,
        3,
        &[
            ("KiB", KIB),
            ("MiB", KIB * KIB),
            ("GiB", KIB * KIB * KIB),
            ("TiB", KIB * KIB * KIB * KIB),
        ],
    )
}

/// A share given as a fraction: `14.2 %`.
pub fn percent(fraction: f64) -> String {
    format!("{:.1} %", fraction * 100.0)
}

/// A wall-clock duration in nanoseconds for messages, not data: `48 s`, `3 min 20 s`.
pub fn wall(ns: u64) -> String {
    let seconds = (ns as f64 / 1e9).round() as u64;
    match seconds {
        0..10 => format!("{:.1} s", ns as f64 / 1e9),
        10..120 => format!("{seconds} s"),
        120..7200 => parts(seconds / 60, "min", seconds % 60, "s"),
        _ => parts(seconds / 3600, "h", seconds / 60 % 60, "min"),
    }
}

fn parts(large: u64, large_unit: &str, small: u64, small_unit: &str) -> String {
    match small {
        0 => format!("{large} {large_unit}"),
        _ => format!("{large} {large_unit} {small} {small_unit}"),
    }
}

/// `1 point`, `2 points`.
pub fn plural(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// The value in the largest unit in which it is at least 1. Rounding may carry into the next unit (999.96 µs), which is
/// handled.
fn scaled(value: f64, digits: usize, units: &[(&str, f64)]) -> String {
    let last = units.len() - 1;
    let mut index = units
        .iter()
        .rposition(|(_, scale)| value >= *scale)
        .unwrap_or(0);
    let mut text = significant(value / units[index].1, digits);
    if index < last
        && text
            .parse::<f64>()
            .is_ok_and(|t| t * units[index].1 >= units[index + 1].1)
    {
        index += 1;
        text = significant(value / units[index].1, digits);
    }
    format!("{text} {}", units[index].0)
}

/// `digits` significant digits without an exponent; at least the whole part.
fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    // The exponent after rounding, so that 0.99996 counts as 1.000 and not as 1.0000.
    let scientific = format!("{value:.*e}", digits - 1);
    let magnitude = scientific
        .rsplit_once('e')
        .and_then(|(_, exponent)| exponent.parse::<i32>().ok())
        .unwrap_or(0);
    let decimals = (digits as i32 - 1 - magnitude).clamp(0, digits as i32 + 2) as usize;
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (ns, text) in [
            (0.4, "0.4000 ns"),
            (412.34, "412.3 ns"),
            (999.96, "1.000 µs"),
            (1_234_500.0, "1.234 ms"),
            (12_345_678.0, "12.35 ms"),
            (999_999_999.0, "1.000 s"),
            (3.58e9, "3.580 s"),
            (1234.5e9, "1234 s"),
            (0.0, "0 ns"),
        ] {
            assert_eq!(time(ns), text);
        }
    }

    #[test]
    fn the_rest() {
        assert_eq!(time_rounded(1_234_500.0), "1.23 ms");
        assert_eq!(time_rounded(999_600.0), "1.00 ms");
        assert_eq!(giga(187.34e9), "187");
        assert_eq!(giga(0.1234e9), "0.123");
        assert_eq!(count(640.0), "640");
        assert_eq!(count(1_814_073_344.0), "1.814 G");
        assert_eq!(bytes(640.0), "640 B");
        assert_eq!(bytes(46_739_456.0), "44.6 MiB");
        assert_eq!(percent(0.1421), "14.2 %");
        assert_eq!(wall(48_200_000_000), "48 s");
        assert_eq!(wall(200_000_000_000), "3 min 20 s");
        assert_eq!(wall(120_000_000_000), "2 min");
        assert_eq!(wall(7_260_000_000_000), "2 h 1 min");
        assert_eq!(plural(1, "point"), "1 point");
    }
}
