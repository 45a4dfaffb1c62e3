//! A request allocates nothing: a load with many more requests allocates as often. A second costs a
//! few allocations, outside the client threads.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use load::exchange::Exchange;
use load::expect::Expect;
use load::run;
use load::traffic::{End, EngineChoice, Mix, Traffic};

/// Counts allocations, except those of the test's servers.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static IS_SERVER: Cell<bool> = const { Cell::new(false) };
}

#[expect(
    unsafe_code,
    reason = "an allocator is unsafe; this one forwards all calls"
)]
// SAFETY: every call is forwarded unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !IS_SERVER.get() {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations to report a second and pack its histogram.
const PER_SECOND: u64 = 100;

const BODY: &[u8] = b"twenty bytes of text";

/// Runs `count` requests. Returns the number of seconds, including partial ones, and of
/// allocations.
fn run(server: SocketAddr, engine: EngineChoice, count: u64) -> (u64, u64) {
    let page = Exchange::get("/page", Expect::body(BODY));
    let traffic = Traffic {
        connections: 8,
        engine,
        end: End::Count(count),
        ..Traffic::plain(server, Mix::Round(vec![page]))
    };
    let before = ALLOCATIONS.load(Ordering::SeqCst);
    let result =
        run::run(&traffic, &AtomicBool::new(false), &mut |_| {}).expect("the load is valid");
    let after = ALLOCATIONS.load(Ordering::SeqCst);
    assert_eq!((result.ok, result.planned), (count, count));
    (result.timeline.len() as u64, after - before)
}

/// Serves one connection. Each read contains one request.
fn serve(mut stream: TcpStream) {
    IS_SERVER.set(true);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", BODY.len());
    let answer = [head.as_bytes(), BODY].concat();
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer).is_ok_and(|length| length > 0) {
        if stream.write_all(&answer).is_err() {
            return;
        }
    }
}

#[test]
fn requests_allocate_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        IS_SERVER.set(true);
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            std::thread::spawn(move || serve(stream));
        }
    });
    for engine in [EngineChoice::Fastest, EngineChoice::Epoll] {
        let (few_s, base) = run(server, engine, 1000);
        let (many_s, allocations) = run(server, engine, 20_000);
        // How often a histogram grows depends on the range of latencies, not on their number.
        let most = base + (1 + many_s.saturating_sub(few_s)) * PER_SECOND;
        assert!(
            allocations <= most,
            "{engine:?}: {allocations} allocations in {many_s} s, {base} with fewer requests in {few_s} s"
        );
    }
}
