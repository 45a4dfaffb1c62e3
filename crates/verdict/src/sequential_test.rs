//! A sequential randomization test of a family of metrics: at which look each is decided, and which shifts are never rejected.
//!
//! Three null hypotheses are tested side by side: "no difference", "better by the margin", "worse by the margin".
//! ```text
//! better, worse   "no difference" is rejected, and the estimate lies on the same side
//! equivalent      "better by the margin" is rejected from below and "worse by the margin" from above, and the estimate lies within it
//! ```
//! The first verdict stands. Several metrics share their sign flips and the distribution of the largest statistic
//! (maxT: Westfall and Young 1993), so that the family-wise error rate is what was promised.
//!
//! A test goes on from look to look. Looks at which no path more may cross change nothing, and are passed over: of a plan of 10,000 blocks
//! most are of that kind. Where there is much to follow, sums are known nearly (`nearby`), and exactly as far as a decision hangs on them.

use plan::Design;
use record::verdict::{Pair, Verdict};

use crate::boundary::{Boundary, NearPaths};
use crate::contrast::Contrasts;
use crate::inversion::{self, Search};
use crate::looks::{self, Look};
use crate::nearby::{FEWEST_BLOCKS, NearbySums, Scored};
use crate::randomization::SignFlips;
use crate::score::{biweight, centred, scale};

/// How the interval is searched for: one test follows all looks.
const SEARCH: Search = Search {
    tries: 12,
    halvings: 9,
};

/// So many looks at once are worth sums that are carried from one to the next.
const MANY_LOOKS: usize = 4;

/// What all metrics of a workload and arm share.
#[derive(Clone)]
pub(crate) struct TestSetup {
    pub(crate) flips: SignFlips,
    /// 1 where the arm ran second in a block, else -1.
    pub(crate) second: Vec<f64>,
    pub(crate) looks: Vec<Look>,
    /// Probability of a wrong "better" or "worse" in the family.
    pub(crate) error_rate: f64,
    /// Probability of a wrong "equivalent" on one side.
    equivalence_error_rate: f64,
    /// How much of either rate all looks together spend: 1, and more where a run was given more blocks than the plan's.
    to_be_spent: f64,
}

impl TestSetup {
    /// Looks are planned by the blocks of the primary metric, on which a run stops. Where it `has_secondary` metrics beside
    /// it, the primary one has half of the error rate and they have the other half.
    pub(crate) fn new(primary: &[Pair], design: &Design, key: &str, has_secondary: bool) -> Self {
        let flips = Self::flips(primary.len(), design, key);
        Self::with_flips(flips, primary, design, has_secondary)
    }

    /// The sign flips of so many blocks.
    pub(crate) fn flips(blocks: usize, design: &Design, key: &str) -> SignFlips {
        SignFlips::draw_extended(
            &format!("signs\n{}\n{key}", design.seed),
            blocks,
            (design.max_blocks as usize, design.most_blocks() as usize),
            // A primary metric with others beside it has half of it, and so have they.
            design.error_rate / 2.0,
        )
    }

    /// The same as `new` with flips that were drawn before.
    pub(crate) fn with_flips(
        flips: SignFlips,
        primary: &[Pair],
        design: &Design,
        has_secondary: bool,
    ) -> Self {
        let second: Vec<f64> = primary
            .iter()
            .map(|pair| if pair.arm_first { -1.0 } else { 1.0 })
            .collect();
        let share = if has_secondary { 0.5 } else { 1.0 };
        Self {
            flips,
            looks: looks::looks(&second, design),
            second,
            error_rate: share * design.error_rate,
            equivalence_error_rate: looks::equivalence_error_rate(design),
            to_be_spent: looks::spent(design.most_blocks(), design),
        }
    }

    /// Paths whose sums are compared at each look.
    pub(crate) fn rows(&self) -> usize {
        self.flips.rows()
    }

    /// The same up to some look.
    pub(crate) fn until(&self, blocks: usize) -> Self {
        let mut so_far = self.clone();
        so_far.looks.retain(|look| look.blocks <= blocks);
        so_far.second.truncate(blocks);
        so_far
    }

    /// The level of the interval that belongs to a verdict, whatever the look.
    pub(crate) fn confidence(&self, verdict: Verdict) -> f64 {
        let error_rate = match verdict {
            Verdict::Equivalent => 2.0 * self.equivalence_error_rate,
            Verdict::Better | Verdict::Worse | Verdict::Undecided => self.error_rate,
        };
        1.0 - error_rate * self.to_be_spent
    }
}

/// A metric's verdict, and the block after which it was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) verdict: Verdict,
    pub(crate) at_block: usize,
}

/// One null hypothesis of a family: that the arm is better by `shift` margins.
#[derive(Debug, Clone)]
struct Hypothesis {
    shift: f64,
    boundary: Boundary,
    /// For each metric the side on which the hypothesis was rejected.
    rejected: Vec<Option<Side>>,
}

/// Where the observed figures lie when a hypothesis is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Above,
    Below,
}

/// A test that may go on: what it knows after some looks.
#[derive(Debug, Clone)]
pub(crate) struct SequentialTest {
    no_difference: Hypothesis,
    worse_by_margin: Hypothesis,
    better_by_margin: Hypothesis,
    decisions: Vec<Option<Decision>>,
    /// Looks that it has seen.
    looks: usize,
}

/// Tests a family from the first look to the last: the decision on each metric, `None` while it is undecided.
pub(crate) fn sequential_test(family: &[&Contrasts], setup: &TestSetup) -> Vec<Option<Decision>> {
    let mut test = SequentialTest::new(setup, family.len());
    test.go_on(family, setup);
    test.decisions
}

impl SequentialTest {
    pub(crate) fn new(setup: &TestSetup, metrics: usize) -> Self {
        let hypothesis = |shift| Hypothesis {
            shift,
            boundary: Boundary::new(&setup.flips),
            rejected: vec![None; metrics],
        };
        Self {
            no_difference: hypothesis(0.0),
            worse_by_margin: hypothesis(-1.0),
            better_by_margin: hypothesis(1.0),
            decisions: vec![None; metrics],
            looks: 0,
        }
    }

    /// The decision on each metric so far.
    pub(crate) fn decisions(&self) -> &[Option<Decision>] {
        &self.decisions
    }

    /// Goes on to the last look. Metrics and looks are those of before, with more blocks.
    pub(crate) fn go_on(&mut self, family: &[&Contrasts], setup: &TestSetup) {
        let new = setup.looks.get(self.looks..).unwrap_or_default();
        let is_long = MANY_LOOKS <= new.len();
        let mut sums: [Sums; 3] = std::array::from_fn(|_| Sums::new(is_long, family.len()));
        for look in new {
            if self.decisions.iter().all(Option::is_some) {
                break;
            }
            self.look(family, setup, *look, &mut sums);
        }
        self.looks = setup.looks.len();
    }

    fn look(&mut self, family: &[&Contrasts], setup: &TestSetup, look: Look, sums: &mut [Sums; 3]) {
        let [of_no_difference, of_worse, of_better] = sums;
        let difference = setup.error_rate * look.spent;
        let equivalence = 2.0 * setup.equivalence_error_rate * look.spent;
        let blocks = look.blocks;
        self.no_difference
            .test(family, setup, (blocks, difference), of_no_difference);
        self.worse_by_margin
            .test(family, setup, (blocks, equivalence), of_worse);
        self.better_by_margin
            .test(family, setup, (blocks, equivalence), of_better);
        for (metric, decision) in self.decisions.iter_mut().enumerate() {
            if decision.is_some() {
                continue;
            }
            let verdict = match (
                self.no_difference.rejected[metric],
                self.worse_by_margin.rejected[metric],
                self.better_by_margin.rejected[metric],
            ) {
                (Some(Side::Above), _, _) => Verdict::Better,
                (Some(Side::Below), _, _) => Verdict::Worse,
                (None, Some(Side::Above), Some(Side::Below)) => Verdict::Equivalent,
                (None, _, _) => continue,
            };
            if family[metric].agree_with(verdict, &setup.second[..blocks]) {
                *decision = Some(Decision {
                    verdict,
                    at_block: blocks,
                });
            }
        }
    }
}

impl Hypothesis {
    /// Tests all metrics at a look at so many blocks, by which so much error may be spent.
    fn test(
        &mut self,
        family: &[&Contrasts],
        setup: &TestSetup,
        (blocks, spent): (usize, f64),
        sums: &mut Sums,
    ) {
        if self.boundary.quota(spent) == 0 {
            return;
        }
        let mut scored = Vec::new();
        for contrasts in family {
            let shift = self.shift * contrasts.margin;
            scored.push(Scored::of(&contrasts.values, shift, setup, blocks));
        }
        let crossed = sums.look(&mut self.boundary, &scored, setup, spent);
        for ((rejected, crosses), scored) in self.rejected.iter_mut().zip(crossed).zip(scored) {
            let statistic = scored.observed();
            if crosses && rejected.is_none() && statistic != 0.0 {
                *rejected = Some(if statistic > 0.0 {
                    Side::Above
                } else {
                    Side::Below
                });
            }
        }
    }
}

impl Scored {
    fn of(values: &[f64], shift: f64, setup: &TestSetup, blocks: usize) -> Self {
        let shifted: Vec<f64> = values[..blocks].iter().map(|value| value - shift).collect();
        let (centred, effect) = centred(&shifted, &setup.second[..blocks]);
        let scale = scale(&centred);
        let scores: Vec<f64> = centred
            .iter()
            .map(|value| biweight(value / scale))
            .collect();
        let deviation = scores.iter().map(|score| score * score).sum::<f64>().sqrt();
        Self {
            shifted,
            scores,
            effect,
            scale,
            deviation,
        }
    }

    /// The sum of the scores, in standard deviations over all sign flips.
    fn observed(&self) -> f64 {
        if self.deviation == 0.0 {
            0.0
        } else {
            self.scores.iter().sum::<f64>() / self.deviation
        }
    }

    /// Its size in one row of sign flips.
    fn of_row(&self, flips: &SignFlips, row: usize) -> f64 {
        if self.deviation == 0.0 {
            0.0
        } else {
            flips.sum(row, &self.scores).abs() / self.deviation
        }
    }

    /// Its size in each row.
    fn of_rows(&self, flips: &SignFlips) -> Vec<f64> {
        if self.deviation == 0.0 {
            return vec![0.0; flips.rows()];
        }
        let mut sums = flips.sums(&self.scores);
        for sum in &mut sums {
            *sum = sum.abs() / self.deviation;
        }
        sums
    }
}

/// How the sums of a family over sign flips are come by.
struct Sums {
    /// For each metric what is carried from look to look; none where there are few looks.
    nearby: Option<Vec<NearbySums>>,
}

impl Sums {
    fn new(is_long: bool, metrics: usize) -> Self {
        let nearby = || (0..metrics).map(|_| NearbySums::default()).collect();
        Self {
            nearby: is_long.then(nearby),
        }
    }

    /// Which metrics cross the boundary. For each row of sign flips the largest statistic of any metric counts: maxT.
    fn look(
        &mut self,
        boundary: &mut Boundary,
        scored: &[Scored],
        setup: &TestSetup,
        spent: f64,
    ) -> Vec<bool> {
        let blocks = scored.first().map_or(0, |one| one.scores.len());
        let uncounted = setup.flips.uncounted(blocks);
        let sizes: Vec<f64> = scored.iter().map(|one| one.observed().abs()).collect();
        if let Some(nearby) = &mut self.nearby
            && FEWEST_BLOCKS <= blocks
        {
            let paths = near_paths(nearby, scored, setup);
            let exact = |row: usize| {
                let each = scored.iter().map(|one| one.of_row(&setup.flips, row));
                each.fold(0.0, f64::max)
            };
            let paths = NearPaths {
                values: paths.0,
                error: paths.1,
                exact: &exact,
            };
            if let Some(crossed) = boundary.look_near(uncounted, &paths, &sizes, spent) {
                return crossed;
            }
        }
        let mut largest = vec![0.0f64; setup.flips.rows()];
        for one in scored {
            for (largest, statistic) in largest.iter_mut().zip(one.of_rows(&setup.flips)) {
                *largest = largest.max(statistic);
            }
        }
        boundary.look(uncounted, &largest, &sizes, spent)
    }
}

/// The paths of a family, and how far they may be off.
fn near_paths(nearby: &mut [NearbySums], scored: &[Scored], setup: &TestSetup) -> (Vec<f64>, f64) {
    let mut largest = vec![0.0f64; setup.flips.rows()];
    let mut error = 0.0f64;
    for (sums, one) in nearby.iter_mut().zip(scored) {
        let off = sums.raise(&mut largest, one, &setup.second, &setup.flips);
        error = if off.is_nan() {
            f64::NAN
        } else {
            error.max(off)
        };
    }
    (largest, error)
}

/// The test statistic of one metric: a sum of scores, in standard deviations over all sign flips.
pub(crate) struct Statistics {
    pub(crate) observed: f64,
    /// Its size in each row of sign flips.
    pub(crate) of_flips: Vec<f64>,
}

impl Statistics {
    pub(crate) fn of(values: &[f64], shift: f64, setup: &TestSetup, blocks: usize) -> Self {
        let scored = Scored::of(values, shift, setup, blocks);
        Self {
            observed: scored.observed(),
            of_flips: scored.of_rows(&setup.flips),
        }
    }
}

/// The confidence interval of one metric: the shifts that are rejected at no look, so that it is valid however often was
/// looked. `None` while no shift, however large, could have been rejected.
pub(crate) fn interval(
    contrasts: &Contrasts,
    centre: f64,
    setup: &TestSetup,
) -> Option<(f64, f64)> {
    interval_at(setup.error_rate, contrasts, centre, setup)
}

/// The interval behind "equivalent". Both margins were rejected, so nothing of it lies beyond them.
pub(crate) fn equivalence_interval(
    contrasts: &Contrasts,
    centre: f64,
    setup: &TestSetup,
) -> (f64, f64) {
    let margin = contrasts.margin;
    let found = interval_at(2.0 * setup.equivalence_error_rate, contrasts, centre, setup);
    let (low, high) = found.unwrap_or((-margin, margin));
    (low.clamp(-margin, margin), high.clamp(-margin, margin))
}

fn interval_at(
    error_rate: f64,
    contrasts: &Contrasts,
    centre: f64,
    setup: &TestSetup,
) -> Option<(f64, f64)> {
    let blocks = setup.looks.last()?.blocks;
    let spread: Vec<f64> = contrasts.values[..blocks]
        .iter()
        .map(|value| value - centre)
        .collect();
    // Figures that repeat exactly have no scale of their own.
    let step = (2.0 * scale(&spread) / (blocks as f64).sqrt()).max(contrasts.margin / 64.0);
    inversion::interval(centre, step, SEARCH, |shift| {
        is_rejected(contrasts, shift, setup, error_rate)
    })
}

fn is_rejected(contrasts: &Contrasts, shift: f64, setup: &TestSetup, error_rate: f64) -> bool {
    let mut boundary = Boundary::new(&setup.flips);
    let mut sums = Sums::new(MANY_LOOKS <= setup.looks.len(), 1);
    setup.looks.iter().any(|look| {
        let spent = error_rate * look.spent;
        if boundary.quota(spent) == 0 {
            return false;
        }
        let scored = Scored::of(&contrasts.values, shift, setup, look.blocks);
        scored.observed() != 0.0 && sums.look(&mut boundary, &[scored], setup, spent)[0]
    })
}

#[cfg(test)]
mod tests {
    use record::metric::Direction;

    use super::*;
    use crate::design::keyed;

    fn design(max_blocks: u32) -> Design {
        Design {
            margin: 0.02,
            error_rate: 0.01,
            min_blocks: 8,
            max_blocks,
            more_blocks: 0,
            seed: 1,
            arms: 0,
        }
    }

    /// Blocks of an arm that is faster by `effect`, with even noise of up to `noise`.
    fn blocks(effect: f64, noise: f64, count: u32) -> (Contrasts, Vec<f64>) {
        let mut prng = keyed(&format!("{effect} {noise}"));
        let mut even = || prng.bits() as f64 / u64::MAX as f64 * 2.0 - 1.0;
        let pair = |block| Pair {
            block,
            baseline: 100.0,
            arm: 100.0 * (effect + noise * even()).exp(),
            arm_first: false,
        };
        let pairs: Vec<Pair> = (1..=count).map(pair).collect();
        let second = (0..count).map(|_| if prng.bits() & 1 == 0 { 1.0 } else { -1.0 });
        let second = second.collect();
        (
            Contrasts::of(&pairs, Direction::Higher, 0.02).unwrap(),
            second,
        )
    }

    /// A test of this many blocks with an error rate of 1 %.
    fn setup(second: Vec<f64>, looks: Vec<Look>) -> TestSetup {
        TestSetup {
            flips: SignFlips::draw("test", second.len(), 0.01),
            second,
            looks,
            error_rate: 0.01,
            equivalence_error_rate: 0.01,
            to_be_spent: 1.0,
        }
    }

    fn check(effect: f64, noise: f64, count: u32) -> (Option<Decision>, Option<(f64, f64)>) {
        let (contrasts, second) = blocks(effect, noise, count);
        let looks = looks::looks(&second, &design(count));
        let setup = setup(second, looks);
        let decision = sequential_test(&[&contrasts], &setup)[0];
        (decision, interval(&contrasts, effect, &setup))
    }

    #[test]
    fn a_gain_a_loss_and_no_difference_are_told_apart() {
        assert_eq!(check(0.05, 0.03, 40).0.unwrap().verdict, Verdict::Better);
        assert_eq!(check(-0.05, 0.03, 40).0.unwrap().verdict, Verdict::Worse);
        assert_eq!(check(0.0, 0.03, 60).0.unwrap().verdict, Verdict::Equivalent);
    }

    #[test]
    fn an_interval_holds_the_truth_and_excludes_what_was_rejected() {
        let (decision, interval) = check(0.05, 0.03, 40);
        let (low, high) = interval.unwrap();
        assert!(
            0.0 < low && low < 0.05 && 0.05 < high && high < 0.08,
            "{low} {high}"
        );
        assert!(decision.unwrap().at_block < 40);
    }

    /// What a test of one shift comes to at each look, and the paths that are left.
    fn followed(
        contrasts: &Contrasts,
        shift: f64,
        setup: &TestSetup,
        mut sums: Sums,
    ) -> (Vec<bool>, Boundary) {
        let mut boundary = Boundary::new(&setup.flips);
        let mut crossed = Vec::new();
        for look in &setup.looks {
            let spent = 0.1 * look.spent;
            if boundary.quota(spent) > 0 {
                let scored = Scored::of(&contrasts.values, shift, setup, look.blocks);
                crossed.extend(sums.look(&mut boundary, &[scored], setup, spent));
            }
        }
        (crossed, boundary)
    }

    #[test]
    fn sums_that_are_known_nearly_end_the_same_paths_at_the_same_looks() {
        for (effect, noise, count) in [(0.0, 0.03, 700), (0.004, 0.05, 500), (0.01, 0.0, 300)] {
            let (contrasts, second) = blocks(effect, noise, count);
            let setup = setup(second.clone(), looks::looks(&second, &design(count)));
            for shift in [0.0, 0.001, effect + noise / 9.0, -0.02] {
                let exact = followed(&contrasts, shift, &setup, Sums::new(false, 1));
                let near = followed(&contrasts, shift, &setup, Sums::new(true, 1));
                assert!(exact.0.len() > 20, "{} looks", exact.0.len());
                assert_eq!(near, exact, "{effect} {noise} {shift}");
            }
        }
    }

    #[test]
    fn metrics_that_share_a_distribution_are_decided_alike_by_nearly_known_sums() {
        let (one, second) = blocks(0.001, 0.02, 400);
        let (mut other, _) = blocks(0.003, 0.05, 400);
        // A slow stretch, so that the scale leaves the one of before.
        for value in &mut other.values[230..280] {
            *value *= 8.0;
        }
        let setup = setup(second.clone(), looks::looks(&second, &design(400)));
        let follow = |is_long: bool| {
            let mut boundary = Boundary::new(&setup.flips);
            let mut sums = Sums::new(is_long, 2);
            for look in &setup.looks {
                let score = |one: &Contrasts| Scored::of(&one.values, 0.0, &setup, look.blocks);
                let scored = [score(&one), score(&other)];
                if boundary.quota(0.1 * look.spent) > 0 {
                    sums.look(&mut boundary, &scored, &setup, 0.1 * look.spent);
                }
            }
            boundary
        };
        assert_eq!(follow(true), follow(false));
    }

    #[test]
    fn a_test_that_goes_on_block_by_block_decides_as_one_that_sees_all_at_once() {
        for (effect, noise) in [(0.0, 0.02), (0.01, 0.03), (-0.002, 0.05)] {
            let (contrasts, second) = blocks(effect, noise, 260);
            let design = design(260);
            let all = setup(second.clone(), looks::looks(&second, &design));
            let mut test = SequentialTest::new(&all, 1);
            for blocks in 1..=260 {
                let so_far = TestSetup {
                    looks: looks::looks(&second[..blocks], &design),
                    second: second[..blocks].to_vec(),
                    ..all.clone()
                };
                test.go_on(&[&contrasts.first(blocks)], &so_far);
            }
            let at_once = sequential_test(&[&contrasts], &all);
            assert_eq!(test.decisions(), at_once, "{effect}");
        }
    }

    /// CPU time of this thread: other work on the machine does not count.
    fn cpu_ns() -> u64 {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    }

    /// The bar: one look at 300 blocks and 8 metrics takes less than 50 ms on one core.
    #[test]
    fn a_look_at_many_blocks_and_metrics_takes_no_time() {
        let (contrasts, second) = blocks(0.001, 0.05, 300);
        let looks = vec![Look {
            blocks: 300,
            spent: 0.9,
        }];
        let setup = TestSetup {
            error_rate: 0.005,
            ..setup(second, looks)
        };
        let family = [&contrasts; 8];
        let once = || {
            let since = cpu_ns();
            assert_eq!(sequential_test(&family, &setup).len(), 8);
            cpu_ns() - since
        };
        let best_ms = (0..5).map(|_| once()).min().unwrap() / 1_000_000;
        println!("one look at 300 blocks and 8 metrics: {best_ms} ms of CPU");
        assert!(best_ms < 50, "{best_ms} ms");
    }

    #[test]
    fn eight_blocks_cannot_exclude_any_shift_at_one_percent() {
        let (decision, interval) = check(0.2, 0.01, 8);
        assert_eq!((decision.is_some(), interval.is_some()), (true, true));
        let (contrasts, second) = blocks(0.2, 0.01, 6);
        let looks = vec![Look {
            blocks: 6,
            spent: 1.0,
        }];
        let setup = setup(second, looks);
        assert_eq!(super::interval(&contrasts, 0.2, &setup), None);
    }
}
