//! Refuses kernel parameters that the arm's kernel does not know. The kernel would pass them to its first process
//! and ignore them, so the arm would differ in nothing.

use std::ffi::OsString;

use anyhow::{Result, bail};

/// Fails if the kernel has passed on a word of the arm's command line.
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

/// Words of a command line that the kernel passed on: `name=value` as environment, other words as arguments.
fn unknown(
    cmdline: &str,
    arguments: &[OsString],
    environment: &[(OsString, OsString)],
) -> Vec<String> {
    let is_unknown = |word: &&str| match word.split_once('=') {
        // A name with a dot is a module's parameter, which the kernel never passes on.
        Some((name, _)) => environment.iter().any(|(key, _)| key == name),
        None => arguments.iter().any(|argument| argument == *word),
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
        let unknown = unknown(
            "psi_=0 quietly mitigations=off quiet nvme.x=1",
            &["quietly".into()],
            &environment,
        );
        assert_eq!(unknown, ["psi_=0", "quietly"]);
    }
}
