//! The network: cards that stop sending, full tables, exhausted memory.

use super::{Extent, Row, row};
use crate::kind::{Kind, Severity};

use Extent::{Line, Trace};
use Kind::{
    ConntrackFull, HardwareChecksum, NeighbourOverflow, NetdevRefcount, NetdevWatchdog,
    NetworkDriver, SynFlood, TcpMemory, TcpOrphans, TcpSequence, Virtio,
};
use Severity::{Defect, Notice, Suspicious};

pub(super) const ROWS: &[Row] = &[
    // 5.10: a separate WARN. Later stable kernels: one line, device first, CPU and time after it.
    row(
        NetdevWatchdog,
        Defect,
        Trace,
        "NETDEV WATCHDOG: %N (%s): transmit queue %d timed out",
        &[(
            "NETDEV WATCHDOG: eth0 (e1000): transmit queue 0 timed out",
            "eth0",
        )],
    ),
    row(
        NetdevWatchdog,
        Defect,
        Line,
        "%s %s %N: NETDEV WATCHDOG: CPU: %d: transmit queue %d timed out",
        &[(
            "virtio_net virtio0 eth0: NETDEV WATCHDOG: CPU: 1: transmit queue 0 timed out 5376 ms",
            "eth0",
        )],
    ),
    row(
        NetdevWatchdog,
        Defect,
        Line,
        "%N: NETDEV WATCHDOG: CPU: %d: transmit queue %d timed out",
        &[(
            "eth0: NETDEV WATCHDOG: CPU: 1: transmit queue 0 timed out 5376 ms",
            "eth0",
        )],
    ),
    row(
        NetworkDriver,
        Defect,
        Line,
        "%s %s %N: Detected Tx Unit Hang",
        &[("e1000 0000:00:03.0 eth0: Detected Tx Unit Hang", "eth0")],
    ),
    row(
        NetworkDriver,
        Defect,
        Line,
        "%s %s %N: Detected Hardware Unit Hang",
        &[(
            "e1000e 0000:00:1f.6 eth0: Detected Hardware Unit Hang:",
            "eth0",
        )],
    ),
    row(
        NetworkDriver,
        Suspicious,
        Line,
        "%s %s %N: Reset adapter",
        &[(
            "e1000e 0000:00:1f.6 eth0: Reset adapter unexpectedly",
            "eth0",
        )],
    ),
    row(
        NetworkDriver,
        Suspicious,
        Line,
        "%s %s %N: TX timeout on queue%s",
        &[(
            "virtio_net virtio0 eth0: TX timeout on queue: 0, sq: output.0, vq: 0x1, name: output.0, 5120000 usecs ago",
            "eth0",
        )],
    ),
    row(
        Virtio,
        Defect,
        Line,
        "%N: rx error: len %d exceeds %s",
        &[("eth0: rx error: len 70000 exceeds max size 4096", "eth0")],
    ),
    row(
        Virtio,
        Defect,
        Line,
        "%N: rx error: %d buffers %s",
        &[
            ("eth0: rx error: 2 buffers missing", "eth0"),
            ("eth0: rx error: 2 buffers out of 4 missing", "eth0"),
        ],
    ),
    row(
        Virtio,
        Defect,
        Line,
        "virtio_net %s %N: Unexpected TXQ (%d) queue failure: %d",
        &[(
            "virtio_net virtio0 eth0: Unexpected TXQ (0) queue failure: -28",
            "eth0",
        )],
    ),
    row(
        NetdevRefcount,
        Defect,
        Line,
        "unregister_netdevice: waiting for %N to become free. Usage count = %d",
        &[(
            "unregister_netdevice: waiting for veth1 to become free. Usage count = 2",
            "veth1",
        )],
    ),
    row(
        HardwareChecksum,
        Suspicious,
        Trace,
        "%N: hw csum failure",
        &[("eth0: hw csum failure", "eth0")],
    ),
    row(
        NeighbourOverflow,
        Suspicious,
        Line,
        "neighbour: %N: neighbor table overflow!",
        &[(
            "neighbour: arp_cache: neighbor table overflow!",
            "arp_cache",
        )],
    ),
    // 7.x adds the network namespace.
    row(
        ConntrackFull,
        Suspicious,
        Line,
        "nf_conntrack: nf_conntrack: table full%s, dropping packet",
        &[
            (
                "nf_conntrack: nf_conntrack: table full, dropping packet",
                "",
            ),
            (
                "nf_conntrack: nf_conntrack: table full in netns 4026531840, dropping packet",
                "",
            ),
        ],
    ),
    row(
        ConntrackFull,
        Suspicious,
        Line,
        "nf_conntrack: expectation table full",
        &[("nf_conntrack: expectation table full", "")],
    ),
    row(
        TcpMemory,
        Suspicious,
        Line,
        "TCP: out of memory -- consider tuning tcp_mem",
        &[("TCP: out of memory -- consider tuning tcp_mem", "")],
    ),
    row(
        TcpOrphans,
        Suspicious,
        Line,
        "TCP: too many orphaned sockets",
        &[("TCP: too many orphaned sockets", "")],
    ),
    row(
        TcpSequence,
        Defect,
        Trace,
        "TCP recvmsg seq # bug%s",
        &[(
            "TCP recvmsg seq # bug 2: copied 1A2B, seq 1A2C, rcvnxt 1A2D, fl 0",
            "",
        )],
    ),
    row(
        TcpSequence,
        Defect,
        Trace,
        "cleanup rbuf bug: copied %x",
        &[("cleanup rbuf bug: copied 1A2B seq 1A2C rcvnxt 1A2D", "")],
    ),
    // Up to 6.1 only the port and a word on counters; later the address too.
    row(
        SynFlood,
        Notice,
        Line,
        "TCP: %s: Possible SYN flooding on port %d. %s",
        &[(
            "TCP: request_sock_TCP: Possible SYN flooding on port 80. Sending cookies.  Check SNMP counters.",
            "",
        )],
    ),
    row(
        SynFlood,
        Notice,
        Line,
        "TCP: %s: Possible SYN flooding on port %s:%d. %s",
        &[
            (
                "TCP: request_sock_TCP: Possible SYN flooding on port 0.0.0.0:80. Sending cookies.",
                "",
            ),
            (
                "TCP: request_sock_TCP: Possible SYN flooding on port [::]:80. Dropping request.",
                "",
            ),
        ],
    ),
];
