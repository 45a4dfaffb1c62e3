//! What `/proc/sys/kernel/tainted` says.

use crate::found::{Defect, Moment};
use crate::kind::{Kind, Severity};

/// Letter and meaning for reliability of each bit, from bit 0 (Documentation/admin-guide/tainted-kernels.rst).
///
/// Bits that tell of a choice are notices: a proprietary module, an unsigned one, a test. Those that tell of a report
/// (`B`, `D`, `L`, `W`) are defects even where the report itself was lost.
const FLAGS: [(char, Severity); 20] = [
    ('P', Severity::Notice),
    ('F', Severity::Suspicious),
    ('S', Severity::Notice),
    ('R', Severity::Suspicious),
    ('M', Severity::Suspicious),
    ('B', Severity::Defect),
    ('U', Severity::Notice),
    ('D', Severity::Defect),
    ('A', Severity::Notice),
    ('W', Severity::Defect),
    ('C', Severity::Notice),
    ('I', Severity::Notice),
    ('O', Severity::Notice),
    ('E', Severity::Notice),
    ('L', Severity::Defect),
    ('K', Severity::Notice),
    ('X', Severity::Notice),
    ('T', Severity::Notice),
    ('N', Severity::Notice),
    ('J', Severity::Notice),
];

/// A defect for each flag that a kernel took on between two looks, with the flag's letter as top; a bit that no kernel
/// had when this was written counts as suspicious, with its number.
///
/// What a kernel has from its boot on is no defect: pass the flags before the load as `before`.
pub fn taint(before: u64, after: u64, at: Moment) -> Vec<Defect> {
    let new = after & !before;
    let bits = (0..64).filter(|bit| new & (1 << bit) != 0);
    let defects = bits.map(|bit| {
        let flag = FLAGS.get(bit);
        Defect {
            kind: Kind::Taint,
            severity: flag.map_or(Severity::Suspicious, |(_, severity)| *severity),
            top: flag.map_or_else(|| bit.to_string(), |(letter, _)| letter.to_string()),
            count: 1,
            first: at,
            last: at,
            lines: Vec::new(),
        }
    });
    defects.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_flags_that_came_are_told() {
        let told = taint(
            1 << 13,
            1 << 13 | 1 << 9 | 1 << 7 | 1 << 40,
            Moment::default(),
        );
        let told: Vec<_> = told
            .iter()
            .map(|defect| (defect.top.as_str(), defect.severity))
            .collect();
        assert_eq!(
            told,
            [
                ("D", Severity::Defect),
                ("W", Severity::Defect),
                ("40", Severity::Suspicious)
            ]
        );
        assert!(taint(u64::MAX, 0, Moment::default()).is_empty());
    }
}
