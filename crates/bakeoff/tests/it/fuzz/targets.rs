//! The targets: one for each kind of input from outside.

use std::io::Read as _;
use std::path::Path;

use base::input::text;
use base::latency::{Latency, Packed};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::{ZlibDecoder, ZlibEncoder};
use import::{self, compare::ImportOptions, layout::ArmOrder, layout::Layout};
use machine::console;
use plan::Checks;
use profiler::kernel::{self, Function, KernelSymbols};
use profiler::profile::Profile;
use profiler::resolve::{Names, resolve};
use profiler::{counter, elf, format, raw, unpack};
use record::counters::Counters;
use record::disturbances::BegunDisturbance;
use record::evidence::{Facts, Sample};
use record::hardware_counters::{CountedWindow, EventCounts, HardwareCounters};
use record::journal;
use record::load::{LoadResult, Second, Tick};
use record::metric::{Direction, Figure, Role};
use record::protocol::session::{CheckedMessage, Session};
use record::protocol::{FromAgent, Greeting, Inbox, PROTOCOL};
use record::rundir;
use record::rundir::{TRIAL_VERSION, TrialRecord};
use record::thinned::{Point as _, Thinned};
use record::trial::{JobResult, Measurement, Outcome, Phase, Trial};
use record::validate;
use stats::fixed_sample;
use stats::fixed_sample::Terms;

use super::{Corpus, fuzz};

fn latency() -> Latency {
    let mut latency = Latency::new();
    (1..200).for_each(|step| latency.record(step * step * 1000));
    latency
}

fn load() -> LoadResult {
    let mut coarse = Latency::coarse();
    (1..50).for_each(|step| coarse.record(step * 70_000));
    let second = |index: u64| Second {
        at_ms: index * 1000,
        ok: 49,
        latency: coarse.pack(),
        ..Second::default()
    };
    LoadResult {
        window_ns: 2_000_000_000,
        planned: 98,
        ok: 98,
        ok_in_window: 98,
        latency: latency(),
        timeline: vec![second(0), second(1)],
        client_cpu_ns: vec![7],
        engine: "epoll".into(),
        ..LoadResult::default()
    }
}

fn figure() -> Figure {
    let direction = Direction::Higher;
    Figure::new("throughput", "requests/s", direction, Role::Primary, 49.5)
}

fn hardware_counters() -> HardwareCounters {
    let counts = EventCounts {
        instructions: 5e9,
        cycles: 6e9,
        ..EventCounts::default()
    };
    HardwareCounters::Counted(CountedWindow {
        services: [("nginx".to_string(), counts)].into(),
        system: counts,
    })
}

/// All messages of an agent in a trial, as frames.
fn conversation() -> Vec<u8> {
    let mut facts = Facts::default();
    facts
        .values
        .insert("/proc/version".into(), "Linux 6.1".into());
    facts.boot_log.push("booting".into());
    let sample = |at_ms| {
        FromAgent::Sample(Box::new(Sample {
            at_ms,
            interval_ms: 1000,
            softirqs: [("NET_RX".to_string(), 5)].into(),
            ..Sample::default()
        }))
    };
    let measurement = Measurement {
        figures: vec![figure()],
        load: Some(load()),
        hardware_counters: Some(hardware_counters()),
        kernel: "6.1.0-40-cloud-amd64 #1".into(),
        server: "nginx 1.22".into(),
        ..Measurement::default()
    };
    let result = JobResult {
        measurement,
        facts,
        ..JobResult::default()
    };
    let mut messages = vec![
        FromAgent::Hello(greeting()),
        FromAgent::Phase(Phase::SettingUp),
        FromAgent::Phase(Phase::WarmingUp),
        FromAgent::Tick(Tick {
            second: 1,
            ok: 49,
            ended: load().timeline,
            ..Tick::default()
        }),
        sample(0),
        FromAgent::Phase(Phase::Measuring),
        sample(1000),
        FromAgent::Counters(Box::new(Counters {
            at_ms: 1000,
            values: [("slab:filp".to_string(), 4096)].into(),
            limits: [("memory:total".to_string(), 1 << 30)].into(),
            joined: None,
        })),
        FromAgent::Disturbance(BegunDisturbance {
            name: "loss".into(),
            begin_ms: 1000,
            end_ms: Some(2000),
        }),
    ];
    messages.extend(record::protocol::result_messages(result));
    let mut line = Vec::new();
    for message in messages {
        record::protocol::send(&mut line, &message).unwrap();
    }
    line
}

fn greeting() -> Greeting {
    Greeting {
        protocol: PROTOCOL,
        build: "test".into(),
    }
}

/// Messages that a session accepts can be added up, written and read back.
fn run_session(line: &[u8]) {
    let mut inbox = Inbox::new(line, 1 << 20);
    let mut session = Session::new(greeting());
    let mut sampled_ms = i64::MIN;
    while let Ok(message) = inbox.receive::<FromAgent>() {
        match session.accept(message) {
            Err(why) => {
                assert_eq!(text::clean_line(&why), why);
                return;
            }
            Ok(CheckedMessage::Sample(sample)) => {
                assert!(sampled_ms <= sample.at_ms);
                sampled_ms = sample.at_ms;
            }
            Ok(CheckedMessage::Failed { detail, .. }) => assert_eq!(text::clean(&detail), detail),
            Ok(CheckedMessage::Done(done)) => check_result(*done),
            Ok(CheckedMessage::Tick(tick)) => check_seconds(&tick.ended),
            Ok(CheckedMessage::Defect(mut defect)) => {
                let top = defect.top.clone();
                validate::defect(&mut defect).unwrap();
                assert_eq!(defect.top, top);
            }
            Ok(CheckedMessage::Counters(counters)) => {
                let both = [*counters.clone(), *counters];
                assert_eq!(Counters::join(&both).readings(), 2);
            }
            Ok(CheckedMessage::Disturbance(mut begun)) => {
                let same = begun.clone();
                validate::begun_disturbance(&mut begun).unwrap();
                assert_eq!(begun, same);
            }
            Ok(
                CheckedMessage::Hello
                | CheckedMessage::Phase(_)
                | CheckedMessage::KernelLog(_)
                | CheckedMessage::Part,
            ) => {}
        }
    }
}

/// Accepted seconds can be added up and thinned.
fn check_seconds(ended: &[Second]) {
    let mut series = Thinned::default();
    for second in ended {
        series.push(second.clone());
        series.push(second.clone());
    }
    assert!(series.len() <= ended.len().max(1));
    Second::join(&series.into_vec());
}

fn check_result(done: JobResult) {
    for figure in &done.measurement.figures {
        assert!(figure.value.is_finite() && 0.0 <= figure.value);
        assert!(text::is_name(&figure.spec.name));
    }
    let outcome = Outcome::Measured(Box::new(done.measurement));
    let text = serde_json::to_vec(&outcome).unwrap();
    let mut back: Outcome = serde_json::from_slice(&text).unwrap();
    assert_eq!(back, outcome);
    validate::outcome(&mut back).unwrap();
    assert_eq!(back, outcome);
    use_latencies(&back);
}

/// Uses latencies like the verdict and the report.
fn use_latencies(outcome: &Outcome) {
    let Outcome::Measured(measurement) = outcome else {
        return;
    };
    let Some(load) = &measurement.load else {
        return;
    };
    assert!(load.ok_per_s().is_finite());
    let _ = load.fault_count();
    let mut all = Latency::new();
    for latency in [&load.latency, &load.service, &load.lateness] {
        all.merge(latency);
    }
    for second in &load.timeline {
        all.merge(&second.latency.unpack());
    }
    let _ = (
        all.quantile_ns(0.5),
        all.mean_ns(),
        all.max_ns(),
        all.curve(5),
    );
}

#[test]
fn streams_of_agents() {
    let line = conversation();
    run_session(&line);
    let corpus = Corpus {
        inputs: vec![line],
        words: &[
            "{",
            "}",
            "[",
            "]",
            "\"",
            ",",
            "null",
            "\u{1b}[2J",
            "\0\0\0\0",
            "\u{7}\0\0\0",
            "..",
            "\\u0007",
        ],
    };
    fuzz("line", 1250, corpus, run_session);
}

/// One message at a time. The frame's length is right, so that changes reach the message itself.
#[test]
fn messages_of_agents() {
    let mut bodies = Vec::new();
    let mut line = &conversation()[..];
    while let Ok(message) = record::protocol::receive::<serde_json::Value>(&mut line) {
        bodies.push(serde_json::to_vec(&message).unwrap());
    }
    assert!(bodies.len() > 8);
    let corpus = Corpus {
        inputs: bodies,
        words: &[
            "{",
            "}",
            "[]",
            "\"",
            ",",
            "null",
            "-",
            "\\u001b[2J",
            "..",
            "/",
            "\\n",
            "\"Samples\":",
        ],
    };
    fuzz("message", 10_000, corpus, |body| {
        let mut line = Vec::new();
        for message in [
            FromAgent::Hello(greeting()),
            FromAgent::Phase(Phase::WarmingUp),
        ] {
            record::protocol::send(&mut line, &message).unwrap();
        }
        line.extend((body.len() as u32).to_le_bytes());
        line.extend(body);
        run_session(&line);
    });
}

#[test]
fn histograms() {
    let texts = [
        serde_json::to_string(&latency()).unwrap(),
        serde_json::to_string(&load().timeline[0].latency).unwrap(),
    ];
    let corpus = Corpus {
        inputs: texts.map(String::into_bytes).to_vec(),
        words: &["AAAA", "////", "=", "\"", "HISTFAAA"],
    };
    fuzz("histogram", 10_000, corpus, merge);
}

/// The histograms without compression, changed and packed again.
#[test]
fn histograms_unpacked() {
    let unpacked = |text: String| {
        let packed = STANDARD.decode(text.trim_matches('"')).unwrap();
        let mut bytes = Vec::new();
        let mut reader = ZlibDecoder::new(&packed[8..]);
        reader.read_to_end(&mut bytes).unwrap();
        bytes
    };
    let texts = [
        serde_json::to_string(&latency()).unwrap(),
        serde_json::to_string(&load().timeline[0].latency).unwrap(),
    ];
    let corpus = Corpus {
        inputs: texts.map(unpacked).to_vec(),
        words: &["\0\0\0\0", "\0", "\u{1}", "\u{7f}", "AAAAAAAA"],
    };
    fuzz("histogram-unpacked", 500, corpus, |bytes| {
        for length in [None, bytes.len().checked_sub(40)] {
            let mut bytes = bytes.to_vec();
            // With the right length, changes reach the counts themselves.
            if let Some(length) = length {
                bytes[4..8].copy_from_slice(&(length as u32).to_be_bytes());
            }
            let mut packed = Vec::new();
            let mut writer = ZlibEncoder::new(&*bytes, Compression::fast());
            writer.read_to_end(&mut packed).unwrap();
            let mut whole = vec![0x1c, 0x84, 0x93, 0x14];
            whole.extend((packed.len() as u32).to_be_bytes());
            whole.extend(packed);
            merge(format!("\"{}\"", STANDARD.encode(whole)).as_bytes());
        }
    });
}

/// A histogram that was read can be merged with any other.
fn merge(text: &[u8]) {
    if let Ok(read) = serde_json::from_slice::<Latency>(text) {
        let (mut fine, mut coarse) = (latency(), Latency::coarse());
        fine.merge(&read);
        coarse.merge(&read);
        assert_eq!(coarse.count(), read.count());
        let _ = (fine.quantile_ns(0.99), fine.mean_ns(), fine.recorded());
    }
    if let Ok(read) = serde_json::from_slice::<Packed>(text) {
        let mut twice = read.clone();
        twice.merge(&read);
        assert_eq!(twice.unpack().count(), 2 * read.unpack().count());
    }
}

#[test]
fn records_of_trials() {
    let trial = Trial {
        number: 1,
        block: 1,
        slot: 1,
        arm: "a".into(),
        workload: "web".into(),
    };
    let record = TrialRecord {
        version: TRIAL_VERSION,
        trial,
        attempt: 1,
        outcome: Outcome::Measured(Box::new(Measurement {
            figures: vec![figure()],
            curves: vec![],
            instructions: None,
            hardware_counters: Some(hardware_counters()),
            load: Some(load()),
            path: None,
            disturbances: Vec::new(),
            usage: record::evidence::Usage::default(),
            boot_ms: 1,
            spin_ns: 0,
            kernel: "6.1".into(),
            server: "nginx".into(),
        })),
        host_time: Vec::new(),
        profile: None,
        defects: None,
    };
    let corpus = Corpus {
        inputs: vec![serde_json::to_vec(&record).unwrap()],
        words: &["{", "}", "[]", "\"", ",", "null", "-"],
    };
    fuzz("record", 5000, corpus, |text| {
        if let Ok(mut read) = serde_json::from_slice::<TrialRecord>(text)
            && rundir::check_record(&mut read).is_ok()
        {
            use_latencies(&read.outcome);
        }
    });
}

const PLAN: &str = r#"title = "two kernels"
baseline = "old"
[machine]
memory = "1GiB"
trial_limit = "1h"
[image]
recipe = "web"
[arm.old]
kernel = "debian:bookworm/6.1"
sysctl = { "net.core.somaxconn" = 4096 }
[arm.new]
kernel = "debian:trixie-backports/7.2"
cmdline = "mitigations=off"
[[workload]]
kind = "web-static"
server = "apache"
connections = 4
warmup = "1s"
window = "2s"
[[workload]]
kind = "command"
command = "hackbench"
metric = [{ name = "time", unit = "s", better = "lower", pattern = "Time: ([0-9.]+)" }]
[design]
margin = "1%"
error_rate = 0.05
min_blocks = 4
max_blocks = 30
seed = 7
"#;

#[test]
fn plans() {
    let corpus = Corpus {
        inputs: vec![PLAN.into()],
        words: &[
            "[",
            "]",
            "=",
            "\"",
            "\n",
            "[[workload]]\n",
            "\"1s\"",
            "\"0%\"",
            "\"99999999999999h\"",
            "true",
            "inf",
            "nan",
            "1979-05-27",
            "'''",
            "kernel = ",
            "{",
        ],
    };
    fuzz("plan", 2500, corpus, |text| {
        let text = String::from_utf8_lossy(text);
        let read = |text: &str| {
            let checks = Checks::of_the_past(&workload::check);
            plan::read("plan.toml", text, Path::new(""), checks)
        };
        if let Err(problems) = read(&text) {
            assert!(!problems.to_string().is_empty());
        }
    });
}

#[test]
fn journals() {
    let trial = r#"{"number":1,"block":1,"slot":1,"arm":"a","workload":"w"}"#;
    let text = format!(
        r#"{{"at":"2026-01-01T00:00:00Z","event":{{"opened":{{"version":2,"bakeoff":"0.1.0","inputs":{{}},"machine":"m","ns_per_instruction":2}}}}}}
{{"at":"","event":{{"started":{{"trial":{trial},"attempt":1}}}}}}
{{"at":"","event":{{"ended":{{"trial":{trial},"attempt":1,"ending":"measured","record":"00"}}}}}}
{{"at":"","event":{{"interim-analysis":{{"blocks":1,"lines":["x"]}}}}}}
{{"at":"","event":{{"closed":{{"reason":"decided"}}}}}}
"#
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.jsonl");
    let corpus = Corpus {
        inputs: vec![text.into_bytes()],
        words: &["\n", "{", "}", "\"", ",", "null", "{}\n", "\"event\":"],
    };
    fuzz("journal", 1000, corpus, |text| {
        std::fs::write(&path, text).unwrap();
        let read = journal::read(dir.path());
        // Opening removes at most a torn line, so the entries are the same.
        let opened = journal::Journal::open(dir.path());
        match (read, opened) {
            (Ok(read), Ok((_, opened))) => assert_eq!(read, opened),
            (Err(_), Err(_)) => {}
            (read, opened) => panic!("{read:?}, {opened:?}"),
        }
    });
}

#[test]
fn responses_of_servers() {
    let counted = "HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 5\r\n\r\nhello";
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nDate: x\r\n\r\n";
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\nConnection: close\r\n\r\nhello";
    let corpus = Corpus {
        inputs: [counted, chunked, interim].map(Vec::from).to_vec(),
        words: &[
            "\r\n",
            "\n",
            "\r\n\r\n",
            "Content-Length: ",
            "Transfer-Encoding: chunked\r\n",
            "HTTP/1.1 ",
            "100",
            "204",
            "0\r\n",
            "ffffffffffffffff\r\n",
            ":",
            ",",
            "chunked",
            "close",
        ],
    };
    fuzz("answer", 25_000, corpus, |bytes| {
        let whole = load::read_response(bytes, bytes.len());
        for piece in [1, 2, 7] {
            let pieces = load::read_response(bytes, piece);
            assert_eq!(pieces, whole, "pieces of {piece}");
        }
        if let Ok(Some((body_bytes, used))) = whole {
            assert!(body_bytes <= used as u64 && used <= bytes.len());
        }
    });
}

#[test]
fn figures_of_other_tools() {
    let csv = "arm,block,metric,value,unit,order\na,1,p99,1.5,ms,1\nb,1,p99,1.4,ms,2\na,2,p99,1.6,ms,2\nb,2,p99,1.5,ms,1\n";
    let lines = "{\"arm\": \"a\", \"block\": 1, \"metric\": \"p99\", \"value\": 1.5, \"unit\": \"ms\"}\n\
                 {\"arm\": \"b\", \"block\": 1, \"metric\": \"p99\", \"value\": 1.4, \"unit\": \"ms\"}\n";
    let hyperfine = r#"{"results": [{"command": "old", "times": [1.5, 1.25, 1.75]}, {"command": "new", "times": [1.0, 1.1, 1.2]}]}"#;
    let google = r#"{"context": {"num_cpus": 2}, "benchmarks": [{"name": "BM_x", "run_type": "iteration", "real_time": 5.0, "cpu_time": 4.0, "time_unit": "ns"}]}"#;
    let go = "goos: linux\npkg: example\nBenchmarkFib-2   100   11234 ns/op   16 B/op   2 allocs/op\nPASS\n";
    let phoronix = "<?xml version=\"1.0\"?>\n<PhoronixTestSuite><Result><Title>7-Zip</Title><Scale>MIPS</Scale><Proportion>HIB</Proportion><Data>\
                    <Entry><Identifier>a</Identifier><Value>8</Value><RawString>8:7:9</RawString></Entry>\
                    <Entry><Identifier>b</Identifier><Value>9</Value><RawString>9:9:9</RawString></Entry></Data></Result></PhoronixTestSuite>";
    let k6 = r#"{"root_group": {}, "metrics": {"http_reqs": {"count": 5, "rate": 14.5}, "http_req_failed": {"value": 0, "passes": 0, "fails": 5}}}"#;
    let oha = r#"{"summary": {"successRate": 1.0, "total": 1.0, "average": 8e-05, "requestsPerSec": 7.5}, "metrics": {"requests_per_sec": 7.5}, "latencyPercentiles": {"p50": 5.1e-05}}"#;
    let plain = "1.5\n2.5 # warm\n3.5\n";
    let corpus = Corpus {
        inputs: [csv, lines, hyperfine, google, go, phoronix, k6, oha, plain]
            .map(Vec::from)
            .to_vec(),
        words: &[
            "\n", ",", "\"", "{", "}", "[", "]", ":", "<", ">", "\u{feff}", "ns/op", "\t", "arm",
            "1e400", "inf", "-inf", "%",
        ],
    };
    let dir = tempfile::tempdir().unwrap();
    let paths: Vec<String> = ["one", "two"]
        .map(|name| dir.path().join(name).display().to_string())
        .to_vec();
    fuzz("figures", 2000, corpus, |text| {
        std::fs::write(&paths[0], text).unwrap();
        std::fs::write(&paths[1], &text[..text.len() / 2]).unwrap();
        for paths in [&paths[..1], &paths[..]] {
            let asked = ImportOptions::default();
            let Ok(figures) = import::read(paths, &asked) else {
                continue;
            };
            for comparison in &figures.comparisons {
                judge_layout(&comparison.layout, comparison.direction);
            }
        }
    });
}

fn judge_layout(layout: &Layout, direction: Direction) {
    let terms = Terms {
        margin: 0.01,
        error_rate: 0.05,
        seed: 1,
    };
    let finding = match layout {
        Layout::Blocks { pairs, order } => {
            fixed_sample::paired(pairs, *order == ArmOrder::Random, direction, terms)
        }
        Layout::Unpaired { baseline, arm } | Layout::OneRun { baseline, arm } => {
            fixed_sample::unpaired(baseline, arm, direction, terms)
        }
    };
    assert!(!judge::report::sample_reason(&finding.reason).is_empty());
}

#[test]
fn consoles() {
    let text = "[    0.000000] Linux version 6.1\r\n\u{1b}[32m[  OK  ]\u{1b}[0m started\n\
                [    1.2] Kernel panic - not syncing: no init\n[    1.3] end\n";
    let corpus = Corpus {
        inputs: vec![text.into()],
        words: &[
            "\n",
            "\r",
            "\u{1b}",
            "\u{1b}[",
            "\u{1b}]0;",
            "\u{7}",
            "\u{9b}",
            "[",
            "]",
            "Kernel panic - not syncing",
            "\u{202e}",
        ],
    };
    fuzz("console", 15_000, corpus, |bytes| {
        let mut whole = console::Scan::default();
        let panic = whole.feed(bytes);
        // In pieces, the scan must find the same.
        let mut pieces = console::Scan::default();
        let parts: Vec<_> = bytes
            .chunks(5)
            .filter_map(|piece| pieces.feed(piece))
            .collect();
        assert_eq!(parts, panic.iter().cloned().collect::<Vec<_>>());
        let mut shown = console::tail(bytes, 20);
        assert!(shown.len() <= 20);
        shown.extend(panic);
        for line in shown {
            assert_eq!(text::clean_line(&line), line);
            assert!(!line.contains(char::is_control), "{line:?}");
        }
    });
}

/// Output of the profiler's plugin for a guest that runs nginx.
fn plugin_output() -> Vec<u8> {
    let words =
        |words: &[u64]| -> Vec<u8> { words.iter().flat_map(|word| word.to_le_bytes()).collect() };
    let mut written = b"bkoraw02".to_vec();
    written.extend(words(&[1, 1]));
    written.extend(b"nginx\x1b\0\0\0\0\0\0\0\0\0\0");
    written.extend(words(&[2, 3, 0, 0, 0, 0, 1, 0, 1, 2, 0x10]));
    for mark in [1, 2] {
        written.extend(words(&[3, 2, 1, 10, 0, 0, 0, 1, 2, 7, 0, 0, 0, 1]));
        written.extend(words(&[5, 1, 1, 3, 1, 50]));
        written.extend(words(&[9, 1, mark, 17 * mark, 0, 0, 0, 0]));
    }
    written
}

/// Resolves names with a kernel of one function.
fn resolve_names(raw: &raw::Raw) -> anyhow::Result<Profile> {
    let kernel = KernelSymbols {
        arch: base::arch::Arch::X86_64,
        functions: vec![Function {
            address: 0,
            name: "tcp_sendmsg".into(),
        }],
        end: 1 << 20,
        layout: kernel::Layout::default(),
        lacks: Vec::new(),
    };
    let names = Names {
        kernel: &kernel,
        modules: &[],
        files: &[],
    };
    resolve(raw, names)
}

fn check_profile(profile: &Profile) {
    assert_eq!(profile.busy_tasks().len(), profile.nodes.len());
    if format::excess(profile).is_none() {
        assert_eq!(&format::read(&format::write(profile)).unwrap(), profile);
    }
}

/// Output of the emulator's plugins; the guest's code influences it.
#[test]
fn output_of_plugins() {
    let counts = b"group / 5 0 0 0 0 0 0 0 0 0\nmark 1 100 1 0 0 2 10 0 0 20 0\n\
                   group nginx 7 1 0 0 3 9 0 0 7 0\nmark 2 1000 4 0 0 6 40 0 0 90 0\n";
    let corpus = Corpus {
        inputs: vec![plugin_output(), counts.to_vec()],
        words: &["mark 1 ", "mark 2 ", "group ", "\n", "\0\0\0\0\0\0\0\0"],
    };
    fuzz("plugin", 10_000, corpus, |bytes| {
        if let Ok(raw) = raw::read(bytes)
            && let Ok(profile) = resolve_names(&raw)
        {
            check_profile(&profile);
        }
        let _ = counter::read(bytes);
    });
}

/// Bodies of profiles, which are packed before they are read, and other bytes as they are.
#[test]
fn profiles() {
    let profile = resolve_names(&raw::read(&plugin_output()).unwrap()).unwrap();
    let body = unpack::zstd(&format::write(&profile), 1 << 20).unwrap();
    let start = body[..8].to_vec();
    let corpus = Corpus {
        inputs: vec![body],
        words: &["\0", "\u{1}", "\u{7f}", "nginx", "tcp_sendmsg"],
    };
    fuzz("profile", 2500, corpus, |bytes| {
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let read = if bytes.starts_with(&start) {
            format::read(&ruzstd::encoding::compress_to_vec(bytes, level))
        } else {
            format::read(bytes)
        };
        if let Ok(profile) = read {
            check_profile(&profile);
        }
    });
}

/// ELF files: programs of images and modules of kernels.
#[test]
fn programs_and_modules() {
    let corpus = Corpus {
        inputs: vec![std::fs::read("/bin/true").unwrap()],
        words: &["\0", "\u{1}", "\u{7f}ELF", ".symtab", ".dynsym", ".text"],
    };
    fuzz("elf", 500, corpus, |bytes| {
        for functions in [elf::functions(bytes), elf::module_functions(bytes, ".text")] {
            let functions = functions.unwrap_or_default();
            let names = functions.iter().map(|function| function.name.len());
            assert!(names.max().unwrap_or(0) <= bytes.len());
        }
        elf::needed(bytes);
    });
}
