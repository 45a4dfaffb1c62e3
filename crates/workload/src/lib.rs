//! Workloads: a server, its data, its clients, its metrics and the checks of its responses.
//!
//! ```text
//! [[workload]] --check--> options (JSON, in the plan and the job) --from_options--> Workload
//!                                       in the guest:  prepare -> services -> drive -> figures
//! ```
//! Each workload has a file and a line in `KINDS`; nothing else names it. Workloads share servers
//! (`apache`, `nginx`), seeded data and figures.

mod accept;
mod apache;
mod app_trade;
mod busy_tasks;
pub mod ceiling;
pub mod command;
pub mod config;
pub mod context;
mod data;
mod database;
mod disk;
pub mod figures;
mod http;
mod interactive;
mod io_mix;
mod limits;
mod locks;
pub mod metric_names;
mod nginx;
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
mod tool;
mod web;
mod web_browse;
mod web_cgi;
mod web_many;
mod web_open;
mod web_ramp;
mod web_slow;
mod web_soak;
mod web_static;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base::input::problem::remedy_among;
use load::part::Part;
use load::traffic::Traffic;
use plan::fields::Fields;
use plan::{MachineKind, Traits, WorkloadPlan};
use record::curve::Curve;
use record::load::Tick;
use record::metric::Figure;
use record::protocol::WorkloadJob;
use record::protocol::drive::Driven;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::context::WorkloadContext;
use crate::figures::Seen;
use crate::overview::Overview;
use crate::service::Service;

/// All kinds of workloads.
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
    /// Unknown: all programs of the image.
    All,
    /// Absolute paths of directories, and of programs, whose libraries are included.
    These(&'static [&'static str]),
}

/// A kind of workload.
pub(crate) struct Kind {
    /// Name in plans: `web-static`.
    pub(crate) word: &'static str,
    /// Description for authors of plans.
    pub(crate) overview: Overview,
    /// Traits for other crates, given the options.
    pub(crate) traits: fn(&Value) -> Traits,
    /// Reads the kind's keys. Records mistakes and returns `None` if there are any.
    check: fn(&Fields<'_>) -> Option<Checked>,
    /// Rebuilds the workload from the options that `check` wrote.
    from_options: fn(&Value) -> serde_json::Result<Box<dyn Workload>>,
}

impl Kind {
    pub(crate) const fn of<O: FromPlan + 'static>(
        word: &'static str,
        traits: fn(&Value) -> Traits,
        overview: Overview,
    ) -> Self {
        Self {
            word,
            overview,
            traits,
            check: |fields| {
                let expected = O::expected(fields);
                let options = O::read(fields)?;
                Some(Checked {
                    timing: options.timing(),
                    options: serde_json::to_value(options).expect("options are plain data"),
                    expected,
                })
            },
            from_options: |options| Ok(Box::new(O::deserialize(options)?)),
        }
    }
}

/// Options of a kind, which are its workload.
pub(crate) trait FromPlan: Workload + Serialize + DeserializeOwned {
    /// Reads the kind's keys. Records mistakes and returns `None` if there are any.
    fn read(fields: &Fields<'_>) -> Option<Self>;

    /// Expected duration, if the timing is only a limit.
    fn expected(_fields: &Fields<'_>) -> Option<Duration> {
        None
    }
}

/// The checked keys of a kind.
struct Checked {
    /// Options for `from_options`.
    options: Value,
    /// How long the workload loads the server.
    timing: Timing,
    /// Expected duration, if `timing` is only a limit.
    expected: Option<Duration>,
}

/// How long a workload loads its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "TimingNs", into = "TimingNs")]
pub struct Timing {
    /// Load that is not counted.
    pub warmup: Duration,
    /// Load that is counted.
    pub window: Duration,
}

/// A timing, as options have it.
#[derive(Serialize, Deserialize)]
struct TimingNs {
    warmup_ns: u64,
    window_ns: u64,
}

impl From<TimingNs> for Timing {
    fn from(timing: TimingNs) -> Self {
        Self::from_ns(timing.warmup_ns, timing.window_ns)
    }
}

impl From<Timing> for TimingNs {
    fn from(timing: Timing) -> Self {
        Self {
            warmup_ns: timing.warmup.as_nanos() as u64,
            window_ns: timing.window.as_nanos() as u64,
        }
    }
}

impl Timing {
    pub(crate) fn from_ns(warmup_ns: u64, window_ns: u64) -> Self {
        Self {
            warmup: Duration::from_nanos(warmup_ns),
            window: Duration::from_nanos(window_ns),
        }
    }

    /// Timing of successive steps, each with a warm-up. Only the first warm-up is not counted.
    pub(crate) fn of_steps(self, steps: usize) -> Self {
        let Self { warmup, window } = self;
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        let all = (warmup + window).saturating_mul(steps);
        Self {
            warmup,
            window: all.saturating_sub(warmup),
        }
    }
}

/// Fails if the host has stopped the trial.
pub(crate) fn check_stop(stop: &AtomicBool) -> Result<()> {
    ensure!(!stop.load(Ordering::Relaxed), "stopped by the host");
    Ok(())
}

/// Error of a drive whose responses or data are wrong. It voids the trial because of the server,
/// not because of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong(pub String);

impl std::fmt::Display for Wrong {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}

/// This host's part of a load that several hosts share, and the common start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedStart {
    /// Part of the load.
    pub part: Part,
    /// A future instant of `load::clock`.
    pub start_ns: u64,
}

/// Observes a drive.
pub trait Watcher {
    /// Called once by a drive of a single load, when it is ready. Returns `None` if the load is not
    /// shared.
    ///
    /// # Errors
    /// The other hosts have gone.
    fn shared_start(&mut self) -> Result<Option<SharedStart>> {
        Ok(None)
    }

    /// Called once after preparations, at the instant from which `Timing` counts.
    fn begins(&mut self);

    /// Called at the start of each step of a ramp.
    fn steps(&mut self) {}

    /// Called once per second after `begins`.
    fn ticks(&mut self, tick: Tick);
}

/// How the agent controls a drive.
pub struct Control<'c> {
    /// Set when the drive has to end.
    pub stop: &'c AtomicBool,
    /// Observes it.
    pub watcher: &'c mut (dyn Watcher + Send),
}

/// A server, its data, its clients, its metrics and the checks of its responses.
///
/// A workload depends only on its options and on the context's seed, so all arms get the same one.
pub trait Workload: Send + Sync {
    /// Debian packages that the image must have; `a|b` means either.
    fn packages(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Programs that a guest reads into memory before it starts services.
    fn programs(&self) -> Programs {
        if self.packages().is_empty() {
            Programs::These(&[])
        } else {
            Programs::All
        }
    }

    /// Servers whose configuration an arm may change; the first is the default.
    fn configurable(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Names of the services that `prepare` returns.
    fn services(&self) -> Vec<&'static str> {
        self.configurable()
    }

    /// Kernel modules that it needs beyond those of the agent.
    fn modules(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Size of the empty disk that it needs, `WorkloadContext::disk`; 0 for none.
    fn disk_bytes(&self) -> u64 {
        0
    }

    /// Host files, as named in the plan. They are copied to `context::FILES` below the context's
    /// directory.
    fn files(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Checks one of `files` on the host. The error says what is wrong.
    fn check_file(&self, _path: &Path) -> Result<(), String> {
        Ok(())
    }

    /// Whether `drive` needs only the addresses of the servers, so that it can run on another
    /// system.
    fn is_driven_from_outside(&self) -> bool {
        false
    }

    /// Whether clients continue for the whole window after failed requests, so that disturbances
    /// are allowed.
    fn can_be_disturbed(&self) -> bool {
        false
    }

    /// Whether hosts can share its load: `drive` only sends a single load, which all hosts start
    /// together (`Watcher::shared_start`).
    fn is_shareable(&self) -> bool {
        false
    }

    /// Whether its connections can use several addresses of the server.
    fn takes_addresses(&self) -> bool {
        false
    }

    /// How long `drive` loads the server.
    fn timing(&self) -> Timing;

    /// Writes data and configuration below `context.dir`. Returns the services in starting order.
    fn prepare(&self, _context: &WorkloadContext) -> Result<Vec<Service>> {
        Ok(Vec::new())
    }

    /// Loads the server from a thread in the clients' network namespace, until the window is over
    /// or the agent stops it.
    fn drive(&self, context: &WorkloadContext, control: &mut Control<'_>) -> Result<Driven>;

    /// The traffic of `drive`, as requests to a null server for as many bytes each; `None` if that
    /// says nothing about the clients. Called where `drive` is, but without services.
    fn ceiling(&self, _context: &WorkloadContext, _null_server: &str) -> Result<Option<Traffic>> {
        Ok(None)
    }

    /// Whether `ceiling` returns traffic.
    fn has_ceiling(&self) -> bool {
        false
    }

    /// The figures, the primary one first. By default those that `drive` returned.
    ///
    /// # Errors
    /// The trial is void: responses were wrong, or none was correct.
    fn figures(&self, seen: &Seen<'_>) -> Result<Vec<Figure>, String> {
        Ok(seen.driven.figures.clone())
    }

    /// Figures against the load or over time. By default those that `drive` returned.
    fn curves(&self, seen: &Seen<'_>) -> Vec<Curve> {
        seen.driven.curves.clone()
    }
}

/// Whether a plan can set the length of the measurement: the workload has a window.
pub fn has_window(workload: &WorkloadPlan) -> bool {
    let kind = overview::find(&workload.kind);
    kind.is_ok_and(|(_, overview)| overview.keys.iter().any(|key| key.name == "window"))
}

/// Checks a `[[workload]]` table of a plan. Records mistakes and returns `None` if there are any.
pub fn check(fields: &Fields<'_>) -> Option<WorkloadPlan> {
    if !fields.has("kind") {
        fields.missing("kind", "\"web-static\"");
    }
    // The keys of an unknown kind are unknown, so none is reported.
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

/// Checks that a workload fits a machine of this kind. The error has a remedy.
pub fn check_machine(workload: &WorkloadPlan, kind: MachineKind) -> Result<(), String> {
    let WorkloadPlan { id, kind: word, .. } = workload;
    let is_of_network = overview::find(word).is_ok_and(|(_, overview)| overview.is_of_network());
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

/// Whether a workload's length is only a limit.
pub fn runs_to_completion(workload: &WorkloadPlan) -> bool {
    workload.options.get("limit_ns").is_some()
}

// Options of a plan come from `check`, so `from_plan` only fails if another version wrote them.

/// See `Workload::is_driven_from_outside`.
pub fn is_driven_from_outside(plan: &WorkloadPlan) -> bool {
    from_plan(plan).is_ok_and(|workload| workload.is_driven_from_outside())
}

/// See `Workload::can_be_disturbed`.
pub fn can_be_disturbed(plan: &WorkloadPlan) -> bool {
    from_plan(plan).is_ok_and(|workload| workload.can_be_disturbed())
}

/// See `Workload::is_shareable`.
pub fn is_shareable(plan: &WorkloadPlan) -> bool {
    from_plan(plan).is_ok_and(|workload| workload.is_shareable())
}

/// See `Workload::takes_addresses`.
pub fn takes_addresses(plan: &WorkloadPlan) -> bool {
    from_plan(plan).is_ok_and(|workload| workload.takes_addresses())
}

/// See `Workload::has_ceiling`.
pub fn has_ceiling(plan: &WorkloadPlan) -> bool {
    from_plan(plan).is_ok_and(|workload| workload.has_ceiling())
}

/// See `Workload::configurable`.
fn servers(plan: &WorkloadPlan) -> Vec<&'static str> {
    from_plan(plan).map_or_else(|_| Vec::new(), |workload| workload.configurable())
}

/// See `Workload::services`.
pub fn services(plan: &WorkloadPlan) -> Vec<&'static str> {
    from_plan(plan).map_or_else(|_| Vec::new(), |workload| workload.services())
}

/// See `Workload::files`.
pub fn host_files(plan: &WorkloadPlan) -> Vec<String> {
    let workload = from_plan(plan).ok();
    let files = workload.iter().flat_map(|workload| workload.files());
    files.map(String::from).collect()
}

/// See `Workload::check_file`.
pub fn check_host_file(plan: &WorkloadPlan, path: &Path) -> Result<(), String> {
    from_plan(plan).map_or(Ok(()), |workload| workload.check_file(path))
}

/// The name in reports: `name`, or else the kind.
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

/// A workload with the application server that an arm names.
///
/// # Errors
/// The workload has no such server.
pub fn with_server(workload: &WorkloadPlan, server: Option<&str>) -> Result<WorkloadPlan, String> {
    let mut workload = workload.clone();
    let Some(server) = server else {
        return Ok(workload);
    };
    let remedy = format!(
        "write one of {} with a workload of kind \"{}\"",
        app_trade::servers().join(", "),
        app_trade::KIND.word
    );
    if workload.kind != app_trade::KIND.word {
        return Err(format!(
            "server of an arm for workload {} ({remedy})",
            workload.id
        ));
    }
    if !app_trade::servers().contains(&server) {
        return Err(format!("unknown server of an arm: {server:?} ({remedy})"));
    }
    workload.options["server"] = server.into();
    Ok(workload)
}

/// Builds the workload of a plan.
pub fn from_plan(workload: &WorkloadPlan) -> Result<Box<dyn Workload>> {
    from_options(&WorkloadJob {
        kind: workload.kind.clone(),
        options: workload.options.clone(),
    })
}

/// Rebuilds a workload from the options that `check` wrote.
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
