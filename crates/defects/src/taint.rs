//! Decodes `/proc/sys/kernel/tainted`.

use crate::defect_set::{Defect, Moment};
use crate::kind::{Kind, Severity};

/// Letter and severity of each bit, from bit 0 (Documentation/admin-guide/tainted-kernels.rst).
///
/// Bits that reflect a choice are notices: a proprietary module, an unsigned one, a test. Those that reflect a report
/// (`B`, `D`, `L`, `W`) are defects even if the report itself was lost.
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

/// A defect for each flag that was set between two readings, with the flag's letter as top. An unknown bit
/// counts as suspicious, with its number as top.
///
/// Flags set at boot are no defects: pass the flags before the load as `before`.
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
    fn only_new_flags_are_reported() {
        let defects = taint(
            1 << 13,
            1 << 13 | 1 << 9 | 1 << 7 | 1 << 40,
            Moment::default(),
        );
        let defects: Vec<_> = defects
            .iter()
            .map(|defect| (defect.top.as_str(), defect.severity))
            .collect();
        assert_eq!(
            defects,
            [
                ("D", Severity::Defect),
                ("W", Severity::Defect),
                ("40", Severity::Suspicious)
            ]
        );
        assert!(taint(u64::MAX, 0, Moment::default()).is_empty());
    }
}
