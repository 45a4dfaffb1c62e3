//! Whether the server kept up: where it did not, figures depend on how long one looks.

use record::load::{Fault, LoadResult};

use crate::schedule::{Arrivals, Schedule};
use crate::traffic::Traffic;

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
