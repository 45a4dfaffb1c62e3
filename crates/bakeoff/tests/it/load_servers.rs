//! `bakeoff load` against real Apache and nginx; counts are compared with the server's.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;

use crate::load_command::{failed_summary, json, line, load, summary};
use crate::program::{command, load_after_a_second, refusal};
use crate::servers::{LARGE_BYTES, PAGE, SECURE, Server};

/// Requests before the load, which learn the expected response: two for each path, each on a new
/// connection. One more connection checks that the server listens.
const LEARNING_REQUESTS: u64 = 2;

/// Sum of all outcomes of a result, which must be the number of planned requests.
fn sum_of_outcomes(result: &Value) -> u64 {
    let faults = result["faults"].as_object().unwrap();
    let sum =
        count(&result["ok"]) + count(&result["unsent"]) + faults.values().map(count).sum::<u64>();
    assert_eq!(count(&result["planned"]), sum, "{result}");
    sum
}

fn count(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("not a count: {value}"))
}

/// The requests that nginx has counted, without this status request.
fn nginx_requests(server: &Server) -> u64 {
    let status = get(server, "/status");
    let mut lines = status.lines().skip_while(|line| !line.contains("accepts"));
    let figures = lines.nth(1).unwrap().split_whitespace();
    let [_, _, requests] = figures
        .map(|figure| figure.parse::<u64>().unwrap())
        .collect::<Vec<_>>()[..]
    else {
        panic!("not a status of nginx: {status}");
    };
    requests - 1
}

/// A complete response with its head.
fn get(server: &Server, path: &str) -> String {
    let mut stream = TcpStream::connect(server.address).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: bake.test\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn nginx_counts_the_same_requests() {
    let Some(server) = Server::nginx("", "", "") else {
        return;
    };
    let before = nginx_requests(&server);
    let json = json(&[&server.url("/page.html"), "-n", "400", "-c", "8"]);
    let result = &json["runs"][0]["result"];
    assert_eq!((sum_of_outcomes(result), count(&result["ok"])), (400, 400));
    assert_eq!(count(&result["body_bytes"]), 400 * PAGE.len() as u64);
    let held = count(&result["connections_held"]);
    assert!((1..=8).contains(&held), "{result}");
    let after = nginx_requests(&server);
    // Subtract one for the first status request.
    assert_eq!(after - before - 1, 400 + LEARNING_REQUESTS);
}

#[test]
fn apache_logs_the_same_requests() {
    let Some(server) = Server::apache("") else {
        return;
    };
    let text = summary(&[&server.url("/page.html"), "-n", "300", "-c", "6"]);
    assert_eq!(
        line(&text, "requests"),
        "requests     300 planned = 300 ok + 0 unsent"
    );
    let log = server.logged(300 + LEARNING_REQUESTS);
    let right = log.lines().filter(|line| line.ends_with(" 200 /page.html"));
    assert_eq!(right.count() as u64, 300 + LEARNING_REQUESTS);
    // The first column is the number of the request on its connection.
    assert!(log.lines().any(|line| !line.starts_with("0 ")), "{log}");
}

#[test]
fn without_keep_alive_each_request_has_a_new_connection() {
    for server in [Server::nginx("", "", ""), Server::apache("")] {
        let Some(server) = server else {
            continue;
        };
        let args = [
            &*server.url("/page.html"),
            "-n",
            "120",
            "-c",
            "4",
            "--no-keepalive",
        ];
        let json = json(&args);
        let result = &json["runs"][0]["result"];
        assert_eq!((sum_of_outcomes(result), count(&result["ok"])), (120, 120));
        assert_eq!(count(&result["connections_opened"]), 120);
    }
}

#[test]
fn an_open_loop_plans_requests_by_its_rate() {
    for server in [Server::nginx("", "", ""), Server::apache("")] {
        let Some(server) = server else {
            continue;
        };
        let url = server.url("/page.html");
        let args = [&*url, "-r", "200", "-d", "1s", "--warmup", "100ms"];
        let json = json(&args);
        let result = &json["runs"][0]["result"];
        assert_eq!((sum_of_outcomes(result), count(&result["ok"])), (200, 200));
        assert_eq!(json["runs"][0]["lateness_ns"]["count"], 200);
    }
}

#[test]
fn an_unexpected_response_is_found() {
    let Some(server) = Server::nginx("", "", "") else {
        return;
    };
    let url = server.url("/page.html");
    let output = load(&[&url, "--expect-length", "5"]);
    let errors = refusal(&output);
    assert!(errors.contains("length is not 5 bytes: 25"), "{errors}");
    // With length and hash given, there is no first request, and the load finds the difference.
    let (hash, length) = ("0".repeat(64), PAGE.len().to_string());
    let common = [&*url, "-n", "50", "--expect-sha256", &hash];
    let text = failed_summary(&[&common[..], &["--expect-length", &length]].concat());
    let expected = "requests     50 planned = 0 ok + 50 wrong content + 0 unsent";
    assert_eq!(line(&text, "requests"), expected);
    let text = failed_summary(&[&common[..], &["--expect-length", "9"]].concat());
    let expected = "requests     50 planned = 0 ok + 50 wrong length + 0 unsent";
    assert_eq!(line(&text, "requests"), expected);
    let missing = server.url("/missing.html");
    let text =
        failed_summary(&[&[&*missing][..], &common[1..], &["--expect-length", "9"]].concat());
    let expected = "requests     50 planned = 0 ok + 50 wrong status + 0 unsent";
    assert_eq!(line(&text, "requests"), expected);
}

/// Runs a load of 400 requests at 200 per second and kills the server after the first second.
fn kill_during_load(mut server: Server) -> Value {
    let mut load = command(server.dir.path(), &["load", &server.url("/page.html")]);
    load.args(["-r", "200", "-d", "2s", "--warmup", "0s"])
        .args(["--deadline", "1s", "--timeline", "csv"]);
    let (mut child, _lines) = load_after_a_second(&mut load);
    server.kill();
    let text = std::io::read_to_string(child.stdout.take().unwrap()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{text}");
    let requests = line(&text, "requests").to_string();
    let (planned, outcomes) = requests["requests".len()..].split_once('=').unwrap();
    let outcomes = outcomes.split(" + ").map(|outcome| {
        let (figure, kind) = outcome.trim().split_once(' ').unwrap();
        let figure: u64 = figure.replace(',', "").parse().unwrap();
        (kind.to_string(), figure.into())
    });
    let mut all: serde_json::Map<String, Value> = outcomes.collect();
    let planned = planned.split_whitespace().next().unwrap();
    all.insert("planned".into(), planned.parse::<u64>().unwrap().into());
    all.into()
}

#[test]
fn a_server_that_dies_during_the_load_leaves_exact_counts() {
    for server in [Server::nginx("", "", ""), Server::apache("")] {
        let Some(server) = server else {
            continue;
        };
        let all = kill_during_load(server);
        let outcomes = all.as_object().unwrap();
        let sum: u64 = outcomes
            .iter()
            .filter(|(kind, _)| *kind != "planned")
            .map(|(_, figure)| count(figure))
            .sum();
        assert_eq!((count(&all["planned"]), sum), (400, 400), "{all}");
        // The number of responses before the server died depends on the moment.
        assert!(count(&all["ok"]) > 0, "{all}");
    }
}

#[test]
fn https_sessions_are_resumed_unless_disabled() {
    // nginx logs `r` for a resumed session, and `.` for a new one.
    let log = "log_format reuse \"$ssl_session_reused $uri\";";
    let lines = format!("{SECURE} access_log DIR/access.log reuse; ssl_session_cache shared:s:1m;");
    let server = || Server::nginx("ssl", log, &lines);
    for (flags, reused) in [(&["--no-resume"][..], 0), (&[], 38)] {
        let Some(server) = server() else {
            return;
        };
        let url = server.url("/page.html").replace("http:", "https:");
        let ca_file = server.ca_file();
        let args = [
            &*url,
            "-n",
            "40",
            "-c",
            "2",
            "--no-keepalive",
            "--ca",
            &ca_file,
        ];
        let json = json(&[&args[..], flags].concat());
        let result = &json["runs"][0]["result"];
        assert_eq!((sum_of_outcomes(result), count(&result["ok"])), (40, 40));
        let log = server.logged(40 + LEARNING_REQUESTS);
        let seen = log.lines().filter(|line| line.starts_with("r ")).count();
        assert_eq!(log.lines().count() as u64, 40 + LEARNING_REQUESTS);
        assert_eq!(seen, reused, "{flags:?}: {log}");
    }
}

#[test]
fn a_self_signed_certificate_is_refused() {
    let Some(server) = Server::nginx("ssl", "", SECURE) else {
        return;
    };
    let url = server.url("/page.html").replace("http:", "https:");
    let output = load(&[&url, "-n", "1"]);
    let errors = refusal(&output);
    assert!(errors.contains("no https with this server"), "{errors}");
    let text = summary(&[&url, "-n", "10", "--insecure"]);
    line(&text, "requests     10 planned = 10 ok");
}

#[test]
fn chunks_of_real_servers_are_joined() {
    let nginx = "location = /large.txt { sub_filter WORD word; sub_filter_types *; }";
    let apache = "<Location /large.txt>
        SetOutputFilter SUBSTITUTE
        Substitute s/WORD/word/
        </Location>";
    for server in [Server::nginx("", "", nginx), Server::apache(apache)] {
        let Some(server) = server else {
            continue;
        };
        let raw = get(&server, "/large.txt").to_ascii_lowercase();
        assert!(
            raw.contains("transfer-encoding: chunked"),
            "{}",
            &raw[..300]
        );
        let json = json(&[&server.url("/large.txt"), "-n", "60", "-c", "3"]);
        let result = &json["runs"][0]["result"];
        assert_eq!((sum_of_outcomes(result), count(&result["ok"])), (60, 60));
        assert_eq!(count(&result["body_bytes"]), 60 * LARGE_BYTES as u64);
    }
}

#[test]
fn http2_works_with_and_without_tls() {
    let plain = || Server::nginx("http2", "", "");
    let secure = || Server::nginx("ssl http2", "", SECURE);
    for (server, scheme) in [(plain(), "http:"), (secure(), "https:")] {
        let Some(server) = server else {
            return;
        };
        let url = server.url("/page.html").replace("http:", scheme);
        let ca_file = server.ca_file();
        let args = [&*url, "--http2", "--ca", &ca_file, "-c", "3", "-t", "2"];
        let counted = json(&[&args[..], &["-n", "300", "--streams", "5"]].concat());
        let result = &counted["runs"][0]["result"];
        assert_eq!((sum_of_outcomes(result), count(&result["ok"])), (300, 300));
        assert_eq!(count(&result["connections_opened"]), 3);
        assert_eq!(counted["load"]["http2_streams"], 5);
        assert_eq!(count(&result["body_bytes"]), 300 * PAGE.len() as u64);
        let open = ["-r", "200", "-d", "1s", "--warmup", "0s"];
        let planned = json(&[&args[..], &open].concat());
        let result = &planned["runs"][0]["result"];
        assert_eq!((sum_of_outcomes(result), count(&result["ok"])), (200, 200));
    }
}

#[test]
fn http2_continues_after_the_end_of_a_connection() {
    // nginx closes each connection after a hundred requests.
    let Some(server) = Server::nginx("http2", "", "keepalive_requests 100;") else {
        return;
    };
    let args = ["--http2", "-n", "1000", "-c", "2", "--streams", "8"];
    let json = json(&[&[&*server.url("/large.txt")][..], &args].concat());
    let result = &json["runs"][0]["result"];
    assert_eq!(
        (sum_of_outcomes(result), count(&result["ok"])),
        (1000, 1000)
    );
    assert!(count(&result["connections_opened"]) >= 9, "{result}");
}

#[test]
fn http2_that_a_server_does_not_speak_is_refused() {
    let cases = [
        (Server::nginx("", "", ""), "http:", "no HTTP/2"),
        (
            Server::nginx("ssl", "", SECURE),
            "https:",
            "server offers no HTTP/2 over TLS",
        ),
    ];
    for (server, scheme, why) in cases {
        let Some(server) = server else {
            return;
        };
        let url = server.url("/page.html").replace("http:", scheme);
        let output = load(&[&url, "--http2", "-n", "1", "--ca", &server.ca_file()]);
        let errors = refusal(&output);
        assert!(errors.contains(why), "{errors}");
    }
}
