//! Measured trials side by side: the block is the unit of comparison.

use std::collections::{BTreeMap, BTreeSet};

use record::curve::Curve;
use record::metric::{MetricSpec, Role};
use record::rundir::Run;
use record::trial::{Measurement, Trial};
use record::verdict::Pair;

/// The last measured attempt of each trial, found by workload, block and arm.
pub(crate) struct Measured<'r> {
    trials: BTreeMap<(&'r str, u32, &'r str), (&'r Trial, &'r Measurement)>,
    begun: BTreeMap<&'r str, BTreeSet<u32>>,
    tried: BTreeSet<(&'r str, u32, &'r str)>,
}

impl<'r> Measured<'r> {
    /// Looks through all attempts; a later attempt at the same trial takes the place of an earlier
    /// one.
    pub(crate) fn of(run: &'r Run) -> Self {
        let (mut trials, mut begun) = (BTreeMap::new(), BTreeMap::<_, BTreeSet<_>>::new());
        let mut tried = BTreeSet::new();
        for record in &run.attempts {
            let trial = &record.trial;
            begun
                .entry(trial.workload.as_str())
                .or_default()
                .insert(trial.block);
            let key = (trial.workload.as_str(), trial.block, trial.arm.as_str());
            tried.insert(key);
            if let Some(measurement) = record.outcome.measured() {
                trials.insert(key, (trial, measurement));
            }
        }
        Self {
            trials,
            begun,
            tried,
        }
    }

    /// One arm's measurements on one workload, in block order.
    pub(crate) fn of_arm(&self, workload: &str, arm: &str) -> Vec<&'r Measurement> {
        let its = |key: &(&str, u32, &str)| key.0 == workload && key.2 == arm;
        let found = self.trials.iter().filter(|(key, _)| its(key));
        found.map(|(_, (_, measurement))| *measurement).collect()
    }

    /// One arm's measured trials on one workload, by block.
    pub(crate) fn trials(&self, workload: &str, arm: &str) -> BTreeMap<u32, &'r Trial> {
        let its = |key: &(&str, u32, &str)| key.0 == workload && key.2 == arm;
        let found = self.trials.iter().filter(|(key, _)| its(key));
        found.map(|(key, (trial, _))| (key.1, *trial)).collect()
    }

    /// One arm's values of a metric with their blocks, in block order.
    pub(crate) fn figures(&self, workload: &str, arm: &str, metric: &str) -> Vec<(u32, f64)> {
        let its = |key: &(&str, u32, &str)| key.0 == workload && key.2 == arm;
        let found = self.trials.iter().filter(|(key, _)| its(key));
        found
            .filter_map(|(key, (_, measurement))| Some((key.1, figure(measurement, metric)?)))
            .collect()
    }

    /// The metrics of a workload, primaries first, then in the order in which the workload names
    /// them.
    pub(crate) fn specs(&self, workload: &str) -> Vec<MetricSpec> {
        let mut specs: Vec<MetricSpec> = Vec::new();
        let its = self.trials.iter().filter(|(key, _)| key.0 == workload);
        for figure in its.flat_map(|(_, (_, measurement))| &measurement.figures) {
            if specs.iter().all(|spec| spec.name != figure.spec.name) {
                specs.push(figure.spec.clone());
            }
        }
        specs.sort_by_key(|spec| spec.role != Role::Primary);
        specs
    }

    /// The figures of baseline and arm in every block that has both, in block order.
    pub(crate) fn pairs(&self, workload: &str, arms: (&str, &str), metric: &str) -> Vec<Pair> {
        self.pairs_by(workload, arms, &|one| figure(one, metric))
    }

    /// The same of what is made of measurements.
    pub(crate) fn pairs_by(
        &self,
        workload: &str,
        (baseline, arm): (&str, &str),
        figure: &dyn Fn(&Measurement) -> Option<f64>,
    ) -> Vec<Pair> {
        let pair = |block: &u32| {
            let (base_trial, base) = self.trials.get(&(workload, *block, baseline))?;
            let (arm_trial, other) = self.trials.get(&(workload, *block, arm))?;
            Some(Pair {
                block: *block,
                baseline: figure(base)?,
                arm: figure(other)?,
                arm_first: arm_trial.slot < base_trial.slot,
            })
        };
        let blocks = self.begun.get(workload).into_iter().flatten();
        blocks.filter_map(pair).collect()
    }

    /// Curves of the blocks in which both were measured, in block order: the baseline's and the arm's.
    pub(crate) fn curves(
        &self,
        workload: &str,
        (baseline, arm): (&str, &str),
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

    /// Blocks of a workload in which an arm was tried and gave no figure.
    pub(crate) fn missing(&self, workload: &str, arm: &str) -> BTreeSet<u32> {
        let its = self
            .tried
            .iter()
            .filter(|key| key.0 == workload && key.2 == arm);
        let none = its.filter(|key| !self.trials.contains_key(*key));
        none.map(|(_, block, _)| *block).collect()
    }

    /// Blocks of a workload that were begun, and those of them that lack a measured trial of some
    /// arm.
    pub(crate) fn begun_and_incomplete(&self, run: &Run, workload: &str) -> (usize, Vec<u32>) {
        let Some(blocks) = self.begun.get(workload) else {
            return (0, Vec::new());
        };
        let whole = |block: u32| {
            let arms = &mut run.plan.arms.iter();
            arms.all(|arm| {
                self.trials
                    .contains_key(&(workload, block, arm.name.as_str()))
            })
        };
        let incomplete = blocks.iter().copied().filter(|block| !whole(*block));
        (blocks.len(), incomplete.collect())
    }
}

fn figure(measurement: &Measurement, metric: &str) -> Option<f64> {
    let figure = measurement
        .figures
        .iter()
        .find(|figure| figure.spec.name == metric);
    figure.map(|figure| figure.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::fixtures::builder::{RunBuilder, THROUGHPUT};

    fn figures(run: &Run) -> Vec<(u32, f64, f64)> {
        let pairs = Measured::of(run).pairs("web", ("6.1", "7.2"), THROUGHPUT);
        pairs
            .iter()
            .map(|pair| (pair.block, pair.baseline, pair.arm))
            .collect()
    }

    #[test]
    fn a_retry_takes_the_place_of_its_void() {
        let run = RunBuilder::new().void(1, "7.2").blocks(&[[1.0, 2.0]]).run();
        assert_eq!(figures(&run), [(1, 1.0, 2.0)]);
        assert_eq!(
            Measured::of(&run).begun_and_incomplete(&run, "web"),
            (1, vec![])
        );
    }

    #[test]
    fn a_block_that_lacks_an_arm_is_counted_and_not_paired() {
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
                .pairs("cgi", ("6.1", "7.2"), THROUGHPUT)
                .is_empty()
        );
        assert!(Measured::of(&run).specs("cgi").is_empty());
    }

    #[test]
    fn the_slots_say_which_arm_ran_first() {
        let run = RunBuilder::new().blocks(&[[1.0, 2.0]]).run();
        let pairs = Measured::of(&run).pairs("web", ("7.2", "6.1"), THROUGHPUT);
        assert!(pairs[0].arm_first);
    }
}
