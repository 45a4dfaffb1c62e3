//! `bakeoff watch --web` over real sockets: responses and events. Tests check counts and order, not
//! times.

use std::cell::Cell;
use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::iter;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::thread;
use std::time::Duration;

use bakeoff::lab::Finish;
use bakeoff::watch::web::{Guard, Patience, Server};
use record::fixtures::web::HOSTILE;
use record::night::{NIGHT, Night, NightPlan, VERSION};
use serde_json::Value;

use crate::load_hosts::write_secret;
use crate::program::{bakeoff, refusal, stdout};
use crate::simulated_lab::World;
use crate::watched_runs::{append, callbacks, copy, cut_journal, journal, last_block};

/// So long that only a response that never comes runs into it.
const TIME_LIMIT: Duration = Duration::from_secs(120);

fn patience() -> Patience {
    Patience {
        request: TIME_LIMIT,
        answer: TIME_LIMIT,
    }
}

/// Starts a server that runs until the test's process ends.
pub(crate) fn serve(dir: &Path, guard: Guard, patience: Patience) -> SocketAddr {
    let any = "127.0.0.1:0".parse().unwrap();
    let server = Server::listen(dir, any, guard, callbacks(), patience).unwrap();
    let address = server.address().unwrap();
    thread::spawn(move || server.run());
    address
}

fn serve_openly(dir: &Path) -> SocketAddr {
    serve(dir, Guard::new(None, &[]).unwrap(), patience())
}

struct Response {
    status: u16,
    head: String,
    body: String,
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    stream
}

fn send(address: SocketAddr, request: &str) -> Response {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("no head: {text:?}"));
    Response {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.into(),
        body: body.into(),
    }
}

fn get_with(address: SocketAddr, path: &str, fields: &str) -> Response {
    send(
        address,
        &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{fields}\r\n"),
    )
}

fn get(address: SocketAddr, path: &str) -> Response {
    get_with(address, path, "")
}

#[test]
fn runs_have_a_list_and_pages() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["real", "failed"] {
        copy(name, &dir.path().join(name));
    }
    let address = serve_openly(dir.path());
    let list = get(address, "/");
    assert_eq!(list.status, 200);
    for part in [
        "href=\"run/real/\"",
        "href=\"run/failed/\"",
        "data-events=\"/events\"",
    ] {
        assert!(list.body.contains(part), "{part} in {}", list.body);
    }
    for field in [
        "content-security-policy: default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
    ] {
        assert!(
            list.head.to_lowercase().contains(field),
            "{field} in {}",
            list.head
        );
    }
    let page = get(address, "/run/real/");
    assert_eq!(page.status, 200);
    assert!(page.body.contains("capacity -3.48\u{a0}%"));
    // Its windows have one second each.
    for chart in [
        "<h3>Block by block</h3>",
        "<h3>Estimate after each block</h3>",
    ] {
        assert!(page.body.contains(chart), "{chart}");
    }
    let redirect = get(address, "/run/real");
    assert_eq!(redirect.status, 308);
    assert!(redirect.head.contains("Location: /run/real/"));
}

/// A directory of a night with three plans: one not begun, one complete, one failed before it
/// began.
fn night() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    copy("real", &dir.path().join("real"));
    let plan = |name: &str, failure: Option<&str>| NightPlan {
        name: name.into(),
        planned: 1,
        failure: failure.map(String::from),
    };
    let night = Night {
        version: VERSION,
        begun: String::new(),
        plans: vec![
            plan("later", None),
            plan("real", None),
            plan("lost", Some("no such kernel: <b>")),
        ],
    };
    let text = serde_json::to_string(&night).unwrap();
    fs::write(dir.path().join(NIGHT), text).unwrap();
    dir
}

#[test]
fn a_night_lists_its_plans_with_their_state_and_serves_its_index() {
    let dir = night();
    let address = serve_openly(dir.path());
    let list = get(address, "/").body;
    let plans = [
        "3 plans",
        "<li>later: not begun</li>",
        "<li><a href=\"run/real/\">real</a>: ",
        "<li>lost: failed: no such kernel: &lt;b&gt;</li>",
    ];
    let places = plans.map(|part| {
        let place = list.find(part);
        place.unwrap_or_else(|| panic!("{part} in {list}"))
    });
    assert!(places.is_sorted(), "{places:?}");
    assert!(!list.contains("index.html"), "{list}");
    assert_eq!(get(address, "/index.html").status, 404);
    fs::write(dir.path().join("index.html"), "what all come to").unwrap();
    let index = get(address, "/index.html");
    assert_eq!((index.status, &*index.body), (200, "what all come to"));
    let report = get(address, "/real/report.html");
    assert_eq!(report.status, 308);
    assert!(
        report.head.contains("Location: /run/real/report.html"),
        "{}",
        report.head
    );
    assert_eq!(get(address, "/later/report.html").status, 404);
    // Without the night's file, it is a directory like any other.
    fs::remove_file(dir.path().join(NIGHT)).unwrap();
    assert_eq!(get(address, "/index.html").status, 404);
}

#[test]
fn watch_prints_the_state_of_the_plans_of_a_night() {
    let dir = night();
    let output = bakeoff(dir.path(), &["watch", dir.path().to_str().unwrap()]);
    let text = stdout(&output);
    let lines: Vec<&str> = text.lines().collect();
    assert!(output.status.success(), "{text}");
    assert_eq!(lines.len(), 3, "{text}");
    assert_eq!(lines[0], "later: not begun");
    assert!(lines[1].starts_with("real: ") && lines[1].contains(" of at most "));
    assert_eq!(lines[2], "lost: failed: no such kernel: <b>");
    fs::write(dir.path().join(NIGHT), "{").unwrap();
    let error = refusal(&bakeoff(
        dir.path(),
        &["watch", dir.path().to_str().unwrap()],
    ));
    assert!(error.contains("damaged: "), "{error}");
}

#[test]
fn no_other_files_are_served() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["real", "failed"] {
        copy(name, &dir.path().join(name));
    }
    fs::write(dir.path().join("secret"), "nobody's").unwrap();
    let address = serve_openly(dir.path());
    for path in [
        "/run/none/",
        "/run/none/events",
        "/secret",
        "/run/real/plan.toml",
        "/run/real/report.html",
        "/run/../secret",
        "/run/%2e%2e/",
        "/run/..%2fsecret/",
        "/run/real/../../secret",
        "/run/real%2f..%2ffailed/",
        "/run/%ff/",
        "/run//",
        "//",
    ] {
        let response = get(address, path);
        assert_eq!(response.status, 404, "{path}");
        assert!(!response.body.contains("nobody's"), "{path}");
    }
    symlink(
        dir.path().join("secret"),
        dir.path().join("real/report.html"),
    )
    .unwrap();
    assert_eq!(
        get(address, "/run/real/report.html").status,
        404,
        "a link leads elsewhere"
    );
    fs::remove_file(dir.path().join("real/report.html")).unwrap();
    fs::write(dir.path().join("real/report.html"), "<p>the report</p>").unwrap();
    let report = get(address, "/run/real/report.html");
    assert_eq!((report.status, &*report.body), (200, "<p>the report</p>"));
    assert!(
        report.head.contains("default-src 'none'"),
        "{}",
        report.head
    );
}

#[test]
fn invalid_requests_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    copy("real", &dir.path().join("real"));
    let address = serve_openly(dir.path());
    let head = send(
        address,
        &format!("HEAD / HTTP/1.1\r\nHost: {address}\r\n\r\n"),
    );
    assert_eq!((head.status, &*head.body), (200, ""));
    let post = send(
        address,
        &format!("POST / HTTP/1.1\r\nHost: {address}\r\nContent-Length: 3\r\n\r\na=b"),
    );
    assert_eq!(post.status, 405);
    assert!(post.head.contains("Allow: GET, HEAD"));
    let long = "x".repeat(20_000);
    for (request, status) in [
        ("nonsense\r\n\r\n".into(), 400),
        (
            format!("GET http://{address}/ HTTP/1.1\r\nHost: {address}\r\n\r\n"),
            400,
        ),
        (
            format!("GET / HTTP/1.1\r\nHost: {address}\r\nHost: {address}\r\n\r\n"),
            400,
        ),
        (
            format!("GET / HTTP/1.1\r\nHost: {address}\r\nA: {long}\r\n\r\n"),
            431,
        ),
        ("GET / HTTP/1.1\r\n\r\n".into(), 421),
        ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n".into(), 421),
        ("GET / HTTP/1.1\r\nHost: localhost:9\r\n\r\n".into(), 200),
    ] {
        assert_eq!(
            send(address, &request).status,
            status,
            "{}",
            request.get(..60).unwrap_or(&request)
        );
    }
}

#[test]
fn markup_in_names_is_escaped() {
    let dir = tempfile::tempdir().unwrap();
    let name = "<b>&\"'%41";
    let run = dir.path().join(name);
    copy("real", &run);
    let plan = fs::read_to_string(run.join("plan.toml")).unwrap();
    let title = plan.lines().find(|line| line.starts_with("title")).unwrap();
    let hostile = format!(
        "title = {}",
        serde_json::to_string(&format!("{HOSTILE}\u{202e}")).unwrap()
    );
    fs::write(run.join("plan.toml"), plan.replace(title, &hostile)).unwrap();
    append(&run.join("journal.jsonl"), "<script>alert(2)</script>\n");
    let address = serve_openly(dir.path());
    for path in ["/", "/run/%3Cb%3E%26%22%27%2541/"] {
        let page = get(address, path);
        assert_eq!(page.status, 200);
        assert!(
            page.body.contains("&lt;script&gt;alert(1)&lt;/script&gt;"),
            "{}",
            page.body
        );
        assert!(!page.body.contains("<script>alert") && !page.body.contains("<b>&"));
        assert!(page.body.contains("\\u{202e}") && !page.body.contains('\u{202e}'));
        assert_eq!(page.body.matches("<script").count(), 1, "its own");
    }
}

#[test]
fn a_token_is_required_and_is_in_no_page() {
    const TOKEN: &str = "a-token-of-two-dozen-letters";
    let dir = tempfile::tempdir().unwrap();
    copy("real", &dir.path().join("real"));
    let guard = Guard::new(Some(TOKEN), &["box.example".into()]).unwrap();
    let address = serve(dir.path(), guard, patience());
    for path in [
        "/",
        "/events",
        "/run/real/",
        "/run/none/",
        "/?token=wrong",
        "/?token=",
    ] {
        let response = get(address, path);
        assert_eq!(response.status, 401, "{path}");
        assert!(response.head.contains("Www-Authenticate: Bearer"));
        assert!(!response.body.contains("Static web"));
    }
    let welcome = get(address, &format!("/run/real/?token={TOKEN}"));
    assert_eq!(welcome.status, 303);
    assert!(
        welcome.head.contains("Location: /run/real/\r\n"),
        "{}",
        welcome.head
    );
    let cookie = welcome
        .head
        .lines()
        .find_map(|line| line.strip_prefix("Set-Cookie: "))
        .unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"));
    let pair = cookie.split(';').next().unwrap();
    let page = get_with(address, "/run/real/", &format!("Cookie: {pair}\r\n"));
    assert_eq!(page.status, 200);
    assert!(!page.body.contains(TOKEN) && !page.head.contains(TOKEN));
    let bearer = get_with(address, "/", &format!("Authorization: Bearer {TOKEN}\r\n"));
    assert_eq!(bearer.status, 200);
    let named = format!("GET / HTTP/1.1\r\nHost: box.example\r\nCookie: {pair}\r\n\r\n");
    assert_eq!(send(address, &named).status, 200);
}

/// Reads events of a page until a part contains a text; returns the number of events.
fn wait_for(events: &mut impl Iterator<Item = String>, part: &str, text: &str) -> usize {
    let mut count = 0;
    for line in events {
        let Some(data) = line.strip_prefix("data: ") else {
            continue;
        };
        count += 1;
        let parts: Value = serde_json::from_str(data).unwrap();
        if parts[part].as_str().is_some_and(|html| html.contains(text)) {
            return count;
        }
    }
    panic!("no event with {text:?} in {part}");
}

#[test]
fn changes_are_sent_as_events_and_a_run_may_disappear() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["real", "failed"] {
        copy(name, &dir.path().join(name));
    }
    let path = dir.path().join("real");
    let lines = journal(&path);
    let begun = last_block(&lines);
    cut_journal(&path, &lines[..begun]);
    let address = serve_openly(dir.path());
    let mut stream = connect(address);
    write!(
        stream,
        "GET /run/real/events HTTP/1.1\r\nHost: {address}\r\n\r\n"
    )
    .unwrap();
    let mut events = BufReader::new(stream).lines().map_while(Result::ok);
    assert_eq!(
        wait_for(&mut events, "verdict", "undecided"),
        1,
        "the first has all parts"
    );
    for line in &lines[begun..] {
        append(&path.join("journal.jsonl"), &format!("{line}\n"));
    }
    wait_for(&mut events, "verdict", "capacity -3.48\u{a0}%");
    fs::write(path.join("report.html"), "<p>here</p>").unwrap();
    wait_for(&mut events, "top", "report.html");
    fs::remove_dir_all(&path).unwrap();
    wait_for(&mut events, "top", "gone");
    assert_eq!(get(address, "/run/failed/").status, 200);
    assert!(!get(address, "/").body.contains("run/real/"));
    // Observers of the list get events too.
    let mut stream = connect(address);
    write!(stream, "GET /events HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut events = BufReader::new(stream).lines().map_while(Result::ok);
    assert_eq!(wait_for(&mut events, "runs", "run/failed/"), 1);
    copy("worse", &dir.path().join("worse"));
    wait_for(&mut events, "runs", "run/worse/");
    fs::remove_dir_all(dir.path()).unwrap();
    wait_for(&mut events, "runs", "no such directory");
}

#[test]
fn a_client_that_never_finishes_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let patience = Patience {
        request: Duration::from_millis(200),
        answer: TIME_LIMIT,
    };
    let address = serve(dir.path(), Guard::new(None, &[]).unwrap(), patience);
    for part in ["", "GET / HTTP/1.1\r\n"] {
        let mut stream = connect(address);
        stream.write_all(part.as_bytes()).unwrap();
        // The connection ends without a response.
        let mut rest = Vec::new();
        let read = stream.read_to_end(&mut rest);
        assert!(read.is_ok() && rest.is_empty(), "{read:?} {rest:?}");
    }
}

#[test]
fn a_client_that_does_not_take_its_answer_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    copy("real", &dir.path().join("real"));
    let report = fs::File::create(dir.path().join("real/report.html")).unwrap();
    let more_than_sockets_hold = 48 << 20;
    report.set_len(more_than_sockets_hold).unwrap();
    let patience = Patience {
        request: TIME_LIMIT,
        answer: Duration::from_millis(200),
    };
    let address = serve(dir.path(), Guard::new(None, &[]).unwrap(), patience);
    let mut stream = connect(address);
    stream.set_write_timeout(Some(TIME_LIMIT)).unwrap();
    let request = format!("GET /run/real/report.html HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    // The server does not read this, so it waits until the connection ends.
    let more = vec![0; 1 << 20];
    let error = iter::repeat_with(|| stream.write_all(&more)).find_map(Result::err);
    let kind = error.unwrap().kind();
    assert!(
        matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
        "{kind}"
    );
}

#[test]
fn connections_without_the_token_do_not_block_others() {
    const TOKEN: &str = "a-token-of-two-dozen-letters";
    let dir = tempfile::tempdir().unwrap();
    let address = serve(
        dir.path(),
        Guard::new(Some(TOKEN), &[]).unwrap(),
        patience(),
    );
    let mut waiting: Vec<TcpStream> = (0..64).map(|_| connect(address)).collect();
    // Connections are accepted in order, so this is the last one. It gets a response, and the first
    // of the others is closed for it.
    let bearer = get_with(address, "/", &format!("Authorization: Bearer {TOKEN}\r\n"));
    assert_eq!(bearer.status, 200);
    let mut rest = Vec::new();
    let read = waiting.remove(0).read_to_end(&mut rest);
    assert!(read.is_err() || rest.is_empty());
    // The others may still send requests.
    for stream in &mut waiting {
        write!(stream, "GET / HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 401 "), "{response}");
    }
}

#[test]
fn a_token_redirects_to_no_other_host_and_reports_are_sandboxed() {
    const TOKEN: &str = "a-token-of-two-dozen-letters";
    let dir = tempfile::tempdir().unwrap();
    copy("real", &dir.path().join("real"));
    let page = "<meta http-equiv=refresh content='0;url=http://evil.example/'>";
    fs::write(dir.path().join("real/report.html"), page).unwrap();
    let address = serve(
        dir.path(),
        Guard::new(Some(TOKEN), &[]).unwrap(),
        patience(),
    );
    let welcome = get(address, &format!("//evil.example/?token={TOKEN}"));
    assert!(
        welcome.head.contains("Location: /evil.example/\r\n"),
        "{}",
        welcome.head
    );
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    let report = get_with(address, "/run/real/report.html", &bearer);
    assert_eq!(report.status, 200);
    assert!(
        report
            .head
            .contains("Content-Security-Policy: sandbox; default-src 'none'; "),
        "{}",
        report.head
    );
    // With `allow-scripts`, a browser would also follow the refresh.
    assert!(!report.head.contains("allow-scripts"));
}

#[test]
fn invalid_options_of_serve_end_with_one_message_and_status_2() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("runs")).unwrap();
    fs::write(dir.path().join("file"), "0123456789abcdef0").unwrap();
    write_secret(&dir.path().join("short"), "0123");
    write_secret(&dir.path().join("blank"), "0123456789 abcdef");
    fs::write(dir.path().join("open"), "0123456789abcdef").unwrap();
    let mode = fs::Permissions::from_mode(0o666);
    fs::set_permissions(dir.path().join("open"), mode).unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().to_string();
    let refused = |args: &[&str]| {
        let output = bakeoff(dir.path(), &[&["watch", "--web"], args].concat());
        assert_eq!(stdout(&output), "", "{args:?}");
        refusal(&output)
    };
    let check = |args: &[&str], want: &str| {
        let error = refused(args);
        assert!(error.starts_with(&format!("bakeoff: {want}")), "{error}");
    };
    check(
        &["--listen", &port],
        &format!(
            "cannot listen: {port} (name another address with --listen): Address already in use"
        ),
    );
    check(
        &["--listen", "192.0.2.1:8990"],
        "cannot listen: 192.0.2.1:8990 (name another address with --listen): Cannot assign requested address",
    );
    check(&["absent"], "no such directory: absent\n");
    check(&["file"], "cannot list runs: file: Not a directory");
    check(
        &["--token-file", "absent"],
        "--token-file: cannot read absent: ",
    );
    check(
        &["--token-file", "short"],
        "--token-file: secret too short: 4 characters in short ",
    );
    check(
        &["--token-file", "blank"],
        "token with characters that an address cannot have: blank ",
    );
    check(
        &["--token-file", "open"],
        "--token-file: secret that others can read or write: open has mode 0666 (make a new one, and chmod 600 open)",
    );
    assert!(
        refused(&["--listen", "somewhere"]).contains("invalid value 'somewhere' for '--listen")
    );
}

#[test]
fn serving_pages_does_not_change_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let journals = ["alone", "served"].map(|name| {
        let world = World::new(1.02, 0.005, &[]);
        let path = dir.path().join(name);
        let address = (name == "served").then(|| serve_openly(dir.path()));
        // The page is requested after each entry of the running run, and an observer stays
        // connected.
        let observer = address.map(|address| {
            let mut stream = connect(address);
            write!(stream, "GET /events HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
            stream
        });
        let requests = Cell::new(0);
        let request_page = |_| {
            if let Some(address) = address {
                let page = get(address, &format!("/run/{name}/"));
                assert_eq!(page.status, 200);
                requests.set(requests.get() + 1);
            }
            false
        };
        let finish = world.run(&path, request_page).unwrap();
        assert_eq!(finish, Finish::Complete);
        assert_eq!(address.is_some(), requests.get() > 8, "{}", requests.get());
        drop(observer);
        journal(&path)
    });
    let [alone, served] = journals;
    assert_eq!(alone, served);
}
