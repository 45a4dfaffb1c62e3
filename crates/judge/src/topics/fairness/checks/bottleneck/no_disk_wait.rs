//! Is no disk part of what is counted in instructions?

use record::verdict::fairness::Quantity;

use crate::topics::fairness::subject::of_system;
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "no-disk-wait",
    group: Group::Bottleneck,
    question: "Is no disk part of what is counted in instructions?",
    reads: "time in which the disk was waited for, under counted instructions; not of a disk with seeks, whose time is the guest's, nor of `limits` with a `file_system`, whose device is memory",
    passes: "less than 1 % of the window",
    why: "A guest that idles for its disk leaps to its next timer: the figure is then a timer's.",
    mend: "let the server read its files before the window: a longer `warmup`, more `memory`",
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
