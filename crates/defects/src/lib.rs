//! Finds the defects reported in the logs of a kernel and its services: kind, severity, top frame, count, first lines.
//!
//! Lines in, defects out: nothing here opens a file, reads a clock or knows arms. The known messages are a table
//! (`patterns`), whose samples are its tests.

mod compare;
mod defect_set;
mod form;
mod frame;
mod kind;
mod line;
mod patterns;
mod reader;
mod report;
mod service_log;
mod services;
mod taint;
#[cfg(test)]
mod tests;
mod top;

pub use compare::{Compared, Side, new_in};
pub use defect_set::{Defect, LIMIT_PER_KIND, LINE_BYTES, LINES, Moment, OTHERS};
pub use kind::{Kind, Severity};
pub use reader::Reader;
pub use service_log::{LogFormat, ServiceLog};
pub use services::{End, service_end, service_restarts};
pub use taint::taint;
