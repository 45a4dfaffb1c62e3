//! Leads followers through one load: the same start instant for all, one result, and no follower lost in silence.

use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use load::{Tick, clock, merge};
use record::latency::Packed;
use record::load::LoadResult;

use super::order::Order;
use super::share::Share;
use super::wire::{self, LONG_BYTES, PATIENCE, Secret, Side, ToFollower, ToLeader, Wire};

/// From the last word of preparation to the start.
const LEAD_NS: u64 = 500_000_000;

/// Round trips that the two clocks are compared by; the shortest one counts.
const PINGS: u32 = 32;

/// A follower speaks every second; one that is silent for so long is lost.
const SILENCE: Duration = Duration::from_secs(10);

/// How often the leader looks whether it is to stop.
const NAP: Duration = Duration::from_millis(20);

/// What became of a follower.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Follower {
    pub(super) address: String,
    /// Its start instant may be off by so much.
    pub(super) error_ns: u64,
    /// What it saw, or why it is lost.
    pub(super) result: Result<LoadResult, String>,
}

/// What is missing, a line for each follower that is lost.
pub(super) fn losses(followers: &[Follower]) -> Vec<String> {
    let lost = followers.iter().filter_map(|follower| {
        let why = follower.result.as_ref().err()?;
        let address = &follower.address;
        Some(format!(
            "follower lost: {address}: {why} (its part is not in these figures, and the others were ended early)"
        ))
    });
    lost.collect()
}

/// A follower that is ready.
pub(super) struct Ready {
    address: String,
    wire: Wire,
    /// Its clock less this one's.
    offset_ns: i128,
    error_ns: u64,
    delay: Duration,
}

/// What a follower says, by its number.
type News = (usize, Result<ToLeader>);

/// Makes all followers ready, before any load.
pub(super) fn prepare_all(
    addresses: &[String],
    secret: &Secret,
    order: &Order,
) -> Result<Vec<Ready>> {
    let mut followers = Vec::new();
    for (number, address) in addresses.iter().enumerate() {
        let turn = (number as u32, addresses.len() as u32);
        let ready = prepare(address, secret, order, turn);
        followers.push(ready.with_context(|| format!("follower {address}"))?);
    }
    Ok(followers)
}

/// Runs the load on all followers.
pub(super) fn lead(
    mut followers: Vec<Ready>,
    stop: &AtomicBool,
    on_tick: &mut dyn FnMut(Tick),
) -> Result<Vec<Follower>> {
    let start_ns = clock::now_ns() + LEAD_NS;
    for follower in &mut followers {
        let delay_ns = follower.delay.as_nanos() as u64;
        let at_ns = i128::from(start_ns + delay_ns) + follower.offset_ns;
        let at_ns = u64::try_from(at_ns).context("a clock before its zero")?;
        follower.wire.say(&ToFollower::Start { at_ns })?;
        follower.wire.be_patient(Some(SILENCE + follower.delay))?;
    }
    watch(followers, stop, on_tick)
}

fn prepare(address: &str, secret: &Secret, order: &Order, turn: (u32, u32)) -> Result<Ready> {
    let mut wire = Wire::new(connect(address)?)?;
    greet(&mut wire, secret)?;
    let (part, delay) = merge::part(&order.traffic, turn);
    let share = Share::new(&part, order.script.as_deref());
    wire.say(&ToFollower::Prepare(Box::new(share)))?;
    match wire.hear()? {
        ToLeader::Ready => {}
        ToLeader::Refused { why } => bail!("{why}"),
        _ => bail!("out of turn (is it of this version?)"),
    }
    let (offset_ns, error_ns) = compare_clocks(&mut wire)?;
    Ok(Ready {
        address: address.into(),
        wire,
        offset_ns,
        error_ns,
        delay,
    })
}

fn connect(address: &str) -> Result<TcpStream> {
    let remedy = "start one there: bakeoff load --follow ADDRESS:PORT --secret-file FILE";
    let places = address.to_socket_addrs();
    let places = places.with_context(|| format!("not an address ({remedy})"))?;
    let mut last = anyhow::anyhow!("host without an address");
    for place in places {
        match TcpStream::connect_timeout(&place, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(why) => last = anyhow::anyhow!("not reachable: {why} ({remedy})"),
        }
    }
    Err(last)
}

/// Both sides prove that they know the secret, the leader first.
fn greet(wire: &mut Wire, secret: &Secret) -> Result<()> {
    let ToLeader::Hello {
        protocol,
        build,
        nonce,
    } = wire.hear()?
    else {
        bail!("out of turn");
    };
    wire::check_build(protocol, &build)?;
    let own = wire::nonce()?;
    let nonces = [&*nonce, &*own];
    wire.say(&ToFollower::Proof {
        nonce: own.clone(),
        proof: secret.proof(Side::Leader, nonces),
    })?;
    match wire.hear()? {
        ToLeader::Proof { proof } => ensure!(
            secret.proves(Side::Follower, nonces, &proof),
            "follower knows another secret (give all hosts the same --secret-file)"
        ),
        ToLeader::Refused { why } => bail!("{why}"),
        _ => bail!("out of turn"),
    }
    wire.limit_bytes = LONG_BYTES;
    Ok(())
}

/// The follower's clock less this one's, and how far off that may be: half the shortest round trip.
fn compare_clocks(wire: &mut Wire) -> Result<(i128, u64)> {
    let mut best = (0, u64::MAX);
    for _ in 0..PINGS {
        let asked_ns = clock::now_ns();
        wire.say(&ToFollower::Ping)?;
        let ToLeader::Pong { at_ns } = wire.hear()? else {
            bail!("out of turn");
        };
        let heard_ns = clock::now_ns();
        let error_ns = (heard_ns - asked_ns).div_ceil(2);
        if error_ns < best.1 {
            best = (
                i128::from(at_ns) - i128::from(asked_ns + error_ns),
                error_ns,
            );
        }
    }
    Ok(best)
}

/// Listens to all until each has handed in its result or is lost. One that is lost ends the load of all: less load
/// than was asked for is another experiment.
fn watch(
    followers: Vec<Ready>,
    stop: &AtomicBool,
    on_tick: &mut dyn FnMut(Tick),
) -> Result<Vec<Follower>> {
    let (tell, news) = mpsc::channel::<News>();
    let (mut done, mut speakers) = (Vec::new(), Vec::new());
    for (number, follower) in followers.into_iter().enumerate() {
        speakers.push(follower.wire.speaker()?);
        done.push((follower.address, follower.error_ns, None));
        let (tell, mut wire) = (tell.clone(), follower.wire);
        // It ends with the result, or with the connection, whose reads have a limit.
        std::thread::spawn(move || {
            loop {
                let heard = wire.hear();
                let is_last = !matches!(heard, Ok(ToLeader::Tick { .. }));
                if tell.send((number, heard)).is_err() || is_last {
                    return;
                }
            }
        });
    }
    let mut seconds = Seconds::new(done.len());
    let mut is_stopped = false;
    while done.iter().any(|(_, _, result)| result.is_none()) {
        let is_lost = done
            .iter()
            .any(|(_, _, result)| matches!(result, Some(Err(_))));
        if (is_lost || stop.load(Ordering::Relaxed)) && !is_stopped {
            is_stopped = true;
            for speaker in &mut speakers {
                // One that is gone is found to be lost by its listener.
                let _ = wire::say(speaker, &ToFollower::Stop);
            }
        }
        let (number, heard) = match news.recv_timeout(NAP) {
            Ok(each) => each,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        match heard {
            Ok(ToLeader::Tick {
                second,
                ok,
                faults,
                latency,
                counting,
            }) => {
                let tick = Tick {
                    second,
                    ok,
                    faults,
                    latency,
                    counting,
                };
                seconds.add(number, tick, on_tick);
            }
            Ok(ToLeader::Result(result)) => done[number].2 = Some(Ok(*result)),
            Ok(ToLeader::Refused { why }) => done[number].2 = Some(Err(why)),
            Ok(_) => done[number].2 = Some(Err("out of turn".into())),
            Err(why) => done[number].2 = Some(Err(format!("{why:#}"))),
        }
    }
    let follower = |(address, error_ns, result): (_, _, Option<_>)| Follower {
        address,
        error_ns,
        result: result.unwrap_or_else(|| Err("gone".into())),
    };
    Ok(done.into_iter().map(follower).collect())
}

/// The last tick of each follower; a second is told once all have told it.
struct Seconds {
    last: Vec<Option<Tick>>,
    told: u32,
}

impl Seconds {
    fn new(followers: usize) -> Self {
        Self {
            last: vec![None; followers],
            told: 0,
        }
    }

    fn add(&mut self, number: usize, tick: Tick, on_tick: &mut dyn FnMut(Tick)) {
        self.last[number] = Some(tick);
        let Some(all) = self
            .last
            .iter()
            .map(Option::as_ref)
            .collect::<Option<Vec<_>>>()
        else {
            return;
        };
        let second = all.iter().map(|tick| tick.second).min().unwrap_or(0);
        if second > self.told {
            self.told = second;
            let mut latency = Packed::default();
            for tick in &all {
                latency.merge(&tick.latency);
            }
            on_tick(Tick {
                latency,
                second,
                ok: all.iter().map(|tick| tick.ok).sum(),
                faults: all.iter().map(|tick| tick.faults).sum(),
                counting: all.iter().any(|tick| tick.counting),
            });
        }
    }
}
