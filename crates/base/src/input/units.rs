//! Parsing and formatting quantities as people write them: `10s`, `2GiB`, `1%`.

use std::time::Duration;

/// Upper limit of durations, small enough that several of them together fit in nanoseconds.
const MAX_DURATION: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Parses a duration such as `500ms`, `10s`, `1h 30m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    const FORM: &str = "write it like \"500ms\", \"10s\" or \"2h\"";
    match humantime::parse_duration(text) {
        Ok(duration) if duration > MAX_DURATION => {
            Err(format!("duration above 100 years: {text:?}, {FORM}"))
        }
        Ok(duration) => Ok(duration),
        Err(_) => Err(format!("not a duration: {text:?}, {FORM}")),
    }
}

/// Parses a size such as `512MiB` or `2GiB`, in bytes.
pub fn bytes(text: &str) -> Result<u64, String> {
    const FORM: &str = "write it like \"512MiB\" or \"2GiB\"";
    match text.parse::<bytesize::ByteSize>() {
        // The parser returns the maximum for larger sizes.
        Ok(size) if size.as_u64() == u64::MAX => {
            Err(format!("size above 16 EiB: {text:?}, {FORM}"))
        }
        Ok(size) => Ok(size.as_u64()),
        Err(_) => Err(format!("not a size: {text:?}, {FORM}")),
    }
}

/// Parses a share such as `1%` or `0.01`; the result is a fraction.
pub fn share(text: &str) -> Result<f64, String> {
    let (number, scale) = match text.strip_suffix('%') {
        Some(percent) => (percent, 0.01),
        None => (text, 1.0),
    };
    match number.trim().parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value * scale),
        _ => Err(format!(
            "not a share: {text:?}, write it like \"1%\" or \"0.01\""
        )),
    }
}

/// Parses a duration, or a range with the shorter one first: `1s to 3s`.
pub fn durations(text: &str) -> Result<(Duration, Duration), String> {
    let (low, high) = text.split_once(" to ").unwrap_or((text, text));
    let (least, most) = (duration(low)?, duration(high)?);
    if least <= most {
        Ok((least, most))
    } else {
        Err(format!(
            "the shorter time comes first: {text:?}, write it like \"100ms to 300ms\""
        ))
    }
}

/// A range of durations, in the format that `durations` parses.
pub fn show_durations(least: Duration, most: Duration) -> String {
    if least == most {
        return show_duration(least);
    }
    format!("{} to {}", show_duration(least), show_duration(most))
}

/// A duration in the shortest exact form: `1m 30s`, `250ms`.
pub fn show_duration(time: Duration) -> String {
    humantime::format_duration(time).to_string()
}

/// A size with three significant digits: `806 MiB`.
pub fn show_bytes(size: u64) -> String {
    let mut value = size as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return format!("{} {unit}", significant(value, 3));
        }
        value /= 1024.0;
    }
    format!("{} TiB", significant(value, 3))
}

/// A size in powers of 1000, as drive vendors count, with at most three significant digits: `16.1 TB`, `1 GB`.
pub fn show_decimal_bytes(size: u64) -> String {
    let mut value = size as f64;
    let mut units = ["B", "kB", "MB", "GB", "TB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    for larger in units {
        if value < 1000.0 {
            break;
        }
        value /= 1000.0;
        unit = larger;
    }
    format!("{} {unit}", without_zeros(&significant(value, 3)))
}

/// A number without trailing zeros in its fraction.
fn without_zeros(number: &str) -> &str {
    match number.split_once('.') {
        Some(_) => number.trim_end_matches('0').trim_end_matches('.'),
        None => number,
    }
}

/// A whole number in groups of three digits: `8,845,147` with a comma as separator.
pub fn grouped(value: u64, separator: char) -> String {
    let digits = value.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(separator);
        }
        grouped.push(digit);
    }
    grouped
}

/// A number with `digits` significant digits and no exponent: `0.00123`, `12.3`, `1230`.
pub fn significant(value: f64, digits: u8) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let places = |value: f64| i32::from(digits) - 1 - value.abs().log10().floor() as i32;
    let scale = 10f64.powi(places(value));
    let rounded = (value * scale).round() / scale;
    // Rounding up may add a digit before the point: 99.95 becomes 100.
    format!("{rounded:.*}", places(rounded).max(0) as usize)
}

/// A share in percent with at most `digits` significant digits: `0.025` is `2.5 %`.
pub fn show_share(share: f64, digits: u8) -> String {
    let percent = significant(share * 100.0, digits);
    format!("{} %", without_zeros(&percent))
}

/// A ratio as a signed change: `1.018` is `+1.80 %`.
pub fn show_change(ratio: f64) -> String {
    format!("{:+.2} %", (ratio - 1.0) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_long_durations_are_refused() {
        assert_eq!(duration("1h 30m"), Ok(Duration::from_secs(5400)));
        assert!(duration("long").unwrap_err().starts_with("not a duration"));
        for text in ["18446744075s", "101y"] {
            let why = duration(text).unwrap_err();
            assert!(why.starts_with("duration above 100 years"), "{why}");
        }
    }

    #[test]
    fn shares_are_read_as_percent_or_fraction() {
        assert!((share("2.5%").unwrap() - 0.025).abs() < 1e-15);
        assert!((share("0.01").unwrap() - 0.01).abs() < 1e-15);
        assert!(share("one%").unwrap_err().contains("not a share"));
        assert!(share("inf").is_err());
    }

    #[test]
    fn numbers_keep_their_significant_digits() {
        assert_eq!(significant(0.001_234_5, 3), "0.00123");
        assert_eq!(significant(1234.5, 3), "1230");
        assert_eq!(significant(99.95, 3), "100");
        assert_eq!(significant(-2.0, 3), "-2.00");
    }

    #[test]
    fn sizes_and_changes_are_formatted() {
        assert_eq!(show_share(0.025, 3), "2.5 %");
        assert_eq!(show_share(0.1, 2), "10 %");
        assert_eq!(show_share(1.0, 3), "100 %");
        assert_eq!(show_share(0.0, 3), "0 %");
        assert_eq!(show_bytes(806 << 20), "806 MiB");
        assert_eq!(show_bytes(512), "512 B");
        assert_eq!(show_decimal_bytes(16_000_000_000_000), "16 TB");
        assert_eq!(show_decimal_bytes(16_052_869_325_619), "16.1 TB");
        assert_eq!(show_decimal_bytes(1_000_000_000), "1 GB");
        assert_eq!(show_decimal_bytes(999), "999 B");
        assert_eq!(show_decimal_bytes(0), "0 B");
        assert_eq!(show_change(0.982), "-1.80 %");
    }

    #[test]
    fn sizes_and_durations_are_parsed_with_their_unit() {
        assert_eq!(bytes("2GiB"), Ok(2 << 30));
        assert!(bytes("lots").is_err());
        for text in [
            "99999999999999999999GiB",
            "16EiB",
            "18446744073709551616",
            "1e30",
        ] {
            assert!(bytes(text).is_err(), "{text}");
        }
        assert_eq!(
            bytes("99999999999999999999GiB").unwrap_err(),
            "size above 16 EiB: \"99999999999999999999GiB\", write it like \"512MiB\" or \"2GiB\""
        );
        assert_eq!(bytes("15EiB"), Ok(15 << 60));
        assert_eq!(duration("1h 30m"), Ok(Duration::from_secs(5400)));
        assert!(duration("10").is_err());
        let (low, high) = (Duration::from_millis(100), Duration::from_secs(1));
        assert_eq!(durations("100ms to 1s"), Ok((low, high)));
        assert_eq!(durations("1s"), Ok((high, high)));
        assert_eq!(show_durations(low, high), "100ms to 1s");
        assert_eq!(show_durations(high, high), "1s");
        assert!(durations("1s to 100ms").is_err_and(|why| why.starts_with("the shorter time")));
        assert!(durations("1s to soon").is_err());
    }
}
