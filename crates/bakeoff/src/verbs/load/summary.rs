//! The result as text: warnings first, then where every planned request went, then the figures.

use std::fmt::Write as _;

use load::climb::Level;
use load::schedule::{Arrivals, Schedule};
use load::traffic::{Mix, Traffic};
use record::latency::Latency;
use record::load::{Fault, LoadResult};
use record::units::{self, show_bytes, significant};

use super::order::{Course, Order};
use super::outcome::{Outcome, Run, Search, busy};

/// Quantiles in percent.
pub(super) const QUANTILES: [f64; 7] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99];

/// Paths whose check is shown; of a longer list, the number.
const SHOWN_CHECKS: usize = 4;

/// Width of the histogram's longest bar.
const BAR: usize = 40;

/// Most rows of the histogram.
const ROWS: usize = 16;

/// The whole summary.
pub(super) fn text(order: &Order, outcome: &Outcome) -> String {
    let mut text = String::new();
    for run in &outcome.runs {
        let at = run
            .level
            .map(|level| format!("at {}: ", level_words(level)))
            .unwrap_or_default();
        text.extend(
            run.warnings
                .iter()
                .map(|warning| format!("WARNING: {at}{warning}\n")),
        );
    }
    if outcome.ended_early {
        text.push_str("ended early: the figures are those of the time until then\n");
    }
    text.push_str(&heading(order));
    match (&outcome.runs[..], &order.course) {
        ([run], Course::Once) => text.push_str(&one(run)),
        (runs, _) => text.push_str(&table(runs)),
    }
    if let Some(search) = &outcome.search {
        text.push_str(&found(search));
    }
    text
}

/// What was done, and how answers were checked.
fn heading(order: &Order) -> String {
    let Traffic {
        schedule,
        connections,
        threads,
        keep_alive,
        ..
    } = &order.traffic;
    let load = match *schedule {
        Schedule::Closed { think } if think.is_zero() => "closed loop".into(),
        Schedule::Closed { think } => {
            format!("closed loop, {} think time", units::show_duration(think))
        }
        Schedule::Open { .. } if order.course != Course::Once => "open loop".into(),
        Schedule::Open {
            rate_per_s,
            arrivals,
        } => {
            let spacing = match arrivals {
                Arrivals::Constant => "equally spaced",
                Arrivals::Poisson => "at random (Poisson)",
            };
            format!(
                "open loop, {} requests/s {spacing}",
                significant(rate_per_s, 6)
            )
        }
    };
    let keep = if *keep_alive {
        "kept alive"
    } else {
        "one request each"
    };
    let plural = if (*threads).min(*connections) == 1 {
        ""
    } else {
        "s"
    };
    let threads = (*threads).min(*connections);
    let connections = match &order.course {
        Course::Ramp(levels) if matches!(levels[..], [Level::Connections(_), ..]) => String::new(),
        Course::Ramp(_) | Course::Once | Course::Capacity(_) => format!("{connections} "),
    };
    let mut text = format!(
        "{}  {load}, {connections}connections {keep}, {threads} client thread{plural}\n",
        order.url
    );
    for check in order.checks.iter().take(SHOWN_CHECKS) {
        _ = writeln!(text, "checked: {check}");
    }
    if order.checks.len() > SHOWN_CHECKS {
        _ = writeln!(
            text,
            "checked: {} paths more, each so",
            order.checks.len() - SHOWN_CHECKS
        );
    }
    if !order.traffic.bits_per_s.is_empty() {
        _ = writeln!(
            text,
            "lines: {:?} bits per second, in turn",
            order.traffic.bits_per_s
        );
    }
    if matches!(order.traffic.mix, Mix::Sessions(_)) {
        text.push_str("visitors follow the script; each is a new connection without cookies\n");
    }
    text.push('\n');
    text
}

/// One run in full.
fn one(run: &Run) -> String {
    let result = &run.result;
    let seconds = result.window_ns as f64 / 1e9;
    let transfer = show_bytes((result.body_bytes as f64 / seconds) as u64);
    let mut lines = vec![
        ("measured", format!("{} s", significant(seconds, 4))),
        ("requests", accounting(result)),
        (
            "rate",
            format!("{}/s right answers", show_rate(result.ok_per_s())),
        ),
        (
            "transfer",
            format!(
                "{transfer}/s of bodies, {} in all",
                show_bytes(result.body_bytes)
            ),
        ),
        ("connections", connections(result)),
        ("client CPU", client_cpu(result)),
        ("engine", engine(result)),
    ];
    if result.sessions > 0 {
        lines.push(("sessions", format!("{} ended", show_count(result.sessions))));
    }
    let mut text = String::new();
    for (name, value) in lines {
        _ = writeln!(text, "{name:12} {value}");
    }
    if result.latency.count() == 0 {
        return text + "\nno right answer, so there is no latency to show\n";
    }
    format!(
        "{text}\n{}\n{}",
        quantiles(result),
        histogram(&result.latency)
    )
}

/// `planned = ok + each fault + unsent`.
fn accounting(result: &LoadResult) -> String {
    let mut text = format!(
        "{} planned = {} ok",
        show_count(result.planned),
        show_count(result.ok)
    );
    for (fault, count) in &result.faults {
        _ = write!(text, " + {} {}", show_count(*count), fault_words(*fault));
    }
    _ = write!(text, " + {} unsent", show_count(result.unsent));
    if result.withdrawn > 0 {
        _ = write!(
            text,
            "; {} under way at the early end not counted",
            result.withdrawn
        );
    }
    text
}

fn connections(result: &LoadResult) -> String {
    let LoadResult {
        connections_asked,
        connections_opened,
        connections_held,
        ..
    } = result;
    format!(
        "{connections_asked} asked for, at most {connections_held} held, {connections_opened} opened \
         while measuring"
    )
}

fn client_cpu(result: &LoadResult) -> String {
    let all_ns: u64 = result.client_cpu_ns.iter().sum();
    let each = match result.planned {
        0 => String::new(),
        planned => format!("{} per request, ", show_ns(all_ns / planned)),
    };
    let busy: Vec<String> = busy(result)
        .iter()
        .map(|share| format!("{:.0} %", share * 100.0))
        .collect();
    let waits = if result.lateness.count() > 0 {
        ", active waiting included"
    } else {
        ""
    };
    format!("{each}threads {} busy{waits}", busy.join(", "))
}

fn engine(result: &LoadResult) -> String {
    let LoadResult {
        engine,
        engine_note,
        ..
    } = result;
    if engine_note.is_empty() {
        engine.clone()
    } else {
        format!("{engine} ({engine_note})")
    }
}

/// Latency, and beside it service time and lateness where there are any.
fn quantiles(result: &LoadResult) -> String {
    let columns = [
        ("latency", &result.latency),
        ("service time", &result.service),
        ("lateness", &result.lateness),
    ];
    let columns: Vec<_> = columns
        .into_iter()
        .filter(|(_, column)| column.count() > 0)
        .collect();
    let mut text = format!("{:9}", "");
    for (name, _) in &columns {
        _ = write!(text, " {name:>12}");
    }
    text.push('\n');
    let mut row = |name: &str, figure: &dyn Fn(&Latency) -> u64| {
        _ = write!(text, "{name:9}");
        for (_, column) in &columns {
            _ = write!(text, " {:>12}", show_ns(figure(column)));
        }
        text.push('\n');
    };
    row("mean", &|column| column.mean_ns() as u64);
    for percent in QUANTILES {
        row(&format!("p{percent}"), &|column| {
            column.quantile_ns(percent / 100.0)
        });
    }
    row("max", &Latency::max_ns);
    text
}

/// Bars on a logarithmic scale of latency; their lengths are in proportion to the counts.
fn histogram(latency: &Latency) -> String {
    let values = latency.recorded();
    let fine = bars(&values, &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0]);
    let bars = if fine.len() <= ROWS {
        fine
    } else {
        bars(&values, &[1.0, 2.0, 5.0])
    };
    let most = bars
        .iter()
        .map(|(_, count)| *count)
        .max()
        .unwrap_or(0)
        .max(1);
    let mut text = String::new();
    for (to_ns, count) in bars {
        let length = (count as f64 * BAR as f64 / most as f64).round() as usize;
        // What is there is seen, however little.
        let bar = if length == 0 && count > 0 {
            ".".into()
        } else {
            "#".repeat(length)
        };
        let line = format!(
            "to {:>8}  {bar:BAR$} {:>12}",
            show_ns(to_ns),
            show_count(count)
        );
        _ = writeln!(text, "{line}");
    }
    text
}

/// Counts up to each edge, from the first to the last that is not empty. Edges are `marks` times powers of ten.
fn bars(values: &[(u64, u64)], marks: &[f64]) -> Vec<(u64, u64)> {
    let decades = (0..13).map(|power| 10f64.powi(power));
    let edges = decades.flat_map(|decade| marks.iter().map(move |mark| (mark * decade) as u64));
    let mut low_ns = 0;
    let bars = edges.map(|edge_ns| {
        let within = values
            .iter()
            .filter(|(value, _)| low_ns < *value && *value <= edge_ns);
        let count = within.map(|(_, count)| count).sum();
        low_ns = edge_ns;
        (edge_ns, count)
    });
    let bars: Vec<(u64, u64)> = bars.collect();
    let is_full = |bar: &(u64, u64)| bar.1 > 0;
    let (first, last) = (
        bars.iter().position(is_full),
        bars.iter().rposition(is_full),
    );
    match (first, last) {
        (Some(first), Some(last)) => bars[first..=last].to_vec(),
        (None, _) | (_, None) => Vec::new(),
    }
}

/// One line per run of a ramp or a search.
fn table(runs: &[Run]) -> String {
    let mut text = format!(
        "{:>20} {:>11} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6}\n",
        "", "ok/s", "p50", "p99", "p99.9", "max", "not ok", "client"
    );
    for Run { level, result, .. } in runs {
        let level = level.map(level_words).unwrap_or_default();
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|q| show_ns(result.latency.quantile_ns(q)));
        let busiest = busy(result).into_iter().fold(0.0, f64::max) * 100.0;
        let (rate, max) = (
            show_rate(result.ok_per_s()),
            show_ns(result.latency.max_ns()),
        );
        let failed = show_count(result.planned - result.ok);
        _ = writeln!(
            text,
            "{level:>20} {rate:>11} {p50:>9} {p99:>9} {p999:>9} {max:>9} {failed:>9} {busiest:>4.0} %"
        );
    }
    let best = runs
        .iter()
        .max_by(|a, b| a.result.ok_per_s().total_cmp(&b.result.ok_per_s()));
    if let Some(Run {
        level: Some(level),
        result,
        ..
    }) = best
    {
        let rate = show_rate(result.ok_per_s());
        _ = writeln!(
            text,
            "\nmost right answers: {rate}/s at {}",
            level_words(*level)
        );
    }
    for run in runs.iter().filter(|run| run.result.planned > run.result.ok) {
        let level = run.level.map(level_words).unwrap_or_default();
        _ = writeln!(text, "at {level}: {}", accounting(&run.result));
    }
    if let Some(run) = runs.first() {
        _ = writeln!(text, "engine: {}", engine(&run.result));
    }
    text
}

fn found(search: &Search) -> String {
    let limit = limit_words(search);
    match search.rate_per_s {
        Some(rate) => {
            let rate = significant(rate, 4);
            let more = match search.client_was_limit {
                true => "; the client gave out first, so the server may have more",
                false => "",
            };
            format!("capacity: {rate} requests/s keep {limit}, to within 5 %{more}\n")
        }
        None => format!("capacity: not even 1 request/s keeps {limit}\n"),
    }
}

/// The limit as it can be typed.
pub(super) fn limit_words(search: &Search) -> String {
    let (percent, faults) = (search.limit.quantile * 100.0, search.limit.faults * 100.0);
    let time = units::show_duration(search.limit.latency);
    let faults = if faults > 0.0 {
        format!(",faults<{}%", significant(faults, 3))
    } else {
        String::new()
    };
    // Six digits: 99.9 has no exact form as a fraction.
    format!("p{}<{time}{faults}", (percent * 1e6).round() / 1e6)
}

fn level_words(level: Level) -> String {
    match level {
        Level::Connections(1) => "1 connection".into(),
        Level::Connections(count) => format!("{count} connections"),
        Level::RatePerS(rate) => format!("{} requests/s", significant(rate, 4)),
    }
}

/// A fault as it is told.
fn fault_words(fault: Fault) -> &'static str {
    match fault {
        Fault::ConnectFailed => "not connected",
        Fault::Reset => "reset",
        Fault::EarlyClose => "closed early",
        Fault::WriteFailed => "not written",
        Fault::ConnectTimeout => "timed out connecting",
        Fault::FirstByteTimeout => "timed out before the first byte",
        Fault::WholeTimeout => "timed out amid the answer",
        Fault::BadStatus => "with a wrong status",
        Fault::BadLength => "with a wrong length",
        Fault::BadContent => "with a wrong content",
        Fault::Malformed => "malformed",
        Fault::ClientNoPort => "without a port (client)",
        Fault::ClientNoDescriptor => "without a descriptor (client)",
        Fault::ClientNoMemory => "without memory (client)",
        Fault::ClientLate => "sent too late (client)",
    }
}

/// A time with three significant digits: `64.3 us`, `1.25 ms`.
pub(super) fn show_ns(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    format!("{} {unit}", significant(value, 3))
}

/// A count with its thousands set apart.
pub(super) fn show_count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A rate: whole above a hundred, else with three significant digits.
fn show_rate(per_s: f64) -> String {
    if per_s >= 100.0 {
        show_count(per_s.round() as u64)
    } else {
        significant(per_s, 3)
    }
}
