//! Workloads: a server, its data, its clients, its metrics and how answers are checked.
//!
//! ```text
//! [[workload]] --check--> options (JSON, in the plan and the job) --from_options--> Workload
//!                                       in the guest:  prepare -> services -> drive -> figures
//! ```
//! One file per workload. A new one is that file and one line in `KINDS`; nothing else names a
//! workload. It may use what is shared here: servers (`apache`, `nginx`), data from a seed, figures.

mod accept;
pub mod apache;
mod app_trade;
mod busy_tasks;
pub mod ceiling;
pub mod command;
pub mod config;
pub mod context;
pub mod data;
mod database;
mod disk;
pub mod figures;
mod http;
mod interactive;
mod io_mix;
mod limits;
mod locks;
pub mod metric_names;
pub mod nginx;
mod options;
pub mod overview;
pub mod probe;
mod sched_yield;
pub mod service;
mod smb;
mod smb_ramp;
#[cfg(test)]
mod testing;
mod threads;
mod ticker;
pub mod tool;
mod web;
mod web_browse;
mod web_cgi;
mod web_many;
mod web_open;
mod web_ramp;
mod web_slow;
mod web_soak;
mod web_static;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};
use base::input::problem::remedy_among;
use load::part::Part;
use load::traffic::Traffic;
use plan::fields::Fields;
use plan::{MachineKind, Traits, WorkloadPlan};
use record::load::Tick;
use record::metric::Figure;
use record::protocol::WorkloadJob;
use record::protocol::drive::Driven;
use serde::Serialize;

use crate::context::WorkloadContext;
use crate::figures::Seen;
use crate::overview::Overview;
use crate::service::Service;

/// All workloads there are.
pub(crate) const KINDS: &[Kind] = &[
    accept::KIND,
    app_trade::KIND,
    command::KIND,
    database::KIND,
    http::KIND,
    interactive::KIND,
    io_mix::KIND,
    limits::KIND,
    locks::KIND,
    sched_yield::KIND,
    smb::KIND,
    smb_ramp::KIND,
    threads::KIND,
    web_browse::KIND,
    web_cgi::KIND,
    web_many::KIND,
    web_open::KIND,
    web_ramp::KIND,
    web_slow::KIND,
    web_soak::KIND,
    web_static::KIND,
];

/// Programs of the image that a workload runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Programs {
    /// Nobody knows which: all that the image has.
    All,
    /// Programs, with the libraries that they are linked with, and directories, by absolute paths.
    These(&'static [&'static str]),
}

/// How a workload is found by the word that plans write.
pub(crate) struct Kind {
    /// The word: `web-static`.
    pub(crate) word: &'static str,
    /// What an author of plans is told.
    pub(crate) overview: Overview,
    /// What it is to other crates, by its options.
    pub(crate) traits: fn(&serde_json::Value) -> Traits,
    /// Reads the kind's own keys; notes mistakes and returns `None` if there are any.
    pub(crate) check: fn(&Fields<'_>) -> Option<Checked>,
    /// Brings the options that `check` wrote back to life.
    pub(crate) from_options: fn(&serde_json::Value) -> serde_json::Result<Box<dyn Workload>>,
}

/// A kind's own keys, found right.
pub(crate) struct Checked {
    /// What `from_options` will be given.
    pub(crate) options: serde_json::Value,
    /// How long it loads the server.
    pub(crate) timing: Timing,
    /// How long it is expected to take, where `timing` is only what it may take.
    pub(crate) expected: Option<Duration>,
}

impl Checked {
    fn new(options: &impl Serialize, timing: Timing) -> Self {
        let options = serde_json::to_value(options).expect("options are plain data");
        Self {
            options,
            timing,
            expected: None,
        }
    }
}

/// How long a workload loads its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Load that is not counted.
    pub warmup: Duration,
    /// Load that is counted.
    pub window: Duration,
}

impl Timing {
    /// That of so many steps one after another, each with a warm-up of its own; only the first one's is not counted.
    pub(crate) fn of_steps(steps: usize, warmup_ns: u64, window_ns: u64) -> Self {
        let warmup = Duration::from_nanos(warmup_ns);
        let step = warmup + Duration::from_nanos(window_ns);
        let all = step.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX));
        Self {
            warmup,
            window: all.saturating_sub(warmup),
        }
    }
}

/// What a driver returns when answers or data are wrong: the trial is void for what it served, not for what
/// the agent could not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong(pub String);

impl std::fmt::Display for Wrong {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}

/// When clients that share a load with those of other hosts begin, and which part of it is theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meeting {
    /// The part.
    pub part: Part,
    /// An instant of `load::clock` that lies ahead.
    pub start_ns: u64,
}

/// A watcher for tests that look at nothing but what a drive yields.
#[cfg(test)]
pub(crate) struct Nobody;

#[cfg(test)]
impl Watcher for Nobody {
    fn begins(&mut self) {}
    fn ticks(&mut self, _: Tick) {}
}

/// Who watches a drive.
pub trait Watcher {
    /// Called once by a drive of one load, when all is ready for it; `None` where nobody shares it.
    ///
    /// # Errors
    /// The others are not there any more.
    fn meet(&mut self) -> Result<Option<Meeting>> {
        Ok(None)
    }

    /// Called once, at the instant from which `Timing` counts: preparations of the drive are over.
    fn begins(&mut self);

    /// Called as each step of a ramp begins, the first one included.
    fn steps(&mut self) {}

    /// Called once a second from then on.
    fn ticks(&mut self, tick: Tick);
}

/// A server, its data, its clients, its metrics and how answers are checked.
///
/// Everything it does is decided by its options and the context's seed, so two arms get the same.
pub trait Workload: Send + Sync {
    /// Debian packages that the image must have; `one|other` is content with either.
    fn packages(&self) -> Vec<&str> {
        Vec::new()
    }

    /// What of the image a guest reads into memory before it starts anything.
    fn programs(&self) -> Programs {
        if self.packages().is_empty() {
            Programs::These(&[])
        } else {
            Programs::All
        }
    }

    /// Servers whose configuration an arm may change; the first one is meant where none is named.
    fn configurable(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Names of the services that `prepare` yields.
    fn services(&self) -> Vec<&'static str> {
        self.configurable()
    }

    /// Kernel modules that it needs beyond the agent's own.
    fn modules(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Size of the disk that it needs to itself, empty at the start, as `WorkloadContext::disk`; 0 for none.
    fn disk_bytes(&self) -> u64 {
        0
    }

    /// Files of the host's, as the plan names them; they are put into `context::FILES` below the context's directory.
    fn files(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Whether `drive` needs nothing of the servers' system but their addresses, so that it may be called on another one.
    fn is_driven_from_outside(&self) -> bool {
        false
    }

    /// Whether its clients go on for the whole window after requests have failed, so that the system may be disturbed meanwhile.
    fn can_be_disturbed(&self) -> bool {
        false
    }

    /// Whether hosts can share its load: `drive` does nothing but send one load, which all of them begin together (`Watcher::meet`).
    fn is_shareable(&self) -> bool {
        false
    }

    /// Whether its connections can go to several addresses of the server's.
    fn takes_addresses(&self) -> bool {
        false
    }

    /// How long `drive` loads the server.
    fn timing(&self) -> Timing;

    /// Writes data and configuration below `context.dir`; the services are started in their order.
    fn prepare(&self, _context: &WorkloadContext) -> Result<Vec<Service>> {
        Ok(Vec::new())
    }

    /// Loads the server from a thread in the clients' network namespace, until the window is over
    /// or `stop` is set.
    fn drive(
        &self,
        context: &WorkloadContext,
        stop: &AtomicBool,
        watcher: &mut dyn Watcher,
    ) -> Result<Driven>;

    /// What `drive` would send, as requests to the null server at a URL for as many bytes each; `None` where nothing can be learnt
    /// from that. Called where `drive` is, but no service of the workload's runs.
    fn ceiling(&self, _context: &WorkloadContext, _null_server: &str) -> Result<Option<Traffic>> {
        Ok(None)
    }

    /// Whether `ceiling` knows an answer.
    fn has_ceiling(&self) -> bool {
        false
    }

    /// The figures, the primary one first, or why the trial says nothing: answers were wrong, or
    /// none was right.
    fn figures(&self, seen: &Seen<'_>) -> Result<Vec<Figure>, String>;
}

/// Whether a plan can lengthen what is measured of each trial: it has a window, and does not run to an end of its own.
pub fn has_window(workload: &WorkloadPlan) -> bool {
    let kind = overview::find(&workload.kind);
    kind.is_ok_and(|(_, overview)| overview.keys.iter().any(|key| key.name == "window"))
}

/// Checks one `[[workload]]` table of a plan; notes mistakes and returns `None` if there are any.
pub fn check(fields: &Fields<'_>) -> Option<WorkloadPlan> {
    if !fields.has("kind") {
        fields.missing("kind", "\"web-static\"");
    }
    // Of a table of unknown kind nobody can say which keys belong in it, so no key is called wrong.
    let word = fields.text("kind")?;
    let Some(kind) = KINDS.iter().find(|kind| kind.word == word) else {
        let words: Vec<_> = KINDS.iter().map(|kind| kind.word).collect();
        let remedy = remedy_among(word, &words);
        fields.wrong(
            "kind",
            format!("unknown kind of workload: {word:?}"),
            remedy,
        );
        return None;
    };
    let id = read_id(fields, kind.word);
    let checked = (kind.check)(fields);
    fields.finish();
    let Checked {
        options,
        timing,
        expected,
    } = checked?;
    Some(WorkloadPlan {
        id: id?,
        kind: kind.word.into(),
        traits: (kind.traits)(&options),
        options,
        length: timing.warmup.saturating_add(timing.window),
        window: timing.window,
        expected,
    })
}

/// Whether a workload fits a machine of this kind; why not, with the remedy.
pub fn check_machine(workload: &WorkloadPlan, kind: MachineKind) -> Result<(), String> {
    let WorkloadPlan { id, kind: word, .. } = workload;
    let is_of_network = overview::find(word).is_ok_and(|(_, own)| own.is_of_network());
    match (is_of_network, kind) {
        (true, MachineKind::Url)
        | (false, MachineKind::Qemu | MachineKind::Ssh | MachineKind::Local) => Ok(()),
        (true, MachineKind::Qemu | MachineKind::Ssh | MachineKind::Local) => Err(format!(
            "workload {id} asks a system on the network: kind \"{word}\" on a machine of kind \"{}\" (write kind = \"url\" in \
             [machine], or take a workload that starts its server, such as \"web-static\")",
            kind.word()
        )),
        (false, MachineKind::Url) => Err(format!(
            "workload {id} starts servers of its own: kind \"{word}\" on a machine of kind \"url\" (write kind = \"http\")"
        )),
    }
}

/// Whether a workload's length is only what it may take.
pub fn runs_to_its_end(workload: &WorkloadPlan) -> bool {
    workload.options.get("limit_ns").is_some()
}

/// Whether a workload's clients can be on another system than its servers.
pub fn is_driven_from_outside(workload: &WorkloadPlan) -> bool {
    // Options come from `check`, so that they always come to life.
    from_plan(workload).is_ok_and(|own| own.is_driven_from_outside())
}

/// Whether a workload's clients go on for the whole window after requests have failed.
pub fn can_be_disturbed(workload: &WorkloadPlan) -> bool {
    // Options come from `check`, so that they always come to life.
    from_plan(workload).is_ok_and(|own| own.can_be_disturbed())
}

/// Whether hosts can share a workload's load.
pub fn is_shareable(workload: &WorkloadPlan) -> bool {
    from_plan(workload).is_ok_and(|own| own.is_shareable())
}

/// Whether a workload's clients can use several addresses of the servers' system.
pub fn takes_addresses(workload: &WorkloadPlan) -> bool {
    from_plan(workload).is_ok_and(|own| own.takes_addresses())
}

/// The servers of a workload whose configuration an arm may change, the first one first.
fn servers(workload: &WorkloadPlan) -> Vec<&'static str> {
    // Options come from `check`, so that they always come to life.
    from_plan(workload).map_or_else(|_| Vec::new(), |own| own.configurable())
}

/// The services that a workload starts, by the names that plans know them by.
pub fn services(workload: &WorkloadPlan) -> Vec<&'static str> {
    from_plan(workload).map_or_else(|_| Vec::new(), |own| own.services())
}

/// The files of the user's own that a workload needs, as the plan names them.
pub fn own_files(workload: &WorkloadPlan) -> Vec<String> {
    // Options come from `check`, so that they always come to life.
    let files = |own: Box<dyn Workload>| own.files().into_iter().map(String::from).collect();
    from_plan(workload).map_or_else(|_| Vec::new(), files)
}

/// The name that the reports use: `name` where there is one, the kind otherwise.
fn read_id(fields: &Fields<'_>, kind: &str) -> Option<String> {
    if !fields.takes("name") {
        return Some(kind.into());
    }
    let name = fields.text("name")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    if name.is_empty() || name.len() > 40 || !name.chars().all(plain) {
        let what = format!("workload name of other than letters, digits and . _ + -: {name:?}");
        fields.wrong("name", what, "rename it, 40 characters at most");
        return None;
    }
    Some(name.into())
}

/// Whether what a workload's clients could measure at the most can be found out with a null server.
pub fn has_ceiling(workload: &WorkloadPlan) -> bool {
    from_plan(workload).is_ok_and(|own| own.has_ceiling())
}

/// Brings a workload of a plan to life.
pub fn from_plan(workload: &WorkloadPlan) -> Result<Box<dyn Workload>> {
    from_options(&WorkloadJob {
        kind: workload.kind.clone(),
        options: workload.options.clone(),
    })
}

/// Brings a workload back to life from the options that `check` wrote.
pub fn from_options(job: &WorkloadJob) -> Result<Box<dyn Workload>> {
    let kind = KINDS.iter().find(|kind| kind.word == job.kind);
    let kind = kind.with_context(|| format!("unknown kind of workload: {:?}", job.kind))?;
    (kind.from_options)(&job.options).with_context(|| format!("options of workload {}", job.kind))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn traits_follow_from_the_kind_and_its_options() {
        let traits = |word: &str, options: Value| {
            let kind = KINDS.iter().find(|kind| kind.word == word).unwrap();
            (kind.traits)(&options)
        };
        assert_eq!(traits("web-static", json!({})), Traits::STATIC);
        assert_eq!(traits("web-cgi", json!({})), Traits::CLIENTS);
        assert!(traits("web-slow", json!({ "dynamic": 0.0 })).is_static);
        assert!(!traits("web-slow", json!({ "dynamic": 0.3 })).is_static);
        assert!(traits("limits", json!({ "file_system_bytes": 1u64 << 40 })).makes_devices);
        assert!(!traits("limits", json!({ "file_system_bytes": 0 })).makes_devices);
        assert!(traits("http", json!({ "content": false })).accepts_any_content);
        assert!(!traits("http", json!({ "content": true })).accepts_any_content);
        assert!(traits("command", json!({})).runs_program);
    }
}
