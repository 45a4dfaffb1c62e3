//! Takes workers through one load: the same start instant for all, one result, and no worker lost
//! in silence.

use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use load::hosts::{Offset, PINGS, Ticks};
use load::part::Part;
use load::{clock, merge};
use record::load::{LoadResult, Tick};

use crate::load_cli::channel;
use crate::load_cli::channel::{Channel, LONG_BYTES, PATIENCE, ToCoordinator, ToWorker};
use crate::load_cli::job::Job;
use crate::load_cli::outcome::Worker;
use crate::load_cli::worker_spec::WorkerSpec;
use base::secret::{Secret, Side};

/// From the last word of preparation to the start.
const LEAD_NS: u64 = 500_000_000;

/// A worker speaks every second; one that is silent for so long is lost.
const SILENCE: Duration = Duration::from_secs(10);

/// How often the coordinator looks whether it is to stop.
const POLL: Duration = Duration::from_millis(20);

/// A worker that is ready.
pub(crate) struct Ready {
    address: String,
    channel: Channel,
    offset: Offset,
    delay: Duration,
}

/// Makes all workers ready, before any load.
pub(crate) fn prepare_all(
    addresses: &[String],
    secret: &Secret,
    build: &str,
    job: &Job,
) -> Result<Vec<Ready>> {
    let mut workers = Vec::new();
    for (number, address) in addresses.iter().enumerate() {
        let part = Part {
            index: number as u32,
            count: addresses.len() as u32,
        };
        let ready = prepare(address, secret, build, job, part);
        workers.push(ready.with_context(|| format!("worker {address}"))?);
    }
    Ok(workers)
}

/// Runs the load on all workers.
pub(crate) fn run(
    mut workers: Vec<Ready>,
    stop: &AtomicBool,
    on_tick: &mut dyn FnMut(Tick),
) -> Result<Vec<Worker>> {
    let start_ns = clock::now_ns() + LEAD_NS;
    for worker in &mut workers {
        let delay_ns = worker.delay.as_nanos() as u64;
        let at_ns = i128::from(start_ns + delay_ns) + worker.offset.ns;
        let at_ns = u64::try_from(at_ns).context("a clock before its zero")?;
        worker.channel.send(&ToWorker::Start { at_ns })?;
        worker.channel.set_timeout(Some(SILENCE + worker.delay))?;
    }
    watch(workers, stop, on_tick)
}

fn prepare(address: &str, secret: &Secret, build: &str, job: &Job, part: Part) -> Result<Ready> {
    let mut channel = Channel::new(connect(address)?)?;
    greet(&mut channel, secret, build)?;
    let (own, delay) = merge::host_part(&job.traffic, part);
    let spec = WorkerSpec::new(&own, job.script.as_deref());
    channel.send(&ToWorker::Prepare(Box::new(spec)))?;
    match channel.receive()? {
        ToCoordinator::Ready => {}
        ToCoordinator::Refused { why } => bail!("{why}"),
        _ => bail!("unexpected message (is it of this version?)"),
    }
    let offset = compare_clocks(&mut channel)?;
    Ok(Ready {
        address: address.into(),
        channel,
        offset,
        delay,
    })
}

fn connect(address: &str) -> Result<TcpStream> {
    let remedy = "start one there: bakeoff load --worker ADDRESS:PORT --secret-file FILE";
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

/// Both sides prove that they know the secret, the coordinator first.
fn greet(channel: &mut Channel, secret: &Secret, own_build: &str) -> Result<()> {
    let ToCoordinator::Hello {
        protocol,
        build,
        nonce,
    } = channel.receive()?
    else {
        bail!("unexpected message");
    };
    channel::check_build(protocol, &build, own_build)?;
    let own = base::secret::nonce()?;
    let nonces = [&*nonce, &*own];
    channel.send(&ToWorker::Proof {
        nonce: own.clone(),
        proof: secret.proof(Side::Coordinator, nonces),
    })?;
    match channel.receive()? {
        ToCoordinator::Proof { proof } => ensure!(
            secret.proves(Side::Worker, nonces, &proof),
            "worker knows another secret (give all hosts the same --secret-file)"
        ),
        ToCoordinator::Refused { why } => bail!("{why}"),
        _ => bail!("unexpected message"),
    }
    channel.limit_bytes = LONG_BYTES;
    Ok(())
}

/// The worker's clock less this one's.
fn compare_clocks(channel: &mut Channel) -> Result<Offset> {
    let mut offset = Offset::UNKNOWN;
    for _ in 0..PINGS {
        let sent_ns = clock::now_ns();
        channel.send(&ToWorker::Ping)?;
        let ToCoordinator::Pong { at_ns } = channel.receive()? else {
            bail!("unexpected message");
        };
        offset.add(sent_ns, at_ns, clock::now_ns());
    }
    Ok(offset)
}

/// A worker while the load runs.
struct Running {
    address: String,
    error_ns: u64,
    sender: TcpStream,
    /// What it saw, or why it is lost, once one of the two is known.
    result: Option<Result<LoadResult, String>>,
}

/// What a worker says.
struct Message {
    worker: usize,
    content: Result<ToCoordinator>,
}

/// Listens to all until each has handed in its result or is lost. One that is lost ends the load of
/// all: less load than was asked for is another experiment.
fn watch(
    ready: Vec<Ready>,
    stop: &AtomicBool,
    on_tick: &mut dyn FnMut(Tick),
) -> Result<Vec<Worker>> {
    let (report, messages) = mpsc::channel();
    let mut workers = Vec::new();
    for (number, worker) in ready.into_iter().enumerate() {
        workers.push(Running {
            address: worker.address,
            error_ns: worker.offset.error_ns,
            sender: worker.channel.sender()?,
            result: None,
        });
        let report = report.clone();
        std::thread::spawn(move || listen(worker.channel, number, &report));
    }
    let mut ticks = Ticks::new(workers.len());
    let mut is_stopped = false;
    while workers.iter().any(|worker| worker.result.is_none()) {
        let is_lost = |worker: &Running| matches!(worker.result, Some(Err(_)));
        let must_stop = workers.iter().any(is_lost) || stop.load(Ordering::Relaxed);
        if must_stop && !is_stopped {
            is_stopped = true;
            for worker in &mut workers {
                // One that is gone is found to be lost by its listener.
                let _ = channel::send(&mut worker.sender, &ToWorker::Stop);
            }
        }
        let Message { worker, content } = match messages.recv_timeout(POLL) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        let result = &mut workers[worker].result;
        match content {
            Ok(ToCoordinator::Tick(tick)) => {
                if let Some(all) = ticks.add(worker, tick) {
                    on_tick(all);
                }
            }
            Ok(ToCoordinator::Result(seen)) => *result = Some(Ok(*seen)),
            Ok(ToCoordinator::Refused { why }) => *result = Some(Err(why)),
            Ok(_) => *result = Some(Err("unexpected message".into())),
            Err(why) => *result = Some(Err(format!("{why:#}"))),
        }
    }
    let workers = workers.into_iter().map(|worker| Worker {
        address: worker.address,
        error_ns: worker.error_ns,
        result: worker.result.unwrap_or_else(|| Err("gone".into())),
    });
    Ok(workers.collect())
}

/// Reports all that a worker says. It ends with the result, or with the connection, whose reads
/// have a limit.
fn listen(mut channel: Channel, worker: usize, report: &mpsc::Sender<Message>) {
    loop {
        let content = channel.receive();
        let is_last = !matches!(content, Ok(ToCoordinator::Tick(_)));
        if report.send(Message { worker, content }).is_err() || is_last {
            return;
        }
    }
}
