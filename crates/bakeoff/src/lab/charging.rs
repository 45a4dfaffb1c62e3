//! The instructions of a trial: what the emulator counted in the window, and figures charged by that count.

use anyhow::{Result, bail};
use plan::WorkloadPlan;
use profiler::counter::{Counted, Counts};
use record::instructions::{Executed, Instructions};
use record::trial::{JobResult, Metered};

use crate::lab::AttemptContext;

/// Accepted difference between the emulator's and the guest's busy time, as a share of the window. It covers the idle
/// loop's instructions, and the time between a mark and the clock reading beside it.
const TOLERANCE: f64 = 0.02;

/// The instructions executed in the window, or `None` if they were not counted. Replaces the figures and curves of `done`
/// by those of charged instructions.
///
/// # Errors
/// The count does not match the window that the guest reported.
pub(super) fn charge(
    context: &AttemptContext<'_>,
    workload: &WorkloadPlan,
    done: &mut JobResult,
    counted: Result<Option<Counted>>,
) -> Result<Option<Box<Instructions>>> {
    let (Some(ns_per_instruction), Some(counted)) =
        (context.machine.ns_per_instruction(), counted?)
    else {
        return Ok(None);
    };
    check(&counted.window, done.metered, ns_per_instruction)?;
    let machine = &context.plan.machine;
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
        drive_is_simulated: machine.seek_disk.is_some()
            || machine.disk != plan::DiskSpeed::default(),
        figures: std::mem::take(&mut done.measurement.figures),
        curves: std::mem::take(&mut done.measurement.curves),
    };
    let price = machine.string_price;
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

/// The clock advances with each instruction, so the guest's busy time and the emulator's count must agree.
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
    fn a_guest_that_reports_another_window_than_it_marks_is_void() {
        let is_accepted = |executed, window_ns, busy_ns| {
            let counts = Counts {
                executed,
                ..Counts::default()
            };
            check(&counts, Metered { window_ns, busy_ns }, 2).is_ok()
        };
        assert!(is_accepted(500_000_000, 1_000_000_000, 1_000_000_000));
        assert!(is_accepted(495_000_000, 1_000_000_000, 1_000_000_000));
        // The guest did less or more between the marks than it reported.
        assert!(!is_accepted(400_000_000, 1_000_000_000, 1_000_000_000));
        assert!(!is_accepted(600_000_000, 1_000_000_000, 1_000_000_000));
        assert!(!is_accepted(500_000_000, 0, 0));
    }
}
