//! Finds what limits an arm's figures: the clients, the network, the server, or none of them. All thresholds are here, each with its
//! reason.
//!
//! ```text
//! a sign of the clients' CPUs          client-limited
//! a sign of the network                network-bound
//! near the ceiling                     the one of these two that limited the null server's run
//! a rate that the server kept up with  server not saturated
//! a closed loop that left CPUs idle    server not saturated
//! else                                 server-limited, if the clients have separate CPUs or a ceiling is known
//! ```

use plan::Arm;
use record::evidence::Usage;
use record::journal;
use record::load_path::{Ceiling, CeilingOutcome, Link, LoadPace, LoadPath, NetworkEnd, Side};
use record::metric::{Direction, Role};
use record::rundir::Run;
use record::trial::Measurement;
use record::verdict::limit::{ArmLimit, CeilingUse, DropPlace, Limit, LimitSign, LimitedArm};

use crate::topics::metrics::measured::Measured;
use stats::average::mean;

/// Share of the ceiling above which an arm is near it. A server without any cost would be less than half as fast again there, and a
/// difference between two servers shows as less than a third of its size.
const CEILING: f64 = 0.7;

/// Share above which the null server was too slow to be a ceiling. A smaller excess over 1 is chance.
const ABOVE_CEILING: f64 = 1.1;

/// Share of the window that a client's thread, and a client's CPU beside its interrupts, must have left.
const CLIENT_IDLE: f64 = 0.2;

/// Share of the window that a client's thread may wait for a CPU. Beyond it, the same clients on a separate CPU could send twice as
/// many requests. A shorter wait is hidden if other connections wait for the server meanwhile.
const WAITING: f64 = 0.5;

/// Share of a link's speed above which it is near its line rate: bursts fill the rest.
const LINE: f64 = 0.8;

/// Share of segments or packets that may be lost, as many as a 99th percentile ignores.
const LOST: f64 = 0.01;

/// Share of the CPU time above which a closed loop that leaves it idle has not saturated the server.
const IDLE: f64 = 0.1;

/// The limit of one arm with its signs; `None` if clients and network were not observed.
pub(crate) fn of(
    run: &Run,
    trials: &[&Measurement],
    workload: &str,
    arm: &Arm,
) -> Option<ArmLimit> {
    let trials = trials.iter().filter_map(|trial| TrialLoad::of(trial));
    let trials: Vec<TrialLoad<'_>> = trials.collect();
    let first = trials.first()?.path;
    let ceiling = journal::ceiling(&run.entries, workload, run.plan.cpus(arm));
    let served_per_s = mean(&trials, |trial| trial.served_per_s);
    let (ceiling_use, near) = use_of(ceiling, served_per_s, cpu_ns_per_request(&trials));
    let (one_fewer, moved) = one_fewer::of(run, workload, &arm.name);
    let mut signs = client_signs(&trials);
    signs.extend(moved);
    signs.extend(network_signs(&trials));
    signs.extend(near);
    signs.extend(server_signs(&trials));
    Some(ArmLimit {
        limit: limit(&signs, first, &ceiling_use),
        pace: first.pace,
        ceiling: ceiling_use,
        one_fewer,
        client_busy: (!watches_clock(first)).then(|| mean(&trials, |trial| trial.client_busy)),
        retransmitted: retransmits(&trials)
            .into_iter()
            .map(|(_, share)| share)
            .reduce(f64::max),
        line_share: line_shares(&trials)
            .into_iter()
            .map(|(_, _, share)| share)
            .reduce(f64::max),
        signs,
    })
}

/// The limits of a comparison's arms that must be reported beside its verdict.
pub(crate) fn limited_arms(
    run: &Run,
    measured: &Measured<'_>,
    workload: &str,
    arm: &str,
) -> Vec<LimitedArm> {
    let names = [run.plan.baseline.as_str(), arm];
    let arms = run.plan.arms.iter();
    let mut limited = Vec::new();
    for arm in arms.filter(|arm| names.contains(&arm.name.as_str())) {
        let trials = measured.of_arm(workload, &arm.name);
        let limit = of(run, &trials, workload, arm).and_then(|found| found.limit);
        let limit = limit.filter(|limit| matters(*limit, &trials));
        limited.extend(limit.map(|limit| LimitedArm {
            arm: arm.name.clone(),
            limit,
        }));
    }
    limited
}

/// Whether the primary figure does not measure the server because of a limit.
fn matters(limit: Limit, trials: &[&Measurement]) -> bool {
    let mut figures = trials.first().into_iter().flat_map(|trial| &trial.figures);
    let primary = figures.find(|figure| figure.spec.role == Role::Primary);
    match limit {
        Limit::Clients | Limit::Network => true,
        // Latency is valid while the server has spare time; throughput is not.
        Limit::NotSaturated => {
            primary.is_none_or(|figure| figure.spec.direction == Direction::Higher)
        }
        Limit::Server => false,
    }
}

/// Load and load path of one trial.
struct TrialLoad<'t> {
    path: &'t LoadPath,
    usage: &'t Usage,
    served_per_s: f64,
    cpu_ns_per_request: Option<f64>,
    client_busy: f64,
    client_waited: f64,
    lost_share: f64,
    window_s: f64,
}

impl<'t> TrialLoad<'t> {
    fn of(trial: &'t Measurement) -> Option<Self> {
        let (load, path) = trial.load.as_ref().zip(trial.path.as_ref())?;
        let mut lost: u64 = 0;
        for (fault, count) in &load.faults {
            if fault.is_clients_own() {
                lost = lost.saturating_add(*count);
            }
        }
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

/// Whether client threads poll the clock in their spare time, so that they are always busy.
fn watches_clock(path: &LoadPath) -> bool {
    match path.pace {
        LoadPace::Closed => false,
        LoadPace::Thinking | LoadPace::Kept | LoadPace::Behind | LoadPace::TooFewConnections => {
            true
        }
    }
}

/// CPU time of a request in clients and services, mean over trials. `None` if it is unknown in some trial.
fn cpu_ns_per_request(trials: &[TrialLoad<'_>]) -> Option<f64> {
    let times: Option<Vec<f64>> = trials
        .iter()
        .map(|trial| trial.cpu_ns_per_request)
        .collect();
    Some(mean(&times?, |ns| *ns))
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
    // Other processes on shared CPUs lower the rate of both servers, but not the CPU time per request.
    let times = times.filter(|_| ceiling.is_shared);
    let share = match times {
        Some((null_server, server)) => null_server / server.max(f64::MIN_POSITIVE),
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
        is_of_clients: clients_limited_null_server(ceiling),
    });
    let known = CeilingUse::Known {
        requests_per_s,
        share,
        is_of_cpu_time: times.is_some(),
    };
    (known, near)
}

/// Whether the clients, including the kernel's work for them, limited the requests to the null server.
fn clients_limited_null_server(ceiling: &Ceiling) -> bool {
    if ceiling.is_shared {
        // Clients and null server share these CPUs, so waiting for one does not show which of them is the limit.
        ceiling.cpu_idle < CLIENT_IDLE
    } else {
        ceiling.client_busy > 1.0 - CLIENT_IDLE || ceiling.client_waited > WAITING
    }
}

fn client_signs(trials: &[TrialLoad<'_>]) -> Vec<LimitSign> {
    let mut signs = Vec::new();
    let first = trials[0].path;
    let has_separate_cpus = !first.is_shared;
    let busy = mean(trials, |trial| trial.client_busy);
    let waited = mean(trials, |trial| trial.client_waited);
    // On shared CPUs a thread that waits for a CPU waits for the server. If threads poll the clock, the send delay is the sign.
    if has_separate_cpus && !watches_clock(first) {
        if busy > 1.0 - CLIENT_IDLE {
            signs.push(LimitSign::BusyThread { share: busy });
        } else if waited > WAITING {
            signs.push(LimitSign::WaitingThread { share: waited });
        }
    }
    if has_separate_cpus
        && let Some((cpu, share)) = busiest_in_interrupts(trials)
        && share > 1.0 - CLIENT_IDLE
    {
        signs.push(LimitSign::BusyInterrupts { cpu, share });
    }
    let late = trials.iter().filter_map(|trial| trial.path.sent_late);
    let mut late: Vec<_> = late.collect();
    // If most trials sent late, the sign is the median of those.
    if late.len() * 2 > trials.len() {
        late.sort_by_key(|late| late.send_delay_ns);
        signs.push(LimitSign::SentLate(late[late.len() / 2]));
    }
    let lost = mean(trials, |trial| trial.lost_share);
    if lost > LOST {
        signs.push(LimitSign::LostByClients { share: lost });
    }
    signs
}

fn busiest_in_interrupts(trials: &[TrialLoad<'_>]) -> Option<(u32, f64)> {
    let interrupts = |number: u32| {
        mean(trials, |trial| {
            let cpus = trial.path.cpus.iter().filter(|cpu| cpu.cpu == number);
            cpus.map(|cpu| cpu.interrupts).sum()
        })
    };
    let cpus = trials[0].path.cpus.iter();
    let cpus = cpus.map(|cpu| (cpu.cpu, interrupts(cpu.cpu)));
    cpus.max_by(|(_, left), (_, right)| left.total_cmp(right))
}

fn network_signs(trials: &[TrialLoad<'_>]) -> Vec<LimitSign> {
    let mut signs = Vec::new();
    for (side, link, share) in line_shares(trials) {
        if share > LINE {
            signs.push(LimitSign::NearLineRate { link, side, share });
        }
    }
    for (side, share) in retransmits(trials) {
        if share > LOST {
            signs.push(LimitSign::Retransmits { side, share });
        }
    }
    for side in [Side::Clients, Side::Server] {
        let received = total(trials, side, |end| end.segments_received);
        let out_of_order = total(trials, side, |end| end.out_of_order);
        let out_of_order = share(out_of_order, received);
        if out_of_order > LOST {
            signs.push(LimitSign::OutOfOrder {
                side,
                share: out_of_order,
            });
        }
        let dropped = total(trials, side, |end| end.softnet_dropped);
        let dropped = share(dropped, received);
        if dropped > LOST {
            signs.push(LimitSign::Dropped {
                place: DropPlace::Softnet,
                side,
                link: None,
                share: dropped,
            });
        }
    }
    signs.extend(drops_at_links(trials));
    signs
}

/// Packets that interfaces and their queues dropped.
fn drops_at_links(trials: &[TrialLoad<'_>]) -> Vec<LimitSign> {
    let places: [(DropPlace, LinkCounter, LinkCounter); 2] = [
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
    for (side, link) in links(trials) {
        for (place, dropped, passed) in places {
            let [dropped, passed] =
                [dropped, passed].map(|counter| link_total(trials, side, &link, counter));
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

/// Reads a counter of a link.
type LinkCounter = fn(&Link) -> u64;

/// The links of the first trial.
fn links(trials: &[TrialLoad<'_>]) -> Vec<(Side, String)> {
    let ends = trials[0].path.ends.iter();
    ends.flat_map(|end| end.links.iter().map(|link| (end.side, link.name.clone())))
        .collect()
}

/// A link's counter, summed over trials.
fn link_total(trials: &[TrialLoad<'_>], side: Side, name: &str, counter: LinkCounter) -> u64 {
    let ends = trials.iter().flat_map(|trial| &trial.path.ends);
    let links = ends
        .filter(|end| end.side == side)
        .flat_map(|end| &end.links);
    let counts = links.filter(|link| link.name == name).map(counter);
    counts.fold(0, u64::saturating_add)
}

/// A counter of one side, summed over trials.
fn total(trials: &[TrialLoad<'_>], side: Side, counter: fn(&NetworkEnd) -> u64) -> u64 {
    let ends = trials.iter().flat_map(|trial| &trial.path.ends);
    let counts = ends.filter(|end| end.side == side).map(counter);
    counts.fold(0, u64::saturating_add)
}

/// Retransmitted segments as a share of all sent segments, for each side that sent any.
fn retransmits(trials: &[TrialLoad<'_>]) -> Vec<(Side, f64)> {
    let mut shares = Vec::new();
    for side in [Side::Clients, Side::Server] {
        let sent = total(trials, side, |end| end.segments_sent);
        let again = total(trials, side, |end| end.retransmitted);
        let all = sent.saturating_add(again);
        if all > 0 {
            shares.push((side, share(again, all)));
        }
    }
    shares
}

/// The used share of each link's speed, in its busier direction. Links of unknown speed are left out.
fn line_shares(trials: &[TrialLoad<'_>]) -> Vec<(Side, String, f64)> {
    let seconds: f64 = trials.iter().map(|trial| trial.window_s).sum();
    let mut shares = Vec::new();
    for end in &trials[0].path.ends {
        for link in &end.links {
            let Some(bits_per_s) = link.bits_per_s else {
                continue;
            };
            let received = link_total(trials, end.side, &link.name, |link| link.received_bytes);
            let sent = link_total(trials, end.side, &link.name, |link| link.sent_bytes);
            let bits = received.max(sent) as f64 * 8.0;
            let share = bits / seconds.max(f64::MIN_POSITIVE) / bits_per_s as f64;
            shares.push((end.side, link.name.clone(), share));
        }
    }
    shares
}

fn server_signs(trials: &[TrialLoad<'_>]) -> Vec<LimitSign> {
    let first = trials[0].path;
    let mut signs = Vec::new();
    if trials.iter().all(|trial| trial.path.pace == LoadPace::Kept) {
        signs.push(LimitSign::RateKept);
    }
    // The idle time is that of the clients' CPUs, so it says something about the server only if they share them.
    let idle = mean(trials, |trial| trial.usage.cpu_idle);
    if first.is_shared && first.pace == LoadPace::Closed && idle > IDLE {
        signs.push(LimitSign::IdleCpu { share: idle });
    }
    signs
}

/// The limit that the signs show.
fn limit(signs: &[LimitSign], path: &LoadPath, ceiling: &CeilingUse) -> Option<Limit> {
    // The first sign decides. Those of the clients come first, because a slow client can fill a queue of the network.
    let limit = signs.first().map(|sign| match sign {
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
    if limit.is_some() {
        return limit;
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

mod one_fewer;
#[cfg(test)]
mod tests;
