//! The process between this host and an agent on a box: connects, proves the secret, and copies bytes both ways.
//!
//! ```text
//! lab --standard input, a socket--> relay ==TCP==> agent      first line of the socket: the secret
//! ```
//! A device in between may accept a connection before the agent listens, so each try has a time limit.

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use base::secret::{Secret, handshake};
use rustix::net::sockopt;

/// Time for one try, from the first packet to the proof.
const TRY_LIMIT: Duration = Duration::from_secs(8);

/// Time between tries.
const RETRY_INTERVAL: Duration = Duration::from_millis(300);

/// Relays until either side ends. `address` is `HOST:PORT`. Its standard input is the socket to the lab.
pub fn relay(address: &str) -> Result<()> {
    let given = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3);
    let lab = UnixStream::from(given.context("standard input is no socket")?);
    let mut inward = BufReader::new(lab.try_clone().context("cannot share a socket")?);
    let mut line = String::new();
    inward.read_line(&mut line).context("no secret was given")?;
    let secret = Secret::of(line.trim_end());
    let agent = dial(address, &secret);
    let outward = agent.try_clone().context("cannot share a socket")?;
    thread::spawn(move || {
        let _ = pass_on(&mut inward, &outward);
        // The lab is gone, so close the connection to the agent.
        let _ = outward.shutdown(Shutdown::Both);
    });
    match pass_on(&mut &agent, &lab) {
        Ok(()) => bail!("the agent hung up"),
        Err(why) => Err(anyhow!(why).context("the line to the agent broke")),
    }
}

/// Tries until the agent of this boot has proved its identity. The starter of this process ends it to give up.
fn dial(address: &str, secret: &Secret) -> TcpStream {
    let mut last_warning = String::new();
    loop {
        match try_once(address, secret) {
            Ok(stream) => return stream,
            Err(why) => {
                let why = format!("{why:#}");
                // No repetitions, because only the last lines are shown if the box never answers.
                if why != last_warning {
                    eprintln!("warning: {why}");
                    last_warning = why;
                }
                thread::sleep(RETRY_INTERVAL);
            }
        }
    }
}

fn try_once(address: &str, secret: &Secret) -> Result<TcpStream> {
    let mut addresses = address.to_socket_addrs().context("no such address")?;
    let address = addresses.next().context("no such address")?;
    let mut stream = TcpStream::connect_timeout(&address, TRY_LIMIT).context("no connection")?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TRY_LIMIT))?;
    handshake::as_controller(&mut stream, secret)?;
    stream.set_read_timeout(None)?;
    keep_alive(&stream)?;
    Ok(stream)
}

/// Ends the connection within half a minute after the box was restarted or became unreachable.
fn keep_alive(stream: &TcpStream) -> Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(10))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(5))?;
    sockopt::set_tcp_keepcnt(stream, 4)?;
    sockopt::set_tcp_user_timeout(stream, 30_000)?;
    Ok(())
}

fn pass_on<W>(from: &mut impl Read, mut to: W) -> io::Result<()>
where
    W: Write,
{
    let mut piece = vec![0; 64 << 10];
    loop {
        match from.read(&mut piece)? {
            0 => return Ok(()),
            length => to.write_all(&piece[..length])?,
        }
    }
}
