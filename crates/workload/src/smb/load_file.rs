//! The load file, which lists the operations of each client.
//!
//! dbench's `client.txt` is a trace of `NetBench`. Each client makes the files of nine office
//! applications (16 MB, and 5 MB that are never read), then uses one application after the other,
//! 131 times, and starts over. A trial of seconds would only make files. So a plan may name
//! applications: clients then only do the operations in their directories.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::context::WorkloadContext;
use crate::smb::samba::place;

/// The load file of Debian's dbench.
const WHOLE: &str = "/usr/share/dbench/client.txt";

/// Directory names of its applications. SEED reads and writes its large files in place.
pub(crate) const APPLICATIONS: [&str; 9] = [
    "WORD", "EXCEL", "PWRPNT", "COREL", "WORDPRO", "PM", "PARADOX", "ACCESS", "SEED",
];

/// Writes the part of the named applications, if any.
pub(crate) fn write(context: &WorkloadContext, applications: &[String]) -> Result<()> {
    if applications.is_empty() {
        ensure!(fs::exists(WHOLE)?, "no load file: {WHOLE}");
        return Ok(());
    }
    let whole = fs::read_to_string(WHOLE).with_context(|| format!("read {WHOLE}"))?;
    context.write("smb/load.txt", cut(&whole, applications))?;
    Ok(())
}

/// Path of the load file to use.
pub(crate) fn path(context: &WorkloadContext) -> PathBuf {
    let part = place(context, "load.txt");
    if part.exists() { part } else { WHOLE.into() }
}

/// The object of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About<'l> {
    /// A path of an application.
    Application(&'l str),
    /// The client's directories.
    Client,
    /// An open file.
    Handle(&'l str),
    /// Part of the current application's work.
    Work,
    /// All applications: files that fill the disk, and a listing of directories.
    All,
}

/// Keeps the lines of the named applications.
fn cut(whole: &str, applications: &[String]) -> String {
    let mut part = String::new();
    let mut open = HashMap::new();
    let mut at_work = true;
    for line in whole.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let keep = match about(line, &words) {
            About::Application(name) => {
                at_work = applications.iter().any(|wanted| wanted == name);
                at_work
            }
            About::Client => true,
            About::Handle(handle) => open.get(handle).copied().unwrap_or(false),
            About::Work => at_work,
            About::All => false,
        };
        if let ["NTCreateX", .., handle, "NT_STATUS_OK"] = words.as_slice() {
            open.insert(*handle, keep);
        }
        if keep {
            part.push_str(line);
            part.push('\n');
        }
    }
    part
}

fn about<'l>(line: &'l str, words: &[&'l str]) -> About<'l> {
    if let Some((_, path)) = line.split_once("~dmtmp\\") {
        let end = path.find(|c: char| !c.is_ascii_alphanumeric());
        let name = &path[..end.unwrap_or(path.len())];
        return match name {
            "" if path.starts_with('*') => About::All,
            "" => About::Work,
            name => About::Application(name),
        };
    }
    match words {
        _ if line.to_ascii_lowercase().contains("\\filler.") => About::All,
        _ if line.contains("\"\\clients") => About::Client,
        ["QUERY_FS_INFORMATION", ..] | [] | [_] => About::Work,
        [_, handle, ..] => About::Handle(handle),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    const TRACE: &str = r#"Deltree "\clients\client1" NT_STATUS_OK
NTCreateX "\clients\client1\~dmtmp" 0x1 0x2 1 NT_STATUS_OK
Close 1 NT_STATUS_OK
NTCreateX "\clients\client1\filler.000" 0x40 0x2 2 NT_STATUS_OK
WriteX 2 0 65536 65536 NT_STATUS_OK
Close 2 NT_STATUS_OK
NTCreateX "\clients\client1\~dmtmp\WORD\A.DOC" 0x40 0x2 3 NT_STATUS_OK
NTCreateX "\clients\client1\~dmtmp\WORDPRO\B.LWP" 0x40 0x2 4 NT_STATUS_OK
WriteX 3 0 4096 4096 NT_STATUS_OK
WriteX 4 0 4096 4096 NT_STATUS_OK
QUERY_FS_INFORMATION 259 NT_STATUS_OK
FIND_FIRST "\clients\client1\~dmtmp\WORD\*" 260 1366 2 NT_STATUS_OK
QUERY_FS_INFORMATION 1 NT_STATUS_OK
FIND_FIRST "\clients\client1\~dmtmp\<.JNK" 260 1366 0 NT_STATUS_NO_SUCH_FILE
FIND_FIRST "\clients\client1\~dmtmp\*" 260 1366 11 NT_STATUS_OK
Close 4 NT_STATUS_OK
Close 3 NT_STATUS_OK
Deltree "\clients\client1" NT_STATUS_OK
"#;

    #[test]
    fn an_application_keeps_its_own_lines_and_those_of_its_files() {
        expect![[r#"
            Deltree "\clients\client1" NT_STATUS_OK
            NTCreateX "\clients\client1\~dmtmp" 0x1 0x2 1 NT_STATUS_OK
            Close 1 NT_STATUS_OK
            NTCreateX "\clients\client1\~dmtmp\WORD\A.DOC" 0x40 0x2 3 NT_STATUS_OK
            WriteX 3 0 4096 4096 NT_STATUS_OK
            FIND_FIRST "\clients\client1\~dmtmp\WORD\*" 260 1366 2 NT_STATUS_OK
            QUERY_FS_INFORMATION 1 NT_STATUS_OK
            FIND_FIRST "\clients\client1\~dmtmp\<.JNK" 260 1366 0 NT_STATUS_NO_SUCH_FILE
            Close 3 NT_STATUS_OK
            Deltree "\clients\client1" NT_STATUS_OK
        "#]]
        .assert_eq(&cut(TRACE, &["WORD".into()]));
    }

    #[test]
    fn every_application_of_debians_load_file_is_complete_in_itself() {
        let Ok(whole) = fs::read_to_string(WHOLE) else {
            base::skip::skip(&format!("no load file of dbench: {WHOLE}"));
            return;
        };
        // The making of files, and five rounds.
        let end = whole
            .match_indices('\n')
            .nth(20_000)
            .map_or(0, |(end, _)| end);
        let whole = &whole[..end];
        let all: usize = APPLICATIONS
            .map(|name| {
                let part = cut(whole, &[name.into()]);
                let count = |word| part.lines().filter(|line| line.starts_with(word)).count();
                assert!(count("ReadX") > 0 && count("WriteX") > 10, "{name}");
                let others = APPLICATIONS.iter().filter(|other| **other != name);
                for other in others {
                    assert!(!part.contains(&format!("\\{other}\\")), "{name}: {other}");
                }
                count("ReadX")
            })
            .iter()
            .sum();
        let reads = whole.lines().filter(|line| line.starts_with("ReadX"));
        assert_eq!(all, reads.count());
    }
}
