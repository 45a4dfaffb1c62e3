//! `[growth]`: how much growth of a counter matters, in trials that are long enough to show it.

use std::time::Duration;

use base::input::units;

use crate::fields::Fields;
use crate::set;

/// Growth that matters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GrowthPlan {
    /// Least growth, as a share of memory or of the counter's limit.
    pub least: f64,
    /// Time within which it occurs; `None` for the workload's length.
    pub after: Option<Duration>,
}

impl Default for GrowthPlan {
    fn default() -> Self {
        Self {
            least: 0.01,
            after: None,
        }
    }
}

/// Longest time to which growth is extrapolated.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

pub(crate) fn read_growth(top: &Fields<'_>) -> GrowthPlan {
    let mut growth = GrowthPlan::default();
    let Some(fields) = top.table("growth") else {
        return growth;
    };
    set(&mut growth.least, fields.share("least", 0.0, 1.0));
    let after = fields.read("after", |text| match units::duration(text)? {
        Duration::ZERO => Err("growth within no time, write for instance \"14d\"".into()),
        long if long > LONGEST => {
            Err("growth within more than ten years, write 10y or less".into())
        }
        after => Ok(after),
    });
    growth.after = after;
    fields.finish();
    growth
}
