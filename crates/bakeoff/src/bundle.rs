//! A bundle: one file with a run's records, for others to verify, judge again and repeat.
//!
//! ```text
//! NAME.bakeoff.tar.zst
//!   statement.json.sig   signature by ssh-keygen, if the bundle is signed
//!   statement.json       in-toto statement: result, inputs, SHA-256 of the manifest
//!   manifest.sha256      SHA-256 of each file below run/, as sha256sum prints it
//!   run/...              the run directory; verdict.json and reports are judged anew
//! ```
//! The signature covers the statement, the statement covers the manifest, and the manifest covers all files. The archive
//! has one form for given names and contents, and its SHA-256 stands at its end, so that any changed byte is found.

pub mod archive;
pub mod signature;
pub mod statement;

/// How names of bundles end.
pub const SUFFIX: &str = ".bakeoff.tar.zst";
