//! Sentences and numbers that all forms of the report share.

use base::input::units::{grouped, show_change, significant};
use plan::kernel::KernelRef;
use plan::{EvidenceSource, Mode};
use record::instructions::VIRTUAL;
use record::journal::{Entry, Event};
use record::load::Fault;
use record::metric::{Direction, MetricSpec, Role};
use record::rundir::Run;
use record::trial::{Outcome, Trial};
use record::verdict::Comparison;

use crate::topics::interim::tell::interim_analysis;
use crate::words::levels::{Levels, in_words};

pub mod levels;

/// Placeholder for a missing value.
pub(crate) const NONE: &str = "-";

/// The comparisons of primary metrics.
pub(crate) fn primaries<'j>(
    comparisons: impl Iterator<Item = &'j Comparison>,
) -> impl Iterator<Item = &'j Comparison> {
    comparisons.filter(|comparison| comparison.spec.role == Role::Primary)
}

/// A unit for people, with `µs`; records have ASCII.
pub(crate) fn unit(recorded: &str) -> String {
    if let Some(virtual_time) = recorded.strip_prefix(VIRTUAL) {
        return format!("virtual {}", unit(virtual_time));
    }
    match recorded.strip_prefix("us") {
        Some(per) if per.is_empty() || per.starts_with('/') => format!("µs{per}"),
        _ => recorded.into(),
    }
}

/// `[+7.07 %, +7.53 %]`; with too few blocks the lowest and the highest one, `(+6.90 %, +7.60 %)`; or `NONE`.
pub(crate) fn interval(comparison: &Comparison) -> String {
    if comparison.low.is_some() && comparison.high.is_some() {
        return interval_of(comparison.low, comparison.high);
    }
    let difference = comparison.difference.as_ref();
    if let Some((low, high)) = difference.and_then(|shift| shift.low.zip(shift.high)) {
        return format!("[{}, {}]", signed(low), signed(high));
    }
    match comparison.range {
        Some((low, high)) if comparison.blocks > 1 => {
            format!("({}, {})", large_change(low), large_change(high))
        }
        _ => NONE.into(),
    }
}

/// The interval with its level: `[+7.07 %, +7.53 %] (95 % interval)`; or `NONE`. The range of single blocks has no level.
pub(crate) fn interval_in_words(comparison: &Comparison) -> String {
    let interval = interval(comparison);
    if comparison.has_interval() {
        in_words(&interval, comparison.confidence)
    } else {
        interval
    }
}

/// The confidence levels of some comparisons' intervals.
pub(crate) fn levels<'c>(comparisons: impl IntoIterator<Item = &'c Comparison>) -> Levels {
    Levels::of(comparisons.into_iter().map(|row| row.confidence))
}

/// An interval of ratios as one of changes, or `NONE`.
pub(crate) fn interval_of(low: Option<f64>, high: Option<f64>) -> String {
    match (low, high) {
        (Some(low), Some(high)) => format!("[{}, {}]", large_change(low), large_change(high)),
        (_, _) => NONE.into(),
    }
}

/// Explanations of the intervals of a table, and of round brackets if a row has them.
pub(crate) fn interval_notes(comparisons: &[&Comparison]) -> Vec<String> {
    let mut notes = Vec::new();
    let mut rows = comparisons.iter();
    if rows.any(|comparison| comparison.has_interval()) {
        let levels = levels(comparisons.iter().copied());
        let mut rows = comparisons.iter();
        let others = if rows.any(|row| levels.other(row.confidence).is_some()) {
            "; a row of another level names it"
        } else {
            ""
        };
        notes.push(format!(
            "(confidence intervals, valid at every interim analysis{others})"
        ));
    }
    let mut rows = comparisons.iter();
    if rows.any(|row| !row.has_interval() && interval(row) != NONE) {
        notes.push(
            "(in round brackets: the lowest and the highest block, where there are too few blocks for a \
             confidence interval)"
                .into(),
        );
    }
    notes
}

/// A metric's name with an arrow to the better side: `latency-p99 ↓`.
pub(crate) fn directed(spec: &MetricSpec) -> String {
    arrowed(&spec.name, spec.direction)
}

/// A name with an arrow to the better side.
pub(crate) fn arrowed(name: &str, direction: Direction) -> String {
    let arrow = match direction {
        Direction::Higher => '↑',
        Direction::Lower => '↓',
    };
    format!("{name} {arrow}")
}

/// A change, without decimals if it is more than a doubling; a multiple from ten on.
pub(crate) fn large_change(ratio: f64) -> String {
    match ratio {
        10.0.. => times(ratio),
        2.0.. => format!("+{:.0} %", (ratio - 1.0) * 100.0),
        _ => show_change(ratio),
    }
}

/// A ratio from which on a change is a multiple: `4.9x`.
const MULTIPLE: f64 = 2.0;

/// Whether a change is written as a multiple.
pub(crate) fn is_multiple(ratio: f64) -> bool {
    ratio >= MULTIPLE
}

/// `4.9x`.
pub(crate) fn times(ratio: f64) -> String {
    format!("{}x", significant(ratio, 2))
}

/// A change in percent with at most three significant digits and its sign: `+14.4`, `-3.48`, `+0.02`.
pub(crate) fn signed_percent(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    format!("{percent:+.*}", percent_decimals(percent))
}

/// Decimals of a percentage with three significant digits, but no more than hundredths.
pub(crate) fn percent_decimals(percent: f64) -> usize {
    match percent.abs() {
        99.95.. => 0,
        9.995.. => 1,
        _ => 2,
    }
}

/// A metric in words: `p99 latency`, `server-cpu`.
pub(crate) fn metric_name(name: &str) -> String {
    record::metric::latency(name).unwrap_or_else(|| name.into())
}

/// The ratio as a change; without a ratio the difference in the metric's unit; or `NONE`.
pub(crate) fn change_of(comparison: &Comparison) -> String {
    match (comparison.ratio, comparison.difference) {
        (Some(ratio), _) => large_change(ratio),
        (None, Some(shift)) => format!("{} {}", signed(shift.typical), unit(&comparison.spec.unit)),
        (None, None) if is_zero(comparison) => "both 0".into(),
        (None, None) => NONE.into(),
    }
}

fn is_zero(comparison: &Comparison) -> bool {
    let mut pairs = comparison.pairs.iter();
    !comparison.pairs.is_empty() && pairs.all(|pair| pair.baseline == 0.0 && pair.arm == 0.0)
}

/// A number with three significant digits and its sign: `+0.00123`.
fn signed(value: f64) -> String {
    let sign = if value > 0.0 { "+" } else { "" };
    format!("{sign}{}", significant(value, 3))
}

/// The ratio as a change, or `NONE`.
pub(crate) fn change(ratio: Option<f64>) -> String {
    ratio.map_or(NONE.into(), large_change)
}

/// A share that may be very small, as a percentage: `2.1 %`, `0.043 %`.
pub(crate) fn small_percent(share: f64) -> String {
    match share * 100.0 {
        tiny if tiny < 0.001 => "below 0.001 %".into(),
        percent => format!("{} %", significant(percent, 2)),
    }
}

/// `1 block`, `4 blocks`.
pub(crate) fn blocks(count: u32) -> String {
    counted(count, "block")
}

/// `1 attempt`, `4 attempts`.
pub(crate) fn counted(count: u32, noun: &str) -> String {
    format!("{count} {}", plural(noun, count == 1))
}

/// A noun in singular or plural.
pub(crate) fn plural(noun: &str, is_one: bool) -> String {
    match noun.strip_suffix("sis") {
        _ if is_one => noun.into(),
        Some(stem) => format!("{stem}ses"),
        None => format!("{noun}s"),
    }
}

/// A whole number in groups of three: `8 845 147`.
pub(crate) fn count(value: u64) -> String {
    grouped(value, '\u{a0}')
}

/// A figure with five significant digits, but at least with whole units: `2 285.3`. Small whole numbers have no decimals.
pub(crate) fn figure(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1000.0 {
        return format!("{value:.0}");
    }
    if value.abs() < 1000.0 || value.abs() > 1e18 || value.is_nan() {
        return significant(value, 5);
    }
    let text = match value.abs() {
        small if small < 9_999.5 => format!("{:.1}", value.abs()),
        large => format!("{large:.0}"),
    };
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let sign = if value < 0.0 { "-" } else { "" };
    let whole = whole.parse().expect("digits of a number below 10^18");
    format!("{sign}{}{rest}", count(whole))
}

/// A share as a percentage: `39.4 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A fault in words.
pub fn fault(fault: Fault) -> &'static str {
    match fault {
        Fault::ConnectFailed => "connection failed",
        Fault::Reset => "connection reset",
        Fault::EarlyClose => "closed early by the server",
        Fault::WriteFailed => "request not written",
        Fault::ConnectTimeout => "time-out connecting",
        Fault::FirstByteTimeout => "time-out before the first byte",
        Fault::WholeTimeout => "time-out before the end",
        Fault::BadStatus => "wrong status",
        Fault::BadLength => "wrong length",
        Fault::BadContent => "wrong content",
        Fault::Malformed => "not HTTP",
        Fault::ClientNoPort => "client out of ports",
        Fault::ClientNoDescriptor => "client out of descriptors",
        Fault::ClientNoMemory => "client out of memory",
        Fault::ClientLate => "client too late",
    }
}

/// An attempt without a figure.
pub(crate) struct Failed<'r> {
    pub(crate) trial: &'r Trial,
    pub(crate) attempt: u32,
    pub(crate) kind: &'static str,
    pub(crate) detail: &'r str,
    pub(crate) console: &'r [String],
}

impl Failed<'_> {
    /// The attempt in a line.
    pub(crate) fn line(&self) -> String {
        let Self {
            trial,
            attempt,
            kind,
            detail,
            ..
        } = self;
        format!("{trial}, attempt {attempt}: {kind}: {detail}")
    }
}

/// All attempts without a figure, in the order of their ends.
pub(crate) fn failed(run: &Run) -> Vec<Failed<'_>> {
    let mut failed = Vec::new();
    for record in &run.attempts {
        let (kind, detail, console) = match &record.outcome {
            Outcome::Measured(_) => continue,
            Outcome::Void(void) => (void.reason.words(), &void.detail, void.console.as_slice()),
            Outcome::Skipped(why) => ("skipped", why, [].as_slice()),
        };
        failed.push(Failed {
            trial: &record.trial,
            attempt: record.attempt,
            kind,
            detail,
            console,
        });
    }
    failed
}

/// The results of all interim analyses, a line each.
pub(crate) fn interim_analyses(run: &Run) -> Vec<String> {
    let line = |entry: &Entry| match &entry.event {
        Event::InterimAnalysis {
            blocks: count,
            results,
            ..
        } => {
            let results: Vec<String> = results.iter().map(interim_analysis).collect();
            Some(format!("{}: {}", blocks(*count), results.join("; ")))
        }
        _ => None,
    };
    run.entries.iter().filter_map(line).collect()
}

/// The question that the plan's mode asks.
pub(crate) fn mode(run: &Run) -> &'static str {
    match run.plan.mode {
        Some(Mode::Controlled) => "controlled: what can be set alike is, asks about the code",
        Some(Mode::AsShipped) => "as shipped: defaults differ, asks about the product",
        None => {
            "not declared: defaults differ as the kernels bring them (mode of the plan says whether code or products are asked about)"
        }
    }
}

/// The meaning of time in this run.
pub(crate) fn clock(run: &Run) -> String {
    match run.opening.ns_per_instruction {
        Some(ns) => format!(
            "Executed instructions: the guest's clock advances by {ns} ns with each. Figures \
             compare the length of the path that the code takes for the same work, and repeat from \
             boot to boot. Caches, memory and devices cost nothing in them, so a second is not a \
             second of a real machine, and only ratios between arms are meant to be read."
        ),
        None => "Wall: the host's time. Figures include everything that the host did meanwhile, \
                 which is why arms take turns at random."
            .into(),
    }
}

/// The plan without SNMP communities, because users pass the page on.
pub(crate) fn plan_text(run: &Run) -> String {
    let communities = run.plan.arms.iter().filter_map(|arm| match &arm.kernel {
        KernelRef::Remote(target) => match target.evidence.as_ref()? {
            EvidenceSource::Snmp { community, .. } => Some(community),
            EvidenceSource::Exporter(_) => None,
        },
        _ => None,
    });
    let mut text = run.plan_text.clone();
    for community in communities {
        for quote in ['"', '\''] {
            text = text.replace(&format!("{quote}{community}{quote}"), "\"(not shown)\"");
        }
    }
    text
}

/// A margin in percent with all its digits, but at least two: `1.0`, `13.3`.
pub(crate) fn margin(margin: f64) -> String {
    let percent = margin * 100.0;
    (2..=6)
        .map(|digits| significant(percent, digits))
        .find(|text| {
            let shown: f64 = text.parse().unwrap_or(f64::NAN);
            (shown - percent).abs() <= 1e-9 * percent
        })
        .unwrap_or_else(|| significant(percent, 6))
}

/// Instructions for reading change, interval and verdict.
pub(crate) fn reading(run: &Run) -> String {
    let design = &run.plan.design;
    let margin = margin(design.margin);
    format!(
        "Each block boots every arm once, in an order drawn from the seed, and gives one ratio of \
         arm to baseline. The change is the typical ratio of the blocks, which one outlier hardly \
         moves. Better or worse: zero difference is ruled out. Equivalent: a difference of more than \
         {margin} % is ruled out. Undecided: neither is ruled out. Intervals and verdicts hold at every \
         interim analysis. If the arms are equal, at most {} % of runs call one better or worse. Half of \
         that is for the primary metric, half for all others together. The noise may have any \
         distribution, because the p-values follow from the random order alone.",
        significant(run.error_rate() * 100.0, 2)
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::report::judged;
    use record::fixtures::web;

    #[test]
    fn numbers_are_grouped_and_rounded() {
        assert_eq!(count(53_827_939), "53\u{a0}827\u{a0}939");
        assert_eq!(
            (count(0), count(999), count(1000)),
            ("0".into(), "999".into(), "1\u{a0}000".into())
        );
        assert_eq!(figure(2464.37), "2\u{a0}464.4");
        assert_eq!(figure(53_827_939.4), "53\u{a0}827\u{a0}939");
        assert_eq!(figure(57.714_3), "57.714");
        assert_eq!((figure(0.0), figure(16.0)), ("0".into(), "16".into()));
        assert_eq!(figure(-1234.0), "-1\u{a0}234.0");
        assert_eq!(percent(0.39), "39.0 %");
    }

    #[test]
    fn a_page_does_not_show_snmp_communities() {
        let (mut run, _) = judged(web::two_kernels());
        run.plan_text = "snmp = \"a\"\ncommunity = 'secret'\n# secrets\n".into();
        run.plan.arms[0].kernel = KernelRef::Remote(Box::new(plan::Target {
            url: "http://a".into(),
            addresses: Vec::new(),
            before: Vec::new(),
            evidence: Some(EvidenceSource::Snmp {
                address: "a".into(),
                community: "secret".into(),
            }),
        }));
        let expected = "snmp = \"a\"\ncommunity = \"(not shown)\"\n# secrets\n";
        assert_eq!(plan_text(&run), expected);
    }
}
