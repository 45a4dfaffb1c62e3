//! A live page of a real run in a real browser. The curve grows and the verdict appears without a
//! reload. The console has no messages, the page contacts no other server, and it fits a phone.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use bakeoff::watch::web::{Guard, Patience};
use serde_json::{Value, json};

use crate::limits::respond_slowly;
use crate::program::{KillOnDrop, command};
use crate::served_pages::serve;

/// Names under which Debian and others install Chromium.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// No state of the user's browser, and no connection beyond this machine.
const FLAGS: &str = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
    --disable-component-update --disable-sync --disable-extensions --remote-debugging-pipe \
    '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'";

/// Maximum number of polls.
const MAX_POLLS: u32 = 1200;

/// Time between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let browser = BROWSERS.iter().find_map(|name| {
        let mut files = dirs.iter().map(|dir| dir.join(name));
        files.find(|file| file.is_file())
    });
    if browser.is_none() {
        base::skip::skip("no browser to open the report in: apt install chromium");
    }
    browser
}

/// A browser that is controlled through two pipes by the `DevTools` protocol; each message ends
/// with a zero byte.
struct Browser {
    child: Child,
    to: File,
    from: BufReader<File>,
    number: u64,
    session: Option<String>,
    /// Events that arrived: console messages, requests.
    events: Vec<Value>,
}

impl Browser {
    fn start(program: &Path, dir: &Path) -> Self {
        let pipes = ["to", "from"].map(|name| dir.join(name));
        let mkfifo = Command::new("mkfifo").args(&pipes).status();
        assert!(mkfifo.unwrap().success());
        // The browser reads descriptor 3 and writes 4. Opening a FIFO for both directions does not
        // block.
        let script = format!(
            "exec \"$0\" {FLAGS} --user-data-dir=\"$1/profile\" about:blank 3<>\"$1/to\" 4<>\"$1/from\""
        );
        let child = Command::new("sh")
            .args(["-c", &script])
            .args([program, dir])
            // Its temporary files are removed with the directory.
            .env("TMPDIR", dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let open = |path: &PathBuf| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .open(path)
                .unwrap()
        };
        let mut browser = Self {
            child,
            to: open(&pipes[0]),
            from: BufReader::new(open(&pipes[1])),
            number: 0,
            session: None,
            events: Vec::new(),
        };
        let page = browser.ask("Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": page["targetId"], "flatten": true });
        let attached = browser.ask("Target.attachToTarget", &attach);
        browser.session = attached["sessionId"].as_str().map(String::from);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.ask(&format!("{domain}.enable"), &json!({}));
        }
        browser
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.number += 1;
        let mut message = json!({ "id": self.number, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to
            .write_all(format!("{message}\0").as_bytes())
            .unwrap();
        loop {
            let mut bytes = Vec::new();
            self.from.read_until(0, &mut bytes).unwrap();
            assert_eq!(bytes.pop(), Some(0), "the browser is gone");
            let answer: Value = serde_json::from_slice(&bytes).unwrap();
            if answer["id"] == self.number {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    fn go_to(&mut self, address: &str) {
        self.ask("Page.navigate", &json!({ "url": address }));
    }

    /// Evaluates an expression in the page.
    fn value(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true });
        let answer = self.ask("Runtime.evaluate", &params);
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].clone()
    }

    /// Polls until an expression is true.
    #[track_caller]
    fn wait(&mut self, expression: &str) {
        for _ in 0..MAX_POLLS {
            if self.value(expression) == json!(true) {
                return;
            }
            thread::sleep(POLL_INTERVAL);
        }
        let text = self.value("document.body.innerText");
        panic!("never true: {expression}\n{text}");
    }

    fn set_width(&mut self, width: u32) {
        let size = json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": true });
        self.ask("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Elements of the page that are wider than the window.
    fn too_wide(&mut self) -> Value {
        self.value(
            "[document.documentElement, ...document.querySelectorAll('main, main > div, section, dl, .drawing')]
                .filter(element => element.scrollWidth > document.documentElement.clientWidth)
                .map(element => `${element.tagName} ${element.id} ${element.scrollWidth}`).join()",
        )
    }

    /// Console messages, and requests to other servers.
    fn complaints(&self, server: SocketAddr) -> Vec<String> {
        let root = format!("http://{server}/");
        let mut complaints = Vec::new();
        for event in &self.events {
            match event["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" | "Log.entryAdded" | "Runtime.consoleAPICalled" => {
                    complaints.push(event.to_string());
                }
                "Network.requestWillBeSent" => {
                    let url = event["params"]["request"]["url"].as_str().unwrap();
                    let is_local =
                        url.starts_with(&root) || url.starts_with("data:") || url == "about:blank";
                    if !is_local {
                        complaints.push(url.to_owned());
                    }
                }
                _ => {}
            }
        }
        complaints
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ask it to close: after a kill, its processes could still write into the directory while
        // it is removed.
        let _ = self
            .to
            .write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        for _ in 0..MAX_POLLS {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(POLL_INTERVAL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server with this pause before each response; it runs until the test's process ends.
fn slow_server(pause: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || respond_slowly(&stream.unwrap(), pause, None));
        }
    });
    address
}

/// A plan of two systems, one three times as slow as the other.
fn plan() -> String {
    let [fast, slow] = [5, 15].map(|ms| slow_server(Duration::from_millis(ms)));
    format!(
        "title = \"a fast and a slow system\"\nbaseline = \"fast\"\n[machine]\nkind = \"url\"\none_client_fewer = false\n[arm.fast]\nurl = \"http://{fast}\"\n\
         [arm.slow]\nurl = \"http://{slow}\"\n[[workload]]\nkind = \"http\"\nconnections = 2\nwarmup = \"1s\"\nwindow = \"5s\"\n\
         paths = [\"/\"]\n[design]\nerror_rate = 0.2\nmin_blocks = 2\nmax_blocks = 2\ndisturbed_blocks = \"keep\"\nseed = 1\n"
    )
}

#[test]
fn a_page_follows_a_real_run() {
    let Some(program) = browser() else { return };
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("runs")).unwrap();
    let server = serve(
        &dir.path().join("runs"),
        Guard::new(None, &[]).unwrap(),
        Patience::default(),
    );
    let mut browser = Browser::start(&program, dir.path());
    browser.set_width(1000);
    browser.go_to(&format!("http://{server}/"));
    browser.wait("document.body?.innerText.includes('No run is here yet') === true");
    browser.value("window.mark = 'the page as it was loaded'");
    fs::write(dir.path().join("plan.toml"), plan()).unwrap();
    let args = ["run", "plan.toml", "--out", "runs/systems"];
    let run = command(dir.path(), &args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _run = KillOnDrop(run.unwrap());
    browser.wait("document.querySelector('#runs .run')?.innerText.includes('running') === true");
    assert_eq!(browser.value("window.mark"), "the page as it was loaded");
    browser.go_to(&format!("http://{server}/run/systems/"));
    browser.wait("document.querySelector('#curves path.line') !== null");
    browser.value("window.mark = 'the page of the run'");
    // The total of both arms' curves, because the order of the arms is random.
    browser.value(
        "window.drawn = () => [...document.querySelectorAll('#curves path.line')]
            .map(path => path.getAttribute('d').length).reduce((sum, length) => sum + length, 0);
         window.first = window.drawn(); 0",
    );
    browser.wait("window.drawn() > window.first");
    browser.wait("/left/.test(document.querySelector('#top').innerText)");
    browser.wait("document.querySelectorAll('#arms .arm').length === 2");
    assert_eq!(browser.too_wide(), "");
    browser.wait("document.querySelector('#verdict .headline') !== null");
    browser.wait("/report/.test(document.querySelector('#top a')?.href)");
    browser.wait("/^(finished|undecided)$/.test(document.querySelector('#top .pill').innerText)");
    assert_eq!(browser.value("window.mark"), "the page of the run");
    let verdict = browser.value("document.querySelector('#verdict').innerText");
    assert!(verdict.as_str().unwrap().contains("slow"), "{verdict}");
    browser.set_width(360);
    assert_eq!(browser.too_wide(), "");
    browser.go_to(&format!("http://{server}/"));
    browser.wait("document.querySelector('#runs .run .pill') !== null");
    assert_eq!(browser.too_wide(), "");
    assert_eq!(browser.complaints(server), Vec::<String>::new());
}

/// Checks the checks of the test above.
#[test]
fn console_messages_and_requests_to_other_servers_are_noticed() {
    let Some(program) = browser() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut browser = Browser::start(&program, dir.path());
    browser.go_to("data:text/html,<div style='width:2000px'>wide</div>");
    browser.wait("document.body?.innerText === 'wide'");
    browser.value("console.error('oh'); fetch('http://127.0.0.1:9/x').catch(() => { window.failed = true; }); 0");
    browser.wait("window.failed === true");
    browser.set_width(360);
    let server = "127.0.0.1:1".parse().unwrap();
    let complaints = browser.complaints(server).join("\n");
    assert!(complaints.contains("\"oh\""), "{complaints}");
    assert!(complaints.contains("http://127.0.0.1:9/x"), "{complaints}");
    assert_ne!(browser.too_wide(), "");
}
