//! A live page in a real browser while a real run goes on: the curve grows and the verdict appears without the page being loaded again, the
//! console stays quiet, nothing is asked of anybody else, and the page fits a phone.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use bakeoff::watch::web::{Guard, Patience};
use serde_json::{Value, json};

use crate::served_pages::serve;

/// Names under which Debian and others install Chromium.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Nothing of a person's browser, and nothing that leaves this machine.
const FLAGS: &str = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
    --disable-component-update --disable-sync --disable-extensions --remote-debugging-pipe \
    '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'";

/// Questions to a page that waits for something, at most.
const QUESTIONS: u32 = 1200;

/// Between two of them.
const PAUSE: Duration = Duration::from_millis(100);

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let found = BROWSERS.iter().find_map(|name| {
        let files = places.iter().map(|dir| dir.join(name));
        files.into_iter().find(|file| file.is_file())
    });
    if found.is_none() {
        base::skip::skip("no browser to open the report in: apt install chromium");
    }
    found
}

/// A browser that is told what to do over two pipes (the `DevTools` protocol): each message ends with a zero byte.
struct Browser {
    child: Child,
    to: File,
    from: BufReader<File>,
    number: u64,
    session: Option<String>,
    /// What came beside answers: console messages, requests.
    told: Vec<Value>,
}

impl Browser {
    fn start(program: &Path, dir: &Path) -> Self {
        let pipes = ["to", "from"].map(|name| dir.join(name));
        assert!(
            Command::new("mkfifo")
                .args(&pipes)
                .status()
                .unwrap()
                .success()
        );
        // The browser has descriptors 3 and 4; a FIFO that is open for both waits for nobody.
        let script = format!(
            "exec \"$0\" {FLAGS} --user-data-dir=\"$1/profile\" about:blank 3<>\"$1/to\" 4<>\"$1/from\""
        );
        let child = Command::new("sh")
            .args(["-c", &script])
            .args([program, dir])
            // What it leaves there goes with the directory.
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
            told: Vec::new(),
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
            self.told.push(answer);
        }
    }

    fn go_to(&mut self, address: &str) {
        self.ask("Page.navigate", &json!({ "url": address }));
    }

    /// The value of an expression in the page.
    fn value(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true });
        let answer = self.ask("Runtime.evaluate", &asked);
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].clone()
    }

    /// Asks until something is so.
    #[track_caller]
    fn wait(&mut self, expression: &str) {
        for _ in 0..QUESTIONS {
            if self.value(expression) == json!(true) {
                return;
            }
            thread::sleep(PAUSE);
        }
        let text = self.value("document.body.innerText");
        panic!("never so: {expression}\n{text}");
    }

    fn set_width(&mut self, width: u32) {
        let size = json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": true });
        self.ask("Emulation.setDeviceMetricsOverride", &size);
    }

    /// What of the page is wider than the window.
    fn too_wide(&mut self) -> Value {
        self.value(
            "[document.documentElement, ...document.querySelectorAll('main, main > div, section, dl, .drawing')]
                .filter(one => one.scrollWidth > document.documentElement.clientWidth)
                .map(one => `${one.tagName} ${one.id} ${one.scrollWidth}`).join()",
        )
    }

    /// Errors of the console, and addresses that were asked for beyond the server.
    fn complaints(&self, server: SocketAddr) -> Vec<String> {
        let own = format!("http://{server}/");
        let complaint = |one: &Value| match one["method"].as_str()? {
            "Runtime.exceptionThrown" | "Log.entryAdded" | "Runtime.consoleAPICalled" => {
                Some(one.to_string())
            }
            "Network.requestWillBeSent" => {
                let url = one["params"]["request"]["url"].as_str()?;
                let is_own =
                    url.starts_with(&own) || url.starts_with("data:") || url == "about:blank";
                (!is_own).then(|| url.to_owned())
            }
            _ => None,
        };
        self.told.iter().filter_map(complaint).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended by itself. One that is killed leaves processes which still write into the directory as it is removed.
        let _ = self
            .to
            .write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        for _ in 0..QUESTIONS {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(PAUSE);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server that takes so long for each answer; it serves until the test's process ends.
fn slow_server(pause: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = move |stream: TcpStream| {
        let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
        while let Some(_first) = lines.next() {
            lines.by_ref().take_while(|line| !line.is_empty()).count();
            thread::sleep(pause);
            let text = "HTTP/1.1 200 OK\r\nServer: test\r\nContent-Length: 5\r\n\r\nhello";
            if (&stream).write_all(text.as_bytes()).is_err() {
                return;
            }
        }
    };
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || answer(stream.unwrap()));
        }
    });
    address
}

/// Two systems, one of which takes three times as long for each answer.
fn plan() -> String {
    let [fast, slow] = [5, 15].map(|ms| slow_server(Duration::from_millis(ms)));
    format!(
        "title = \"a fast and a slow system\"\nbaseline = \"fast\"\n[machine]\nkind = \"url\"\none_client_fewer = false\n[arm.fast]\nurl = \"http://{fast}\"\n\
         [arm.slow]\nurl = \"http://{slow}\"\n[[workload]]\nkind = \"http\"\nconnections = 2\nwarmup = \"1s\"\nwindow = \"5s\"\n\
         paths = [\"/\"]\n[design]\nerror_rate = 0.2\nmin_blocks = 2\nmax_blocks = 2\ndisturbed_blocks = \"keep\"\nseed = 1\n"
    )
}

/// Ends the run with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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
    let run = Command::new(env!("CARGO_BIN_EXE_bakeoff"))
        .args(["run", "plan.toml", "--out", "runs/systems"])
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _running = Running(run.unwrap());
    browser.wait("document.querySelector('#runs .run')?.innerText.includes('running') === true");
    assert_eq!(browser.value("window.mark"), "the page as it was loaded");
    browser.go_to(&format!("http://{server}/run/systems/"));
    browser.wait("document.querySelector('#curves path.line') !== null");
    browser.value("window.mark = 'the page of the run'");
    // Both arms' curves together: which arm comes first is chance.
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

/// What the test above relies on must be seen to notice.
#[test]
fn a_page_that_complains_or_asks_elsewhere_is_noticed() {
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
