//! Shared helpers of tests: skips, the seed of random tests, limits of readers (`limits`). A test that lacks something calls `skip` and
//! returns. In CI, where `CI` is set, the test fails unless its reason is listed in `allowed.txt`.

pub mod limits;

/// Reasons that CI accepts.
const ALLOWED: &str = include_str!("skip/allowed.txt");

/// Reports that the calling test is skipped, and why: a fixed reason, followed by a colon and what differs between hosts,
/// as in `program not installed: /usr/sbin/nginx`.
///
/// # Panics
/// In CI, if the reason is not on the list.
pub fn skip(reason: &str) {
    eprintln!("SKIPPED: {reason}");
    let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
    if let Err(why) = judge(reason, in_ci) {
        panic!("{why}");
    }
}

/// The seed of a random test: the variable `SEED`, in decimal, else `fixed`. It is printed, so that a failure can be
/// reproduced.
///
/// # Panics
/// `SEED` is not a whole number.
pub fn seed(fixed: u64) -> u64 {
    let seed = match std::env::var("SEED") {
        Ok(text) => {
            let number = text.parse();
            number.unwrap_or_else(|_| panic!("SEED is no whole number: {text:?}"))
        }
        Err(_) => fixed,
    };
    eprintln!("SEED={seed}");
    seed
}

fn judge(reason: &str, in_ci: bool) -> Result<(), String> {
    let fixed_part = reason.split(": ").next().unwrap_or(reason);
    let is_reason = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let mut allowed = ALLOWED.lines().filter(is_reason);
    if !in_ci || allowed.any(|line| line == fixed_part) {
        return Ok(());
    }
    Err(format!(
        "skipped in CI for a reason that is not listed: {reason} (provide it, or add the reason to crates/base/src/skip/allowed.txt)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ci_accepts_only_listed_reasons() {
        assert_eq!(judge("this host has one CPU", true), Ok(()));
        assert_eq!(judge("this host has one CPU: two are needed", true), Ok(()));
        assert_eq!(judge("program not installed: nginx", false), Ok(()));
        for reason in ["program not installed: nginx", "", "#", "this host"] {
            assert!(judge(reason, true).is_err(), "{reason}");
        }
    }
}
