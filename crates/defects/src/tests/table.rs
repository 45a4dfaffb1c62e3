//! Every row is tested by its samples.

use std::collections::BTreeSet;

use crate::kind::Kind;
use crate::patterns::{Row, rows};
use crate::reader::Reader;

fn check(row: &Row, message: &str, top: &str) -> Option<String> {
    for before in [
        "",
        "[   12.345678] ",
        "<3>[   12.345678][  T812] ",
        "3,77,12345678,-;",
    ] {
        let mut reader = Reader::new();
        reader.feed(format!("{before}{message}\r\n").as_bytes());
        let defects = reader.defects();
        let found = defects.iter().map(|defect| {
            let top = defect.top.as_str();
            (defect.kind, defect.severity, top, defect.count)
        });
        let found: Vec<_> = found.collect();
        if found != [(row.kind, row.severity, top, 1)] {
            return Some(format!(
                "{message}\n  want {:?} {top:?}\n  have {found:?}",
                row.kind
            ));
        }
    }
    None
}

#[test]
fn each_sample_matches_its_row() {
    let samples = rows().flat_map(|row| {
        row.samples
            .iter()
            .map(move |(message, top)| (row, *message, *top))
    });
    let wrong: Vec<_> = samples
        .filter_map(|(row, message, top)| check(row, message, top))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_row_has_a_sample_and_a_selective_needle() {
    for row in rows() {
        assert!(!row.samples.is_empty(), "{}", row.form);
        let needle = crate::form::Form::new(row.form).needle();
        assert!(needle.len() >= 5, "{}: {needle:?}", row.form);
    }
    let forms: BTreeSet<_> = rows().map(|row| row.form).collect();
    assert_eq!(forms.len(), rows().count());
    assert!(forms.len() >= 150, "{}", forms.len());
}

#[test]
fn each_kind_of_the_kernel_has_a_row() {
    let service_kinds = [
        Kind::ServiceCrash,
        Kind::ServiceExit,
        Kind::ServiceRestart,
        Kind::ServiceLog,
    ];
    for kind in Kind::ALL {
        let has_row = rows().any(|row| row.kind == *kind);
        assert_eq!(has_row, !service_kinds.contains(kind), "{kind:?}");
    }
}
