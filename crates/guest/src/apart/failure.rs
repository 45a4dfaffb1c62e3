//! A drive that failed, as a message and as an error.

use record::protocol::drive::Drive;
use record::validate;
use workload::Wrong;

/// A drive that failed, for whoever waits for it.
pub(super) fn failed(why: &anyhow::Error) -> Drive {
    Drive::Failed {
        is_wrong: why.is::<Wrong>(),
        detail: validate::detail(&format!("{why:#}")),
    }
}

/// A drive that failed elsewhere, as an error here.
pub(super) fn failure(is_wrong: bool, detail: String) -> anyhow::Error {
    if is_wrong {
        Wrong(detail).into()
    } else {
        anyhow::Error::msg(detail)
    }
}
