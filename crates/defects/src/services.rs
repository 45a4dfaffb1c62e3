//! Defects from the end of a service's process.

use crate::defect_set::{Defect, Moment};
use crate::kind::{Kind, Severity};

/// How a process ended, as `wait(2)` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It exited with this status.
    Exit(i32),
    /// A signal killed it.
    Signal {
        /// Signal number.
        number: i32,
        /// Whether a core was dumped.
        has_core: bool,
    },
}

/// The defects from the end of a service's process. A requested end is none: the caller passes `was_asked` if it stopped
/// the service, or killed a worker as a disturbance. A core dump counts in any case.
pub fn service_end(service: &str, end: End, was_asked: bool, at: Moment) -> Vec<Defect> {
    let defect = |kind, severity, top| Defect {
        kind,
        severity,
        top,
        count: 1,
        first: at,
        last: at,
        lines: Vec::new(),
    };
    let mut defects = Vec::new();
    match end {
        End::Exit(_) if was_asked => {}
        End::Exit(status) => {
            let severity = if status == 0 {
                Severity::Suspicious
            } else {
                Severity::Defect
            };
            defects.push(defect(
                Kind::ServiceExit,
                severity,
                format!("{service}: {status}"),
            ));
        }
        End::Signal { number, has_core } => {
            if !was_asked {
                let top = format!("{service}: {}", signal_name(number));
                defects.push(defect(Kind::ServiceCrash, Severity::Defect, top));
            }
            if has_core {
                defects.push(defect(
                    Kind::CoreDump,
                    Severity::Defect,
                    service.to_string(),
                ));
            }
        }
    }
    defects
}

/// The defect if a service, or its workers, were restarted this many times; `None` if never.
pub fn service_restarts(service: &str, restarts: u64, at: Moment) -> Option<Defect> {
    (restarts > 0).then(|| Defect {
        kind: Kind::ServiceRestart,
        severity: Severity::Suspicious,
        top: service.to_string(),
        count: restarts,
        first: at,
        last: at,
        lines: Vec::new(),
    })
}

/// `SIGSEGV`, or the number of a signal without a name; numbers of x86, arm64 and RISC-V.
pub(crate) fn signal_name(number: i32) -> String {
    let names = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
        "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
        "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let index = usize::try_from(number)
        .ok()
        .and_then(|number| number.checked_sub(1));
    let name = index.and_then(|index| names.get(index));
    name.map_or_else(|| number.to_string(), |name| format!("SIG{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defects_of(end: End, was_asked: bool) -> Vec<(Kind, Severity, String)> {
        let defects = service_end("nginx", end, was_asked, Moment::default());
        defects
            .into_iter()
            .map(|defect| (defect.kind, defect.severity, defect.top))
            .collect()
    }

    #[test]
    fn an_unrequested_end_is_a_defect() {
        let crash = End::Signal {
            number: 11,
            has_core: true,
        };
        assert_eq!(
            defects_of(crash, false),
            [
                (
                    Kind::ServiceCrash,
                    Severity::Defect,
                    "nginx: SIGSEGV".into()
                ),
                (Kind::CoreDump, Severity::Defect, "nginx".into())
            ]
        );
        assert_eq!(
            defects_of(crash, true),
            [(Kind::CoreDump, Severity::Defect, "nginx".into())]
        );
        assert_eq!(
            defects_of(End::Exit(1), false),
            [(Kind::ServiceExit, Severity::Defect, "nginx: 1".into())]
        );
        assert_eq!(defects_of(End::Exit(0), false)[0].1, Severity::Suspicious);
        assert_eq!(defects_of(End::Exit(1), true), []);
    }

    #[test]
    fn restarts_are_counted_and_signals_have_names() {
        let restarts = service_restarts("nginx", 3, Moment::default()).unwrap();
        assert_eq!((restarts.kind, restarts.count), (Kind::ServiceRestart, 3));
        assert_eq!(service_restarts("nginx", 0, Moment::default()), None);
        assert_eq!(signal_name(9), "SIGKILL");
        assert_eq!(signal_name(31), "SIGSYS");
        assert_eq!(signal_name(34), "34");
        assert_eq!(signal_name(0), "0");
        assert_eq!(signal_name(-1), "-1");
    }
}
