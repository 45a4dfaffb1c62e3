//! What no file tells of a network card: the kernel's ethtool calls, see ethtool(8) and linux/ethtool.h.

use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;

/// Reads driver, its version, and the firmware's.
const GET_DRIVER: u32 = 0x3;

/// Where the firmware's version stands in the answer, and its length.
const FIRMWARE: (usize, usize) = (4 + 32 + 32, 32);

/// What a card does in place of the CPU: the call that reads it, and its name in ethtool(8).
const OFFLOADS: [(u32, &str); 6] = [
    (0x14, "rx"),
    (0x16, "tx"),
    (0x18, "sg"),
    (0x1e, "tso"),
    (0x23, "gso"),
    (0x2b, "gro"),
];

/// Long enough for every answer that is asked for: driver information has 196 bytes.
const LENGTH: usize = 256;

/// Firmware and offloads of a card, as far as its driver tells.
pub(crate) fn facts(card: &str) -> Vec<(&'static str, String)> {
    // Any socket will do.
    let Ok(socket) = UdpSocket::bind("127.0.0.1:0") else {
        return Vec::new();
    };
    let mut facts = Vec::new();
    if let Some(answer) = ask(&socket, card, GET_DRIVER) {
        let (begin, length) = FIRMWARE;
        let text = answer[begin..begin + length]
            .split(|byte| *byte == 0)
            .next();
        let text = String::from_utf8_lossy(text.unwrap_or_default())
            .trim()
            .to_string();
        if !text.is_empty() && text != "N/A" {
            facts.push(("firmware", text));
        }
    }
    let states: Vec<Option<(&str, bool)>> = OFFLOADS
        .iter()
        .map(|(command, name)| {
            let answer = ask(&socket, card, *command)?;
            let value = u32::from_ne_bytes(answer[4..8].try_into().ok()?);
            Some((*name, value != 0))
        })
        .collect();
    let on = states.iter().flatten().filter(|(_, is_on)| *is_on);
    let on: Vec<&str> = on.map(|(name, _)| *name).collect();
    if states.iter().any(Option::is_some) {
        let told = if on.is_empty() {
            "none".into()
        } else {
            on.join(" ")
        };
        facts.push(("offloads", told));
    }
    facts
}

/// The answer to one call, which begins with its number; `None` where the driver does not know it.
#[expect(unsafe_code, reason = "neither std nor rustix has SIOCETHTOOL")]
fn ask(socket: &UdpSocket, card: &str, command: u32) -> Option<[u8; LENGTH]> {
    #[repr(C, align(8))]
    struct Answer([u8; LENGTH]);
    let mut answer = Answer([0; LENGTH]);
    answer.0[..4].copy_from_slice(&command.to_ne_bytes());
    // SAFETY: an ifreq is plain data, for which all zeroes are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let name = card.as_bytes();
    if name.len() >= request.ifr_name.len() {
        return None;
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(name) {
        *place = byte.cast_signed();
    }
    request.ifr_ifru.ifru_data = (&raw mut answer.0).cast();
    // SAFETY: the request and the answer live until the call returns, and these calls write no more than 196 bytes.
    let outcome = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    (outcome == 0).then_some(answer.0)
}
