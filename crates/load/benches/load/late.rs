//! A server that answers at once and then leaves the connection open for a second, as some proxies do:
//! the null server on CPU 0. Who waits for it to close sends two requests a second on two connections.

use std::time::Duration;

use anyhow::{Context as _, Result};
use load::null_server::{NullServer, Settings};

use crate::server::TINY_BYTES;

/// First argument of the bench when it is to be this server.
pub(crate) const ROLE: &str = "late";

/// How long it leaves a connection open after the last answer.
pub(crate) const OPEN_FOR: Duration = Duration::from_secs(1);

/// Serves until it is killed, with connections open for so many milliseconds.
pub(crate) fn play(open_for_ms: &str) -> Result<()> {
    let open_for_ms = open_for_ms.parse().context("not a time in milliseconds")?;
    let settings = Settings {
        threads: 1,
        bytes: TINY_BYTES as u64,
        tls: None,
    };
    let place = ([127, 0, 0, 1], 0).into();
    let open_for = Duration::from_millis(open_for_ms);
    let server = NullServer::start_closing_late(place, &settings, open_for)?;
    println!("{}", server.address());
    loop {
        std::thread::park();
    }
}
