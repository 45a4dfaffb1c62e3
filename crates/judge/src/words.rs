//! Sentences and numbers, the same in all forms of the report.

use std::collections::BTreeMap;

use base::input::units::{grouped, show_bytes, show_change, significant};
use doc::RemarkKind;
use plan::kernel::KernelRef;
use plan::{EvidenceSource, Mode};
use record::instructions::{CAPACITY, VIRTUAL};
use record::journal::Event;
use record::load::Fault;
use record::metric::{Direction, MetricSpec, Role};
use record::rundir::Run;
use record::trial::{Outcome, Trial, VoidReason};
use record::verdict::why::Why;
use record::verdict::{
    ArmClients, ArmSummary, ArmUsage, Comparison, Conclusion, FailedArm, Headline as Conclude,
    Judgement, Shift, Verdict,
};

use crate::words::levels::{Levels, in_words};

pub mod levels;

/// What stands where there is no figure.
pub(crate) const NONE: &str = "-";

/// Those of some comparisons that are about a workload's primary metric.
pub(crate) fn primaries<'j>(
    comparisons: impl Iterator<Item = &'j Comparison>,
) -> impl Iterator<Item = &'j Comparison> {
    comparisons.filter(|comparison| comparison.spec.role == Role::Primary)
}

/// A headline in words; its scope is the workload where the plan has several.
pub(crate) fn headline(
    run: &Run,
    judgement: &Judgement,
    whys: &[Why],
    conclude: &Conclude,
) -> Option<doc::Headline> {
    let mut block = verdict_on(run, judgement, conclude)?;
    let (workload, arm) = (&conclude.workload, &conclude.arm);
    block.scope = (run.plan.workloads.len() > 1).then(|| workload.clone());
    let robustness = crate::topics::robustness::document::line(judgement, (workload, arm));
    block.remark(RemarkKind::Robustness, robustness);
    let is_wanted = |why: &&Why| (&why.workload, &why.arm) == (workload, arm);
    block.remark(
        RemarkKind::Cause,
        whys.iter()
            .find(is_wanted)
            .map(crate::topics::why::tell::sentence),
    );
    Some(block)
}

fn verdict_on(run: &Run, judgement: &Judgement, headline: &Conclude) -> Option<doc::Headline> {
    let mut findings = Vec::new();
    let (text, reason, is_open) = match &headline.conclusion {
        Conclusion::Withheld { violations } => {
            let withheld = crate::topics::fairness::tell::withheld(&judgement.fairness, violations);
            findings = withheld.found;
            let text = format!(
                "{} against {}: the comparison is not fair: {}",
                headline.arm,
                run.plan.baseline,
                violations.join(", ")
            );
            (text, withheld.remedy, true)
        }
        Conclusion::Failed(failed) => (
            format!("{} {}", headline.arm, failure(failed)),
            failed.last.clone(),
            true,
        ),
        conclusion => {
            let primary = primary_of(judgement, headline)?;
            let is_open = matches!(
                conclusion,
                Conclusion::Undecided { .. } | Conclusion::ModelDependent { .. }
            );
            let soak = crate::topics::soak::tell::headline(judgement, headline, &run.plan.baseline)
                .filter(|_| is_open);
            let text = soak.unwrap_or_else(|| measured(run, judgement, headline, primary));
            let reason = match (conclusion, &headline.by_price) {
                (Conclusion::ModelDependent { .. }, Some(by_price)) => {
                    crate::topics::robustness::tell::at_prices(by_price)
                }
                (_, _) => crate::topics::metrics::tell::reason(primary),
            };
            (text, reason, is_open)
        }
    };
    let mut block = doc::Headline {
        scope: None,
        badge: headline.conclusion.word(),
        text,
        is_open,
        findings,
        reason,
        remarks: Vec::new(),
    };
    block.remark(
        RemarkKind::Defects,
        crate::topics::defects::tell::under_headline(run, judgement, headline),
    );
    let pair = (&*headline.workload, &*headline.arm, &*run.plan.baseline);
    block.remark(
        RemarkKind::Accepted,
        crate::topics::fairness::tell::accepted(&judgement.fairness, pair),
    );
    block.remark(
        RemarkKind::Limit,
        crate::topics::limits::tell::said_first(judgement, headline),
    );
    Some(block)
}

/// The sentence of a verdict that rests on figures.
fn measured(run: &Run, judgement: &Judgement, headline: &Conclude, primary: &Comparison) -> String {
    let pair = (&*headline.workload, &*headline.arm);
    let curves = headline.conclusion.curves();
    let by_load =
        crate::topics::robustness::tell::against_by_load(judgement, pair, primary.verdict, curves);
    let against = against(judgement, headline);
    sentence(
        run,
        primary,
        &against,
        &by_load,
        shared_cpu(judgement, primary),
    )
}

/// The comparison that a headline is about first.
fn primary_of<'j>(judgement: &'j Judgement, headline: &Conclude) -> Option<&'j Comparison> {
    let its = |one: &&Comparison| one.workload == headline.workload && one.arm == headline.arm;
    judgement.primaries().find(its)
}

/// The secondary metrics that speak against it, the largest change first.
pub(crate) fn against<'j>(judgement: &'j Judgement, headline: &Conclude) -> Vec<&'j Comparison> {
    let named = |name: &String| {
        let its = |one: &&Comparison| {
            (&one.workload, &one.arm, &one.spec.name) == (&headline.workload, &headline.arm, name)
        };
        judgement.comparisons.iter().find(its)
    };
    headline
        .conclusion
        .against()
        .iter()
        .filter_map(named)
        .collect()
}

/// `failed: 3 of 3 trials (6 attempts), kernel panic`.
fn failure(failed: &FailedArm) -> String {
    let FailedArm {
        trials,
        attempts,
        skipped,
        reasons,
        ..
    } = failed;
    let tried = format!("failed: {trials} of {}", counted(*trials, "trial"));
    let again = if attempts > trials {
        format!(" ({attempts} attempts)")
    } else {
        String::new()
    };
    let reason = |(reason, count): (&VoidReason, &u32)| match reasons.len() {
        1 => reason.words().to_string(),
        _ => format!("{} {count}", reason.words()),
    };
    let mut parts = vec![tried + &again];
    parts.extend(reasons.iter().map(reason));
    if *skipped > 0 {
        parts.push(format!("{} not tried any more", counted(*skipped, "trial")));
    }
    parts.join(", ")
}

/// Secondary metrics that a headline names; the others are counted.
const NAMED: usize = 2;

/// A verdict in a sentence, with what speaks against it: `7.2 serves 7.30 % more requests/s than 6.1 [+7.07 %,
/// +7.53 %], but its p99 latency is 3.6 times as long [+246 %, +275 %], 4 blocks`.
fn sentence(
    run: &Run,
    comparison: &Comparison,
    against: &[&Comparison],
    by_load: &[String],
    beside: Option<String>,
) -> String {
    let (arm, baseline) = (&comparison.arm, &run.plan.baseline);
    let what = subject(comparison);
    let said = match comparison.verdict {
        Verdict::Better | Verdict::Worse => difference(run, comparison),
        Verdict::Equivalent => format!(
            "{arm} and {baseline} are equivalent in {what}, to within {} %",
            margin(run.plan.design.margin)
        ),
        Verdict::Undecided => format!("{arm} against {baseline} is undecided in {what}"),
    };
    let mut parts = vec![with_interval(said, comparison)];
    // "Its" is the arm's only where the arm is what the sentence is about.
    let whose = match comparison.verdict {
        Verdict::Equivalent | Verdict::Undecided => format!("{arm}'s"),
        Verdict::Better | Verdict::Worse => "its".into(),
    };
    let named = against.iter().take(NAMED);
    let named = named.map(|one| with_interval(format!("{whose} {}", contrary(one)), one));
    let named: Vec<String> = named.chain(by_load.iter().cloned()).collect();
    if !named.is_empty() {
        parts.push(format!("but {}", named.join(" and ")));
    }
    if against.len() > NAMED {
        let more = counted((against.len() - NAMED) as u32, "more metric");
        parts.push(format!("and {more} {}", against[0].verdict.word()));
    }
    if comparison.blocks > 0 {
        parts.push(blocks(comparison.blocks));
    }
    parts.extend(beside);
    parts.join(", ")
}

/// What throughput says beside a capacity, where the two have another sign or one is not half of the other.
fn shared_cpu(judgement: &Judgement, primary: &Comparison) -> Option<String> {
    let is_it = |one: &&Comparison| {
        one.workload == primary.workload && one.arm == primary.arm && one.spec.name == "throughput"
    };
    let throughput = judgement.comparisons.iter().find(is_it)?;
    let [capacity, shared] = [primary.ratio?.ln(), throughput.ratio?.ln()];
    let is_near = capacity * shared > 0.0 && (0.5..=2.0).contains(&(shared / capacity));
    let is_capacity = primary.spec.name == CAPACITY && primary.verdict != Verdict::Undecided;
    (is_capacity && !is_near).then(|| {
        format!(
            "while throughput changes by {} mostly by how clients and server share the CPU",
            with_interval(change(throughput.ratio), throughput)
        )
    })
}

/// The range of single blocks is no interval, and has no level.
fn with_interval(said: String, comparison: &Comparison) -> String {
    match interval(comparison) {
        none if none == NONE => said,
        range if !comparison.has_interval() => {
            format!(
                "{said} {}: lowest and highest block)",
                range.trim_end_matches(')')
            )
        }
        interval => format!("{said} {}", in_words(&interval, comparison.confidence)),
    }
}

/// `p99 latency is 3.6 times as long`, `server-cpu is 8.00 % higher`.
fn contrary(comparison: &Comparison) -> String {
    let name = &comparison.spec.name;
    let (name, is_time) = match record::metric::latency(name) {
        Some(latency) => (latency, true),
        None => (name.clone(), false),
    };
    let [more, less, times] = if is_time {
        ["longer", "shorter", "as long"]
    } else {
        ["higher", "lower", "as high"]
    };
    match (comparison.ratio, comparison.difference) {
        (Some(ratio), _) if ratio >= 2.0 => {
            format!("{name} is {} times {times}", significant(ratio, 2))
        }
        (Some(ratio), _) => {
            let way = if ratio > 1.0 { more } else { less };
            format!("{name} is {:.2} % {way}", ((ratio - 1.0) * 100.0).abs())
        }
        (None, Some(shift)) => {
            let way = if shift.typical > 0.0 { more } else { less };
            let by = significant(shift.typical.abs(), 2);
            format!("{name} is {way} by {by} {}", unit(&comparison.spec.unit))
        }
        (None, None) => format!("{name} is {}", comparison.verdict.word()),
    }
}

/// A unit as it is written for people; records have ASCII.
pub(crate) fn unit(recorded: &str) -> String {
    if let Some(virtual_time) = recorded.strip_prefix(VIRTUAL) {
        return format!("virtual {}", unit(virtual_time));
    }
    match recorded.strip_prefix("us") {
        Some(per) if per.is_empty() || per.starts_with('/') => format!("µs{per}"),
        _ => recorded.into(),
    }
}

/// What is compared: its unit where that says it all, its name otherwise.
fn subject(comparison: &Comparison) -> &str {
    if is_rate(comparison) && comparison.spec.name != CAPACITY {
        &comparison.spec.unit
    } else {
        &comparison.spec.name
    }
}

fn is_rate(comparison: &Comparison) -> bool {
    comparison.spec.unit.ends_with("/s")
}

fn difference(run: &Run, comparison: &Comparison) -> String {
    let change = match (comparison.ratio, comparison.difference) {
        (Some(ratio), _) => (ratio - 1.0) * 100.0,
        (None, Some(shift)) => shift.typical,
        (None, None) => 0.0,
    };
    let by = match (comparison.ratio, comparison.difference) {
        (None, Some(shift)) => significant(shift.typical.abs(), 3),
        // As in tables: hundredths of thousands are no digits.
        _ if change >= 100.0 => format!("{} %", count(change.round() as u64)),
        _ => format!("{:.2} %", change.abs()),
    };
    let verb = match (is_rate(comparison), comparison.spec.name.as_str()) {
        (true, CAPACITY) => "can serve",
        (true, _) => "serves",
        (false, _) => "has",
    };
    let way = match (is_rate(comparison), change > 0.0) {
        (true, true) => "more",
        (true, false) => "fewer",
        (false, true) => "higher",
        (false, false) => "lower",
    };
    let what = if is_rate(comparison) {
        &comparison.spec.unit
    } else {
        &comparison.spec.name
    };
    format!(
        "{} {verb} {by} {way} {what} than {}",
        comparison.arm, run.plan.baseline
    )
}

/// `[+7.07 %, +7.53 %]`; `(+6.90 %, +7.60 %)` where too few blocks have only a lowest and a highest one; or `NONE`.
pub(crate) fn interval(comparison: &Comparison) -> String {
    match (comparison.low, comparison.high, comparison.difference) {
        (Some(low), Some(high), _) => format!("[{}, {}]", large_change(low), large_change(high)),
        (
            _,
            _,
            Some(Shift {
                low: Some(low),
                high: Some(high),
                ..
            }),
        ) => {
            format!("[{}, {}]", signed(low), signed(high))
        }
        _ => match comparison.range {
            Some((low, high)) if comparison.blocks > 1 => {
                format!("({}, {})", large_change(low), large_change(high))
            }
            _ => NONE.into(),
        },
    }
}

/// The levels of some comparisons' intervals.
pub(crate) fn levels<'c>(comparisons: impl IntoIterator<Item = &'c Comparison>) -> Levels {
    Levels::of(comparisons.into_iter().map(|one| one.confidence))
}

/// An interval of ratios as one of changes, or `NONE`.
pub(crate) fn interval_of(low: Option<f64>, high: Option<f64>) -> String {
    match (low, high) {
        (Some(low), Some(high)) => format!("[{}, {}]", large_change(low), large_change(high)),
        (_, _) => NONE.into(),
    }
}

/// What the intervals of some rows are, and what round brackets mean where a row has some.
pub(crate) fn interval_notes(comparisons: &[&Comparison]) -> Vec<String> {
    let mut notes = Vec::new();
    if comparisons.iter().any(|one| one.has_interval()) {
        let levels = levels(comparisons.iter().copied());
        let is_other = |one: &&Comparison| levels.other(one.confidence).is_some();
        let others = if comparisons.iter().any(is_other) {
            "; a row of another level names it"
        } else {
            ""
        };
        notes.push(format!(
            "(confidence intervals, valid at every look{others})"
        ));
    }
    let has_range = |one: &&Comparison| !one.has_interval() && self::interval(one) != NONE;
    if comparisons.iter().any(has_range) {
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

/// A change without decimals where it is more than a doubling: nobody reads them there.
pub(crate) fn large_change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    match percent {
        100.0.. => format!("+{} %", count(percent.round() as u64)),
        _ => show_change(ratio),
    }
}

/// The ratio as a change; where there is none, the difference in the metric's unit; or `NONE`.
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

/// A number of three digits with its sign: `+0.00123`.
fn signed(value: f64) -> String {
    let sign = if value > 0.0 { "+" } else { "" };
    format!("{sign}{}", significant(value, 3))
}

/// The ratio as a change, or `NONE`.
pub(crate) fn change(ratio: Option<f64>) -> String {
    ratio.map_or(NONE.into(), large_change)
}

/// All metrics of one workload with its name in the head.
pub(crate) fn metric_rows(judgement: &Judgement, workload: &str) -> Vec<Vec<String>> {
    let its = || {
        let all = judgement.comparisons.iter();
        all.filter(|one| one.workload == workload)
    };
    let levels = levels(its());
    let head = [
        workload,
        "arm",
        "verdict",
        "change",
        &levels.head(),
        "blocks",
    ];
    let row = |comparison: &Comparison| {
        vec![
            directed(&comparison.spec),
            comparison.arm.clone(),
            comparison.verdict.word().into(),
            change_of(comparison),
            levels.cell(&interval(comparison), comparison.confidence),
            comparison.blocks.to_string(),
        ]
    };
    [head.map(String::from).to_vec()]
        .into_iter()
        .chain(its().map(row))
        .collect()
}

/// Why metrics are undecided and what would settle them: what it is about, and the reason. Metrics of one arm with the
/// same reason stand together.
pub(crate) fn undecided(comparisons: &[&Comparison]) -> Vec<(String, String)> {
    let mut groups: Vec<(&Comparison, Vec<&str>)> = Vec::new();
    let open = comparisons
        .iter()
        .filter(|one| one.verdict == Verdict::Undecided);
    for one in open {
        let same = |first: &Comparison| {
            (&first.arm, crate::topics::metrics::tell::reason(first))
                == (&one.arm, crate::topics::metrics::tell::reason(one))
        };
        match groups.iter_mut().find(|(first, _)| same(first)) {
            Some((_, names)) => names.push(&one.spec.name),
            None => groups.push((one, vec![&one.spec.name])),
        }
    }
    let told = |(first, names): (&Comparison, Vec<&str>)| {
        let about = format!("{} of {}", names.join(", "), first.arm);
        (about, crate::topics::metrics::tell::reason(first))
    };
    groups.into_iter().map(told).collect()
}

/// Measurement noise: metric, arm, noise of a block, order effect, outliers of arm and baseline, and their p-value;
/// nothing for metrics of fewer than two blocks.
pub(crate) fn noise_rows(comparisons: &[&Comparison]) -> Vec<[String; 6]> {
    let row = |one: &&Comparison| {
        let noise = one.noise.filter(|_| one.blocks > 1)?;
        let outliers = one.outliers;
        Some([
            directed(&one.spec),
            one.arm.clone(),
            small_percent(noise),
            one.order_effect
                .map_or(NONE.into(), |effect| show_change(1.0 + effect)),
            outliers.map_or(NONE.into(), |count| {
                format!("{} and {}", count.arm, count.baseline)
            }),
            outliers.map_or(NONE.into(), |one| significant(one.p_value, 2)),
        ])
    };
    comparisons.iter().filter_map(row).collect()
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

/// A noun with its plural, unless there is one of it.
pub(crate) fn plural(noun: &str, is_one: bool) -> String {
    let ending = if is_one { "" } else { "s" };
    format!("{noun}{ending}")
}

/// A whole number in groups of three: `8 845 147`.
pub(crate) fn count(value: u64) -> String {
    grouped(value, '\u{a0}')
}

/// A figure with five significant digits, but never less than whole units: `2 285.3`. Small whole numbers stay whole.
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

/// A class of fault in words.
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

/// What each arm did on one workload, its name in the head.
pub(crate) fn arm_table(judgement: &Judgement, workload: &str) -> Vec<Vec<String>> {
    let tables = tables_of(judgement, workload);
    let mut rows = vec![vec![workload.to_string()]];
    rows[0].extend(tables.iter().map(|table| table.arm.clone()));
    let cells = arm_rows(&tables).into_iter();
    rows.extend(cells.map(|(name, cells)| [vec![name], cells].concat()));
    rows
}

/// The rows of the table that IBM's report of 2004 printed for each kernel: name, and a cell for
/// each arm.
pub(crate) fn arm_rows(tables: &[&ArmSummary]) -> Vec<(String, Vec<String>)> {
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    let mut row = |name: &str, cell: &dyn Fn(&ArmSummary) -> String| {
        let cells = tables.iter().map(|table| cell(table)).collect();
        rows.push((name.to_string(), cells));
    };
    let named = |name: &str| if name.is_empty() { NONE } else { name }.to_string();
    // The build's number and date are among the facts, and too long for a table.
    row("kernel", &|table| {
        named(table.kernel.split(" #").next().unwrap_or_default())
    });
    row("server", &|table| named(&table.server));
    row("trials measured", &|table| table.measured.to_string());
    let is_of_clients = |table: &&ArmSummary| {
        let usage = table.usage.as_ref();
        usage.is_some_and(|usage| usage.is_of_clients)
    };
    let whose = if tables.iter().any(is_of_clients) {
        "clients' host: "
    } else {
        ""
    };
    let mut used = |name: &str, cell: fn(&ArmUsage) -> String| {
        row(&format!("{whose}{name}"), &|table| {
            table.usage.as_ref().map_or(NONE.into(), cell)
        });
    };
    used("average CPU, user", |usage| percent(usage.cpu_user));
    used("average CPU, system", |usage| percent(usage.cpu_system));
    used("memory in use", |usage| {
        show_bytes(usage.memory_used_bytes as u64)
    });
    used("swap in use, peak", |usage| {
        show_bytes(usage.swap_used_bytes)
    });
    used("CPU spent on sampling", |usage| percent(usage.sampling));
    let mut seen = |name: &str, cell: &dyn Fn(&ArmClients) -> String| {
        row(name, &|table| {
            table.clients.as_ref().map_or(NONE.into(), cell)
        });
    };
    seen("requests served", &|clients| count(clients.served));
    seen("requests per second", &|clients| {
        figure(clients.served_per_s)
    });
    seen("served by address", &|clients| {
        served_by_address(&clients.ok_by_address)
    });
    seen("mean request time", &|clients| {
        format!("{} ms", figure(clients.mean_ms))
    });
    seen("failed requests", &|clients| {
        let faults = clients.faults.values();
        count(faults.fold(0, |sum, count| sum.saturating_add(*count)))
    });
    for class in fault_classes(tables) {
        let of_class = |clients: &ArmClients| clients.faults.get(&class).copied().unwrap_or(0);
        seen(&format!("  {}", fault(class)), &|clients| {
            count(of_class(clients))
        });
    }
    row("failed trials", &|table| {
        table.voids.values().sum::<u32>().to_string()
    });
    rows.extend(crate::topics::limits::tell::rows(tables));
    // A row in which no arm has anything says nothing.
    rows.retain(|(_, cells)| cells.iter().any(|cell| cell != NONE));
    rows
}

/// What each address of a system answered, as a share; nothing where it has one.
fn served_by_address(ok_by_address: &BTreeMap<String, u64>) -> String {
    if ok_by_address.is_empty() {
        return NONE.into();
    }
    let all = ok_by_address
        .values()
        .fold(0, |sum: u64, own| sum.saturating_add(*own));
    let cell = |(address, own): (&String, &u64)| {
        let share = *own as f64 / all.max(1) as f64;
        format!("{address} {}", percent(share))
    };
    ok_by_address
        .iter()
        .map(cell)
        .collect::<Vec<_>>()
        .join(", ")
}

fn fault_classes(tables: &[&ArmSummary]) -> Vec<Fault> {
    let mut classes: Vec<Fault> = tables
        .iter()
        .filter_map(|table| table.clients.as_ref())
        .flat_map(|clients| clients.faults.keys())
        .copied()
        .collect();
    classes.sort_unstable();
    classes.dedup();
    classes
}

/// The tables of one workload, in the plan's order of arms.
pub(crate) fn tables_of<'j>(judgement: &'j Judgement, workload: &str) -> Vec<&'j ArmSummary> {
    let tables = judgement.arm_summaries.iter();
    tables.filter(|table| table.workload == workload).collect()
}

/// An attempt that gave no figure.
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

/// All attempts that gave no figure, in the order of their ends.
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

/// What the looks said, one line each, for a reader who wants to see how the estimate changed.
pub(crate) fn looks(run: &Run) -> Vec<String> {
    let mut looks = Vec::new();
    for entry in &run.entries {
        match &entry.event {
            Event::Looked {
                blocks: seen,
                looks: told,
                ..
            } => {
                let lines: Vec<String> = told.iter().map(crate::topics::look::tell::look).collect();
                looks.push(format!("{}: {}", blocks(*seen), lines.join("; ")));
            }
            Event::Opened(_)
            | Event::Resumed { .. }
            | Event::Ceiling { .. }
            | Event::OneFewer { .. }
            | Event::Merged { .. }
            | Event::Started { .. }
            | Event::Ended { .. }
            | Event::Invalidated { .. }
            | Event::Profiling { .. }
            | Event::Profiled { .. }
            | Event::Closed { .. }
            | Event::Extended { .. } => {}
        }
    }
    looks
}

/// What the plan asks.
pub(crate) fn mode(run: &Run) -> &'static str {
    match run.plan.mode {
        Some(Mode::Controlled) => "controlled: what can be set alike is, asks about the code",
        Some(Mode::AsShipped) => "as shipped: defaults differ, asks about the product",
        None => {
            "not declared: defaults differ as the kernels bring them (mode of the plan says whether code or products are asked about)"
        }
    }
}

/// What a second is in this run.
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

/// The plan without what systems are asked as: a page is passed on.
pub(crate) fn plan_text(run: &Run) -> String {
    let communities = run.plan.arms.iter().filter_map(|arm| match &arm.kernel {
        KernelRef::Remote(target) => match target.evidence.as_ref()? {
            EvidenceSource::Snmp { community, .. } => Some(community),
            EvidenceSource::Exporter(_) => None,
        },
        _ => None,
    });
    communities.fold(run.plan_text.clone(), |text, community| {
        let hide = |text: String, quote: char| {
            text.replace(&format!("{quote}{community}{quote}"), "\"(not shown)\"")
        };
        hide(hide(text, '"'), '\'')
    })
}

/// A margin in percent, with two digits or as many as it has: `1.0`, `13.3`.
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

/// How to read ratio, interval and verdict.
pub(crate) fn reading(run: &Run) -> String {
    let design = &run.plan.design;
    let margin = margin(design.margin);
    format!(
        "Each block boots every arm once, in an order drawn from the seed, and gives one ratio of \
         arm to baseline. The change is typical of the blocks: one wild trial hardly moves it. Better \
         or worse means that no difference at all was excluded, equivalent that a difference beyond \
         {margin} % either way was, undecided that neither was. Interval and verdict hold for a look \
         after every block. Of equal arms, at most {} % of such runs call one better or worse: half \
         of that is the primary metric's, the other half all others' together. Nothing is assumed \
         of the noise, because the drawn order alone decides how far chance goes.",
        significant(run.error_rate() * 100.0, 2)
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::report::judged;
    use record::fixtures::web;

    #[test]
    fn numbers_read_well() {
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
    fn a_page_does_not_tell_what_systems_are_asked_as() {
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

    /// The sentence of the played run's primary metric, changed.
    fn said(change: impl FnOnce(&mut Comparison), against: &[(&str, Option<f64>)]) -> String {
        let (run, judgement) = judged(web::two_kernels());
        let mut primary = judgement.comparisons[0].clone();
        change(&mut primary);
        let other = |(name, ratio): &(&str, Option<f64>)| {
            let mut other = judgement.comparisons[1].clone();
            (other.spec.name, other.ratio, other.verdict) =
                ((*name).into(), *ratio, Verdict::Worse);
            (other.low, other.high) = (ratio.map(|r| r - 0.1), ratio.map(|r| r + 0.1));
            other
        };
        let others: Vec<Comparison> = against.iter().map(other).collect();
        sentence(
            &run,
            &primary,
            &others.iter().collect::<Vec<_>>(),
            &[],
            None,
        )
    }

    fn with(verdict: Verdict, ratio: Option<f64>) -> impl FnOnce(&mut Comparison) {
        move |one| {
            (one.verdict, one.ratio) = (verdict, ratio);
            (one.low, one.high) = (ratio.map(|r| r - 0.002), ratio.map(|r| r + 0.002));
        }
    }

    #[test]
    fn a_large_change_has_no_hundredths_in_its_sentence() {
        let text = said(with(Verdict::Better, Some(55.3266)), &[]);
        assert!(text.contains("5\u{a0}433 % more"), "{text}");
    }

    #[test]
    fn each_verdict_has_its_sentence() {
        let check = |verdict, ratio, want: &str| assert_eq!(said(with(verdict, ratio), &[]), want);
        check(
            Verdict::Better,
            Some(1.073),
            "7.2 serves 7.30 % more requests/s than 6.1 [+7.10 %, +7.50 %] (97.5 % interval), 9 blocks",
        );
        check(
            Verdict::Worse,
            Some(0.93),
            "7.2 serves 7.00 % fewer requests/s than 6.1 [-7.20 %, -6.80 %] (97.5 % interval), 9 blocks",
        );
        check(
            Verdict::Equivalent,
            Some(1.0),
            "7.2 and 6.1 are equivalent in requests/s, to within 1.0 % [-0.20 %, +0.20 %] \
             (97.5 % interval), 9 blocks",
        );
    }

    #[test]
    fn what_speaks_against_a_verdict_stands_in_its_sentence() {
        let p99 = ("latency-p99", Some(3.6));
        assert_eq!(
            said(with(Verdict::Better, Some(1.15)), &[p99]),
            "7.2 serves 15.00 % more requests/s than 6.1 [+14.80 %, +15.20 %] (97.5 % interval), but its p99 latency is 3.6 times as long \
             [+250 %, +270 %] (97.5 % interval), 9 blocks"
        );
        assert_eq!(
            said(
                with(Verdict::Equivalent, Some(1.0)),
                &[("server-cpu", Some(1.3))]
            ),
            "7.2 and 6.1 are equivalent in requests/s, to within 1.0 % [-0.20 %, +0.20 %] (97.5 % interval), but 7.2's server-cpu is \
             30.00 % higher [+20.00 %, +40.00 %] (97.5 % interval), 9 blocks"
        );
        let four = [
            p99,
            ("latency-p50", Some(1.5)),
            ("a", None),
            ("b", Some(0.5)),
        ];
        assert!(
            said(with(Verdict::Better, Some(1.15)), &four)
                .ends_with("and its p50 latency is 50.00 % longer [+40.00 %, +60.00 %] (97.5 % interval), and 2 more metrics worse, 9 blocks")
        );
    }

    #[test]
    fn without_an_interval_the_lowest_and_the_highest_block_are_shown() {
        let few = |one: &mut Comparison| {
            with(Verdict::Undecided, None)(one);
            (one.ratio, one.range, one.blocks) = (Some(1.07), Some((1.05, 1.09)), 3);
        };
        assert_eq!(
            said(few, &[]),
            "7.2 against 6.1 is undecided in requests/s (+5.00 %, +9.00 %: lowest and highest block), 3 blocks"
        );
        let alone = |one: &mut Comparison| {
            few(one);
            one.blocks = 1;
        };
        assert_eq!(
            said(alone, &[]),
            "7.2 against 6.1 is undecided in requests/s, 1 block"
        );
    }

    #[test]
    fn an_arm_that_failed_is_told_with_its_count_and_its_reason() {
        let mut failed = FailedArm {
            trials: 3,
            attempts: 6,
            skipped: 0,
            reasons: [(VoidReason::Panic, 6)].into(),
            last: "VFS".into(),
        };
        assert_eq!(
            failure(&failed),
            "failed: 3 of 3 trials (6 attempts), kernel panic"
        );
        failed.reasons = [(VoidReason::Panic, 4), (VoidReason::Silent, 2)].into();
        failed.skipped = 5;
        assert_eq!(
            failure(&failed),
            "failed: 3 of 3 trials (6 attempts), silent guest 2, kernel panic 4, 5 trials not tried any more"
        );
    }
}
