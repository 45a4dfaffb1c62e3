//! Defects that a kernel's log and services tell of: kind, severity, top frame, how often, and the lines of the first.
//!
//! Lines in, defects out: nothing here opens a file, reads a clock or knows what an arm is. What a log may hold is a
//! table (`patterns`), whose samples are its tests.

mod compare;
mod form;
mod found;
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
pub use found::{Defect, LIMIT_PER_KIND, LINE_BYTES, LINES, Moment, OTHERS};
pub use kind::{Kind, Severity};
pub use reader::Reader;
pub use service_log::{LogFormat, ServiceLog};
pub use services::{End, service_end, service_restarts};
pub use taint::taint;
