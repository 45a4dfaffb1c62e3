//! Which way is better: what the user typed, what the file says, or a guess that is always told.

use record::metric::Direction;

/// Units of which more is better.
const MORE_UNITS: [&str; 8] = [
    "mips", "fps", "rps", "qps", "tps", "iops", "score", "points",
];

/// Units of which less is better.
const LESS_UNITS: [&str; 14] = [
    "s",
    "ms",
    "us",
    "µs",
    "ns",
    "sec",
    "secs",
    "second",
    "seconds",
    "milliseconds",
    "microseconds",
    "nanoseconds",
    "joules",
    "watts",
];

/// Words in names of which less is better; looked for first, because an `error rate` is one.
const LESS_WORDS: [&str; 19] = [
    "latency",
    "time",
    "duration",
    "elapsed",
    "cpu",
    "memory",
    "rss",
    "error",
    "errors",
    "failed",
    "failures",
    "fault",
    "faults",
    "misses",
    "allocs",
    "instructions",
    "cycles",
    "wait",
    "waiting",
];

/// Words in names of which more is better.
const MORE_WORDS: [&str; 13] = [
    "throughput",
    "rate",
    "rps",
    "qps",
    "tps",
    "iops",
    "ops",
    "bandwidth",
    "speed",
    "score",
    "fps",
    "requests",
    "served",
];

/// A direction and how it is known.
pub(crate) type Known = (Direction, String);

/// What the name and the unit of a metric say about it.
pub(crate) fn guess(metric: &str, unit: &str) -> Option<Known> {
    let because = |direction, what: &str| Some((direction, format!("guessed from the {what}")));
    match (by_unit(unit), by_name(metric)) {
        (Some(direction), _) => because(direction, &format!("unit {unit}")),
        (None, Some(direction)) => because(direction, "name"),
        (None, None) => None,
    }
}

fn by_unit(unit: &str) -> Option<Direction> {
    let unit = unit.to_lowercase();
    let per_work = ["/op", "/iteration", "/request", " per op", "/iter"];
    let per_time = ["/s", "/sec", "/min", "per second", "/second"];
    if per_work.iter().any(|end| unit.ends_with(end)) || LESS_UNITS.contains(&unit.as_str()) {
        Some(Direction::Lower)
    } else if per_time.iter().any(|end| unit.ends_with(end)) || MORE_UNITS.contains(&unit.as_str())
    {
        Some(Direction::Higher)
    } else {
        None
    }
}

fn by_name(metric: &str) -> Option<Direction> {
    let metric = metric.to_lowercase();
    let words: Vec<&str> = metric
        .split(|letter: char| !letter.is_alphanumeric())
        .collect();
    let is_quantile = |word: &&str| {
        word.strip_prefix('p')
            .is_some_and(|rest| rest.parse::<u32>().is_ok_and(|q| q > 9))
    };
    let has = |list: &[&str]| words.iter().any(|word| list.contains(word));
    if has(&LESS_WORDS) || words.iter().any(is_quantile) {
        Some(Direction::Lower)
    } else {
        has(&MORE_WORDS).then_some(Direction::Higher)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(metric: &str, unit: &str, want: Option<Direction>) {
        assert_eq!(
            guess(metric, unit).map(|(direction, _)| direction),
            want,
            "{metric} {unit}"
        );
    }

    #[test]
    fn units_tell_more_than_names() {
        check("time per request", "requests/s", Some(Direction::Higher));
        check("throughput", "ns/op", Some(Direction::Lower));
        check("anything", "MB/s", Some(Direction::Higher));
        check("anything", "µs", Some(Direction::Lower));
    }

    #[test]
    fn names_tell_where_units_do_not() {
        check("latency-p99", "", Some(Direction::Lower));
        check("p99", "", Some(Direction::Lower));
        check("error rate", "", Some(Direction::Lower));
        check("throughput", "", Some(Direction::Higher));
        check("value", "", None);
        check("p4 widgets", "", None);
    }
}
