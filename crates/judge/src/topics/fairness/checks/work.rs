//! The work was done.

mod failed_requests;
mod nothing_unsent;
mod responses_verified;
mod settled;

use crate::topics::fairness::Check;

pub(crate) const CHECKS: [&Check; 4] = [
    &failed_requests::CHECK,
    &nothing_unsent::CHECK,
    &responses_verified::CHECK,
    &settled::CHECK,
];
