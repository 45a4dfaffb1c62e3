//! The kernel's log from `/dev/kmsg`, record by record (Documentation/ABI/testing/dev-kmsg).

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;

use anyhow::{Context as _, Result};
use rustix::fs::OFlags;

const KMSG: &str = "/dev/kmsg";

/// More than the longest record that a kernel writes.
const RECORD_BYTES: usize = 16 << 10;

/// Most records of one read, of which there is about one a second; the rest is skipped, and counts as lost.
const MOST_RECORDS: usize = 20_000;

/// Where reading begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    /// The oldest message since boot that is left.
    Boot,
    /// The next message.
    Now,
}

/// The log, read as it grows.
#[derive(Debug)]
pub(crate) struct KernelLog<F = File> {
    file: F,
    /// Sequence number of the next message, if known.
    next: Option<u64>,
    lost: u64,
}

impl KernelLog {
    pub(crate) fn open(from: From) -> Result<Self> {
        let mut file = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(KMSG)
            .with_context(|| format!("open {KMSG}"))?;
        let next = match from {
            From::Boot => Some(0),
            From::Now => {
                file.seek(SeekFrom::End(0))
                    .with_context(|| format!("skip what {KMSG} has already"))?;
                None
            }
        };
        Ok(Self {
            file,
            next,
            lost: 0,
        })
    }

    /// The file, for poll(2).
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Reads new records and passes on the messages of the kernel itself. `false` if the log cannot be read any more.
    pub(crate) fn read(&mut self, take: &mut dyn FnMut(&[u8])) -> bool {
        let (records, goes_on) = self.read_some(take);
        if records == MOST_RECORDS {
            // The gap in the sequence numbers shows how many were skipped.
            let _ = self.file.seek(SeekFrom::End(0));
        }
        goes_on
    }
}

impl<F: Read> KernelLog<F> {
    /// Messages that were overwritten before they were read.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// How many records were read, and whether more may come.
    fn read_some(&mut self, take: &mut dyn FnMut(&[u8])) -> (usize, bool) {
        let mut buffer = vec![0; RECORD_BYTES];
        let mut records = 0;
        while records < MOST_RECORDS {
            match self.file.read(&mut buffer) {
                Ok(0) => return (records, false),
                Ok(length) => {
                    records += 1;
                    self.take_record(&buffer[..length], take);
                }
                Err(why) if why.kind() == ErrorKind::WouldBlock => return (records, true),
                // Messages were overwritten: the next read continues after them.
                Err(why) if why.kind() == ErrorKind::BrokenPipe => records += 1,
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(_) => return (records, false),
            }
        }
        (records, true)
    }

    fn take_record(&mut self, record: &[u8], take: &mut dyn FnMut(&[u8])) {
        // Further lines describe the message's device.
        let line = record.split(|byte| *byte == b'\n').next().unwrap_or(record);
        let mut fields = line.splitn(3, |byte| *byte == b',').map(number);
        let (priority, sequence) = (fields.next().flatten(), fields.next().flatten());
        if let Some(sequence) = sequence {
            let expected = self.next.unwrap_or(sequence);
            self.lost += sequence.saturating_sub(expected);
            self.next = Some(sequence + 1);
        }
        // Other facilities than the kernel's are programs that write to its log.
        if priority.is_some_and(|priority| priority >> 3 == 0) {
            take(line);
        }
    }
}

fn number(field: &[u8]) -> Option<u64> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io;

    use super::*;

    /// Answers each read with the next of these.
    struct Answers(VecDeque<Result<&'static str, ErrorKind>>);

    impl Read for Answers {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let answer = self.0.pop_front().unwrap_or(Err(ErrorKind::WouldBlock));
            let text = answer.map_err(io::Error::from)?;
            buffer[..text.len()].copy_from_slice(text.as_bytes());
            Ok(text.len())
        }
    }

    fn log(next: Option<u64>, answers: &[Result<&'static str, ErrorKind>]) -> KernelLog<Answers> {
        KernelLog {
            file: Answers(answers.iter().copied().collect()),
            next,
            lost: 0,
        }
    }

    fn read(log: &mut KernelLog<Answers>) -> (Vec<String>, bool) {
        let mut lines = Vec::new();
        let mut take = |line: &[u8]| lines.push(String::from_utf8_lossy(line).into_owned());
        let (_, goes_on) = log.read_some(&mut take);
        (lines, goes_on)
    }

    #[test]
    fn a_record_is_its_first_line_and_only_the_kernels_count() {
        let answers = [
            Ok("4,0,10,-;first\n SUBSYSTEM=pci\n"),
            Ok("12,1,20,-;BUG: written by a program\n"),
            Ok("6,2,30,-,caller=T1;third\n"),
        ];
        let mut log = log(Some(0), &answers);
        let (lines, goes_on) = read(&mut log);
        assert_eq!(lines, ["4,0,10,-;first", "6,2,30,-,caller=T1;third"]);
        assert!(goes_on);
        assert_eq!(log.lost(), 0);
    }

    #[test]
    fn what_was_overwritten_is_counted_and_reading_goes_on() {
        let answers = [
            Ok("4,7,10,-;a\n"),
            Err(ErrorKind::BrokenPipe),
            Err(ErrorKind::Interrupted),
            Ok("4,107,20,-;b\n"),
            Err(ErrorKind::WouldBlock),
            Ok("4,108,30,-;c\n"),
        ];
        let mut boot = log(Some(0), &answers);
        assert_eq!(read(&mut boot).0.len(), 2);
        assert_eq!(boot.lost(), 7 + 99);
        assert_eq!(read(&mut boot).0, ["4,108,30,-;c"]);
        assert_eq!(boot.lost(), 7 + 99);
        // Messages from before the start are not lost.
        let mut now = log(None, &answers);
        read(&mut now);
        assert_eq!(now.lost(), 99);
    }

    #[test]
    fn a_log_that_cannot_be_read_any_more_is_left() {
        let mut ended = log(None, &[Ok("4,1,1,-;a\n"), Err(ErrorKind::PermissionDenied)]);
        assert_eq!(read(&mut ended), (vec!["4,1,1,-;a".to_string()], false));
    }
}
