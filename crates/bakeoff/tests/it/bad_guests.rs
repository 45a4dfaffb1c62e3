//! The real lab and the real line, and in QEMU's place a program that does what no guest should: the trial is void
//! with the reason, the record can be read, and neither memory nor disk of the host fills up.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use bakeoff::lab;
use bakeoff::lab::{Lab, LabEvent};
use base::skip::limits::peak_bytes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use machine::clock::HostClock;
use machine::emulator::{LEAST, Launch, Program};
use machine::qemu::{BootFiles, Hardware, Qemu};
use plan::cpu::{CpuModel, NEEDED_FEATURES, fact_key};
use plan::{Checks, Clock};
use record::evidence::{Facts, Sample};
use record::hash;
use record::journal;
use record::journal::{Event, Opening};
use record::load::{LoadResult, Second, Tick};
use record::machine::{Acceleration, MachineDescription};
use record::metric::{Direction, Figure, MetricSpec, Role};
use record::protocol::{FromAgent, Greeting, PROTOCOL};
use record::rundir;
use record::rundir::RunDir;
use record::trial::{JobResult, Measurement, Outcome, Phase, Void, VoidReason};
use serde_json::{Value, json};

use crate::simulated_lab::PLAN;

/// A guest is ended for what it does, not for how long a busy host takes to run it.
fn plan_text() -> String {
    let text = PLAN.replace("boot_timeout = \"60s\"", "boot_timeout = \"5min\"");
    text.replace(
        "silence = \"30s\"",
        "silence = \"5min\"\ntrial_limit = \"6min\"",
    )
}

fn greeting() -> Greeting {
    Greeting {
        protocol: PROTOCOL,
        build: "test".into(),
    }
}

fn said(messages: &[FromAgent]) -> Vec<u8> {
    let mut line = Vec::new();
    for message in messages {
        record::protocol::send(&mut line, message).unwrap();
    }
    line
}

/// A message of this text, which need not be one.
fn framed(body: &str) -> Vec<u8> {
    let mut line = u32::try_from(body.len()).unwrap().to_le_bytes().to_vec();
    line.extend(body.as_bytes());
    line
}

/// What a good agent says before its result.
fn begun() -> Vec<u8> {
    said(&[
        FromAgent::Hello(greeting()),
        FromAgent::Phase(Phase::Measuring),
    ])
}

fn result() -> JobResult {
    let spec = MetricSpec {
        name: "throughput".into(),
        unit: "requests/s".into(),
        direction: Direction::Higher,
        role: Role::Primary,
    };
    let measurement = Measurement {
        figures: vec![Figure { spec, value: 12.5 }],
        load: Some(LoadResult {
            window_ns: 1_000_000_000,
            ..LoadResult::default()
        }),
        kernel: "6.1.0-40-cloud-amd64 #1".into(),
        server: "nginx".into(),
        ..Measurement::default()
    };
    JobResult {
        measurement,
        ..JobResult::default()
    }
}

/// A guest whose figures may stand under counted instructions.
fn facts() -> Facts {
    let mut facts = Facts::default();
    for feature in NEEDED_FEATURES {
        facts.values.insert(fact_key(feature), "present".into());
    }
    facts
}

/// A whole conversation whose result was changed as JSON.
fn with_result(change: impl FnOnce(String) -> String) -> Vec<u8> {
    let done = FromAgent::Done(Box::new(result()));
    let mut line = begun();
    line.extend(said(&[FromAgent::Facts(Box::new(facts()))]));
    line.extend(framed(&change(serde_json::to_string(&done).unwrap())));
    line
}

fn with_sample(pointer: &str, value: Value) -> Vec<u8> {
    let mut message = serde_json::to_value(FromAgent::Sample(Box::default())).unwrap();
    *message.pointer_mut(pointer).unwrap() = value;
    let mut line = begun();
    line.extend(framed(&message.to_string()));
    line
}

/// Boots one guest that runs this shell script: `$line` is a file to say, `$console` the descriptor of its console.
fn ending(script: &str, line: &[u8]) -> (Void, u64) {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    boot(dir.path(), &run, script, line);
    let loaded = rundir::load(&run, &workload::check).unwrap();
    // Whatever it was, there is something to say of it.
    let judgement = judge::judge(&loaded);
    judge::report::terminal(&loaded, &judgement, &[], 80);
    let console = run.join("trials/001/console.log").metadata().unwrap().len();
    match &loaded.attempts[0].outcome {
        Outcome::Void(void) => (void.clone(), console),
        other => panic!("not void: {other:?}"),
    }
}

fn boot(dir: &Path, run: &Path, script: &str, line: &[u8]) {
    let [qemu, kernel, said] = ["qemu", "kernel", "line"].map(|name| dir.join(name));
    fs::write(&kernel, "").unwrap();
    fs::write(&said, line).unwrap();
    let text = format!(
        "#!/bin/bash\nline={}\nfor word; do case $word in fd=*,set=2) console=${{word//[!0-9]/ }};; esac; done\n\
         console=(${{console}})\n{script}\n",
        said.display()
    );
    // Written by another process: one that tests start beside us would else hold it open, and it could not be run.
    let written = Command::new("/bin/sh")
        .args(["-c", r#"printf %s "$1" > "$0" && chmod 755 "$0""#])
        .arg(&qemu)
        .arg(text)
        .status();
    assert!(written.unwrap().success());
    let files = BootFiles {
        kernel: kernel.clone(),
        initramfs: kernel,
        cmdline: String::new(),
        cpus: None,
    };
    let hardware = Hardware {
        clients: None,
        program: Program {
            path: qemu,
            version: "no QEMU".into(),
            release: LEAST,
            launch: Launch::Direct,
            models: BTreeSet::new(),
            features: BTreeSet::new(),
            has_seccomp: true,
        },
        accel: Acceleration::Tcg,
        cpus: 1,
        memory_bytes: 1 << 29,
        clock: Clock::Instructions,
        choices: Vec::new(),
        disk: None,
        host: None,
        cpu: CpuModel::plain("max"),
    };
    let arms = ["old", "new"].map(|arm| (arm.to_string(), files.clone()));
    let machine = Qemu::new(hardware, None, BTreeMap::from(arms));
    run_lab(run, &machine);
}

/// Runs until one attempt has ended.
fn run_lab(run: &Path, machine: &Qemu) {
    let checks = Checks::of_the_past(&workload::check);
    let text = plan_text();
    let plan = plan::read("plan.toml", &text, Path::new(""), checks).unwrap();
    let interrupted = AtomicBool::new(false);
    let show = |event: LabEvent<'_>| {
        if let LabEvent::Record(_) = event {
            interrupted.store(true, Ordering::Relaxed);
        }
    };
    let opening = Opening {
        version: journal::VERSION,
        bakeoff: "test".into(),
        inputs: BTreeMap::new(),
        machine: MachineDescription::Fake,
        ns_per_instruction: Some(2),
        host_cpus: None,
        string_price: None,
        clients: None,
    };
    let dir = RunDir::open(run, &text).unwrap();
    let lab = Lab {
        plan: &plan,
        dir: &dir,
        machine,
        clock: &HostClock::start(),
        greeting: &greeting(),
        interrupted: &interrupted,
        jobs: 1,
        extension: None,
        remeasures_ceilings: false,
        show: &show,
    };
    lab::run(&lab, opening).unwrap();
}

/// A guest that says `line` and waits is void for this reason.
#[track_caller]
fn refused(line: &[u8], why: &str) {
    check("cat \"$line\" >&0; sleep 600", line, why);
}

#[track_caller]
fn check(script: &str, line: &[u8], why: &str) {
    let (void, _) = ending(script, line);
    assert_eq!(void.reason, VoidReason::AgentFailed, "{void}");
    assert!(void.detail.contains(why), "{void}");
}

#[test]
fn who_announces_a_gibibyte_is_not_waited_for() {
    refused(
        &(1_u32 << 30).to_le_bytes(),
        "message longer than 1048576 bytes: 1073741824",
    );
}

#[test]
fn noise_is_no_message() {
    refused(b"\x05\0\0\0\xff\x00\x80\xfe\x01", "garbled: not a message");
    refused(b"GET / HTTP/1.1\r\n\r\n", "message longer than");
    refused(&framed("{\"phase\":\"dancing\"}"), "not a message");
}

#[test]
fn a_stream_of_zeros_ends_at_once() {
    check("exec cat /dev/zero >&0", b"", "not a message: EOF");
}

#[test]
fn another_protocol_is_named() {
    let older = Greeting {
        protocol: PROTOCOL - 1,
        ..greeting()
    };
    refused(
        &said(&[FromAgent::Hello(older)]),
        "not of one build: host protocol 13 build test, agent protocol 12",
    );
}

#[test]
fn who_speaks_out_of_turn_is_refused() {
    let done = FromAgent::Done(Box::new(result()));
    refused(
        &said(&[done]),
        "unexpected message: result before it greeted",
    );
}

#[test]
fn figures_that_are_none_are_refused() {
    let value = |text: &'static str| with_result(move |done| done.replace("12.5", text));
    refused(&value("1e999"), "not a message: number out of range");
    refused(&value("NaN"), "not a message: expected value");
    refused(&value("-12.5"), "figure below zero: throughput -12.5");
    refused(&value("1e200"), "figure beyond all measure: throughput");
}

#[test]
fn times_below_zero_and_numbers_beyond_all_measure_are_refused() {
    let interval = with_sample("/sample/interval_ms", json!(-1));
    refused(&interval, "not a message: invalid value: integer `-1`");
    let memory = with_sample("/sample/memory/total_bytes", json!(u64::MAX));
    refused(&memory, "number beyond all measure: total_bytes");
    let mut back = with_sample("/sample/at_ms", json!(2000));
    back.extend(said(&[FromAgent::Sample(Box::<Sample>::default())]));
    refused(&back, "samples go back: 0 ms after 2000 ms");
}

/// A histogram with bounds of its own, as text.
fn foreign_histogram() -> String {
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 1 << 50, 3).unwrap();
    histogram.record(1 << 49).unwrap();
    let mut bytes = Vec::new();
    let written = V2DeflateSerializer::new().serialize(&histogram, &mut bytes);
    written.unwrap();
    STANDARD.encode(bytes)
}

/// The record's latency, and that histogram in its place.
fn poisoned(text: &str) -> String {
    let mut record: Value = serde_json::from_str(text).unwrap();
    let mut places = vec![&mut record];
    while let Some(place) = places.pop() {
        match place {
            Value::Object(fields) => {
                for (name, value) in fields {
                    if name == "latency" && value.is_string() {
                        *value = json!(foreign_histogram());
                    }
                    places.push(value);
                }
            }
            Value::Array(items) => places.extend(items),
            _ => {}
        }
    }
    record.to_string()
}

#[test]
fn a_histogram_with_bounds_of_its_own_is_refused() {
    refused(
        &with_result(|done| poisoned(&done)),
        "not an HdrHistogram of bakeoff: bounds",
    );
}

#[test]
fn a_release_is_no_path() {
    refused(
        &with_result(|done| done.replace("6.1.0-40-cloud-amd64", "../../etc")),
        "not a kernel's release: \"../../etc\"",
    );
}

#[test]
fn what_a_terminal_would_obey_is_not_shown() {
    let detail = "\u{1b}]0;owned\u{7}\u{1b}[2Jdied".to_string();
    let reason = VoidReason::ServiceFailed;
    let line = said(&[FromAgent::Failed { reason, detail }]);
    let (void, _) = ending(
        "printf '\\033[2Jlast words\\n' >&$console; cat \"$line\" >&0; sleep 600",
        &line,
    );
    assert_eq!((void.reason, void.detail.as_str()), (reason, "died"));
    assert_eq!(void.console, ["last words"]);
}

#[test]
fn a_console_has_an_end() {
    let (void, bytes) = ending("yes >&$console; sleep 600", b"");
    assert_eq!(void.reason, VoidReason::AgentFailed);
    assert_eq!(void.detail, "console longer than 64.0 MiB");
    // However late the flood is seen, the kernel stops it here.
    assert!(bytes <= 128 << 20, "{bytes} bytes");
}

#[test]
fn so_has_an_error_output() {
    let (void, _) = ending("yes >&2; sleep 600", b"");
    assert_eq!(void.detail, "error output of QEMU longer than 16.0 MiB");
}

/// Set in the process that is measured.
const MEASURED: &str = "BAKEOFF_TEST_MEASURED";

/// In a process of its own: memory is the whole process's, and other tests run in this one.
#[test]
fn a_guest_that_never_stops_talking_fills_no_memory() {
    if std::env::var_os(MEASURED).is_some() {
        return talk_without_end();
    }
    let name = "bad_guests::a_guest_that_never_stops_talking_fills_no_memory";
    let measured = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(MEASURED, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&measured.stdout);
    assert!(
        measured.status.success() && text.contains("1 passed"),
        "{text}\n{}",
        String::from_utf8_lossy(&measured.stderr)
    );
}

/// A gibibyte of right messages, of the kind that is kept.
fn talk_without_end() {
    let second = Second::default();
    let frame = said(&[FromAgent::Tick(Tick {
        second: 1,
        ok: 1,
        ended: vec![second; 15_000],
        ..Tick::default()
    })]);
    assert!(frame.len() > 600 << 10, "{} bytes", frame.len());
    let script = format!(
        "cat \"$line\" >&0; n=0; while [ $n -lt 1600 ]; do tail -c {} \"$line\" >&0; n=$((n + 1)); done; sleep 600",
        frame.len()
    );
    let (void, _) = ending(&script, &[begun(), frame].concat());
    assert!(
        void.detail.contains("more said than a trial can have"),
        "{void}"
    );
    let peak_mib = peak_bytes("self").unwrap() >> 20;
    println!("peak {peak_mib} MiB");
    // 70 MiB were said, and what they tell of one second is one second.
    assert!(peak_mib < 100, "{peak_mib} MiB");
}

/// A directory that somebody else wrote may hold what today would not be written.
#[test]
fn a_poisoned_directory_is_an_error_and_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    boot(
        dir.path(),
        &run,
        "cat \"$line\" >&0; sleep 600",
        &with_result(|done| done),
    );
    let record = run.join("trials/001/trial.json");
    let text = fs::read_to_string(&record).unwrap();
    fs::write(&record, poisoned(&text)).unwrap();
    name_anew(&run, &record);
    for verb in ["judge", "report"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
        let output = command.arg(verb).arg(&run).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("damaged record"), "{said}");
        assert!(said.contains("not an HdrHistogram of bakeoff"), "{said}");
    }
    // As `run` does before it goes on.
    let why = rundir::load(&run, &workload::check).unwrap_err();
    assert!(format!("{why:#}").contains("damaged record"), "{why:#}");
}

/// Has the journal name the record as it is now.
fn name_anew(run: &Path, record: &Path) {
    let path = run.join("journal.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let entries = journal::read(run).unwrap();
    let old = entries.iter().find_map(|entry| match &entry.event {
        Event::Ended { record, .. } => Some(record.clone()),
        _ => None,
    });
    let new = hash::sha256(&fs::read(record).unwrap());
    fs::write(&path, text.replace(&old.unwrap(), &new)).unwrap();
}
