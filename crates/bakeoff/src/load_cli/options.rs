//! Parsers for options with a special syntax.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use base::input::units;
use load::ramp::{Level, Limit};

use crate::load_cli::args::rate;

/// Limit on source addresses: for each, it is checked that this host has it.
const MAX_SOURCES: usize = 65_536;

/// Shortest and longest latency of a limit. The longest one is the end of the histograms.
const MIN_LATENCY: Duration = Duration::from_micros(1);
pub(crate) const MAX_LATENCY: Duration = Duration::from_secs(3600);

/// Limit on the steps of a ramp: each step is a run.
const MAX_STEPS: usize = 1000;

/// Reads `28.8k,56k` as bits per second.
pub(crate) fn speeds(text: &str) -> Result<Vec<u32>, String> {
    text.split(',').map(|word| speed(word.trim())).collect()
}

fn speed(word: &str) -> Result<u32, String> {
    match rate(word).map(f64::round) {
        Ok(speed) if (100.0..=4e9).contains(&speed) => Ok(speed as u32),
        Ok(_) => Err(format!(
            "speed out of range: {word} (100 to 4000M bits per second)"
        )),
        Err(_) => Err(format!(
            "not a speed: {word:?} (write it like 28.8k, 56k or 1M)"
        )),
    }
}

/// Reads `127.0.0.1-127.0.0.16,127.1.0.0/24,::1` as addresses in order.
pub(crate) fn sources(text: &str) -> Result<Vec<IpAddr>, String> {
    let mut sources = Vec::new();
    for word in text.split(',') {
        let (first, last) = address_range(word.trim())?;
        let count = usize::try_from(last - first).unwrap_or(usize::MAX);
        if count >= MAX_SOURCES - sources.len() {
            return Err(format!(
                "too many source addresses: {word} (at most {MAX_SOURCES})"
            ));
        }
        let is_v4 = word.contains('.');
        let address = |number: u128| {
            if is_v4 {
                IpAddr::from(Ipv4Addr::from(number as u32))
            } else {
                IpAddr::from(number.to_be_bytes())
            }
        };
        sources.extend((first..=last).map(address));
    }
    Ok(sources)
}

/// First and last address of a word, as numbers.
fn address_range(word: &str) -> Result<(u128, u128), String> {
    let wrong = || {
        format!(
            "not a source address: {word:?} (write 127.0.0.1, 127.0.0.1-127.0.0.16 or 127.1.0.0/24)"
        )
    };
    let number = |text: &str| match text.parse::<IpAddr>() {
        Ok(IpAddr::V4(v4)) => Ok(u128::from(u32::from(v4))),
        Ok(IpAddr::V6(v6)) => Ok(u128::from(v6)),
        Err(_) => Err(wrong()),
    };
    if let Some((first, last)) = word.split_once('-') {
        let (low, high) = (number(first)?, number(last)?);
        let same_kind = first.contains('.') == last.contains('.');
        return if low <= high && same_kind {
            Ok((low, high))
        } else {
            Err(wrong())
        };
    }
    let Some((net, bits)) = word.split_once('/') else {
        return number(word).map(|number| (number, number));
    };
    let width = if net.contains('.') { 32 } else { 128 };
    let bits = bits
        .parse::<u32>()
        .ok()
        .filter(|bits| *bits <= width)
        .ok_or_else(wrong)?;
    let rest = 1u128
        .checked_shl(width - bits)
        .map_or(u128::MAX, |size| size - 1);
    let first = number(net)? & !rest;
    // The first and last address of a network are not host addresses, except in networks that have
    // no others.
    let edge = u128::from(rest > 1);
    Ok((first + edge, first + rest - edge))
}

/// Reads `rate=1000..8000/1000` or `connections=1..64/x2` as the levels of a ramp.
pub(crate) fn ramp(text: &str) -> Result<Vec<Level>, String> {
    let wrong =
        || format!("not a ramp: {text:?} (write rate=1000..8000/1000 or connections=1..64/x2)");
    let (what, range) = text.split_once('=').ok_or_else(wrong)?;
    let (from, rest) = range.split_once("..").ok_or_else(wrong)?;
    let (to, step) = rest.split_once('/').ok_or_else(wrong)?;
    let (step, factor) = match step.strip_prefix('x') {
        Some(factor) => ("0", factor),
        None => (step, "1"),
    };
    let number = |text: &str| rate(text).map_err(|_| wrong());
    let (from, to, step, factor) = (number(from)?, number(to)?, number(step)?, number(factor)?);
    let rises = (step > 0.0 || factor > 1.0) && step.is_finite() && factor.is_finite();
    let in_order = 0.0 < from && from <= to && to.is_finite();
    if !rises || !in_order {
        return Err(format!(
            "a ramp rises from above 0: {text} (write connections=1..64/x2)"
        ));
    }
    let level = match what {
        "rate" => Level::RatePerS,
        "connections" if from >= 1.0 => |count: f64| Level::Connections(count as u32),
        _ => return Err(wrong()),
    };
    // The tolerance keeps steps such as 0.1 from missing the end by a rounding error.
    let steps = std::iter::successors(Some(from), |value| Some(value * factor + step));
    let steps = steps.take_while(|value| *value <= to * (1.0 + 1e-9));
    let levels: Vec<Level> = steps.take(MAX_STEPS + 1).map(level).collect();
    if levels.len() > MAX_STEPS {
        return Err(format!(
            "too many steps in a ramp: {text} (at most {MAX_STEPS})"
        ));
    }
    Ok(levels)
}

/// Reads `p99<5ms`, `max<20ms` or `p99.9<20ms,faults<1%` as a limit. By default no faults are
/// allowed.
pub(crate) fn limit(text: &str) -> Result<Limit, String> {
    let wrong =
        || format!("not a limit: {text:?} (write p99<5ms, max<20ms, or p99.9<20ms,faults<1%)");
    let (latency, faults) = match text.split_once(',') {
        Some((latency, faults)) => (
            latency,
            faults.trim().strip_prefix("faults<").ok_or_else(wrong)?,
        ),
        None => (text, "0"),
    };
    let (quantile, time) = latency.trim().split_once('<').ok_or_else(wrong)?;
    let percent = match quantile.trim() {
        "max" => 100.0,
        quantile => {
            let percent = quantile.strip_prefix('p').ok_or_else(wrong)?;
            let percent: f64 = percent.trim().parse().map_err(|_| wrong())?;
            if !(0.0 < percent && percent < 100.0) {
                return Err(format!(
                    "quantile out of range: {quantile} (above p0 and below p100, or max)"
                ));
            }
            percent
        }
    };
    let latency = units::duration(time.trim()).map_err(|_| wrong())?;
    if !(MIN_LATENCY..=MAX_LATENCY).contains(&latency) {
        return Err(format!(
            "latency of a limit out of range: {} (write 1us to 1h: no response comes in less, and longer latencies are \
             not told apart)",
            time.trim()
        ));
    }
    let faults = units::share(faults).map_err(|_| wrong())?;
    if !(0.0..=1.0).contains(&faults) {
        return Err(format!("share of faults out of range: {text} (0% to 100%)"));
    }
    Ok(Limit {
        quantile: percent / 100.0,
        latency,
        faults,
    })
}

/// Reads `Name: value`.
pub(crate) fn field(text: &str) -> Result<(String, String), String> {
    let split = text
        .split_once(':')
        .filter(|(name, _)| !name.trim().is_empty());
    let (name, value) =
        split.ok_or_else(|| format!("not a header field: {text:?} (write \"Name: value\")"))?;
    Ok((name.trim().into(), value.trim().into()))
}

/// Reads a SHA-256 in hexadecimal.
pub(crate) fn sha256(text: &str) -> Result<[u8; 32], String> {
    let wrong = || format!("not a SHA-256: {text:?} (write it as 64 hexadecimal digits)");
    let digits = text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let mut hash = [0; 32];
    for (index, byte) in hash.iter_mut().enumerate().filter(|_| digits) {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).map_err(|_| wrong())?;
    }
    if digits { Ok(hash) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(text: &str) -> String {
        match sources(text) {
            Ok(list) => list
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(" "),
            Err(why) => why,
        }
    }

    #[test]
    fn sources_are_addresses_ranges_and_networks() {
        assert_eq!(addresses("10.0.0.1, ::1"), "10.0.0.1 ::1");
        assert_eq!(
            addresses("127.0.0.255-127.0.1.1"),
            "127.0.0.255 127.0.1.0 127.0.1.1"
        );
        assert_eq!(addresses("127.1.0.9/30"), "127.1.0.9 127.1.0.10");
        assert_eq!(addresses("127.1.0.0/31"), "127.1.0.0 127.1.0.1");
        assert_eq!(addresses("fe80::/127"), "fe80:: fe80::1");
    }

    #[test]
    fn invalid_sources_are_refused() {
        for wrong in [
            "",
            "localhost",
            "127.0.0.9-127.0.0.1",
            "127.0.0.0/33",
            "127.0.0.1-::1",
        ] {
            assert!(
                addresses(wrong).starts_with("not a source address"),
                "{wrong}"
            );
        }
        for wide in ["10.0.0.0/8", "::/0", "0.0.0.0/0", "::-0:0:0:1::"] {
            assert!(
                addresses(wide).starts_with("too many source addresses"),
                "{wide}"
            );
        }
    }

    #[test]
    fn a_ramp_adds_or_multiplies() {
        let rates = [1000.0, 1500.0, 2000.0].map(Level::RatePerS);
        assert_eq!(ramp("rate=1000..2000/500").unwrap(), rates);
        assert_eq!(ramp("rate=1k..2k/0.5k").unwrap(), rates);
        let connections = [1, 2, 4, 8].map(Level::Connections);
        assert_eq!(ramp("connections=1..8/x2").unwrap(), connections);
        assert_eq!(ramp("rate=0.1..0.3/0.1").unwrap().len(), 3);
    }

    #[test]
    fn a_ramp_without_an_end_is_refused() {
        for wrong in [
            "rate=1..9/0",
            "rate=1..9/x1",
            "rate=9..1/1",
            "rate=0..9/x2",
            "rate=1..inf/1",
        ] {
            assert!(
                ramp(wrong).unwrap_err().starts_with("a ramp rises"),
                "{wrong}"
            );
        }
        assert!(ramp("1..9/1").unwrap_err().starts_with("not a ramp"));
        assert!(
            ramp("threads=1..9/1")
                .unwrap_err()
                .starts_with("not a ramp")
        );
        assert!(
            ramp("rate=1..9999/1")
                .unwrap_err()
                .starts_with("too many steps")
        );
    }

    #[test]
    fn a_limit_has_a_quantile_a_time_and_faults() {
        let strict = limit("p99.9<5ms").unwrap();
        assert!((strict.quantile - 0.999).abs() < 1e-12);
        assert_eq!((strict.latency.as_millis(), strict.faults), (5, 0.0));
        assert!((limit("max<20ms").unwrap().quantile - 1.0).abs() < 1e-12);
        assert!((limit("p50 < 1s, faults<2.5%").unwrap().faults - 0.025).abs() < 1e-12);
        for wrong in ["99<5ms", "p99", "p99<5", "p99<5ms,errors<1%"] {
            assert!(
                limit(wrong).unwrap_err().starts_with("not a limit"),
                "{wrong}"
            );
        }
        for wrong in ["p99<0ms", "max<500ns", "p50<2h", "p99<0s,faults<1%"] {
            let why = limit(wrong).unwrap_err();
            assert!(why.starts_with("latency of a limit out of range"), "{why}");
        }
        assert!(
            limit("p100<5ms")
                .unwrap_err()
                .starts_with("quantile out of range")
        );
    }

    #[test]
    fn speeds_are_bits_per_second() {
        assert_eq!(
            speeds("28.8k, 56K,1M,300"),
            Ok(vec![28_800, 56_000, 1_000_000, 300])
        );
        assert!(speeds("fast").unwrap_err().starts_with("not a speed"));
        assert!(speeds("9").unwrap_err().starts_with("speed out of range"));
    }

    #[test]
    fn hashes_and_header_fields_are_parsed() {
        assert_eq!(sha256(&"0f".repeat(32)), Ok([15; 32]));
        assert!(sha256("0f").unwrap_err().starts_with("not a SHA-256"));
        assert!(
            sha256(&"+f".repeat(32))
                .unwrap_err()
                .starts_with("not a SHA-256")
        );
        assert_eq!(field("A: b:c"), Ok(("A".into(), "b:c".into())));
        assert!(field("A").unwrap_err().starts_with("not a header field"));
    }
}
