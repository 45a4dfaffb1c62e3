//! The loop of a bisection: choose a version, measure a block, and judge, until the step is found.
//!
//! ```text
//! bisect.jsonl --replay--> blocks so far --judge::topics::bisect::find::evaluate--> Open(candidate) --measure--> Measured | Skipped | Void
//!      ^------------------------------------------- append --------------------------------------------------+
//! ```
//! The measurement is a parameter, so that tests can simulate it. The next version follows from the journal alone, so a
//! resumed bisection continues exactly where it was interrupted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Result, bail};
use judge::topics::bisect::find::{Question, evaluate};
use plan::Design;
use record::bisect::{
    BisectBlock, BisectEvent, BisectJournal, Bisection, Conclusion, Evidence, KernelConfig, Opened,
    VERSION,
};
use record::metric::MetricSpec;

use crate::lab::Finish;

/// The bisection stops after this many blocks in a row in which an end of the series has no figure.
const MAX_VOID_BLOCKS: u32 = 2;

/// The inputs of a bisection.
pub struct Bisect<'b> {
    /// The directory of the journal.
    pub dir: &'b Path,
    /// The plan's title.
    pub title: &'b str,
    /// The journal's first event; it must not change.
    pub opened: Opened,
    /// Margin, error rate, blocks and seed.
    pub design: &'b Design,
    /// Cost of a version's first block, in later blocks.
    pub first_cost: f64,
    /// Measures a block, given its number and its candidate's index.
    pub measure: &'b dyn Fn(u32, usize) -> Result<Measured>,
    /// Receives the state after it is on disk.
    pub show: &'b dyn Fn(&Bisection),
}

/// How a block ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Measured {
    /// All three arms have a figure.
    Block(MetricSpec, BisectBlock),
    /// The candidate cannot be measured: it does not build, does not boot, does not serve.
    NoCandidate(String),
    /// An end of the series has no figure.
    NoEnd(String),
    /// The user stopped the bisection.
    Interrupted,
}

/// The state that follows from the journal.
#[derive(Default)]
struct JournalState {
    blocks: Vec<BisectBlock>,
    skipped: BTreeMap<usize, String>,
    /// Blocks that have begun.
    begun_blocks: u32,
    /// Number and candidate of the last block, if it has not ended.
    unfinished: Option<(u32, usize)>,
    /// Blocks in a row in which an end has no figure.
    void_blocks: u32,
    /// Why the last void block has no figure.
    void_reason: String,
    metric: Option<MetricSpec>,
}

/// Runs a bisection, or resumes the one in the directory.
pub fn run(bisect: &Bisect<'_>) -> Result<(Bisection, Finish)> {
    let (mut journal, events) = BisectJournal::open(bisect.dir)?;
    let mut state = JournalState::default();
    match events.first() {
        None => journal.append(&BisectEvent::Opened(bisect.opened.clone()))?,
        Some(BisectEvent::Opened(before)) => refuse_changes(before, &bisect.opened)?,
        Some(_) => bail!(
            "damaged journal: it does not begin with what was opened: {} (begin anew with --out DIR)",
            bisect.dir.display()
        ),
    }
    for event in &events {
        state.apply(event);
    }
    loop {
        let bisection = bisect.bisection(&state);
        (bisect.show)(&bisection);
        let Conclusion::Open { next } = bisection.conclusion else {
            return Ok((bisection, Finish::Complete));
        };
        let (number, candidate) = if let Some(block) = state.unfinished {
            block
        } else {
            let number = state.begun_blocks + 1;
            let chosen = BisectEvent::Chosen {
                number,
                candidate: next,
            };
            journal.append(&chosen)?;
            state.apply(&chosen);
            (number, next)
        };
        let event = match (bisect.measure)(number, candidate)? {
            Measured::Block(metric, block) => BisectEvent::Measured {
                number,
                metric,
                block,
            },
            Measured::NoCandidate(why) => BisectEvent::Skipped { candidate, why },
            Measured::NoEnd(why) => BisectEvent::Void { number, why },
            Measured::Interrupted => return Ok((bisection, Finish::Interrupted)),
        };
        journal.append(&event)?;
        state.apply(&event);
        if state.void_blocks >= MAX_VOID_BLOCKS {
            bail!(
                "{MAX_VOID_BLOCKS} blocks in a row without a figure of an end: {} (mend it, or name another end)",
                state.void_reason
            );
        }
    }
}

impl Bisect<'_> {
    fn bisection(&self, state: &JournalState) -> Bisection {
        let skipped: BTreeSet<usize> = state.skipped.keys().copied().collect();
        let findings = evaluate(
            &Question {
                versions: self.opened.versions.len(),
                design: self.design,
                skipped: &skipped,
                first_cost: self.first_cost,
            },
            &state.blocks,
        );
        let mut evidence = findings.evidence;
        for (candidate, why) in &state.skipped {
            evidence.push(Evidence {
                candidate: *candidate,
                like_from: 0,
                like_to: 0,
                position: None,
                beyond: false,
                skipped: Some(why.clone()),
            });
        }
        evidence.sort_by_key(|evidence| evidence.candidate);
        Bisection {
            version: VERSION,
            title: self.title.into(),
            metric: state.metric.clone(),
            versions: self.opened.versions.clone(),
            evidence,
            steps: findings.steps,
            no_difference: findings.no_difference,
            ratio: findings.ratio,
            blocks: state.blocks.len() as u32,
            max_blocks: self.design.max_blocks,
            error_rate: self.design.error_rate,
            conclusion: findings.conclusion,
        }
    }
}

impl JournalState {
    fn apply(&mut self, event: &BisectEvent) {
        match event {
            BisectEvent::Opened(_) => {}
            BisectEvent::Chosen { number, candidate } => {
                self.begun_blocks = *number;
                self.unfinished = Some((*number, *candidate));
            }
            BisectEvent::Measured { metric, block, .. } => {
                self.metric = Some(metric.clone());
                self.blocks.push(block.clone());
                self.unfinished = None;
                self.void_blocks = 0;
            }
            BisectEvent::Skipped { candidate, why } => {
                self.skipped.insert(*candidate, why.clone());
                self.unfinished = None;
            }
            BisectEvent::Void { why, .. } => {
                self.unfinished = None;
                self.void_blocks += 1;
                self.void_reason.clone_from(why);
            }
        }
    }
}

/// Refuses to resume a bisection whose inputs changed.
fn refuse_changes(before: &Opened, now: &Opened) -> Result<()> {
    let names = |opened: &Opened| -> Vec<String> {
        let versions = opened.versions.iter();
        versions.map(|version| version.source.clone()).collect()
    };
    let what = if before.version != now.version {
        format!("its format was {}, is {}", before.version, now.version)
    } else if before.plan != now.plan {
        format!("the plan was {:.12}, is {:.12}", before.plan, now.plan)
    } else if before.metric != now.metric {
        let name = |opened: &Opened| opened.metric.clone().unwrap_or("the primary one".into());
        format!("the metric was {}, is {}", name(before), name(now))
    } else if names(before) != names(now) {
        format!(
            "the series had {} versions, has {}, or others",
            before.versions.len(),
            now.versions.len()
        )
    } else if !is_same_config(before.config.as_ref(), now.config.as_ref()) {
        format!(
            "the configuration was {}, is {}",
            config_name(before.config.as_ref()),
            config_name(now.config.as_ref())
        )
    } else {
        return Ok(());
    };
    bail!(
        "cannot go on with this bisection, something changed since it began: {what} (put it back, or begin a new one with --out DIR)"
    )
}

fn is_same_config(before: Option<&KernelConfig>, now: Option<&KernelConfig>) -> bool {
    before.map(|config| &config.sha256) == now.map(|config| &config.sha256)
}

fn config_name(config: Option<&KernelConfig>) -> String {
    config.map_or("not recorded".into(), |config| {
        let name = config.name.as_deref().unwrap_or("bakeoff's own");
        format!("{name} ({:.12})", config.sha256)
    })
}
