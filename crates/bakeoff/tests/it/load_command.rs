//! `bakeoff load` against small servers in the test: output, files and refusals.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use expect_test::{Expect, expect};
use serde_json::Value;

use crate::program::{self, bakeoff, command, refusal, stderr, stdout};

/// Occurs in no message, so nothing is hidden.
const NOTHING: &str = "\0";

/// Requests before the load, which learn the expected response: two for each path.
const LEARNING_REQUESTS: u32 = 2;

/// Starts a server that runs until the test ends; returns its URL without a path.
pub(crate) fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(AtomicU32::new(0));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let requests = Arc::clone(&requests);
            std::thread::spawn(move || serve(stream, &requests));
        }
    });
    url
}

fn serve(stream: TcpStream, requests: &AtomicU32) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let number = requests.fetch_add(1, Ordering::Relaxed);
        let path = head.split(' ').nth(1).unwrap_or_default();
        let (status, body) = match path {
            "/gone" => (404, "none".into()),
            "/clock" => (200, format!("{number:05}")),
            // The right body while the response is learnt, a wrong one in the load.
            "/liar" if number >= LEARNING_REQUESTS => (200, "jello".into()),
            _ => (200, "hello".to_string()),
        };
        let length = body.len();
        let response = format!("HTTP/1.1 {status} Word\r\nContent-Length: {length}\r\n\r\n{body}");
        if writer.write_all(response.as_bytes()).is_err() || head.contains("Connection: close") {
            return;
        }
    }
}

pub(crate) fn load(args: &[&str]) -> Output {
    bakeoff(Path::new("."), &[&["load"], args].concat())
}

/// Standard output of a load that must succeed.
pub(crate) fn summary(args: &[&str]) -> String {
    let output = load(args);
    let errors = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {errors}");
    stdout(&output)
}

pub(crate) fn json(args: &[&str]) -> Value {
    let args = [args, &["--json"]].concat();
    serde_json::from_str(&summary(&args)).unwrap()
}

/// The line of the summary that begins with this text; it must exist.
pub(crate) fn line<'t>(text: &'t str, start: &str) -> &'t str {
    let line = text.lines().find(|line| line.starts_with(start));
    line.unwrap_or_else(|| panic!("no line {start} in:\n{text}"))
}

/// Checks the errors of loads that must end with status 2. `hide` differs between machines and is
/// replaced.
pub(crate) fn check_refused(cases: &[&[&str]], hide: &str, want: &Expect) {
    let mut errors = String::new();
    for args in cases {
        let output = load(args);
        assert!(output.stdout.is_empty(), "{args:?}");
        _ = writeln!(errors, "{}", refusal(&output).trim_end());
    }
    want.assert_eq(&errors.replace(hide, "HIDDEN"));
}

#[test]
fn counts_add_up_in_text() {
    let text = summary(&[&server(), "-n", "40", "-c", "4", "--think", "1ms to 3ms"]);
    assert_eq!(
        line(&text, "requests"),
        "requests     40 planned = 40 ok + 0 unsent"
    );
    let connections = line(&text, "connections");
    assert!(
        connections.contains("4 asked for, at most 4 held"),
        "{connections}"
    );
    let check = "checked: GET /: status 200, 5 bytes, SHA-256 2cf24dba5fb0..., learnt from a first response";
    assert_eq!(line(&text, "checked"), check);
    for word in ["p50 ", "p99.99 ", "max ", "to "] {
        line(&text, word);
    }
}

#[test]
fn counts_add_up_in_json_and_in_files() {
    let dir = tempfile::tempdir().unwrap();
    let (hdr, csv) = (dir.path().join("a.hdr"), dir.path().join("a.csv"));
    let files = [
        "--hdr",
        hdr.to_str().unwrap(),
        "--timeline",
        csv.to_str().unwrap(),
    ];
    let url = server();
    let args = [&[&*url, "-n", "40", "-c", "4"][..], &files].concat();
    let json = json(&args);
    assert_eq!(
        (&json["format"], &json["ended_early"]),
        (&3.into(), &false.into())
    );
    let run = &json["runs"][0];
    assert_eq!(run["result"]["planned"], 40);
    assert_eq!(run["result"]["ok"], 40);
    assert_eq!(run["latency_ns"]["count"], 40);
    assert_eq!(run["connections"], 4);
    assert_eq!(count_in_log(&hdr), 40);
    let csv = std::fs::read_to_string(&csv).unwrap();
    let mut lines = csv.lines();
    let head = "run,connections,rate_per_s,at_ms,ok,faults,body_bytes,p50_ns,p99_ns,max_ns";
    assert_eq!(lines.next(), Some(head));
    let column = |line: &str| line.split(',').nth(4).unwrap().parse::<u64>().unwrap();
    assert_eq!(lines.map(column).sum::<u64>(), 40);
}

/// The number of latencies in a log, read by the hdrhistogram library.
fn count_in_log(path: &Path) -> u64 {
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    let text = std::fs::read(path).unwrap();
    let mut count = 0;
    for entry in IntervalLogIterator::new(&text) {
        let LogEntry::Interval(interval) = entry.expect("the log can be read") else {
            continue;
        };
        if interval.tag().is_none() {
            let encoded = interval.encoded_histogram();
            let bytes = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, encoded).unwrap();
            let histogram: hdrhistogram::Histogram<u64> =
                Deserializer::new().deserialize(&mut &*bytes).unwrap();
            count += histogram.len();
        }
    }
    count
}

/// Standard output of a load in which no request succeeds. It must end with a message and status 2.
pub(crate) fn failed_summary(args: &[&str]) -> String {
    let output = load(args);
    let errors = refusal(&output);
    let expected = "bakeoff: no request succeeded (the result above says how they failed)";
    assert_eq!(errors.lines().last(), Some(expected), "{errors}");
    let text = stdout(&output);
    line(&text, "WARNING: no request succeeded: ");
    text
}

#[test]
fn responses_that_become_wrong_are_faults() {
    let text = failed_summary(&[&format!("{}/liar", server()), "-n", "20", "-c", "2"]);
    assert_eq!(
        line(&text, "requests"),
        "requests     20 planned = 0 ok + 20 wrong content + 0 unsent"
    );
    line(&text, "no successful request");
}

/// Starts a server that answers every request with the same bytes; returns its URL without a path.
fn raw_server(response: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let response = response.clone();
            std::thread::spawn(move || {
                let mut stream = stream;
                let mut buffer = [0; 4096];
                while stream.read(&mut buffer).is_ok_and(|length| length > 0) {
                    if stream.write_all(response.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    url
}

/// A response with this many header lines of this many bytes.
fn long_head(lines: usize, line_bytes: usize) -> String {
    let line = format!("X-Y: {}\r\n", "z".repeat(line_bytes));
    let fields = line.repeat(lines);
    format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{fields}\r\nhi")
}

#[test]
fn the_first_request_and_the_load_have_the_same_limits_for_headers() {
    for (lines, line_bytes) in [(97, 5), (128, 5), (1, 200_000), (20, 8000)] {
        let url = raw_server(long_head(lines, line_bytes));
        for engine in ["auto", "epoll"] {
            let text = summary(&[&url, "-n", "8", "-c", "2", "--engine", engine]);
            line(&text, "requests     8 planned = 8 ok + 0 unsent");
        }
    }
    let many = raw_server(long_head(300, 5));
    let long = raw_server(long_head(1, 300_000));
    let place = "bakeoff: no first response to GET /: response that no client of the load takes";
    for (url, limit) in [
        (&many, "more than 256 header fields"),
        (&long, "a head of more than 256 KiB"),
    ] {
        let want = format!("{place}: {limit} (have the server send less)\n");
        assert_eq!(refusal(&load(&[url, "-n", "8"])), want);
        // Without a first response, the load itself finds the fault.
        let text = failed_summary(&[url, "-n", "8", "--no-check-content"]);
        line(
            &text,
            "requests     8 planned = 0 ok + 8 not HTTP + 0 unsent",
        );
    }
}

#[test]
fn a_load_without_a_successful_request_is_reported_in_json_too() {
    let url = raw_server("SSH-2.0-OpenSSH_9.2\r\n".into());
    let output = load(&[&url, "-n", "8", "--no-check-content", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let warnings = json["runs"][0]["warnings"].as_array().unwrap();
    let first = warnings[0].as_str().unwrap();
    assert!(
        first.starts_with("no request succeeded: 8 planned, not HTTP"),
        "{first}"
    );
    assert_eq!(json["runs"][0]["result"]["faults"]["malformed"], 8);
}

#[test]
fn a_switch_to_another_protocol_is_refused_before_the_load() {
    let url = raw_server("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n".into());
    let errors = stderr(&load(&[&url, "-n", "8"]));
    let expected = "bakeoff: wrong first response to GET /: status is not 200: 101 (if that is right, say --expect-status 101)\n";
    assert_eq!(errors, expected);
    let text = failed_summary(&[&url, "-n", "8", "--no-check-content"]);
    line(
        &text,
        "requests     8 planned = 0 ok + 8 wrong status + 0 unsent",
    );
}

#[test]
fn folded_header_fields_are_accepted() {
    let url = raw_server("HTTP/1.1 200 OK\r\nX: a,\r\n b\r\nContent-Length: 2\r\n\r\nhi".into());
    let text = summary(&[&url, "-n", "8", "-c", "2"]);
    line(&text, "requests     8 planned = 8 ok + 0 unsent");
}

#[test]
fn header_fields_that_contradict_the_body_are_refused_before_any_request() {
    let cases: [&[&str]; 6] = [
        &[
            UNUSED_URL,
            "-H",
            "Transfer-Encoding: chunked",
            "--body",
            "hello",
        ],
        &[UNUSED_URL, "-H", "content-length: 4", "--body", "hello"],
        &[UNUSED_URL, "-H", "Content-Length: 5"],
        &[UNUSED_URL, "-H", "Host: a.org", "-H", "host: b.org"],
        &[UNUSED_URL, "--http2", "-H", "Transfer-Encoding: gzip"],
        &[
            UNUSED_URL,
            "-H",
            "Content-Length: 0",
            "-H",
            "Content-Length: 0",
        ],
    ];
    check_refused(
        &cases,
        NOTHING,
        &expect![[r#"
            bakeoff: --header: header field Transfer-Encoding for a body that is sent as it is: chunked (leave it out: Content-Length is sent)
            bakeoff: --header: header field Content-Length that is not the body's: 4 of 5 bytes (leave it out: the right one is sent)
            bakeoff: --header: header field Content-Length that is not the body's: 5 of 0 bytes (leave it out: the right one is sent)
            bakeoff: --header: header field Host more than once: a.org and b.org (give it once)
            bakeoff: --header: header field Transfer-Encoding for a body that is sent as it is: gzip (leave it out: Content-Length is sent)
            bakeoff: --header: header field Content-Length more than once: 0 and 0 (give it once)
        "#]],
    );
    // Fields that agree with the body, or are given once, are sent.
    for field in ["Content-Length: 5", "Host: a.org"] {
        summary(&[
            &server(),
            "-n",
            "4",
            "--no-check-content",
            "--body",
            "hello",
            "-H",
            field,
        ]);
    }
}

#[test]
fn lists_and_scripts_may_contain_blanks() {
    let dir = tempfile::tempdir().unwrap();
    let (script, list) = (dir.path().join("script"), dir.path().join("list"));
    std::fs::write(&script, "  visit /my page.html  # one\r\nfetch /a b /c\r\n").unwrap();
    std::fs::write(&list, "  /my page.html \n 2 /a  b # two\n").unwrap();
    let [script, list] = [&script, &list].map(|path| path.to_str().unwrap());
    let text = summary(&[&server(), "-n", "12", "--url-list", list]);
    line(&text, "checked: GET /my%20page.html: status 200");
    assert!(
        text.contains("\nchecked: GET /a%20%20b: status 200"),
        "{text}"
    );
    let text = summary(&[&server(), "-n", "12", "--script", script]);
    line(&text, "requests     12 planned = 12 ok + 0 unsent");
}

#[test]
fn a_link_local_address_with_a_zone_is_reached_and_the_zone_is_not_sent() {
    let Some((listener, zone)) = listen_on_a_link() else {
        eprintln!("skipped: no interface with an address of its link");
        return;
    };
    let place = listener.local_addr().unwrap();
    let (sender, heads) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (mut stream, mut buffer) = (stream, [0; 4096]);
            while let Ok(length) = stream.read(&mut buffer)
                && length > 0
            {
                let head = String::from_utf8_lossy(&buffer[..length]).into_owned();
                let _ = sender.send(head);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
            }
        }
    });
    let (address, port) = (place.ip(), place.port());
    for mark in ["%25", "%"] {
        let url = format!("http://[{address}{mark}{zone}]:{port}/");
        summary(&[&url, "-n", "4", "-c", "1"]);
        let head = heads.recv().unwrap();
        assert!(
            head.contains(&format!("\r\nHost: [{address}]:{port}\r\n")),
            "{head}"
        );
    }
}

/// A listener on a link-local address, and the name of its interface.
fn listen_on_a_link() -> Option<(TcpListener, String)> {
    let table = std::fs::read_to_string("/proc/net/if_inet6").ok()?;
    let lines = table.lines().filter(|line| line.starts_with("fe80"));
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = u128::from_str_radix(words.first()?, 16).ok()?;
        let index = u32::from_str_radix(words.get(1)?, 16).ok()?;
        let place = std::net::SocketAddrV6::new(number.into(), 0, 0, index);
        if let Ok(listener) = TcpListener::bind(place) {
            return Some((listener, words.last()?.to_string()));
        }
    }
    None
}

// envoyproxy/envoy#5788
#[test]
fn a_server_that_leaves_connections_open_is_not_waited_for() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n";
    let url = raw_server(format!("{head}ok"));
    for engine in ["auto", "epoll"] {
        let closed = json(&[
            &url, "-c", "2", "-d", "500ms", "--warmup", "0s", "--engine", engine,
        ]);
        // If each took 100 ms, two connections would have 10 responses in half a second.
        let ok = &closed["runs"][0]["result"]["ok"];
        assert!(ok.as_u64().unwrap() > 15, "{closed}");
        let open = [
            "-r", "100", "-c", "2", "-d", "1s", "--warmup", "0s", "--engine", engine,
        ];
        let open = json(&[&[&*url][..], &open].concat());
        assert_eq!(open["runs"][0]["result"]["ok"], 100);
        assert!(
            open["runs"][0]["result"]["incidents"]["left_open"].as_u64() > Some(0),
            "{open}"
        );
    }
}

/// Runs a load, and stops the client for a second in the middle.
fn load_with_stopped_client(args: &[&str]) -> Value {
    let child = command(Path::new("."), &["load", "--json"])
        .args(args)
        .args(["-d", "3s", "--warmup", "0s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    program::signal("STOP", child.id());
    std::thread::sleep(std::time::Duration::from_secs(1));
    program::signal("CONT", child.id());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_client_that_was_stopped_reports_that_it_was_held_up() {
    let url = server();
    for args in [
        &["-c", "4", "-r", "500"][..],
        &["-c", "4", "--engine", "epoll"],
    ] {
        let json = load_with_stopped_client(&[&[&*url][..], args].concat());
        let run = &json["runs"][0];
        let incidents = &run["result"]["incidents"];
        let longest_ns = incidents["longest_stall_ns"].as_u64().unwrap();
        assert!(longest_ns > 900_000_000, "{incidents}");
        let warnings = run["warnings"].as_array().unwrap();
        let held_up = warnings.iter().filter(|warning| {
            let text = warning.as_str().unwrap();
            text.starts_with("the client itself was held up, ")
        });
        assert_eq!(held_up.count(), 1, "{warnings:?}");
        for warning in warnings {
            let warning = warning.as_str().unwrap();
            assert!(!warning.contains("does not keep up"), "{warning}");
        }
        if args.contains(&"-r") {
            assert_eq!(run["result"]["ok"], 1500);
            assert!(
                run["lateness_ns"]["p99"].as_u64() > Some(800_000_000),
                "{run}"
            );
            assert!(
                incidents["stalled_requests"].as_u64() >= Some(400),
                "{incidents}"
            );
        }
    }
}

#[test]
fn a_page_that_changes_can_be_checked_by_its_status() {
    let url = format!("{}/clock", server());
    let text = summary(&[&url, "-n", "20", "--no-check-content"]);
    line(&text, "checked: GET /clock: status 200 alone");
    line(&text, "requests     20 planned = 20 ok");
}

#[test]
fn a_ramp_has_a_run_for_each_step() {
    let args = [
        "--ramp",
        "connections=1..4/x2",
        "-d",
        "100ms",
        "--warmup",
        "0s",
    ];
    let json = json(&[&[&*server()][..], &args].concat());
    let runs = json["runs"].as_array().unwrap();
    let connections: Vec<_> = runs
        .iter()
        .map(|run| run["connections"].as_u64().unwrap())
        .collect();
    assert_eq!(connections, [1, 2, 4]);
    assert!(
        runs.iter()
            .all(|run| run["result"]["ok"].as_u64() > Some(0)),
        "{json}"
    );
}

#[test]
fn a_server_that_never_meets_the_limit_has_no_capacity() {
    let args = [
        "--capacity",
        "p50<1us",
        "-r",
        "2",
        "-d",
        "1s",
        "--warmup",
        "0s",
    ];
    let text = summary(&[&[&*server()][..], &args].concat());
    assert_eq!(
        line(&text, "capacity"),
        "capacity: not even 1 request/s keeps p50<1us"
    );
}

#[test]
fn the_soft_limit_of_descriptors_is_raised() {
    let script = "ulimit -Sn 64 && exec \"$0\" load \"$1\" -c 100 -n 200";
    let binary = env!("CARGO_BIN_EXE_bakeoff");
    let output = Command::new("sh")
        .args(["-c", script, binary, &server()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    line(&text, "requests     200 planned = 200 ok");
}

/// Standard output of a load that gets a signal after its first second.
fn signalled(signal: &str, args: &[&str]) -> String {
    let mut load = command(Path::new("."), &["load", &server()]);
    load.args(["-d", "60s", "--warmup", "0s"]).args(args);
    let (child, _lines) = program::load_after_a_second(&mut load);
    program::signal(signal, child.id());
    let output = child.wait_with_output().unwrap();
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    text
}

#[test]
fn an_interrupted_load_has_a_result() {
    let text = signalled("INT", &["--think", "1ms"]);
    line(
        &text,
        "ended early: the figures are those of the time until then",
    );
    let measured = line(&text, "measured").split_whitespace().nth(1).unwrap();
    let measured: f64 = measured.parse().unwrap();
    assert!((1.0..60.0).contains(&measured), "{text}");
}

#[test]
fn the_first_signal_ends_a_flood() {
    let text = signalled("TERM", &["-r", "1M", "-c", "4"]);
    line(&text, "ended early");
    let measured = line(&text, "measured").split_whitespace().nth(1).unwrap();
    assert!(measured.parse::<f64>().unwrap() < 60.0, "{text}");
    // Requests that were due are counted as unsent, and the server is reported not to keep up.
    assert!(line(&text, "requests").contains(" unsent"), "{text}");
    line(&text, "WARNING: the server does not keep up");
}

#[test]
fn missing_and_wrong_servers_are_refused() {
    let url = server();
    let place = url.strip_prefix("http://").unwrap();
    let [gone, clock] = ["/gone", "/clock"].map(|path| format!("{url}{path}"));
    // A port that is unused.
    let closed = "127.0.0.1:1";
    check_refused(
        &[&[&gone], &[&clock], &[place]],
        place,
        &expect![[r#"
        bakeoff: wrong first response to GET /gone: status is not 200: 404 (if that is right, say --expect-status 404)
        bakeoff: responses differ from one another: GET /clock (check its status alone with --no-check-content)
        bakeoff: URL: no scheme in the URL: HIDDEN (write http://HIDDEN)
    "#]],
    );
    check_refused(
        &[&[&format!("http://{closed}/")]],
        closed,
        &expect![[r#"
        bakeoff: server not reachable: HIDDEN: Connection refused (os error 111) (is the server running, and on this port?)
    "#]],
    );
    check_refused(
        &[&["ftp://a.org/"], &["http://a.org:0/"]],
        NOTHING,
        &expect![[r#"
            bakeoff: URL: unknown scheme: ftp (write http:// or https://)
            bakeoff: URL: not a port: a.org:0 (1 to 65535)
        "#]],
    );
    let wrong = [&url, "--expect-length", "6"];
    check_refused(
        &[&wrong, &[&url, "-c", "0"], &[&url, "-t", "0"]],
        place,
        &expect![[r#"
            bakeoff: wrong first response to GET /: length is not 6 bytes: 5 (look at --expect-length)
            bakeoff: -c: too few connections: 0 (ask for at least 1)
            bakeoff: -t: too few client threads: 0 (ask for at least 1)
        "#]],
    );
}

#[test]
fn several_mistakes_in_options_are_listed_together() {
    let args = [
        "a.org", "--slow", "fast", "--source", "here", "--ramp", "up", "-H", "none",
    ];
    check_refused(
        &[&args],
        NOTHING,
        &expect![[r#"
            bakeoff: URL: no scheme in the URL: a.org (write http://a.org)
            --source: not a source address: "here" (write 127.0.0.1, 127.0.0.1-127.0.0.16 or 127.1.0.0/24)
            --slow: not a speed: "fast" (write it like 28.8k, 56k or 1M)
            --ramp: not a ramp: "up" (write rate=1000..8000/1000 or connections=1..64/x2)
            --header: not a header field: "none" (write "Name: value")
        "#]],
    );
}

#[test]
fn a_think_time_with_the_longer_time_first_is_refused() {
    check_refused(
        &[&[UNUSED_URL, "--think", "3s to 1s"]],
        NOTHING,
        &expect![[r#"
            error: invalid value '3s to 1s' for '--think <TIME>': the shorter time comes first: "3s to 1s", write it like "100ms to 300ms"

            For more information, try '--help'.
        "#]],
    );
}

/// Nothing listens there. A load that contacted the server would fail with another message.
const UNUSED_URL: &str = "http://127.0.0.1:1/";

#[test]
fn zero_amounts_are_refused_together_before_any_request() {
    let args = [
        UNUSED_URL,
        "-c",
        "0",
        "-t",
        "0",
        "-d",
        "0s",
        "--deadline",
        "0s",
        "-r",
        "0",
        "--http2",
        "--streams",
        "0",
    ];
    check_refused(
        &[&args, &[UNUSED_URL, "-n", "0"]],
        NOTHING,
        &expect![[r#"
        bakeoff: -c: too few connections: 0 (ask for at least 1)
        -t: too few client threads: 0 (ask for at least 1)
        --streams: too few streams: 0 (ask for at least 1)
        -d: window too short: 0s (measure for at least 1ms)
        --deadline: deadline too short: 0s (allow at least 1ms: below that the client's own timers decide what is late)
        --rate: rate out of range: 0 (at least 0.001 per second, which is one in 1000 s)
        bakeoff: -n: too few requests: 0 (ask for at least 1)
    "#]],
    );
}

#[test]
fn invalid_requests_and_files_are_refused_before_any_request() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().to_str().unwrap();
    let missing = format!("{place}/none/x");
    let once = format!("{place}/once");
    let again = format!(
        "{place}/../{}/once",
        dir.path().file_name().unwrap().display()
    );
    let cases: [&[&str]; 4] = [
        &[UNUSED_URL, "-r", "1e12", "-d", "1s"],
        &[UNUSED_URL, "--timeline", &missing, "--hdr", place],
        &[UNUSED_URL, "--timeline", &once, "--hdr", &again],
        &["http://a b/", "-X", "GE T", "-H", "A B: c"],
    ];
    check_refused(
        &cases,
        place,
        &expect![[r#"
            bakeoff: --rate: rate out of range: 1000000000000 (at most 1000000 requests per second: 1000000 for each of 1 client threads, which is more than one can send)
            bakeoff: --hdr: cannot write HIDDEN: Is a directory (os error 21)
            --timeline: cannot write HIDDEN/none/x: No such file or directory (os error 2)
            bakeoff: --timeline: same file as of --hdr (name two)
            bakeoff: URL: not a host and port: "a b" (write HOST or HOST:PORT)
            --header: not the name of a header field: "A B" (write it like Accept-Language)
        "#]],
    );
    assert!(!dir.path().join("once").exists());
    check_refused(
        &[&[UNUSED_URL, "-X", "GE T"]],
        NOTHING,
        &expect![[r#"
            bakeoff: -X: not a method: "GE T" (write it like GET or POST)
        "#]],
    );
}

#[test]
fn loads_that_would_never_end_or_send_nothing_are_refused() {
    let cases: [&[&str]; 5] = [
        &[UNUSED_URL, "-n", "10", "-r", "1e-9"],
        &[UNUSED_URL, "-r", "-5"],
        &[UNUSED_URL, "-r", "0.001", "-d", "1s"],
        &[UNUSED_URL, "--ramp", "rate=0.5..8/x2", "-d", "500ms"],
        &[UNUSED_URL, "-d", "721h", "--warmup", "1000h"],
    ];
    check_refused(
        &cases,
        NOTHING,
        &expect![[r#"
            bakeoff: --rate: rate out of range: 1e-9 (at least 0.001 per second, which is one in 1000 s)
            bakeoff: --rate: rate out of range: -5 (at least 0.001 per second, which is one in 1000 s)
            bakeoff: --rate: rate too low for the window: 0.001 per second has none due in 1s (ask for at least 1.00, or measure longer with -d)
            bakeoff: --rate: rate too low for the window: 0.5 per second has none due in 500ms (ask for at least 2.00, or measure longer with -d)
            bakeoff: -d: window too long: 30days 1h (at most 30 days, of which the seconds take 2 GB of memory)
            --warmup: warm-up too long: 1month 11days 5h 26m 24s (at most 30 days, of which the seconds take 2 GB of memory)
        "#]],
    );
}

#[test]
fn a_load_that_fails_leaves_files_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (dir.path().join("old"), dir.path().join("new"));
    std::fs::write(&old, "of yesterday").unwrap();
    let [old_name, new_name] = [&old, &new].map(|path| path.to_str().unwrap());
    let output = load(&[UNUSED_URL, "--hdr", old_name, "--timeline", new_name]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(&old).unwrap(), "of yesterday");
    assert!(!new.exists());
    // A shorter text replaces a longer one completely.
    std::fs::write(&old, "z".repeat(1 << 20)).unwrap();
    summary(&[&server(), "-n", "4", "--timeline", old_name]);
    let text = std::fs::read_to_string(&old).unwrap();
    assert!(text.starts_with("run,") && !text.contains('z'), "{text}");
}

#[test]
fn a_path_with_other_letters_is_sent_encoded() {
    let text = summary(&[&format!("{}/ü b", server()), "-n", "4"]);
    line(&text, "checked: GET /%C3%BC%20b: status 200");
}

#[test]
fn visitors_arrive_at_a_rate() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script");
    std::fs::write(&script, "visit /\nfetch /a /b\n").unwrap();
    let script = ["--script", script.to_str().unwrap()];
    let rate = ["-r", "0.05k", "-d", "1s", "--warmup", "0s"];
    let json = json(&[&[&*server()][..], &script, &rate].concat());
    let run = &json["runs"][0];
    assert_eq!(run["rate_per_s"], 50.0);
    let (planned, ok) = (&run["result"]["planned"], &run["result"]["ok"]);
    // Fifty visitors with three requests each; the last ones may continue after the window.
    assert!((50..=150).contains(&planned.as_u64().unwrap()), "{json}");
    assert_eq!(planned, ok);
    let begun = run["result"]["sessions_begun"].as_u64().unwrap();
    assert!((1..=50).contains(&begun), "{json}");
    let ramp = ["--ramp", "rate=20..40/x2", "-d", "200ms", "-t", "1000"];
    let text = summary(&[&[&*server()][..], &script, &ramp].concat());
    for words in [
        "\n       20 visitors/s ",
        "\n       40 visitors/s ",
        "10 client threads (1000 asked for; each has a connection)",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert!(!text.contains("requests/s"), "{text}");
}

#[test]
fn options_that_exclude_each_other_are_refused_before_any_request() {
    let cases: [&[&str]; 5] = [
        &[UNUSED_URL, "--secret-file", "/nonexistent"],
        &[
            UNUSED_URL,
            "--http2",
            "--no-keepalive",
            "--slow",
            "56k",
            "--insecure",
            "--no-resume",
        ],
        &[UNUSED_URL, "--poisson"],
        &[UNUSED_URL, "--ramp", "rate=1..2/1", "--think", "1s"],
        &[
            UNUSED_URL,
            "--no-keepalive",
            "-r",
            "1e9",
            "--source",
            "192.0.2.1",
            "--expect-status",
            "7",
        ],
    ];
    check_refused(
        &cases,
        NOTHING,
        &expect![[r#"
        bakeoff: --secret-file: no other host is to know it (give --coordinate or --worker as well)
        bakeoff: --http2: not over HTTP/2: --slow, --no-keepalive (leave that out, or go over HTTP/1.1)
        --insecure: nothing is encrypted over http:// (leave it out, or write https://)
        --no-resume: nothing is encrypted over http:// (leave it out, or write https://)
        bakeoff: --rate: nothing to space at random: --poisson (give a --rate)
        bakeoff: --rate: think time beside a rate: --think (leave one of them out)
        bakeoff: --source: not an address of this machine: 192.0.2.1: Cannot assign requested address (os error 99) (add it with: ip address add)
        --expect-status: not a status: 7 (100 to 599)
        --rate: rate out of range: 1000000000 (at most 1000000 requests per second: 1000000 for each of 1 client threads, which is more than one can send)
    "#]],
    );
}

#[test]
fn mistakes_in_files_are_reported_with_their_place() {
    let dir = tempfile::tempdir().unwrap();
    let (script, list) = (dir.path().join("script"), dir.path().join("list"));
    std::fs::write(&script, "visit /\nthink long\nmaybe 200% x\n").unwrap();
    std::fs::write(&list, "/\nmany /\n").unwrap();
    let [script, list] = [&script, &list].map(|path| path.to_str().unwrap());
    let hide = dir.path().to_str().unwrap();
    let cases: [&[&str]; 3] = [
        &["http://a.org", "--script", script],
        &["http://a.org", "--url-list", list],
        &["http://a.org", "--body-file", &format!("{hide}/none")],
    ];
    check_refused(
        &cases,
        hide,
        &expect![[r#"
        bakeoff: HIDDEN/script:2: column 7: not a duration: long (write it like 500ms or 2s)
        HIDDEN/script:3: column 7: not a share: 200% (write it like 30%)
        bakeoff: HIDDEN/list:2: not a weight: many (write it like 3)
        bakeoff: --body-file: cannot read HIDDEN/none: No such file or directory (os error 2)
    "#]],
    );
}

#[test]
fn more_connections_than_ports_or_descriptors_are_refused() {
    let url = server();
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
    let ends: Vec<u64> = range
        .split_whitespace()
        .map(|end| end.parse().unwrap())
        .collect();
    let each = (ends[1] + 1 - ends[0]).to_string();
    let many = load(&[&url, "-c", "70000"]);
    let errors = stderr(&many);
    let expected = format!(
        "bakeoff: -c: more connections than ports (1 source addresses with {each} ports): 70000 (name more \
         addresses with --source)"
    );
    assert!(errors.starts_with(&expected), "{errors}");
    let args = [
        "--no-keepalive",
        "-r",
        "200000",
        "--source",
        "127.0.0.1-127.0.0.2",
    ];
    check_refused(
        &[&[&[&*url][..], &args].concat()],
        &each,
        &expect![[r#"
        bakeoff: --rate: more new connections per second than ports (2 source addresses with HIDDEN ports): 200000 (name more addresses with --source, or keep connections alive)
    "#]],
    );
    check_refused(
        &[&[&url, "--source", "192.0.2.1"]],
        NOTHING,
        &expect![[r#"
            bakeoff: --source: not an address of this machine: 192.0.2.1: Cannot assign requested address (os error 99) (add it with: ip address add)
        "#]],
    );
    // More than the limit of descriptors on any system.
    let many = load(&[&url, "-c", "1500000000", "--source", "127.1.0.0/16"]);
    let error = refusal(&many);
    assert!(
        error.contains("hard limit of descriptors too low for 1500000000 connections: "),
        "{error}"
    );
    assert!(
        error.contains("as root raise it with ulimit -n 1500000064, or ask for fewer connections"),
        "{error}"
    );
}
