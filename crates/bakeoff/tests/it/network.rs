//! Systems on the network: servers that bakeoff did not start, with and without sources of facts.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use guest::netns::{NetnsPair, SERVER};
use plan::EvidenceSource;
use record::journal::{Entry, Event};
use record::trial::Outcome;
use record::verdict::fairness::Outcome as FairnessOutcome;

use crate::program::{
    TWO_BLOCKS, TerminateOnDrop, all_output, are_installed, command, is_root, refusal, signal,
    stderr,
};
use crate::simulated_lab::load_run;

/// Responses by path: a page, a redirect, and the metrics of `windows_exporter`.
const PAGES: [(&str, &str); 3] = [
    (
        "/",
        "200 OK\r\nServer: test\r\nContent-Length: 5\r\n\r\nhello",
    ),
    (
        "/old",
        "302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n",
    ),
    (
        "/metrics",
        "200 OK\r\nConnection: close\r\n\r\nwindows_cpu_time_total{core=\"0,0\",mode=\"idle\"} 30\n\
         windows_cpu_time_total{core=\"0,0\",mode=\"user\"} 10\n\
         windows_os_info{product=\"Windows Server\",version=\"10.0\"} 1\n",
    ),
];

/// Starts a server that runs until the test's process ends.
pub(crate) fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || respond(&stream.unwrap()));
        }
    });
    address
}

fn respond(stream: &TcpStream) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    while let Some(first) = lines.next() {
        if lines.by_ref().take_while(|line| !line.is_empty()).count() == 0 && first.is_empty() {
            return;
        }
        let path = first.split(' ').nth(1).unwrap_or_default();
        let path = path.split('?').next().unwrap_or_default();
        let page = PAGES.iter().find(|(name, _)| *name == path);
        let page = page.map_or("404 None\r\nContent-Length: 0\r\n\r\n", |(_, page)| page);
        let mut writer = stream;
        // Without a pause, clients and server would use all CPU time.
        thread::sleep(Duration::from_millis(2));
        let sent = writer.write_all(format!("HTTP/1.1 {page}").as_bytes());
        if sent.is_err() || page.contains("Connection: close") {
            return;
        }
    }
}

pub(crate) fn plan([old, new]: [&str; 2], [machine, arm]: [&str; 2], workload: &str) -> String {
    format!(
        r#"
title = "two systems"
baseline = "old"
[machine]
kind = "url"
{machine}
[arm.old]
url = "{old}"
{arm}
[arm.new]
url = "{new}"
[[workload]]
kind = "http"
connections = 2
warmup = "0s"
window = "1s"
{workload}
{TWO_BLOCKS}"#
    )
}

fn bakeoff(dir: &Path, plan: &str) -> Command {
    fs::write(dir.join("plan.toml"), plan).unwrap();
    let mut bakeoff = command(dir, &["run", "plan.toml", "--out", "run"]);
    bakeoff
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    bakeoff
}

#[test]
fn two_systems_are_measured_in_turn_with_the_facts_that_are_known() {
    let dir = tempfile::tempdir().unwrap();
    let [old, new] = [serve(), serve()].map(|address| format!("http://{address}"));
    let exporter = format!("exporter = \"{old}/metrics\"\nbefore = [\"./before.sh\"]");
    script(
        &dir.path().join("before.sh"),
        "echo \"$BAKEOFF_ARM $BAKEOFF_URL\" >> before",
    );
    let plan = plan([&old, &new], ["", &exporter], "paths = [\"/\"]");
    let output = bakeoff(dir.path(), &plan).output().unwrap();
    let text = all_output(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("nothing at all of new"), "{text}");
    let run = load_run(&dir.path().join("run"));
    assert!(run.attempts.len() >= 4);
    for (record, facts) in run.attempts.iter().zip(&run.facts) {
        let Outcome::Measured(measurement) = &record.outcome else {
            panic!("{record:?}")
        };
        assert_eq!(measurement.figures[0].spec.name, "throughput");
        assert!(measurement.load.as_ref().unwrap().ok > 0);
        assert_eq!(measurement.server, "test");
        let values = &facts.as_ref().unwrap().values;
        assert!(
            values["remote:response /"].starts_with("status 200, 5 bytes"),
            "{values:?}"
        );
        let is_old = record.trial.arm == "old";
        assert_eq!(
            values["remote:evidence"],
            if is_old { "exporter" } else { "none" }
        );
        let kernel = if is_old {
            "Windows Server 10.0"
        } else {
            "not known"
        };
        assert_eq!(measurement.kernel, kernel);
    }
    let before = fs::read_to_string(dir.path().join("before")).unwrap();
    // The command runs once for each trial of its arm, also in blocks that ran again because the
    // host was busy.
    let line = format!("old {old}");
    assert!(
        before.lines().count() >= 2 && before.lines().all(|logged| logged == line),
        "{before}"
    );
}

#[test]
fn systems_are_exchanged_from_block_to_block() {
    let dir = tempfile::tempdir().unwrap();
    let [old, new] = [serve(), serve()].map(|address| format!("http://{address}"));
    script(&dir.path().join("swap.sh"), "echo \"$1\" >> swapped");
    let exporter = format!("exporter = \"{old}/metrics\"");
    let swap = ["swap = [\"./swap.sh\"]", &exporter];
    let output = bakeoff(dir.path(), &plan([&old, &new], swap, "threads = 2"))
        .output()
        .unwrap();
    let text = all_output(&output);
    assert!(output.status.success(), "{text}");
    // Each system was at the address with the exporter in one block.
    let note = "of old, new only what was told in trials at the address that has an exporter";
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(words.join(" ").contains(note), "{text}");
    assert!(!text.contains("nothing at all"), "{text}");
    let row = text.lines().find(|line| line.starts_with("kernel "));
    let row = row.unwrap_or_default();
    assert_eq!(row.matches("Windows Server 10.0").count(), 2, "{text}");
    // A disturbed block runs again with the same assignment of addresses.
    let swapped = fs::read_to_string(dir.path().join("swapped")).unwrap();
    assert!(swapped.starts_with("straight\nswapped\n"), "{swapped}");
    assert!(swapped.ends_with("swapped\nstraight\n"), "{swapped}");
    let run = load_run(&dir.path().join("run"));
    for (record, facts) in run.attempts.iter().zip(&run.facts) {
        let is_at_old = (record.trial.arm == "old") == (record.trial.block == 1);
        let url = if is_at_old { &old } else { &new };
        assert_eq!(&facts.as_ref().unwrap().values["remote:url"], url);
    }
}

#[test]
fn exchanged_systems_are_restored_at_the_end_and_for_one_client_fewer() {
    let dir = tempfile::tempdir().unwrap();
    let [old, new] = [serve(), serve()].map(|address| format!("http://{address}"));
    script(&dir.path().join("swap.sh"), "echo \"$1\" >> swapped");
    let run = |machine: &str, blocks: &str| {
        let _ = fs::remove_dir_all(dir.path().join("run"));
        let _ = fs::remove_file(dir.path().join("swapped"));
        let machine = format!("swap = [\"./swap.sh\"]\n{machine}");
        let text = plan([&old, &new], [&machine, ""], "threads = 2");
        let text = text.replace("_blocks = 2", &format!("_blocks = {blocks}"));
        let output = bakeoff(dir.path(), &text).output().unwrap();
        assert!(output.status.success(), "{}", all_output(&output));
        fs::read_to_string(dir.path().join("swapped")).unwrap()
    };
    // Only block 2 would be exchanged.
    assert_eq!(run("", "1"), "straight\n");
    let entries = load_run(&dir.path().join("run")).entries;
    let is_one_fewer = |entry: &&Entry| matches!(entry.event, Event::OneFewer { .. });
    assert_eq!(entries.iter().filter(is_one_fewer).count(), 2);
    let swapped = run("one_client_fewer = false", "2");
    assert!(swapped.ends_with("swapped\nstraight\n"), "{swapped}");
}

#[test]
fn faults_of_a_system_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("http://{}", serve());
    let refused = |urls: [&str; 2], settings, workload| {
        let _ = fs::remove_dir_all(dir.path().join("run"));
        refusal(
            &bakeoff(dir.path(), &plan(urls, settings, workload))
                .output()
                .unwrap(),
        )
    };
    let plain = ["", ""];
    let error = refused([&url, &url], plain, "paths = [\"/old\"]");
    assert!(
        error.contains("GET /old is redirected: 302 to http://192.0.2.1/"),
        "{error}"
    );
    let error = refused([&url, &url], plain, "paths = [\"/none\"]");
    assert!(
        error.contains("status is not 200: 404 (if that is right, say status = 404)"),
        "{error}"
    );
    let error = refused([&url, &url], ["", "before = [\"./none.sh\"]"], "");
    assert!(error.contains("plan.toml:9: no such program: "), "{error}");
    let error = refused([&url, "http://user:secret@192.0.2.1"], plain, "");
    let want = "plan.toml:11: url with a name or password before @192.0.2.1 (take it out: clients of a plan do not log in)";
    assert!(error.contains(want) && !error.contains("secret"), "{error}");
    // Nothing listens at this address, because the listener is closed.
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let error = refused([&url, &format!("http://{closed}")], plain, "");
    assert!(
        error.contains("plan.toml:11: arm new: server not reachable"),
        "{error}"
    );
}

#[test]
fn useless_sources_of_facts_are_refused_before_the_first_trial() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("http://{}", serve());
    // Nothing answers at this port, because the socket is dropped.
    let silent = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let snmp = format!("snmp = \"{silent}\"\ncommunity = \"wrong\"");
    let plan = plan([&url, &url], ["", &format!("exporter = \"{url}/\"")], "");
    let plan = plan.replace("[arm.new]", &format!("[arm.new]\n{snmp}"));
    let output = bakeoff(dir.path(), &plan).output().unwrap();
    let text = all_output(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    // Both errors come together, without the community string.
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("plan.toml:"))
        .collect();
    let [old, new] = lines[..] else {
        panic!("{text}")
    };
    let want = [
        "plan.toml:8: arm old: exporter that does not tell of the system: no exporter that is known: ",
        "; expected: metrics of node_exporter or windows_exporter",
        "take exporter out of the arm",
    ];
    assert!(want.iter().all(|words| old.contains(words)), "{old}");
    let want = [
        "plan.toml:13: arm new: snmp that does not tell of the system: no SNMP agent answers: ",
        "; expected: an SNMP agent of version 2c",
        "take snmp out of the arm",
    ];
    assert!(want.iter().all(|words| new.contains(words)), "{new}");
    assert!(
        !text.contains("wrong") && !text.contains("trial 001"),
        "{text}"
    );
    let trials = fs::read_dir(dir.path().join("run/trials"));
    assert_eq!(trials.map_or(0, Iterator::count), 0);
}

#[test]
fn runs_that_share_a_system_take_turns() {
    let dir = tempfile::tempdir().unwrap();
    let [shared, first, second] = [serve(), serve(), serve()];
    script(&dir.path().join("before.sh"), "pwd >> ../before");
    let spawn = |name: &str, arms: [SocketAddr; 2]| {
        let run_dir = dir.path().join(name);
        fs::create_dir(&run_dir).unwrap();
        fs::copy(dir.path().join("before.sh"), run_dir.join("before.sh")).unwrap();
        let [old, new] = arms.map(|address| format!("http://{address}"));
        let text = plan(
            [&old, &new],
            ["one_client_fewer = false", "before = [\"./before.sh\"]"],
            "",
        );
        bakeoff(&run_dir, &text).spawn().unwrap()
    };
    // Both runs have one system in common, under different names.
    let runs = [
        spawn("first", [shared, first]),
        spawn("second", [second, shared]),
    ];
    for run in runs {
        let output = run.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", all_output(&output));
    }
    let order = fs::read_to_string(dir.path().join("before")).unwrap();
    let mut order: Vec<&str> = order.lines().collect();
    assert!(order.len() >= 4, "{order:?}");
    order.dedup();
    assert_eq!(order.len(), 2, "{order:?}");
}

#[test]
fn a_command_before_a_trial_ends_with_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("http://{}", serve());
    script(
        &dir.path().join("before.sh"),
        "echo $$ > new && mv new pid && exec sleep 600",
    );
    let text = plan([&url, &url], ["", "before = [\"./before.sh\"]"], "");
    for name in ["INT", "KILL"] {
        let _ = fs::remove_dir_all(dir.path().join("run"));
        let pid = dir.path().join("pid");
        let _ = fs::remove_file(&pid);
        let child = bakeoff(dir.path(), &text).spawn().unwrap();
        while !pid.exists() {
            thread::yield_now();
        }
        signal(name, child.id());
        let output = child.wait_with_output().unwrap();
        let pid: i32 = fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
        // Its new parent may not have reaped it yet.
        let state = || fs::read_to_string(format!("/proc/{pid}/stat"));
        while state().is_ok_and(|text| !text.contains(") Z ")) {
            thread::yield_now();
        }
        if name == "INT" {
            let error = stderr(&output);
            assert!(error.contains("interrupted"), "{error}");
        }
    }
}

/// Starts a server at each of these loopback addresses. Returns their port, and the numbers of
/// requests for the page.
fn serve_on(addresses: [&str; 3]) -> (u16, [Arc<AtomicU64>; 3]) {
    let mut port = 0;
    let counts = addresses.map(|address| {
        let listener = TcpListener::bind((address, port)).unwrap();
        port = listener.local_addr().unwrap().port();
        let count = Arc::new(AtomicU64::new(0));
        let of_server = Arc::clone(&count);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let count = Arc::clone(&of_server);
                thread::spawn(move || respond_and_count(&stream.unwrap(), &count));
            }
        });
        count
    });
    (port, counts)
}

fn respond_and_count(stream: &TcpStream, count: &AtomicU64) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let mut writer = stream;
    while let Some(first) = lines.next() {
        lines.by_ref().take_while(|line| !line.is_empty()).count();
        if first.starts_with("GET /page ") {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let response = b"HTTP/1.1 200 OK\r\nServer: test\r\nContent-Length: 5\r\n\r\nhello";
        if writer.write_all(response).is_err() {
            return;
        }
    }
}

#[test]
fn several_addresses_of_a_system_share_the_load() {
    let addresses = ["127.0.0.1", "127.0.0.2", "127.0.0.3"];
    let (port, counts) = serve_on(addresses);
    let dir = tempfile::tempdir().unwrap();
    let url = format!("http://127.0.0.1:{port}");
    let line = format!("addresses = {addresses:?}");
    // Seven connections for three addresses. At a rate, the number of requests is known.
    let workload = "paths = [\"/page\"]\nrate = 300";
    let plan = plan([&url, &url], ["one_client_fewer = false", &line], workload);
    let plan = plan.replace("connections = 2", "connections = 7");
    let output = bakeoff(dir.path(), &plan).output().unwrap();
    let text = all_output(&output);
    assert!(output.status.success(), "{text}");
    let run = load_run(&dir.path().join("run"));
    let (mut answered, mut trials, mut others) = ([0; 3], 0, 0);
    // Blocks that ran again because the host was busy have requests too.
    for record in run.attempts.iter().chain(&run.invalidated) {
        let Outcome::Measured(measurement) = &record.outcome else {
            panic!("{record:?}")
        };
        let load = measurement.load.as_ref().unwrap();
        trials += 1;
        if record.trial.arm == "new" {
            // This arm has one address.
            assert!(load.ok_by_address.is_empty());
            others += load.planned;
            continue;
        }
        assert_eq!(load.ok_by_address.values().sum::<u64>(), load.ok);
        for (sum, address) in answered.iter_mut().zip(addresses) {
            let ok = load.ok_by_address[&format!("{address}:{port}")];
            assert!(ok > 0, "{address}");
            *sum += ok;
        }
    }
    for (record, facts) in run.attempts.iter().zip(&run.facts) {
        if record.trial.arm == "old" {
            let values = &facts.as_ref().unwrap().values;
            assert_eq!(values["remote:addresses"], addresses.join(" "));
        }
    }
    // Each server counted the requests of the clients to its address, the two requests before each
    // load, and requests outside the window.
    for (place, answered) in answered.into_iter().enumerate() {
        let counted = counts[place].load(Ordering::Relaxed);
        let most = answered + trials * (2 + 7) + if place == 0 { others + trials * 9 } else { 0 };
        assert!(
            (answered..=most).contains(&counted),
            "{place}: {answered} {counted} {most}"
        );
    }
    assert!(text.contains("served by address"), "{text}");
    let judgement = judge::judge(&run);
    let finding = judgement
        .fairness
        .iter()
        .find(|finding| finding.id == "addresses-share");
    assert_eq!(finding.unwrap().outcome, FairnessOutcome::Passed);
    // Nothing listens at the fourth address, and three connections are too few for four addresses.
    let refused = |text: &str| {
        let _ = fs::remove_dir_all(dir.path().join("run"));
        refusal(&bakeoff(dir.path(), text).output().unwrap())
    };
    let four = plan.replace("\"127.0.0.3\"", "\"127.0.0.3\", \"127.0.0.4\"");
    let why = refused(&four);
    assert!(
        why.contains("plan.toml:8: arm old: address that takes no connection: 127.0.0.4 (is it an address of this system"),
        "{why}"
    );
    let why = refused(&four.replace("connections = 7", "connections = 3"));
    assert!(
        why.contains("plan.toml:8: arm old: fewer connections than addresses (4): workload http, 3 (write connections = 4 or more)"),
        "{why}"
    );
}

/// Real servers in a network namespace: two nginx with different settings, Debian's SNMP agent and
/// its `node_exporter`.
#[test]
fn facts_of_real_systems_come_from_snmp_and_an_exporter() {
    let programs = [
        "/usr/sbin/nginx",
        "/usr/sbin/snmpd",
        "/usr/bin/prometheus-node-exporter",
    ];
    if !are_installed(&programs) {
        return;
    }
    if !is_root() {
        base::skip::skip("no trials on this host: they need root");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let netns = NetnsPair::create().unwrap();
    let servers = real_servers(dir.path());
    let _running: Vec<TerminateOnDrop> = servers
        .iter()
        .map(|args| start(args, dir.path(), &netns))
        .collect();
    let plan = plan(
        [
            &format!("http://{SERVER}:8081"),
            &format!("http://{SERVER}:8082"),
        ],
        ["", &format!("exporter = \"http://{SERVER}:9100/metrics\"")],
        "",
    );
    let snmp = format!("[arm.new]\nsnmp = \"{SERVER}\"\ncommunity = \"secret\"");
    let plan = plan.replace("[arm.new]", &snmp);
    let source = EvidenceSource::Snmp {
        address: SERVER.to_string(),
        community: "secret".into(),
    };
    let run = || {
        for port in [8081, 8082, 9100] {
            while TcpStream::connect((SERVER, port)).is_err() {}
        }
        while guest::try_source(&source).is_err() {}
        bakeoff(dir.path(), &plan).output().unwrap()
    };
    let output = netns.client.within(run).unwrap();
    let text = all_output(&output);
    assert!(output.status.success(), "{text}");
    let mut memory_mib = Vec::new();
    for record in &load_run(&dir.path().join("run")).attempts {
        let Outcome::Measured(measurement) = &record.outcome else {
            panic!("{record:?} {text}")
        };
        assert!(
            measurement.server.starts_with("nginx/"),
            "{}",
            measurement.server
        );
        assert!(
            measurement.kernel.contains("Linux"),
            "{}",
            measurement.kernel
        );
        let figure = |name: &str| {
            let mut figures = measurement.figures.iter();
            let figure = figures.find(|figure| figure.spec.name == name);
            figure.unwrap().value
        };
        memory_mib.push(figure("system-memory"));
        // The SNMP agent samples the CPUs only every few seconds.
        if record.trial.arm == "old" {
            assert!(figure("system-cpu") > 0.0);
        }
    }
    assert!(memory_mib.iter().all(|mib| *mib > 10.0), "{memory_mib:?}");
}

/// Writes the configurations of two nginx, `snmpd` and `node_exporter` at the server's address;
/// returns their commands.
fn real_servers(dir: &Path) -> Vec<Vec<String>> {
    let place = dir.to_str().unwrap();
    fs::write(dir.join("index.html"), vec![b'x'; 10_000]).unwrap();
    fs::write(
        dir.join("snmpd.conf"),
        "rocommunity secret\nview all included .1\n",
    )
    .unwrap();
    let mut servers = Vec::new();
    for (port, sendfile) in [(8081, "on"), (8082, "off")] {
        let file = format!("{place}/nginx{port}.conf");
        fs::write(
            &file,
            format!(
                "daemon off; pid {place}/nginx{port}.pid; error_log {place}/nginx{port}.log; events {{}}\n\
                 http {{ access_log off; sendfile {sendfile}; server {{ listen {SERVER}:{port}; root {place}; }} }}\n"
            ),
        )
        .unwrap();
        servers.push(vec!["/usr/sbin/nginx".into(), "-c".into(), file]);
    }
    let snmpd = format!(
        "/usr/sbin/snmpd -f -C -c {place}/snmpd.conf -Lf {place}/snmpd.log -p {place}/snmpd.pid udp:{SERVER}:161"
    );
    let exporter = format!("/usr/bin/prometheus-node-exporter --web.listen-address={SERVER}:9100");
    servers.extend([snmpd, exporter].map(|line| line.split(' ').map(String::from).collect()));
    fs::set_permissions(dir, Permissions::from_mode(0o755)).unwrap();
    servers
}

/// Starts a server in the server's namespace.
fn start(args: &[String], dir: &Path, netns: &NetnsPair) -> TerminateOnDrop {
    let spawn = || {
        Command::new(&args[0])
            .args(&args[1..])
            // Otherwise snmpd would keep its state in /var/lib/snmp.
            .env("SNMP_PERSISTENT_DIR", dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    };
    TerminateOnDrop(netns.server.within(spawn).unwrap().unwrap())
}

pub(crate) fn script(path: &Path, line: &str) {
    fs::write(path, format!("#!/bin/sh\n{line}\n")).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}
