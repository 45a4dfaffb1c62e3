//! Nothing is allocated for a request: a load of ten times the requests allocates as often. A
//! second costs a few allocations, beside the threads that send.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use load::exchange::Exchange;
use load::expect::Expect;
use load::run;
use load::traffic::{End, EngineChoice, Mix, Traffic};

/// Counts what client threads allocate; the servers of this test do not matter.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static IS_SERVER: Cell<bool> = const { Cell::new(false) };
}

#[expect(
    unsafe_code,
    reason = "an allocator is unsafe by its nature; this one hands all on"
)]
// SAFETY: every call is handed on unchanged to the system's allocator.
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

/// To tell of a second and to pack its histogram away.
const PER_SECOND: u64 = 100;

const BODY: &[u8] = b"twenty bytes of text";

/// Runs so many requests; the seconds that it took, begun ones included, and the allocations.
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

/// Serves one connection; one read is one request here.
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
        // How often a second's histogram grows is a matter of how far apart latencies lie, not of how many there are.
        let most = base + (1 + many_s.saturating_sub(few_s)) * PER_SECOND;
        assert!(
            allocations <= most,
            "{engine:?}: {allocations} allocations in {many_s} s, {base} with fewer requests in {few_s} s"
        );
    }
}
