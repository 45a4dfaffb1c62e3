//! One load from several client hosts, which are processes on the loopback.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use base64::Engine as _;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use serde_json::Value;

use expect_test::expect;

use crate::load_command::{check_refused, line, load, server};
use crate::program::{command, refusal, signal, stderr, stdout};

/// Writes a file that other users cannot read.
pub(crate) fn write_secret(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

/// A process that waits for a coordinator; it is killed when this is dropped.
struct Worker {
    process: Child,
    address: String,
    /// Kept open so that the worker can write to it.
    _errors: BufReader<ChildStderr>,
}

impl Worker {
    fn start(secret: &Path) -> Self {
        let args = ["load", "--worker", "127.0.0.1:0", "--secret-file"];
        let mut process = command(Path::new("."), &args)
            .arg(secret)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut errors = BufReader::new(process.stderr.take().unwrap());
        let mut first = String::new();
        errors.read_line(&mut first).unwrap();
        let address = first.trim().rsplit(' ').next().unwrap().to_string();
        assert!(address.starts_with("127.0.0.1:"), "{first}");
        Self {
            process,
            address,
            _errors: errors,
        }
    }

    fn kill(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        self.process.wait().unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Two workers, and the directory with the secret.
struct Hosts {
    workers: [Worker; 2],
    dir: tempfile::TempDir,
}

impl Hosts {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("secret");
        write_secret(&secret, "three processes on loopback\n");
        Self {
            workers: [Worker::start(&secret), Worker::start(&secret)],
            dir,
        }
    }

    /// A coordinator of both.
    fn coordinator(&self, args: &[&str]) -> Command {
        let addresses = self.workers.each_ref().map(|worker| &*worker.address);
        let mut command = command(Path::new("."), &["load"]);
        command
            .args(["--coordinate", &addresses.join(",")])
            .arg("--secret-file")
            .arg(self.dir.path().join("secret"))
            .args(args);
        command
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.coordinator(args).arg("--json").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn histogram(result: &Value) -> Histogram<u64> {
    let encoded = result["latency"].as_str().unwrap();
    let bytes = base64::prelude::BASE64_STANDARD.decode(encoded).unwrap();
    Deserializer::new().deserialize(&mut &*bytes).unwrap()
}

#[test]
fn counts_add_up_and_percentiles_are_those_of_merged_histograms() {
    let hosts = Hosts::start();
    // Workers serve one coordinator after the other.
    for (args, planned) in [
        (&["-n", "301", "-c", "6"][..], Some(301)),
        (&["-r", "300", "-d", "1s", "--warmup", "200ms"], Some(300)),
        (&["-r", "300", "--poisson", "-d", "1s", "-t", "2"], None),
    ] {
        let json = hosts.json(&[&[&*server()][..], args].concat());
        let total = &json["runs"][0]["result"];
        let parts: Vec<&Value> = [0, 1].map(|host| &json["hosts"][host]["result"]).into();
        for field in ["planned", "ok", "unsent", "connections_asked", "body_bytes"] {
            let sum: u64 = parts.iter().map(|part| part[field].as_u64().unwrap()).sum();
            assert_eq!(total[field], sum, "{field}: {json}");
        }
        assert_eq!(total["planned"], total["ok"]);
        assert!(
            planned.is_none_or(|planned| total["planned"] == planned),
            "{json}"
        );
        assert!(
            parts.iter().all(|part| part["ok"].as_u64() > Some(90)),
            "{json}"
        );
        let mut merged = histogram(parts[0]);
        merged.add(histogram(parts[1])).unwrap();
        let latency = &json["runs"][0]["latency_ns"];
        assert_eq!(latency["count"], merged.len());
        assert_eq!(latency["max"], merged.max());
        for percent in [50.0, 90.0, 99.0, 99.9] {
            let value = merged.value_at_quantile(percent / 100.0);
            assert_eq!(latency[format!("p{percent}")], value, "p{percent}");
        }
        let error_ns = json["hosts"][1]["start_error_ns"].as_u64().unwrap();
        assert!(0 < error_ns, "{error_ns}");
    }
}

/// Starts a coordinator of a long load, and waits until its first second has passed.
fn start_long_load(hosts: &Hosts) -> (Child, BufReader<ChildStderr>) {
    let url = server();
    let args = [&*url, "-r", "200", "-d", "60s", "--warmup", "0s", "-c", "4"];
    let mut coordinator = hosts
        .coordinator(&args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(coordinator.stderr.take().unwrap());
    let mut first = String::new();
    errors.read_line(&mut first).unwrap();
    assert!(first.starts_with("  1 s"), "{first}");
    (coordinator, errors)
}

#[test]
fn a_lost_worker_ends_the_load_and_is_reported_first() {
    let mut hosts = Hosts::start();
    let (coordinator, _errors) = start_long_load(&hosts);
    hosts.workers[1].kill();
    let output = coordinator.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = stdout(&output);
    let lost = &hosts.workers[1].address;
    let first = format!("WARNING: worker lost: {lost}: gone");
    assert!(text.starts_with(&first), "{text}");
    assert!(line(&text, &format!("host         {lost}")).contains("LOST"));
    let requests = line(&text, "requests");
    let planned: u64 = requests.split_whitespace().nth(1).unwrap().parse().unwrap();
    // Half of the load until the loss was noticed: more than its first second.
    assert!((100..6000).contains(&planned), "{text}");
}

#[test]
fn an_interrupted_coordinator_ends_all_hosts_with_a_right_result() {
    let hosts = Hosts::start();
    let (coordinator, _errors) = start_long_load(&hosts);
    signal("INT", coordinator.id());
    let output = coordinator.wait_with_output().unwrap();
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    line(&text, "ended early");
    let measured = line(&text, "measured").split_whitespace().nth(1).unwrap();
    assert!(
        (1.0..60.0).contains(&measured.parse::<f64>().unwrap()),
        "{text}"
    );
    let requests = line(&text, "requests");
    let numbers = requests
        .split_whitespace()
        .filter_map(|word| word.parse().ok());
    let numbers: Vec<u64> = numbers.collect();
    let [planned, ok, unsent] = numbers[..] else {
        panic!("{requests}")
    };
    // At the very end, a request that was due may have found no free connection.
    assert!(planned == ok + unsent && ok > 0, "{requests}");
    assert_eq!(text.matches("start within").count(), 2);
    // After a kill of the coordinator, the load ends too, and the workers accept another one.
    let (mut coordinator, _errors) = start_long_load(&hosts);
    coordinator.kill().unwrap();
    coordinator.wait().unwrap();
    let json = hosts.json(&[&server(), "-n", "10", "-c", "2"]);
    assert_eq!(json["runs"][0]["result"]["ok"], 10);
}

#[test]
fn silent_connections_to_a_worker_do_not_block_a_coordinator() {
    let hosts = Hosts::start();
    // The workers accept these connections before the coordinator's, and nothing is sent on them.
    let mut silent = Vec::new();
    for worker in &hosts.workers {
        for _ in 0..20 {
            silent.push(TcpStream::connect(&worker.address).unwrap());
        }
    }
    let json = hosts.json(&[&server(), "-n", "10"]);
    assert_eq!(json["runs"][0]["result"]["ok"], 10);
    // The workers did not close the silent connections.
    for mut peer in silent {
        let mut hello = [0; 1];
        peer.read_exact(&mut hello).unwrap();
        assert_eq!(&hello, b"{");
    }
}

#[test]
fn a_coordinator_with_another_secret_is_refused() {
    let hosts = Hosts::start();
    write_secret(
        &hosts.dir.path().join("secret"),
        "another secret altogether",
    );
    let output = hosts
        .coordinator(&[&server(), "-n", "10"])
        .output()
        .unwrap();
    let errors = refusal(&output);
    assert!(
        errors.contains("coordinator knows another secret"),
        "{errors}"
    );
}

#[test]
fn invalid_options_for_several_hosts_are_refused_before_any_request() {
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    write_secret(&secret, "short");
    let secret = secret.to_str().unwrap();
    let url = "http://127.0.0.1:1/";
    let args = [
        url,
        "--coordinate",
        "a:1,b:1,a:1",
        "--secret-file",
        secret,
        "-c",
        "2",
        "-n",
        "1",
    ];
    check_refused(
        &[&args],
        dir.path().to_str().unwrap(),
        &expect![[r#"
        bakeoff: --secret-file: secret too short: 5 characters in HIDDEN/secret (make one of 16 or more: openssl rand -hex 24)
        --coordinate: host named twice: a:1 (name each once)
        -c: fewer connections than hosts: 2 (ask for 3 or more)
        -n: fewer requests than hosts: 1 (ask for 3 or more)
    "#]],
    );
    for args in [
        &["--coordinate", "a:1", url][..],
        &["--worker", "127.0.0.1:0"],
        &["--worker", "127.0.0.1:0", "--secret-file", secret, url],
        &[
            "--worker",
            "127.0.0.1:0",
            "--secret-file",
            secret,
            "-c",
            "3",
        ],
        &[
            url,
            "--coordinate",
            "a:1",
            "--secret-file",
            secret,
            "--ramp",
            "rate=1..2/1",
        ],
        &[],
    ] {
        assert_eq!(load(args).status.code(), Some(2), "{args:?}");
    }
    let worker = ["--worker", "127.0.0.1:0", "--secret-file", secret];
    check_refused(
        &[&worker],
        dir.path().to_str().unwrap(),
        &expect![[r#"
        bakeoff: --secret-file: secret too short: 5 characters in HIDDEN/secret (make one of 16 or more: openssl rand -hex 24)
    "#]],
    );
}
