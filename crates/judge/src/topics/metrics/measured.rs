//! Measured trials by block, which is the unit of comparison.

use std::collections::{BTreeMap, BTreeSet};

use record::curve::Curve;
use record::metric::{MetricSpec, Role};
use record::rundir::Run;
use record::trial::{Measurement, Trial};
use record::verdict::Pair;

/// Workload, block and arm of a trial.
type Key<'r> = (&'r str, u32, &'r str);

/// The last measured attempt of each trial.
pub(crate) struct Measured<'r> {
    trials: BTreeMap<Key<'r>, (&'r Trial, &'r Measurement)>,
    /// Blocks of each workload that have an attempt.
    begun: BTreeMap<&'r str, BTreeSet<u32>>,
    /// Trials that have an attempt, measured or not.
    attempted: BTreeSet<Key<'r>>,
}

impl<'r> Measured<'r> {
    /// Collects all attempts. A later attempt at a trial replaces an earlier one.
    pub(crate) fn of(run: &'r Run) -> Self {
        let mut measured = Self {
            trials: BTreeMap::new(),
            begun: BTreeMap::new(),
            attempted: BTreeSet::new(),
        };
        for record in &run.attempts {
            let trial = &record.trial;
            let key = (trial.workload.as_str(), trial.block, trial.arm.as_str());
            measured.begun.entry(key.0).or_default().insert(key.1);
            measured.attempted.insert(key);
            if let Some(measurement) = record.outcome.measured() {
                measured.trials.insert(key, (trial, measurement));
            }
        }
        measured
    }

    /// Trials and measurements of one arm on one workload, in block order.
    fn blocks(
        &self,
        workload: &str,
        arm: &str,
    ) -> impl Iterator<Item = (u32, &'r Trial, &'r Measurement)> {
        self.trials
            .iter()
            .filter_map(move |(key, (trial, measurement))| {
                let is_of_arm = key.0 == workload && key.2 == arm;
                is_of_arm.then_some((key.1, *trial, *measurement))
            })
    }

    /// One arm's measurements on one workload, in block order.
    pub(crate) fn of_arm(&self, workload: &str, arm: &str) -> Vec<&'r Measurement> {
        let blocks = self.blocks(workload, arm);
        blocks.map(|(_, _, measurement)| measurement).collect()
    }

    /// One arm's measured trials on one workload, by block.
    pub(crate) fn trials(&self, workload: &str, arm: &str) -> BTreeMap<u32, &'r Trial> {
        let blocks = self.blocks(workload, arm);
        blocks.map(|(block, trial, _)| (block, trial)).collect()
    }

    /// One arm's values of a metric with their blocks, in block order.
    pub(crate) fn figures(&self, workload: &str, arm: &str, metric: &str) -> Vec<(u32, f64)> {
        let blocks = self.blocks(workload, arm);
        blocks
            .filter_map(|(block, _, measurement)| Some((block, figure(measurement, metric)?)))
            .collect()
    }

    /// The metrics of a workload, primary ones first, otherwise in the workload's order.
    pub(crate) fn specs(&self, workload: &str) -> Vec<MetricSpec> {
        let mut specs: Vec<MetricSpec> = Vec::new();
        let trials = self.trials.iter().filter(|(key, _)| key.0 == workload);
        for figure in trials.flat_map(|(_, (_, measurement))| &measurement.figures) {
            if specs.iter().all(|spec| spec.name != figure.spec.name) {
                specs.push(figure.spec.clone());
            }
        }
        specs.sort_by_key(|spec| spec.role != Role::Primary);
        specs
    }

    /// The figures of baseline and arm in every block that has both, in block order.
    pub(crate) fn pairs(
        &self,
        workload: &str,
        baseline: &str,
        arm: &str,
        metric: &str,
    ) -> Vec<Pair> {
        self.pairs_by(workload, baseline, arm, &|measurement| {
            figure(measurement, metric)
        })
    }

    /// Like `pairs`, with a value that is computed from the measurement.
    pub(crate) fn pairs_by(
        &self,
        workload: &str,
        baseline: &str,
        arm: &str,
        figure: &dyn Fn(&Measurement) -> Option<f64>,
    ) -> Vec<Pair> {
        let pair = |block: &u32| {
            let (baseline_trial, baseline) = self.trials.get(&(workload, *block, baseline))?;
            let (arm_trial, arm) = self.trials.get(&(workload, *block, arm))?;
            Some(Pair {
                block: *block,
                baseline: figure(baseline)?,
                arm: figure(arm)?,
                arm_first: arm_trial.slot < baseline_trial.slot,
            })
        };
        let blocks = self.begun.get(workload).into_iter().flatten();
        blocks.filter_map(pair).collect()
    }

    /// Curves of baseline and arm in every block that has both, in block order.
    pub(crate) fn curves(
        &self,
        workload: &str,
        baseline: &str,
        arm: &str,
    ) -> Vec<[&'r [Curve]; 2]> {
        let curves = |block: u32, arm: &str| {
            let (_, measurement) = self.trials.get(&(workload, block, arm))?;
            let curves = &measurement.curves;
            (!curves.is_empty()).then_some(curves.as_slice())
        };
        let blocks = self.begun.get(workload).into_iter().flatten();
        blocks
            .filter_map(|block| Some([curves(*block, baseline)?, curves(*block, arm)?]))
            .collect()
    }

    /// Blocks of a workload in which an arm has attempts but no measurement.
    pub(crate) fn missing(&self, workload: &str, arm: &str) -> BTreeSet<u32> {
        let attempted = self.attempted.iter();
        let missing = attempted
            .filter(|key| key.0 == workload && key.2 == arm && !self.trials.contains_key(*key));
        missing.map(|(_, block, _)| *block).collect()
    }

    /// The number of a workload's begun blocks, and those of them without a measured trial of each arm.
    pub(crate) fn begun_and_incomplete(&self, run: &Run, workload: &str) -> (usize, Vec<u32>) {
        let Some(blocks) = self.begun.get(workload) else {
            return (0, Vec::new());
        };
        let is_complete = |block: u32| {
            let mut arms = run.plan.arms.iter();
            arms.all(|arm| self.trials.contains_key(&(workload, block, &arm.name)))
        };
        let incomplete = blocks.iter().copied().filter(|block| !is_complete(*block));
        (blocks.len(), incomplete.collect())
    }
}

fn figure(measurement: &Measurement, metric: &str) -> Option<f64> {
    let mut figures = measurement.figures.iter();
    let figure = figures.find(|figure| figure.spec.name == metric)?;
    Some(figure.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::fixtures::builder::{RunBuilder, THROUGHPUT};

    fn figures(run: &Run) -> Vec<(u32, f64, f64)> {
        let pairs = Measured::of(run).pairs("web", "6.1", "7.2", THROUGHPUT);
        pairs
            .iter()
            .map(|pair| (pair.block, pair.baseline, pair.arm))
            .collect()
    }

    #[test]
    fn a_retry_replaces_a_failed_attempt() {
        let run = RunBuilder::new().void(1, "7.2").blocks(&[[1.0, 2.0]]).run();
        assert_eq!(figures(&run), [(1, 1.0, 2.0)]);
        assert_eq!(
            Measured::of(&run).begun_and_incomplete(&run, "web"),
            (1, vec![])
        );
    }

    #[test]
    fn a_block_without_an_arm_is_counted_but_has_no_pair() {
        let run = RunBuilder::new()
            .blocks(&[[1.0, 2.0]])
            .measured(2, "6.1", 1.0)
            .void(2, "7.2")
            .run();
        assert_eq!(figures(&run), [(1, 1.0, 2.0)]);
        assert_eq!(
            Measured::of(&run).begun_and_incomplete(&run, "web"),
            (2, vec![2])
        );
    }

    #[test]
    fn another_workload_is_not_mixed_in() {
        let run = RunBuilder::new().blocks(&[[1.0, 2.0]]).run();
        assert!(
            Measured::of(&run)
                .pairs("cgi", "6.1", "7.2", THROUGHPUT)
                .is_empty()
        );
        assert!(Measured::of(&run).specs("cgi").is_empty());
    }

    #[test]
    fn slots_decide_which_arm_ran_first() {
        let run = RunBuilder::new().blocks(&[[1.0, 2.0]]).run();
        let pairs = Measured::of(&run).pairs("web", "7.2", "6.1", THROUGHPUT);
        assert!(pairs[0].arm_first);
    }
}
