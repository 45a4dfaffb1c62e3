//! A series that is written to a file: each point is appended at once, and the file is rewritten, thinned, when it has doubled.
//!
//! So all points are on disk whenever the program ends, and neither file nor memory grows with time. A torn last line of such a file is
//! ignored and is no damage.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use base::input::tree::Tree;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::json;
use crate::lines::Reader;
use crate::thinned::{Point, Thinned};

/// Least number of appended lines before the file is rewritten: an hour of seconds.
const LINES: usize = 3600;

/// Most values in a line; a point has some hundred.
const POINT_VALUES: usize = 1 << 14;

/// The series and its file.
#[derive(Debug)]
pub struct Streamed<T> {
    file: LateFile,
    appended: usize,
    series: Thinned<T>,
}

impl<T: Point + Serialize> Streamed<T> {
    /// A series without points, whose file does not exist yet.
    pub fn new(path: PathBuf) -> Self {
        Self {
            file: LateFile::new(path),
            appended: 0,
            series: Thinned::default(),
        }
    }

    /// Appends points: they are in the file when this returns.
    pub fn push(&mut self, points: &[T]) -> Result<()> {
        if points.is_empty() {
            return Ok(());
        }
        self.file.append(points)?;
        for point in points {
            self.series.push(point.clone());
        }
        self.appended += points.len();
        if self.appended > LINES.max(self.series.len()) {
            self.file.rewrite(self.series.iter())?;
            self.appended = 0;
        }
        Ok(())
    }

    /// The series so far.
    pub fn into_series(self) -> Thinned<T> {
        self.series
    }
}

/// A file of lines that is created with its first line.
#[derive(Debug)]
pub(crate) struct LateFile {
    path: PathBuf,
    file: Option<File>,
}

impl LateFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, file: None }
    }

    /// Appends one line per value: they are in the file when this returns.
    pub(crate) fn append<T: Serialize>(&mut self, values: &[T]) -> Result<()> {
        let written = lines(values).and_then(|lines| self.open()?.write_all(&lines));
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Replaces its content atomically.
    pub(crate) fn rewrite<'v, T: Serialize + 'v>(
        &mut self,
        values: impl Iterator<Item = &'v T>,
    ) -> Result<()> {
        let (dir, name) = Tree::around(&self.path);
        let written = dir.replace_by(name, |file| {
            let mut writer = io::BufWriter::new(file);
            for value in values {
                serde_json::to_writer(&mut writer, value)?;
                writer.write_all(b"\n")?;
            }
            writer.flush()
        });
        let cannot_write = || format!("cannot write {}", self.path.display());
        self.file = Some(written.with_context(cannot_write)?);
        Ok(())
    }

    fn open(&mut self) -> io::Result<&mut File> {
        if self.file.is_none() {
            let (dir, name) = Tree::around(&self.path);
            self.file = Some(dir.create(name)?);
        }
        Ok(self.file.as_mut().expect("it was just opened"))
    }
}

/// Serializes points as lines of JSON.
pub fn lines<T: Serialize>(points: &[T]) -> io::Result<Vec<u8>> {
    let mut lines = Vec::new();
    for point in points {
        serde_json::to_writer(&mut lines, point)?;
        lines.push(b'\n');
    }
    Ok(lines)
}

/// Reads such a file. Points of the same time are joined, and a torn last line is ignored.
pub fn read<T: Point + DeserializeOwned>(dir: &Tree, name: &str) -> Result<Vec<T>> {
    let path = dir.path().join(name);
    let cannot_read = || format!("cannot read {}", path.display());
    let mut lines = Reader::open(dir, name).with_context(cannot_read)?;
    let (mut series, mut number) = (Thinned::default(), 0);
    while let Some(line) = lines.next().with_context(cannot_read)? {
        number += 1;
        let point: T = json::read(line, POINT_VALUES)
            .with_context(|| format!("damaged file: {}:{number}", path.display()))?;
        series.push(point);
    }
    Ok(series.into_vec())
}
