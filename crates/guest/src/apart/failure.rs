//! Failures of a drive between messages and errors.

use record::protocol::drive::Drive;
use record::validate;
use workload::Wrong;

/// A failure of this process's drive, as a message.
pub(super) fn to_message(why: &anyhow::Error) -> Drive {
    Drive::Failed {
        is_wrong: why.is::<Wrong>(),
        detail: validate::detail(&format!("{why:#}")),
    }
}

/// A failure of another process's drive, as an error.
pub(super) fn to_error(is_wrong: bool, detail: String) -> anyhow::Error {
    if is_wrong {
        Wrong(detail).into()
    } else {
        anyhow::Error::msg(detail)
    }
}
