//! The file of a trial's disturbances: each is written when it begins and when it ends.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use base::input::tree::Tree;

use super::BegunDisturbance;
use crate::lines::{Parser, Reader};
use crate::streamed;

/// The file of one attempt.
#[derive(Debug)]
pub struct DisturbanceStream {
    path: PathBuf,
    /// `None` before the first disturbance.
    file: Option<File>,
}

impl DisturbanceStream {
    /// No disturbances, and no file.
    pub fn new(path: PathBuf) -> Self {
        Self { path, file: None }
    }

    /// Appends a disturbance: it is in the file when this returns.
    pub fn push(&mut self, begun: &BegunDisturbance) -> Result<()> {
        let written = streamed::lines(std::slice::from_ref(begun));
        let written = written.and_then(|line| {
            if self.file.is_none() {
                let (dir, name) = Tree::around(&self.path);
                self.file = Some(dir.create(name)?);
            }
            self.file
                .as_mut()
                .expect("it was just opened")
                .write_all(&line)
        });
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// Reads such a file, in the order of the disturbances' beginnings. Each disturbance is as its last line has it; a torn last line is
/// ignored.
pub fn read_begun(dir: &Tree, name: &str) -> Result<Vec<BegunDisturbance>> {
    let path = dir.path().join(name);
    let cannot_read = || format!("cannot read {}", path.display());
    let mut lines = Reader::open(dir, name).with_context(cannot_read)?;
    let (mut begun, mut parser, mut number) = (BTreeMap::new(), Parser::default(), 0);
    while let Some(line) = lines.next().with_context(cannot_read)? {
        number += 1;
        let disturbance: BegunDisturbance = parser
            .parse(line)
            .with_context(|| format!("damaged file: {}:{number}", path.display()))?;
        begun.insert(
            (disturbance.begin_ms, disturbance.name.clone()),
            disturbance,
        );
    }
    Ok(begun.into_values().collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn begun(begin_ms: u64, end_ms: Option<u64>) -> BegunDisturbance {
        BegunDisturbance {
            name: "loss".into(),
            begin_ms,
            end_ms,
        }
    }

    #[test]
    fn a_torn_file_keeps_what_had_begun() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disturbances.jsonl");
        let mut stream = DisturbanceStream::new(path.clone());
        assert!(!path.exists());
        for disturbance in [
            begun(1000, None),
            begun(1000, Some(3000)),
            begun(9000, None),
        ] {
            stream.push(&disturbance).unwrap();
        }
        let known = [begun(1000, Some(3000)), begun(9000, None)];
        assert_eq!(
            read_begun(&Tree::at(dir.path()), "disturbances.jsonl").unwrap(),
            known
        );
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() - 5]).unwrap();
        assert_eq!(
            read_begun(&Tree::at(dir.path()), "disturbances.jsonl").unwrap(),
            known[..1]
        );
        fs::write(&path, format!("{{}}\n{text}")).unwrap();
        assert!(read_begun(&Tree::at(dir.path()), "disturbances.jsonl").is_err());
    }
}
