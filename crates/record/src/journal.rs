//! The append-only record of a run. Each entry is on disk before anything is shown.
//!
//! One JSON object per line. An interruption can leave a torn last line, which is cut off. Damage anywhere else is an error, because
//! another program must have changed the file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Result, bail};
use base::input::tree::Tree;
use plan::{Clients, Plan};
use serde::{Deserialize, Serialize};

use crate::lines;
use crate::lines::Lines;
pub use crate::lines::{LINE_BYTES, MOST_BYTES, Parser};
use crate::load_path::{CeilingOutcome, OneFewerOutcome};
use crate::machine::MachineDescription;
use crate::node::Node;
use crate::trial::{Trial, VoidReason};
use crate::verdict::finding::Disturbance;
use crate::verdict::interim::InterimResult;
use plan::StringPrice;

/// Remedy for a journal that is not as the run wrote it.
pub(crate) const RESTORE: &str = "restore it from a copy, or begin a new run with --out DIR";

/// Name of the journal's file.
pub const JOURNAL: &str = "journal.jsonl";

/// Version of the journal's format.
pub const VERSION: u32 = 1;

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Host time in RFC 3339, UTC.
    pub at: String,
    /// What happened.
    pub event: Event,
}

/// An event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The run began.
    Opened(Opening),
    /// The run was resumed after an interruption.
    Resumed {
        /// Version of bakeoff that resumed it.
        bakeoff: String,
    },
    /// The clients' highest rate was measured against a null server, before the trials to which it applies. If one set-up has several
    /// measurements, the last counts.
    Ceiling {
        /// The workload's id.
        workload: String,
        /// CPU count of the arms to which it applies; `None` for all of the machine's CPUs.
        cpus: Option<u32>,
        /// The result.
        outcome: CeilingOutcome,
    },
    /// An arm was measured with one client fewer, after the last block. The verdict ignores it; of several, the last counts.
    OneFewer {
        /// The workload's id.
        workload: String,
        /// The arm.
        arm: String,
        /// The result.
        outcome: OneFewerOutcome,
    },
    /// A block that a fleet's node ran was merged. The entries up to the next `InterimAnalysis` come from the
    /// block's journal, with the times of the node's clock.
    Merged {
        /// The block.
        block: u32,
        /// The node that ran it.
        node: Node,
        /// Nodes that began the block earlier and did not finish it, first to last; their trials do not count.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        given_up_on: Vec<String>,
    },
    /// An attempt at a trial started.
    Started {
        /// Which trial.
        trial: Trial,
        /// Which attempt, counted from 1.
        attempt: u32,
    },
    /// An attempt ended; its record is on disk.
    Ended {
        /// Which trial.
        trial: Trial,
        /// Which attempt.
        attempt: u32,
        /// How it ended.
        ending: Ending,
        /// SHA-256 of its `trial.json`.
        record: String,
        /// SHA-256 of its `facts.json`; `None` without one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        facts: Option<String>,
    },
    /// An outside disturbance invalidated a block: its measurements do not count, and it is run again.
    Invalidated {
        /// The workload's id.
        workload: String,
        /// The block.
        block: u32,
        /// Numbers of its trials.
        trials: Vec<u32>,
        /// What disturbed it.
        disturbance: Disturbance,
    },
    /// An interim analysis of the verdict, after a block.
    InterimAnalysis {
        /// Number of complete blocks.
        blocks: u32,
        /// State of each primary metric of each arm.
        results: Vec<InterimResult>,
        /// Ids of the workloads that continue.
        undecided: Vec<String>,
    },
    /// An attempt at a trial that runs only for its profile started. Such trials have separate numbers and blocks, both from 1.
    Profiling {
        /// Which trial.
        trial: Trial,
        /// Which attempt, counted from 1.
        attempt: u32,
    },
    /// Such an attempt ended; its record is on disk, in `profiled/`. The verdict ignores it.
    Profiled {
        /// Which trial.
        trial: Trial,
        /// Which attempt.
        attempt: u32,
        /// How it ended.
        ending: Ending,
        /// SHA-256 of its `trial.json`.
        record: String,
    },
    /// The run is over.
    Closed {
        /// Why no more blocks are run.
        reason: CloseReason,
    },
    /// A run that had ended undecided was given more blocks and continues.
    Extended {
        /// Version of bakeoff that continues it.
        bakeoff: String,
        /// Blocks run so far.
        from: u32,
        /// New limit of blocks in all.
        to: u32,
        /// Ids of the workloads that continue.
        undecided: Vec<String>,
        /// Error rate from now on, a fraction.
        error_rate: f64,
    },
}

/// Why a run is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum CloseReason {
    /// All primary metrics are decided.
    Decided {
        /// Number of blocks.
        blocks: u32,
    },
    /// All blocks that the plan allows were run.
    BlocksOfPlan {
        /// Number of blocks.
        blocks: u32,
    },
    /// All blocks were run, including those added after the run had ended undecided.
    BlocksGiven {
        /// Number of blocks in all.
        blocks: u32,
    },
    /// The run was a single block of a fleet's run, and the block has ended.
    OneBlock {
        /// The block.
        block: u32,
    },
    /// The baseline's last trials all failed.
    NoBaseline {
        /// Consecutive failed trials.
        trials: u32,
    },
    /// The last trials of every arm except the baseline failed.
    NoArm {
        /// Consecutive failed trials of each arm.
        trials: u32,
    },
}

/// What a run was opened with; a resumed run must have the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opening {
    /// Version of this format.
    pub version: u32,
    /// Version of bakeoff.
    pub bakeoff: String,
    /// Inputs of the run by name (`plan`, `image`, `kernel 6.1`, `binary`), with their SHA-256.
    pub inputs: BTreeMap<String, String>,
    /// How the machine was resolved.
    pub machine: MachineDescription,
    /// Guest nanoseconds per instruction, when the clock counts instructions.
    pub ns_per_instruction: Option<u32>,
    /// Number of CPUs on which bakeoff itself could run; `None` where they cannot be counted.
    pub host_cpus: Option<u32>,
    /// Price of string instructions, where the clock counts instructions.
    pub string_price: Option<StringPrice>,
    /// Where the clients of guests ran; `None` on other machines.
    pub clients: Option<Clients>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// The attempt was measured.
    Measured,
    /// The attempt failed and has no figures.
    Void(VoidReason),
    /// The attempt was not made.
    Skipped,
}

/// Result of an arm with one client fewer, from the journal's entries; `None` if that was not measured.
pub fn one_fewer<'e>(
    entries: &'e [Entry],
    workload: &str,
    arm: &str,
) -> Option<&'e OneFewerOutcome> {
    entries.iter().rev().find_map(|entry| {
        let Event::OneFewer {
            workload: entry_workload,
            arm: entry_arm,
            outcome,
        } = &entry.event
        else {
            return None;
        };
        (entry_workload == workload && entry_arm == arm).then_some(outcome)
    })
}

/// Result of the clients' ceiling in a workload for arms with this CPU count, from the journal's entries; `None` if it was not
/// measured.
pub fn ceiling<'e>(
    entries: &'e [Entry],
    workload: &str,
    cpus: Option<u32>,
) -> Option<&'e CeilingOutcome> {
    entries.iter().rev().find_map(|entry| {
        let Event::Ceiling {
            workload: entry_workload,
            cpus: entry_cpus,
            outcome,
        } = &entry.event
        else {
            return None;
        };
        (entry_workload == workload && *entry_cpus == cpus).then_some(outcome)
    })
}

/// An open journal.
#[derive(Debug)]
pub struct Journal(Lines);

impl Journal {
    /// Opens or creates the journal of a run directory, and returns its entries. A torn last line is cut off.
    pub fn open(dir: impl Into<Tree>) -> Result<(Self, Vec<Entry>)> {
        let dir = dir.into();
        let lines = Lines::open(&dir, JOURNAL)?;
        let entries = lines.read()?;
        check_opening(&dir.path().join(JOURNAL), &entries)?;
        Ok((Self(lines), entries))
    }

    /// Appends one entry and waits until it is on disk.
    pub fn append(&mut self, entry: &Entry) -> Result<()> {
        self.0.append(entry)
    }
}

/// Reads the journal of a run directory without changing it; a torn last line is ignored.
pub fn read(dir: impl Into<Tree>) -> Result<Vec<Entry>> {
    read_hashed(&dir.into()).map(|(entries, _)| entries)
}

/// Like `read`, with the SHA-256 of the whole lines.
pub fn read_hashed(dir: &Tree) -> Result<(Vec<Entry>, String)> {
    let read = lines::read(dir, JOURNAL)?;
    check_opening(&dir.path().join(JOURNAL), &read.values)?;
    Ok((read.values, read.sha256))
}

fn check_opening(path: &Path, entries: &[Entry]) -> Result<()> {
    match entries.first().map(|entry| &entry.event) {
        Some(Event::Opened(opening)) if opening.version > VERSION => bail!(
            "journal of a newer bakeoff ({}): {} (use that version)",
            opening.bakeoff,
            path.display()
        ),
        // The clock would stand still.
        Some(Event::Opened(opening)) if opening.ns_per_instruction == Some(0) => bail!(
            "damaged journal: {} line 1: ns_per_instruction 0 ({RESTORE})",
            path.display()
        ),
        Some(Event::Opened(_)) | None => Ok(()),
        Some(_) => bail!(
            "journal does not begin with its opening: {}",
            path.display()
        ),
    }
}

/// Checks that no line is missing or doubled, as far as the other lines show it. Lines lost at the end look like an interruption.
pub fn check_whole(entries: &[Entry]) -> Result<(), String> {
    // Attempts by trial number and attempt.
    let mut begun: BTreeMap<(u32, u32), &Trial> = BTreeMap::new();
    let (mut ended, mut profiled) = (BTreeSet::new(), BTreeSet::new());
    // Trial that measured an arm, by workload, block and arm.
    let mut measured: BTreeMap<(&str, u32, &str), u32> = BTreeMap::new();
    for (index, entry) in entries.iter().enumerate() {
        let line = index + 1;
        match &entry.event {
            Event::Opened(_) if index > 0 => return Err(format!("opened twice: line {line}")),
            Event::Opened(_)
            | Event::Closed { .. }
            | Event::Extended { .. }
            | Event::Ceiling { .. }
            | Event::OneFewer { .. }
            | Event::Merged { .. }
            | Event::Profiling { .. } => {}
            Event::Profiled { trial, attempt, .. } => {
                if !profiled.insert((trial.number, *attempt)) {
                    return Err(format!(
                        "profiled {trial}, attempt {attempt} ended twice: line {line}"
                    ));
                }
            }
            // A resumed run starts interrupted attempts again.
            Event::Resumed { .. } => begun.clear(),
            Event::Started { trial, attempt } => {
                begun.insert((trial.number, *attempt), trial);
            }
            Event::Ended {
                trial,
                attempt,
                ending,
                ..
            } => {
                let id = (trial.number, *attempt);
                begun.remove(&id);
                if !ended.insert(id) {
                    return Err(format!(
                        "{trial}, attempt {attempt} ended twice: line {line}"
                    ));
                }
                let arm_in_block = (&*trial.workload, trial.block, &*trial.arm);
                if *ending == Ending::Measured
                    && let Some(other) = measured.insert(arm_in_block, trial.number)
                {
                    return Err(format!(
                        "{trial} was measured as trial {other:03} already, and no line says that that one does not count: \
                         line {line}"
                    ));
                }
            }
            Event::Invalidated { trials, .. } => {
                measured.retain(|_, number| !trials.contains(number));
            }
            Event::InterimAnalysis {
                blocks, undecided, ..
            } => {
                let lost = begun.iter().find(|(_, trial)| trial.block <= *blocks);
                if let Some(((_, attempt), trial)) = lost {
                    return Err(format!(
                        "the end of {trial}, attempt {attempt} is missing before line {line}"
                    ));
                }
                // Trials of later blocks are abandoned once their workload is decided.
                begun.retain(|_, trial| undecided.contains(&trial.workload));
            }
        }
    }
    Ok(())
}

/// Checks that every trial belongs to an arm and a workload of the plan, and ends as the trial as which it started.
pub fn check_trials(entries: &[Entry], plan: &Plan) -> Result<(), String> {
    let mut begun: BTreeMap<(u32, u32), &Trial> = BTreeMap::new();
    for (index, entry) in entries.iter().enumerate() {
        let line = index + 1;
        let trial = match &entry.event {
            Event::Started { trial, attempt } => {
                begun.insert((trial.number, *attempt), trial);
                trial
            }
            Event::Ended { trial, attempt, .. } => {
                let started = begun.remove(&(trial.number, *attempt));
                if let Some(started) = started.filter(|started| *started != trial) {
                    return Err(format!("{trial} had begun as {started}: line {line}"));
                }
                trial
            }
            _ => continue,
        };
        let has_arm = plan.arms.iter().any(|arm| arm.name == trial.arm);
        let has_workload = plan
            .workloads
            .iter()
            .any(|workload| workload.id == trial.workload);
        if !has_arm || !has_workload || trial.block == 0 {
            return Err(format!("{trial} is none of the plan's: line {line}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use base::skip::limits;

    use super::*;
    use crate::fixtures::builder::RunBuilder;
    use crate::verdict::Verdict;
    use crate::verdict::finding::CpuTaken;
    use crate::verdict::interim::{InterimMetric, Remaining};

    fn opened() -> Entry {
        let opening = Opening {
            version: VERSION,
            ..RunBuilder::new().run().opening
        };
        Entry {
            at: "2026-01-01T00:00:00Z".into(),
            event: Event::Opened(opening),
        }
    }

    fn interim_analysis(blocks: u32) -> Entry {
        Entry {
            at: String::new(),
            event: Event::InterimAnalysis {
                blocks,
                results: vec![],
                undecided: Vec::new(),
            },
        }
    }

    fn written(extra: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        let (mut journal, entries) = Journal::open(path.parent().unwrap()).unwrap();
        assert!(entries.is_empty());
        journal.append(&opened()).unwrap();
        journal.append(&interim_analysis(1)).unwrap();
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole[..], extra].concat()).unwrap();
        (dir, path)
    }

    #[test]
    fn a_torn_last_line_is_cut_off_and_written_over() {
        let (_dir, path) = written(b"{\"at\":\"\",\"event\":{\"loo");
        assert_eq!(read(path.parent().unwrap()).unwrap().len(), 2);
        let (mut journal, entries) = Journal::open(path.parent().unwrap()).unwrap();
        assert_eq!(entries, [opened(), interim_analysis(1)]);
        journal.append(&interim_analysis(2)).unwrap();
        assert_eq!(
            read(path.parent().unwrap()).unwrap(),
            [opened(), interim_analysis(1), interim_analysis(2)]
        );
    }

    #[test]
    fn damage_in_the_middle_is_an_error_with_its_line() {
        let (_dir, path) = written(b"damage\n{}\n");
        let why = Journal::open(path.parent().unwrap())
            .unwrap_err()
            .to_string();
        assert!(why.ends_with("line 3"), "{why}");
    }

    #[test]
    fn instructions_without_a_length_are_damage() {
        let (_dir, path) = written(b"");
        let text = fs::read_to_string(&path).unwrap();
        let none = r#""ns_per_instruction":null"#;
        let zero = r#""ns_per_instruction":0"#;
        assert!(text.contains(none), "{text}");
        fs::write(&path, text.replace(none, zero)).unwrap();
        for why in [
            read(path.parent().unwrap()).unwrap_err(),
            Journal::open(path.parent().unwrap()).unwrap_err(),
        ] {
            let want = format!(
                "damaged journal: {} line 1: ns_per_instruction 0 (restore it from a copy, or begin a new run with --out DIR)",
                path.display()
            );
            assert_eq!(why.to_string(), want);
        }
    }

    fn started(number: u32, workload: &str, block: u32) -> Entry {
        let trial = Trial {
            number,
            block,
            slot: 1,
            arm: "a".into(),
            workload: workload.into(),
        };
        let event = Event::Started { trial, attempt: 1 };
        Entry {
            at: String::new(),
            event,
        }
    }

    fn looked_at(blocks: u32, undecided: &[&str]) -> Entry {
        let mut entry = interim_analysis(blocks);
        if let Event::InterimAnalysis { undecided: ids, .. } = &mut entry.event {
            *ids = undecided.iter().map(|id| (*id).to_owned()).collect();
        }
        entry
    }

    #[test]
    fn a_trial_that_was_given_up_when_its_workload_was_decided_has_no_end() {
        let given_up = [
            opened(),
            started(1, "web", 2),
            looked_at(1, &["smb"]),
            looked_at(2, &["smb"]),
        ];
        assert_eq!(check_whole(&given_up), Ok(()));
        let lost = [
            opened(),
            started(1, "web", 2),
            looked_at(1, &["smb", "web"]),
            looked_at(2, &["smb"]),
        ];
        assert!(check_whole(&lost).unwrap_err().contains("line 4"));
    }

    #[test]
    fn a_newer_journal_is_refused() {
        let (_dir, path) = written(b"");
        let text = std::fs::read_to_string(&path).unwrap().replacen(
            &format!("\"version\":{VERSION}"),
            "\"version\":99",
            1,
        );
        std::fs::write(&path, text).unwrap();
        assert!(
            read(path.parent().unwrap())
                .unwrap_err()
                .to_string()
                .contains("newer bakeoff")
        );
    }

    #[test]
    fn looks_and_disturbances_come_back_as_they_were() {
        let taken = CpuTaken {
            trial: 3,
            share: 0.45,
            usual: 0.1 + 0.2,
        };
        let result = InterimMetric {
            workload: "web".into(),
            metric: "throughput".into(),
            arm: "new".into(),
            verdict: Verdict::Undecided,
            blocks: 9,
            ratio: Some(0.1 + 0.2),
            low: None,
            high: None,
            confidence: None,
            remaining: Remaining::Blocks {
                more: 20,
                margin: 0.02,
                most: 30,
            },
        };
        for event in [
            Event::Closed {
                reason: CloseReason::NoArm { trials: 3 },
            },
            Event::Invalidated {
                workload: "web".into(),
                block: 2,
                trials: vec![3],
                disturbance: Disturbance::Steal(taken),
            },
            Event::InterimAnalysis {
                blocks: 9,
                results: vec![InterimResult::Metric(result)],
                undecided: Vec::new(),
            },
        ] {
            let text = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event);
        }
    }

    #[test]
    fn a_journal_without_end_is_refused_within_limits() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        let file = fs::File::create(&path).unwrap();
        file.set_len(20 << 30).unwrap();
        let why = limits::refusal(|| read(dir.path()));
        let want = "file longer than 128 MiB: 20.0 GiB (put back what bakeoff has written)";
        assert!(why.ends_with(want), "{why}");
    }

    #[test]
    fn a_line_without_end_is_refused_within_limits() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        let file = fs::File::create(&path).unwrap();
        file.set_len(MOST_BYTES).unwrap();
        let why = limits::refusal(|| read(dir.path()));
        assert!(why.contains(": line longer than 4.00 MiB ("), "{why}");
    }

    #[test]
    fn a_journal_of_many_small_values_is_refused_within_limits() {
        let (dir, path) = written(b"");
        let workloads = vec!["\"\""; 60_000].join(",");
        let line = format!(
            "{{\"at\":\"\",\"event\":{{\"interim-analysis\":{{\"blocks\":1,\"results\":[],\"undecided\":[{workloads}]}}}}}}\n"
        );
        let mut text = fs::read(&path).unwrap();
        (0..20).for_each(|_| text.extend(line.as_bytes()));
        fs::write(&path, text).unwrap();
        let why = limits::refusal(|| read(dir.path()));
        assert!(why.contains(" line 20: more than "), "{why}");
    }
}
