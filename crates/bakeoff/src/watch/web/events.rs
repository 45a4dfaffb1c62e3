//! Sends the changed parts of a page as server-sent events: `event: parts`, with a JSON object of ids and their HTML as data.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::body::Bytes;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::board::{Board, View};

/// If nothing changes for this long, a comment is sent, so that a closed connection is noticed.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Charts are sent at most this often per window, because charts of long windows change slowly.
const CHART_UPDATES_PER_WINDOW: f64 = 300.0;

/// Longest pause between two updates of a chart.
const MAX_CHART_PAUSE_S: f64 = 10.0;

/// Sends changes until the client is gone, or does not take them within `timeout`.
pub(super) async fn send(
    events: mpsc::Sender<Bytes>,
    board: Arc<Board>,
    view: View,
    timeout: Duration,
) {
    let mut sent: BTreeMap<&'static str, (String, Instant)> = BTreeMap::new();
    let mut last_sent = Instant::now();
    let mut event = String::from("retry: 3000\n\n");
    loop {
        let (shared, view) = (Arc::clone(&board), view.clone());
        let Ok(page) = spawn_blocking(move || shared.parts(&view)).await else {
            return;
        };
        let now = Instant::now();
        let pause_s = page.window_s / CHART_UPDATES_PER_WINDOW;
        let pause = Duration::from_secs_f64(pause_s.clamp(0.0, MAX_CHART_PAUSE_S));
        let is_due = |id: &str, part: &String| match sent.get(id) {
            Some((before, _)) if before == part => false,
            Some((_, at)) if id == "curves" => now.duration_since(*at) >= pause,
            Some(_) | None => true,
        };
        let parts = page.parts.iter().filter(|(id, part)| is_due(id, part));
        let changed: BTreeMap<_, _> = parts.map(|(id, part)| (*id, part)).collect();
        if !changed.is_empty() {
            event += &["event: parts\ndata: ", &json!(changed).to_string(), "\n\n"].concat();
        } else if now.duration_since(last_sent) >= KEEP_ALIVE_INTERVAL {
            event += ": still here\n\n";
        }
        for (id, part) in changed {
            sent.insert(id, (part.clone(), now));
        }
        if !event.is_empty() {
            let bytes = mem::take(&mut event).into();
            if events.send_timeout(bytes, timeout).await.is_err() {
                return;
            }
            last_sent = now;
        }
        sleep(page.pace).await;
    }
}

#[cfg(test)]
mod tests {
    use record::live::Callbacks;
    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn a_client_that_takes_no_event_is_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let callbacks = Callbacks {
            check: workload::check,
            judge: judge::interim,
            now: std::time::SystemTime::now,
            clock: || Duration::ZERO,
        };
        let board = Arc::new(Board::new(dir.path(), callbacks).unwrap());
        let (events, mut receiver) = mpsc::channel(1);
        events.try_send("not taken".into()).unwrap();
        let sent = send(events, board, View::All, Duration::from_millis(1));
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(sent);
        assert_eq!(receiver.try_recv(), Ok("not taken".into()));
        assert!(receiver.try_recv().is_err());
    }
}
