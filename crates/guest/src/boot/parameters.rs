//! Parameters of an arm's command line that its kernel does not know: it hands them to its first process and goes on, so that an arm
//! would differ in nothing.

use std::ffi::OsString;

use anyhow::{Result, bail};

/// Refuses an arm's command line of which the kernel knows a word no more than this process does.
pub(crate) fn check(cmdline: &str) -> Result<()> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let environment: Vec<_> = std::env::vars_os().collect();
    let unknown = unknown(cmdline, &arguments, &environment);
    if unknown.is_empty() {
        return Ok(());
    }
    bail!(
        "this kernel does not know the parameter {} (correct the arm's cmdline)",
        unknown.join(", ")
    )
}

/// Words of a command line that the kernel handed on: `name=value` to the environment, other words to the arguments.
fn unknown(
    cmdline: &str,
    arguments: &[OsString],
    environment: &[(OsString, OsString)],
) -> Vec<String> {
    let is_unknown = |word: &&str| match word.split_once('=') {
        // What has a point is a module's, known or not, and is handed to nobody.
        Some((name, _)) => environment.iter().any(|(one, _)| one == name),
        None => arguments.iter().any(|one| one == *word),
    };
    let words = cmdline.split_whitespace().filter(is_unknown);
    words.map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_handed_on_is_unknown() {
        let environment = [("HOME", "/"), ("psi_", "0")];
        let environment = environment.map(|(name, value)| (name.into(), value.into()));
        let found = unknown(
            "psi_=0 quietly mitigations=off quiet nvme.x=1",
            &["quietly".into()],
            &environment,
        );
        assert_eq!(found, ["psi_=0", "quietly"]);
    }
}
