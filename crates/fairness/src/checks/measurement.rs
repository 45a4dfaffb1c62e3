//! The measurement is sound.

mod accounting;
mod disturbed_blocks;
mod error_rate;
mod evidence;
mod order;
mod outliers;
mod sampling;
mod steal;
mod trials_fail_alike;

use crate::Check;

pub(super) const CHECKS: [&Check; 9] = [
    &accounting::CHECK,
    &disturbed_blocks::CHECK,
    &error_rate::CHECK,
    &evidence::CHECK,
    &order::CHECK,
    &outliers::CHECK,
    &sampling::CHECK,
    &steal::CHECK,
    &trials_fail_alike::CHECK,
];
