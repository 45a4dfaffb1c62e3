//! All checks, by group.

mod arms;
mod bottleneck;
mod measurement;
mod work;

use crate::topics::fairness::Check;

pub(crate) use self::arms::{compiler_of, has_like_memory};

const COUNT: usize =
    arms::CHECKS.len() + bottleneck::CHECKS.len() + work::CHECKS.len() + measurement::CHECKS.len();

/// All checks, by group.
pub static ALL: [&Check; COUNT] = all();

const fn all() -> [&'static Check; COUNT] {
    let groups: [&[&Check]; 4] = [
        &arms::CHECKS,
        &bottleneck::CHECKS,
        &work::CHECKS,
        &measurement::CHECKS,
    ];
    let mut all = [arms::CHECKS[0]; COUNT];
    let (mut at, mut group) = (0, 0);
    while group < groups.len() {
        let mut position = 0;
        while position < groups[group].len() {
            all[at] = groups[group][position];
            (at, position) = (at + 1, position + 1);
        }
        group += 1;
    }
    all
}
