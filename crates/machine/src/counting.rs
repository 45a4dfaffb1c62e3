//! Trials whose instructions are counted: QEMU gets the counter's plugin, whose output becomes counts of the window.
//!
//! Like the profiler's, plugin and output are files in memory that QEMU inherits (`profiling`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::process::Command;

use anyhow::{Context, Result, bail};
use profiler::counter;

use crate::emulator::{Program, TELLS_STARTS};
use crate::profiling::{ArmSymbols, path, refuses};
use crate::program;
use crate::task::Task;

/// Counts string instructions of a plan's arms, by control group.
#[derive(Debug)]
pub struct Counter {
    /// Where each arm's kernel has its tasks; nothing of kernels that do not say.
    arms: BTreeMap<String, Vec<(&'static str, u64)>>,
}

impl Counter {
    /// For arms with these symbols. A kernel without any is counted too: only not by control group.
    pub fn new(arms: &BTreeMap<String, Result<ArmSymbols, String>>) -> Self {
        let places = arms.iter().map(|(arm, symbols)| {
            let places = symbols
                .as_ref()
                .map(|symbols| counter::arguments(&symbols.kernel));
            (arm.clone(), places.unwrap_or_default())
        });
        Self {
            arms: places.collect(),
        }
    }

    /// Adds the plugin to QEMU's command line; what it will write.
    pub(crate) fn attach(&self, arm: &str, qemu: &mut Command) -> Result<File> {
        let places = self.arms.get(arm).map(Vec::as_slice).unwrap_or_default();
        add_plugin(places, qemu)
    }
}

fn add_plugin(places: &[(&'static str, u64)], qemu: &mut Command) -> Result<File> {
    let Some(library) = counter::library() else {
        bail!(
            "this build of bakeoff has no counter (build it where rustc can build for this host)"
        );
    };
    let library = program::in_memory_with("bakeoff-counter", library)?;
    let out = program::in_memory("bakeoff-counts")?;
    let mut load = format!("file={},out={}", path(&library), path(&out));
    for (name, place) in places {
        let _ = write!(load, ",{name}={place}");
    }
    qemu.args(["-plugin", &load]);
    let written = out.try_clone().context("cannot keep the counter's file")?;
    for file in [library, out] {
        base::process::inherit(qemu, file.into());
    }
    Ok(written)
}

/// Why this QEMU cannot count string instructions, if it cannot.
///
/// # Errors
/// The user has stopped it, or nothing can be tried on this host.
pub fn refusal(program: &Program, task: Task<'_>) -> Result<Option<String>> {
    let remedy = "run bakeoff cache qemu fetch, or name another QEMU with --qemu PATH";
    if program.release < TELLS_STARTS {
        return Ok(Some(format!(
            "{} does not tell where string instructions start ({remedy}: {TELLS_STARTS} or later)",
            program.version
        )));
    }
    let why = refuses(program, task, |qemu| add_plugin(&[], qemu).map(drop))?;
    Ok(why.map(|why| {
        format!(
            "{} does not load the plugin that counts string instructions: {why} ({remedy})",
            program.version
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profiling::tests::of_script;

    #[test]
    fn a_qemu_that_cannot_count_string_instructions_is_refused_with_the_remedy() {
        let refused = |release, script| of_script(release, script, refusal);
        let quits = "read -r line; [ \"$line\" = quit ]";
        assert_eq!(refused("10.0", quits), None);
        assert_eq!(
            refused("9.2", quits).unwrap(),
            "QEMU 9.2 does not tell where string instructions start (run bakeoff cache qemu fetch, or name another QEMU with \
             --qemu PATH: 10.0 or later)"
        );
        let why = refused("10.1", "echo 'qemu: -plugin: invalid option' >&2; exit 1").unwrap();
        assert!(
            why.contains("-plugin: invalid option") && why.contains("run bakeoff cache qemu fetch"),
            "{why}"
        );
    }

    #[test]
    fn a_kernel_that_does_not_tell_its_tasks_is_counted_all_the_same() {
        let counter = Counter {
            arms: BTreeMap::from([("6.1".to_string(), vec![("switch", 7)])]),
        };
        let arguments = |arm| {
            let mut qemu = Command::new("qemu");
            counter.attach(arm, &mut qemu).unwrap();
            let words = qemu
                .get_args()
                .map(|word| word.to_string_lossy().into_owned());
            words.collect::<Vec<_>>().join(" ")
        };
        assert!(arguments("6.1").ends_with(",switch=7"));
        assert!(arguments("7.2").starts_with("-plugin file=/proc/self/fd/"));
    }
}
