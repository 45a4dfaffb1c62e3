//! With counted instructions, the guest waits for its disk in less than 1 % of the window.

use record::verdict::fairness::Quantity;

use crate::topics::fairness::subject::of_system;
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "no-disk-wait",
    group: Group::Bottleneck,
    must_hold: "With counted instructions, the guest waits for its disk in less than 1 % of the window.",
    why: "A guest that waits for its disk skips to its next timer. The figure then measures that timer.",
    mend: "Use a longer `warmup` or more `memory`, so that files are in memory.",
    reads: "time of waiting for the disk, except for disks with seeks and for `limits` with a `file_system`",
    judge: Judge::Run(|subject| of_system(subject, Quantity::DiskWait)),
    foreseen: Foreseen::ByDisturbances,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topics::fairness::tests::system_quantity_is_watched;

    #[test]
    fn a_disk_that_is_waited_for_is_found() {
        system_quantity_is_watched(&CHECK, Quantity::DiskWait);
    }
}
