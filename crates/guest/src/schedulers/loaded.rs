//! A loaded scheduler of the running kernel.

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, Result, bail};
use libbpf_rs::{
    Link, MapCore, MapFlags, MapType, Object, ObjectBuilder, PrintLevel, num_possible_cpus,
    set_print,
};
use plan::Scheduler;

use crate::schedulers::counters::Counters;
use crate::schedulers::{OBJECTS, build_lacks};

/// Where the kernel shows the scheduler that it runs.
const PLACE: &str = "/sys/kernel/sched_ext";

/// The last warnings of libbpf, which say why a program is refused.
static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Most warnings that are kept: the verifier's log ends with its reason.
const MOST_WARNINGS: usize = 20;

/// A scheduler that the kernel runs, until it is dropped or the kernel ejects it.
#[derive(Debug)]
pub struct Loaded {
    scheduler: Scheduler,
    object: Object,
    _link: Link,
}

impl Loaded {
    /// Loads the scheduler, which gets all ordinary tasks. Needs root.
    ///
    /// # Errors
    /// Why the kernel rejects it.
    pub fn load(scheduler: Scheduler) -> Result<Self> {
        let name = scheduler.word();
        if let Some(lack) = build_lacks() {
            bail!("{} ({})", lack.what, lack.remedy);
        }
        if !Path::new(PLACE).exists() {
            bail!("this kernel has no sched_ext (take one with CONFIG_SCHED_CLASS_EXT)");
        }
        set_print(Some((PrintLevel::Warn, |_, text| keep_warning(&text))));
        let (object, link) = attach(scheduler)
            .with_context(warnings)
            .with_context(|| format!("the kernel does not take the scheduler {name}"))?;
        let loaded = Self {
            scheduler,
            object,
            _link: link,
        };
        loaded.check()?;
        Ok(loaded)
    }

    /// Whether the kernel still runs it.
    ///
    /// # Errors
    /// Why it does not, from the kernel.
    pub fn check(&self) -> Result<()> {
        let read = |name: &str| fs::read_to_string(Path::new(PLACE).join(name));
        let state = read("state").context("ask for the state of sched_ext")?;
        let ops = read("root/ops").unwrap_or_default();
        let name = self.scheduler.word();
        if state.trim() == "enabled" && ops.trim() == name {
            return Ok(());
        }
        let ejection = self.map(".data.ejection").unwrap_or_default();
        bail!("{}", ejected(name, &ejection, state.trim(), ops.trim()))
    }

    /// Its counters.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn counters(&self) -> Result<Counters> {
        let bytes = self.map(".data.counters")?;
        Counters::parse(&bytes).context("counters of a form of their own")
    }

    /// Counts of `sched_ext`'s events, by name.
    pub fn events(&self) -> Vec<(String, u64)> {
        let text = fs::read_to_string(Path::new(PLACE).join("root/events"));
        events(&text.unwrap_or_default())
    }

    /// The variables of a section.
    fn map(&self, section: &str) -> Result<Vec<u8>> {
        let mut maps = self.object.maps();
        let map = maps.find(|map| map.name().to_string_lossy().ends_with(section));
        let map = map.with_context(|| format!("no section {section}"))?;
        let value = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY)?;
        value.with_context(|| format!("nothing in section {section}"))
    }
}

fn attach(scheduler: Scheduler) -> Result<(Object, Link)> {
    let has_several_cpus = num_possible_cpus()? > 1;
    let bytes = match (scheduler, has_several_cpus) {
        (Scheduler::Goodness, false) => OBJECTS[0],
        (Scheduler::O1, false) => OBJECTS[1],
        (Scheduler::Fifo, false) => OBJECTS[2],
        (Scheduler::Goodness, true) => OBJECTS[3],
        (Scheduler::O1, true) => OBJECTS[4],
        (Scheduler::Fifo, true) => OBJECTS[5],
    };
    let mut builder = ObjectBuilder::default();
    builder.name(scheduler.word())?;
    let mut object = builder.open_memory(bytes)?.load()?;
    let mut maps = object.maps_mut();
    let ops = maps.find(|map| map.map_type() == MapType::StructOps);
    let link = ops
        .context("no operations in the object")?
        .attach_struct_ops()?;
    drop(maps);
    Ok((object, link))
}

fn keep_warning(text: &str) {
    if let Ok(mut kept) = WARNINGS.lock() {
        kept.extend(text.lines().map(String::from));
        let more = kept.len().saturating_sub(MOST_WARNINGS);
        kept.drain(..more);
    }
}

fn warnings() -> String {
    let kept = WARNINGS.lock().map(|kept| kept.join("; "));
    kept.unwrap_or_default()
}

/// The message for an ejected scheduler, with the kernel's reason if there is one.
fn ejected(name: &str, bytes: &[u8], state: &str, ops: &str) -> String {
    let (reason, message) = ejection(bytes);
    let why = match (reason.as_str(), message.as_str()) {
        ("", _) => format!("its state is {state}, of {ops:?}; see the console"),
        (reason, "") => reason.into(),
        (reason, message) => format!("{reason}: {message}"),
    };
    format!("scheduler ejected by the kernel: {name} ({why})")
}

/// Reason and message: `struct ejection` of `kernel.h`.
fn ejection(bytes: &[u8]) -> (String, String) {
    let text = |bytes: &[u8]| {
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).trim().to_string()
    };
    let (reason, message) = bytes.split_at(bytes.len().min(128));
    (text(reason), text(message))
}

/// Parses lines of a name and a number; skips others.
fn events(text: &str) -> Vec<(String, u64)> {
    let pairs = text.lines().filter_map(|line| {
        let (name, count) = line.rsplit_once(' ')?;
        Some((name.trim().to_string(), count.parse().ok()?))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedulers::IS_BUILT;

    #[test]
    fn the_kernels_reason_is_read() {
        let mut bytes = vec![0; 128 + 256];
        assert_eq!(ejection(&bytes), (String::new(), String::new()));
        bytes[..20].copy_from_slice(b"runnable task stall\0");
        bytes[128..134].copy_from_slice(b"sh[27]");
        let expected = ("runnable task stall".into(), "sh[27]".into());
        assert_eq!(ejection(&bytes), expected);
        assert_eq!(ejection(&bytes[..5]).0, "runna");
    }

    #[test]
    fn an_ejection_is_reported_in_the_kernels_words() {
        let mut bytes = vec![0; 128 + 256];
        let nothing =
            "scheduler ejected by the kernel: o1 (its state is disabled, of \"\"; see the console)";
        assert_eq!(ejected("o1", &bytes, "disabled", ""), nothing);
        bytes[..19].copy_from_slice(b"runnable task stall");
        let reason = "scheduler ejected by the kernel: o1 (runnable task stall)";
        assert_eq!(ejected("o1", &bytes, "disabled", ""), reason);
        // As the watchdog has it for a task that is never chosen.
        let message = b"beside[412] failed to run for 30.004s";
        bytes[128..128 + message.len()].copy_from_slice(message);
        let both = "scheduler ejected by the kernel: o1 (runnable task stall: beside[412] failed to run for 30.004s)";
        assert_eq!(ejected("o1", &bytes, "disabled", ""), both);
    }

    #[test]
    fn events_are_names_and_numbers() {
        let text = "SCX_EV_SELECT_CPU_FALLBACK 3\nSCX_EV_REFILL_SLICE_DFL 0\nelse\nnone x\n";
        let expected = [
            ("SCX_EV_SELECT_CPU_FALLBACK".into(), 3),
            ("SCX_EV_REFILL_SLICE_DFL".into(), 0),
        ];
        assert_eq!(events(text), expected);
    }

    #[test]
    fn a_build_with_clang_has_all_objects() {
        if !IS_BUILT {
            base::skip::skip("built without clang");
            return;
        }
        assert!(OBJECTS.iter().all(|object| object.starts_with(b"\x7fELF")));
    }
}
