//! The agent's side of a trial: greeting, job, result, end; the same on every kind of machine.

use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use record::protocol::hosts::HostCommand;
use record::protocol::{FromAgent, Greeting, Job, PROTOCOL, Part, ToAgent};
use record::trial::JobResult;
use record::trial::VoidReason;
use record::validate;
use workload::Workload;

use crate::UNPOISONED;
use crate::apart::driver;
use crate::apart::driver::Place;
use crate::ceiling;
use crate::channel::Channel;
use crate::defect_watch::DefectWatch;
use crate::env::{Environment, Failure};
use crate::job;
use crate::kernel_log::From;
use crate::remote;
use crate::wait_idle::wait_idle;
use crate::{cpus, netns};

/// Exit status of an agent that has sent a result or failure, or whose host is gone.
pub(crate) const REPORTED: i32 = 0;

/// Exit status of an agent that ended without reporting a result or failure.
pub(crate) const UNREPORTED: i32 = 1;

/// Longest wait for the host to receive the last message.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// Time that a job has to end once the host has asked it to stop.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// Prepares the environment of a job.
pub(crate) type Prepare<'p> = dyn Fn(&Job, &dyn Workload) -> Result<Environment> + 'p;

/// How a session does its job.
struct Setup<'s> {
    /// Hosts that share the clients.
    hosts: &'s [HostCommand],
    /// From where to watch the kernel's log, on a system that runs servers.
    log_from: Option<From>,
    /// Ends the agent at once.
    end: fn() -> !,
    prepare: &'s Prepare<'s>,
}

/// Runs a session to its end; returns the agent's exit status. Watches the kernel's log from `log_from` on.
/// `end` ends the agent at once, if the host stops a job that does not react.
pub(crate) fn run(
    channel: Channel,
    log_from: From,
    build: &str,
    end: fn() -> !,
    prepare: &Prepare<'_>,
) -> i32 {
    let setup = Setup {
        hosts: &[],
        log_from: Some(log_from),
        end,
        prepare,
    };
    run_with(channel, build, &setup)
}

/// Like `run`, for a job whose server is a system on the network, and whose clients may be on other hosts.
pub(crate) fn run_remote(channel: Channel, hosts: &[HostCommand], build: &str) -> i32 {
    let setup = Setup {
        hosts,
        log_from: None,
        end: exit,
        prepare: &|_, _| bail!("a job that is to start servers, where there is no place for them"),
    };
    run_with(channel, build, &setup)
}

/// Ends this process at once.
pub(crate) fn exit() -> ! {
    std::process::exit(UNREPORTED)
}

fn run_with(channel: Channel, build: &str, setup: &Setup<'_>) -> i32 {
    let Some((host, mine)) = open(&channel, build, "agent") else {
        return UNREPORTED;
    };
    let done = do_job(&host, channel, &mine, setup);
    match done.and_then(|result| result.map(validated).transpose()) {
        Ok(Some(result)) => {
            record::protocol::result_messages(result).for_each(|message| host.send(&message));
        }
        Ok(None) => {}
        Err(Failure { reason, detail }) => {
            let detail = validate::detail(&detail);
            host.send(&FromAgent::Failed { reason, detail });
        }
    }
    host.wait_for_close();
    REPORTED
}

/// Like `run`, for the clients of a trial whose servers another agent starts. That agent reports the result.
pub(crate) fn run_clients(
    channel: Channel,
    servers: Channel,
    place: Place<'_>,
    build: &str,
) -> i32 {
    let Some((host, mine)) = open(&channel, build, "clients") else {
        return UNREPORTED;
    };
    host.send(&FromAgent::Hello(mine.clone()));
    if let Err(why) = drive_clients(&host, channel, servers, place, &mine) {
        let (reason, detail) = (VoidReason::AgentFailed, format!("{why:#}"));
        let detail = validate::detail(&detail);
        host.send(&FromAgent::Failed { reason, detail });
    }
    // The servers' agent may still have much to report; the host ends the trial.
    host.wait_until_gone();
    REPORTED
}

/// Opens the conversation with the host, and has panics reported to it. Returns the host and this build's
/// greeting. `role` names this agent in an error, which can go to standard error only.
fn open(channel: &Channel, build: &str, role: &str) -> Option<(Arc<Host>, Greeting)> {
    let mine = Greeting {
        protocol: PROTOCOL,
        build: build.into(),
    };
    let host = match Host::new(channel) {
        Ok(host) => Arc::new(host),
        Err(why) => {
            eprintln!("bakeoff {role}: {why:#}");
            return None;
        }
    };
    report_panics(&host);
    Some((host, mine))
}

fn drive_clients(
    host: &Arc<Host>,
    mut channel: Channel,
    servers: Channel,
    place: Place<'_>,
    mine: &Greeting,
) -> Result<()> {
    let job = receive_job(&mut channel, mine)?;
    listen(channel, host, exit);
    driver::perform(&job, place, servers, &host.stop)
}

/// Drives the clients' part in a guest that has only clients.
fn drive_from_guest(job: &Job, environment: &Environment, stop: &AtomicBool) -> Result<()> {
    netns::become_clients()?;
    let servers = Channel::open_port(record::protocol::clients::PORT)?;
    // The kernel continues to set itself up after its first process has started.
    wait_idle(&cpus::allowed()?, environment.max_idle_wait, stop)?;
    driver::perform(job, Place::Here("guest2"), servers, stop)
}

/// Reports a result that the host would refuse as a failure of the agent, with the reason.
fn validated(mut result: JobResult) -> Result<JobResult, Failure> {
    validate::measurement(&mut result.measurement)
        .and_then(|()| validate::facts(&mut result.facts))
        .map_err(|why| Failure::new(VoidReason::AgentFailed, why))?;
    Ok(result)
}

/// Everything from the greeting to the result; `None` where another agent reports the result.
fn do_job(
    host: &Arc<Host>,
    mut channel: Channel,
    mine: &Greeting,
    setup: &Setup<'_>,
) -> Result<Option<JobResult>, Failure> {
    host.send(&FromAgent::Hello(mine.clone()));
    let job = receive_job(&mut channel, mine)?;
    listen(channel, host, setup.end);
    let report = |message| host.send(&message);
    if let Some(target) = &job.target {
        let hosts = setup.hosts;
        return remote::perform(&job, target, hosts, &mine.build, &host.stop, &report).map(Some);
    }
    let runs_servers = job.ceiling.is_none() && job.part != Part::Clients;
    let defects = match setup.log_from.filter(|_| runs_servers) {
        None => DefectWatch::default(),
        Some(log_from) => {
            let host = Arc::clone(host);
            DefectWatch::begin(log_from, Box::new(move |message| host.send(&message)))?
        }
    };
    let workload = workload::from_options(&job.workload)?;
    let environment = (setup.prepare)(&job, &*workload)?;
    if job.part == Part::Clients {
        drive_from_guest(&job, &environment, &host.stop)?;
        // The servers' agent may still have much to report; the host ends the trial.
        host.wait_until_gone();
        return Ok(None);
    }
    if job.ceiling.is_some() {
        return ceiling::perform(&job, &environment, &host.stop, &report).map(Some);
    }
    let done = job::perform(&job, &environment, &host.stop, &defects, &report);
    // Before the result, which is the last message.
    defects.finish();
    done.map(Some)
}

fn receive_job(channel: &mut Channel, mine: &Greeting) -> Result<Job> {
    match record::protocol::receive(&mut channel.until_greeted())
        .context("wait for the host's greeting")?
    {
        ToAgent::Hello(theirs) => {
            record::protocol::recognise(&theirs, mine).map_err(anyhow::Error::msg)?;
        }
        other @ (ToAgent::Run(_) | ToAgent::Stop) => bail!("the host did not greet: {other:?}"),
    }
    match record::protocol::receive(channel).context("wait for the job")? {
        ToAgent::Run(job) => Ok(*job),
        other @ (ToAgent::Hello(_) | ToAgent::Stop) => bail!("the host gave no job: {other:?}"),
    }
}

/// The host at the other end of the channel.
struct Host {
    channel: Mutex<Channel>,
    stop: AtomicBool,
    /// Closed when the host has sent `Stop` or hung up.
    gone: Mutex<Option<Receiver<()>>>,
}

impl Host {
    fn new(channel: &Channel) -> Result<Self> {
        Ok(Self {
            channel: Mutex::new(channel.try_clone()?),
            stop: AtomicBool::new(false),
            gone: Mutex::new(None),
        })
    }

    /// Sends a message. If that fails, the host is gone, which the listener notices.
    fn send(&self, message: &FromAgent) {
        let mut channel = self.channel.lock().expect(UNPOISONED);
        if let Err(why) = record::protocol::send(&mut *channel, message) {
            eprintln!("bakeoff agent: cannot tell the host: {why}");
        }
    }

    /// Waits until the host has sent `Stop` or hung up, however long that takes.
    fn wait_until_gone(&self) {
        let gone = self.gone.lock().expect(UNPOISONED).take();
        let _ = gone.map(|gone| gone.recv());
    }

    /// Waits for the same, but not for long.
    fn wait_for_close(&self) {
        let gone = self.gone.lock().expect(UNPOISONED).take();
        if let Some(gone) = gone {
            let _ = gone.recv_timeout(CLOSE_LIMIT);
        }
    }
}

/// Listens for `Stop` on a thread. If the job does not end soon after it, `end` ends the agent.
fn listen(mut channel: Channel, host: &Arc<Host>, end: fn() -> !) {
    let (alive, gone) = mpsc::channel::<()>();
    *host.gone.lock().expect(UNPOISONED) = Some(gone);
    let host = Arc::clone(host);
    thread::spawn(move || {
        match record::protocol::receive::<ToAgent>(&mut channel) {
            Ok(ToAgent::Stop) => {}
            Ok(other) => eprintln!("bakeoff agent: unexpected message: {other:?}"),
            Err(why) => eprintln!("bakeoff agent: the host is gone: {why}"),
        }
        host.stop.store(true, Ordering::Relaxed);
        drop(alive);
        thread::sleep(STOP_LIMIT);
        end()
    });
}

/// Has a panic on any thread reported to the host before it ends the agent.
fn report_panics(host: &Arc<Host>) {
    let host = Arc::clone(host);
    panic::set_hook(Box::new(move |panic| {
        eprintln!("bakeoff agent: {panic}");
        let detail = format!("agent panicked: {panic}");
        // The panicking thread may hold the channel; then the message on the console is all there is.
        let deadline = Instant::now() + Duration::from_secs(1);
        while Instant::now() < deadline {
            if let Ok(mut channel) = host.channel.try_lock() {
                let reason = VoidReason::AgentFailed;
                let failed = FromAgent::Failed { reason, detail };
                let is_sent = record::protocol::send(&mut *channel, &failed).is_ok();
                std::process::exit(if is_sent { REPORTED } else { UNREPORTED });
            }
            thread::sleep(Duration::from_millis(10));
        }
        exit();
    }));
}
