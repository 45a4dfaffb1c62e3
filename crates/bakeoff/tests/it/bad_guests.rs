//! The real lab with a script in QEMU's place that misbehaves like a hostile guest. The trial is
//! void with the reason, the record can be read, and neither memory nor disk of the host fills up.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use bakeoff::lab;
use bakeoff::lab::{Lab, LabEvent};
use base::arch::Arch;
use base::skip::limits::peak_bytes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use machine::clock::HostClock;
use machine::emulator::{LEAST, Launch, Program};
use machine::qemu::{BootFiles, Hardware, Qemu};
use plan::Clock;
use plan::cpu::{CpuModel, fact_key};
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

use crate::program::{bakeoff, refusal, write_script};
use crate::simulated_lab::{PLAN, load_run, read_plan};

/// Long limits: a guest ends for what it sends, not because the host is busy.
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

fn encoded(messages: &[FromAgent]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for message in messages {
        record::protocol::send(&mut bytes, message).unwrap();
    }
    bytes
}

/// A frame with this body, which need not be a valid message.
fn frame(body: &str) -> Vec<u8> {
    let mut bytes = u32::try_from(body.len()).unwrap().to_le_bytes().to_vec();
    bytes.extend(body.as_bytes());
    bytes
}

/// What a correct agent sends before its result.
fn session_start() -> Vec<u8> {
    encoded(&[
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

/// Facts that a guest needs before the lab accepts counted instructions.
fn facts() -> Facts {
    let mut facts = Facts::default();
    for feature in Arch::X86_64.facts().needed_fast_strings() {
        facts.values.insert(fact_key(feature), "present".into());
    }
    facts
}

/// A whole session, after `change` has edited the result's JSON.
fn with_result(change: impl FnOnce(String) -> String) -> Vec<u8> {
    let done = FromAgent::Done(Box::new(result()));
    let mut bytes = session_start();
    bytes.extend(encoded(&[FromAgent::Facts(Box::new(facts()))]));
    bytes.extend(frame(&change(serde_json::to_string(&done).unwrap())));
    bytes
}

fn with_sample(pointer: &str, value: Value) -> Vec<u8> {
    let mut message = serde_json::to_value(FromAgent::Sample(Box::default())).unwrap();
    *message.pointer_mut(pointer).unwrap() = value;
    let mut bytes = session_start();
    bytes.extend(frame(&message.to_string()));
    bytes
}

/// Boots one guest that runs this shell script. `$line` is a file with what it sends, `$console` is
/// the file descriptor of its console. Returns why the trial is void, and the bytes of its console
/// log.
fn void_trial(script: &str, bytes: &[u8]) -> (Void, u64) {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    boot(dir.path(), &run, script, bytes);
    let loaded = load_run(&run);
    let judgement = judge::judge(&loaded);
    judge::report::terminal(&loaded, &judgement, &[], 80);
    let console = run.join("trials/001/console.log").metadata().unwrap().len();
    match &loaded.attempts[0].outcome {
        Outcome::Void(void) => (void.clone(), console),
        other => panic!("not void: {other:?}"),
    }
}

fn boot(dir: &Path, run: &Path, script: &str, bytes: &[u8]) {
    let [qemu, kernel, sent] = ["qemu", "kernel", "line"].map(|name| dir.join(name));
    fs::write(&kernel, "").unwrap();
    fs::write(&sent, bytes).unwrap();
    let text = format!(
        "#!/bin/bash\nline={}\nfor word; do case $word in fd=*,set=2) console=${{word//[!0-9]/ }};; esac; done\n\
         console=(${{console}})\n{script}\n",
        sent.display()
    );
    write_script(&qemu, &text);
    let files = BootFiles {
        kernel: kernel.clone(),
        initramfs: kernel,
        cmdline: String::new(),
        cpus: None,
    };
    let hardware = Hardware {
        clients: None,
        program: Program {
            arch: Arch::X86_64,
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

/// Runs until the first attempt has ended.
fn run_lab(run: &Path, machine: &Qemu) {
    let text = plan_text();
    let plan = read_plan(&text);
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

/// The trial of a guest that sends `bytes` and waits must be void for this reason.
#[track_caller]
fn check_sent(bytes: &[u8], why: &str) {
    check("cat \"$line\" >&0; sleep 600", bytes, why);
}

#[track_caller]
fn check(script: &str, bytes: &[u8], why: &str) {
    let (void, _) = void_trial(script, bytes);
    assert_eq!(void.reason, VoidReason::AgentFailed, "{void}");
    assert!(void.detail.contains(why), "{void}");
}

#[test]
fn a_message_of_a_gibibyte_is_refused_at_once() {
    check_sent(
        &(1_u32 << 30).to_le_bytes(),
        "message longer than 1048576 bytes: 1073741824",
    );
}

#[test]
fn noise_is_not_a_message() {
    check_sent(b"\x05\0\0\0\xff\x00\x80\xfe\x01", "garbled: not a message");
    check_sent(b"GET / HTTP/1.1\r\n\r\n", "message longer than");
    check_sent(&frame("{\"phase\":\"dancing\"}"), "not a message");
}

#[test]
fn a_stream_of_zeros_is_refused_at_once() {
    check("exec cat /dev/zero >&0", b"", "not a message: EOF");
}

#[test]
fn another_protocol_is_named() {
    let older = Greeting {
        protocol: PROTOCOL - 1,
        ..greeting()
    };
    check_sent(
        &encoded(&[FromAgent::Hello(older)]),
        "not of one build: host protocol 13 build test, agent protocol 12",
    );
}

#[test]
fn a_result_before_the_greeting_is_refused() {
    let done = FromAgent::Done(Box::new(result()));
    check_sent(
        &encoded(&[done]),
        "unexpected message: result before it greeted",
    );
}

#[test]
fn invalid_figures_are_refused() {
    let value = |text: &'static str| with_result(move |done| done.replace("12.5", text));
    check_sent(&value("1e999"), "not a message: number out of range");
    check_sent(&value("NaN"), "not a message: expected value");
    check_sent(&value("-12.5"), "figure below zero: throughput -12.5");
    check_sent(&value("1e200"), "figure beyond all measure: throughput");
}

#[test]
fn negative_times_and_numbers_out_of_range_are_refused() {
    let interval = with_sample("/sample/interval_ms", json!(-1));
    check_sent(&interval, "not a message: invalid value: integer `-1`");
    let memory = with_sample("/sample/memory/total_bytes", json!(u64::MAX));
    check_sent(&memory, "number beyond all measure: total_bytes");
    let mut earlier = with_sample("/sample/at_ms", json!(2000));
    earlier.extend(encoded(&[FromAgent::Sample(Box::<Sample>::default())]));
    check_sent(&earlier, "samples go back: 0 ms after 2000 ms");
}

/// A histogram whose bounds differ from bakeoff's, in base64.
fn foreign_histogram() -> String {
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 1 << 50, 3).unwrap();
    histogram.record(1 << 49).unwrap();
    let mut bytes = Vec::new();
    let written = V2DeflateSerializer::new().serialize(&histogram, &mut bytes);
    written.unwrap();
    STANDARD.encode(bytes)
}

/// Replaces each latency of the record with that histogram.
fn poisoned(text: &str) -> String {
    let mut record: Value = serde_json::from_str(text).unwrap();
    let mut values = vec![&mut record];
    while let Some(value) = values.pop() {
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    if name == "latency" && field.is_string() {
                        *field = json!(foreign_histogram());
                    }
                    values.push(field);
                }
            }
            Value::Array(items) => values.extend(items),
            _ => {}
        }
    }
    record.to_string()
}

#[test]
fn a_histogram_with_other_bounds_is_refused() {
    check_sent(
        &with_result(|done| poisoned(&done)),
        "not an HdrHistogram of bakeoff: bounds",
    );
}

#[test]
fn a_path_as_the_release_of_a_kernel_is_refused() {
    check_sent(
        &with_result(|done| done.replace("6.1.0-40-cloud-amd64", "../../etc")),
        "not a kernel's release: \"../../etc\"",
    );
}

#[test]
fn escape_sequences_are_removed() {
    let detail = "\u{1b}]0;owned\u{7}\u{1b}[2Jdied".to_string();
    let reason = VoidReason::ServiceFailed;
    let bytes = encoded(&[FromAgent::Failed { reason, detail }]);
    let (void, _) = void_trial(
        "printf '\\033[2Jlast words\\n' >&$console; cat \"$line\" >&0; sleep 600",
        &bytes,
    );
    assert_eq!((void.reason, void.detail.as_str()), (reason, "died"));
    assert_eq!(void.console, ["last words"]);
}

#[test]
fn a_console_flood_ends_the_trial() {
    let (void, bytes) = void_trial("yes >&$console; sleep 600", b"");
    assert_eq!(void.reason, VoidReason::AgentFailed);
    assert_eq!(void.detail, "console longer than 64.0 MiB");
    // The file size limit stops the flood here, however late the lab sees it.
    assert!(bytes <= 128 << 20, "{bytes} bytes");
}

#[test]
fn a_flood_of_error_output_ends_the_trial() {
    let (void, _) = void_trial("yes >&2; sleep 600", b"");
    assert_eq!(void.detail, "error output of QEMU longer than 16.0 MiB");
}

/// Set in the process whose memory is measured.
const MEASURED: &str = "BAKEOFF_TEST_MEASURED";

/// Runs in a separate process, because other tests use memory in this one.
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

/// Sends a gibibyte of valid messages of a kind that the lab keeps.
fn talk_without_end() {
    let second = Second::default();
    let frame = encoded(&[FromAgent::Tick(Tick {
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
    let (void, _) = void_trial(&script, &[session_start(), frame].concat());
    assert!(
        void.detail.contains("more said than a trial can have"),
        "{void}"
    );
    let peak_mib = peak_bytes("self").unwrap() >> 20;
    println!("peak {peak_mib} MiB");
    // The lab accepted 70 MiB; all of it is about one second, so it keeps one.
    assert!(peak_mib < 100, "{peak_mib} MiB");
}

/// A run directory from elsewhere may hold records that this program would not write.
#[test]
fn a_poisoned_directory_is_an_error_not_a_panic() {
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
    for option in ["--json", "--report"] {
        let error = refusal(&bakeoff(dir.path(), &["show", "run", option]));
        assert!(error.contains("damaged record"), "{error}");
        assert!(error.contains("not an HdrHistogram of bakeoff"), "{error}");
    }
    // `run` loads the directory the same way before it resumes.
    let why = rundir::load(&run, &workload::check).unwrap_err();
    assert!(format!("{why:#}").contains("damaged record"), "{why:#}");
}

/// Updates the record's hash in the journal.
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
