//! Sessions: order of pages, cookies, forms, and a new connection for each visitor.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use load::expect::Expect;
use load::run;
use load::script::Script;
use load::traffic::{End, EngineChoice, Mix, Traffic};

use crate::server::{PATIENCE, Server, respond_and_stay, wait_for_request};

/// Requests of each connection, one line each.
static SEEN: Mutex<Vec<Vec<String>>> = Mutex::new(Vec::new());

/// A shop that recognises visitors by a cookie and rejects forms without one.
fn serve_shop(mut stream: TcpStream) {
    let visitor = {
        let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
        seen.push(Vec::new());
        seen.len() - 1
    };
    let mut buffer = [0; 4096];
    while let Ok(length) = stream.read(&mut buffer)
        && length > 0
    {
        let request = String::from_utf8(buffer[..length].to_vec()).unwrap();
        let (head, form) = request.split_once("\r\n\r\n").unwrap();
        let first = head.lines().next().unwrap().trim_end_matches(" HTTP/1.1");
        let is_known = head.contains(&format!("\r\nCookie: visitor={visitor}"));
        SEEN.lock().unwrap()[visitor].push(format!("{first} {form} known: {is_known}"));
        let status = if first.starts_with("POST") && !is_known {
            "403 No"
        } else {
            "200 OK"
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\nSet-Cookie: visitor={visitor}; Path=/\r\nContent-Length: 4\r\n\r\nshop"
        );
        stream.write_all(answer.as_bytes()).unwrap();
    }
}

fn traffic_on(server: &Server, script: Script) -> Traffic {
    Traffic {
        host: "test".into(),
        deadline: PATIENCE,
        end: End::Count(8),
        seed: 7,
        engine: EngineChoice::Fastest,
        ..Traffic::plain(server.address, Mix::Sessions(script))
    }
}

#[test]
fn visitors_follow_each_other_with_separate_cookies() {
    let server = Server::start(serve_shop);
    let text = "visit /\nfetch /a.png /b.png\nthink 10ms to 20ms\npost /buy item=7&count=1\n";
    let mut script = Script::read("shop.txt", text).unwrap();
    for path in ["/", "/a.png", "/b.png", "/buy"] {
        script.expect(path, &Expect::body(*b"shop"));
    }
    let traffic = traffic_on(&server, script);
    let result = run::run(&traffic, &AtomicBool::new(false), &mut |_| {}).unwrap();
    assert_eq!(
        (result.ok, result.sessions, result.connections_opened),
        (8, 2, 2),
        "{result:?}"
    );
    assert!(result.window_ns > 20_000_000, "no think time");
    let visit = [
        "GET /  known: false",
        "GET /a.png  known: true",
        "GET /b.png  known: true",
        "POST /buy item=7&count=1 known: true",
    ];
    assert_eq!(*SEEN.lock().unwrap(), [visit, visit]);
    assert_eq!(server.stop(), 2);
}

// envoyproxy/envoy#5788
#[test]
fn visitors_do_not_wait_for_a_server_that_leaves_connections_open() {
    let server = Server::start(|mut stream| {
        wait_for_request(&mut stream);
        let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        respond_and_stay(&mut stream, head.as_bytes());
    });
    let script = Script::read("shop.txt", "visit /\nfetch /a /b\n").unwrap();
    let traffic = Traffic {
        end: End::Count(30),
        ..traffic_on(&server, script)
    };
    let result = run::run(&traffic, &AtomicBool::new(false), &mut |_| {}).unwrap();
    assert_eq!(
        (result.ok, result.connections_opened),
        (30, 30),
        "{result:?}"
    );
    // Twenty waits of 100 ms would take 2 s. A visitor who leaves does not wait.
    assert!(result.window_ns < 1_500_000_000, "{result:?}");
}

/// All posts that the server received.
static POSTED: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn a_form_without_fields_has_a_length_of_0() {
    let server = Server::start(|mut stream| {
        let mut buffer = [0; 4096];
        while let Ok(length) = stream.read(&mut buffer)
            && length > 0
        {
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            POSTED.lock().unwrap().push(text);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let script = Script::read("shop.txt", "visit /\npost /buy\n").unwrap();
    let traffic = Traffic {
        end: End::Count(2),
        ..traffic_on(&server, script)
    };
    let result = run::run(&traffic, &AtomicBool::new(false), &mut |_| {}).unwrap();
    assert_eq!(result.ok, 2, "{result:?}");
    let seen = POSTED.lock().unwrap();
    assert!(!seen[0].contains("Content-Length"), "{}", seen[0]);
    assert!(seen[1].contains("\r\nContent-Length: 0\r\n"), "{}", seen[1]);
}
