//! Whether the client was the limit: said before any figure, because then the figures are the client's. And whether the
//! server kept up: where it did not, figures depend on how long one looks.

use record::load::{Fault, LoadResult};
use record::units::{self, significant};

use crate::schedule::{Arrivals, Schedule};
use crate::traffic::Traffic;

/// A thread that is busy for a larger share of the window has no time to spare.
const BUSY: f64 = 0.9;

/// Lateness at the 99th percentile above this share of the latency there shapes the result.
const LATE: f64 = 0.1;

/// Share of the requests of an open loop that may wait longer and longer, or too long, before it is said.
const BEHIND: f64 = 0.01;

/// Whether the server did not keep up with an open loop; never in a closed one, which waits for it.
///
/// Either what waited became more by over 1 % of what was due, and by more than can be under way at once and than
/// chance explains (three standard deviations of random arrivals); or the queue was as long as the deadline lets it be,
/// so that over 1 % was not answered in time.
pub fn falls_behind(result: &LoadResult, traffic: &Traffic) -> bool {
    let Schedule::Open { arrivals, .. } = traffic.schedule else {
        return false;
    };
    let (planned, seats) = (result.planned as f64, u64::from(traffic.seats()));
    let chance = match arrivals {
        Arrivals::Constant => 0.0,
        Arrivals::Poisson => 3.0 * planned.sqrt(),
    };
    let grown = result.backlog_close as f64 - result.backlog_open as f64;
    let most = (seats as f64).max(BEHIND * planned).max(chance);
    let is_full = result.backlog_close > seats && late_count(result) as f64 > BEHIND * planned;
    grown > most || is_full
}

/// Requests that were never sent, or not answered by their deadline.
pub fn late_count(result: &LoadResult) -> u64 {
    let late = [
        Fault::ConnectTimeout,
        Fault::FirstByteTimeout,
        Fault::WholeTimeout,
    ];
    let of = |fault| result.faults.get(&fault).copied().unwrap_or(0);
    result.unsent + late.map(of).iter().sum::<u64>()
}

/// What a reader must know before the figures; empty when the client was not the limit.
pub fn warnings(result: &LoadResult) -> Vec<String> {
    let mut warnings = Vec::new();
    let window_ns = result.window_ns.max(1) as f64;
    let busy = result
        .client_cpu_ns
        .iter()
        .map(|cpu_ns| *cpu_ns as f64 / window_ns);
    let busiest = busy.fold(0.0, f64::max);
    if busiest > BUSY {
        warnings.push(format!(
            "client was the limit: a client thread was busy for {} % of the time (give it more threads)",
            significant(busiest * 100.0, 2)
        ));
    }
    let (late_ns, latency_ns) = (
        result.lateness.quantile_ns(0.99),
        result.latency.quantile_ns(0.99),
    );
    if late_ns as f64 > LATE * latency_ns as f64 && result.latency.count() > 0 {
        warnings.push(format!(
            "client was late: 1 of 100 requests began {} us or more after it was due, of {} us of latency \
             (give the client CPUs of its own, or lower the rate)",
            significant(late_ns as f64 / 1e3, 3),
            significant(latency_ns as f64 / 1e3, 3)
        ));
    }
    if result.connections_held < result.connections_asked {
        warnings.push(format!(
            "fewer connections than asked for: {} of {} (see the faults)",
            result.connections_held, result.connections_asked
        ));
    }
    let own = result
        .faults
        .iter()
        .filter(|(fault, count)| fault.is_clients_own() && **count > 0);
    warnings.extend(own.map(|(fault, count)| {
        let remedy = remedy(*fault);
        format!(
            "client failed {count} of {} requests: {remedy}",
            result.planned
        )
    }));
    if result.unsent > 0 {
        warnings.push(format!(
            "never sent: {} of {} requests (all connections were busy; ask for more connections, or a lower rate)",
            result.unsent, result.planned
        ));
    }
    if result.withdrawn > 0 {
        warnings.push(format!(
            "ended early after {}: {} requests were given up",
            units::show_duration(std::time::Duration::from_millis(
                result.window_ns / 1_000_000
            )),
            result.withdrawn
        ));
    }
    warnings
}

fn remedy(fault: Fault) -> &'static str {
    match fault {
        Fault::ClientNoPort => {
            "no source port left (keep connections alive, or name more source addresses)"
        }
        Fault::ClientNoDescriptor => "no descriptor left (raise the limit of open files)",
        Fault::ClientNoMemory => "no memory left (ask for fewer connections)",
        Fault::ClientLate => {
            "too late to send (give the client CPUs of its own, or lower the rate)"
        }
        Fault::ConnectFailed
        | Fault::Reset
        | Fault::EarlyClose
        | Fault::WriteFailed
        | Fault::ConnectTimeout
        | Fault::FirstByteTimeout
        | Fault::WholeTimeout
        | Fault::BadStatus
        | Fault::BadLength
        | Fault::BadContent
        | Fault::Malformed => unreachable!("only the client's own faults are asked for"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect as Snapshot, expect};

    fn check(spoil: fn(&mut LoadResult), expected: &Snapshot) {
        let mut result = LoadResult {
            window_ns: 2_000_000_000,
            planned: 100,
            ok: 100,
            connections_asked: 4,
            connections_held: 4,
            client_cpu_ns: vec![1_000_000_000, 1_200_000_000],
            ..LoadResult::default()
        };
        (0..100).for_each(|_| result.latency.record(1_000_000));
        (0..100).for_each(|_| result.lateness.record(5_000));
        spoil(&mut result);
        expected.assert_eq(&warnings(&result).join("\n"));
    }

    #[test]
    fn a_client_that_kept_up_is_not_mentioned() {
        check(|_| {}, &expect![""]);
    }

    #[test]
    fn a_client_that_was_the_limit_says_so() {
        check(
            |result| result.client_cpu_ns[1] = 1_990_000_000,
            &expect![
                "client was the limit: a client thread was busy for 100 % of the time (give it more threads)"
            ],
        );
        check(
            |result| (0..10).for_each(|_| result.lateness.record(600_000)),
            &expect![
                "client was late: 1 of 100 requests began 600 us or more after it was due, of 1000 us of latency (give the client CPUs of its own, or lower the rate)"
            ],
        );
    }

    #[test]
    fn everything_that_was_not_sent_is_mentioned() {
        check(
            |result| {
                result.connections_held = 3;
                result.faults = [(Fault::ClientNoPort, 7), (Fault::Reset, 1)].into();
                result.unsent = 5;
                result.withdrawn = 2;
            },
            &expect![[r"
                fewer connections than asked for: 3 of 4 (see the faults)
                client failed 7 of 100 requests: no source port left (keep connections alive, or name more source addresses)
                never sent: 5 of 100 requests (all connections were busy; ask for more connections, or a lower rate)
                ended early after 2s: 2 requests were given up"]],
        );
    }
}
