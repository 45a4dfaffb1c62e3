//! The loop of a bisection: ask a version, note what a block says, look, until a step is found.
//!
//! ```text
//! bisect.jsonl --replay--> blocks so far --judge::topics::bisect::find::look--> Open(candidate) --measure--> Measured | Skipped | Void
//!      ^------------------------------------------- append --------------------------------------------------+
//! ```
//! Who measures is a parameter, so that a fake one can be bisected in no time. What is asked next follows from the journal alone, so that a
//! bisection that was interrupted goes on as if it had not been.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Result, bail};
use judge::topics::bisect::find::{Question, look};
use plan::Design;
use record::bisect::{
    BisectBlock, BisectEvent, BisectJournal, Bisection, Conclusion, Evidence, KernelConfig, Opened,
    VERSION,
};
use record::metric::MetricSpec;

use crate::lab::Finish;

/// Blocks in a row without a figure of an end, after which there is no use in another.
const PATIENCE: u32 = 2;

/// All that a bisection stands on.
pub struct Bisect<'b> {
    /// Where its journal is.
    pub dir: &'b Path,
    /// The plan's title.
    pub title: &'b str,
    /// What it began with.
    pub opened: Opened,
    /// Margin, error rate, blocks and seed.
    pub design: &'b Design,
    /// What a block of a version costs that was never measured, in blocks of one that was.
    pub first_cost: f64,
    /// Measures a block: its number and its candidate's place.
    pub measure: &'b dyn Fn(u32, usize) -> Result<Measured>,
    /// Told where it stands, after that is on disk.
    pub show: &'b dyn Fn(&Bisection),
}

/// How a block ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Measured {
    /// All three have a figure.
    Block(MetricSpec, BisectBlock),
    /// The candidate cannot be measured: it does not build, does not boot, does not serve.
    NoCandidate(String),
    /// An end has no figure.
    NoEnd(String),
    /// The user stopped it.
    Interrupted,
}

/// What the journal says so far.
#[derive(Default)]
struct Known {
    blocks: Vec<BisectBlock>,
    skipped: BTreeMap<usize, String>,
    /// Blocks that have begun.
    begun: u32,
    /// The last one, if it has not ended.
    under_way: Option<(u32, usize)>,
    /// Blocks in a row without a figure of an end, and why the last had none.
    voids: (u32, String),
    metric: Option<MetricSpec>,
}

/// Bisects, or goes on where an earlier bisection in the directory stopped.
pub fn run(bisect: &Bisect<'_>) -> Result<(Bisection, Finish)> {
    let (mut journal, events) = BisectJournal::open(bisect.dir)?;
    let mut known = Known::default();
    match events.first() {
        None => journal.append(&BisectEvent::Opened(bisect.opened.clone()))?,
        Some(BisectEvent::Opened(before)) => refuse_changes(before, &bisect.opened)?,
        Some(_) => bail!(
            "damaged journal: it does not begin with what was opened: {} (begin anew with --out DIR)",
            bisect.dir.display()
        ),
    }
    for event in &events {
        known.note(event);
    }
    loop {
        let now = bisect.bisection(&known);
        (bisect.show)(&now);
        let Conclusion::Open { next } = now.conclusion else {
            return Ok((now, Finish::Complete));
        };
        let (number, candidate) = if let Some(block) = known.under_way {
            block
        } else {
            let number = known.begun + 1;
            let chosen = BisectEvent::Chosen {
                number,
                candidate: next,
            };
            journal.append(&chosen)?;
            known.note(&chosen);
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
            Measured::Interrupted => return Ok((now, Finish::Interrupted)),
        };
        journal.append(&event)?;
        known.note(&event);
        if known.voids.0 >= PATIENCE {
            bail!(
                "{PATIENCE} blocks in a row without a figure of an end: {} (mend it, or name another end)",
                known.voids.1
            );
        }
    }
}

impl Bisect<'_> {
    fn bisection(&self, known: &Known) -> Bisection {
        let skipped: BTreeSet<usize> = known.skipped.keys().copied().collect();
        let findings = look(
            &Question {
                versions: self.opened.line.len(),
                design: self.design,
                skipped: &skipped,
                first_cost: self.first_cost,
            },
            &known.blocks,
        );
        let mut evidence = findings.evidence;
        for (candidate, why) in &known.skipped {
            evidence.push(Evidence {
                candidate: *candidate,
                like_from: 0,
                like_to: 0,
                position: None,
                beyond: false,
                skipped: Some(why.clone()),
            });
        }
        evidence.sort_by_key(|one| one.candidate);
        Bisection {
            version: VERSION,
            title: self.title.into(),
            metric: known.metric.clone(),
            line: self.opened.line.clone(),
            evidence,
            steps: findings.steps,
            no_difference: findings.no_difference,
            ratio: findings.ratio,
            blocks: known.blocks.len() as u32,
            max_blocks: self.design.max_blocks,
            error_rate: self.design.error_rate,
            conclusion: findings.conclusion,
        }
    }
}

impl Known {
    fn note(&mut self, event: &BisectEvent) {
        match event {
            BisectEvent::Opened(_) => {}
            BisectEvent::Chosen { number, candidate } => {
                self.begun = *number;
                self.under_way = Some((*number, *candidate));
            }
            BisectEvent::Measured { metric, block, .. } => {
                self.metric = Some(metric.clone());
                self.blocks.push(block.clone());
                self.under_way = None;
                self.voids.0 = 0;
            }
            BisectEvent::Skipped { candidate, why } => {
                self.skipped.insert(*candidate, why.clone());
                self.under_way = None;
            }
            BisectEvent::Void { why, .. } => {
                self.under_way = None;
                self.voids = (self.voids.0 + 1, why.clone());
            }
        }
    }
}

/// A bisection that goes on must stand on what it began with.
fn refuse_changes(before: &Opened, now: &Opened) -> Result<()> {
    let names = |opened: &Opened| -> Vec<String> {
        let versions = opened.line.iter();
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
            "the line had {} versions, has {}, or others",
            before.line.len(),
            now.line.len()
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
