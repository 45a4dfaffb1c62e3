//! The limit behind the figures is named. Each test makes clients, network or server the limit, by
//! means that work on a busy machine too.
//!
//! ```text
//! namespace "client": bakeoff, its clients  --veth-->  namespace "server": two servers, a null server
//! ```

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use expect_test::expect;
use guest::netns::{NetnsPair, SERVER};
use load::null_server::{NullServer, Settings};
use record::journal::Event;
use record::rundir::Run;
use record::verdict::Judgement;
use record::verdict::limit::{ArmLimit, CeilingUse, Limit, LimitSign};

use crate::program::{KillOnDrop, TWO_BLOCKS, all_output, bakeoff, command, is_root, refusal};
use crate::simulated_lab::load_run;

/// Both network namespaces, with a null server in the server's.
struct Lab {
    netns: NetnsPair,
    null_server: NullServer,
}

/// The result of a run.
struct Report {
    run: Run,
    judgement: Judgement,
    text: String,
    markdown: String,
}

impl Report {
    /// The limits of both arms.
    fn limits(&self) -> Vec<&ArmLimit> {
        let summaries = self.judgement.arm_summaries.iter();
        let limits = summaries.map(|summary| summary.limit.as_ref().expect("known limits"));
        limits.collect()
    }

    #[track_caller]
    fn check(&self, limit: Limit) {
        for arm in self.limits() {
            assert_eq!(arm.limit, Some(limit), "{arm:?}\n{}", self.text);
        }
    }
}

impl Lab {
    fn new() -> Option<Self> {
        if !is_root() {
            base::skip::skip("no trials on this host: they need root");
            return None;
        }
        let netns = NetnsPair::create().unwrap();
        let null_server = null_server(&netns);
        Some(Self { netns, null_server })
    }

    /// Runs two arms that are the same server. `wrapper` is a command that starts bakeoff.
    fn run(&self, server: SocketAddr, workload: &str, wrapper: &[&str]) -> Report {
        self.run_with_ceiling(self.null_server.address(), server, workload, wrapper)
    }

    /// Like `run`, with this null server for the ceiling.
    fn run_with_ceiling(
        &self,
        ceiling: SocketAddr,
        server: SocketAddr,
        workload: &str,
        wrapper: &[&str],
    ) -> Report {
        let dir = tempfile::tempdir().unwrap();
        let text = plan(ceiling, server, workload);
        fs::write(dir.path().join("plan.toml"), text).unwrap();
        let mut bakeoff = Command::new(wrapper[0]);
        bakeoff
            .args(&wrapper[1..])
            .arg(env!("CARGO_BIN_EXE_bakeoff"))
            .args(["run", "plan.toml", "--out", "run"])
            .current_dir(dir.path());
        let output = self
            .netns
            .client
            .within(|| bakeoff.output())
            .unwrap()
            .unwrap();
        let text = all_output(&output);
        assert!(output.status.success(), "{text}");
        let run = load_run(&dir.path().join("run"));
        let entries = run.entries.iter();
        let ceilings = entries.filter(|entry| matches!(entry.event, Event::Ceiling { .. }));
        assert_eq!(ceilings.count(), 1, "one for both arms");
        Report {
            judgement: judge::judge(&run),
            run,
            text,
            markdown: fs::read_to_string(dir.path().join("run/report.md")).unwrap(),
        }
    }

    /// Runs tc(8) in the server's namespace; whether it succeeded.
    fn tc(&self, args: &str) -> bool {
        let tc = || Command::new("tc").args(args.split(' ')).output();
        let output = self.netns.server.within(tc).unwrap();
        output.is_ok_and(|output| output.status.success())
    }
}

fn plan(ceiling: SocketAddr, server: SocketAddr, workload: &str) -> String {
    format!(
        r#"
title = "a planted limit"
baseline = "one"
[machine]
kind = "url"
ceiling = "http://{ceiling}"
[arm.one]
url = "http://{server}"
[arm.two]
url = "http://{server}"
[[workload]]
kind = "http"
threads = 1
warmup = "500ms"
{workload}
{TWO_BLOCKS}"#
    )
}

fn null_server(netns: &NetnsPair) -> NullServer {
    let start = || NullServer::start((SERVER, 0).into(), &Settings::default());
    netns.server.within(start).unwrap().unwrap()
}

/// A null server with real-time threads, if this process may have them: other programs cannot slow
/// it down, so only its clients are slow.
fn prompt_null_server(netns: &NetnsPair) -> NullServer {
    let start = || {
        let thread = fs::read_link("/proc/thread-self").unwrap();
        let mut chrt = Command::new("chrt");
        chrt.args(["--rr", "--pid", "1"]);
        chrt.arg(thread.file_name().unwrap());
        chrt.output().unwrap();
        // The server's threads inherit the policy.
        NullServer::start((SERVER, 0).into(), &Settings::default())
    };
    netns.server.within(start).unwrap().unwrap()
}

/// A server that sleeps before each response; with `in_turn`, it serves one request at a time.
fn sleeping_server(netns: &NetnsPair, time: Duration, in_turn: bool) -> SocketAddr {
    let listener = netns.server.within(|| TcpListener::bind((SERVER, 0)));
    let listener = listener.unwrap().unwrap();
    let address = listener.local_addr().unwrap();
    let turn = Arc::new(Mutex::new(()));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let turn = Arc::clone(&turn);
            thread::spawn(move || respond_slowly(&stream.unwrap(), time, in_turn.then_some(&turn)));
        }
    });
    address
}

pub(crate) fn respond_slowly(stream: &TcpStream, time: Duration, turn: Option<&Mutex<()>>) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let mut writer = stream;
    while lines.by_ref().take_while(|line| !line.is_empty()).count() > 0 {
        let held = turn.map(|turn| turn.lock().unwrap());
        thread::sleep(time);
        drop(held);
        let response = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        if writer.write_all(response).is_err() {
            return;
        }
    }
}

/// Nine endless loops on one CPU, until they are dropped. Each has a separate session, because
/// autogroup shares a CPU among sessions, regardless of nice values.
fn start_endless_loops(cpu: &str) -> Vec<KillOnDrop> {
    let mut loops = Vec::new();
    for _ in 0..9 {
        let mut command = Command::new("setsid");
        command.args(["taskset", "--cpu-list", cpu]);
        command.args(["sh", "-c", "while :; do :; done"]);
        loops.push(KillOnDrop(command.stdin(Stdio::null()).spawn().unwrap()));
    }
    loops
}

/// The last CPU that this process may use.
fn last_cpu() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let list = list.unwrap().trim();
    list.rsplit([',', '-']).next().unwrap().into()
}

const CLOSED: &str = "connections = 4\nwindow = \"1s\"\npaths = [\"/bytes/2000\"]";

/// `judge::topics::limits::find::tests::clients_without_cpu_time_are_named` checks only the
/// decision, without a busy CPU.
#[test]
#[ignore = "nine endless loops take 150 s of CPU time: make test-all"]
fn clients_with_a_slow_cpu_are_named() {
    let Some(lab) = Lab::new() else { return };
    let server = prompt_null_server(&lab.netns);
    let cpu = last_cpu();
    let _loops = start_endless_loops(&cpu);
    // The clients share the CPU with the endless loops, and have a lower priority.
    let wrapper = ["taskset", "--cpu-list", &cpu, "nice", "-n", "10"];
    let report = lab.run(server.address(), CLOSED, &wrapper);
    report.check(Limit::Clients);
    for arm in report.limits() {
        let sign = &arm.signs[0];
        assert!(matches!(sign, LimitSign::BusyThread { .. }), "{sign:?}");
    }
    assert!(
        report
            .text
            .contains("client-limited: one (the busiest client thread"),
        "{}",
        report.text
    );
    assert!(
        report
            .markdown
            .contains("client-limited: one (the busiest client thread")
    );
    assert_eq!(report.judgement.headlines[0].limits.len(), 2);
}

#[test]
#[ignore = "a busy machine measures a lower ceiling: make test-all"]
fn a_slow_network_is_named() {
    let Some(lab) = Lab::new() else { return };
    let server = null_server(&lab.netns);
    let slow = "qdisc add dev server root tbf rate 8mbit burst 32kb latency 400ms";
    assert!(lab.tc(slow), "tbf is in every kernel with traffic control");
    let workload = "connections = 4\nwindow = \"1s\"\npaths = [\"/bytes/20000\"]";
    let report = lab.run(server.address(), workload, &["env"]);
    report.check(Limit::Network);
    assert!(
        report.text.contains("network-bound: one ("),
        "{}",
        report.text
    );
    for arm in report.limits() {
        // 8 Mbit/s are 50 responses of 20 kB.
        let CeilingUse::Known { requests_per_s, .. } = arm.ceiling else {
            panic!("{arm:?}")
        };
        assert!(requests_per_s < 60.0, "{requests_per_s}");
        let near_ceiling = |sign: &LimitSign| {
            matches!(
                sign,
                LimitSign::NearCeiling {
                    is_of_clients: false,
                    ..
                }
            )
        };
        assert!(arm.signs.iter().any(near_ceiling), "{arm:?}");
    }
}

#[test]
fn lost_packets_are_named() {
    let Some(lab) = Lab::new() else { return };
    let server = null_server(&lab.netns);
    // Drops one in ten packets to the server, by a BPF filter, or by netem if the kernel lacks it.
    let random = "filter add dev server ingress bpf da bytecode 4,32 0 0 4294963256,53 1 0 429496729,6 0 0 2,6 0 0 0";
    let by_bpf = || lab.tc("qdisc add dev server clsact") && lab.tc(random);
    let by_netem = || lab.tc("qdisc add dev server root netem loss 10%");
    if !by_bpf() && !by_netem() {
        base::skip::skip("no tc filter of BPF and no netem here");
        return;
    }
    let report = lab.run(server.address(), CLOSED, &["env"]);
    report.check(Limit::Network);
    assert!(
        report.text.contains("of the TCP segments again"),
        "{}",
        report.text
    );
    assert!(
        report
            .limits()
            .iter()
            .all(|arm| arm.retransmitted > Some(0.01))
    );
}

#[test]
fn a_slow_server_is_named() {
    let Some(lab) = Lab::new() else { return };
    let server = sleeping_server(&lab.netns, Duration::from_millis(40), true);
    let report = lab.run(server, "connections = 4\nwindow = \"1s\"", &["env"]);
    report.check(Limit::Server);
    assert!(report.text.contains("server-limited"), "{}", report.text);
    assert!(
        report
            .judgement
            .headlines
            .iter()
            .all(|headline| headline.limits.is_empty())
    );
    assert!(report.limits().iter().all(|arm| arm.signs.is_empty()));
}

#[test]
#[ignore = "40 s of waiting: make test-all"]
fn an_idle_server_is_named() {
    let Some(lab) = Lab::new() else { return };
    // It sleeps so long that the send delay of a busy machine is negligible.
    let server = sleeping_server(&lab.netns, Duration::from_secs(1), false);
    let report = lab.run(
        server,
        "connections = 64\nrate = 10\nwindow = \"3s\"\ndeadline = \"30s\"",
        &["env"],
    );
    report.check(Limit::NotSaturated);
    assert!(
        report.text.contains("server not saturated"),
        "{}",
        report.text
    );
    // At a fixed rate, the latency is measured, so this limit is intended.
    assert!(
        report
            .judgement
            .headlines
            .iter()
            .all(|headline| headline.limits.is_empty())
    );
}

#[test]
fn a_run_with_a_missing_null_server_lacks_only_the_ceiling() {
    let Some(lab) = Lab::new() else { return };
    let server = sleeping_server(&lab.netns, Duration::from_millis(20), true);
    // Nothing listens at its address after it has ended.
    let gone = null_server(&lab.netns).address();
    let workload = "connections = 4\nwindow = \"1s\"";
    let report = lab.run_with_ceiling(gone, server, workload, &["env"]);
    assert!(
        report.text.contains("ceiling  http: not known, "),
        "{}",
        report.text
    );
    assert!(report.text.contains("ceiling not known"), "{}", report.text);
    report.check(Limit::Server);
    assert!(report.run.attempts.len() >= 4);
}

#[test]
fn the_ceiling_of_a_complete_run_is_measured_again_on_demand() {
    let Some(lab) = Lab::new() else { return };
    let server = sleeping_server(&lab.netns, Duration::from_millis(20), true);
    let dir = tempfile::tempdir().unwrap();
    let gone = null_server(&lab.netns).address();
    fs::write(
        dir.path().join("plan.toml"),
        plan(gone, server, "connections = 4\nwindow = \"1s\""),
    )
    .unwrap();
    let run = |option: &[&str]| {
        let mut bakeoff = command(dir.path(), &["run", "plan.toml", "--out", "run"]);
        bakeoff.args(option);
        let output = lab.netns.client.within(|| bakeoff.output());
        let output = output.unwrap().unwrap();
        assert!(output.status.success(), "{output:?}");
        let run = load_run(&dir.path().join("run"));
        (judge::judge(&run), run)
    };
    let (judgement, first) = run(&[]);
    let limit = |judgement: &Judgement| judgement.arm_summaries[0].limit.clone().unwrap();
    assert!(matches!(
        limit(&judgement).ceiling,
        CeilingUse::Failed { .. }
    ));
    // Start the null server at the address where it was missing.
    let listen = || NullServer::start(gone, &Settings::default());
    let _null_server = lab.netns.server.within(listen).unwrap().unwrap();
    assert_eq!(run(&[]).1.entries, first.entries);
    let (judgement, again) = run(&["--ceiling"]);
    let arm = limit(&judgement);
    assert!(matches!(arm.ceiling, CeilingUse::Known { .. }), "{arm:?}");
    // Nothing else was measured, and the run is still complete.
    let [entries @ .., last] = &again.entries[..] else {
        panic!("no entry")
    };
    assert_eq!(entries, first.entries);
    assert!(matches!(last.event, Event::Ceiling { .. }), "{last:?}");
    assert_eq!(again.closed(), first.closed());
    assert!(again.closed().is_some());
}

/// The error of `check` for a plan with this ceiling.
fn refused(kind: &str, ceiling: &str, arm: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let workload = if kind == "url" { "http" } else { "web-static" };
    let server = if kind == "url" {
        ""
    } else {
        "server = \"nginx\""
    };
    let plan = format!(
        "title = \"x\"\nbaseline = \"a\"\n[machine]\nkind = \"{kind}\"\nceiling = \"{ceiling}\"\n[arm.a]\n{arm}\n[arm.b]\n{arm}\n\
         [[workload]]\nkind = \"{workload}\"\nconnections = 4\nwindow = \"1s\"\n{server}\n"
    );
    fs::write(dir.path().join("plan.toml"), plan).unwrap();
    refusal(&bakeoff(dir.path(), &["check", "plan.toml"]))
}

#[test]
fn an_invalid_ceiling_is_refused() {
    let arm = "url = \"http://127.0.0.1:1\"";
    expect![[r#"
        bakeoff: plan.toml:5: ceiling over https beside arm a over http (start the null server without --cert and --key, and write http://)
    "#]]
    .assert_eq(&refused("url", "https://h:1", arm));
    expect![[r#"
        bakeoff: plan.toml:5: ceiling with a path: "http://h:1/x" (remove the path: a null server answers each)
    "#]]
    .assert_eq(&refused("url", "http://h:1/x", arm));
    expect![[r#"
        bakeoff: plan.toml:5: ceiling of a machine of kind "local" (remove it: bakeoff starts its null server itself)
    "#]]
    .assert_eq(&refused("local", "http://h:1", ""));
}
