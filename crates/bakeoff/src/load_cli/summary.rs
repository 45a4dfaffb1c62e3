//! The result as text: warnings first, then what became of the planned requests, then the figures.

use std::fmt::Write as _;

use base::input::units;
use base::input::units::{show_bytes, significant};
use base::latency::Latency;
use load::client_limits::busy_shares;
use load::ramp::Level;
use load::schedule::{Arrivals, Schedule};
use load::traffic::{Mix, Protocol, RateUnit, Traffic};
use record::load::LoadResult;

use crate::load_cli::format::{show_count, show_ns, show_rate};
use crate::load_cli::job::{Job, Mode};
use crate::load_cli::outcome::{Outcome, Run, Search, Worker};

/// Quantiles in percent.
pub(crate) const QUANTILES: [f64; 7] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99];

/// Paths whose check is shown; for further paths, only their number.
const MAX_CHECKS_SHOWN: usize = 4;

/// Width of the histogram's longest bar.
const BAR_WIDTH: usize = 40;

/// A histogram with more rows than this uses wider steps.
const MAX_ROWS: usize = 16;

/// The whole summary.
pub(crate) fn text(job: &Job, outcome: &Outcome) -> String {
    let mut text = String::new();
    for run in &outcome.runs {
        let at = run
            .level
            .map(|level| format!("at {}: ", show_level(level, run.unit)))
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
    text.push_str(&heading(job));
    match (&outcome.runs[..], &job.mode) {
        ([run], Mode::Single | Mode::Hosts(_)) => {
            text.push_str(&hosts_text(&outcome.workers));
            text.push_str(&run_text(run));
        }
        (runs, _) => text.push_str(&table_of_runs(runs)),
    }
    if let Some(search) = &outcome.search {
        text.push_str(&capacity_text(search));
    }
    text
}

/// The client hosts, and how precisely they started together.
fn hosts_text(workers: &[Worker]) -> String {
    let mut text = String::new();
    for worker in workers {
        let Worker {
            address,
            error_ns,
            result,
        } = worker;
        let counts = match result {
            Ok(result) => format!(
                "{} planned, {} ok",
                show_count(result.planned),
                show_count(result.ok)
            ),
            Err(_) => "LOST".into(),
        };
        let error = show_ns(*error_ns);
        _ = writeln!(
            text,
            "host         {address}: {counts}, start within {error}"
        );
    }
    text
}

/// The load, and how responses were checked.
fn heading(job: &Job) -> String {
    let Traffic {
        connections,
        threads,
        keep_alive,
        ..
    } = &job.traffic;
    let load = show_schedule(job);
    let keep = match job.traffic.protocol {
        Protocol::Http2 { streams } => format!("of HTTP/2, {streams} requests on each"),
        Protocol::Http1 if *keep_alive => "kept alive".into(),
        Protocol::Http1 => "one request each".into(),
    };
    let too_many = if connections < threads {
        format!(" ({threads} asked for; each has a connection)")
    } else {
        String::new()
    };
    let threads = match (*threads).min(*connections) {
        1 => "1 client thread".into(),
        several => format!("{several} client threads"),
    };
    let connections = match &job.mode {
        Mode::Ramp(levels) if matches!(levels[..], [Level::Connections(_), ..]) => String::new(),
        Mode::Ramp(_) | Mode::Single | Mode::Hosts(_) | Mode::Capacity(_) => {
            format!("{connections} ")
        }
    };
    let each = match &job.mode {
        Mode::Hosts(hosts) => format!(" on each of {} hosts", hosts.len()),
        Mode::Single | Mode::Ramp(_) | Mode::Capacity(_) => String::new(),
    };
    let mut text = format!(
        "{}  {load}, {connections}connections {keep}, {threads}{too_many}{each}\n",
        job.url
    );
    for check in job.checks.iter().take(MAX_CHECKS_SHOWN) {
        _ = writeln!(text, "checked: {check}");
    }
    if job.checks.len() > MAX_CHECKS_SHOWN {
        _ = writeln!(
            text,
            "checked: {} paths more, each so",
            job.checks.len() - MAX_CHECKS_SHOWN
        );
    }
    if !job.traffic.bits_per_s.is_empty() {
        _ = writeln!(
            text,
            "bandwidth: {:?} bits per second, in turn",
            job.traffic.bits_per_s
        );
    }
    if matches!(job.traffic.mix, Mix::Sessions(_)) {
        text.push_str("visitors follow the script; each is a new connection without cookies\n");
    }
    text.push('\n');
    text
}

/// The schedule of requests.
fn show_schedule(job: &Job) -> String {
    match job.traffic.schedule {
        Schedule::Closed { think } if think.is_none() => "closed loop".into(),
        Schedule::Closed { think } => {
            let time = units::show_durations(think.least, think.most);
            format!("closed loop, {time} think time")
        }
        Schedule::Open { .. } if matches!(job.mode, Mode::Ramp(_) | Mode::Capacity(_)) => {
            "open loop".into()
        }
        Schedule::Open {
            rate_per_s,
            arrivals,
        } => {
            let spacing = match arrivals {
                Arrivals::Constant => "equally spaced",
                Arrivals::Poisson => "at random (Poisson)",
            };
            let unit = job.traffic.mix.rate_unit().per_s();
            format!("open loop, {rate_per_s} {unit} {spacing}")
        }
    }
}

/// One run in full.
fn run_text(run: &Run) -> String {
    let result = &run.result;
    let seconds = result.window_ns as f64 / 1e9;
    let in_window = result
        .timeline
        .iter()
        .map(|second| second.body_bytes)
        .sum::<u64>();
    let transfer = show_bytes((in_window as f64 / seconds) as u64);
    let mut lines = vec![
        ("measured", format!("{} s", significant(seconds, 4))),
        ("requests", requests_text(result)),
        ("rate", rate_text(run)),
        (
            "transfer",
            format!(
                "{transfer}/s of bodies, {} while measuring",
                show_bytes(in_window)
            ),
        ),
        ("connections", connections_text(run)),
        ("client CPU", client_cpu(run)),
        ("client host", client_host(result)),
        ("engine", engine_text(result)),
    ];
    if run.pace.is_some() {
        lines.insert(3, ("backlog", backlog_text(result)));
    }
    if result.client_delay.count() == 0 {
        lines.push(("client delay", no_delay_reason(result).into()));
    }
    if result.speed_error_ppm.count() > 0 {
        lines.push(("bandwidth", bandwidth_text(&result.speed_error_ppm)));
    }
    if result.sessions + result.sessions_begun > 0 {
        lines.push(("sessions", sessions_text(run)));
    }
    let mut text = String::new();
    for (name, value) in lines {
        _ = writeln!(text, "{name:12} {value}");
    }
    if result.latency.count() == 0 {
        return text + "\nno successful request, so there is no latency to show\n";
    }
    format!(
        "{text}\n{}\n{}",
        quantiles(result),
        histogram(&result.latency)
    )
}

/// The rate of successful responses in the window, and the requested rate.
fn rate_text(run: &Run) -> String {
    let ok = format!("{}/s successful requests", show_rate(run.result.ok_per_s()));
    match (run.rate_per_s, run.unit) {
        (Some(requested), RateUnit::Requests) => {
            format!("{ok}, {}/s asked for", show_rate(requested))
        }
        // The requested rate is that of visitors, which has a separate line.
        (Some(_), RateUnit::Visitors) | (None, _) => ok,
    }
}

/// The number of visitors who left. If visitors arrive at a rate, also the rates of arrivals and departures, and the requested
/// rate.
fn sessions_text(run: &Run) -> String {
    let ended = show_count(run.result.sessions);
    match run.rate_per_s {
        None => format!("{ended} ended"),
        Some(requested) => format!(
            "{ended} ended; {}/s begun, {}/s ended, {}/s asked for",
            show_rate(run.result.sessions_begun_per_s()),
            show_rate(run.result.sessions_ended_per_s()),
            show_rate(requested)
        ),
    }
}

/// Requests that were due but not answered, at the window's beginning and end.
fn backlog_text(result: &LoadResult) -> String {
    let growth = result.backlog_growth_per_s();
    let sign = if growth < 0.0 { "-" } else { "+" };
    format!(
        "{} requests at the end, {} at the beginning ({sign}{}/s)",
        show_count(result.backlog_close),
        show_count(result.backlog_open),
        show_rate(growth.abs())
    )
}

/// `planned = ok + each fault + unsent`.
fn requests_text(result: &LoadResult) -> String {
    let mut text = format!(
        "{} planned = {} ok",
        show_count(result.planned),
        show_count(result.ok)
    );
    for (fault, count) in &result.faults {
        _ = write!(
            text,
            " + {} {}",
            show_count(*count),
            judge::report::fault(*fault)
        );
    }
    _ = write!(text, " + {} unsent", show_count(result.unsent));
    if result.repeated > 0 {
        let repeated = show_count(result.repeated);
        _ = write!(
            text,
            "; {repeated} sent again that the server had not taken"
        );
    }
    if result.withdrawn > 0 {
        _ = write!(
            text,
            "; {} under way at the early end not counted",
            result.withdrawn
        );
    }
    text
}

fn connections_text(run: &Run) -> String {
    let LoadResult {
        connections_asked,
        connections_opened,
        connections_held,
        incidents,
        ..
    } = &run.result;
    let left_open = match incidents.left_open {
        0 => String::new(),
        count => format!(
            ", {} left open by the server after the last response",
            show_count(count)
        ),
    };
    format!(
        "{connections_asked} asked for, at most {connections_held} held, {} opened while measuring{left_open}",
        show_count(*connections_opened)
    )
}

fn client_cpu(run: &Run) -> String {
    let result = &run.result;
    let all_ns: u64 = result.client_cpu_ns.iter().sum();
    // Both the CPU time and the requests are those of the window. A request counts if it ended in the
    // window, whenever it was due.
    let faults: u64 = result.timeline.iter().map(|second| second.faults).sum();
    let each = match result.ok_in_window + faults {
        0 => String::new(),
        ended => format!("{} per request, ", show_ns(all_ns / ended)),
    };
    let busy: Vec<String> = busy_shares(result)
        .iter()
        .map(|share| format!("{:.0} %", share * 100.0))
        .collect();
    let waits = if run.watches_clock {
        ", active waiting included"
    } else {
        ""
    };
    format!("{each}threads {} busy{waits}", busy.join(", "))
}

/// Why the client delay is unknown.
fn no_delay_reason(result: &LoadResult) -> &'static str {
    match &*result.engine {
        "epoll" => "not seen: the kernel stamped none of the reads looked at",
        "h2" => "not seen over HTTP/2",
        _ => "not seen through io_uring (--engine epoll shows it)",
    }
}

/// The client's CPUs, and the share of them that the hypervisor took.
fn client_host(result: &LoadResult) -> String {
    let stolen = significant(result.stolen() * 100.0, 2);
    format!("CPUs {}, {stolen} % stolen", result.client_cpus)
}

/// How precisely slow connections kept the requested bandwidth.
fn bandwidth_text(error_ppm: &Latency) -> String {
    let [p50, p99, most] =
        [0.5, 0.99, 1.0].map(|share| significant(error_ppm.quantile_ns(share) as f64 / 1e4, 2));
    format!(
        "off by {p50} % at the median, {p99} % at p99, {most} % at most, from first byte to last"
    )
}

fn engine_text(result: &LoadResult) -> String {
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

/// A table of latency, service time, send delay and client delay, as far as there are values.
fn quantiles(result: &LoadResult) -> String {
    let columns = [
        ("latency", &result.latency),
        ("service time", &result.service),
        ("send delay", &result.lateness),
        ("client delay", &result.client_delay),
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

/// Bars on a logarithmic scale of latency; their lengths are proportional to the counts.
fn histogram(latency: &Latency) -> String {
    let values = latency.recorded();
    let fine = bars(&values, &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0]);
    let bars = if fine.len() <= MAX_ROWS {
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
        let length = (count as f64 * BAR_WIDTH as f64 / most as f64).round() as usize;
        // Even a single count is visible.
        let bar = if length == 0 && count > 0 {
            ".".into()
        } else {
            "#".repeat(length)
        };
        let line = format!(
            "to {:>8}  {bar:BAR_WIDTH$} {:>12}",
            show_ns(to_ns),
            show_count(count)
        );
        _ = writeln!(text, "{line}");
    }
    text
}

/// Counts up to each edge, from the first non-empty bar to the last. Edges are `marks` times powers
/// of ten.
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
    let first = bars.iter().position(|(_, count)| *count > 0);
    let last = bars.iter().rposition(|(_, count)| *count > 0);
    match (first, last) {
        (Some(first), Some(last)) => bars[first..=last].to_vec(),
        (None, _) | (_, None) => Vec::new(),
    }
}

/// One line per run of a ramp or a search.
fn table_of_runs(runs: &[Run]) -> String {
    let mut text = format!(
        "{:>20} {:>11} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6}\n",
        "", "ok/s", "p50", "p99", "p99.9", "max", "not ok", "backlog", "client"
    );
    for Run {
        level,
        result,
        unit,
        pace,
        ..
    } in runs
    {
        let level = level
            .map(|level| show_level(level, *unit))
            .unwrap_or_default();
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|q| show_ns(result.latency.quantile_ns(q)));
        let busiest = busy_shares(result).into_iter().fold(0.0, f64::max) * 100.0;
        let (rate, max) = (
            show_rate(result.ok_per_s()),
            show_ns(result.latency.max_ns()),
        );
        let failed = show_count(result.planned - result.ok);
        let backlog = match pace {
            Some(_) => show_count(result.backlog_close),
            None => "-".into(),
        };
        _ = writeln!(
            text,
            "{level:>20} {rate:>11} {p50:>9} {p99:>9} {p999:>9} {max:>9} {failed:>9} {backlog:>9} {busiest:>4.0} %"
        );
    }
    let best = runs
        .iter()
        .max_by(|a, b| a.result.ok_per_s().total_cmp(&b.result.ok_per_s()));
    if let Some(Run {
        level: Some(level),
        result,
        unit,
        ..
    }) = best
    {
        let rate = show_rate(result.ok_per_s());
        _ = writeln!(
            text,
            "\nhighest rate of successful requests: {rate}/s at {}",
            show_level(*level, *unit)
        );
    }
    for run in runs.iter().filter(|run| run.result.planned > run.result.ok) {
        let level = run
            .level
            .map(|level| show_level(level, run.unit))
            .unwrap_or_default();
        _ = writeln!(text, "at {level}: {}", requests_text(&run.result));
    }
    if let Some(run) = runs.first() {
        _ = writeln!(text, "engine: {}", engine_text(&run.result));
    }
    text
}

fn capacity_text(search: &Search) -> String {
    let limit = show_limit(search);
    match search.rate_per_s {
        Some(rate) if search.ended_early => {
            let rate = show_requested_rate(rate);
            format!(
                "capacity: at least {rate} requests/s keep {limit}; ended before the limit was found\n"
            )
        }
        Some(rate) => {
            let rate = show_requested_rate(rate);
            let more = if search.client_was_limit {
                "; the client gave out first, so the server may have more"
            } else {
                ""
            };
            format!("capacity: {rate} requests/s keep {limit}, to within 5 %{more}\n")
        }
        None if search.ended_early => {
            format!(
                "capacity: not found before the early end; no rate tried until then keeps {limit}\n"
            )
        }
        None if search.lowest_per_s <= 1.0 => {
            format!("capacity: not even 1 request/s keeps {limit}\n")
        }
        None => {
            let lowest = show_requested_rate(search.lowest_per_s);
            format!(
                "capacity: not even {lowest} requests/s keep {limit}; fewer have no request in the measured time (measure \
                 longer with -d)\n"
            )
        }
    }
}

/// The limit in the form of the option.
pub(crate) fn show_limit(search: &Search) -> String {
    let (percent, faults) = (search.limit.quantile * 100.0, search.limit.faults * 100.0);
    let time = units::show_duration(search.limit.latency);
    let faults = if faults > 0.0 {
        format!(",faults<{}%", (faults * 1e6).round() / 1e6)
    } else {
        String::new()
    };
    // Six digits: 99.9 has no exact form as a fraction.
    let quantile = match (percent * 1e6).round() / 1e6 {
        100.0.. => "max".into(),
        percent => format!("p{percent}"),
    };
    format!("{quantile}<{time}{faults}")
}

/// A requested rate, without a fraction if it is an integer.
fn show_requested_rate(per_s: f64) -> String {
    if per_s.fract() == 0.0 {
        per_s.to_string()
    } else {
        significant(per_s, 4)
    }
}

fn show_level(level: Level, unit: RateUnit) -> String {
    match level {
        Level::Connections(1) => "1 connection".into(),
        Level::Connections(count) => format!("{count} connections"),
        Level::RatePerS(rate) => format!("{} {}", show_requested_rate(rate), unit.per_s()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use load::exchange::Exchange;
    use load::traffic::End;
    use record::load::{Fault, Second};
    use std::collections::BTreeMap;
    use std::time::Duration;

    fn job(mode: Mode) -> Job {
        let get = Exchange::get("/", load::expect::Expect::status(200));
        let server = ([127, 0, 0, 1], 80).into();
        let traffic = Traffic {
            host: "a.org".into(),
            connections: 64,
            threads: 2,
            deadline: Duration::from_secs(1),
            end: End::After(Duration::from_secs(2)),
            ..Traffic::plain(server, Mix::Round(vec![get]))
        };
        Job {
            url: "http://a.org/".into(),
            traffic,
            mode,
            checks: vec!["GET /: status 200 alone".into()],
            script: None,
            hdr: None,
            timeline: None,
        }
    }

    fn result() -> LoadResult {
        let mut result = LoadResult {
            window_ns: 2_000_000_000,
            planned: 1_004,
            ok: 1_000,
            ok_in_window: 1_000,
            unsent: 1,
            faults: [(Fault::Reset, 2), (Fault::BadStatus, 1)].into(),
            connections_asked: 64,
            connections_opened: 3,
            connections_held: 64,
            body_bytes: 21_500_000,
            timeline: vec![Second {
                body_bytes: 21_500_000,
                ..Second::default()
            }],
            client_cpu_ns: vec![600_000_000, 1_500_000_000],
            client_cpus: "0-1 of 4".into(),
            host_cpu_ns: 12_000_000_000,
            stolen_ns: 30_000_000,
            engine: "epoll".into(),
            engine_note: "epoll was asked for".into(),
            ..LoadResult::default()
        };
        for step in 1..=1_000u64 {
            result.latency.record(step * step * 10);
            result.service.record(step * step * 9);
        }
        result
    }

    fn check(mode: Mode, level: Option<Level>, search: Option<Search>, want: &Expect) {
        let job = job(mode);
        let run = Run::new(level, result(), &job.traffic);
        let outcome = Outcome {
            runs: vec![run],
            search,
            ended_early: true,
            workers: Vec::new(),
        };
        want.assert_eq(&text(&job, &outcome));
    }

    #[test]
    fn a_single_run_is_shown_in_full_with_its_warning_first() {
        check(
            Mode::Single,
            None,
            None,
            &expect![[r#"
            WARNING: the client was the limit: a thread was 75 % busy (the server may be faster; give the client more threads with -t, or another machine)
            ended early: the figures are those of the time until then
            http://a.org/  closed loop, 64 connections kept alive, 2 client threads
            checked: GET /: status 200 alone

            measured     2.000 s
            requests     1,004 planned = 1,000 ok + 2 connection reset + 1 wrong status + 1 unsent
            rate         500/s successful requests
            transfer     10.3 MiB/s of bodies, 20.5 MiB while measuring
            connections  64 asked for, at most 64 held, 3 opened while measuring
            client CPU   2.10 ms per request, threads 30 %, 75 % busy
            client host  CPUs 0-1 of 4, 0.25 % stolen
            engine       epoll (epoll was asked for)
            client delay not seen: the kernel stamped none of the reads looked at

                           latency service time
            mean           3.34 ms      3.00 ms
            p50            2.50 ms      2.25 ms
            p75            5.63 ms      5.06 ms
            p90            8.10 ms      7.29 ms
            p95            9.03 ms      8.13 ms
            p99            9.81 ms      8.82 ms
            p99.9          10.0 ms      9.00 ms
            p99.99         10.0 ms      9.00 ms
            max            10.0 ms      9.00 ms

            to    10 ns  .                                                   1
            to    20 ns                                                      0
            to    50 ns  .                                                   1
            to   100 ns  .                                                   1
            to   200 ns  .                                                   1
            to   500 ns  .                                                   3
            to  1.00 µs  .                                                   3
            to  2.00 µs  #                                                   4
            to  5.00 µs  #                                                   8
            to  10.0 µs  #                                                   9
            to  20.0 µs  ##                                                 13
            to  50.0 µs  ####                                               26
            to   100 µs  ####                                               29
            to   200 µs  ######                                             42
            to   500 µs  ###########                                        82
            to  1.00 ms  #############                                      93
            to  2.00 ms  ##################                                131
            to  5.00 ms  ###################################               259
            to  10.0 ms  ########################################          293
            to  20.0 ms  .                                                   1
        "#]],
        );
    }

    #[test]
    fn a_search_is_shown_by_its_runs_and_its_result() {
        let limit = crate::load_cli::options::limit("p99.9<5ms,faults<0.5%").unwrap();
        let search = Search {
            limit,
            rate_per_s: Some(1234.5),
            lowest_per_s: 1000.0,
            ended_early: false,
            client_was_limit: true,
        };
        let level = Level::RatePerS(1234.5);
        check(
            Mode::Capacity(limit),
            Some(level),
            Some(search),
            &expect![[r#"
                WARNING: at 1235 requests/s: the client was the limit: a thread was 75 % busy (the server may be faster; give the client more threads with -t, or another machine)
                ended early: the figures are those of the time until then
                http://a.org/  closed loop, 64 connections kept alive, 2 client threads
                checked: GET /: status 200 alone

                                            ok/s       p50       p99     p99.9       max    not ok   backlog client
                     1235 requests/s         500   2.50 ms   9.81 ms   9.99 ms   10.0 ms         4         0   75 %

                highest rate of successful requests: 500/s at 1235 requests/s
                at 1235 requests/s: 1,004 planned = 1,000 ok + 2 connection reset + 1 wrong status + 1 unsent
                engine: epoll (epoll was asked for)
                capacity: 1235 requests/s keep p99.9<5ms,faults<0.5%, to within 5 %; the client gave out first, so the server may have more
            "#]],
        );
    }

    #[test]
    fn an_interrupted_search_shows_its_result_so_far() {
        let text = |rate_per_s| {
            capacity_text(&Search {
                limit: crate::load_cli::options::limit("p99<5ms").unwrap(),
                rate_per_s,
                lowest_per_s: 1.0,
                ended_early: true,
                client_was_limit: false,
            })
        };
        expect![[r#"
            capacity: at least 2000 requests/s keep p99<5ms; ended before the limit was found
            capacity: not found before the early end; no rate tried until then keeps p99<5ms
        "#]]
        .assert_eq(&(text(Some(2000.0)) + &text(None)));
    }

    #[test]
    fn a_search_that_finds_nothing_names_the_lowest_rate_that_it_tried() {
        let text = |lowest_per_s| {
            capacity_text(&Search {
                limit: crate::load_cli::options::limit("p99<1us").unwrap(),
                rate_per_s: None,
                lowest_per_s,
                ended_early: false,
                client_was_limit: false,
            })
        };
        expect![[r#"
            capacity: not even 1 request/s keeps p99<1us
            capacity: not even 5 requests/s keep p99<1us; fewer have no request in the measured time (measure longer with -d)
        "#]]
        .assert_eq(&(text(1.0) + &text(5.0)));
    }

    /// An open loop of 2 s: 1,000 of 6,000 requests were answered in the window, the others later.
    fn overloaded(mix: Mix) -> (Job, Run) {
        let mut job = job(Mode::Single);
        job.traffic = Traffic {
            mix,
            threads: 100,
            schedule: Schedule::Open {
                rate_per_s: 3000.0,
                arrivals: Arrivals::Constant,
            },
            ..job.traffic
        };
        let result = LoadResult {
            planned: 6_000,
            ok: 6_000,
            ok_in_window: 1_000,
            unsent: 0,
            faults: BTreeMap::new(),
            backlog_close: 5_000,
            sessions: 800,
            sessions_begun: 1_000,
            body_bytes: 129_000_000,
            ..result()
        };
        let run = Run::new(None, result, &job.traffic);
        (job, run)
    }

    /// The lines that start with one of the prefixes.
    fn lines(text: &str, prefixes: &[&str]) -> String {
        let wanted = |line: &&str| prefixes.iter().any(|prefix| line.starts_with(prefix));
        text.lines().filter(wanted).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn cpu_time_and_bytes_are_those_of_responses_in_the_window() {
        let (job, run) = overloaded(Mix::Round(vec![]));
        let text = heading(&job) + &run_text(&run);
        expect![[r#"
            http://a.org/  open loop, 3000 requests/s equally spaced, 64 connections kept alive, 64 client threads (100 asked for; each has a connection)
            rate         500/s successful requests, 3,000/s asked for
            transfer     10.3 MiB/s of bodies, 20.5 MiB while measuring
            client CPU   2.10 ms per request, threads 30 %, 75 % busy, active waiting included
            sessions     800 ended; 500/s begun, 400/s ended, 3,000/s asked for"#]]
        .assert_eq(&lines(&text, &["http", "rate", "transfer", "client CPU", "sessions"]));
    }

    #[test]
    fn the_rate_of_a_script_is_that_of_visitors() {
        let script = load::script::Script::read("shop", "visit /\nthink 1s\nvisit /a\n").unwrap();
        let (job, run) = overloaded(Mix::Sessions(script.clone()));
        let text = heading(&job) + &run_text(&run);
        expect![[r#"
            http://a.org/  open loop, 3000 visitors/s equally spaced, 64 connections kept alive, 64 client threads (100 asked for; each has a connection)
            rate         500/s successful requests
            sessions     800 ended; 500/s begun, 400/s ended, 3,000/s asked for"#]]
        .assert_eq(&lines(&text, &["http", "rate", "sessions"]));
        expect!["too few connections: 500/s visitors begun of 3,000/s asked for, with 64 connections that were taken while the server had little to do (each visitor keeps one until it leaves: ask for more with -c)"]
            .assert_eq(&run.warnings.join("\n"));
        assert_eq!(show_level(Level::RatePerS(50.0), run.unit), "50 visitors/s");
    }
}
