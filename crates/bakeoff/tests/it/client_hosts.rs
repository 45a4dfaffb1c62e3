//! Clients on hosts that are reached by ssh. Two sshd on the loopback, each with its own cache,
//! stand for two hosts. The system under test is nginx, whose log counts requests independently.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};

use plan::Clients;
use record::journal::Event;
use record::load_path::{ClientUnit, OneFewerOutcome};
use record::rundir::Run;
use record::trial::{Outcome, VoidReason};

use crate::program::{
    TWO_BLOCKS, TerminateOnDrop, all_output, are_installed, command, is_root, refusal, signal,
    wait_for,
};
use crate::simulated_lab::load_run;

const SSHD: &str = "/usr/sbin/sshd";
const NGINX: &str = "/usr/sbin/nginx";

const HOSTS: [&str; 2] = ["client1", "client2"];

/// Requests of each host before the load of each trial, which learn the expected response.
const LEARNING: usize = 2;

/// Connections of both hosts in total.
const CONNECTIONS: usize = 5;

fn start(program: &str, args: &[&str]) -> TerminateOnDrop {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    TerminateOnDrop(command.spawn().unwrap())
}

/// Two hosts for clients, and a system under test.
struct Lab {
    /// Without symbolic links, as /proc shows paths.
    dir: PathBuf,
    ip: Ipv4Addr,
    ports: [u16; 2],
    url: String,
    _servers: Vec<TerminateOnDrop>,
    _temp: tempfile::TempDir,
}

impl Lab {
    fn open() -> Option<Self> {
        if !are_installed(&[SSHD, NGINX, "/usr/bin/ssh"]) {
            return None;
        }
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().canonicalize().unwrap();
        if is_root() {
            // Debian's unit of sshd creates this directory.
            fs::create_dir_all("/run/sshd").unwrap();
        }
        let ip = unused_address();
        let [first, second, web] = free_ports(ip);
        for name in ["key", "host_key", "other_key"] {
            keygen(&dir.join(name));
        }
        fs::copy(dir.join("key.pub"), dir.join("authorized_keys")).unwrap();
        let ports = [first.port(), second.port()];
        let mut servers = vec![start(NGINX, &["-c", &nginx_conf(&dir, web)])];
        for (host, port) in HOSTS.iter().zip(ports) {
            let file = dir.join(format!("{host}.sshd"));
            let at = dir.display();
            let text = format!(
                "ListenAddress {ip}:{port}\nHostKey {at}/host_key\nAuthorizedKeysFile {at}/authorized_keys\nPidFile none\n\
                 MaxStartups 1000\nLoginGraceTime 0\nStrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\nSetEnv XDG_CACHE_HOME={at}/{host}\n"
            );
            fs::write(&file, text).unwrap();
            servers.push(start(SSHD, &["-D", "-f", file.to_str().unwrap()]));
        }
        for address in [first, second, web] {
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
        lab.write_ssh_files("host_key");
        Some(lab)
    }

    /// Writes ssh's files; the second host is known by this key.
    fn write_ssh_files(&self, key_of_second: &str) {
        let (at, ip, [first, second]) = (self.dir.display(), self.ip, self.ports);
        let key = |name: &str| fs::read_to_string(self.dir.join(format!("{name}.pub"))).unwrap();
        let known = format!(
            "[{ip}]:{first} {}[{ip}]:{second} {}",
            key("host_key"),
            key(key_of_second)
        );
        fs::write(self.dir.join("known_hosts"), known).unwrap();
        let mut config = format!(
            "Host *\n HostName {ip}\n IdentityFile {at}/key\n IdentitiesOnly yes\n UserKnownHostsFile {at}/known_hosts\n \
             GlobalKnownHostsFile /dev/null\n StrictHostKeyChecking yes\n"
        );
        for (host, port) in HOSTS.iter().zip(self.ports) {
            let _ = write!(config, "Host {host}\n Port {port}\n");
        }
        // Nothing listens on this port (discard).
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
{TWO_BLOCKS}"#
        );
        fs::write(self.dir.join("plan.toml"), plan).unwrap();
        let _ = fs::remove_dir_all(self.dir.join("run"));
        let mut bakeoff = command(&self.dir, &["run", "plan.toml", "--out", "run"]);
        bakeoff
            .env("XDG_CACHE_HOME", self.dir.join("cache"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        bakeoff
    }

    /// Requests for the page in nginx's log.
    fn logged(&self) -> usize {
        let log = fs::read_to_string(self.dir.join("access.log")).unwrap_or_default();
        log.lines().filter(|line| *line == "/page").count()
    }

    /// Ids of the processes that run the agent that was copied to a host.
    fn agents(&self, host: &str) -> Vec<u32> {
        let host_dir = self.dir.join(host);
        let mut agents = Vec::new();
        for process in Path::new("/proc").read_dir().unwrap().flatten() {
            let program = fs::read_link(process.path().join("exe"));
            if program.is_ok_and(|program| program.starts_with(&host_dir)) {
                agents.push(process.file_name().to_str().unwrap().parse().unwrap());
            }
        }
        agents
    }

    fn is_idle(&self) -> bool {
        HOSTS.iter().all(|host| self.agents(host).is_empty())
    }

    /// Starts a run and waits until the clients on both hosts send requests.
    fn start_run(&self) -> Child {
        let before = self.logged();
        let mut run = self.bakeoff(BOTH, "20s").spawn().unwrap();
        wait_for("the load", || {
            assert!(run.try_wait().unwrap().is_none(), "ended early");
            self.logged() > before + LEARNING * HOSTS.len()
        });
        for host in HOSTS {
            assert_eq!(self.agents(host).len(), 1, "{host}");
        }
        run
    }

    fn read(&self) -> Run {
        load_run(&self.dir.join("run"))
    }
}

const BOTH: &str = "\"ssh:client1\", \"ssh:client2\"";

/// An address of the loopback that no other test uses. On 127.0.0.1, another test could take a free
/// port before sshd binds it.
fn unused_address() -> Ipv4Addr {
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

pub(crate) fn keygen(file: &Path) {
    let keygen = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(file)
        .status();
    assert!(keygen.unwrap().success());
}

/// Writes a configuration with one page and a log of paths; returns its path.
fn nginx_conf(dir: &Path, at: SocketAddr) -> String {
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

#[test]
fn two_client_hosts_send_one_load() {
    let Some(lab) = Lab::open() else { return };
    let output = lab.bakeoff(BOTH, "1s").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", all_output(&output));
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
        let by_host = HOSTS.map(|host| number(&format!("{host}:ok")) as u64);
        assert!(by_host.iter().all(|ok| *ok > 0), "{by_host:?}");
        assert_eq!(by_host.iter().sum::<u64>(), load.ok);
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
        // The timeline holds the seconds of both hosts, added up.
        assert!(load.timeline.iter().map(|second| second.ok).sum::<u64>() <= load.ok);
        assert_eq!(facts.values["clients:place"], "ssh");
        let path = measurement.path.as_ref().unwrap();
        assert_eq!(path.ends.len(), 2);
        assert!(path.cpus.iter().any(|busy| busy.cpu >= 1000));
        planned += (load.planned - load.unsent) as usize;
        trials += 1;
    }
    // The server served what the clients of both hosts asked for. At each end of the window, each
    // connection may have one request more.
    let least = planned + trials * LEARNING * HOSTS.len();
    let logged = lab.logged();
    let most = least + 2 * trials * CONNECTIONS;
    assert!((least..=most).contains(&logged), "{least} {logged} {most}");
    wait_for("the hosts to be idle", || lab.is_idle());
    for host in HOSTS {
        let cache = lab.dir.join(host).join("bakeoff/clients");
        assert_eq!(fs::read_dir(cache).unwrap().count(), 1, "{host}");
    }
}

#[test]
fn one_client_host_fewer_is_measured_for_each_arm() {
    let Some(lab) = Lab::open() else { return };
    let mut bakeoff = lab.bakeoff(BOTH, "1s");
    let plan = lab.dir.join("plan.toml");
    let shortened = fs::read_to_string(&plan).unwrap();
    fs::write(&plan, shortened.replace("one_client_fewer = false\n", "")).unwrap();
    let output = bakeoff.output().unwrap();
    let text = all_output(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let run = lab.read();
    let events = run.entries.iter().filter_map(|entry| match &entry.event {
        Event::OneFewer { arm, outcome, .. } => Some((arm.as_str(), outcome)),
        _ => None,
    });
    let events: Vec<_> = events.collect();
    assert_eq!(events.len(), 2, "{text}");
    for ((arm, outcome), expected) in events.into_iter().zip(["old", "new"]) {
        assert_eq!(arm, expected);
        let OneFewerOutcome::Measured(one_fewer) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!((one_fewer.unit, one_fewer.left), (ClientUnit::Host, 1));
        assert_eq!(one_fewer.metric, "latency-p99");
    }
    assert!(
        text.contains("  one client host fewer  http  old  "),
        "{text}"
    );
    // The log has the requests of all judged trials, those before each trial, and those of the
    // trials with one host fewer.
    let mut planned = 0;
    for attempt in &run.attempts {
        if let Outcome::Measured(measurement) = &attempt.outcome {
            planned += measurement.load.as_ref().unwrap().planned as usize;
        }
    }
    assert!(lab.logged() > planned + LEARNING * (HOSTS.len() * run.attempts.len() + 2));
    wait_for("the hosts to be idle", || lab.is_idle());
}

#[test]
fn nothing_is_left_on_hosts_however_the_run_ends() {
    let Some(lab) = Lab::open() else { return };
    for name in ["INT", "KILL"] {
        let mut run = lab.start_run();
        signal(name, run.id());
        run.wait().unwrap();
        wait_for("the hosts to be idle", || lab.is_idle());
    }
}

#[test]
fn a_client_host_that_disappears_voids_the_trial() {
    let Some(lab) = Lab::open() else { return };
    let mut run = lab.start_run();
    signal("KILL", lab.agents("client2")[0]);
    // The other host's clients end too: less load than planned would be another experiment.
    let is_void = || {
        let trials = fs::read_dir(lab.dir.join("run/trials")).into_iter();
        let mut records = trials.flatten().flatten();
        records.any(|trial| {
            let text = fs::read_to_string(trial.path().join("trial.json"));
            text.is_ok_and(|text| text.contains("has gone"))
        })
    };
    wait_for("the end of the trial", is_void);
    signal("INT", run.id());
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
fn unusable_client_hosts_are_refused_before_the_first_trial() {
    let Some(lab) = Lab::open() else { return };
    let check = |clients: &str, want: &str| {
        let error = refusal(&lab.bakeoff(clients, "1s").output().unwrap());
        assert!(error.contains(want), "{want}: {error}");
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
    lab.write_ssh_files("other_key");
    check(BOTH, "plan.toml:6: clients: host key refused: client2 ");
    lab.write_ssh_files("host_key");
    fs::write(lab.dir.join("authorized_keys"), "").unwrap();
    check(BOTH, "plan.toml:6: clients: login refused: client1 ");
    fs::copy(lab.dir.join("key.pub"), lab.dir.join("authorized_keys")).unwrap();
    // A file in place of the cache directory.
    let cache = lab.dir.join("client2");
    let _ = fs::remove_dir_all(&cache);
    fs::write(&cache, "").unwrap();
    check(BOTH, "plan.toml:6: clients: client2: ssh failed: mkdir: ");
}
