//! Systems on the network: servers that bakeoff did not start, with and without word of themselves.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use guest::netns::{NetnsPair, SERVER};
use plan::EvidenceSource;
use record::journal::{Entry, Event};
use record::rundir;
use record::rundir::Run;
use record::trial::Outcome;
use record::verdict::fairness::Outcome as FairnessOutcome;

/// A page, and what `windows_exporter` says; all that some systems have.
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

/// Serves until the test's process ends.
fn serve() -> SocketAddr {
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
        let page = PAGES.iter().find(|(own, _)| *own == path);
        let page = page.map_or("404 None\r\nContent-Length: 0\r\n\r\n", |(_, page)| page);
        let mut writer = stream;
        // Without a pause, clients and server would take all CPU time of the window.
        thread::sleep(Duration::from_millis(2));
        let sent = writer.write_all(format!("HTTP/1.1 {page}").as_bytes());
        if sent.is_err() || page.contains("Connection: close") {
            return;
        }
    }
}

fn plan([old, new]: [&str; 2], more: [&str; 2], workload: &str) -> String {
    let [machine, arm] = more;
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
[design]
error_rate = 0.2
min_blocks = 2
max_blocks = 2
disturbed_blocks = "keep"
seed = 1
"#
    )
}

fn bakeoff(dir: &Path, plan: &str) -> Command {
    fs::write(dir.join("plan.toml"), plan).unwrap();
    let mut bakeoff = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
    bakeoff
        .args(["run", "plan.toml", "--out", "run"])
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    bakeoff
}

fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8(text).unwrap()
}

fn read(dir: &Path) -> Run {
    rundir::load(&dir.join("run"), &workload::check).unwrap()
}

#[test]
fn two_systems_are_asked_in_turn_and_nothing_is_said_of_what_is_not_known() {
    let dir = tempfile::tempdir().unwrap();
    let [old, new] = [serve(), serve()].map(|address| format!("http://{address}"));
    let exporter = format!("exporter = \"{old}/metrics\"\nbefore = [\"./before.sh\"]");
    script(
        &dir.path().join("before.sh"),
        "echo \"$BAKEOFF_ARM $BAKEOFF_URL\" >> before",
    );
    let text = plan([&old, &new], ["", &exporter], "paths = [\"/\"]");
    let output = bakeoff(dir.path(), &text).output().unwrap();
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("nothing at all of new"), "{said}");
    let run = read(dir.path());
    assert!(run.attempts.len() >= 4);
    for (record, facts) in run.attempts.iter().zip(&run.facts) {
        let Outcome::Measured(measurement) = &record.outcome else {
            panic!("{record:?}")
        };
        let names: Vec<_> = measurement
            .figures
            .iter()
            .map(|one| one.spec.name.as_str())
            .collect();
        assert_eq!(names[0], "throughput");
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
    // Once for each trial of its arm, those of blocks that are run again because the host was busy among them.
    let line = format!("old {old}");
    assert!(
        before.lines().count() >= 2 && before.lines().all(|own| own == line),
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
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    // Each system had the address with the exporter in one block.
    let told = "of old, new only what was told in trials at the address that has an exporter";
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&said).contains(told), "{said}");
    assert!(!said.contains("nothing at all"), "{said}");
    let row = said.lines().find(|line| line.starts_with("kernel "));
    let row = row.unwrap_or_default();
    assert_eq!(row.matches("Windows Server 10.0").count(), 2, "{said}");
    // A block that something outside disturbed is run again, in the same place.
    let swapped = fs::read_to_string(dir.path().join("swapped")).unwrap();
    assert!(swapped.starts_with("straight\nswapped\n"), "{swapped}");
    assert!(swapped.ends_with("swapped\nstraight\n"), "{swapped}");
    let run = read(dir.path());
    for (record, facts) in run.attempts.iter().zip(&run.facts) {
        let is_own = (record.trial.arm == "old") == (record.trial.block == 1);
        let url = if is_own { &old } else { &new };
        assert_eq!(&facts.as_ref().unwrap().values["remote:url"], url);
    }
}

#[test]
fn exchanged_systems_end_as_they_are_named_and_one_client_fewer_is_measured_there() {
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
        assert!(output.status.success(), "{}", said(&output));
        fs::read_to_string(dir.path().join("swapped")).unwrap()
    };
    // Block 2 would have been exchanged.
    assert_eq!(run("", "1"), "straight\n");
    let entries = read(dir.path()).entries;
    let is_one_fewer = |entry: &&Entry| matches!(entry.event, Event::OneFewer { .. });
    assert_eq!(entries.iter().filter(is_one_fewer).count(), 2);
    let swapped = run("one_client_fewer = false", "2");
    assert!(swapped.ends_with("swapped\nstraight\n"), "{swapped}");
}

#[test]
fn what_is_wrong_with_a_system_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("http://{}", serve());
    let say = |urls: [&str; 2], more, workload| {
        let _ = fs::remove_dir_all(dir.path().join("run"));
        let output = bakeoff(dir.path(), &plan(urls, more, workload))
            .output()
            .unwrap();
        (output.status.code(), said(&output))
    };
    let plain = ["", ""];
    let (status, said) = say([&url, &url], plain, "paths = [\"/old\"]");
    assert!(
        said.contains("GET /old is redirected: 302 to http://192.0.2.1/"),
        "{said}"
    );
    assert_eq!(status, Some(2));
    let (_, said) = say([&url, &url], plain, "paths = [\"/none\"]");
    assert!(
        said.contains("status is not 200: 404 (if that is right, say status = 404)"),
        "{said}"
    );
    let (_, said) = say([&url, &url], ["", "before = [\"./none.sh\"]"], "");
    assert!(said.contains("plan.toml:9: no such program: "), "{said}");
    let (status, said) = say([&url, "http://user:secret@192.0.2.1"], plain, "");
    let want = "plan.toml:11: url with a name or password before @192.0.2.1 (take it out: clients of a plan do not log in)";
    assert!(said.contains(want) && !said.contains("secret"), "{said}");
    assert_eq!(status, Some(2));
    // Nothing listens there once it is closed.
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let (status, said) = say([&url, &format!("http://{closed}")], plain, "");
    assert_eq!(status, Some(2), "{said}");
    assert!(
        said.contains("plan.toml:11: arm new: server not reachable"),
        "{said}"
    );
}

#[test]
fn what_does_not_tell_of_a_system_is_found_before_the_first_trial() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("http://{}", serve());
    // Its port is nobody's once it is dropped.
    let silent = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let snmp = format!("snmp = \"{silent}\"\ncommunity = \"wrong\"");
    let text = plan([&url, &url], ["", &format!("exporter = \"{url}/\"")], "");
    let text = text.replace("[arm.new]", &format!("[arm.new]\n{snmp}"));
    let output = bakeoff(dir.path(), &text).output().unwrap();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    // Both in one message, and no word of the community.
    let lines: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("plan.toml:"))
        .collect();
    let [old, new] = lines[..] else {
        panic!("{said}")
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
        !said.contains("wrong") && !said.contains("trial 001"),
        "{said}"
    );
    let trials = fs::read_dir(dir.path().join("run/trials"));
    assert_eq!(trials.map_or(0, Iterator::count), 0);
}

#[test]
fn runs_that_share_a_system_take_turns() {
    let dir = tempfile::tempdir().unwrap();
    let [one, two, three] = [serve(), serve(), serve()];
    script(&dir.path().join("before.sh"), "pwd >> ../before");
    let spawn = |name: &str, arms: [SocketAddr; 2]| {
        let own = dir.path().join(name);
        fs::create_dir(&own).unwrap();
        fs::copy(dir.path().join("before.sh"), own.join("before.sh")).unwrap();
        let [old, new] = arms.map(|address| format!("http://{address}"));
        let text = plan(
            [&old, &new],
            ["one_client_fewer = false", "before = [\"./before.sh\"]"],
            "",
        );
        bakeoff(&own, &text).spawn().unwrap()
    };
    // One arm of each is the same system, under whatever name.
    let runs = [spawn("first", [one, two]), spawn("second", [three, one])];
    for run in runs {
        let output = run.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
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
    for signal in ["INT", "KILL"] {
        let _ = fs::remove_dir_all(dir.path().join("run"));
        let pid = dir.path().join("pid");
        let _ = fs::remove_file(&pid);
        let child = bakeoff(dir.path(), &text).spawn().unwrap();
        while !pid.exists() {
            thread::yield_now();
        }
        let id = child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status();
        assert!(sent.unwrap().success());
        let output = child.wait_with_output().unwrap();
        let pid: i32 = fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
        // Whoever inherits it may not have reaped it yet.
        let state = || fs::read_to_string(format!("/proc/{pid}/stat"));
        while state().is_ok_and(|text| !text.contains(") Z ")) {
            thread::yield_now();
        }
        if signal == "INT" {
            assert!(said(&output).contains("interrupted"), "{}", said(&output));
        }
    }
}

/// A port on which each of these addresses of the loopback answers, and counts the requests for the page.
fn serve_on(addresses: [&str; 3]) -> (u16, [Arc<AtomicU64>; 3]) {
    let mut port = 0;
    let counts = addresses.map(|address| {
        let listener = TcpListener::bind((address, port)).unwrap();
        port = listener.local_addr().unwrap().port();
        let count = Arc::new(AtomicU64::new(0));
        let own = Arc::clone(&count);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let own = Arc::clone(&own);
                thread::spawn(move || answer_and_count(&stream.unwrap(), &own));
            }
        });
        count
    });
    (port, counts)
}

fn answer_and_count(stream: &TcpStream, count: &AtomicU64) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let mut writer = stream;
    while let Some(first) = lines.next() {
        lines.by_ref().take_while(|line| !line.is_empty()).count();
        if first.starts_with("GET /page ") {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let answer = b"HTTP/1.1 200 OK\r\nServer: test\r\nContent-Length: 5\r\n\r\nhello";
        if writer.write_all(answer).is_err() {
            return;
        }
    }
}

#[test]
fn several_addresses_of_a_system_are_served_at_once() {
    let addresses = ["127.0.0.1", "127.0.0.2", "127.0.0.3"];
    let (port, counts) = serve_on(addresses);
    let dir = tempfile::tempdir().unwrap();
    let url = format!("http://127.0.0.1:{port}");
    let line = format!("addresses = {addresses:?}");
    // Seven connections for three addresses, at a rate: what is asked for is then known.
    let workload = "paths = [\"/page\"]\nrate = 300";
    let text = plan([&url, &url], ["one_client_fewer = false", &line], workload);
    let text = text.replace("connections = 2", "connections = 7");
    let output = bakeoff(dir.path(), &text).output().unwrap();
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    let run = read(dir.path());
    let (mut answered, mut trials, mut others) = ([0; 3], 0, 0);
    // Blocks that were run again because the host was busy are asked for as well.
    for record in run.attempts.iter().chain(&run.struck) {
        let Outcome::Measured(measurement) = &record.outcome else {
            panic!("{record:?}")
        };
        let load = measurement.load.as_ref().unwrap();
        trials += 1;
        if record.trial.arm == "new" {
            // It has one address.
            assert!(load.ok_by_address.is_empty());
            others += load.planned;
            continue;
        }
        assert_eq!(load.ok_by_address.values().sum::<u64>(), load.ok);
        for (all, address) in answered.iter_mut().zip(addresses) {
            let own = load.ok_by_address[&format!("{address}:{port}")];
            assert!(own > 0, "{address}");
            *all += own;
        }
    }
    let of_old = run.attempts.iter().zip(&run.facts);
    let mut of_old = of_old.filter(|(record, _)| record.trial.arm == "old");
    assert!(of_old.all(|(_, facts)| {
        facts.as_ref().unwrap().values["remote:addresses"] == addresses.join(" ")
    }));
    // What each server counted is what the clients say of its address: beyond that are the two requests before each load, and
    // what was asked outside the window.
    for (place, answered) in answered.into_iter().enumerate() {
        let counted = counts[place].load(Ordering::Relaxed);
        let most = answered + trials * (2 + 7) + if place == 0 { others + trials * 9 } else { 0 };
        assert!(
            (answered..=most).contains(&counted),
            "{place}: {answered} {counted} {most}"
        );
    }
    assert!(said.contains("served by address"), "{said}");
    let judgement = judge::judge(&run);
    let finding = judgement
        .fairness
        .iter()
        .find(|one| one.id == "addresses-share");
    assert_eq!(finding.unwrap().outcome, FairnessOutcome::Pass);
    // Nobody listens on the fourth; and three connections do not reach four addresses.
    let refused = |text: &str| {
        let _ = fs::remove_dir_all(dir.path().join("run"));
        let output = bakeoff(dir.path(), text).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        self::said(&output)
    };
    let four = text.replace("\"127.0.0.3\"", "\"127.0.0.3\", \"127.0.0.4\"");
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

/// Real servers in a network of their own: two of nginx that are set up differently, Debian's SNMP agent and its
/// `node_exporter`.
#[test]
fn real_systems_tell_of_themselves() {
    let programs = [
        "/usr/sbin/nginx",
        "/usr/sbin/snmpd",
        "/usr/bin/prometheus-node-exporter",
    ];
    if let Some(missing) = programs.iter().find(|program| !Path::new(program).exists()) {
        base::skip::skip(&format!("program not installed: {missing}"));
        return;
    }
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        base::skip::skip("no trials on this host: they need root");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let netns = NetnsPair::create().unwrap();
    let servers = real_servers(dir.path());
    let _running: Vec<Running> = servers
        .iter()
        .map(|words| Running::start(words, dir.path(), &netns))
        .collect();
    let text = plan(
        [
            &format!("http://{SERVER}:8081"),
            &format!("http://{SERVER}:8082"),
        ],
        ["", &format!("exporter = \"http://{SERVER}:9100/metrics\"")],
        "",
    );
    let snmp = format!("[arm.new]\nsnmp = \"{SERVER}\"\ncommunity = \"secret\"");
    let text = text.replace("[arm.new]", &snmp);
    let wait = |port: u16| while TcpStream::connect((SERVER, port)).is_err() {};
    let source = EvidenceSource::Snmp {
        address: SERVER.to_string(),
        community: "secret".into(),
    };
    let run = || {
        [8081, 8082, 9100].into_iter().for_each(wait);
        while guest::try_source(&source).is_err() {}
        bakeoff(dir.path(), &text).output().unwrap()
    };
    let output = netns.client.within(run).unwrap();
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    let mut memory = Vec::new();
    for record in &read(dir.path()).attempts {
        let Outcome::Measured(measurement) = &record.outcome else {
            panic!("{record:?} {said}")
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
            let found = measurement.figures.iter().find(|one| one.spec.name == name);
            found.map(|one| one.value)
        };
        memory.push(figure("system-memory").unwrap());
        // The SNMP agent looks at the CPUs every few seconds only.
        if record.trial.arm == "old" {
            assert!(figure("system-cpu").unwrap() > 0.0);
        }
    }
    assert!(memory.iter().all(|own| *own > 10.0), "{memory:?} MiB");
}

/// The commands of two of nginx, `snmpd` and `node_exporter` at the server's address, their files written.
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

/// A server in the server's namespace, until it is dropped.
struct Running(Child);

impl Running {
    fn start(words: &[String], place: &Path, netns: &NetnsPair) -> Self {
        let spawn = || {
            Command::new(&words[0])
                .args(&words[1..])
                // snmpd would keep its state in /var/lib/snmp.
                .env("SNMP_PERSISTENT_DIR", place)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
        };
        Self(netns.server.within(spawn).unwrap().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // nginx and snmpd end their own children when they are asked to.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

fn script(path: &Path, line: &str) {
    fs::write(path, format!("#!/bin/sh\n{line}\n")).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}
