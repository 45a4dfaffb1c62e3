//! The account of a trial's instructions: what the emulator counted in the window, and figures of charged instructions.

use anyhow::{Result, bail};
use plan::WorkloadPlan;
use profiler::counter::{Counted, Counts};
use record::instructions::{Executed, Instructions};
use record::trial::{JobResult, Metered};

use crate::lab::Bench;

/// What the emulator and the guest may differ in, as a share of the window: the idle loop's instructions, and the time between a mark
/// and the reading of the clock beside it.
const TOLERANCE: f64 = 0.02;

/// What was executed in the window, where that was counted. Figures and curves of the result are of charged instructions then.
///
/// # Errors
/// What was counted is no account of the window that the guest tells of.
pub(super) fn account(
    bench: &Bench<'_>,
    workload: &WorkloadPlan,
    done: &mut JobResult,
    counted: Result<Option<Counted>>,
) -> Result<Option<Box<Instructions>>> {
    let (Some(ns_per_instruction), Some(counted)) = (bench.machine.ns_per_instruction(), counted?)
    else {
        return Ok(None);
    };
    check(&counted.window, done.metered, ns_per_instruction)?;
    let instructions = Instructions {
        window: executed(&counted.window),
        steps: counted.steps.iter().map(executed).collect(),
        groups: counted
            .groups
            .iter()
            .map(|(name, counts)| (name.clone(), executed(counts)))
            .collect(),
        window_ns: done.metered.window_ns,
        ns_per_instruction,
        decider_is_named: workload
            .options
            .get("decided_by")
            .is_some_and(|decider| !decider.is_null()),
        figures: std::mem::take(&mut done.measurement.figures),
        curves: std::mem::take(&mut done.measurement.curves),
    };
    let price = bench.plan.machine.string_price;
    done.measurement.figures = instructions.charged(price);
    done.measurement.curves = instructions.charged_curves(price);
    Ok(Some(Box::new(instructions)))
}

fn executed(counts: &Counts) -> Executed {
    Executed {
        instructions: counts.executed,
        starts: counts.starts,
        repeats: counts.repeats,
    }
}

/// The clock advances with each instruction, so that the guest's own account of the window and the emulator's are the same.
fn check(counts: &Counts, metered: Metered, ns_per_instruction: u32) -> Result<()> {
    let counted_ns = counts.executed as f64 * f64::from(ns_per_instruction);
    let Metered { window_ns, busy_ns } = metered;
    let difference = (counted_ns - busy_ns as f64).abs();
    if difference > TOLERANCE * window_ns as f64 {
        bail!(
            "the guest tells of {:.3} s in which it was busy, and executed {:.3} s of instructions between the window's marks",
            busy_ns as f64 / 1e9,
            counted_ns / 1e9
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_tells_of_another_window_than_it_marks_is_void() {
        let says = |executed, window_ns, busy_ns| {
            let counts = Counts {
                executed,
                ..Counts::default()
            };
            check(&counts, Metered { window_ns, busy_ns }, 2).is_ok()
        };
        assert!(says(500_000_000, 1_000_000_000, 1_000_000_000));
        assert!(says(495_000_000, 1_000_000_000, 1_000_000_000));
        // It marks a window in which it does less than it tells, or more.
        assert!(!says(400_000_000, 1_000_000_000, 1_000_000_000));
        assert!(!says(600_000_000, 1_000_000_000, 1_000_000_000));
        assert!(!says(500_000_000, 0, 0));
    }
}
