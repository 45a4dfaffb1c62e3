//! Checks the clients' and the network's part of a measurement.

use crate::check::{Checked, NAMES, THREADS, counts, is_measurable, most, short_text};
use crate::load_path::{ClientCpu, Link, LoadPath, NetworkEnd, SentLate};

/// Most ends of the network: one per client host, and the servers'.
const NETWORK_ENDS: usize = plan::MOST_CLIENT_HOSTS + 1;

/// Checks clients and network of a trial.
pub(super) fn load_path(path: &mut LoadPath) -> Checked {
    let LoadPath {
        pace: _,
        sent_late,
        is_shared: _,
        cpu_ns,
        cpus,
        ends,
    } = path;
    if let Some(SentLate {
        send_delay_ns,
        latency_ns,
    }) = sent_late
    {
        counts(&[
            ("send_delay_ns", *send_delay_ns),
            ("latency_ns", *latency_ns),
        ])?;
    }
    counts(&[("cpu_ns", cpu_ns.unwrap_or(0))])?;
    most("clients' CPUs", cpus.len(), THREADS)?;
    for ClientCpu {
        cpu: _,
        idle,
        interrupts,
    } in cpus
    {
        is_measurable("idle", *idle)?;
        is_measurable("interrupts", *interrupts)?;
    }
    most("ends of the network", ends.len(), NETWORK_ENDS)?;
    ends.iter_mut().try_for_each(network_end)
}

fn network_end(end: &mut NetworkEnd) -> Checked {
    let NetworkEnd {
        side: _,
        segments_sent,
        segments_received,
        retransmitted,
        out_of_order,
        softnet_dropped,
        links,
    } = end;
    counts(&[
        ("segments_sent", *segments_sent),
        ("segments_received", *segments_received),
        ("retransmitted", *retransmitted),
        ("out_of_order", *out_of_order),
        ("softnet_dropped", *softnet_dropped),
    ])?;
    most("links", links.len(), NAMES)?;
    for link in links {
        let Link {
            name,
            received_bytes,
            sent_bytes,
            sent_packets,
            received_packets,
            receive_dropped,
            queue_dropped,
            bits_per_s,
        } = link;
        short_text("link", name)?;
        counts(&[
            ("received_bytes", *received_bytes),
            ("sent_bytes", *sent_bytes),
            ("sent_packets", *sent_packets),
            ("received_packets", *received_packets),
            ("receive_dropped", *receive_dropped),
            ("queue_dropped", queue_dropped.unwrap_or(0)),
            ("bits_per_s", bits_per_s.unwrap_or(0)),
        ])?;
    }
    Ok(())
}
