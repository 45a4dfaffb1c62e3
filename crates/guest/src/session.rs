//! The agent's side of a trial: greeting, job, result, end; the same wherever the agent lives.

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

/// Exit status of an agent whose last word has reached the host, or whose host is gone.
pub(crate) const SAID: i32 = 0;

/// Exit status of an agent that ended without a last word.
pub(crate) const UNSAID: i32 = 1;

/// Time that the host has to take the last word.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// Time that a job has to end once the host has asked it to stop.
const STOPPING: Duration = Duration::from_secs(5);

const UNPOISONED: &str = "who holds the lock does not panic";

/// Prepares the environment of a job.
pub(crate) type Prepare<'p> = dyn Fn(&Job, &dyn Workload) -> Result<Environment> + 'p;

/// Holds the conversation to its end; the agent's exit status. `end` stops everything at once, in case the host
/// wants no more and the job does not listen.
/// The kernel's log is read `from` there on.
pub(crate) fn hold(
    (channel, from): (Channel, From),
    build: &str,
    end: fn() -> !,
    prepare: &Prepare<'_>,
) -> i32 {
    hold_with((channel, &[], Some(from)), build, end, prepare)
}

/// The same for a job whose clients may be on other hosts, and whose servers are.
pub(crate) fn hold_clients_of_others(
    channel: Channel,
    hosts: &[HostCommand],
    build: &str,
    end: fn() -> !,
) -> i32 {
    hold_with((channel, hosts, None), build, end, &|_, _| {
        bail!("a job that is to start servers, where there is no place for them")
    })
}

fn hold_with(
    (channel, hosts, from): (Channel, &[HostCommand], Option<From>),
    build: &str,
    end: fn() -> !,
    prepare: &Prepare<'_>,
) -> i32 {
    let Some((host, mine)) = open(&channel, build, "agent") else {
        return UNSAID;
    };
    let done = converse(&host, channel, &mine, hosts, from, end, prepare);
    match done.and_then(|result| result.map(validated).transpose()) {
        Ok(Some(result)) => record::protocol::told(result).for_each(|message| host.say(&message)),
        Ok(None) => {}
        Err(Failure { reason, detail }) => {
            let detail = validate::detail(&detail);
            host.say(&FromAgent::Failed { reason, detail });
        }
    }
    host.wait_for_close();
    SAID
}

/// The same for the clients of a trial whose servers are elsewhere: at its end there is nothing to tell but that.
pub(crate) fn hold_clients(
    (channel, servers): (Channel, Channel),
    (place, build): (Place<'_>, &str),
    end: fn() -> !,
) -> i32 {
    let Some((host, mine)) = open(&channel, build, "clients") else {
        return UNSAID;
    };
    host.say(&FromAgent::Hello(mine.clone()));
    if let Err(why) = drive_clients(&host, channel, servers, place, &mine, end) {
        let (reason, detail) = (VoidReason::AgentFailed, format!("{why:#}"));
        let detail = validate::detail(&detail);
        host.say(&FromAgent::Failed { reason, detail });
    }
    // Servers may have much to tell still; whoever started the trial ends it.
    host.wait_until_gone();
    SAID
}

/// The host's end of a line, who is told of panics from now on, and the greeting for it. `role` is the command's name, for the one
/// who can be told by standard error alone.
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
    end: fn() -> !,
) -> Result<()> {
    let job = receive_job(&mut channel, mine)?;
    listen(channel, host, end);
    driver::perform(&job, place, servers, &host.stop)
}

/// The clients' part in a guest of their own.
fn drive_from_guest(job: &Job, environment: &Environment, stop: &AtomicBool) -> Result<()> {
    netns::become_clients()?;
    let servers = Channel::open_port(record::protocol::clients::PORT)?;
    // Its kernel goes on setting itself up after its first process has started.
    wait_idle(&cpus::own()?, environment.max_idle_wait, stop)?;
    driver::perform(job, Place::Here("guest2"), servers, stop)
}

/// What the host would refuse is a failure of ours, and told as such: it knows no better reason.
fn validated(mut result: JobResult) -> Result<JobResult, Failure> {
    match validate::measurement(&mut result.measurement)
        .and_then(|()| validate::facts(&mut result.facts))
    {
        Ok(()) => Ok(result),
        Err(why) => Err(Failure {
            reason: VoidReason::AgentFailed,
            detail: why,
        }),
    }
}

/// Everything from the greeting to the result; none where it has been told to another agent.
fn converse(
    host: &Arc<Host>,
    mut channel: Channel,
    mine: &Greeting,
    hosts: &[HostCommand],
    from: Option<From>,
    end: fn() -> !,
    prepare: &Prepare<'_>,
) -> Result<Option<JobResult>, Failure> {
    host.say(&FromAgent::Hello(mine.clone()));
    let job = receive_job(&mut channel, mine)?;
    listen(channel, host, end);
    let tell = |message| host.say(&message);
    if let Some(target) = &job.target {
        return remote::perform(&job, (target, hosts, &mine.build), &host.stop, &tell).map(Some);
    }
    let defects = match from.filter(|_| job.ceiling.is_none() && job.part != Part::Clients) {
        None => DefectWatch::default(),
        Some(from) => {
            let host = Arc::clone(host);
            DefectWatch::begin(from, Box::new(move |message| host.say(&message)))?
        }
    };
    let workload = workload::from_options(&job.workload)?;
    let environment = prepare(&job, &*workload)?;
    if job.part == Part::Clients {
        drive_from_guest(&job, &environment, &host.stop)?;
        // Servers may have much to tell still; whoever started the trial ends it.
        host.wait_until_gone();
        return Ok(None);
    }
    if job.ceiling.is_some() {
        return ceiling::perform(&job, &environment, &host.stop, &tell).map(Some);
    }
    let done = job::perform(&job, &environment, (&host.stop, &defects), &tell);
    // Before the result, which is the last word.
    defects.finish();
    done.map(Some)
}

fn receive_job(channel: &mut Channel, mine: &Greeting) -> Result<Job> {
    match record::protocol::receive(&mut channel.until_greeted())
        .context("wait for the host's greeting")?
    {
        ToAgent::Hello(theirs) => {
            record::protocol::recognise(&theirs, mine).map_err(anyhow::Error::msg)?
        }
        other @ (ToAgent::Run(_) | ToAgent::Stop) => bail!("the host did not greet: {other:?}"),
    }
    match record::protocol::receive(channel).context("wait for the job")? {
        ToAgent::Run(job) => Ok(*job),
        other @ (ToAgent::Hello(_) | ToAgent::Stop) => bail!("the host gave no job: {other:?}"),
    }
}

/// The host, as the agent sees it.
struct Host {
    channel: Mutex<Channel>,
    stop: AtomicBool,
    /// Closed when the host has said `Stop` or hung up.
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

    /// Sends a message. A host that does not take it is gone, which the listener sees.
    fn say(&self, message: &FromAgent) {
        let mut channel = self.channel.lock().expect(UNPOISONED);
        if let Err(why) = record::protocol::send(&mut *channel, message) {
            eprintln!("bakeoff agent: cannot tell the host: {why}");
        }
    }

    /// Waits until the host has said `Stop` or hung up, however long that takes.
    fn wait_until_gone(&self) {
        let gone = self.gone.lock().expect(UNPOISONED).take();
        let _ = gone.map(|gone| gone.recv());
    }

    fn wait_for_close(&self) {
        let gone = self.gone.lock().expect(UNPOISONED).take();
        if let Some(gone) = gone {
            let _ = gone.recv_timeout(CLOSE_LIMIT);
        }
    }
}

/// Listens for `Stop`. A job that does not end soon after it is ended with everything else.
fn listen(mut channel: Channel, host: &Arc<Host>, end: fn() -> !) {
    let (alive, gone) = mpsc::channel::<()>();
    *host.gone.lock().expect(UNPOISONED) = Some(gone);
    let host = Arc::clone(host);
    thread::spawn(move || {
        let word = record::protocol::receive::<ToAgent>(&mut channel);
        match word {
            Ok(ToAgent::Stop) => {}
            Ok(other) => eprintln!("bakeoff agent: not a word for a running job: {other:?}"),
            Err(why) => eprintln!("bakeoff agent: the host is gone: {why}"),
        }
        host.stop.store(true, Ordering::Relaxed);
        drop(alive);
        thread::sleep(STOPPING);
        end()
    });
}

/// Has a panic on any thread told to the host before it ends the agent.
fn report_panics(host: &Arc<Host>) {
    let host = Arc::clone(host);
    panic::set_hook(Box::new(move |panic| {
        eprintln!("bakeoff agent: {panic}");
        let detail = format!("agent panicked: {panic}");
        // The thread that panics may hold the channel itself; then the console has to do.
        let patience_ends = Instant::now() + Duration::from_secs(1);
        while Instant::now() < patience_ends {
            if let Ok(mut channel) = host.channel.try_lock() {
                let reason = VoidReason::AgentFailed;
                let failed = FromAgent::Failed { reason, detail };
                let said = record::protocol::send(&mut *channel, &failed).is_ok();
                std::process::exit(if said { SAID } else { UNSAID });
            }
            thread::sleep(Duration::from_millis(10));
        }
        std::process::exit(UNSAID);
    }));
}
