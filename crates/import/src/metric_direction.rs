//! Which direction is better: typed by the user, stated in the file, or a guess that is always reported.
//!
//! The name and the unit are read separately. If they contradict each other, nothing is guessed.

use record::metric::Direction;

/// Units of a duration.
const TIME_UNITS: &str = "\
    s ms us µs μs ns ps sec secs second seconds msec usec nsec millisecond milliseconds \
    microsecond microseconds nanosecond nanoseconds min mins minute minutes hour hours";

/// Times at the end of a name; not `sec`, because `ops_sec` is a rate.
const TIME_ENDS: &str = "\
    ms us ns msec usec nsec seconds milliseconds microseconds nanoseconds";

/// Units of energy and of power.
const ENERGY_UNITS: &str = "\
    j joule joules w watt watts j/s";

/// Units of work.
const WORK_UNITS: &str = "\
    op ops operation iteration iter request req call item query byte b kb mb gb packet pkt event \
    transaction txn msg message elem element row key instruction insn loop frame";

/// Units of a rate that contain no `/`.
const SPEED_UNITS: &str = "\
    mips fps rps qps tps pps cps iops kiops ops flops kflops mflops gflops tflops bps kbps mbps \
    gbps kibps mibps gibps score points marks tpmc tpm nps kn/s mh/s";

/// Words for failures. Less is better whatever else the name contains, as in `error rate`.
const FAILURES: &str = "\
    majf minf majflt minflt pgfault pgmajfault reconnects unreachable error errors err errs fail \
    failed fails failing failure failures unsuccessful fault faults majfault minfault miss \
    misses missed drop drops dropped loss lost losses timeout timeouts timedout retry retries \
    retried retransmit retransmits retransmitted retransmissions retrans retr reject rejected \
    rejects rejections abort aborted aborts invalid refused rollbacks deadlocks stall stalls \
    stalled throttled overruns violations leaks crashes evictions errored crashed crash panics \
    panic exceptions exception incorrect mismatch mismatches disconnects disconnected resets \
    kills killed restarts denied unavailable broken corrupted corruptions collisions skipped 4xx \
    5xx non2xx bad slowdown swaps swapouts leaked leak overflow overflows underruns conflicts \
    conflict losing";

/// Words for costs.
const COSTS: &str = "\
    latency latencies lat clat slat time times duration elapsed delay delays lag wait waits \
    waiting await blocked jitter overhead rtt ttfb runtime walltime realtime wall rss vsz pss \
    uss maxrss allocs allocations allocated alloc instructions instrs cycles footprint energy \
    joules watts pause pauses cost cpi steal iowait svctm makespan ticks downtime percentile \
    stddev variance cv backlog penalty contention fragmentation bloat ttft tpot itl sojourn \
    drain lateness slowest joule price mttr";

/// Costs, unless another word decides.
const RESOURCES: &str = "\
    cpu memory mem heap power usage utilization utilisation response load gc connect";

/// Words for gains.
const GAINS: &str = "\
    throughput thrpt bandwidth bw speed speedup score rps qps tps iops ops fps mips flops gflops \
    mflops goodput hit hits success successes successful succeeded successrate passed \
    availability efficiency performance ipc uptime tpmc tpm nopm opm cps pps bps mbps gbps kbps \
    bops rating served completed processed teps gups nps mlups accuracy precision recall \
    coverage yield capacity headroom free quality psnr ssim kops mops mtbf apdex";

/// Gains, unless another word decides.
const WORK: &str = "\
    rate requests reqs req connects transactions txns queries operations messages msgs events \
    frames iterations transfers transfer commits inserts reads writes gets sets items jobs bogo \
    loops transferred sent received responses packets conversions samples images tokens rows \
    records docs keys blocks hashes steps epochs calls pages files lookups hashrate signs \
    verifies flows sessions users trans";

/// Neither a cost nor a gain: more of it is neither better nor worse.
const NEUTRAL: &str = "\
    cswch nvcswch switches csw interrupts irqs intr wakeups migrations syscalls depth queue \
    threads clients concurrency vus temperature temp celsius frequency freq mhz ghz size seed \
    version goroutines entropy workers processes gcs compactions branches idle length uid pid \
    port swap";

/// Words that reverse others, or whose direction depends on what they count. Nothing is guessed.
const REVERSING: &str = "\
    saved saving savings avoided prevented freed available lifetime battery slack stale unanswered \
    perplexity status survived tolerated recovered remaining left";

/// Words before a failure that make the failure an end point instead of a count.
const UNTIL: &str = "to until till before between per without";

/// A direction and where it comes from.
pub(crate) type Known = (Direction, String);

/// What the name and the unit indicate together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Guess {
    /// They do not contradict each other.
    Known(Known),
    /// One indicates a cost, the other a gain.
    Contradiction,
    /// Neither indicates a direction.
    Unknown,
}

/// What a name or a unit indicates alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hint {
    /// This direction, and no unit overrides it.
    Clear(Direction),
    /// This direction unless the unit decides: `cpu` is a cost in `ms` and a gain in `points`.
    Vague(Direction),
    /// More of it is neither better nor worse.
    Neutral,
    /// Words of both kinds.
    Mixed,
    /// No known word.
    Silent,
}

/// Guesses the direction of a metric from its name and unit.
pub(crate) fn guess(metric: &str, unit: &str) -> Guess {
    let known =
        |direction, what: &str| Guess::Known((direction, format!("guessed from the {what}")));
    match (by_name(metric), by_unit(metric, unit)) {
        (Hint::Neutral, Hint::Clear(Direction::Lower)) if is_duration(unit) => {
            known(Direction::Lower, &format!("unit {unit}"))
        }
        (Hint::Mixed, _) | (_, Hint::Mixed) => Guess::Contradiction,
        (Hint::Clear(name), Hint::Clear(unit)) if name != unit => Guess::Contradiction,
        (Hint::Neutral, _) | (_, Hint::Neutral) | (Hint::Silent, Hint::Silent) => Guess::Unknown,
        (_, Hint::Clear(direction) | Hint::Vague(direction)) => {
            known(direction, &format!("unit {unit}"))
        }
        (Hint::Clear(direction) | Hint::Vague(direction), Hint::Silent) => known(direction, "name"),
    }
}

/// Whether a unit is a time or a rate, whose figures never repeat exactly by chance.
pub(crate) fn is_measured(unit: &str) -> bool {
    is_duration(unit) || by_unit("", unit) == Hint::Clear(Direction::Higher)
}

fn is_duration(unit: &str) -> bool {
    let unit = unit.to_lowercase();
    is_in(unit.split('/').next().unwrap_or_default(), TIME_UNITS)
}

/// Hint of a unit; a bare `/s` depends on what the metric counts.
fn by_unit(metric: &str, unit: &str) -> Hint {
    let unit = format!(" {}", unit.trim().trim_end_matches('.').to_lowercase());
    let unit = unit.replace(" per ", "/");
    let unit = unit.trim();
    if is_in(unit, TIME_UNITS) || is_in(unit, ENERGY_UNITS) {
        return Hint::Clear(Direction::Lower);
    }
    if is_in(unit, SPEED_UNITS) {
        return Hint::Clear(Direction::Higher);
    }
    match unit.rsplit_once('/') {
        Some(("" | "1" | "#", per)) => per_something(&words(metric), per),
        Some((counted, per)) => per_something(&words(counted), per),
        // `build-ns`, as a unit of Go's own benchmarks.
        None => by_words(&words(unit)),
    }
}

/// Hint of a ratio such as `errors/s`, `ns/op`, `instructions/cycle`.
fn per_something(counted: &[String], per: &str) -> Hint {
    let hint = by_words(counted);
    match hint {
        Hint::Neutral | Hint::Mixed => hint,
        Hint::Clear(_) if is_failure(counted) => hint,
        // Costs per second grow with the work done.
        Hint::Clear(Direction::Lower) | Hint::Vague(Direction::Lower) if is_time(per) => {
            Hint::Neutral
        }
        _ if is_time(per) || is_cost(per) => Hint::Clear(Direction::Higher),
        // Work per work indicates nothing.
        Hint::Clear(Direction::Higher) | Hint::Vague(Direction::Higher) => Hint::Silent,
        _ if is_work(per) => Hint::Clear(Direction::Lower),
        Hint::Clear(_) | Hint::Vague(_) | Hint::Silent => hint,
    }
}

fn is_time(per: &str) -> bool {
    is_in(per, TIME_UNITS) || is_in(per, "h m d day")
}

fn is_cost(per: &str) -> bool {
    is_in(per, "cycle watt w joule j dollar core cpu thread")
}

fn is_work(per: &str) -> bool {
    is_in(per, WORK_UNITS)
}

fn by_name(metric: &str) -> Hint {
    let words = words(metric);
    // `time per request`, `ops/sec`; but not `a/b` and `read/write`.
    let is_per = |pair: &[String]| {
        let per = pair[1].as_str();
        let is_known = is_time(per) || is_cost(per) || is_work(per);
        pair[0] == "per" && is_known && (per.len() > 1 || per == "s")
    };
    match words.windows(2).position(is_per) {
        Some(place) if !is_failure(&words) => per_something(&words[..place], &words[place + 1]),
        Some(_) | None => by_words(&words),
    }
}

fn is_failure(words: &[String]) -> bool {
    let ends = [
        "error", "errors", "failure", "failures", "failed", "misses", "faults", "timeouts",
    ];
    let is_failure_word =
        |word: &String| is_in(word, FAILURES) || ends.iter().any(|end| word.ends_with(end));
    let is_other_status = |pair: &[String]| pair[0] == "non" && pair[1].starts_with('2');
    words.iter().any(is_failure_word) || words.windows(2).any(is_other_status)
}

/// Whether the meaning is reversed: `memory saved`, `time to first failure`, `requests per error`.
fn is_reversed(words: &[String]) -> bool {
    let until = words.iter().position(|word| is_in(word, UNTIL));
    words.iter().any(|word| is_in(word, REVERSING))
        || until.is_some_and(|place| is_failure(&words[place..]))
}

/// Whether a word is a cost: `walltime`, `p99latency`; but not `uptime`.
fn is_cost_word(word: &str) -> bool {
    let ends = ["time", "latency", "delay", "overhead"];
    is_in(word, COSTS) || (!is_in(word, GAINS) && ends.iter().any(|end| word.ends_with(end)))
}

fn is_in(word: &str, list: &str) -> bool {
    list.split(' ').any(|known| known == word)
}

/// The hint of several words: failures first, then clear hints, then vague ones.
fn by_words(words: &[String]) -> Hint {
    let has = |list: &str| words.iter().any(|word| is_in(word, list));
    let ends_in = |list| words.last().is_some_and(|word| is_in(word, list));
    let (gains, resources, work) = (has(GAINS), has(RESOURCES), has(WORK));
    let costs = words
        .iter()
        .any(|word| is_cost_word(word) || is_quantile(word));
    let costs = costs || (words.len() > 1 && ends_in(TIME_ENDS) && !gains);
    if is_reversed(words) {
        return Hint::Mixed;
    }
    if is_failure(words) {
        return Hint::Clear(Direction::Lower);
    }
    if ends_in(NEUTRAL) || (has(NEUTRAL) && !costs && !gains) {
        return Hint::Neutral;
    }
    match (costs, gains) {
        (true, true) => Hint::Mixed,
        // `allocation rate`, `wait rate`: neither a time nor work.
        (true, false) if words.last().is_some_and(|word| word == "rate") => Hint::Mixed,
        (true, false) => Hint::Clear(Direction::Lower),
        (false, true) => Hint::Clear(Direction::Higher),
        (false, false) => match (resources, work) {
            (true, false) => Hint::Vague(Direction::Lower),
            (false, true) => Hint::Vague(Direction::Higher),
            (true, true) | (false, false) => Hint::Silent,
        },
    }
}

/// Whether a word is a quantile: `p50`, `p99`, `p999`, `p99_9`; not `p4`.
fn is_quantile(word: &str) -> bool {
    let digits = word.strip_prefix('p').or_else(|| word.strip_suffix("th"));
    digits.is_some_and(|digits| digits.parse::<u32>().is_ok_and(|quantile| quantile > 9))
}

/// The words of a name in lower case. `GetLatencyP99`, `HTTPRequestsFailed` and `ops/sec` have three
/// each; `/` becomes `per`.
fn words(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut words = vec![String::new()];
    for (index, letter) in letters.iter().enumerate() {
        let before = index.checked_sub(1).map_or(' ', |index| letters[index]);
        let after = letters.iter().skip(index + 1).take(3);
        let begins = before.is_lowercase()
            || (before.is_uppercase() && after.filter(|letter| letter.is_lowercase()).count() == 3);
        if !letter.is_alphanumeric() || (letter.is_uppercase() && begins) {
            words.push(String::new());
        }
        if *letter == '/' {
            words.extend(["per".to_string(), String::new()]);
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests;
