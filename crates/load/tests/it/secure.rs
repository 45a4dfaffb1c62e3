//! HTTPS with a self-signed certificate.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use load::exchange::Exchange;
use load::expect::Expect;
use load::run;
use load::tls::{Tls, Trust};
use load::traffic::{End, EngineChoice, Mix, Traffic};
use record::load::{Fault, LoadResult};
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::{HandshakeKind, ServerConfig, ServerConnection, Stream};

/// Larger than a TLS record.
const LENGTH: usize = 40_000;

struct Secure {
    address: SocketAddr,
    root: Vec<u8>,
    resumed: Arc<AtomicU64>,
}

/// What the server does with a connection after the last response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Afterwards {
    Closed,
    LeftOpen,
}

fn serve() -> Secure {
    serve_then(Afterwards::Closed)
}

fn serve_then(afterwards: Afterwards) -> Secure {
    let made = rcgen::generate_simple_self_signed(["bake.test".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let resumed = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&resumed);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (config, counter) = (Arc::clone(&config), Arc::clone(&counter));
            std::thread::spawn(move || converse(stream.unwrap(), config, &counter, afterwards));
        }
    });
    let root = made.cert.der().to_vec();
    Secure {
        address,
        root,
        resumed,
    }
}

fn converse(
    mut socket: TcpStream,
    config: Arc<ServerConfig>,
    resumed: &AtomicU64,
    afterwards: Afterwards,
) {
    let mut session = ServerConnection::new(config).unwrap();
    let mut stream = Stream::new(&mut session, &mut socket);
    let body = body();
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    let mut is_first = true;
    while let Ok(length) = stream.read(&mut buffer)
        && length > 0
    {
        seen.extend_from_slice(&buffer[..length]);
        if !seen.ends_with(b"\r\n\r\n") {
            continue;
        }
        if is_first && stream.conn.handshake_kind() == Some(HandshakeKind::Resumed) {
            resumed.fetch_add(1, Ordering::SeqCst);
        }
        is_first = false;
        let is_last = seen.windows(5).any(|word| word == b"close");
        seen.clear();
        let connection = if is_last { "Connection: close\r\n" } else { "" };
        let head = format!("HTTP/1.1 200 OK\r\n{connection}Content-Length: {LENGTH}\r\n\r\n");
        if stream
            .write_all(&[head.as_bytes(), &body].concat())
            .is_err()
            || is_last
        {
            break;
        }
    }
    if afterwards == Afterwards::LeftOpen {
        let _ = stream.read(&mut buffer);
    }
    stream.conn.send_close_notify();
    let _ = stream.flush();
}

fn body() -> Vec<u8> {
    (0..LENGTH).map(|index| (index % 251) as u8).collect()
}

fn run(server: &Secure, keep_alive: bool, tls: Tls) -> LoadResult {
    let mix = Mix::Round(vec![Exchange::get("/page", Expect::body(body()))]);
    let traffic = Traffic {
        host: "bake.test".into(),
        tls: Some(tls),
        connections: 2,
        keep_alive,
        end: End::Count(12),
        seed: 7,
        engine: EngineChoice::Fastest,
        ..Traffic::plain(server.address, mix)
    };
    run::run(&traffic, &AtomicBool::new(false), &mut |_| {}).unwrap()
}

fn tls(server: &Secure, name: &str, resumption: bool) -> Tls {
    Tls {
        name: name.into(),
        trust: Trust::Roots(vec![server.root.clone()]),
        resumption,
    }
}

#[test]
fn encrypted_responses_are_checked() {
    let server = serve();
    let result = run(&server, true, tls(&server, "bake.test", true));
    assert_eq!(
        (result.ok, result.connections_opened),
        (12, 2),
        "{result:?}"
    );
    assert_eq!(result.body_bytes, 12 * LENGTH as u64);
    assert_eq!(
        (result.engine.as_str(), result.engine_note.as_str()),
        ("epoll", "TLS goes through epoll")
    );
}

#[test]
fn sessions_are_resumed_only_if_configured() {
    for (resumption, expected) in [(false, 0), (true, 10)] {
        let server = serve();
        let result = run(&server, false, tls(&server, "bake.test", resumption));
        assert_eq!(
            (result.ok, result.connections_opened),
            (12, 12),
            "{result:?}"
        );
        assert_eq!(server.resumed.load(Ordering::SeqCst), expected);
    }
}

#[test]
fn a_certificate_for_another_name_fails_the_connection() {
    let server = serve();
    let result = run(&server, true, tls(&server, "other.test", true));
    assert_eq!(result.faults, BTreeMap::from([(Fault::ConnectFailed, 12)]));
    let trusting = Tls {
        trust: Trust::Any,
        ..tls(&server, "other.test", true)
    };
    assert_eq!(run(&server, true, trusting).ok, 12);
}

// envoyproxy/envoy#5788
#[test]
fn clients_do_not_wait_for_a_server_to_close_a_finished_encrypted_connection() {
    let server = serve_then(Afterwards::LeftOpen);
    // Two clients that wait 100 ms five times take half a second. On a busy machine one run may
    // take as long, but not five.
    let is_quick = (0..5).any(|_| {
        let result = run(&server, false, tls(&server, "bake.test", true));
        assert_eq!(
            (result.ok, result.connections_opened),
            (12, 12),
            "{result:?}"
        );
        result.window_ns < 480_000_000
    });
    assert!(is_quick);
}
