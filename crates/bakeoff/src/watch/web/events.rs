//! Sends the changed parts of a page as server-sent events: `event: parts`, with a JSON object of ids and their HTML as data.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use ::http::StatusCode;
use serde_json::json;

use super::board::{Board, View};
use super::http;

/// If nothing changes for this long, a comment is sent, so that a closed connection is noticed.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Charts are sent at most this often per window, because charts of long windows change slowly.
const CHART_UPDATES_PER_WINDOW: f64 = 300.0;

/// Longest pause between two updates of a chart.
const MAX_CHART_PAUSE_S: f64 = 10.0;

/// Sends changes until the client is gone or too slow.
pub(super) fn send(
    stream: &TcpStream,
    board: &Board,
    view: &View,
    timeout: Duration,
) -> io::Result<()> {
    let head = http::head(StatusCode::OK, "text/event-stream", "default-src 'none'");
    http::write_all(
        stream,
        format!("{head}\r\nretry: 3000\n\n").as_bytes(),
        timeout,
    )?;
    let mut sent: BTreeMap<&'static str, (String, Instant)> = BTreeMap::new();
    let mut last_sent = Instant::now();
    loop {
        let page = board.parts(view);
        let now = Instant::now();
        let pause_s = page.window_s / CHART_UPDATES_PER_WINDOW;
        let pause = Duration::from_secs_f64(pause_s.clamp(0.0, MAX_CHART_PAUSE_S));
        let is_due = |id: &str, part: &String| match sent.get(id) {
            Some((before, _)) if before == part => false,
            Some((_, at)) if id == "curves" => now.duration_since(*at) >= pause,
            Some(_) | None => true,
        };
        let changed: Vec<_> = page
            .parts
            .iter()
            .filter(|(id, part)| is_due(id, part))
            .collect();
        if !changed.is_empty() {
            let parts: BTreeMap<_, _> = changed.iter().map(|(id, part)| (*id, part)).collect();
            http::write_all(
                stream,
                format!("event: parts\ndata: {}\n\n", json!(parts)).as_bytes(),
                timeout,
            )?;
            for (id, part) in changed {
                sent.insert(id, (part.clone(), now));
            }
            last_sent = now;
        } else if now.duration_since(last_sent) >= KEEP_ALIVE_INTERVAL {
            http::write_all(stream, b": still here\n\n", timeout)?;
            last_sent = now;
        }
        thread::sleep(page.pace);
    }
}
