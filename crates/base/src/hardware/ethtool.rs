//! Properties of network cards that no file has, read by ethtool calls: see ethtool(8) and linux/ethtool.h.

use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;

/// Reads the driver's name and version, and the firmware's version.
const GET_DRIVER: u32 = 0x3;

/// Offset and length of the firmware's version in the answer.
const FIRMWARE: (usize, usize) = (4 + 32 + 32, 32);

/// Offloads of a card: the call that reads one, and its name in ethtool(8).
const OFFLOADS: [(u32, &str); 6] = [
    (0x14, "rx"),
    (0x16, "tx"),
    (0x18, "sg"),
    (0x1e, "tso"),
    (0x23, "gso"),
    (0x2b, "gro"),
];

/// A call whose answer consists of 32-bit words, the name of its fact, and a function that describes the words.
type Setting = (u32, &'static str, fn(&Words) -> String);

/// Calls for settings such as buffers and interrupt delays.
const SETTINGS: [Setting; 4] = [
    (0x10, "rings", rings),
    (0x0e, "coalescing", coalescing),
    (0x12, "pause", pause),
    (0x44, "eee", energy_efficient_ethernet),
];

/// Longer than every requested answer; driver information has 196 bytes.
const LENGTH: usize = 256;

/// The words of an answer, the call's number first.
type Words = [u32; LENGTH / 4];

/// Firmware, offloads, rings, coalescing and the like of a card, as far as its driver reports them.
pub(crate) fn facts(card: &str) -> Vec<(&'static str, String)> {
    // The kernel accepts any socket.
    let Ok(socket) = UdpSocket::bind("127.0.0.1:0") else {
        return Vec::new();
    };
    let mut facts = Vec::new();
    if let Some(answer) = call_ethtool(&socket, card, GET_DRIVER) {
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
            let answer = call_ethtool(&socket, card, *command)?;
            let value = u32::from_ne_bytes(answer[4..8].try_into().ok()?);
            Some((*name, value != 0))
        })
        .collect();
    let on = states.iter().flatten().filter(|(_, is_on)| *is_on);
    let on: Vec<&str> = on.map(|(name, _)| *name).collect();
    if states.iter().any(Option::is_some) {
        let offloads = if on.is_empty() {
            "none".into()
        } else {
            on.join(" ")
        };
        facts.push(("offloads", offloads));
    }
    for (command, name, describe) in SETTINGS {
        if let Some(answer) = call_ethtool(&socket, card, command) {
            facts.push((name, describe(&words(&answer))));
        }
    }
    facts
}

fn words(answer: &[u8; LENGTH]) -> Words {
    std::array::from_fn(|at| {
        let bytes = answer[4 * at..].first_chunk();
        u32::from_ne_bytes(*bytes.expect("an answer is whole words"))
    })
}

/// Number of packets in the card's rings, and their maximum (`struct ethtool_ringparam`).
fn rings(words: &Words) -> String {
    let [_, most_rx, _, _, most_tx, rx, _, _, tx, ..] = words;
    format!("rx {rx} of {most_rx}, tx {tx} of {most_tx}")
}

/// How long, and for how many packets, the card delays an interrupt (`struct ethtool_coalesce`).
fn coalescing(words: &Words) -> String {
    let [_, rx_us, rx_packets, _, _, tx_us, tx_packets, ..] = words;
    let adaptive = |is_on: u32| if is_on == 0 { "" } else { " adaptive" };
    format!(
        "rx {rx_us} us {rx_packets} packets{}, tx {tx_us} us {tx_packets} packets{}",
        adaptive(words[10]),
        adaptive(words[11])
    )
}

/// The directions in which the card may pause its peer (`struct ethtool_pauseparam`).
fn pause(words: &Words) -> String {
    let [_, autoneg, rx, tx, ..] = words;
    let on = [(rx, "rx"), (tx, "tx"), (autoneg, "autoneg")];
    let on = on.iter().filter(|(is_on, _)| **is_on != 0);
    let on: Vec<&str> = on.map(|(_, name)| *name).collect();
    if on.is_empty() {
        "off".into()
    } else {
        on.join(" ")
    }
}

/// Whether the link sleeps between packets (`struct ethtool_eee`); waking takes microseconds.
fn energy_efficient_ethernet(words: &Words) -> String {
    let [_, _, _, _, is_active, is_enabled, ..] = words;
    let state = match (is_enabled, is_active) {
        (0, _) => "off",
        (_, 0) => "on, not agreed with the peer",
        _ => "on",
    };
    state.into()
}

/// The answer to one call, which begins with the call's number; `None` if the driver does not support it.
#[expect(unsafe_code, reason = "neither std nor rustix has SIOCETHTOOL")]
fn call_ethtool(socket: &UdpSocket, card: &str, command: u32) -> Option<[u8; LENGTH]> {
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
        *place = libc::c_char::from_ne_bytes([*byte]);
    }
    request.ifr_ifru.ifru_data = (&raw mut answer.0).cast();
    // SAFETY: the request and the answer live until the call returns, and these calls write no more than 196 bytes.
    let outcome = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    (outcome == 0).then_some(answer.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(set: &[(usize, u32)]) -> Words {
        let mut words = [0; LENGTH / 4];
        for (at, value) in set {
            words[*at] = *value;
        }
        words
    }

    #[test]
    fn settings_are_described_in_words() {
        let ring = answer(&[(0, 0x10), (1, 4096), (4, 4096), (5, 256), (8, 512)]);
        assert_eq!(rings(&ring), "rx 256 of 4096, tx 512 of 4096");
        let coalesce = answer(&[(0, 0x0e), (1, 3), (10, 1)]);
        assert_eq!(
            coalescing(&coalesce),
            "rx 3 us 0 packets adaptive, tx 0 us 0 packets"
        );
        assert_eq!(pause(&answer(&[])), "off");
        assert_eq!(pause(&answer(&[(1, 1), (2, 1)])), "rx autoneg");
        assert_eq!(energy_efficient_ethernet(&answer(&[])), "off");
        let idle = answer(&[(5, 1)]);
        assert_eq!(
            energy_efficient_ethernet(&idle),
            "on, not agreed with the peer"
        );
        assert_eq!(energy_efficient_ethernet(&answer(&[(4, 1), (5, 1)])), "on");
    }

    #[test]
    fn an_answer_is_read_word_by_word() {
        let mut bytes = [0; LENGTH];
        bytes[4..8].copy_from_slice(&7u32.to_ne_bytes());
        bytes[LENGTH - 4..].copy_from_slice(&9u32.to_ne_bytes());
        let words = words(&bytes);
        assert_eq!([words[0], words[1], words[LENGTH / 4 - 1]], [0, 7, 9]);
    }
}
