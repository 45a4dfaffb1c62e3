//! Configures a network card by rtnetlink(7): the program `ip` is in the image and not in the initramfs.

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{recv, send, socket_with};

const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;
const ERROR: u16 = 2;

/// `NLM_F_REQUEST | NLM_F_ACK`.
const REQUEST: u16 = 0x1 | 0x4;
/// `NLM_F_CREATE | NLM_F_REPLACE`.
const CREATE_OR_REPLACE: u16 = 0x400 | 0x100;

/// `IFF_UP`.
const UP: u32 = 1;

/// Attributes of addresses and of routes.
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;

/// Opens an rtnetlink socket.
pub(crate) fn open() -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    // Protocol 0 is NETLINK_ROUTE.
    socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None).context("no rtnetlink socket")
}

/// Turns an interface on.
pub(crate) fn set_up(socket: &OwnedFd, index: u32) -> Result<()> {
    // struct ifinfomsg: family, padding, type, index, flags, which flags change.
    let mut body = vec![0; 4];
    for value in [index, UP, UP] {
        body.extend(value.to_ne_bytes());
    }
    request(socket, &message(NEW_LINK, REQUEST, &body))
}

/// Gives an interface an address.
pub(crate) fn add_address(socket: &OwnedFd, index: u32, address: IpAddr, prefix: u8) -> Result<()> {
    let bytes = octets(address);
    // struct ifaddrmsg: family, prefix, flags, scope, index.
    let mut body = vec![family(address), prefix, 0, 0];
    body.extend(index.to_ne_bytes());
    body.extend(attribute(IFA_LOCAL, &bytes));
    body.extend(attribute(IFA_ADDRESS, &bytes));
    request(
        socket,
        &message(NEW_ADDRESS, REQUEST | CREATE_OR_REPLACE, &body),
    )
}

/// Routes traffic to other networks through a gateway.
pub(crate) fn add_default_route(socket: &OwnedFd, index: u32, gateway: IpAddr) -> Result<()> {
    const MAIN_TABLE: u8 = 254;
    const BOOT: u8 = 3;
    const UNIVERSE: u8 = 0;
    const UNICAST: u8 = 1;
    // struct rtmsg: family, lengths of destination and source, tos, table, protocol, scope, type, flags.
    let mut body = vec![
        family(gateway),
        0,
        0,
        0,
        MAIN_TABLE,
        BOOT,
        UNIVERSE,
        UNICAST,
    ];
    body.extend(0u32.to_ne_bytes());
    body.extend(attribute(RTA_OIF, &index.to_ne_bytes()));
    body.extend(attribute(RTA_GATEWAY, &octets(gateway)));
    request(
        socket,
        &message(NEW_ROUTE, REQUEST | CREATE_OR_REPLACE, &body),
    )
}

fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => AddressFamily::INET.as_raw() as u8,
        IpAddr::V6(_) => AddressFamily::INET6.as_raw() as u8,
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// struct rtattr: length, type; then the value, padded to a multiple of four.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = 4 + value.len();
    let mut bytes = (length as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(length.next_multiple_of(4), 0);
    bytes
}

/// struct nlmsghdr: length, type, flags, number, port; then the body.
fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = (16 + body.len() as u32).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend(body);
    bytes
}

/// Sends a message and waits for its acknowledgement.
fn request(socket: &OwnedFd, message: &[u8]) -> Result<()> {
    send(socket, message, SendFlags::empty()).context("cannot ask the kernel")?;
    let mut answer = [0u8; 4096];
    let (_, length) = recv(socket, &mut answer, RecvFlags::empty()).context("no answer")?;
    read_answer(&answer[..length.min(answer.len())])
}

/// Reads an acknowledgement: an error message whose number is 0 for success.
fn read_answer(answer: &[u8]) -> Result<()> {
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok());
    let number = answer.get(16..20).and_then(|bytes| bytes.try_into().ok());
    match (kind.map(u16::from_ne_bytes), number.map(i32::from_ne_bytes)) {
        (Some(ERROR), Some(0)) => Ok(()),
        (Some(ERROR), Some(number)) => Err(Errno::from_raw_os_error(-number).into()),
        (_, _) => bail!("not an answer of rtnetlink's"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_end_at_a_multiple_of_four() {
        let bytes = attribute(RTA_GATEWAY, &[10, 0, 2, 2]);
        assert_eq!(bytes, [8, 0, 5, 0, 10, 0, 2, 2]);
        assert_eq!(attribute(7, &[1]).len(), 8);
    }

    #[test]
    fn an_answer_is_an_error_or_none() {
        let answer = |number: i32| message(ERROR, 0, &number.to_ne_bytes());
        read_answer(&answer(0)).unwrap();
        let why = read_answer(&answer(-1)).unwrap_err().to_string();
        assert!(why.starts_with("Operation not permitted"), "{why}");
        assert!(read_answer(&[]).is_err());
    }
}
