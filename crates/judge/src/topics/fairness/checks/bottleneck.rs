//! What was meant to be the limit was the limit.

mod addresses_share;
mod clients_apart;
mod clients_idle;
mod clients_lose_nothing;
mod latency_loop;
mod network;
mod no_disk_wait;
mod no_swapping;
mod one_load;
mod rate_kept;
mod server_stressed;
mod static_pages;

use crate::topics::fairness::Check;

pub(crate) const CHECKS: [&Check; 12] = [
    &addresses_share::CHECK,
    &clients_apart::CHECK,
    &clients_idle::CHECK,
    &clients_lose_nothing::CHECK,
    &latency_loop::CHECK,
    &network::CHECK,
    &no_disk_wait::CHECK,
    &no_swapping::CHECK,
    &one_load::CHECK,
    &rate_kept::CHECK,
    &server_stressed::CHECK,
    &static_pages::CHECK,
];
