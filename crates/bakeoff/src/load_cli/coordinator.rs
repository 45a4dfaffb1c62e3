//! Runs one load on several workers: the same start time for all, and one result, which names lost
//! workers.

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
use crate::load_cli::channel::{
    Channel, MAX_TRUSTED_BYTES, RESPONSE_TIMEOUT, ToCoordinator, ToWorker,
};
use crate::load_cli::job::Job;
use crate::load_cli::outcome::Worker;
use crate::load_cli::worker_spec::WorkerSpec;
use base::secret::{Secret, Side};

/// Time from the end of the preparation to the start of the load.
const START_DELAY_NS: u64 = 500_000_000;

/// A worker sends a message every second; after this silence it counts as lost.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(10);

/// How often the coordinator checks whether it should stop.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A worker that is ready to start.
pub(crate) struct ReadyWorker {
    address: String,
    channel: Channel,
    offset: Offset,
    delay: Duration,
}

/// Prepares all workers before any load starts.
pub(crate) fn prepare_all(
    addresses: &[String],
    secret: &Secret,
    build: &str,
    job: &Job,
) -> Result<Vec<ReadyWorker>> {
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
    mut workers: Vec<ReadyWorker>,
    stop: &AtomicBool,
    on_tick: &mut dyn FnMut(Tick),
) -> Result<Vec<Worker>> {
    let start_ns = clock::now_ns() + START_DELAY_NS;
    for worker in &mut workers {
        let delay_ns = worker.delay.as_nanos() as u64;
        let at_ns = i128::from(start_ns + delay_ns) + worker.offset.ns;
        let at_ns = u64::try_from(at_ns).context("a clock before its zero")?;
        worker.channel.send(&ToWorker::Start { at_ns })?;
        worker
            .channel
            .set_timeout(Some(SILENCE_TIMEOUT + worker.delay))?;
    }
    watch(workers, stop, on_tick)
}

fn prepare(
    address: &str,
    secret: &Secret,
    build: &str,
    job: &Job,
    part: Part,
) -> Result<ReadyWorker> {
    let mut channel = Channel::new(connect(address)?)?;
    authenticate(&mut channel, secret, build)?;
    let (traffic, delay) = merge::host_part(&job.traffic, part);
    let spec = WorkerSpec::new(&traffic, job.script.as_deref());
    channel.send(&ToWorker::Prepare(Box::new(spec)))?;
    match channel.receive()? {
        ToCoordinator::Ready => {}
        ToCoordinator::Refused { why } => bail!("{why}"),
        _ => bail!("unexpected message (is it of this version?)"),
    }
    let offset = compare_clocks(&mut channel)?;
    Ok(ReadyWorker {
        address: address.into(),
        channel,
        offset,
        delay,
    })
}

fn connect(address: &str) -> Result<TcpStream> {
    let remedy = "start one there: bakeoff load --worker ADDRESS:PORT --secret-file FILE";
    let addresses = address.to_socket_addrs();
    let addresses = addresses.with_context(|| format!("not an address ({remedy})"))?;
    let mut last_error = anyhow::anyhow!("host without an address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, RESPONSE_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(why) => last_error = anyhow::anyhow!("not reachable: {why} ({remedy})"),
        }
    }
    Err(last_error)
}

/// Both sides prove that they know the secret, the coordinator first.
fn authenticate(channel: &mut Channel, secret: &Secret, our_build: &str) -> Result<()> {
    let ToCoordinator::Hello {
        protocol,
        build,
        nonce,
    } = channel.receive()?
    else {
        bail!("unexpected message");
    };
    channel::check_build(protocol, &build, our_build)?;
    let our_nonce = base::secret::nonce()?;
    let nonces = [&*nonce, &*our_nonce];
    channel.send(&ToWorker::Proof {
        nonce: our_nonce.clone(),
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
    channel.limit_bytes = MAX_TRUSTED_BYTES;
    Ok(())
}

/// The difference of the worker's clock to this host's.
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
struct RunningWorker {
    address: String,
    error_ns: u64,
    sender: TcpStream,
    /// The worker's result, or why it is lost; `None` while the load runs.
    result: Option<Result<LoadResult, String>>,
}

/// A message of a worker, or why the connection failed.
struct Message {
    worker: usize,
    content: Result<ToCoordinator>,
}

/// Receives messages until each worker has sent its result or is lost. A lost worker stops the load
/// of all, because less load than requested is another experiment.
fn watch(
    ready: Vec<ReadyWorker>,
    stop: &AtomicBool,
    on_tick: &mut dyn FnMut(Tick),
) -> Result<Vec<Worker>> {
    let (sender, messages) = mpsc::channel();
    let mut workers = Vec::new();
    for (number, worker) in ready.into_iter().enumerate() {
        workers.push(RunningWorker {
            address: worker.address,
            error_ns: worker.offset.error_ns,
            sender: worker.channel.sender()?,
            result: None,
        });
        let sender = sender.clone();
        std::thread::spawn(move || receive_all(worker.channel, number, &sender));
    }
    let mut ticks = Ticks::new(workers.len());
    let mut is_stopped = false;
    while workers.iter().any(|worker| worker.result.is_none()) {
        let is_lost = |worker: &RunningWorker| matches!(worker.result, Some(Err(_)));
        let must_stop = workers.iter().any(is_lost) || stop.load(Ordering::Relaxed);
        if must_stop && !is_stopped {
            is_stopped = true;
            for worker in &mut workers {
                // If the worker is gone, its receiving thread reports that.
                let _ = channel::send(&mut worker.sender, &ToWorker::Stop);
            }
        }
        let Message { worker, content } = match messages.recv_timeout(POLL_INTERVAL) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        let result = &mut workers[worker].result;
        match content {
            Ok(ToCoordinator::Tick(tick)) => {
                if let Some(total) = ticks.add(worker, tick) {
                    on_tick(total);
                }
            }
            Ok(ToCoordinator::Result(load)) => *result = Some(Ok(*load)),
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

/// Forwards the messages of a worker until its result or the end of the connection. Reads time out.
fn receive_all(mut channel: Channel, worker: usize, sender: &mpsc::Sender<Message>) {
    loop {
        let content = channel.receive();
        let is_last = !matches!(content, Ok(ToCoordinator::Tick(_)));
        if sender.send(Message { worker, content }).is_err() || is_last {
            return;
        }
    }
}
