//! Logs of a service, read as they grow.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use defects::{Defect, LogFormat, ServiceLog};

/// Most bytes read of a log at once; of a log that has grown by more, only the end is read.
const MOST_BYTES: u64 = 1 << 20;

/// All logs of one service.
#[derive(Debug, Default)]
pub(crate) struct ServiceFiles(Vec<ServiceFile>);

#[derive(Debug)]
struct ServiceFile {
    path: PathBuf,
    read_bytes: u64,
    log: ServiceLog,
}

impl ServiceFiles {
    /// Reads these files from their present end on; none if the format of the service's logs is unknown.
    pub(crate) fn open(service: &str, program: &str, files: &[PathBuf]) -> Self {
        let Some(format) = format(service).or_else(|| format(program)) else {
            return Self::default();
        };
        let files = files.iter().map(|path| ServiceFile {
            path: path.clone(),
            read_bytes: length(path),
            log: ServiceLog::new(service, format),
        });
        Self(files.collect())
    }

    /// Reads what was added. `clock` is the time since the window opened.
    pub(crate) fn read(&mut self, clock: Option<Duration>) {
        for file in &mut self.0 {
            if let Some(clock) = clock {
                file.log.set_clock(clock);
            }
            // An unreadable log shows no defects.
            let _ = file.read();
        }
    }

    /// Expects the end of a process that is killed on purpose: its traces in the logs are no defect.
    pub(crate) fn ask_end(&mut self, pid: u32) {
        for file in &mut self.0 {
            file.log.ask_end(pid);
        }
    }

    pub(crate) fn defects(&self) -> Vec<Defect> {
        self.0.iter().flat_map(|file| file.log.defects()).collect()
    }
}

impl ServiceFile {
    fn read(&mut self) -> std::io::Result<()> {
        let length = length(&self.path);
        if length == self.read_bytes {
            return Ok(());
        }
        // A shorter log was truncated or replaced.
        let from = if length < self.read_bytes {
            0
        } else {
            self.read_bytes
        };
        let from = from.max(length.saturating_sub(MOST_BYTES));
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(from))?;
        let mut new = Vec::new();
        let read = file.take(length - from).read_to_end(&mut new)?;
        self.read_bytes = from + read as u64;
        self.log.feed(&new);
        Ok(())
    }
}

fn length(path: &Path) -> u64 {
    path.metadata().map_or(0, |file| file.len())
}

/// The format of a log, by the name of the service or its program.
fn format(service: &str) -> Option<LogFormat> {
    match service {
        "apache2" => Some(LogFormat::Apache),
        "nginx" => Some(LogFormat::Nginx),
        "mariadb" | "mariadbd" => Some(LogFormat::MariaDb),
        "postgresql" | "postgres" => Some(LogFormat::PostgreSql),
        "samba" | "smbd" => Some(LogFormat::Samba),
        "tomcat" => Some(LogFormat::Tomcat),
        "wildfly" => Some(LogFormat::Wildfly),
        "open-liberty" => Some(LogFormat::OpenLiberty),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write as _;

    use super::*;

    fn crash(worker: u32) -> String {
        format!("2026/11/23 01:02:03 [alert] 1#1: worker process {worker} exited on signal 11\n")
    }

    fn counts(files: &ServiceFiles) -> Vec<(String, u64)> {
        let defects = files.defects().into_iter();
        defects.map(|defect| (defect.top, defect.count)).collect()
    }

    #[test]
    fn a_log_is_read_from_where_it_was_and_each_line_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("error.log");
        fs::write(&path, crash(1)).unwrap();
        let mut files = ServiceFiles::open("web", "nginx", std::slice::from_ref(&path));
        files.read(None);
        assert_eq!(counts(&files), []);
        let mut log = OpenOptions::new().append(true).open(&path).unwrap();
        log.write_all(&crash(2).as_bytes()[..30]).unwrap();
        files.read(None);
        log.write_all(&crash(2).as_bytes()[30..]).unwrap();
        for _ in 0..2 {
            files.read(Some(Duration::from_secs(3)));
            assert_eq!(counts(&files), [("web: SIGSEGV".to_string(), 1)]);
        }
        assert_eq!(files.defects()[0].first.clock, Some(Duration::from_secs(3)));
    }

    #[test]
    fn a_log_that_was_begun_anew_is_read_from_its_beginning() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("error.log");
        fs::write(&path, "some words before it all\n".repeat(20)).unwrap();
        let mut files = ServiceFiles::open("nginx", "", std::slice::from_ref(&path));
        fs::write(&path, crash(7)).unwrap();
        files.read(None);
        assert_eq!(counts(&files).len(), 1);
        let unknown = ServiceFiles::open("service", "program", &[path]);
        assert!(unknown.0.is_empty());
    }
}
