//! The secret that coordinator and workers share: each proves that it knows it, and neither sends
//! it.

use std::io::Read as _;

use anyhow::{Context, Result};
use hmac::{Hmac, KeyInit as _, Mac as _};
use record::rundir::hex;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// What both sides know.
pub(crate) struct Secret(Hmac<Sha256>);

/// Shorter secrets can be guessed from a proof that somebody has overheard.
const LEAST_BYTES: usize = 16;

impl Secret {
    /// The secret of a file, without blanks around it.
    pub(crate) fn read(path: &std::path::Path) -> Result<Self, String> {
        let text = input::file::read_to_string(path)
            .map_err(|why| format!("cannot read {}: {why}", path.display()))?;
        let text = text.trim();
        if text.len() < LEAST_BYTES {
            let remedy = "make one of 16 or more: head -c 24 /dev/urandom | base64";
            return Err(format!(
                "secret too short: {} characters in {} ({remedy})",
                text.len(),
                path.display()
            ));
        }
        let key = Sha256::digest(text);
        let keyed = Hmac::new_from_slice(&key).expect("HMAC takes keys of any length");
        Ok(Self(keyed))
    }

    /// Proof of the secret (HMAC-SHA-256, RFC 2104) for one conversation, in hexadecimal. Each side
    /// has its own words, so that neither can hand back what it was given.
    pub(crate) fn proof(&self, side: Side, nonces: [&str; 2]) -> String {
        let keyed = self.0.clone();
        let proof = keyed
            .chain_update(side.word())
            .chain_update(nonces[0])
            .chain_update(nonces[1]);
        hex(&proof.finalize().into_bytes())
    }

    /// Whether a proof is right; takes as long for a wrong one.
    pub(crate) fn proves(&self, side: Side, nonces: [&str; 2], proof: &str) -> bool {
        let right = self.proof(side, nonces);
        right.as_bytes().ct_eq(proof.as_bytes()).into()
    }
}

/// Who proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Coordinator,
    Worker,
}

impl Side {
    fn word(self) -> &'static str {
        match self {
            Self::Coordinator => "bakeoff coordinator 1 ",
            Self::Worker => "bakeoff worker 1 ",
        }
    }
}

/// A number that is used once, in hexadecimal.
pub(crate) fn nonce() -> Result<String> {
    let mut bytes = [0; 16];
    let mut source = std::fs::File::open("/dev/urandom").context("no source of random numbers")?;
    source
        .read_exact(&mut bytes)
        .context("no source of random numbers")?;
    Ok(hex(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_one_side_one_secret_and_one_conversation() {
        let dir = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            let path = dir.path().join("secret");
            std::fs::write(&path, text).unwrap();
            Secret::read(&path)
        };
        let secret = read("a secret of sixteen\n").unwrap();
        let nonces = ["one", "two"];
        let proof = secret.proof(Side::Coordinator, nonces);
        assert!(secret.proves(Side::Coordinator, nonces, &proof));
        assert!(!secret.proves(Side::Worker, nonces, &proof));
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
