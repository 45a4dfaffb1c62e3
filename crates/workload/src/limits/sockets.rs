//! Established TCP sockets, each of which sends a byte to its peer when all exist.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use anyhow::{Context, Result};

use crate::context::WorkloadContext;
use crate::limits::growth::{Grown, Growth, all_work};

/// Connections to one address. It has 28,232 ports, but the kernel assigns those of one parity
/// first. After half of the ports, each connection searches that half in vain, which takes 50 to 90
/// times as long as connecting.
const TO_ONE_ADDRESS: u64 = 10_000;

pub(super) fn reach(_: &WorkloadContext, growth: &mut Growth<'_>, wanted: u64) -> Result<Grown> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).context("listen")?;
    let port = listener.local_addr()?.port();
    let first = u32::from(Ipv4Addr::LOCALHOST);
    let mut sockets: Vec<TcpStream> = Vec::with_capacity(wanted as usize);
    let mut grown = growth.grow("sockets", wanted, &mut |number| {
        // The two sockets of a connection are adjacent.
        if number % 2 == 0 {
            let address = Ipv4Addr::from(first + (number / 2 / TO_ONE_ADDRESS) as u32);
            sockets.push(TcpStream::connect(SocketAddr::from((address, port)))?);
        } else {
            sockets.push(listener.accept()?.0);
        }
        Ok(())
    })?;
    // A socket whose connection was not accepted does not count.
    grown.reached -= (sockets.len() % 2) as f64;
    let mut working = 0;
    for (number, pair) in sockets.chunks_exact(2).enumerate() {
        working += exchange(pair, number as u8).context("carry a byte")?;
        growth.go_on(0)?;
    }
    all_work(&grown, working)?;
    Ok(grown)
}

/// Sends a byte each way over a connection. Returns the number of sockets that received the correct
/// one.
fn exchange(pair: &[TcpStream], byte: u8) -> std::io::Result<u64> {
    let mut working = 0;
    for (from, to) in [(0, 1), (1, 0)] {
        let mut received = [0];
        (&pair[from]).write_all(&[byte ^ from as u8])?;
        (&pair[to]).read_exact(&mut received)?;
        working += u64::from(received[0] == byte ^ from as u8);
    }
    Ok(working)
}
