//! Arms that differ only in CPUs, in words and numbers: figure, speed-up, and the fitted law.

use base::input::units::significant;
use record::verdict::{ArmCurve, Judgement, Scaling, ScalingLaw, ScalingStep, Spread};

use crate::topics::loads;
use crate::words;

/// The law has three parameters, so it fits any three numbers of CPUs exactly.
const ALWAYS_FIT: usize = 3;

/// The groups of one workload.
pub(crate) fn groups<'j>(judgement: &'j Judgement, workload: &str) -> Vec<&'j Scaling> {
    let groups = judgement.scaling.iter();
    groups
        .filter(|group| group.curve.workload == workload)
        .collect()
}

/// `Scaling: throughput ↑, requests/s against CPUs, median of 3 trials`.
pub(crate) fn title(groups: &[&Scaling]) -> String {
    format!("Scaling: {}", loads::tell::title(&family(groups)))
}

/// The groups' curves; each has the group's name in place of the arm's.
pub(crate) fn family(groups: &[&Scaling]) -> Vec<ArmCurve> {
    groups.iter().map(|group| group.curve.clone()).collect()
}

/// A table of CPUs with its head, group after group.
pub(crate) fn rows(groups: &[&Scaling]) -> Vec<Vec<String>> {
    let unit = loads::tell::unit(&family(groups));
    let head = [
        "group",
        "arm",
        "CPUs",
        &unit.name,
        "lowest to highest",
        "speed-up",
        "lowest to highest",
        "efficiency",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    for group in groups {
        let curve = &group.curve;
        let ends = curve.lowest.iter().zip(&curve.highest);
        let figures = curve.typical.points.iter().zip(ends);
        for (step, (point, (low, high))) in group.steps.iter().zip(figures) {
            let [value, low, high] =
                [point.value, *low, *high].map(|value| loads::tell::value(value * unit.factor));
            let mut row = vec![curve.arm.clone(), step.arm.clone(), step.cpus.to_string()];
            row.extend([value, format!("{low} to {high}")]);
            row.extend(gain(step));
            rows.push(row);
        }
    }
    rows
}

/// Speed-up, its ends, efficiency.
fn gain(step: &ScalingStep) -> [String; 3] {
    let times = |value: f64| significant(value, 3);
    let Some(up) = step.speed_up else {
        return [(); 3].map(|()| words::NONE.into());
    };
    let efficiency = step.efficiency.map_or(words::NONE.into(), |share| {
        format!("{} %", significant(share * 100.0, 3))
    });
    let ends = format!("{} to {}", times(up.lowest), times(up.highest));
    [times(up.typical), ends, efficiency]
}

/// The fitted law of each group, and a note on error control.
pub(crate) fn sentences(groups: &[&Scaling]) -> Vec<String> {
    let mut sentences: Vec<String> = groups.iter().map(|group| sentence(group)).collect();
    sentences.push(
        "a speed-up is over the group's fewest CPUs in the same block, and efficiency is its share of the ratio of CPUs; \
         neither has error control, nor has a law: the verdicts have"
            .into(),
    );
    sentences
}

fn sentence(group: &Scaling) -> String {
    let name = &group.curve.arm;
    let counts = counts(group);
    match &group.law {
        Some(scaling_law) => format!("{name}: {}", law(scaling_law, counts)),
        None if counts < ALWAYS_FIT => format!(
            "{name}: no scalability law is fitted to {} of CPUs: it takes three",
            words::counted(counts as u32, "number")
        ),
        None => format!("{name}: no scalability law fits these figures"),
    }
}

/// How many different numbers of CPUs there are.
fn counts(group: &Scaling) -> usize {
    let steps = &group.steps;
    steps.chunk_by(|a, b| a.cpus == b.cpus).count()
}

fn law(law: &ScalingLaw, counts: usize) -> String {
    let most = law.line.last().map_or(0.0, |point| point.at);
    let peak = match law.peak {
        Some(peak) if peak > most => format!(
            "it foretells a peak at {} CPUs, beyond what was measured",
            significant(peak, 2)
        ),
        Some(peak) => format!("its peak is at {} CPUs", significant(peak, 2)),
        None => "it has no peak".into(),
    };
    let fitted = match law.blocks {
        0 => "fitted to the medians, as no block had all numbers of CPUs".into(),
        1 => "fitted in 1 block".into(),
        blocks => format!("fitted in each of {blocks} blocks, lowest to highest in brackets"),
    };
    let caveat = if counts <= ALWAYS_FIT {
        "; three numbers of CPUs always fit, so this does not show that the law holds"
    } else {
        ""
    };
    let odd = if law.contention.typical < 0.0 || law.coherence.typical < 0.0 {
        "; a share below zero is no cost: it grew by more than its CPUs there, or noise did"
    } else {
        ""
    };
    format!(
        "universal scalability law with contention {}, coherence {}: {peak} ({fitted}{caveat}{odd})",
        share(law.contention, law.blocks),
        share(law.coherence, law.blocks)
    )
}

fn share(over: Spread, blocks: u32) -> String {
    let percent = |share: f64| significant(share * 100.0, 2);
    let typical = percent(over.typical);
    if blocks > 1 {
        let ends = (percent(over.lowest), percent(over.highest));
        format!("{typical} % ({} to {} over blocks)", ends.0, ends.1)
    } else {
        format!("{typical} %")
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::report::{html, judged, markdown, terminal};
    use record::fixtures::web;

    fn section(cpus: &[u32]) -> String {
        let (_, judgement) = judged(web::cpu_counts(cpus));
        let groups = groups(&judgement, "web-static");
        let rows = rows(&groups).into_iter().map(|row| row.join(" | "));
        let lines: Vec<String> = [title(&groups)]
            .into_iter()
            .chain(rows)
            .chain(sentences(&groups))
            .collect();
        lines.join("\n")
    }

    #[test]
    fn each_number_of_cpus_has_its_row_and_each_group_its_law() {
        expect![[r#"
            Scaling: throughput ↑, requests/s against CPUs, median of 3 trials
            group | arm | CPUs | requests/s | lowest to highest | speed-up | lowest to highest | efficiency
            6.1 | 6.1-1cpu | 1 | 1 020 | 1 010 to 1 030 | 1.00 | 1.00 to 1.00 | 100 %
            6.1 | 6.1-2cpu | 2 | 1 872 | 1 853 to 1 890 | 1.83 | 1.83 to 1.83 | 91.7 %
            6.1 | 6.1-4cpu | 4 | 2 935 | 2 906 to 2 964 | 2.88 | 2.88 to 2.88 | 71.9 %
            6.1 | 6.1-8cpu | 8 | 3 304 | 3 271 to 3 336 | 3.24 | 3.24 to 3.24 | 40.5 %
            7.2 | 7.2-1cpu | 1 | 1 020 | 1 010 to 1 030 | 1.00 | 1.00 to 1.00 | 100 %
            7.2 | 7.2-2cpu | 2 | 1 935 | 1 917 to 1 954 | 1.90 | 1.90 to 1.90 | 94.9 %
            7.2 | 7.2-4cpu | 4 | 3 475 | 3 441 to 3 509 | 3.41 | 3.41 to 3.41 | 85.2 %
            7.2 | 7.2-8cpu | 8 | 5 581 | 5 527 to 5 636 | 5.47 | 5.47 to 5.47 | 68.4 %
            6.1: universal scalability law with contention 5.0 % (5.0 to 5.0 over blocks), coherence 2.0 % (2.0 to 2.0 over blocks): its peak is at 6.9 CPUs (fitted in each of 3 blocks, lowest to highest in brackets)
            7.2: universal scalability law with contention 5.0 % (5.0 to 5.0 over blocks), coherence 0.20 % (0.20 to 0.20 over blocks): it foretells a peak at 22 CPUs, beyond what was measured (fitted in each of 3 blocks, lowest to highest in brackets)
            a speed-up is over the group's fewest CPUs in the same block, and efficiency is its share of the ratio of CPUs; neither has error control, nor has a law: the verdicts have"#]].assert_eq(&section(&[1, 2, 4, 8]));
    }

    #[test]
    fn two_numbers_of_cpus_have_no_law_and_three_prove_none() {
        let two = section(&[1, 2]);
        assert!(
            two.contains("no scalability law is fitted to 2 numbers of CPUs: it takes three"),
            "{two}"
        );
        let three = section(&[1, 4, 8]);
        assert!(
            three.contains("three numbers of CPUs always fit"),
            "{three}"
        );
    }

    #[test]
    fn all_forms_of_the_report_have_it() {
        let (run, judgement) = judged(web::cpu_counts(&[1, 2, 4, 8]));
        let forms = [
            html(&run, &judgement, &[]),
            markdown(&run, &judgement, &[]),
            terminal(&run, &judgement, &[], 400),
        ];
        for form in forms {
            for want in ["its peak is at 6.9 CPUs", "40.5 %", "1.83 to 1.83"] {
                assert!(form.contains(want), "{want}: {form:.3000}");
            }
        }
        let (run, judgement) = judged(web::two_kernels());
        assert!(!markdown(&run, &judgement, &[]).contains("Scaling"));
    }
}
