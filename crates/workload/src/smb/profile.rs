//! smbd's counts and times of operations, from `smbstatus --profile`. They cover all processes
//! since the start of smbd. Times are means, because smbd only keeps sums.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use record::metric::{Direction, Figure};

use crate::Wrong;
use crate::context::WorkloadContext;
use crate::figures::secondary;
use crate::smb::samba;

/// The main operations of the load file, and the counters of their times. Reads and writes are
/// completed by other threads, which have separate counters.
const OPERATIONS: [(&str, &str, &[&str]); 7] = [
    ("open-mean", "SMBntcreateX", &[]),
    ("close-mean", "SMBclose", &[]),
    ("read-mean", "SMBreadX", &["syscall_asys_pread"]),
    ("write-mean", "SMBwriteX", &["syscall_asys_pwrite"]),
    ("find-mean", "Trans2_findfirst", &[]),
    ("query-mean", "Trans2_qpathinfo", &[]),
    ("unlink-mean", "SMBunlink", &[]),
];

/// Mean times of all main operations that occurred.
pub(crate) fn read(context: &WorkloadContext, stop: &AtomicBool) -> Result<Vec<Figure>> {
    let output = samba::counters(context).run_successfully(stop, &mut || {})?;
    let means = means(&output.stdout);
    if means.is_empty() {
        return Err(Wrong("smbd counted no operation".into()).into());
    }
    let figure = |(name, us): (&str, f64)| secondary(name, "us", Direction::Lower, us);
    Ok(means.into_iter().map(figure).collect())
}

fn means(text: &str) -> Vec<(&'static str, f64)> {
    let counters: HashMap<_, _> = text.lines().filter_map(counter).collect();
    let value = |name: &str, what: &str| {
        let value = counters.get(format!("{name}_{what}").as_str());
        value.copied().unwrap_or(0) as f64
    };
    let mean = |(label, name, more): (&'static str, &str, &[&str])| {
        let count = value(name, "count");
        let us: f64 =
            value(name, "time") + more.iter().map(|name| value(name, "time")).sum::<f64>();
        (count > 0.0).then_some((label, us / count))
    };
    OPERATIONS.into_iter().filter_map(mean).collect()
}

/// `SMBclose_time:      936099`.
fn counter(line: &str) -> Option<(&str, u64)> {
    let (name, value) = line.split_once(':')?;
    Some((name, value.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    /// From Samba 4.17, 12 clients for 10 s.
    const SAID: &str = "\
**** SMB Calls ****************************************************************
SMBclose_count:                                                           12127
SMBclose_time:                                                           936099
SMBflush_count:                                                               0
SMBunlink_count:                                                              0
SMBunlink_time:                                                               0
SMBreadX_count:                                                           24025
SMBreadX_time:                                                           743144
syscall_asys_pread_count:                                                 24025
syscall_asys_pread_time:                                                5618359
syscall_asys_pread_idle:                                                5495137
";

    #[test]
    fn means_are_over_what_was_done_and_reads_have_their_threads_time() {
        let text = means(SAID).iter().fold(String::new(), |text, (name, us)| {
            text + &format!("{name} {us:.1}\n")
        });
        expect![[r#"
            close-mean 77.2
            read-mean 264.8
        "#]]
        .assert_eq(&text);
    }
}
