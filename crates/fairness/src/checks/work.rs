//! The work was done.

mod failed_requests;
mod nothing_unsent;
mod responses_verified;
mod settled;

use crate::Check;

pub(super) const CHECKS: [&Check; 4] = [
    &failed_requests::CHECK,
    &nothing_unsent::CHECK,
    &responses_verified::CHECK,
    &settled::CHECK,
];
