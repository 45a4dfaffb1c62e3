//! A server that answers at once and then leaves the connection open for a second, as some proxies
//! do. It is the null server on CPU 0. A client that waits for it to close sends one request per
//! second on each connection.

use std::time::Duration;

use anyhow::{Context as _, Result};
use load::null_server::{NullServer, Settings};

use crate::server::TINY_BYTES;

/// First argument of the bench that makes it this server.
pub(crate) const ROLE: &str = "late";

/// How long a connection stays open after its last response.
pub(crate) const OPEN_FOR: Duration = Duration::from_secs(1);

/// Serves until it is killed.
pub(crate) fn serve(open_for_ms: &str) -> Result<()> {
    let open_for_ms = open_for_ms.parse().context("not a time in milliseconds")?;
    let settings = Settings {
        threads: 1,
        bytes: TINY_BYTES as u64,
        open_for: Duration::from_millis(open_for_ms),
        ..Settings::default()
    };
    let server = NullServer::start(([127, 0, 0, 1], 0).into(), &settings)?;
    println!("{}", server.address());
    loop {
        std::thread::park();
    }
}
