//! Servers that misbehave in one way each, and clients that must say exactly how often they did.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use load::expect::Expect;
use load::traffic::{End, EngineChoice, Exchange, Mix, Traffic};
use load::{Load, Request, drive};
use record::load::{Fault, LoadResult};

use crate::server::{
    self, BODY, Server, answer, last_answer, reset_after, serve_rightly, wait_for_request,
};

const ENGINES: [EngineChoice; 2] = [EngineChoice::Fastest, EngineChoice::Epoll];

/// Four clients, forty requests and not one more.
fn traffic_on(server: SocketAddr) -> Traffic {
    let load = Load {
        server,
        host: "test".into(),
        requests: vec![Request {
            path: "/page".into(),
            expect: Expect::body(BODY),
        }],
        connections: 4,
        keep_alive: true,
        threads: 1,
        deadline: Duration::from_secs(5),
        warmup: Duration::ZERO,
        window: Duration::from_secs(1),
    };
    Traffic {
        end: End::Count(40),
        engine: EngineChoice::Fastest,
        stamps: false,
        ..load.traffic()
    }
}

fn run(traffic: &Traffic) -> LoadResult {
    let result = drive::run(traffic, &AtomicBool::new(false), &mut |_| {}).unwrap();
    assert_eq!(
        result.planned,
        result.ok + result.unsent + result.fault_count()
    );
    assert_eq!(result.latency.count(), result.ok);
    result
}

/// Every request fails in the same way, and the server sees each of them on a connection of its own.
fn check(serve: fn(TcpStream), fault: Fault) {
    for engine in ENGINES {
        check_with(engine, serve, fault);
    }
}

fn check_with(engine: EngineChoice, serve: fn(TcpStream), fault: Fault) {
    let server = Server::start(serve);
    let traffic = Traffic {
        engine,
        // A server that answers at all does so in 5 s, however busy the machine is.
        deadline: match fault {
            Fault::FirstByteTimeout | Fault::WholeTimeout => Duration::from_millis(100),
            _ => Duration::from_secs(5),
        },
        ..traffic_on(server.address)
    };
    let result = run(&traffic);
    assert_eq!(result.faults, BTreeMap::from([(fault, 40)]));
    assert_eq!(
        (result.ok, result.connections_opened, server.stop()),
        (0, 40, 40)
    );
}

fn head(length: usize) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n")
}

#[test]
fn a_server_that_answers_rightly_gets_no_faults() {
    let server = Server::start(serve_rightly);
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
    // Four clients try at once, and then every 100 ms.
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
    for (keep_alive, engine) in [true, false]
        .map(|keep| ENGINES.map(|engine| (keep, engine)))
        .into_iter()
        .flatten()
    {
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

#[test]
fn a_server_that_closes_kept_connections_is_asked_again() {
    let server = Server::start(|mut stream| {
        wait_for_request(&mut stream);
        answer(&mut stream, BODY);
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
    // A form may not be sent twice: the server may have taken it.
    let mut post = Exchange::get("/page", Expect::body(BODY));
    post.method = "POST".into();
    let traffic = Traffic {
        mix: Mix::Round(vec![post]),
        ..traffic_on(server.address)
    };
    assert_eq!(run(&traffic).repeated, 0);
}

#[test]
fn a_stalled_server_times_out_every_client_once() {
    let server = Server::start(|mut stream| {
        wait_for_request(&mut stream);
        std::thread::sleep(Duration::from_secs(1));
        let _ = stream.write_all(BODY);
    });
    let traffic = Traffic {
        deadline: Duration::from_millis(100),
        end: End::After(Duration::from_millis(50)),
        ..traffic_on(server.address)
    };
    let result = run(&traffic);
    assert_eq!(
        result.faults,
        BTreeMap::from([(Fault::FirstByteTimeout, 4)])
    );
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
fn clients_that_run_out_of_ports_blame_themselves() {
    let server = Server::start(serve_rightly);
    // An address that this machine does not have.
    let traffic = Traffic {
        sources: vec!["192.0.2.1".parse().unwrap()],
        end: End::Count(4),
        ..traffic_on(server.address)
    };
    let result = run(&traffic);
    assert_eq!(result.faults, BTreeMap::from([(Fault::ClientNoPort, 4)]));
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_run_that_the_user_ends_is_right_for_its_time() {
    let server = Server::start(serve_rightly);
    let traffic = Traffic {
        end: End::After(Duration::from_secs(60)),
        ..traffic_on(server.address)
    };
    let stop = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            stop.store(true, Ordering::SeqCst);
        });
        drive::run(&traffic, &stop, &mut |_| {}).unwrap()
    });
    assert!((300_000_000..400_000_000).contains(&result.window_ns));
    assert_eq!((result.planned, result.withdrawn), (result.ok, 0));
    // The answers to the last four requests came when the window was closed.
    let shown: u64 = result.timeline.iter().map(|second| second.ok).sum();
    assert!(result.ok - 4 <= shown && shown <= result.ok);
}

#[test]
fn a_hanging_request_is_withdrawn_when_the_user_ends_the_run() {
    let server = Server::start(|mut stream| while wait_for_request(&mut stream) {});
    let traffic = Traffic {
        deadline: Duration::from_secs(60),
        end: End::After(Duration::from_secs(60)),
        ..traffic_on(server.address)
    };
    let stop = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            stop.store(true, Ordering::SeqCst);
        });
        drive::run(&traffic, &stop, &mut |_| {}).unwrap()
    });
    assert_eq!((result.planned, result.withdrawn), (0, 4));
}
