//! A secret shared by two ends of a connection. Each end proves that it knows the secret, without sending it.

pub mod handshake;
pub mod lobby;

use std::fmt::Write as _;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::{Context, Result};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// A secret that both ends know.
pub struct Secret(Hmac<Sha256>);

/// Largest secret file, in bytes.
const MOST_BYTES: u64 = 64 << 10;

/// Permission bits with which other users can read or write a file.
const OTHERS: u32 = 0o066;

/// Shortest secret; a shorter one could be guessed from an intercepted proof.
const LEAST_BYTES: usize = 16;

impl Secret {
    /// Reads the secret from a file; see `read`.
    pub fn read(path: &Path) -> Result<Self, String> {
        read(path).map(|text| Self::of(&text))
    }

    /// The secret of a text, which must be long enough.
    pub fn of(text: &str) -> Self {
        let key = Sha256::digest(text);
        let keyed = Hmac::new_from_slice(&key).expect("HMAC takes keys of any length");
        Self(keyed)
    }

    /// Whether a text is the secret, in constant time.
    pub fn is(&self, text: &str) -> bool {
        let mac = |secret: &Self| {
            secret
                .0
                .clone()
                .chain_update("bakeoff same 1")
                .finalize()
                .into_bytes()
        };
        mac(self).ct_eq(&mac(&Self::of(text))).into()
    }

    /// Proof of the secret (HMAC-SHA-256, RFC 2104) for one conversation, in hexadecimal. Each side uses a different
    /// prefix, so that neither can send back a received proof.
    pub fn proof(&self, side: Side, nonces: [&str; 2]) -> String {
        let keyed = self.0.clone();
        let proof = keyed
            .chain_update(side.word())
            .chain_update(nonces[0])
            .chain_update(nonces[1]);
        hex(&proof.finalize().into_bytes())
    }

    /// Whether a proof is right, in constant time.
    pub fn proves(&self, side: Side, nonces: [&str; 2], proof: &str) -> bool {
        let right = self.proof(side, nonces);
        right.as_bytes().ct_eq(proof.as_bytes()).into()
    }
}

/// The trimmed text of a secret file.
///
/// # Errors
/// It cannot be read, another user owns it or can read or write it, or it is too short.
pub fn read(path: &Path) -> Result<String, String> {
    let cannot = |why| format!("cannot read {}: {why}", path.display());
    let file = crate::input::file::open(path).map_err(cannot)?;
    let metadata = file.metadata().map_err(cannot)?;
    let owner = metadata.uid();
    if ![0, rustix::process::geteuid().as_raw()].contains(&owner) {
        let path = path.display();
        return Err(format!(
            "secret of another user: {path} is of user {owner} (make one of your own, and chmod 600 it)"
        ));
    }
    let mode = metadata.permissions().mode() & 0o777;
    if mode & OTHERS != 0 {
        let path = path.display();
        return Err(format!(
            "secret that others can read or write: {path} has mode {mode:04o} (make a new one, and chmod 600 {path})"
        ));
    }
    let bytes = crate::input::file::read_all(file, MOST_BYTES).map_err(cannot)?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim();
    if text.len() < LEAST_BYTES {
        let remedy = "make one of 16 or more: openssl rand -hex 24";
        return Err(format!(
            "secret too short: {} characters in {} ({remedy})",
            text.len(),
            path.display()
        ));
    }
    Ok(text.into())
}

/// The side that proves the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The coordinator of clients on several hosts.
    Coordinator,
    /// One of those hosts.
    Worker,
    /// The host that runs a plan.
    Controller,
    /// The agent of an arm in a guest or on a machine.
    Agent,
}

impl Side {
    fn word(self) -> &'static str {
        match self {
            Self::Coordinator => "bakeoff coordinator 1 ",
            Self::Worker => "bakeoff worker 1 ",
            Self::Controller => "bakeoff controller 1 ",
            Self::Agent => "bakeoff agent 1 ",
        }
    }
}

/// A random number for a single use, in hexadecimal.
pub fn nonce() -> Result<String> {
    Ok(hex(&random::<16>()?))
}

/// A new random secret, as text.
pub fn fresh() -> Result<String> {
    Ok(hex(&random::<32>()?))
}

fn random<const BYTES: usize>() -> Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    let source = std::fs::File::open("/dev/urandom");
    source
        .and_then(|mut source| source.read_exact(&mut bytes))
        .context("no source of random numbers")?;
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;

    use super::*;

    #[test]
    fn a_secret_that_others_can_read_or_write_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        std::fs::write(&path, "0123456789abcdef").unwrap();
        for (mode, is_refused) in [(0o600, false), (0o400, false), (0o644, true), (0o620, true)] {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(read(&path).is_err(), is_refused, "{mode:o}");
        }
        let why = read(&path).unwrap_err();
        let name = path.display();
        assert_eq!(
            why,
            format!(
                "secret that others can read or write: {name} has mode 0620 (make a new one, and chmod 600 {name})"
            )
        );
    }

    #[test]
    fn a_proof_is_valid_for_one_side_one_secret_and_one_conversation() {
        let dir = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            let path = dir.path().join("secret");
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            Secret::read(&path)
        };
        let secret = read("a secret of sixteen\n").unwrap();
        let nonces = ["one", "two"];
        let proof = secret.proof(Side::Coordinator, nonces);
        assert!(secret.proves(Side::Coordinator, nonces, &proof));
        for side in [Side::Worker, Side::Controller, Side::Agent] {
            assert!(!secret.proves(side, nonces, &proof));
        }
        assert!(!secret.proves(Side::Coordinator, ["one", "owt"], &proof));
        assert!(!secret.proves(Side::Coordinator, nonces, &proof[1..]));
        let other = read("a secret of sixteeN").unwrap();
        assert!(!other.proves(Side::Coordinator, nonces, &proof));
        assert!(
            read("short")
                .err()
                .unwrap()
                .starts_with("secret too short: 5")
        );
    }
}
