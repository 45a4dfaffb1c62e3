//! Expected responses, and the check of a body while it arrives.

use std::sync::Arc;

use record::load::Fault;
use sha2::{Digest as _, Sha256};

/// An expected response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expect {
    /// HTTP status.
    pub status: u16,
    /// The body.
    pub content: Content,
}

/// The expected body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Any body.
    Any,
    /// Its length and SHA-256.
    Hash {
        /// Length in bytes.
        length: u64,
        /// SHA-256 of the body.
        sha256: [u8; 32],
    },
    /// Exactly these bytes. Comparing costs a tenth of hashing.
    Bytes(Arc<[u8]>),
    /// A body with this prefix, for pages whose end is not known in advance.
    Begins(Arc<[u8]>),
}

impl Expect {
    /// Status 200 and exactly this body.
    pub fn body(bytes: impl Into<Arc<[u8]>>) -> Self {
        Self {
            status: 200,
            content: Content::Bytes(bytes.into()),
        }
    }

    /// Status 200 and a body of this length in bytes and SHA-256.
    pub fn hash(length: u64, sha256: [u8; 32]) -> Self {
        Self {
            status: 200,
            content: Content::Hash { length, sha256 },
        }
    }

    /// Status 200 and a body with this prefix.
    pub fn begins(bytes: impl Into<Arc<[u8]>>) -> Self {
        Self {
            status: 200,
            content: Content::Begins(bytes.into()),
        }
    }

    /// This status and any body.
    pub fn status(status: u16) -> Self {
        Self {
            status,
            content: Content::Any,
        }
    }
}

/// SHA-256 of a body.
pub(crate) fn sha256(body: &[u8]) -> [u8; 32] {
    Sha256::digest(body).into()
}

/// Incremental check of a body.
#[derive(Debug, Clone)]
pub(crate) struct Check {
    seen_bytes: u64,
    same: bool,
    hash: Sha256,
}

impl Check {
    pub(crate) fn new() -> Self {
        Self {
            seen_bytes: 0,
            same: true,
            hash: Sha256::new(),
        }
    }

    /// Starts with the next body.
    pub(crate) fn restart(&mut self, expect: &Expect) {
        self.seen_bytes = 0;
        self.same = true;
        if matches!(expect.content, Content::Hash { .. }) {
            self.hash = Sha256::new();
        }
    }

    /// Adds the next piece of the body.
    pub(crate) fn feed(&mut self, expect: &Expect, piece: &[u8]) {
        match &expect.content {
            Content::Any => {}
            Content::Hash { .. } => self.hash.update(piece),
            Content::Bytes(bytes) => {
                let rest = bytes.get(self.seen_bytes as usize..).unwrap_or(&[]);
                self.same = self.same && rest.starts_with(piece);
            }
            Content::Begins(bytes) => {
                let rest = bytes.get(self.seen_bytes as usize..).unwrap_or(&[]);
                let shared = rest.len().min(piece.len());
                self.same = self.same && rest[..shared] == piece[..shared];
            }
        }
        self.seen_bytes += piece.len() as u64;
    }

    /// Ends the body. Checks first the status, then the length, then the content.
    pub(crate) fn close(&mut self, expect: &Expect, status: u16) -> Result<(), Fault> {
        if status != expect.status {
            return Err(Fault::BadStatus);
        }
        let (length, same) = match &expect.content {
            Content::Any => return Ok(()),
            Content::Hash { length, sha256 } => {
                (*length, self.hash.finalize_reset().as_slice() == sha256)
            }
            Content::Bytes(bytes) => (bytes.len() as u64, self.same),
            Content::Begins(bytes) => (self.seen_bytes.max(bytes.len() as u64), self.same),
        };
        match (length == self.seen_bytes, same) {
            (true, true) => Ok(()),
            (true, false) => Err(Fault::BadContent),
            (false, _) => Err(Fault::BadLength),
        }
    }

    /// Length of the body so far.
    pub(crate) fn seen_bytes(&self) -> u64 {
        self.seen_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expect: &Expect, status: u16, pieces: &[&str]) -> Result<(), Fault> {
        let mut check = Check::new();
        check.restart(expect);
        for piece in pieces {
            check.feed(expect, piece.as_bytes());
        }
        check.close(expect, status)
    }

    fn hash_of(text: &str) -> Expect {
        Expect::hash(text.len() as u64, Sha256::digest(text).into())
    }

    #[test]
    fn the_expected_body_passes_in_any_pieces() {
        for expect in [Expect::body(*b"hello"), hash_of("hello")] {
            assert_eq!(check(&expect, 200, &["hello"]), Ok(()));
            assert_eq!(check(&expect, 200, &["h", "", "ell", "o"]), Ok(()));
        }
    }

    #[test]
    fn status_is_checked_before_length_and_length_before_content() {
        for expect in [Expect::body(*b"hello"), hash_of("hello")] {
            assert_eq!(check(&expect, 500, &["oops"]), Err(Fault::BadStatus));
            assert_eq!(check(&expect, 200, &["hell"]), Err(Fault::BadLength));
            assert_eq!(check(&expect, 200, &["hello", "!"]), Err(Fault::BadLength));
            assert_eq!(check(&expect, 200, &["hEllo"]), Err(Fault::BadContent));
        }
    }

    #[test]
    fn a_prefix_may_be_followed_by_anything() {
        let expect = Expect::begins(*b"hello");
        for right in [
            &["hello"][..],
            &["hel", "lo, world"],
            &["h", "", "ello", "!"],
        ] {
            assert_eq!(check(&expect, 200, right), Ok(()));
        }
        assert_eq!(check(&expect, 200, &["hell"]), Err(Fault::BadLength));
        assert_eq!(
            check(&expect, 200, &["hel", "p, help"]),
            Err(Fault::BadContent)
        );
        assert_eq!(check(&expect, 404, &["hello"]), Err(Fault::BadStatus));
    }

    #[test]
    fn a_restarted_check_forgets_the_previous_body() {
        let (first, second) = (hash_of("one"), Expect::body(*b"two"));
        let mut check = Check::new();
        for (expect, body) in [(&first, "one"), (&second, "two"), (&first, "one")] {
            check.restart(expect);
            check.feed(expect, body.as_bytes());
            assert_eq!(check.close(expect, 200), Ok(()));
        }
    }
}
