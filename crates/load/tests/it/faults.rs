//! Servers that misbehave in one way each, and clients that must say exactly how often they did.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::TcpStream;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use load::expect::Expect;
use load::{Load, Request};
use record::load::{Fault, LoadResult};

use crate::server::{self, Server, answer, last_answer, reset_after, wait_for_request};

const BODY: &[u8] = b"twenty bytes of text";

fn load_on(server: &Server, window_ms: u64) -> Load {
    Load {
        server: server.address,
        host: "test".into(),
        requests: vec![Request {
            path: "/page".into(),
            expect: Expect::body(BODY),
        }],
        connections: 4,
        keep_alive: true,
        threads: 1,
        deadline: Duration::from_millis(200),
        warmup: Duration::ZERO,
        window: Duration::from_millis(window_ms),
    }
}

fn run(load: &Load) -> LoadResult {
    let result = load::run(load, &AtomicBool::new(false), &mut |_| {}).unwrap();
    assert_eq!(
        result.planned,
        result.ok + result.unsent + result.fault_count()
    );
    assert_eq!(result.latency.count(), result.ok);
    result
}

/// Every request fails in one way, as often as the server saw requests or connections.
fn check(serve: fn(TcpStream), fault: Fault) {
    let server = Server::start(serve);
    let result = run(&load_on(&server, 300));
    let seen = server.stop();
    let count = result.fault_count();
    assert_eq!(result.faults, BTreeMap::from([(fault, count)]));
    assert_eq!(result.ok, 0);
    // The load goes on, uncounted, until the last request of the window has its outcome.
    assert!(0 < count && count <= seen, "{count} of {seen}");
}

fn head(length: usize) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n")
}

#[test]
fn a_server_that_answers_rightly_gets_no_faults() {
    let server = Server::start(|mut stream| {
        while wait_for_request(&mut stream) {
            answer(&mut stream, BODY);
        }
    });
    let result = run(&load_on(&server, 300));
    assert_eq!(result.faults, BTreeMap::new());
    assert_eq!(result.connections_opened, 4);
    assert_eq!(server.stop(), 4);
    assert!(result.ok > 100, "{result:?}");
    assert_eq!(result.body_bytes, result.ok * BODY.len() as u64);
}

#[test]
fn refused_connections_are_counted() {
    let server = Server::start(|_| {});
    let load = load_on(&server, 450);
    server.stop();
    let result = run(&load);
    // Four clients try at once and then every 100 ms.
    assert_eq!(result.faults, BTreeMap::from([(Fault::ConnectFailed, 20)]));
    assert_eq!(result.connections_opened, 0);
}

#[test]
fn a_reset_amid_the_body_is_counted() {
    check(
        |stream| reset_after(&stream, &[head(BODY.len()).as_bytes(), &BODY[..5]].concat()),
        Fault::Reset,
    );
}

#[test]
fn a_close_amid_the_body_is_counted() {
    check(
        |mut stream| {
            wait_for_request(&mut stream);
            stream.write_all(head(BODY.len()).as_bytes()).unwrap();
            stream.write_all(&BODY[..5]).unwrap();
        },
        Fault::EarlyClose,
    );
}

#[test]
fn a_close_without_an_answer_is_counted() {
    check(
        |mut stream| {
            wait_for_request(&mut stream);
        },
        Fault::EarlyClose,
    );
}

#[test]
fn a_short_body_is_counted() {
    check(
        |mut stream| {
            wait_for_request(&mut stream);
            last_answer(&mut stream, &BODY[..5]);
        },
        Fault::BadLength,
    );
}

#[test]
fn a_server_that_hangs_after_connecting_is_counted() {
    check(
        |mut stream| while wait_for_request(&mut stream) {},
        Fault::FirstByteTimeout,
    );
}

#[test]
fn a_server_that_hangs_amid_the_body_is_counted() {
    check(
        |mut stream| {
            wait_for_request(&mut stream);
            stream.write_all(head(BODY.len()).as_bytes()).unwrap();
            stream.write_all(&BODY[..5]).unwrap();
            wait_for_request(&mut stream);
        },
        Fault::WholeTimeout,
    );
}

#[test]
fn a_server_that_drips_its_head_is_counted() {
    check(
        |mut stream| {
            wait_for_request(&mut stream);
            for byte in head(BODY.len()).bytes().cycle() {
                if stream.write_all(&[byte]).is_err() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        },
        Fault::WholeTimeout,
    );
}

#[test]
fn wrong_bytes_of_the_right_length_are_counted() {
    check(
        |mut stream| {
            let mut wrong = BODY.to_vec();
            wrong[7] ^= 1;
            wait_for_request(&mut stream);
            last_answer(&mut stream, &wrong);
        },
        Fault::BadContent,
    );
}

#[test]
fn errors_of_the_server_are_counted() {
    check(
        |mut stream| {
            wait_for_request(&mut stream);
            let text = "HTTP/1.1 500 Oops\r\nConnection: close\r\nContent-Length: 20\r\n\r\n";
            stream.write_all(text.as_bytes()).unwrap();
            stream.write_all(BODY).unwrap();
        },
        Fault::BadStatus,
    );
}

#[test]
fn garbage_is_counted() {
    check(
        |mut stream| {
            wait_for_request(&mut stream);
            stream
                .write_all(b"\x16\x03\x01\x02 this is not HTTP")
                .unwrap();
            wait_for_request(&mut stream);
        },
        Fault::Malformed,
    );
}

#[test]
fn more_bytes_than_announced_are_counted() {
    check(
        |mut stream| {
            wait_for_request(&mut stream);
            let text = [head(BODY.len()).as_bytes(), BODY, b"and more"].concat();
            stream.write_all(&text).unwrap();
            wait_for_request(&mut stream);
        },
        Fault::Malformed,
    );
}

#[test]
fn a_server_that_answers_and_closes_has_served() {
    let server = Server::start(|mut stream| {
        wait_for_request(&mut stream);
        last_answer(&mut stream, BODY);
    });
    let mut load = load_on(&server, 300);
    load.keep_alive = false;
    let result = run(&load);
    assert_eq!(result.faults, BTreeMap::new());
    let seen = server.stop();
    assert!(0 < result.ok && result.ok <= seen, "{seen} seen");
}

#[test]
fn a_stall_of_all_shows_in_the_slowest_latencies_only() {
    let server = Server::start(|mut stream| {
        let start = std::time::Instant::now();
        let mut stalled = false;
        while wait_for_request(&mut stream) {
            if !stalled && start.elapsed() > Duration::from_millis(300) {
                std::thread::sleep(Duration::from_secs(1));
                stalled = true;
            }
            answer(&mut stream, BODY);
        }
    });
    let mut load = load_on(&server, 1600);
    load.deadline = Duration::from_secs(5);
    let result = run(&load);
    assert_eq!(result.faults, BTreeMap::new());
    let max_ns = result.latency.max_ns();
    assert!(
        (1_000_000_000..1_100_000_000).contains(&max_ns),
        "max is {max_ns} ns"
    );
    assert!(result.latency.quantile_ns(0.9) < 100_000_000);
    assert_eq!(result.timeline.len(), 2);
}

#[test]
fn a_stalled_server_times_out_every_client_once() {
    let server = Server::start(|mut stream| {
        wait_for_request(&mut stream);
        std::thread::sleep(Duration::from_secs(1));
        let _ = stream.write_all(BODY);
    });
    let result = run(&load_on(&server, 150));
    assert_eq!(
        result.faults,
        BTreeMap::from([(Fault::FirstByteTimeout, 4)])
    );
    server.stop();
}

#[test]
fn a_full_backlog_times_out_in_connecting() {
    let (listener, _fillers) = server::full_backlog();
    let server = Server::start(|_| {});
    let mut load = load_on(&server, 150);
    server.stop();
    load.server = listener.local_addr().unwrap();
    let result = run(&load);
    assert_eq!(result.faults, BTreeMap::from([(Fault::ConnectTimeout, 4)]));
}
