//! What an entry of the cache was made from: `about.json` in each.

use std::path::Path;
use std::time::SystemTime;

use anyhow::Result;
use base::input::tree::Tree;
use serde::{Deserialize, Serialize};

use super::{Cache, write};

const FILE: &str = "about.json";

/// What an entry was made from, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// What people call it: a kernel's release, an image's recipe.
    pub title: String,
    /// Where its parts are from: `debian:bookworm`, `recipe web (bookworm)`, `tree:/home/me/linux`.
    pub source: String,
    /// When it was made, in UTC.
    pub made_at: String,
    /// The version of bakeoff that made it.
    pub bakeoff: String,
    /// Its parts.
    pub parts: Vec<Part>,
}

/// A package or file that went into an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// A package's name or a file's path.
    pub name: String,
    /// A package's version, empty for a file.
    pub version: String,
    /// SHA-256 of the package or file, empty where it is not known.
    pub sha256: String,
}

impl About {
    /// An entry that is made now.
    pub(crate) fn now(title: &str, source: String, parts: Vec<Part>) -> Self {
        Self {
            title: title.into(),
            source,
            made_at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            bakeoff: record::VERSION.into(),
            parts,
        }
    }

    /// What is known of an entry.
    pub fn of(entry: &Path) -> Option<Self> {
        serde_json::from_slice(&Tree::at(entry).read(FILE, super::NOTE_BYTES).ok()?).ok()
    }

    pub(crate) fn write(&self, cache: &Cache, entry: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(self)?;
        write(&entry.join(FILE), &text).map_err(|why| cache.cannot_write(&why))
    }

    /// One line for people.
    pub fn line(&self) -> String {
        let parts = match self.parts.as_slice() {
            [] => String::new(),
            [part] => format!(", {} {}", part.name, part.version),
            several => format!(", {} parts", several.len()),
        };
        format!(
            "{}{}; made {} by bakeoff {}",
            self.source,
            parts.trim_end(),
            self.made_at,
            self.bakeoff
        )
    }
}

impl Part {
    /// A file of the host's.
    pub(crate) fn file(path: &Path, sha256: &str) -> Self {
        Self {
            name: path.display().to_string(),
            version: String::new(),
            sha256: sha256.into(),
        }
    }
}
