//! Clients on hosts that are reached by ssh: two of OpenSSH's servers on the loopback, each with a cache of its own, stand for
//! two hosts; the system is nginx, whose log counts on its own.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use plan::Clients;
use record::journal::Event;
use record::load_path::{ClientUnit, OneFewerOutcome};
use record::rundir;
use record::rundir::Run;
use record::trial::{Outcome, VoidReason};

const SSHD: &str = "/usr/sbin/sshd";
const NGINX: &str = "/usr/sbin/nginx";

const HOSTS: [&str; 2] = ["client1", "client2"];

/// What each host asks for before the load of each trial: the page, twice.
const LEARNT: usize = 2;

/// Connections of both hosts together.
const CONNECTIONS: usize = 5;

/// A server, until it is dropped.
struct Server(Child);

impl Server {
    fn start(program: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both end their own children when they are asked to.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// Two hosts for clients, and a system.
struct Lab {
    /// Free of symbolic links, as /proc shows it.
    dir: PathBuf,
    ip: Ipv4Addr,
    ports: [u16; 2],
    url: String,
    _servers: Vec<Server>,
    _temp: tempfile::TempDir,
}

impl Lab {
    fn open() -> Option<Self> {
        for program in [SSHD, NGINX, "/usr/bin/ssh"] {
            if !Path::new(program).exists() {
                base::skip::skip(&format!("program not installed: {program}"));
                return None;
            }
        }
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().canonicalize().unwrap();
        if fs::metadata("/proc/self").unwrap().uid() == 0 {
            // Debian's unit of sshd makes it.
            fs::create_dir_all("/run/sshd").unwrap();
        }
        let ip = own_address();
        let [one, other, web] = free_ports(ip);
        for name in ["key", "host_key", "other_key"] {
            keygen(&dir.join(name));
        }
        fs::copy(dir.join("key.pub"), dir.join("authorized_keys")).unwrap();
        let ports = [one.port(), other.port()];
        let mut servers = vec![Server::start(NGINX, &["-c", &nginx(&dir, web)])];
        for (host, port) in HOSTS.iter().zip(ports) {
            let file = dir.join(format!("{host}.sshd"));
            let at = dir.display();
            let text = format!(
                "ListenAddress {ip}:{port}\nHostKey {at}/host_key\nAuthorizedKeysFile {at}/authorized_keys\nPidFile none\n\
                 MaxStartups 1000\nLoginGraceTime 0\nStrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\nSetEnv XDG_CACHE_HOME={at}/{host}\n"
            );
            fs::write(&file, text).unwrap();
            servers.push(Server::start(SSHD, &["-D", "-f", file.to_str().unwrap()]));
        }
        for address in [one, other, web] {
            wait_for("a server to listen", || TcpStream::connect(address).is_ok());
        }
        let lab = Self {
            dir,
            ip,
            ports,
            url: format!("http://{web}"),
            _servers: servers,
            _temp: temp,
        };
        lab.know("host_key");
        Some(lab)
    }

    /// Has ssh know the second host by a key.
    fn know(&self, second: &str) {
        let (at, ip, [one, other]) = (self.dir.display(), self.ip, self.ports);
        let key = |name: &str| fs::read_to_string(self.dir.join(format!("{name}.pub"))).unwrap();
        let known = format!(
            "[{ip}]:{one} {}[{ip}]:{other} {}",
            key("host_key"),
            key(second)
        );
        fs::write(self.dir.join("known_hosts"), known).unwrap();
        let mut config = format!(
            "Host *\n HostName {ip}\n IdentityFile {at}/key\n IdentitiesOnly yes\n UserKnownHostsFile {at}/known_hosts\n \
             GlobalKnownHostsFile /dev/null\n StrictHostKeyChecking yes\n"
        );
        for (host, port) in HOSTS.iter().zip(self.ports) {
            let _ = write!(config, "Host {host}\n Port {port}\n");
        }
        // Nothing listens on the port of discard.
        config.push_str("Host nowhere\n Port 9\n");
        fs::write(self.dir.join("ssh_config"), config).unwrap();
    }

    fn bakeoff(&self, clients: &str, window: &str) -> Command {
        let url = &self.url;
        let plan = format!(
            r#"
title = "one system, asked by two hosts"
baseline = "old"
[machine]
kind = "url"
clients = [{clients}]
ssh_config = "ssh_config"
one_client_fewer = false
[arm.old]
url = "{url}"
[arm.new]
url = "{url}"
[[workload]]
kind = "http"
paths = ["/page"]
connections = 5
rate = 200
warmup = "0s"
window = "{window}"
[design]
error_rate = 0.2
min_blocks = 2
max_blocks = 2
disturbed_blocks = "keep"
seed = 1
"#
        );
        fs::write(self.dir.join("plan.toml"), plan).unwrap();
        let _ = fs::remove_dir_all(self.dir.join("run"));
        let mut bakeoff = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
        bakeoff
            .args(["run", "plan.toml", "--out", "run"])
            .current_dir(&self.dir)
            .env("XDG_CACHE_HOME", self.dir.join("cache"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        bakeoff
    }

    /// Requests for the page that nginx has logged.
    fn logged(&self) -> usize {
        let log = fs::read_to_string(self.dir.join("access.log")).unwrap_or_default();
        log.lines().filter(|line| *line == "/page").count()
    }

    /// Processes that run the program that was copied to a host.
    fn agents(&self, host: &str) -> Vec<String> {
        let place = self.dir.join(host);
        let is_there = |process: &PathBuf| {
            fs::read_link(process.join("exe")).is_ok_and(|exe| exe.starts_with(&place))
        };
        let all = Path::new("/proc").read_dir().unwrap().flatten();
        let all = all.map(|entry| entry.path()).filter(is_there);
        all.filter_map(|path| Some(path.file_name()?.to_str()?.to_string()))
            .collect()
    }

    fn is_idle(&self) -> bool {
        HOSTS.iter().all(|host| self.agents(host).is_empty())
    }

    /// Starts a run and waits until its clients have begun on both hosts.
    fn begun(&self) -> Child {
        let before = self.logged();
        let mut run = self.bakeoff(BOTH, "20s").spawn().unwrap();
        wait_for("the load", || {
            assert!(run.try_wait().unwrap().is_none(), "ended early");
            self.logged() > before + LEARNT * HOSTS.len()
        });
        for host in HOSTS {
            assert_eq!(self.agents(host).len(), 1, "{host}");
        }
        run
    }

    fn read(&self) -> Run {
        rundir::load(&self.dir.join("run"), &workload::check).unwrap()
    }
}

const BOTH: &str = "\"ssh:client1\", \"ssh:client2\"";

/// An address of the loopback that no other test has. A port that was free on 127.0.0.1 may be another test's before sshd binds it,
/// and then ssh reaches a server that closes the connection.
fn own_address() -> Ipv4Addr {
    static LABS: AtomicU8 = AtomicU8::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, LABS.fetch_add(1, Ordering::Relaxed), high, low)
}

/// Three ports that are free at the same time.
fn free_ports(ip: Ipv4Addr) -> [SocketAddr; 3] {
    let held = [(); 3].map(|()| TcpListener::bind((ip, 0)).unwrap());
    held.each_ref()
        .map(|listener| listener.local_addr().unwrap())
}

fn keygen(file: &Path) {
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(file)
        .status();
    assert!(made.unwrap().success());
}

/// The configuration of a server of one page, whose log has the paths alone.
fn nginx(dir: &Path, at: SocketAddr) -> String {
    let place = dir.display();
    let file = format!("{place}/nginx.conf");
    let text = format!(
        "daemon off; pid {place}/nginx.pid; error_log {place}/error.log; events {{}}\n\
         http {{ log_format path \"$uri\"; access_log {place}/access.log path; client_body_temp_path {place}/t1; proxy_temp_path {place}/t2; \
         fastcgi_temp_path {place}/t3; uwsgi_temp_path {place}/t4; scgi_temp_path {place}/t5;\n\
         keepalive_requests 1000000000; server {{ listen {at}; location / {{ return 200 \"hello\"; }} }} }}\n"
    );
    fs::write(&file, text).unwrap();
    file
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let limit = Duration::from_secs(300);
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < limit, "waited {limit:?} for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8(text).unwrap()
}

fn signal(name: &str, process: &str) {
    let sent = Command::new("kill").args(["-s", name, process]).status();
    assert!(sent.unwrap().success());
}

#[test]
fn two_hosts_are_one_load() {
    let Some(lab) = Lab::open() else { return };
    let done = lab.bakeoff(BOTH, "1s").output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", said(&done));
    let run = lab.read();
    assert_eq!(run.opening.clients, Some(Clients::Hosts));
    let machine = judge::report::machine(&run.opening.machine);
    assert!(
        machine.contains("clients by ssh on client1, client2"),
        "{machine}"
    );
    let (mut planned, mut trials) = (0, 0);
    for (attempt, facts) in run.attempts.iter().zip(&run.facts) {
        let (Outcome::Measured(measurement), Some(facts)) = (&attempt.outcome, facts) else {
            panic!("{}: {:?}", attempt.trial, attempt.outcome);
        };
        let load = measurement.load.as_ref().unwrap();
        assert!(load.ok > 0 && load.fault_count() == 0, "{:?}", load.faults);
        assert_eq!(load.connections_asked, CONNECTIONS as u64);
        let number = |key: &str| {
            let text = facts.values.get(&format!("clients:{key}"));
            let text = text.unwrap_or_else(|| panic!("{key}: {:?}", facts.values));
            text.parse::<f64>().unwrap()
        };
        let own = HOSTS.map(|host| number(&format!("{host}:ok")) as u64);
        assert!(own.iter().all(|ok| *ok > 0), "{own:?}");
        assert_eq!(own.iter().sum::<u64>(), load.ok);
        for host in HOSTS {
            for key in [
                "cpus-used",
                "idle",
                "softirq",
                "softnet-drops",
                "retransmits",
            ] {
                assert!(number(&format!("{host}:{key}")) >= 0.0);
            }
        }
        assert!(number("start-skew-us") > 0.0 && number("end-skew-us") > 0.0);
        // Seconds of both fall together.
        assert!(load.timeline.iter().map(|second| second.ok).sum::<u64>() <= load.ok);
        assert_eq!(facts.values["clients:place"], "ssh");
        let path = measurement.path.as_ref().unwrap();
        assert_eq!(path.ends.len(), 2);
        assert!(path.cpus.iter().any(|own| own.cpu >= 1000));
        planned += (load.planned - load.unsent) as usize;
        trials += 1;
    }
    // What the server served is what the clients of both say that they asked for; at the window's ends each connection may have
    // had one request more.
    let least = planned + trials * LEARNT * HOSTS.len();
    let logged = lab.logged();
    let most = least + 2 * trials * CONNECTIONS;
    assert!((least..=most).contains(&logged), "{least} {logged} {most}");
    wait_for("the hosts to be idle", || lab.is_idle());
    let kept = |host: &str| {
        fs::read_dir(lab.dir.join(host).join("bakeoff/clients"))
            .unwrap()
            .count()
    };
    assert_eq!(HOSTS.map(kept), [1, 1]);
}

#[test]
fn one_host_fewer_has_the_same_load() {
    let Some(lab) = Lab::open() else { return };
    let mut bakeoff = lab.bakeoff(BOTH, "1s");
    let plan = lab.dir.join("plan.toml");
    let text = fs::read_to_string(&plan).unwrap();
    fs::write(&plan, text.replace("one_client_fewer = false\n", "")).unwrap();
    let done = bakeoff.output().unwrap();
    let told = said(&done);
    assert_eq!(done.status.code(), Some(0), "{told}");
    let run = lab.read();
    let events = run.entries.iter().filter_map(|entry| match &entry.event {
        Event::OneFewer { arm, outcome, .. } => Some((arm.as_str(), outcome)),
        _ => None,
    });
    let events: Vec<_> = events.collect();
    assert_eq!(events.len(), 2, "{told}");
    for (place, (arm, outcome)) in events.into_iter().enumerate() {
        assert_eq!(arm, ["old", "new"][place]);
        let OneFewerOutcome::Measured(own) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!((own.unit, own.left), (ClientUnit::Host, 1));
        assert_eq!(own.metric, "latency-p99");
    }
    assert!(
        told.contains("  one client host fewer  http  old  "),
        "{told}"
    );
    // Both hosts ask for the page before each trial, and one of them before those of one client fewer; none of their trials is
    // judged. The log has what all trials asked for, and that.
    let asked: u64 = run
        .attempts
        .iter()
        .filter_map(|one| match &one.outcome {
            Outcome::Measured(measurement) => measurement.load.as_ref().map(|load| load.planned),
            _ => None,
        })
        .sum();
    assert!(lab.logged() as u64 > asked + (LEARNT * (HOSTS.len() * run.attempts.len() + 2)) as u64);
    wait_for("the hosts to be idle", || lab.is_idle());
}

#[test]
fn nothing_is_left_on_hosts_however_the_run_ends() {
    let Some(lab) = Lab::open() else { return };
    for name in ["INT", "KILL"] {
        let mut run = lab.begun();
        signal(name, &run.id().to_string());
        run.wait().unwrap();
        wait_for("the hosts to be idle", || lab.is_idle());
    }
}

#[test]
fn a_host_that_goes_away_voids_its_trial() {
    let Some(lab) = Lab::open() else { return };
    let mut run = lab.begun();
    signal("KILL", &lab.agents("client2")[0]);
    // The other one ends too: less load than was asked for is another experiment.
    let is_void = || {
        let trials = fs::read_dir(lab.dir.join("run/trials")).into_iter();
        let mut records = trials.flatten().flatten();
        records.any(|trial| {
            let text = fs::read_to_string(trial.path().join("trial.json"));
            text.is_ok_and(|text| text.contains("has gone"))
        })
    };
    wait_for("the end of the trial", is_void);
    signal("INT", &run.id().to_string());
    run.wait().unwrap();
    wait_for("the hosts to be idle", || lab.is_idle());
    let run = lab.read();
    let Outcome::Void(void) = &run.attempts[0].outcome else {
        panic!("{:?}", run.attempts[0])
    };
    assert_eq!(void.reason, VoidReason::AgentFailed);
    let detail = &void.detail;
    assert!(
        detail.contains("host of clients client2 has gone"),
        "{detail}"
    );
}

#[test]
fn a_host_that_cannot_have_clients_is_refused_before_the_first_trial() {
    let Some(lab) = Lab::open() else { return };
    let check = |clients: &str, want: &str| {
        let done = lab.bakeoff(clients, "1s").output().unwrap();
        let said = said(&done);
        assert_eq!(done.status.code(), Some(2), "{said}");
        assert!(said.contains(want), "{want}: {said}");
        assert!(lab.is_idle() && lab.logged() == 0);
    };
    check(
        "\"ssh:nowhere\"",
        "plan.toml:6: clients: host unreachable: nowhere (is it on, and does ssh nowhere work?)",
    );
    check(
        &format!("{BOTH}, \"ssh:client1\""),
        "a host for clients twice: \"ssh:client1\"",
    );
    lab.know("other_key");
    check(BOTH, "plan.toml:6: clients: host key refused: client2 ");
    lab.know("host_key");
    fs::write(lab.dir.join("authorized_keys"), "").unwrap();
    check(BOTH, "plan.toml:6: clients: login refused: client1 ");
    fs::copy(lab.dir.join("key.pub"), lab.dir.join("authorized_keys")).unwrap();
    // A file where its cache would be.
    let cache = lab.dir.join("client2");
    let _ = fs::remove_dir_all(&cache);
    fs::write(&cache, "").unwrap();
    check(BOTH, "plan.toml:6: clients: client2: ssh failed: mkdir: ");
}
