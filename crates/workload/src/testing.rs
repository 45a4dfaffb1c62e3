//! What tests of workloads share.

use expect_test::Expect;
use plan::fields::{Fields, Page};

/// The workload of a plan's table, or what is wrong with it.
pub(crate) fn read(text: &str) -> Result<plan::WorkloadPlan, String> {
    let page = Page::new("plan.toml", text);
    let table = page.parse();
    let plan = crate::check(&Fields::top(&page, &table));
    page.close(plan).map_err(|problems| problems.to_string())
}

pub(crate) fn check_mistakes(text: &str, expected: &Expect) {
    expected.assert_eq(&read(text).unwrap_err());
}
