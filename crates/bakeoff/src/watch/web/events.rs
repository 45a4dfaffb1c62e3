//! Parts of a page that changed, as server-sent events: `event: parts`, and as data a JSON object of ids and their HTML.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use ::http::StatusCode;
use serde_json::json;

use super::board::{Board, View};
use super::http;

/// After so long without a change something is sent all the same: who is gone is then noticed.
const STILL_HERE: Duration = Duration::from_secs(15);

/// Charts of long windows change by less than a dot in a second: they are sent once in this share of the window.
const CHART_SHARE: f64 = 300.0;

/// But not less often than this.
const CHART_PAUSE_S: f64 = 10.0;

/// Sends what changes until the client is gone, too slow, or nothing is there to tell of any more.
pub(super) fn send(
    stream: &TcpStream,
    board: &Board,
    view: &View,
    patience: Duration,
) -> io::Result<()> {
    let head = http::head(StatusCode::OK, "text/event-stream", "default-src 'none'");
    http::write_all(
        stream,
        format!("{head}\r\nretry: 3000\n\n").as_bytes(),
        patience,
    )?;
    let mut sent: BTreeMap<&'static str, (String, Instant)> = BTreeMap::new();
    let mut told = Instant::now();
    loop {
        let seen = board.parts(view);
        let now = Instant::now();
        let pause =
            Duration::from_secs_f64((seen.window_s / CHART_SHARE).clamp(0.0, CHART_PAUSE_S));
        let is_due = |id: &str, part: &String| match sent.get(id) {
            Some((before, _)) if before == part => false,
            Some((_, at)) if id == "curves" => now.duration_since(*at) >= pause,
            Some(_) | None => true,
        };
        let changed: Vec<_> = seen
            .parts
            .iter()
            .filter(|(id, part)| is_due(id, part))
            .collect();
        if !changed.is_empty() {
            let parts: BTreeMap<_, _> = changed.iter().map(|(id, part)| (*id, part)).collect();
            http::write_all(
                stream,
                format!("event: parts\ndata: {}\n\n", json!(parts)).as_bytes(),
                patience,
            )?;
            for (id, part) in changed {
                sent.insert(id, (part.clone(), now));
            }
            told = now;
        } else if now.duration_since(told) >= STILL_HERE {
            http::write_all(stream, b": still here\n\n", patience)?;
            told = now;
        }
        thread::sleep(seen.pace);
    }
}
