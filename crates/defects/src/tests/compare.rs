//! Comparison of two arms.

use super::read;
use crate::compare::{Compared, Side, new_in};
use crate::defect_set::{Defect, Moment, OTHERS};
use crate::kind::{Kind, Severity};

fn defect(kind: Kind, severity: Severity, top: &str, count: u64) -> Defect {
    Defect {
        kind,
        severity,
        top: top.to_string(),
        count,
        first: Moment::default(),
        last: Moment::default(),
        lines: Vec::new(),
    }
}

#[test]
fn new_defects_come_first_by_falling_severity() {
    let arm = [
        defect(Kind::BlockIo, Severity::Suspicious, "vda", 3),
        defect(Kind::HungTask, Severity::Defect, "mnt_want_write", 1),
        defect(Kind::Warning, Severity::Defect, "tcp_ack", 2),
        // A second trial of the same arm.
        defect(Kind::Warning, Severity::Defect, "tcp_ack", 5),
    ];
    let baseline = [
        defect(Kind::Warning, Severity::Defect, "tcp_ack", 1),
        defect(Kind::SynFlood, Severity::Notice, "", 4),
    ];
    let compared = new_in(&arm, &baseline);
    let row = |row: &Compared| {
        let counts = (row.in_arm, row.in_baseline);
        (row.side(), row.kind, row.top.clone(), counts)
    };
    let rows: Vec<_> = compared.iter().map(row).collect();
    assert_eq!(
        rows,
        [
            (
                Side::OnlyArm,
                Kind::HungTask,
                "mnt_want_write".into(),
                (1, 0)
            ),
            (Side::OnlyArm, Kind::BlockIo, "vda".into(), (3, 0)),
            (Side::Both, Kind::Warning, "tcp_ack".into(), (7, 1)),
            (Side::OnlyBaseline, Kind::SynFlood, String::new(), (0, 4)),
        ]
    );
    assert!(compared.iter().all(|defect| defect.is_certain));
}

#[test]
fn an_arm_against_itself_has_nothing_new() {
    let log =
        "BUG: KASAN: slab-use-after-free in tcp_ack+0x12/0x340\nVFS: file-max limit 7 reached\n";
    let (first, second) = (read(log), read(log));
    assert_eq!(first.len(), 2);
    let compared = new_in(&first, &second);
    assert!(compared.iter().all(|row| row.side() == Side::Both));
    assert_eq!(new_in(&[], &[]), []);
}

#[test]
fn a_defect_that_may_be_among_the_unnamed_is_not_certain() {
    let arm = [
        defect(Kind::UserFault, Severity::Defect, "nginx", 1),
        defect(Kind::Oops, Severity::Defect, "f", 1),
    ];
    let baseline = [defect(Kind::UserFault, Severity::Defect, OTHERS, 9)];
    let certain: Vec<_> = new_in(&arm, &baseline)
        .into_iter()
        .map(|defect| (defect.top, defect.is_certain))
        .collect();
    assert_eq!(
        certain,
        [
            ("f".into(), true),
            ("nginx".into(), false),
            (OTHERS.into(), true)
        ]
    );
}
