//! Defects in the logs of kernels and services, in words.

use record::defect::{FoundDefect, Kind, Severity, When};
use record::rundir::{Run, TrialRecord};
use record::trial::Outcome;
use record::verdict::defects::{ArmDefect, ArmLogs, Side};
use record::verdict::{Headline, Judgement};

use crate::words::{counted, plural};

/// Title of the table.
pub(crate) const TITLE: &str = "Defects in the logs of kernels and services";

/// A line names this many defects and counts the others.
const NAMED: usize = 3;

/// A defect during a run: `defect: hung task (io_schedule), 12.3 s into the window, 812 requests/s`.
pub fn defect(defect: &FoundDefect) -> String {
    let about = about(&defect.top);
    let load = load(defect.ok_per_s);
    let severity = severity(defect.severity);
    let noun = noun(defect.kind, true);
    format!("{severity}: {noun}{about}, {}{load}", when(defect.first))
}

/// Lines under a headline: defects that are new in the arm, in both arms, and only in the baseline.
pub(crate) fn under_headline(run: &Run, judgement: &Judgement, headline: &Headline) -> Vec<String> {
    let arm = &headline.arm;
    let grave: Vec<_> = judgement.defects.grave(&headline.workload, arm).collect();
    let mut lines = Vec::new();
    for side in [Side::OnlyArm, Side::Both, Side::OnlyBaseline] {
        let defects = grave.iter().copied();
        let defects: Vec<_> = defects.filter(|defect| defect.side == side).collect();
        if !defects.is_empty() {
            lines.push(format!("{}: {}", place(run, arm, side), list(&defects)));
        }
    }
    lines
}

/// A sentence about a defect of an arm.
pub fn of_arm(run: &Run, defect: &ArmDefect) -> String {
    let place = place(run, &defect.arm, defect.side);
    let doubt = if defect.is_certain {
        ""
    } else {
        " (more defects of this kind than are told apart)"
    };
    format!("{place}: {}{doubt}", reports(defect))
}

/// The line below all verdicts. `None` if nothing was booted.
pub(crate) fn summary(run: &Run, judgement: &Judgement) -> Option<String> {
    let defects = &judgement.defects;
    let sum = |count: fn(&ArmLogs) -> u32| defects.logs.iter().map(count).sum::<u32>();
    let (unread, console) = (sum(|arm| arm.unread), sum(|arm| arm.console));
    let read = defects.read();
    if read + console + unread == 0 {
        return None;
    }
    if read == 0 && defects.found.is_empty() {
        let is_measured = |attempt: &TrialRecord| matches!(attempt.outcome, Outcome::Measured(_));
        let why = if !run.attempts.iter().any(is_measured) {
            "nothing was measured"
        } else if run.attempts.iter().all(|attempt| attempt.defects.is_none()) {
            "an earlier version made this run"
        } else {
            "no trial's log could be read"
        };
        return Some(format!("defects in the kernel's log: not known ({why})"));
    }
    let count = |severity: Severity| {
        let found = defects.found.iter();
        found.filter(|defect| defect.severity == severity).count() as u32
    };
    let what = match count(Severity::Defect) {
        0 => "no defect in the kernel's log".to_string(),
        some => format!("{} of kernel and services", counted(some, "defect")),
    };
    let mut notes = Vec::new();
    for (severity, word) in [
        (Severity::Suspicious, "suspicious"),
        (Severity::Notice, "worth a notice"),
    ] {
        let count = count(severity);
        if count > 0 {
            notes.push(format!("{count} {word}"));
        }
    }
    if console > 0 {
        let attempts = counted(console, "attempt");
        notes.push(format!("of {attempts} only the console is known"));
    }
    if unread > 0 {
        notes.push(format!(
            "{} whose log was not read",
            counted(unread, "attempt")
        ));
    }
    let lost: u64 = defects.logs.iter().map(|arm| arm.lost).sum();
    if lost > 0 {
        notes.push(format!(
            "{lost} messages were overwritten before they were read"
        ));
    }
    let notes = match notes.as_slice() {
        [] => String::new(),
        notes => format!(" ({})", notes.join("; ")),
    };
    Some(format!("{what} in {}{notes}", counted(read, "trial")))
}

/// All defects, notices last.
pub(crate) fn sorted(judgement: &Judgement) -> Vec<&ArmDefect> {
    let mut all: Vec<_> = judgement.defects.found.iter().collect();
    all.sort_by_key(|defect| defect.severity == Severity::Notice);
    all
}

/// The table with its head; empty if there are no defects.
pub(crate) fn rows(run: &Run, judgement: &Judgement) -> Vec<Vec<String>> {
    let all = sorted(judgement);
    if all.is_empty() {
        return Vec::new();
    }
    let head = [
        "what", "about", "severity", "where", "reports", "trials", "first",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    rows.extend(all.iter().map(|defect| {
        let (reports, trials, first) = (&defect.reports, &defect.trials, &defect.first);
        vec![
            noun(defect.kind, true),
            defect.top.clone(),
            severity(defect.severity).to_string(),
            place(run, &defect.arm, defect.side),
            format!("{} : {}", reports.arm, reports.baseline),
            format!("{} : {}", trials.arm, trials.baseline),
            format!(
                "trial {}, {}{}",
                first.attempt,
                when(first.at),
                load(first.ok_per_s)
            ),
        ]
    }));
    rows
}

/// Title above the log lines of a defect's first report.
pub(crate) fn first(run: &Run, defect: &ArmDefect) -> String {
    let attempt = &defect.first.attempt;
    format!("{}: first report, trial {attempt}", of_arm(run, defect))
}

fn place(run: &Run, arm: &str, side: Side) -> String {
    let baseline = &run.plan.baseline;
    match side {
        Side::OnlyArm => format!("new in {arm}"),
        Side::Both => format!("in both {arm} and {baseline}"),
        Side::OnlyBaseline => format!("only in {baseline}"),
    }
}

/// `1 hung task (io_schedule), 2 kernel warnings (tcp_ack) and 1 more`.
fn list(defects: &[&ArmDefect]) -> String {
    let named = defects.iter().take(NAMED).map(|defect| reports(defect));
    let named: Vec<String> = named.collect();
    let more = match defects.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    named.join(", ") + &more
}

fn reports(defect: &ArmDefect) -> String {
    let (arm, baseline) = (defect.reports.arm, defect.reports.baseline);
    let noun = |count: u64| noun(defect.kind, count == 1);
    let about = about(&defect.top);
    match defect.side {
        Side::OnlyArm => format!("{arm} {}{about}", noun(arm)),
        Side::OnlyBaseline => format!("{baseline} {}{about}", noun(baseline)),
        Side::Both => format!("{arm} and {baseline} {}{about}", noun(2)),
    }
}

fn about(top: &str) -> String {
    if top.is_empty() {
        String::new()
    } else {
        format!(" ({top})")
    }
}

fn when(at: When) -> String {
    let seconds = |ms: u64| base::input::units::significant(ms as f64 / 1000.0, 3);
    match (at.window_ms, at.since_boot_ms) {
        (Some(ms), _) => format!("{} s into the window", seconds(ms)),
        (None, Some(ms)) => format!("{} s after the kernel's start", seconds(ms)),
        (None, None) => "before the window".into(),
    }
}

fn load(ok_per_s: Option<u64>) -> String {
    ok_per_s.map_or(String::new(), |ok| format!(", {ok} requests/s"))
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Defect => "defect",
        Severity::Suspicious => "suspicious",
        Severity::Notice => "notice",
    }
}

/// The kind of a defect, in singular or plural.
fn noun(kind: Kind, is_one: bool) -> String {
    let noun = singular(kind);
    if !is_one && (noun.ends_with('s') || noun.ends_with("sh")) {
        return format!("{noun}es");
    }
    plural(noun, is_one)
}

fn singular(kind: Kind) -> &'static str {
    match kind {
        Kind::Panic => "kernel panic",
        Kind::KernelBug => "kernel BUG",
        Kind::Oops => "oops",
        Kind::GeneralProtectionFault => "general protection fault",
        Kind::DoubleFault => "double fault",
        Kind::StackOverflow => "kernel stack overflow",
        Kind::Warning => "kernel warning",
        Kind::SoftLockup => "soft lockup",
        Kind::HardLockup => "hard lockup",
        Kind::WorkqueueLockup => "workqueue lockup",
        Kind::HungTask => "hung task",
        Kind::RcuStall => "RCU stall",
        Kind::Watchdog => "watchdog event",
        Kind::SchedulingWhileAtomic => "scheduling while atomic report",
        Kind::SleepInAtomic => "sleep in atomic context report",
        Kind::Refcount => "reference count error",
        Kind::ListCorruption => "list corruption",
        Kind::BadPage => "bad page",
        Kind::BadRssCounter => "bad memory counter",
        Kind::SlabCorruption => "slab corruption",
        Kind::BufferOverflow => "buffer overflow",
        Kind::DebugObjects => "debug objects report",
        Kind::Spinlock => "spinlock error",
        Kind::Kasan => "KASAN report",
        Kind::Kfence => "KFENCE report",
        Kind::Kcsan => "KCSAN report",
        Kind::Kmsan => "KMSAN report",
        Kind::Ubsan => "UBSAN report",
        Kind::Kmemleak => "kmemleak report",
        Kind::Lockdep => "lockdep report",
        Kind::ControlFlow => "control-flow violation",
        Kind::PageAllocation => "page allocation failure",
        Kind::OomKill => "out-of-memory kill",
        Kind::Swap => "swap error",
        Kind::NetdevWatchdog => "network device timeout",
        Kind::NetworkDriver => "network driver error",
        Kind::NetdevRefcount => "network device leak",
        Kind::HardwareChecksum => "hardware checksum failure",
        Kind::NeighbourOverflow => "neighbour table overflow",
        Kind::ConntrackFull => "full conntrack table",
        Kind::TcpMemory => "TCP memory shortage",
        Kind::TcpOrphans => "orphaned socket overflow",
        Kind::TcpSequence => "TCP sequence error",
        Kind::SynFlood => "SYN flood report",
        Kind::Ext4 => "ext4 error",
        Kind::Xfs => "XFS error",
        Kind::Btrfs => "Btrfs error",
        Kind::Jfs => "JFS error",
        Kind::F2fs => "F2FS error",
        Kind::Nfs => "NFS error",
        Kind::Cifs => "CIFS error",
        Kind::FileSystem => "file-system error",
        Kind::BlockIo => "block I/O error",
        Kind::Scsi => "SCSI error",
        Kind::Ata => "ATA error",
        Kind::Nvme => "NVMe error",
        Kind::Virtio => "virtio error",
        Kind::Raid => "RAID error",
        Kind::DeviceMapper => "device-mapper error",
        Kind::MachineCheck => "machine check",
        Kind::Edac => "memory controller error",
        Kind::HardwareError => "hardware error",
        Kind::MemoryFailure => "memory failure",
        Kind::Pcie => "PCIe error",
        Kind::Iommu => "IOMMU fault",
        Kind::Thermal => "thermal event",
        Kind::Nmi => "unknown NMI",
        Kind::Irq => "unclaimed interrupt",
        Kind::MsrAccess => "MSR access error",
        Kind::CpuHotplug => "CPU hotplug error",
        Kind::Clocksource => "unstable clock source",
        Kind::RtThrottling => "real-time throttling event",
        Kind::Softirq => "softirq error",
        Kind::FileLimit => "open-file shortage",
        Kind::PidLimit => "process-id shortage",
        Kind::Taint => "kernel taint flag",
        Kind::UserFault => "program fault",
        Kind::CoreDump => "core dump",
        Kind::ServiceCrash => "service crash",
        Kind::ServiceExit => "service exit",
        Kind::ServiceRestart => "service restart",
        Kind::ServiceLog => "service error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::judged;
    use record::defect::{DefectLog, DefectSource, KernelLog};
    use record::fixtures::web;

    fn found(kind: Kind, severity: Severity, top: &str) -> FoundDefect {
        FoundDefect {
            source: DefectSource::Kernel,
            kind,
            severity,
            top: top.into(),
            count: 2,
            first: When::default(),
            last: When::default(),
            ok_per_s: None,
            lines: vec![format!("<b>{}</b>", kind.name())],
        }
    }

    /// A run in which both kernels warn, the new one oopses, and the old one reports a SYN flood.
    fn with_defects() -> (Run, Judgement) {
        let mut run = web::two_kernels();
        let warning = found(Kind::Warning, Severity::Defect, "ext4_write");
        let oops = found(Kind::Oops, Severity::Defect, "tcp_ack");
        let flood = found(Kind::SynFlood, Severity::Notice, "80");
        for attempt in &mut run.attempts {
            let other = match &*attempt.trial.arm {
                "7.2" => oops.clone(),
                _ => flood.clone(),
            };
            attempt.defects = Some(DefectLog {
                kernel_log: KernelLog::Read { lost: 0 },
                found: vec![warning.clone(), other],
            });
        }
        judged(run)
    }

    #[test]
    fn unknown_defects_have_a_reason() {
        let (mut run, judgement) = judged(web::two_kernels());
        let why = |run: &Run| summary(run, &judgement).unwrap();
        assert_eq!(
            why(&run),
            "defects in the kernel's log: not known (an earlier version made this run)"
        );
        for attempt in &mut run.attempts {
            attempt.outcome = Outcome::Skipped("no room".into());
        }
        assert_eq!(
            why(&run),
            "defects in the kernel's log: not known (nothing was measured)"
        );
    }

    #[test]
    fn new_defects_come_first_and_notices_are_not_under_the_headline() {
        let (run, judgement) = with_defects();
        let lines = under_headline(&run, &judgement, &judgement.headlines[0]);
        assert_eq!(
            lines,
            [
                "new in 7.2: 22 oopses (tcp_ack)",
                "in both 7.2 and 6.1: 22 and 20 kernel warnings (ext4_write)"
            ]
        );
        assert_eq!(
            summary(&run, &judgement).unwrap(),
            "2 defects of kernel and services in 21 trials (1 worth a notice)"
        );
        let table = rows(&run, &judgement);
        let kinds: Vec<&str> = table.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(
            kinds,
            ["what", "oops", "kernel warning", "SYN flood report"]
        );
    }

    #[test]
    fn all_formats_report_defects_and_log_lines_are_escaped() {
        let (run, judgement) = with_defects();
        let page = crate::report::html(&run, &judgement, &[]);
        assert!(page.contains("id=\"defects\"") && page.contains("&lt;b&gt;oops&lt;/b&gt;"));
        let line = "new in 7.2: 22 oopses (tcp_ack)";
        assert!(page.contains(line));
        assert!(crate::report::terminal(&run, &judgement, &[], 100).contains(line));
        assert!(
            crate::report::markdown(&run, &judgement, &[]).contains("**defects** - new in 7.2")
        );
        let json = crate::report::json(&run, &judgement);
        let findings = json["findings"].as_array().unwrap();
        assert!(findings.iter().any(|finding| finding["text"] == line));
    }

    #[test]
    fn each_kind_has_a_different_noun() {
        let nouns: Vec<_> = Kind::ALL.iter().map(|kind| singular(*kind)).collect();
        let mut sorted = nouns.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), nouns.len());
        assert_eq!(noun(Kind::Oops, false), "oopses");
        assert_eq!(noun(Kind::ServiceCrash, false), "service crashes");
        assert_eq!(noun(Kind::ServiceCrash, true), "service crash");
    }
}
