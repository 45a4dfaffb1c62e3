//! Formats times, counts and rates for people.

use base::input::units::{grouped, significant};

/// A time with three significant digits: `64.3 µs`, `1.25 ms`.
pub(crate) fn show_ns(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    format!("{} {unit}", significant(value, 3))
}

/// A count with thousands separators.
pub(crate) fn show_count(count: u64) -> String {
    grouped(count, ',')
}

/// A rate: an integer from a hundred on, else with three significant digits.
pub(crate) fn show_rate(per_s: f64) -> String {
    if per_s >= 100.0 {
        show_count(per_s.round() as u64)
    } else {
        significant(per_s, 3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_counts_read_well() {
        let times = [0, 999, 1_000, 64_321, 999_999, 1_250_000, 30_000_000_000].map(show_ns);
        assert_eq!(
            times.join(", "),
            "0 ns, 999 ns, 1.00 µs, 64.3 µs, 1000 µs, 1.25 ms, 30.0 s"
        );
        let counts = [0, 999, 1_000, 1_234_567].map(show_count);
        assert_eq!(counts.join(" "), "0 999 1,000 1,234,567");
    }
}
