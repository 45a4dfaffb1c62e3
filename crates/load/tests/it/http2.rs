//! HTTP/2 against faulty servers: every request has the outcome that the server caused.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use h2::server::{self, SendResponse};
use h2::{Reason, RecvStream};
use http::{Request, Response};
use load::client_limits::late_count;
use load::exchange::Exchange;
use load::expect::Expect;
use load::http2;
use load::run;
use load::schedule::{Arrivals, Schedule, Think};
use load::traffic::{End, EngineChoice, Mix, Protocol, Traffic};
use record::load::{Fault, LoadResult};
use tokio::task::LocalSet;

use crate::server::{PATIENCE, wait_until};

/// A server whose responses depend on the path. Counts accepted connections, and requests by path.
struct Server {
    address: SocketAddr,
    accepted: Arc<AtomicU64>,
    taken: Taken,
}

type Taken = Arc<Mutex<BTreeMap<String, u64>>>;

/// What a server does after a number of requests on a connection.
#[derive(Debug, Clone, Copy)]
enum After {
    Nothing,
    /// Sends `GOAWAY` and completes the requests under way.
    GoAway(u64),
    /// Ends the connection with an internal error.
    Abort(u64),
    /// Refuses this many streams, then serves all.
    Refusals(u64),
}

fn serve(after: After) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let accepted = Arc::new(AtomicU64::new(0));
    let taken = Taken::default();
    let (counter, all_taken) = (Arc::clone(&accepted), Taken::clone(&taken));
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_io().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::SeqCst);
                tokio::task::spawn_local(converse(stream, after, Taken::clone(&all_taken)));
            }
        });
    });
    Server {
        address,
        accepted,
        taken,
    }
}

async fn converse(stream: tokio::net::TcpStream, after: After, all_taken: Taken) {
    let Ok(mut connection) = server::handshake(stream).await else {
        return;
    };
    let mut taken = 0;
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        taken += 1;
        let path = request.uri().path().to_owned();
        *all_taken.lock().unwrap().entry(path).or_insert(0) += 1;
        match after {
            After::GoAway(count) if taken == count => connection.graceful_shutdown(),
            After::Abort(count) if taken == count => {
                connection.abrupt_shutdown(Reason::INTERNAL_ERROR);
                continue;
            }
            After::Refusals(count) if taken <= count => {
                respond.send_reset(Reason::REFUSED_STREAM);
                continue;
            }
            After::Nothing | After::GoAway(_) | After::Abort(_) | After::Refusals(_) => {}
        }
        tokio::task::spawn_local(answer(request, respond));
    }
}

async fn answer(mut request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let path = request.uri().path().to_owned();
    let mut seen = Vec::new();
    while let Some(Ok(piece)) = request.body_mut().data().await {
        request
            .body_mut()
            .flow_control()
            .release_capacity(piece.len())
            .unwrap();
        seen.extend_from_slice(&piece);
    }
    let status = if path == "/broken" { 500 } else { 200 };
    let head = Response::builder().status(status).body(()).unwrap();
    match path.as_str() {
        "/reset" => return respond.send_reset(Reason::INTERNAL_ERROR),
        "/refuse" => return respond.send_reset(Reason::REFUSED_STREAM),
        "/silent" => return std::future::pending().await,
        _ => {}
    }
    let body: Bytes = match path.as_str() {
        "/wrong" => "jello".into(),
        "/short" => "hell".into(),
        "/echo" => seen.into(),
        _ => "hello".into(),
    };
    // The client may have gone.
    let Ok(mut stream) = respond.send_response(head, false) else {
        return;
    };
    match path.as_str() {
        "/stuck" => {
            let _ = stream.send_data(body, false);
            std::future::pending::<()>().await;
        }
        "/amid" => {
            let _ = stream.send_data("he".into(), false);
            stream.send_reset(Reason::CANCEL);
        }
        _ => _ = stream.send_data(body, true),
    }
}

fn traffic(server: SocketAddr, paths: &[&str]) -> Traffic {
    let exchange = |path: &&str| Exchange::get(*path, Expect::body(*b"hello"));
    let mix = Mix::Round(paths.iter().map(exchange).collect());
    Traffic {
        host: "bake.test".into(),
        protocol: Protocol::Http2 { streams: 4 },
        connections: 2,
        deadline: PATIENCE,
        end: End::Count(80),
        seed: 7,
        engine: EngineChoice::Fastest,
        ..Traffic::plain(server, mix)
    }
}

fn run(traffic: &Traffic) -> LoadResult {
    run::run(traffic, &AtomicBool::new(false), &mut |_| {}).unwrap()
}

/// All of eighty requests for a path end with this fault.
fn check(path: &str, fault: Fault) {
    let server = serve(After::Nothing);
    let result = run(&traffic(server.address, &[path]));
    assert_eq!(
        result.faults,
        BTreeMap::from([(fault, 80)]),
        "{path}: {result:?}"
    );
    assert_eq!((result.planned, result.ok, result.unsent), (80, 0, 0));
}

#[test]
fn many_requests_share_a_connection() {
    let server = serve(After::Nothing);
    let result = run(&traffic(server.address, &["/"]));
    assert_eq!((result.planned, result.ok), (80, 80), "{result:?}");
    assert_eq!((result.connections_opened, result.connections_held), (2, 2));
    assert_eq!(server.accepted.load(Ordering::SeqCst), 2);
    assert_eq!((result.body_bytes, result.latency.count()), (400, 80));
    assert_eq!(result.engine, "h2");
}

#[test]
fn faults_of_streams_are_classified() {
    check("/reset", Fault::Reset);
    check("/amid", Fault::Reset);
    check("/broken", Fault::BadStatus);
    check("/short", Fault::BadLength);
    check("/wrong", Fault::BadContent);
}

#[test]
fn a_server_that_is_silent_costs_each_request_its_deadline() {
    for path in ["/silent", "/stuck"] {
        let server = serve(After::Nothing);
        let hasty = Traffic {
            deadline: Duration::from_millis(300),
            ..traffic(server.address, &[path])
        };
        let result = run(&hasty);
        // A client that a busy machine holds up past a deadline blames itself.
        let client_late = result.faults.get(&Fault::ClientLate).copied();
        let late = late_count(&result) + client_late.unwrap_or(0);
        assert_eq!(late, 80, "{path}: {result:?}");
        assert_eq!((result.planned, result.ok, result.unsent), (80, 0, 0));
        // Eight at a time, ten times.
        assert!(result.window_ns >= 3_000_000_000, "{path}: {result:?}");
    }
}

#[test]
fn faults_of_one_stream_do_not_affect_others() {
    let server = serve(After::Nothing);
    let result = run(&traffic(
        server.address,
        &["/", "/reset", "/wrong", "/broken"],
    ));
    // Each stream cycles through the paths independently, so the counts vary.
    let taken = server.taken.lock().unwrap();
    assert_eq!((taken.len(), taken.values().sum()), (4, 80_u64));
    let expected = [
        (Fault::Reset, taken["/reset"]),
        (Fault::BadStatus, taken["/broken"]),
        (Fault::BadContent, taken["/wrong"]),
    ];
    assert_eq!(result.faults, BTreeMap::from(expected));
    assert_eq!((result.planned, result.ok), (80, taken["/"]), "{result:?}");
    assert_eq!(server.accepted.load(Ordering::SeqCst), 2);
}

// seanmonstar/reqwest#2081
#[test]
fn tries_are_limited_if_a_server_refuses_all_streams() {
    let server = serve(After::Nothing);
    let result = run(&traffic(server.address, &["/refuse"]));
    assert_eq!(
        result.faults,
        BTreeMap::from([(Fault::Reset, 80)]),
        "{result:?}"
    );
    assert_eq!(result.repeated, 80 * 16);
    assert_eq!(result.incidents.refused_streams, 80 * 16);
    // Refused streams do not end the connection.
    assert_eq!(server.accepted.load(Ordering::SeqCst), 2);
    assert_eq!(result.connections_opened, 2);
}

#[test]
fn a_refused_stream_is_tried_again_on_the_same_connection() {
    for (method, refused) in [("GET", 1), ("GET", 3), ("POST", 1), ("PATCH", 2)] {
        let server = serve(After::Refusals(refused));
        let exchange = Exchange {
            method: method.into(),
            ..Exchange::get("/", Expect::body(*b"hello"))
        };
        let refusing = Traffic {
            mix: Mix::Round(vec![exchange]),
            ..traffic(server.address, &[])
        };
        let result = run(&refusing);
        assert_eq!((result.ok, result.fault_count()), (80, 0), "{method}");
        assert_eq!(server.accepted.load(Ordering::SeqCst), 2, "{method}");
        // The first streams of each connection.
        assert_eq!(result.incidents.refused_streams, 2 * refused, "{method}");
    }
}

#[test]
fn streams_beyond_a_goaway_are_tried_again_elsewhere() {
    for (method, reason) in [
        ("GET", Reason::NO_ERROR),
        ("POST", Reason::NO_ERROR),
        ("GET", Reason::ENHANCE_YOUR_CALM),
    ] {
        let server = serve_raw(4, reason);
        let exchange = Exchange {
            method: method.into(),
            ..Exchange::get("/", Expect::status(200))
        };
        let one = Traffic {
            mix: Mix::Round(vec![exchange]),
            connections: 1,
            end: End::Count(12),
            ..traffic(server.0, &[])
        };
        let result = run(&one);
        assert_eq!(
            (result.ok, result.fault_count()),
            (12, 0),
            "{method} {reason}"
        );
        // The first of four streams is answered; the others are beyond `GOAWAY`.
        assert!(result.incidents.refused_streams >= 3, "{method} {reason}");
        assert!(server.1.load(Ordering::SeqCst) >= 2);
    }
}

/// A server on the level of frames. On its first connection it waits for this many streams, sends
/// `GOAWAY` with the first as the last one, answers that one and closes. Other connections answer
/// all.
fn serve_raw(streams: u32, reason: Reason) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let accepted = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&accepted);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let is_first = counter.fetch_add(1, Ordering::SeqCst) == 0;
            let goaway = is_first.then_some((streams, reason));
            std::thread::spawn(move || raw_connection(stream, goaway));
        }
    });
    (address, accepted)
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn raw_connection(mut stream: TcpStream, goaway: Option<(u32, Reason)>) -> std::io::Result<()> {
    stream.read_exact(&mut [0; 24])?;
    stream.write_all(&frame(4, 0, 0, &[]))?;
    // Status 200 from the static table of HPACK, with the end of the stream.
    let answer = |stream: u32| frame(1, 0x5, stream, &[0x88]);
    let mut seen = Vec::new();
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        stream.read_exact(&mut vec![0; length as usize])?;
        let number = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        match (head[3], head[4] & 1) {
            (4, 0) => stream.write_all(&frame(4, 1, 0, &[]))?,
            (1, _) => seen.push(number),
            _ => continue,
        }
        match goaway {
            None => {
                for number in seen.drain(..) {
                    stream.write_all(&answer(number))?;
                }
            }
            Some((streams, reason)) if seen.len() as u32 == streams => {
                let reason = u32::from(reason).to_be_bytes();
                let last = [&seen[0].to_be_bytes()[..], &reason].concat();
                stream.write_all(&frame(7, 0, 0, &last))?;
                stream.write_all(&answer(seen[0]))?;
                // Closing with unread bytes would reset the connection before the response arrives.
                stream.shutdown(Shutdown::Write)?;
                std::io::copy(&mut stream, &mut std::io::sink())?;
                return Ok(());
            }
            Some(_) => {}
        }
    }
}

#[test]
fn a_graceful_goaway_costs_no_request() {
    let server = serve(After::GoAway(10));
    let result = run(&traffic(server.address, &["/"]));
    assert_eq!((result.planned, result.ok), (80, 80), "{result:?}");
    assert!(server.accepted.load(Ordering::SeqCst) >= 4, "{result:?}");
}

#[test]
fn an_aborted_connection_fails_its_requests() {
    let server = serve(After::Abort(1));
    let result = run(&traffic(server.address, &["/"]));
    assert_eq!(
        result.faults,
        BTreeMap::from([(Fault::EarlyClose, 80)]),
        "{result:?}"
    );
    let server = serve(After::Abort(10));
    let result = run(&traffic(server.address, &["/"]));
    let early = result.faults.get(&Fault::EarlyClose).copied().unwrap_or(0);
    assert_eq!((result.planned, result.ok + early), (80, 80), "{result:?}");
    assert!(early > 0, "{result:?}");
}

#[test]
fn a_server_without_http2_fails_all_requests() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
            // Closing could reset the connection before the response arrives.
            held.push(stream);
        }
    });
    let result = run(&traffic(address, &["/"]));
    assert_eq!(
        result.faults,
        BTreeMap::from([(Fault::Malformed, 80)]),
        "{result:?}"
    );
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let few = Traffic {
        end: End::Count(16),
        ..traffic(closed, &["/"])
    };
    let result = run(&few);
    assert_eq!(
        result.faults,
        BTreeMap::from([(Fault::ConnectFailed, 16)]),
        "{result:?}"
    );
}

#[test]
fn an_open_loop_counts_unsent_requests() {
    let server = serve(After::Nothing);
    for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
        let open = Traffic {
            schedule: Schedule::Open {
                rate_per_s: 200.0,
                arrivals,
            },
            warmup: Duration::from_millis(100),
            end: End::After(Duration::from_secs(1)),
            threads: 2,
            ..traffic(server.address, &["/"])
        };
        let result = run(&open);
        assert_eq!(
            (result.planned, result.fault_count()),
            (result.ok, 0),
            "{result:?}"
        );
        assert_eq!(result.lateness.count(), result.planned);
        match arrivals {
            Arrivals::Constant => assert_eq!(result.planned, 200),
            Arrivals::Poisson => assert!((140..260).contains(&result.planned), "{result:?}"),
        }
        // Each of the eight streams is busy until a deadline, and the next request has little time
        // left.
        let silent = Traffic {
            mix: Mix::Round(vec![Exchange::get("/silent", Expect::status(200))]),
            deadline: Duration::from_millis(300),
            ..open
        };
        let result = run(&silent);
        let late = result.faults.get(&Fault::ClientLate).copied().unwrap_or(0);
        assert_eq!(
            (result.ok, late_count(&result) + late),
            (0, result.planned),
            "{result:?}"
        );
    }
}

#[test]
fn a_run_that_is_ended_early_adds_up() {
    let thinking = Schedule::Closed {
        think: Think::always(Duration::from_millis(1)),
    };
    let server = serve(After::Nothing);
    let result = run_until(&server, 60, "/", thinking);
    assert!(result.ok >= 50, "{result:?}");
    let open = Schedule::Open {
        rate_per_s: 500.0,
        arrivals: Arrivals::Constant,
    };
    let server = serve(After::Nothing);
    let result = run_until(&server, 8, "/silent", open);
    assert_eq!((result.ok, result.withdrawn), (0, 8), "{result:?}");
    // One request every 2 ms until the end.
    let (all, expected) = (
        result.unsent + result.withdrawn,
        result.window_ns / 2_000_000,
    );
    assert!(
        all.abs_diff(expected) <= 3,
        "{all} of {expected}: {result:?}"
    );
}

/// Ends an endless run when the server has received this many requests.
fn run_until(server: &Server, taken: u64, path: &str, schedule: Schedule) -> LoadResult {
    let endless = Traffic {
        schedule,
        end: End::After(PATIENCE),
        ..traffic(server.address, &[path])
    };
    let stop = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            wait_until(|| server.taken.lock().unwrap().values().sum::<u64>() >= taken);
            stop.store(true, Ordering::SeqCst);
        });
        run::run(&endless, &stop, &mut |_| {}).unwrap()
    });
    assert!(result.window_ns < PATIENCE.as_nanos() as u64);
    assert_eq!(
        result.planned,
        result.ok + result.fault_count() + result.unsent
    );
    result
}

#[test]
fn bodies_are_sent_by_probes_and_clients() {
    let server = serve(After::Nothing);
    let long: Vec<u8> = (0..200_000_u32).map(|index| (index % 251) as u8).collect();
    let echo = Exchange {
        method: "POST".into(),
        body: long.clone(),
        ..Exchange::get("/echo", Expect::body(long.clone()))
    };
    let probed = http2::probe::Server {
        server: server.address,
        host: "bake.test",
        tls: None,
        patience: PATIENCE,
        limit_bytes: 1 << 20,
    };
    let answer = http2::probe::request(probed, &echo).unwrap();
    assert_eq!((answer.status, answer.body == long), (200, true));
    let post = Traffic {
        mix: Mix::Round(vec![echo]),
        end: End::Count(20),
        ..traffic(server.address, &[])
    };
    let result = run(&post);
    assert_eq!(
        (result.ok, result.body_bytes),
        (20, 20 * 200_000),
        "{result:?}"
    );
}

#[test]
fn unsupported_loads_are_refused() {
    let base = traffic("127.0.0.1:1".parse().unwrap(), &["/"]);
    let refused = |traffic: &Traffic| {
        let error = run::run(traffic, &AtomicBool::new(false), &mut |_| {});
        error.unwrap_err().to_string()
    };
    let slow = Traffic {
        bits_per_s: vec![56_000],
        ..base.clone()
    };
    assert!(refused(&slow).starts_with("not over HTTP/2: slow lines"));
    let short = Traffic {
        keep_alive: false,
        ..base.clone()
    };
    assert!(refused(&short).starts_with("not over HTTP/2: a connection per request"));
    let none = Traffic {
        protocol: Protocol::Http2 { streams: 0 },
        ..base
    };
    assert!(refused(&none).starts_with("too few streams: 0"));
}
