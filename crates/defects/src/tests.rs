mod compare;
mod docs;
mod guests;
mod reports;
mod service_logs;
mod silence;
mod streams;
mod table;

use crate::defect_set::Defect;
use crate::reader::Reader;

/// The defects of a complete log.
fn read(log: &str) -> Vec<Defect> {
    let mut reader = Reader::new();
    reader.feed(log.as_bytes());
    reader.finish();
    reader.defects()
}

/// Kind, top and count of all defects of a log.
fn summary(log: &str) -> Vec<(&'static str, String, u64)> {
    let defects = read(log).into_iter();
    defects
        .map(|defect| (defect.kind.name(), defect.top, defect.count))
        .collect()
}
