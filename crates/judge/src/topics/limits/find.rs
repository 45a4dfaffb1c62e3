//! What set an arm's figures: clients, network, server, or nothing that was at its end. All thresholds stand here, each with
//! its reason.
//!
//! ```text
//! a sign of the clients' CPUs          client-limited
//! a sign of the network                network-bound
//! near the ceiling                     whichever of the two ended the null server's run
//! a rate that the server kept up with  server not saturated
//! a closed loop that left CPUs idle    server not saturated
//! else                                 server-limited, where the clients have CPUs of their own or a ceiling is known
//! ```

use plan::Arm;
use record::evidence::Usage;
use record::journal;
use record::load_path::{Ceiling, CeilingOutcome, Link, LoadPace, LoadPath, NetworkEnd, Side};
use record::metric::{Direction, Role};
use record::rundir::Run;
use record::trial::Measurement;
use record::verdict::limit::{ArmLimit, CeilingUse, DropPlace, Limit, LimitSign, LimitedArm};

use crate::topics::metrics::pair::Measured;
use stats::average::mean;

/// Share of the ceiling that an arm may reach: beyond it a server that costs nothing at all would be less than half as fast
/// again, and a difference between two servers shows as less than a third of what it is.
const CEILING: f64 = 0.7;

/// An arm that serves so many times as much as a null server shows that this was none; below it is chance.
const ABOVE_CEILING: f64 = 1.1;

/// Share of the window that must be left to a client's thread, and to a client's CPU beside its interrupts.
const CLIENT_IDLE: f64 = 0.2;

/// Share of the window that a client's thread may wait for a CPU, however little it runs: beyond it, the same clients on a CPU of
/// their own could ask twice as often. Less is hidden where several connections wait for the server meanwhile.
const WAITING: f64 = 0.5;

/// Share of a link's speed that may be used: bursts fill the rest.
const LINE: f64 = 0.8;

/// Share of segments or packets that may be lost: as many as a 99th percentile leaves out.
const LOST: f64 = 0.01;

/// Share of the CPU time that a closed loop may leave idle before the server counts as not saturated.
const IDLE: f64 = 0.1;

/// What set the figures of one arm; `None` where clients and network were not looked at.
pub(crate) fn of(
    run: &Run,
    trials: &[&Measurement],
    workload: &str,
    arm: &Arm,
) -> Option<ArmLimit> {
    let seen: Vec<Seen<'_>> = trials.iter().filter_map(|trial| Seen::of(trial)).collect();
    let first = seen.first()?.path;
    let ceiling = journal::ceiling(&run.entries, workload, run.plan.cpus(arm));
    let served_per_s = mean(&seen, |one| one.served_per_s);
    let (ceiling_use, near) = use_of(ceiling, served_per_s, cpu_ns_per_request(&seen));
    let (one_fewer, moved) = one_fewer::of(run, (workload, &arm.name));
    let mut signs = client_signs(&seen);
    signs.extend(moved);
    signs.extend(network_signs(&seen));
    signs.extend(near);
    signs.extend(server_signs(&seen));
    Some(ArmLimit {
        limit: limit(&signs, first, &ceiling_use),
        pace: first.pace,
        ceiling: ceiling_use,
        one_fewer,
        client_busy: (!watches_clock(first)).then(|| mean(&seen, |one| one.client_busy)),
        retransmitted: most(retransmits(&seen).into_iter().map(|(_, share)| share)),
        line_share: most(line_shares(&seen).into_iter().map(|(_, _, share)| share)),
        signs,
    })
}

/// Arms of a comparison whose limit belongs beside its verdict.
pub(crate) fn said_first(
    run: &Run,
    measured: &Measured<'_>,
    (workload, arm): (&str, &str),
) -> Vec<LimitedArm> {
    let names = [run.plan.baseline.as_str(), arm];
    let arms = run.plan.arms.iter();
    let mut said = Vec::new();
    for one in arms.filter(|one| names.contains(&one.name.as_str())) {
        let trials = measured.of_arm(workload, &one.name);
        let limit = of(run, &trials, workload, one).and_then(|own| own.limit);
        let limit = limit.filter(|limit| matters(*limit, &trials));
        said.extend(limit.map(|limit| LimitedArm {
            arm: one.name.clone(),
            limit,
        }));
    }
    said
}

/// Whether a limit makes the primary figure another one than the server's.
fn matters(limit: Limit, trials: &[&Measurement]) -> bool {
    let primary = |trial: &&&Measurement| {
        let mut figures = trial.figures.iter();
        figures.find(|one| one.spec.role == Role::Primary).cloned()
    };
    let primary = trials.first().as_ref().and_then(primary);
    match limit {
        Limit::Clients | Limit::Network => true,
        // A wait is measured where the server has time to spare; a rate is not.
        Limit::NotSaturated => primary.is_none_or(|one| one.spec.direction == Direction::Higher),
        Limit::Server => false,
    }
}

/// One trial, as far as it matters here.
struct Seen<'t> {
    path: &'t LoadPath,
    usage: &'t Usage,
    served_per_s: f64,
    cpu_ns_per_request: Option<f64>,
    client_busy: f64,
    client_waited: f64,
    lost_share: f64,
    window_s: f64,
}

impl<'t> Seen<'t> {
    fn of(trial: &'t Measurement) -> Option<Self> {
        let (load, path) = trial.load.as_ref().zip(trial.path.as_ref())?;
        let faults = load.faults.iter();
        let lost = faults.filter(|(fault, _)| fault.is_clients_own());
        let lost = lost.fold(0, |sum: u64, (_, count)| sum.saturating_add(*count));
        Some(Self {
            path,
            usage: &trial.usage,
            served_per_s: load.ok_per_s(),
            cpu_ns_per_request: path
                .cpu_ns
                .map(|ns| ns as f64 / load.ok_in_window.max(1) as f64),
            client_busy: load.client_busy(),
            client_waited: load.client_waited(),
            lost_share: share(lost, load.planned),
            window_s: load.window_ns as f64 / 1e9,
        })
    }
}

/// Whether client threads spend what is left of their time on looking at the clock.
fn watches_clock(path: &LoadPath) -> bool {
    match path.pace {
        LoadPace::Closed => false,
        LoadPace::Thinking | LoadPace::Kept | LoadPace::Behind | LoadPace::TooFewConnections => {
            true
        }
    }
}

/// CPU time of a request, clients and services together, mean over trials.
fn cpu_ns_per_request(seen: &[Seen<'_>]) -> Option<f64> {
    let each: Option<Vec<f64>> = seen.iter().map(|one| one.cpu_ns_per_request).collect();
    each.map(|each| mean(&each, |one| *one))
}

fn use_of(
    ceiling: Option<&CeilingOutcome>,
    served_per_s: f64,
    cpu_ns_per_request: Option<f64>,
) -> (CeilingUse, Option<LimitSign>) {
    let ceiling = match ceiling {
        None => return (CeilingUse::NotKnown, None),
        Some(CeilingOutcome::Failed { detail }) => {
            let detail = detail.clone();
            return (CeilingUse::Failed { detail }, None);
        }
        Some(CeilingOutcome::Measured(ceiling)) => ceiling,
    };
    let requests_per_s = ceiling.requests_per_s;
    let times = ceiling.cpu_ns_per_request.zip(cpu_ns_per_request);
    let times = times.filter(|_| ceiling.is_shared);
    // While something else ran on these CPUs, fewer requests were served of either server, but none took more CPU time.
    let share = match times {
        Some((least, own)) => least / own.max(f64::MIN_POSITIVE),
        None => served_per_s / requests_per_s.max(f64::MIN_POSITIVE),
    };
    if share > ABOVE_CEILING {
        let too_low = CeilingUse::TooLow {
            requests_per_s,
            share,
        };
        return (too_low, None);
    }
    let near = (share > CEILING).then(|| LimitSign::NearCeiling {
        share,
        is_of_clients: ended_by_clients(ceiling),
    });
    let known = CeilingUse::Known {
        requests_per_s,
        share,
        is_of_cpu_time: times.is_some(),
    };
    (known, near)
}

/// Whether the clients, with what the kernel does for them, were what kept a null server's requests from becoming more.
fn ended_by_clients(ceiling: &Ceiling) -> bool {
    if ceiling.is_shared {
        // They wait for CPUs that the null server has, which are as much theirs.
        ceiling.cpu_idle < CLIENT_IDLE
    } else {
        ceiling.client_busy > 1.0 - CLIENT_IDLE || ceiling.client_waited > WAITING
    }
}

fn client_signs(seen: &[Seen<'_>]) -> Vec<LimitSign> {
    let mut signs = Vec::new();
    let first = seen[0].path;
    let own_cpus = !first.is_shared;
    let busy = mean(seen, |one| one.client_busy);
    let waited = mean(seen, |one| one.client_waited);
    // Where a thread waits for a CPU that the server has, it is the server that it waits for. Of threads that watch the clock the send
    // delay tells.
    if own_cpus && !watches_clock(first) {
        if busy > 1.0 - CLIENT_IDLE {
            signs.push(LimitSign::BusyThread { share: busy });
        } else if waited > WAITING {
            signs.push(LimitSign::WaitingThread { share: waited });
        }
    }
    if own_cpus
        && let Some((cpu, share)) = busiest_in_interrupts(seen)
        && share > 1.0 - CLIENT_IDLE
    {
        signs.push(LimitSign::BusyInterrupts { cpu, share });
    }
    let late: Vec<_> = seen.iter().filter_map(|one| one.path.sent_late).collect();
    // The middle one of those that were late, where most were.
    if late.len() * 2 > seen.len() {
        let mut late = late;
        late.sort_by_key(|one| one.send_delay_ns);
        signs.push(LimitSign::SentLate(late[late.len() / 2]));
    }
    let lost = mean(seen, |one| one.lost_share);
    if lost > LOST {
        signs.push(LimitSign::LostByClients { share: lost });
    }
    signs
}

fn busiest_in_interrupts(seen: &[Seen<'_>]) -> Option<(u32, f64)> {
    let of_cpu = |cpu: u32| {
        mean(seen, |one| {
            let cpus = one.path.cpus.iter();
            let its = cpus.filter(|own| own.cpu == cpu);
            its.map(|own| own.interrupts).sum()
        })
    };
    let cpus = seen[0]
        .path
        .cpus
        .iter()
        .map(|own| (own.cpu, of_cpu(own.cpu)));
    cpus.max_by(|one, other| one.1.total_cmp(&other.1))
}

fn network_signs(seen: &[Seen<'_>]) -> Vec<LimitSign> {
    let mut signs = Vec::new();
    for (side, link, share) in line_shares(seen) {
        if share > LINE {
            signs.push(LimitSign::NearLineRate { link, side, share });
        }
    }
    for (side, share) in retransmits(seen) {
        if share > LOST {
            signs.push(LimitSign::Retransmits { side, share });
        }
    }
    for side in [Side::Clients, Side::Server] {
        let of_end = |of: fn(&NetworkEnd) -> u64| total(seen, side, of);
        let received = of_end(|end| end.segments_received);
        let late = share(of_end(|end| end.out_of_order), received);
        if late > LOST {
            signs.push(LimitSign::OutOfOrder { side, share: late });
        }
        let dropped = share(of_end(|end| end.softnet_dropped), received);
        if dropped > LOST {
            signs.push(LimitSign::Dropped {
                place: DropPlace::Softnet,
                side,
                link: None,
                share: dropped,
            });
        }
    }
    signs.extend(drops_at_links(seen));
    signs
}

/// Packets that interfaces and their queues dropped.
fn drops_at_links(seen: &[Seen<'_>]) -> Vec<LimitSign> {
    let places: [(DropPlace, CountOf, CountOf); 2] = [
        (
            DropPlace::Queue,
            |link| link.queue_dropped.unwrap_or(0),
            |link| link.sent_packets,
        ),
        (
            DropPlace::Interface,
            |link| link.receive_dropped,
            |link| link.received_packets,
        ),
    ];
    let mut signs = Vec::new();
    for (side, link) in links(seen) {
        for (place, dropped, passed) in places {
            let sum = |of: CountOf| sum_of_link(seen, side, &link, of);
            let (dropped, passed) = (sum(dropped), sum(passed));
            let share = share(dropped, dropped.saturating_add(passed));
            if share > LOST {
                signs.push(LimitSign::Dropped {
                    place,
                    side,
                    link: Some(link.clone()),
                    share,
                });
            }
        }
    }
    signs
}

/// A counter of a link.
type CountOf = fn(&Link) -> u64;

/// The links of the first trial.
fn links(seen: &[Seen<'_>]) -> Vec<(Side, String)> {
    let ends = seen[0].path.ends.iter();
    ends.flat_map(|end| end.links.iter().map(|link| (end.side, link.name.clone())))
        .collect()
}

fn sum_of_link(seen: &[Seen<'_>], side: Side, name: &str, of: CountOf) -> u64 {
    let ends = seen.iter().flat_map(|one| &one.path.ends);
    let links = ends
        .filter(|end| end.side == side)
        .flat_map(|end| &end.links);
    let counts = links.filter(|link| link.name == name).map(of);
    counts.fold(0, u64::saturating_add)
}

/// A counter of one side, all trials together.
fn total(seen: &[Seen<'_>], side: Side, of: fn(&NetworkEnd) -> u64) -> u64 {
    let ends = seen.iter().flat_map(|one| &one.path.ends);
    let counts = ends.filter(|end| end.side == side).map(of);
    counts.fold(0, u64::saturating_add)
}

/// Segments sent again, as a share of those sent, of each side that sent any.
fn retransmits(seen: &[Seen<'_>]) -> Vec<(Side, f64)> {
    let of_side = |side| {
        let sent = total(seen, side, |end| end.segments_sent);
        let again = total(seen, side, |end| end.retransmitted);
        let all = sent.saturating_add(again);
        (all > 0).then(|| (side, share(again, all)))
    };
    [Side::Clients, Side::Server]
        .into_iter()
        .filter_map(of_side)
        .collect()
}

/// What was used of each link's speed, in the direction in which more went.
fn line_shares(seen: &[Seen<'_>]) -> Vec<(Side, String, f64)> {
    let seconds: f64 = seen.iter().map(|one| one.window_s).sum();
    let of_link = |(side, link): (Side, String)| {
        let ends = seen[0].path.ends.iter().filter(|end| end.side == side);
        let mut its = ends.flat_map(|end| &end.links);
        let bits_per_s = its.find(|own| own.name == link)?.bits_per_s?;
        let sum = |of: CountOf| sum_of_link(seen, side, &link, of);
        let bytes = sum(|own| own.received_bytes).max(sum(|own| own.sent_bytes));
        let share = bytes as f64 * 8.0 / seconds.max(f64::MIN_POSITIVE) / bits_per_s as f64;
        Some((side, link, share))
    };
    links(seen).into_iter().filter_map(of_link).collect()
}

fn server_signs(seen: &[Seen<'_>]) -> Vec<LimitSign> {
    let first = seen[0].path;
    let mut signs = Vec::new();
    if seen.iter().all(|one| one.path.pace == LoadPace::Kept) {
        signs.push(LimitSign::RateKept);
    }
    // Only where the clients' CPUs are the server's is anything known of those here.
    let idle = mean(seen, |one| one.usage.cpu_idle);
    if first.is_shared && first.pace == LoadPace::Closed && idle > IDLE {
        signs.push(LimitSign::IdleCpu { share: idle });
    }
    signs
}

/// What the signs come to.
fn limit(signs: &[LimitSign], path: &LoadPath, ceiling: &CeilingUse) -> Option<Limit> {
    // They stand in this order, so the first one that says anything decides; a queue that fills because a client is slow to
    // take from it is the client's doing.
    let said = signs.iter().map(|sign| match sign {
        LimitSign::BusyThread { .. }
        | LimitSign::WaitingThread { .. }
        | LimitSign::BusyInterrupts { .. }
        | LimitSign::SentLate(_)
        | LimitSign::LostByClients { .. }
        | LimitSign::OneClientFewer { .. }
        | LimitSign::NearCeiling {
            is_of_clients: true,
            ..
        } => Limit::Clients,
        LimitSign::NearCeiling {
            is_of_clients: false,
            ..
        }
        | LimitSign::NearLineRate { .. }
        | LimitSign::Retransmits { .. }
        | LimitSign::OutOfOrder { .. }
        | LimitSign::Dropped { .. } => Limit::Network,
        LimitSign::RateKept | LimitSign::IdleCpu { .. } => Limit::NotSaturated,
    });
    if let Some(limit) = { said }.next() {
        return Some(limit);
    }
    let is_known = matches!(ceiling, CeilingUse::Known { .. }) || !path.is_shared;
    let is_pushed = match path.pace {
        LoadPace::Closed | LoadPace::Behind => true,
        LoadPace::Thinking | LoadPace::Kept | LoadPace::TooFewConnections => false,
    };
    (is_known && is_pushed).then_some(Limit::Server)
}

fn share(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64
}

fn most(shares: impl Iterator<Item = f64>) -> Option<f64> {
    shares.reduce(f64::max)
}

mod one_fewer;
#[cfg(test)]
mod tests;
