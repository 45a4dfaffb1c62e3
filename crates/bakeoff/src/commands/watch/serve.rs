//! `watch --web`: serves pages of all runs, which update themselves. It only reads runs.

use std::net::SocketAddr;
use std::path::Path;
use std::thread;

use crate::watch::web::{Guard, Patience, Server};
use anyhow::{Context, Result, anyhow, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::cli::WatchArgs;
use crate::commands::End;
use crate::commands::show::RUNS;
use crate::out;

/// Serves until a signal stops it.
pub(super) fn serve(args: &WatchArgs) -> Result<End> {
    let token = token(args)?;
    let guard = Guard::new(token.as_deref(), &args.host)?;
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot watch for Ctrl-C")?;
    let dir = args.run.as_deref().unwrap_or(Path::new(RUNS));
    let server = Server::listen(
        dir,
        args.listen,
        guard,
        super::callbacks(),
        Patience::default(),
    )?;
    let address = server.address().context("cannot tell the address")?;
    print_address(args, dir, address, token.as_deref());
    thread::Builder::new()
        .name("server".into())
        .spawn(move || server.run())
        .context("cannot start a thread")?;
    signals.forever().next();
    Ok(End::Done)
}

/// The token that requests need: that of the file, else a new one if other hosts can reach the address.
fn token(args: &WatchArgs) -> Result<Option<String>> {
    match &args.token_file {
        Some(path) => read_token(path).map(Some),
        None if Guard::is_private(args.listen) => Ok(None),
        None => base::secret::fresh().map(Some),
    }
}

fn read_token(path: &Path) -> Result<String> {
    let token = base::secret::read(path)
        .map_err(|why| anyhow!(why))
        .context("--token-file")?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    if !token.bytes().all(is_plain) {
        bail!(
            "token with characters that an address cannot have: {} (letters, digits and -._~ only: openssl rand -hex 24)",
            path.display()
        );
    }
    Ok(token)
}

fn print_address(args: &WatchArgs, dir: &Path, address: SocketAddr, token: Option<&str>) {
    out::line(&format!("runs of {}, until Ctrl-C:", dir.display()));
    let host = if address.ip().is_unspecified() {
        format!("HOST:{}", address.port())
    } else {
        address.to_string()
    };
    let query = match (token, &args.token_file) {
        (Some(token), None) => format!("?token={token}"),
        (Some(_), Some(_)) => "?token=TOKEN".into(),
        (None, _) => String::new(),
    };
    out::line(&format!("  http://{host}/{query}"));
    if !Guard::is_private(address) {
        let port = address.port();
        out::error_line(&format!(
            "note: what is served, the token too, goes over the network unencrypted (where that matters: listen on 127.0.0.1, and \
             ssh -L {port}:127.0.0.1:{port} from where the browser is)"
        ));
    }
}
