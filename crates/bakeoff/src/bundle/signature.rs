//! Signatures of bundles, by `ssh-keygen -Y` of OpenSSH 8.2 or later.
//!
//! OpenSSH knows keys in files, agents and security tokens, and files of allowed signers with dates of expiry. The
//! namespace keeps signatures for other purposes apart.

use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, anyhow, bail};
use machine::program;

/// Namespace of the signatures.
const NAMESPACE: &str = "bakeoff";

/// Who signed a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signer {
    /// The name in the file of allowed signers; `None` if the signature was not compared with one.
    pub name: Option<String>,
    /// Type and fingerprint of the key.
    pub key: String,
}

/// Signs a statement with the key in a file, or with the agent's key whose public half is there.
///
/// # Errors
/// The key cannot be read or used.
pub fn sign(key: &Path, statement: &[u8]) -> Result<Vec<u8>> {
    let mut command = ssh_keygen("sign")?;
    command.arg("-f").arg(key).args(["-n", NAMESPACE]);
    let output = run(&mut command, statement)?;
    if !output.status.success() || output.stdout.is_empty() {
        bail!(
            "cannot sign with {}: {} (name a private key, or a public key whose private half an ssh-agent holds)",
            key.display(),
            reason(&output)
        );
    }
    Ok(output.stdout)
}

/// Checks the signature of a statement, and if there is a file of allowed signers, that one of them made it now or before
/// the key expired. `scratch` is a directory for a file.
///
/// # Errors
/// The signature is of another statement, or of nobody in the file.
pub fn check(
    signature: &[u8],
    statement: &[u8],
    signers: Option<&Path>,
    scratch: &Path,
) -> Result<Signer> {
    let file = scratch.join("signature");
    std::fs::write(&file, signature).with_context(|| format!("cannot write {}", file.display()))?;
    let signed = [
        "-n".as_ref(),
        NAMESPACE.as_ref(),
        "-s".as_ref(),
        file.as_os_str(),
    ];
    let Some(signers) = signers else {
        let output = run(ssh_keygen("check-novalidate")?.args(signed), statement)?;
        return signer(None, &output).ok_or_else(|| {
            anyhow!(
                "wrong signature: {} (do not trust this bundle)",
                reason(&output)
            )
        });
    };
    let mut command = ssh_keygen("find-principals")?;
    command.arg("-s").arg(&file).arg("-f").arg(signers);
    let found = run(&mut command, statement)?;
    let names = String::from_utf8_lossy(&found.stdout);
    // A key can have several names, and a name may be for other purposes than this one.
    let mut refused = found.clone();
    for name in names.lines().filter(|_| found.status.success()) {
        let mut command = ssh_keygen("verify")?;
        command
            .arg("-f")
            .arg(signers)
            .args(["-I", name])
            .args(signed);
        let output = run(&mut command, statement)?;
        match signer(Some(name), &output) {
            Some(found) => return Ok(found),
            None => refused = output,
        }
    }
    bail!(
        "no good signature by anyone in {}: {} (look at that file, or ask who signed the bundle)",
        signers.display(),
        reason(&refused)
    )
}

/// It stays in this process's session, because it asks for a passphrase on the terminal.
fn ssh_keygen(action: &str) -> Result<Command> {
    let mut command = program::command("ssh-keygen", "openssh-client")?;
    command.args(["-Y", action]);
    Ok(command)
}

/// The key in `Good "bakeoff" signature for NAME with ED25519 key SHA256:...`.
fn signer(name: Option<&str>, output: &Output) -> Option<Signer> {
    let text = String::from_utf8_lossy(&output.stdout);
    let (_, key) = text.trim().rsplit_once(" with ")?;
    output.status.success().then(|| Signer {
        name: name.map(String::from),
        key: key.into(),
    })
}

/// Why it failed: the first line of standard error.
fn reason(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    // A warning about a file's mode is framed by lines of "@".
    let is_reason = |line: &&str| !line.starts_with("Signing data") && !line.starts_with('@');
    let line = text.lines().find(is_reason);
    line.map_or_else(|| output.status.to_string(), |line| line.trim().into())
}

/// Runs a command that reads `input`.
fn run(command: &mut Command, input: &[u8]) -> Result<Output> {
    command.stdin(program::in_memory_with("statement", input)?);
    command.output().context("cannot run ssh-keygen")
}
