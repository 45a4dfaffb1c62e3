//! Workload by arm: the first table of a report, and the notes under its verdicts.

pub(crate) mod tell;
