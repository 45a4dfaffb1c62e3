//! The measurement is sound.

mod a_a_history;
mod accounting;
mod disturbed_blocks;
mod error_rate;
mod evidence;
mod host_speed;
mod order;
mod outliers;
mod planned_disturbances;
mod sampling;
mod steal;
mod trials_fail_alike;

use crate::topics::fairness::Check;

pub(crate) const CHECKS: [&Check; 12] = [
    &a_a_history::CHECK,
    &accounting::CHECK,
    &disturbed_blocks::CHECK,
    &error_rate::CHECK,
    &evidence::CHECK,
    &host_speed::CHECK,
    &order::CHECK,
    &outliers::CHECK,
    &planned_disturbances::CHECK,
    &sampling::CHECK,
    &steal::CHECK,
    &trials_fail_alike::CHECK,
];
