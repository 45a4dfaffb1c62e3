//! The mail about a run, in the form in which kernel developers get regressions (the kernel's `admin-guide/reporting-regressions.rst`).

pub(crate) mod find;
pub(crate) mod tell;
