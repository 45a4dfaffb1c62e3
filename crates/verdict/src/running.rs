//! A run that goes on: what its looks need of the trials that have ended, and of the looks before.
//!
//! ```text
//! trial        its figures and what others took from it; no facts, series or histograms
//! look         the primary metric of each arm: decided, or how far it is; what `quick_look` says of the same blocks, bit for bit
//! disturbance  whether a block that has ended has to be run again
//! ```
//! A trial is added once, and a look follows no look again that was followed before. So a look costs what is new, and a few passes over the
//! figures of the metric. All else that can be said of a run waits until it is judged as a whole.

use std::collections::BTreeMap;
use std::rc::Rc;

use plan::{Claim, Plan};
use record::journal::{Event, Opening};
use record::metric::{Figure, MetricSpec, Role};
use record::node::Node;
use record::rundir::TrialRecord;
use record::trial::Outcome;
use record::verdict::warning::Disturbance;
use record::verdict::{Comparison, Pair};

use crate::disturbance::{self, Taken};
use crate::rule::{self, RunningTest, Series};
use crate::{comparison, nodes};

/// What looks need of the trials that have ended.
#[derive(Debug, Default)]
pub struct OpenRun {
    opening: Option<Opening>,
    workloads: BTreeMap<String, Workload>,
    /// Who ran each block, where nodes of a fleet did.
    nodes: BTreeMap<u32, Node>,
    /// By workload and arm.
    tests: BTreeMap<(String, String), RunningTest>,
    /// Trials that were added.
    added: u32,
}

/// The trials of one workload.
#[derive(Debug, Default)]
struct Workload {
    /// The last measured attempt of each trial, by block and arm.
    measured: BTreeMap<(u32, String), MeasuredTrial>,
    /// Of all measured trials, those of invalidated blocks among them.
    taken: Vec<Taken>,
    /// The block that decided it: what was run of later ones does not count.
    decided: Option<u32>,
}

#[derive(Debug)]
struct MeasuredTrial {
    number: u32,
    slot: u32,
    /// Shared by trials that have the same.
    specs: Rc<[MetricSpec]>,
    values: Box<[f64]>,
}

impl MeasuredTrial {
    fn figure(&self, metric: &str) -> Option<f64> {
        let place = self.specs.iter().position(|spec| spec.name == metric)?;
        Some(self.values[place])
    }
}

impl OpenRun {
    /// Adds an attempt that has ended.
    pub fn add(&mut self, record: &TrialRecord) {
        self.added += 1;
        let Outcome::Measured(measurement) = &record.outcome else {
            return;
        };
        let trial = &record.trial;
        let workload = self.workloads.entry(trial.workload.clone()).or_default();
        workload.taken.extend(Taken::of(record));
        let specs = workload.specs_of(&measurement.figures);
        let values = measurement.figures.iter().map(|figure| figure.value);
        let measured = MeasuredTrial {
            number: trial.number,
            slot: trial.slot,
            specs,
            values: values.collect(),
        };
        let key = (trial.block, trial.arm.clone());
        workload.measured.insert(key, measured);
    }

    /// Adds what the journal says beside that.
    pub fn hear(&mut self, event: &Event) {
        match event {
            Event::Invalidated {
                workload, trials, ..
            } => {
                if let Some(workload) = self.workloads.get_mut(workload) {
                    let counts = |one: &MeasuredTrial| !trials.contains(&one.number);
                    workload.measured.retain(|_, one| counts(one));
                }
            }
            Event::Looked {
                blocks, undecided, ..
            } => {
                for (id, workload) in &mut self.workloads {
                    if !undecided.contains(id) {
                        workload.decided.get_or_insert(*blocks);
                    }
                }
            }
            Event::Extended { undecided, .. } => {
                for (id, workload) in &mut self.workloads {
                    if undecided.contains(id) {
                        workload.decided = None;
                    }
                }
            }
            Event::Opened(opening) => self.opening = Some(opening.clone()),
            Event::Merged { block, node, .. } => {
                self.nodes.insert(*block, node.clone());
            }
            Event::Resumed { .. }
            | Event::Ceiling { .. }
            | Event::OneFewer { .. }
            | Event::Started { .. }
            | Event::Ended { .. }
            | Event::Profiling { .. }
            | Event::Profiled { .. }
            | Event::Closed { .. } => {}
        }
    }

    /// How many attempts were added, whatever came of them.
    pub fn added(&self) -> u32 {
        self.added
    }

    /// What disturbed a block of a workload from outside, as `verdict::disturbance` says; `trials` are the numbers of its trials.
    pub fn disturbance(
        &self,
        plan: &Plan,
        (workload, block): (&str, u32),
        trials: &[u32],
    ) -> Option<Disturbance> {
        let taken = self.workloads.get(workload)?.taken.iter();
        // Where several trials run at a time some of the next block may have ended.
        let so_far: Vec<Taken> = taken.filter(|one| one.block <= block).copied().collect();
        disturbance::of_taken(&so_far, plan, self.opening.as_ref()?, trials)
    }

    /// The comparisons on primary metrics after so many blocks, as `quick_look` makes them; without interval above `rule::MOST_WITH_INTERVAL` blocks.
    /// The plan's design has the blocks that the run was given later.
    pub fn look(&mut self, plan: &Plan, blocks: u32) -> Vec<Comparison> {
        let mut found = Vec::new();
        for id in plan.workloads.iter().map(|one| &one.id) {
            let Some(workload) = self.workloads.get(id) else {
                continue;
            };
            let last = workload.last(blocks);
            let specs = workload.specs(last);
            let others = plan.arms.iter().filter(|arm| arm.name != plan.baseline);
            for arm in others {
                let key = (id.clone(), arm.name.clone());
                let before = self.tests.remove(&key);
                let look = ArmLook {
                    plan,
                    workload,
                    last,
                    of_whom: (id, &arm.name),
                };
                let (primaries, test) = look.compare(&specs, before);
                self.tests.extend(test.map(|test| (key, test)));
                found.extend(primaries);
            }
        }
        match plan.claim {
            Claim::Nodes => {}
            Claim::Machines => self.claim(plan, blocks, &mut found),
        }
        found
    }

    fn claim(&self, plan: &Plan, blocks: u32, primaries: &mut [Comparison]) {
        let nodes: BTreeMap<u32, &Node> = self
            .nodes
            .iter()
            .map(|(block, node)| (*block, node))
            .collect();
        for primary in primaries {
            let workload = &self.workloads[&primary.workload];
            let specs = workload.specs(workload.last(blocks));
            let has_secondary = specs.iter().any(|spec| spec.role != Role::Primary);
            nodes::claim_primary(&plan.design, &nodes, primary, has_secondary);
        }
    }
}

impl Workload {
    /// The last block that counts at a look at so many.
    fn last(&self, blocks: u32) -> u32 {
        self.decided.map_or(blocks, |block| block.min(blocks))
    }

    /// The metrics of a trial, as another trial has them already.
    fn specs_of(&self, figures: &[Figure]) -> Rc<[MetricSpec]> {
        let is_same = |specs: &Rc<[MetricSpec]>| {
            let each = figures.iter().map(|figure| &figure.spec);
            specs.iter().eq(each)
        };
        // Those of the trials before, of which arms may have different ones.
        let before = self.measured.values().rev().take(16).map(|one| &one.specs);
        let same = before.into_iter().find(|specs| is_same(specs)).cloned();
        same.unwrap_or_else(|| figures.iter().map(|figure| figure.spec.clone()).collect())
    }

    /// The metrics of the first blocks, primaries first, then in the order in which trials name them.
    fn specs(&self, last: u32) -> Vec<MetricSpec> {
        let mut found: Vec<MetricSpec> = Vec::new();
        let mut before: Option<&Rc<[MetricSpec]>> = None;
        for one in self.until(last) {
            if before.is_some_and(|before| Rc::ptr_eq(before, &one.specs)) {
                continue;
            }
            before = Some(&one.specs);
            for spec in one.specs.iter() {
                if found.iter().all(|known| known.name != spec.name) {
                    found.push(spec.clone());
                }
            }
        }
        found.sort_by_key(|spec| spec.role != Role::Primary);
        found
    }

    fn until(&self, last: u32) -> impl Iterator<Item = &MeasuredTrial> {
        let its = self.measured.iter();
        its.take_while(move |((block, _), _)| *block <= last)
            .map(|(_, one)| one)
    }

    /// The figures of baseline and arm in every block that has both, in block order.
    fn pairs(&self, last: u32, (baseline, arm): (&str, &str), metric: &str) -> Vec<Pair> {
        let mut pairs = Vec::new();
        let mut of_block: [Option<&MeasuredTrial>; 2] = [None; 2];
        let mut present = 0;
        for ((block, name), one) in &self.measured {
            if last < *block {
                break;
            }
            if *block != present {
                (present, of_block) = (*block, [None; 2]);
            }
            if name == baseline {
                of_block[0] = Some(one);
            } else if name == arm {
                of_block[1] = Some(one);
            } else {
                continue;
            }
            if let [Some(base), Some(other)] = of_block
                && let (Some(baseline), Some(arm)) = (base.figure(metric), other.figure(metric))
            {
                pairs.push(Pair {
                    block: *block,
                    baseline,
                    arm,
                    arm_first: other.slot < base.slot,
                });
            }
        }
        pairs
    }
}

/// A look at one arm on one workload.
struct ArmLook<'l> {
    plan: &'l Plan,
    workload: &'l Workload,
    /// The last block that counts.
    last: u32,
    /// Workload and arm.
    of_whom: (&'l str, &'l str),
}

impl ArmLook<'_> {
    /// The primary metrics, and the test of the first with what the next look needs.
    fn compare(
        &self,
        specs: &[MetricSpec],
        mut before: Option<RunningTest>,
    ) -> (Vec<Comparison>, Option<RunningTest>) {
        let (design, (id, arm)) = (&self.plan.design, self.of_whom);
        let key = format!("{id}\n{arm}");
        let pairs = |spec: &MetricSpec| {
            let arms = (self.plan.baseline.as_str(), arm);
            self.workload.pairs(self.last, arms, &spec.name)
        };
        let primaries = specs
            .iter()
            .filter(|spec| spec.role == Role::Primary)
            .count();
        // A second primary metric shares its error rate with all others.
        let wanted = if primaries <= 1 {
            primaries
        } else {
            specs.len()
        };
        let pairs: Vec<Vec<Pair>> = specs[..wanted].iter().map(pairs).collect();
        let each = specs.iter().zip(&pairs);
        let series: Vec<Series<'_>> = each
            .map(|(spec, pairs)| Series {
                pairs,
                direction: spec.direction,
            })
            .collect();
        let findings = match series.as_slice() {
            [] => Vec::new(),
            [primary] => {
                let has_secondary = specs.len() > 1;
                let about = (key.as_str(), has_secondary);
                vec![rule::decide_next(*primary, design, about, &mut before)]
            }
            several => rule::decide(several, design, &key),
        };
        let found = specs.iter().zip(findings).zip(pairs);
        let found = found.filter(|((spec, _), _)| spec.role == Role::Primary);
        let found =
            found.map(|((spec, finding), pairs)| comparison(self.of_whom, spec, &finding, pairs));
        (found.collect(), before)
    }
}
