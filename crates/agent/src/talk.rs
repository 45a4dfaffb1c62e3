//! The agent's side of a trial: greeting, job, yield, farewell; the same wherever the agent lives.

use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use record::trial::VoidReason;
use record::validate;
use record::wire::{self, FromAgent, Greeting, Job, PROTOCOL, ToAgent, Yield};
use workload::Workload;

use crate::job::{self, Failure, Ground};
use crate::port::Port;

/// Exit status of an agent whose last word has reached the host, or whose host is gone.
pub(crate) const SAID: i32 = 0;

/// Exit status of an agent that ended without a last word.
pub(crate) const UNSAID: i32 = 1;

/// Time that the host has to take the last word.
const FAREWELL: Duration = Duration::from_secs(10);

/// Time that a job has to end once the host has asked it to stop.
const STOPPING: Duration = Duration::from_secs(5);

/// Makes the ground that a job is done on.
pub(crate) type Prepare<'p> = dyn Fn(&Job, &dyn Workload) -> Result<Ground> + 'p;

/// Holds the conversation to its end; the agent's exit status. `end` stops everything at once, in case the host
/// wants no more and the job does not listen.
pub(crate) fn hold(port: Port, build: &str, end: fn() -> !, prepare: &Prepare<'_>) -> i32 {
    let mine = Greeting {
        protocol: PROTOCOL,
        build: build.into(),
    };
    let host = match Host::new(&port) {
        Ok(host) => Arc::new(host),
        Err(why) => {
            eprintln!("bakeoff agent: {why:#}");
            return UNSAID;
        }
    };
    report_panics(&host);
    match converse(&host, (port, &mine), end, prepare).and_then(believable) {
        Ok(result) => wire::told(result).for_each(|message| host.say(&message)),
        Err(Failure { reason, detail }) => {
            let detail = validate::detail(&detail);
            host.say(&FromAgent::Failed { reason, detail });
        }
    }
    host.wait_for_farewell();
    SAID
}

/// What the host would refuse is a failure of ours, and told as such: it knows no better reason.
fn believable(mut result: Yield) -> Result<Yield, Failure> {
    match validate::result(&mut result).and_then(|()| validate::facts(&mut result.facts)) {
        Ok(()) => Ok(result),
        Err(why) => Err(Failure {
            reason: VoidReason::AgentFailed,
            detail: why,
        }),
    }
}

/// Everything from the greeting to the yield.
fn converse(
    host: &Arc<Host>,
    (mut port, mine): (Port, &Greeting),
    end: fn() -> !,
    prepare: &Prepare<'_>,
) -> Result<Yield, Failure> {
    host.say(&FromAgent::Hello(mine.clone()));
    let job = receive_job(&mut port, mine)?;
    listen(port, host, end);
    let workload = workload::revive(&job.workload)?;
    let ground = prepare(&job, &*workload)?;
    job::perform(&job, &ground, &host.stop, &|message| host.say(&message))
}

fn receive_job(port: &mut Port, mine: &Greeting) -> Result<Job> {
    match wire::receive(&mut port.patient()).context("wait for the host's greeting")? {
        ToAgent::Hello(theirs) => wire::recognise(&theirs, mine).map_err(anyhow::Error::msg)?,
        other @ (ToAgent::Run(_) | ToAgent::Stop) => bail!("the host did not greet: {other:?}"),
    }
    match wire::receive(port).context("wait for the job")? {
        ToAgent::Run(job) => Ok(*job),
        other @ (ToAgent::Hello(_) | ToAgent::Stop) => bail!("the host gave no job: {other:?}"),
    }
}

/// The line to the host.
struct Host {
    line: Mutex<Port>,
    stop: AtomicBool,
    /// Closed when the host has said `Stop` or hung up.
    gone: Mutex<Option<Receiver<()>>>,
}

impl Host {
    fn new(port: &Port) -> Result<Self> {
        Ok(Self {
            line: Mutex::new(port.try_clone()?),
            stop: AtomicBool::new(false),
            gone: Mutex::new(None),
        })
    }

    /// Sends a message. A host that does not take it is gone, which the listener sees.
    fn say(&self, message: &FromAgent) {
        let mut line = self.line.lock().expect("who holds the line does not panic");
        if let Err(why) = wire::send(&mut *line, message) {
            eprintln!("bakeoff agent: cannot tell the host: {why}");
        }
    }

    fn wait_for_farewell(&self) {
        let gone = self
            .gone
            .lock()
            .expect("who holds the line does not panic")
            .take();
        if let Some(gone) = gone {
            let _ = gone.recv_timeout(FAREWELL);
        }
    }
}

/// Listens for `Stop`. A job that does not end soon after it is ended with everything else.
fn listen(mut port: Port, host: &Arc<Host>, end: fn() -> !) {
    let (alive, gone) = channel::<()>();
    *host.gone.lock().expect("who holds the line does not panic") = Some(gone);
    let host = Arc::clone(host);
    thread::spawn(move || {
        let word = wire::receive::<ToAgent>(&mut port);
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
        // The thread that panics may hold the line itself; then the console has to do.
        let patience_ends = Instant::now() + Duration::from_secs(1);
        while Instant::now() < patience_ends {
            if let Ok(mut line) = host.line.try_lock() {
                let reason = VoidReason::AgentFailed;
                let failed = FromAgent::Failed { reason, detail };
                let said = wire::send(&mut *line, &failed).is_ok();
                std::process::exit(if said { SAID } else { UNSAID });
            }
            thread::sleep(Duration::from_millis(10));
        }
        std::process::exit(UNSAID);
    }));
}
