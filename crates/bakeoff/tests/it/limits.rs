//! What set the figures is named: clients, network and server are each made the limit here, by something that holds however
//! busy the machine is.
//!
//! ```text
//! namespace "client": bakeoff, its clients  --veth-->  namespace "server": two servers, a null server
//! ```

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use expect_test::expect;
use guest::netns::{NetnsPair, SERVER};
use load::null_server::{NullServer, Settings};
use record::journal::Event;
use record::rundir;
use record::rundir::Run;
use record::verdict::Judgement;
use record::verdict::limit::{ArmLimit, CeilingUse, Limit, LimitSign};

/// Both ends of the network, with a null server in the server's.
struct Lab {
    netns: NetnsPair,
    null_server: NullServer,
}

/// What a run came to.
struct Told {
    run: Run,
    judgement: Judgement,
    text: String,
    markdown: String,
}

impl Told {
    /// The limits of both arms.
    fn limits(&self) -> Vec<&ArmLimit> {
        let summaries = self.judgement.arm_summaries.iter();
        let limits = summaries.map(|own| own.limit.as_ref().expect("it was looked at"));
        limits.collect()
    }

    #[track_caller]
    fn check(&self, limit: Limit) {
        for own in self.limits() {
            assert_eq!(own.limit, Some(limit), "{own:?}\n{}", self.text);
        }
    }
}

impl Lab {
    fn new() -> Option<Self> {
        if fs::metadata("/proc/self").unwrap().uid() != 0 {
            base::skip::skip("no trials on this host: they need root");
            return None;
        }
        let netns = NetnsPair::create().unwrap();
        let null_server = null_server(&netns);
        Some(Self { netns, null_server })
    }

    /// Runs two arms that are the same server, asked for `path`.
    fn run(&self, server: SocketAddr, workload: &str, around: &[&str]) -> Told {
        self.run_below(self.null_server.address(), server, (workload, around))
    }

    /// The same with a ceiling of one's own.
    fn run_below(
        &self,
        ceiling: SocketAddr,
        server: SocketAddr,
        (workload, around): (&str, &[&str]),
    ) -> Told {
        let dir = tempfile::tempdir().unwrap();
        let text = plan(ceiling, server, workload);
        fs::write(dir.path().join("plan.toml"), text).unwrap();
        let mut words = around.to_vec();
        words.extend([
            env!("CARGO_BIN_EXE_bakeoff"),
            "run",
            "plan.toml",
            "--out",
            "run",
        ]);
        let mut bakeoff = Command::new(words[0]);
        bakeoff.args(&words[1..]).current_dir(dir.path());
        let output = self
            .netns
            .client
            .within(|| bakeoff.output())
            .unwrap()
            .unwrap();
        let text = String::from_utf8([&output.stdout[..], &output.stderr[..]].concat()).unwrap();
        assert!(output.status.success(), "{text}");
        let run = rundir::load(&dir.path().join("run"), &workload::check).unwrap();
        let ceilings = run.entries.iter();
        let ceilings = ceilings.filter(|one| matches!(one.event, Event::Ceiling { .. }));
        assert_eq!(ceilings.count(), 1, "one for both arms");
        Told {
            judgement: judge::judge(&run),
            run,
            text,
            markdown: fs::read_to_string(dir.path().join("run/report.md")).unwrap(),
        }
    }

    /// Has tc(8) do something at the server's end.
    fn tc(&self, words: &str) -> bool {
        let tc = || Command::new("tc").args(words.split(' ')).output();
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
[design]
error_rate = 0.2
min_blocks = 2
max_blocks = 2
disturbed_blocks = "keep"
seed = 1
"#
    )
}

fn null_server(netns: &NetnsPair) -> NullServer {
    let start = || NullServer::start((SERVER, 0).into(), &Settings::default());
    netns.server.within(start).unwrap().unwrap()
}

/// The same with threads that no other program holds up, where this process may have such: whatever is slow then are its clients.
fn prompt_null_server(netns: &NetnsPair) -> NullServer {
    let start = || {
        let thread = fs::read_link("/proc/thread-self").unwrap();
        let mut chrt = Command::new("chrt");
        chrt.args(["--rr", "--pid", "1"]);
        chrt.arg(thread.file_name().unwrap());
        chrt.output().unwrap();
        // Its threads inherit the policy.
        NullServer::start((SERVER, 0).into(), &Settings::default())
    };
    netns.server.within(start).unwrap().unwrap()
}

/// A server that takes its time, for one request after the other where `in_turn`.
fn sleeping_server(netns: &NetnsPair, time: Duration, in_turn: bool) -> SocketAddr {
    let listener = netns.server.within(|| TcpListener::bind((SERVER, 0)));
    let listener = listener.unwrap().unwrap();
    let address = listener.local_addr().unwrap();
    let turn = Arc::new(Mutex::new(()));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let turn = Arc::clone(&turn);
            thread::spawn(move || answer_slowly(&stream.unwrap(), time, in_turn.then_some(&turn)));
        }
    });
    address
}

fn answer_slowly(stream: &TcpStream, time: Duration, turn: Option<&Mutex<()>>) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let mut writer = stream;
    while lines.by_ref().take_while(|line| !line.is_empty()).count() > 0 {
        let held = turn.map(|turn| turn.lock().unwrap());
        thread::sleep(time);
        drop(held);
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        if writer.write_all(answer).is_err() {
            return;
        }
    }
}

/// Programs that each want all of one CPU, until they are dropped: nine, each in a session of its own, because a kernel may share
/// a CPU by session (autogroup), whatever is nice.
struct Hogs(Vec<Child>);

impl Hogs {
    fn on(cpu: &str) -> Self {
        let hog = |_| {
            let mut hog = Command::new("setsid");
            hog.args([
                "taskset",
                "--cpu-list",
                cpu,
                "sh",
                "-c",
                "while :; do :; done",
            ]);
            hog.stdin(Stdio::null()).spawn().unwrap()
        };
        Self((0..9).map(hog).collect())
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}

/// The last of the CPUs that this process may use.
fn last_cpu() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let list = list.unwrap().trim();
    list.rsplit([',', '-']).next().unwrap().into()
}

const CLOSED: &str = "connections = 4\nwindow = \"1s\"\npaths = [\"/bytes/2000\"]";

/// The decision alone, without a busy CPU: `judge::topics::limits::find::tests::clients_without_cpu_time_are_named`.
#[test]
#[ignore = "nine endless loops take 150 s of CPU time: make test-all"]
fn clients_with_a_slow_cpu_are_named() {
    let Some(lab) = Lab::new() else { return };
    let server = prompt_null_server(&lab.netns);
    let cpu = last_cpu();
    let _hogs = Hogs::on(&cpu);
    // Beside programs that want all of the CPU, and have at least as much right to it each.
    let around = ["taskset", "--cpu-list", &cpu, "nice", "-n", "10"];
    let told = lab.run(server.address(), CLOSED, &around);
    told.check(Limit::Clients);
    for own in told.limits() {
        let sign = &own.signs[0];
        assert!(matches!(sign, LimitSign::BusyThread { .. }), "{sign:?}");
    }
    assert!(
        told.text
            .contains("client-limited: one (the busiest client thread"),
        "{}",
        told.text
    );
    assert!(
        told.markdown
            .contains("client-limited: one (the busiest client thread")
    );
    assert_eq!(told.judgement.headlines[0].limits.len(), 2);
}

#[test]
fn a_slow_line_is_named() {
    let Some(lab) = Lab::new() else { return };
    let server = null_server(&lab.netns);
    let slow = "qdisc add dev server root tbf rate 8mbit burst 32kb latency 400ms";
    assert!(lab.tc(slow), "tbf is in every kernel with traffic control");
    let workload = "connections = 4\nwindow = \"1s\"\npaths = [\"/bytes/20000\"]";
    let told = lab.run(server.address(), workload, &["env"]);
    told.check(Limit::Network);
    assert!(told.text.contains("network-bound: one ("), "{}", told.text);
    for own in told.limits() {
        // 8 Mbit/s are 50 answers of 20 kB.
        let CeilingUse::Known { requests_per_s, .. } = own.ceiling else {
            panic!("{own:?}")
        };
        assert!(requests_per_s < 60.0, "{requests_per_s}");
        let near = |sign: &LimitSign| {
            matches!(
                sign,
                LimitSign::NearCeiling {
                    is_of_clients: false,
                    ..
                }
            )
        };
        assert!(own.signs.iter().any(near), "{own:?}");
    }
}

#[test]
fn lost_packets_are_named() {
    let Some(lab) = Lab::new() else { return };
    let server = null_server(&lab.netns);
    // One packet in ten that come to the server is lost: by netem, or where the kernel has none by a program of BPF.
    let random = "filter add dev server ingress bpf da bytecode 4,32 0 0 4294963256,53 1 0 429496729,6 0 0 2,6 0 0 0";
    let by_bpf = || lab.tc("qdisc add dev server clsact") && lab.tc(random);
    let by_netem = || lab.tc("qdisc add dev server root netem loss 10%");
    if !by_bpf() && !by_netem() {
        base::skip::skip("no tc filter of BPF and no netem here");
        return;
    }
    let told = lab.run(server.address(), CLOSED, &["env"]);
    told.check(Limit::Network);
    assert!(
        told.text.contains("of the TCP segments again"),
        "{}",
        told.text
    );
    assert!(
        told.limits()
            .iter()
            .all(|own| own.retransmitted > Some(0.01))
    );
}

#[test]
fn a_server_that_is_its_own_limit_is_named() {
    let Some(lab) = Lab::new() else { return };
    let server = sleeping_server(&lab.netns, Duration::from_millis(40), true);
    let told = lab.run(server, "connections = 4\nwindow = \"1s\"", &["env"]);
    told.check(Limit::Server);
    assert!(told.text.contains("server-limited"), "{}", told.text);
    assert!(
        told.judgement
            .headlines
            .iter()
            .all(|one| one.limits.is_empty())
    );
    assert!(told.limits().iter().all(|own| own.signs.is_empty()));
}

#[test]
#[ignore = "40 s of waiting: make test-all"]
fn a_server_with_time_to_spare_is_named() {
    let Some(lab) = Lab::new() else { return };
    // It takes so long that no send delay of a busy machine shows in it.
    let server = sleeping_server(&lab.netns, Duration::from_secs(1), false);
    let told = lab.run(
        server,
        "connections = 64\nrate = 10\nwindow = \"3s\"\ndeadline = \"30s\"",
        &["env"],
    );
    told.check(Limit::NotSaturated);
    assert!(told.text.contains("server not saturated"), "{}", told.text);
    // What is measured is a wait: then this is as it should be.
    assert!(
        told.judgement
            .headlines
            .iter()
            .all(|one| one.limits.is_empty())
    );
}

#[test]
fn a_null_server_that_is_not_there_costs_the_ceiling_alone() {
    let Some(lab) = Lab::new() else { return };
    let server = sleeping_server(&lab.netns, Duration::from_millis(20), true);
    // Nothing listens there once it has ended.
    let gone = null_server(&lab.netns).address();
    let told = lab.run_below(gone, server, ("connections = 4\nwindow = \"1s\"", &["env"]));
    assert!(
        told.text.contains("ceiling  http: not known, "),
        "{}",
        told.text
    );
    assert!(told.text.contains("ceiling not known"), "{}", told.text);
    told.check(Limit::Server);
    assert!(told.run.attempts.len() >= 4);
}

#[test]
fn the_ceiling_of_a_run_that_has_ended_is_measured_again_on_demand() {
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
        let mut bakeoff = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
        bakeoff
            .args(["run", "plan.toml", "--out", "run"])
            .args(option);
        bakeoff.current_dir(dir.path());
        let output = lab.netns.client.within(|| bakeoff.output());
        let output = output.unwrap().unwrap();
        assert!(output.status.success(), "{output:?}");
        let run = rundir::load(&dir.path().join("run"), &workload::check).unwrap();
        (judge::judge(&run), run)
    };
    let (judgement, first) = run(&[]);
    let limit = |judgement: &Judgement| judgement.arm_summaries[0].limit.clone().unwrap();
    assert!(matches!(
        limit(&judgement).ceiling,
        CeilingUse::Failed { .. }
    ));
    // It is started where it was missing.
    let listen = || NullServer::start(gone, &Settings::default());
    let _there = lab.netns.server.within(listen).unwrap().unwrap();
    assert_eq!(run(&[]).1.entries, first.entries);
    let (judgement, again) = run(&["--ceiling"]);
    let own = limit(&judgement);
    assert!(matches!(own.ceiling, CeilingUse::Known { .. }), "{own:?}");
    // Nothing else has been measured, and the run is as ended as it was.
    let [entries @ .., last] = &again.entries[..] else {
        panic!("no entry")
    };
    assert_eq!(entries, first.entries);
    assert!(matches!(last.event, Event::Ceiling { .. }), "{last:?}");
    assert_eq!(again.closed(), first.closed());
    assert!(again.closed().is_some());
}

/// What `check` says of a plan with such a ceiling.
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
    let mut check = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
    let output = check.args(["check", "plan.toml"]).current_dir(dir.path());
    let output = output.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_ceiling_that_cannot_be_is_refused() {
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
