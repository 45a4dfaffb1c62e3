//! Open loops against servers on loopback: scheduled send times, stalls and send delay.

use std::collections::BTreeSet;
use std::io::IoSliceMut;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use load::exchange::Exchange;
use load::expect::Expect;
use load::schedule::{Arrivals, Schedule, Think};
use load::traffic::{End, EngineChoice, Mix, Traffic};
use load::{client_limits, clock, run};
use nix::cmsg_space;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, TimestampingFlag, Timestamps, recvmsg, setsockopt, sockopt,
};
use record::load::LoadResult;

use crate::server::{
    BODY, PATIENCE, Server, respond, serve_correctly, wait_for_request, wait_until,
};

fn traffic_on(server: &Server, rate_per_s: f64) -> Traffic {
    let mix = Mix::Round(vec![Exchange::get("/page", Expect::body(BODY))]);
    Traffic {
        host: "test".into(),
        schedule: Schedule::Open {
            rate_per_s,
            arrivals: Arrivals::Constant,
        },
        connections: 4,
        deadline: PATIENCE,
        warmup: Duration::from_millis(100),
        end: End::After(Duration::from_secs(2)),
        seed: 7,
        engine: EngineChoice::Fastest,
        ..Traffic::plain(server.address, mix)
    }
}

fn run(traffic: &Traffic) -> LoadResult {
    let result = run::run(traffic, &AtomicBool::new(false), &mut |_| {}).unwrap();
    assert_eq!(
        result.planned,
        result.ok + result.unsent + result.fault_count()
    );
    result
}

/// Enables receive time stamps in the kernel while the returned socket is open. That takes a while,
/// and longer on a busy host.
fn stamping() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let flags = [
        TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE,
        TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE,
    ];
    let flags = flags.into_iter().collect();
    setsockopt(&socket, sockopt::Timestamping, &flags).unwrap();
    let address = socket.local_addr().unwrap();
    wait_until(|| {
        socket.send_to(b"?", address).unwrap();
        let mut byte = [0];
        let mut pieces = [IoSliceMut::new(&mut byte)];
        let mut control = cmsg_space!(Timestamps);
        let flags = MsgFlags::empty();
        let message =
            recvmsg::<()>(socket.as_raw_fd(), &mut pieces, Some(&mut control), flags).unwrap();
        let is_stamp = |message| matches!(message, ControlMessageOwned::ScmTimestampsns(_));
        message.cmsgs().unwrap().any(is_stamp)
    });
    socket
}

#[test]
fn the_kernel_stamps_a_sample_of_reads() {
    let _stamping = stamping();
    let server = Server::start(serve_correctly);
    let traffic = Traffic {
        engine: EngineChoice::Epoll,
        stamps: true,
        schedule: Schedule::Closed { think: Think::NONE },
        end: End::Count(4000),
        ..traffic_on(&server, 1.0)
    };
    let result = run(&traffic);
    let (stamped, delay) = (result.client_delay.count(), &result.client_delay);
    assert!(
        stamped >= result.ok / 64 / 2 && stamped <= result.ok / 32,
        "{stamped} of {}",
        result.ok
    );
    assert!(delay.quantile_ns(0.5) > 0 && delay.quantile_ns(0.5) < result.latency.max_ns());
}

#[test]
fn the_rate_is_kept_to_the_request() {
    let server = Server::start(serve_correctly);
    for threads in [1, 2] {
        let traffic = Traffic {
            threads,
            end: End::After(Duration::from_millis(500)),
            ..traffic_on(&server, 1000.0)
        };
        let result = run(&traffic);
        assert_eq!((result.planned, result.ok), (500, 500));
        assert_eq!(result.lateness.count(), 500);
    }
}

#[test]
fn a_server_that_stalls_pays_for_every_request_that_it_kept_waiting() {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    static STALLS: AtomicBool = AtomicBool::new(true);
    let server = Server::start(|mut stream| {
        while wait_for_request(&mut stream) {
            ASKED.fetch_add(1, Ordering::SeqCst);
            while STALLS.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            respond(&mut stream, BODY);
        }
    });
    let traffic = Traffic {
        warmup: Duration::ZERO,
        end: End::After(Duration::from_millis(500)),
        ..traffic_on(&server, 500.0)
    };
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            wait_until(|| ASKED.load(Ordering::SeqCst) == 4);
            std::thread::sleep(Duration::from_millis(300));
            STALLS.store(false, Ordering::SeqCst);
        });
        run(&traffic)
    });
    assert_eq!((result.planned, result.ok), (250, 250));
    // However late the stall ends, at least the requests of the first 200 ms have waited 100 ms. A
    // closed loop would have seen four slow requests. Tests in simulated time check exact
    // latencies.
    assert!(result.latency.quantile_ns(1.0 - 100.0 / 250.0) >= 100_000_000);
    assert!(result.latency.max_ns() >= 290_000_000);
}

#[test]
fn responses_after_the_window_do_not_count_as_throughput() {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    static STALLS: AtomicBool = AtomicBool::new(true);
    // The first 200 requests are answered at once, all others after the window.
    let server = Server::start(|mut stream| {
        while wait_for_request(&mut stream) {
            let number = ASKED.fetch_add(1, Ordering::SeqCst);
            while number >= 200 && STALLS.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            respond(&mut stream, BODY);
        }
    });
    let traffic = Traffic {
        warmup: Duration::ZERO,
        end: End::After(Duration::from_millis(500)),
        ..traffic_on(&server, 1000.0)
    };
    let start_ns = clock::now_ns();
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            wait_until(|| clock::now_ns() > start_ns + 500_000_000);
            STALLS.store(false, Ordering::SeqCst);
        });
        let stop = AtomicBool::new(false);
        run::run_at(&traffic, start_ns, &stop, &mut |_| {}).unwrap()
    });
    assert_eq!((result.planned, result.ok), (500, 500));
    let in_window = result.ok_in_window;
    assert!(in_window <= 200, "{in_window}");
    assert_eq!(
        (result.backlog_open, result.backlog_close),
        (0, 500 - in_window)
    );
    assert!(result.ok_per_s() <= 400.0);
    assert!(client_limits::falls_behind(&result, &traffic));
}

#[test]
fn requests_beyond_their_deadline_are_counted_as_unsent() {
    let server = Server::start(|mut stream| while wait_for_request(&mut stream) {});
    let traffic = Traffic {
        connections: 1,
        deadline: Duration::from_millis(50),
        warmup: Duration::ZERO,
        end: End::After(Duration::from_millis(400)),
        ..traffic_on(&server, 4000.0)
    };
    let result = run(&traffic);
    assert_eq!((result.planned, result.ok), (1600, 0));
    assert!(result.unsent > 0, "{result:?}");
}

#[test]
fn clients_think_between_requests() {
    let server = Server::start(serve_correctly);
    let traffic = Traffic {
        schedule: Schedule::Closed {
            think: Think::always(Duration::from_millis(50)),
        },
        end: End::Count(20),
        warmup: Duration::ZERO,
        ..traffic_on(&server, 1.0)
    };
    let start = Instant::now();
    let result = run(&traffic);
    assert_eq!(result.ok, 20);
    // Five requests of each client, with four think times between them.
    assert!(start.elapsed() >= Duration::from_millis(200));
    assert_eq!(result.lateness.count(), 20);
}

#[test]
fn a_weighted_mix_keeps_its_weights() {
    let server = Server::start(serve_correctly);
    let exchange = |body: &[u8]| Exchange::get("/page", Expect::body(body));
    let traffic = Traffic {
        mix: Mix::Weighted(vec![
            (3, exchange(BODY)),
            (1, exchange(b"other")),
            (0, exchange(b"")),
        ]),
        schedule: Schedule::Closed { think: Think::NONE },
        end: End::Count(4000),
        ..traffic_on(&server, 1.0)
    };
    let result = run(&traffic);
    assert_eq!(result.planned, 4000);
    assert!((2900..3100).contains(&result.ok), "{} of 4000", result.ok);
}

#[test]
fn slow_lines_do_not_exceed_their_speed() {
    static PAGE: [u8; 30_000] = [b'x'; 30_000];
    let server = Server::start(|mut stream| {
        while wait_for_request(&mut stream) {
            respond(&mut stream, &PAGE);
        }
    });
    let traffic = Traffic {
        mix: Mix::Round(vec![Exchange::get("/page", Expect::body(PAGE))]),
        schedule: Schedule::Closed { think: Think::NONE },
        bits_per_s: vec![400_000, 800_000],
        connections: 6,
        warmup: Duration::ZERO,
        end: End::Count(6),
        ..traffic_on(&server, 1.0)
    };
    let result = run(&traffic);
    assert_eq!(result.ok, 6);
    assert_eq!(result.speed_error_ppm.count(), 6);
    let share_ppm = &result.line_share_ppm;
    assert_eq!(share_ppm.count(), 6);
    assert!(share_ppm.max_ns() <= 1_001_000, "{share_ppm:?}");
    // 30 kB and a head of 40 bytes, at 50 kB/s for half of the clients and 100 kB/s for the others.
    // Only the lower bound is checked here; unit tests check exact times.
    let (fast_ms, slow_ms) = (
        result.latency.quantile_ns(0.5) / 1_000_000,
        result.latency.max_ns() / 1_000_000,
    );
    assert!(fast_ms >= 300, "{fast_ms} ms");
    assert!(slow_ms >= 600, "{slow_ms} ms");
}

#[test]
fn connections_come_from_many_addresses() {
    static SEEN: Mutex<BTreeSet<IpAddr>> = Mutex::new(BTreeSet::new());
    let server = Server::start(|stream| {
        SEEN.lock()
            .unwrap()
            .insert(stream.peer_addr().unwrap().ip());
        serve_correctly(stream);
    });
    let sources: Vec<IpAddr> = (1..=4)
        .map(|last| IpAddr::from([127, 0, 0, last]))
        .collect();
    for engine in [EngineChoice::Fastest, EngineChoice::Epoll] {
        SEEN.lock().unwrap().clear();
        let traffic = Traffic {
            schedule: Schedule::Closed { think: Think::NONE },
            sources: sources.clone(),
            connections: 8,
            warmup: Duration::ZERO,
            end: End::Count(40),
            engine,
            ..traffic_on(&server, 1.0)
        };
        assert_eq!(run(&traffic).ok, 40);
        assert_eq!(*SEEN.lock().unwrap(), sources.iter().copied().collect());
    }
}
