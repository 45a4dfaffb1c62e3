//! Faulty servers: clients must count each fault exactly.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use load::client_limits::late_count;
use load::exchange::Exchange;
use load::expect::Expect;
use load::schedule::{Arrivals, Schedule};
use load::traffic::{End, EngineChoice, Mix, Traffic};
use load::{clock, run};
use record::load::{Fault, LoadResult};

use crate::server::{
    self, BODY, PATIENCE, Server, reset_after, respond, respond_and_close, respond_and_stay,
    serve_correctly, wait_for_request, wait_until,
};

const ENGINES: [EngineChoice; 2] = [EngineChoice::Fastest, EngineChoice::Epoll];

/// Four clients, forty requests.
fn traffic_on(server: SocketAddr) -> Traffic {
    let page = Exchange::get("/page", Expect::body(BODY));
    Traffic {
        connections: 4,
        deadline: PATIENCE,
        end: End::Count(40),
        engine: EngineChoice::Fastest,
        ..Traffic::plain(server, Mix::Round(vec![page]))
    }
}

fn run(traffic: &Traffic) -> LoadResult {
    let result = run::run(traffic, &AtomicBool::new(false), &mut |_| {}).unwrap();
    assert_eq!(
        result.planned,
        result.ok + result.unsent + result.fault_count()
    );
    assert_eq!(result.latency.count(), result.ok);
    result
}

/// Every request fails with this fault on a new connection.
fn check(serve: fn(TcpStream), fault: Fault) {
    for engine in ENGINES {
        let server = Server::start(serve);
        let traffic = Traffic {
            engine,
            ..traffic_on(server.address)
        };
        let result = run(&traffic);
        assert_eq!(result.faults, BTreeMap::from([(fault, 40)]));
        assert_eq!(
            (result.ok, result.connections_opened, server.stop()),
            (0, 40, 40)
        );
    }
}

/// Every request times out. The kind of time-out depends on how busy the machine is, so only tests
/// in simulated time check it.
fn check_time_out(serve: fn(TcpStream)) {
    for engine in ENGINES {
        let server = Server::start(serve);
        let traffic = Traffic {
            engine,
            deadline: Duration::from_millis(100),
            ..traffic_on(server.address)
        };
        let result = run(&traffic);
        // On a busy machine the client itself may be late.
        let client_late = result.faults.get(&Fault::ClientLate).copied();
        let late = late_count(&result) + client_late.unwrap_or(0);
        assert_eq!(late, 40, "{result:?}");
        assert_eq!(result.unsent, 0);
        // Four at a time, ten times.
        assert!(result.window_ns >= 1_000_000_000, "{result:?}");
    }
}

fn head(length: usize) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n")
}

#[test]
fn a_correct_server_gets_no_faults() {
    let server = Server::start(serve_correctly);
    let result = run(&traffic_on(server.address));
    assert_eq!(result.faults, BTreeMap::new());
    assert_eq!((result.ok, result.body_bytes), (40, 40 * BODY.len() as u64));
    assert_eq!(
        (
            result.connections_opened,
            result.connections_held,
            server.stop()
        ),
        (4, 4, 4)
    );
}

#[test]
fn refused_connections_are_counted() {
    let server = Server::start(|_| {});
    let traffic = traffic_on(server.address);
    server.stop();
    let start = Instant::now();
    let result = run(&traffic);
    assert_eq!(result.faults, BTreeMap::from([(Fault::ConnectFailed, 40)]));
    assert_eq!(result.connections_opened, 0);
    // Four clients try at once, then every 100 ms.
    assert!(start.elapsed() > Duration::from_millis(900));
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
fn a_close_without_a_response_is_counted() {
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
            respond_and_close(&mut stream, &BODY[..5]);
        },
        Fault::BadLength,
    );
}

#[test]
fn a_server_that_hangs_after_connecting_is_counted() {
    check_time_out(|mut stream| while wait_for_request(&mut stream) {});
}

#[test]
fn a_server_that_hangs_amid_the_body_is_counted() {
    check_time_out(|mut stream| {
        wait_for_request(&mut stream);
        stream.write_all(head(BODY.len()).as_bytes()).unwrap();
        stream.write_all(&BODY[..5]).unwrap();
        wait_for_request(&mut stream);
    });
}

#[test]
fn a_server_that_drips_its_head_is_counted() {
    check_time_out(|mut stream| {
        wait_for_request(&mut stream);
        for byte in head(BODY.len()).bytes().cycle() {
            if stream.write_all(&[byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    });
}

#[test]
fn wrong_bytes_of_the_right_length_are_counted() {
    check(
        |mut stream| {
            let mut wrong = BODY.to_vec();
            wrong[7] ^= 1;
            wait_for_request(&mut stream);
            respond_and_close(&mut stream, &wrong);
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
fn a_server_that_responds_and_closes_has_served() {
    let server = Server::start(|mut stream| {
        wait_for_request(&mut stream);
        respond_and_close(&mut stream, BODY);
    });
    for (keep_alive, engine) in keep_alives_and_engines() {
        let traffic = Traffic {
            keep_alive,
            engine,
            ..traffic_on(server.address)
        };
        let result = run(&traffic);
        assert_eq!(result.faults, BTreeMap::new());
        assert_eq!((result.ok, result.connections_opened), (40, 40));
    }
    assert_eq!(server.stop(), 160);
}

fn keep_alives_and_engines() -> impl Iterator<Item = (bool, EngineChoice)> {
    let pairs = [true, false].map(|keep_alive| ENGINES.map(|engine| (keep_alive, engine)));
    pairs.into_iter().flatten()
}

/// Sends `answer` as the last response of a connection, and leaves the connection open.
fn serve_and_stay(mut stream: TcpStream, answer: &str) {
    if wait_for_request(&mut stream) {
        respond_and_stay(&mut stream, answer.as_bytes());
    }
}

/// Clients do not wait for a server that leaves finished connections open: all forty requests end
/// long before the server closes a connection.
fn check_not_waited_for(serve: fn(TcpStream), method: &str, expect: &Expect) {
    for (keep_alive, engine) in keep_alives_and_engines() {
        let server = Server::start(serve);
        let exchange = Exchange {
            method: method.into(),
            ..Exchange::get("/page", expect.clone())
        };
        let traffic = Traffic {
            keep_alive,
            engine,
            mix: Mix::Round(vec![exchange]),
            ..traffic_on(server.address)
        };
        // With a wait of 100 ms each, four clients would take a second. On a busy machine one run
        // may take as long, but not five.
        let is_quick = (0..5).any(|_| {
            let result = run(&traffic);
            assert_eq!(result.faults, BTreeMap::new(), "{method} {engine:?}");
            assert_eq!((result.ok, result.connections_opened), (40, 40));
            result.window_ns < 900_000_000
        });
        assert!(is_quick, "{method} {engine:?}");
        server.stop();
    }
}

// envoyproxy/envoy#5788
#[test]
fn clients_do_not_wait_for_a_server_to_close_a_finished_connection() {
    const CLOSE: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\n";
    let body = Expect::body(BODY);
    let counted = |stream| {
        let head = format!("{CLOSE}Content-Length: 20\r\n\r\n");
        serve_and_stay(stream, &format!("{head}twenty bytes of text"));
    };
    check_not_waited_for(counted, "GET", &body);
    let old = |stream| {
        let head = "HTTP/1.0 200 OK\r\nContent-Length: 20\r\n\r\n";
        serve_and_stay(stream, &format!("{head}twenty bytes of text"));
    };
    check_not_waited_for(old, "GET", &body);
    let chunked = |stream| {
        let head = format!("{CLOSE}Transfer-Encoding: chunked\r\nTrailer: X\r\n\r\n");
        let chunks = "14\r\ntwenty bytes of text\r\n0\r\nX: y\r\n\r\n";
        serve_and_stay(stream, &format!("{head}{chunks}"));
    };
    check_not_waited_for(chunked, "GET", &body);
}

#[test]
fn clients_do_not_wait_for_the_body_of_a_bodiless_response() {
    let empty = |stream| serve_and_stay(stream, "HTTP/1.1 204 None\r\nConnection: close\r\n\r\n");
    check_not_waited_for(empty, "GET", &Expect::status(204));
    let unchanged = |stream| {
        let head = "HTTP/1.1 304 Same\r\nConnection: close\r\nContent-Length: 9\r\n\r\n";
        serve_and_stay(stream, head);
    };
    check_not_waited_for(unchanged, "GET", &Expect::status(304));
    let head = |stream| {
        let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\n";
        serve_and_stay(stream, head);
    };
    check_not_waited_for(head, "HEAD", &Expect::status(200));
}

#[test]
fn a_response_that_ends_with_its_connection_is_waited_for() {
    let server = Server::start(|mut stream| {
        wait_for_request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\ntwenty bytes of text");
        std::thread::sleep(Duration::from_millis(20));
    });
    for engine in ENGINES {
        let traffic = Traffic {
            engine,
            ..traffic_on(server.address)
        };
        let result = run(&traffic);
        assert_eq!((result.ok, result.connections_opened), (40, 40));
        assert!(result.latency.quantile_ns(0.01) >= 20_000_000);
    }
}

#[test]
fn a_rate_is_kept_with_a_server_that_leaves_connections_open() {
    let server = Server::start(|stream| {
        let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 20\r\n\r\n";
        serve_and_stay(stream, &format!("{head}twenty bytes of text"));
    });
    for engine in ENGINES {
        let traffic = Traffic {
            engine,
            connections: 2,
            schedule: Schedule::Open {
                rate_per_s: 400.0,
                arrivals: Arrivals::Constant,
            },
            end: End::After(Duration::from_secs(1)),
            ..traffic_on(server.address)
        };
        let stop = AtomicBool::new(false);
        let result = run::run_at(&traffic, clock::now_ns(), &stop, &mut |_| {}).unwrap();
        assert_eq!((result.planned, result.ok), (400, 400), "{engine:?}");
        // Two clients with a wait of 100 ms each would send twenty per second.
        assert!(result.ok_in_window > 100, "{engine:?} {result:?}");
        // The client closes these connections and counts them.
        assert!(result.incidents.left_open > 0, "{engine:?}");
    }
}

#[test]
fn a_server_that_closes_in_time_keeps_the_ports() {
    let server = Server::start(|mut stream| {
        wait_for_request(&mut stream);
        respond_and_close(&mut stream, BODY);
    });
    for engine in ENGINES {
        let traffic = Traffic {
            engine,
            keep_alive: false,
            end: End::Count(2000),
            ..traffic_on(server.address)
        };
        run(&traffic);
        // The side that closes first is in `TIME_WAIT`.
        let (clients, servers) = time_waits(server.address.port());
        assert!(
            clients * 10 <= servers,
            "{engine:?}: {clients} and {servers}"
        );
    }
}

/// Numbers of sockets of clients and of the server in `TIME_WAIT`.
fn time_waits(server_port: u16) -> (usize, usize) {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let port = format!(":{server_port:04X}");
    let (mut clients, mut servers) = (0, 0);
    for line in table.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if let [_, local, peer, "06", ..] = fields[..] {
            clients += usize::from(peer.ends_with(&port));
            servers += usize::from(local.ends_with(&port));
        }
    }
    (clients, servers)
}

#[test]
fn a_switch_to_another_protocol_is_a_wrong_status_at_once() {
    check(
        |mut stream| {
            wait_for_request(&mut stream);
            let head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n";
            respond_and_stay(&mut stream, head);
        },
        Fault::BadStatus,
    );
}

#[test]
fn requests_are_sent_again_if_a_server_closes_reused_connections() {
    let server = Server::start(|mut stream| {
        wait_for_request(&mut stream);
        respond(&mut stream, BODY);
    });
    for engine in ENGINES {
        let traffic = Traffic {
            engine,
            ..traffic_on(server.address)
        };
        let result = run(&traffic);
        assert_eq!(result.faults, BTreeMap::new());
        assert_eq!((result.ok, result.connections_opened), (40, 40));
        assert!(result.repeated <= 36, "{result:?}");
    }
    // A form must not be sent twice, because the server may have processed it.
    let mut post = Exchange::get("/page", Expect::body(BODY));
    post.method = "POST".into();
    let traffic = Traffic {
        mix: Mix::Round(vec![post]),
        ..traffic_on(server.address)
    };
    assert_eq!(run(&traffic).repeated, 0);
}

#[test]
fn a_full_backlog_times_out_in_connecting() {
    let (listener, _fillers) = server::full_backlog();
    for engine in ENGINES {
        let traffic = Traffic {
            engine,
            deadline: Duration::from_millis(100),
            ..traffic_on(listener.local_addr().unwrap())
        };
        let result = run(&traffic);
        assert_eq!(result.faults, BTreeMap::from([(Fault::ConnectTimeout, 40)]));
    }
}

#[test]
fn a_missing_port_is_a_fault_of_the_client() {
    let server = Server::start(serve_correctly);
    // No address of this machine.
    let traffic = Traffic {
        sources: vec!["192.0.2.1".parse().unwrap()],
        end: End::Count(4),
        ..traffic_on(server.address)
    };
    let result = run(&traffic);
    assert_eq!(result.faults, BTreeMap::from([(Fault::ClientNoPort, 4)]));
    assert_eq!(server.stop(), 0);
}

/// Ends a run as soon as a condition holds.
fn run_until(traffic: &Traffic, holds: impl FnMut() -> bool + Send) -> LoadResult {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            wait_until(holds);
            stop.store(true, Ordering::SeqCst);
        });
        run::run(traffic, &stop, &mut |_| {}).unwrap()
    })
}

#[test]
fn a_run_that_the_user_ends_is_right_for_its_time() {
    static ANSWERED: AtomicU64 = AtomicU64::new(0);
    let server = Server::start(|mut stream| {
        while wait_for_request(&mut stream) {
            respond(&mut stream, BODY);
            ANSWERED.fetch_add(1, Ordering::SeqCst);
        }
    });
    let traffic = Traffic {
        end: End::After(PATIENCE),
        ..traffic_on(server.address)
    };
    let result = run_until(&traffic, || ANSWERED.load(Ordering::SeqCst) >= 100);
    assert!(result.window_ns < PATIENCE.as_nanos() as u64);
    assert_eq!(result.planned, result.ok);
    assert!(result.ok + result.withdrawn >= 96, "{result:?}");
    // The responses to the last four requests came after the window.
    let shown: u64 = result.timeline.iter().map(|second| second.ok).sum();
    assert!(result.ok - 4 <= shown && shown <= result.ok);
}

#[test]
fn a_hanging_request_is_withdrawn_when_the_user_ends_the_run() {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    let server = Server::start(|mut stream| {
        while wait_for_request(&mut stream) {
            ASKED.fetch_add(1, Ordering::SeqCst);
        }
    });
    let traffic = Traffic {
        end: End::After(PATIENCE),
        ..traffic_on(server.address)
    };
    let result = run_until(&traffic, || ASKED.load(Ordering::SeqCst) == 4);
    assert_eq!((result.planned, result.withdrawn), (0, 4));
}
