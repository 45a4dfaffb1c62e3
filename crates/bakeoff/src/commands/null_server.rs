//! `null-server`: runs a server that does almost no work, on another host than the clients.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use load::null_server::{self, NullServer, Settings};

use super::{End, refuse_json, watch_signals};
use crate::cli::{Cli, NullServerArgs};
use crate::out;

/// How often the server checks whether it should stop.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Serves until a signal stops it.
pub(super) fn serve(args: &NullServerArgs, cli: &Cli) -> Result<End> {
    refuse_json(cli)?;
    let tls = args.cert.as_deref().zip(args.key.as_deref());
    let settings = Settings {
        threads: args.threads.unwrap_or(0).into(),
        bytes: args.bytes,
        tls: tls
            .map(|(cert, key)| null_server::tls(cert, key))
            .transpose()?,
        open_for: Duration::ZERO,
    };
    let stop = watch_signals()?;
    let server = NullServer::start(args.listen, &settings)?;
    let scheme = if settings.tls.is_some() {
        "https"
    } else {
        "http"
    };
    out::line(&format!("null server: {scheme}://{}", server.address()));
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(POLL_INTERVAL);
    }
    Ok(End::Done)
}
