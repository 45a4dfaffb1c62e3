//! What the end of a service's process tells.

use crate::found::{Defect, Moment};
use crate::kind::{Kind, Severity};

/// How a process ended, as `wait(2)` tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this status.
    Exit(i32),
    /// By a signal.
    Signal {
        /// Its number.
        number: i32,
        /// Whether a core was dumped.
        has_core: bool,
    },
}

/// What the end of a service's process means. Nothing where somebody asked for it: who stops a service, or kills a
/// worker as a disturbance, passes `was_asked`; a core is told all the same.
pub fn service_end(service: &str, end: End, was_asked: bool, at: Moment) -> Vec<Defect> {
    let tell = |kind, severity, top| Defect {
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
            defects.push(tell(
                Kind::ServiceExit,
                severity,
                format!("{service}: {status}"),
            ));
        }
        End::Signal { number, has_core } => {
            if !was_asked {
                let top = format!("{service}: {}", signal_name(number));
                defects.push(tell(Kind::ServiceCrash, Severity::Defect, top));
            }
            if has_core {
                defects.push(tell(Kind::CoreDump, Severity::Defect, service.to_string()));
            }
        }
    }
    defects
}

/// What it means that a service, or workers of it, were started again so many times.
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

/// `SIGSEGV`, or the number of a signal without a name. Numbers of x86, arm64 and RISC-V.
pub(crate) fn signal_name(number: i32) -> String {
    let names = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
        "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
        "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let place = usize::try_from(number)
        .ok()
        .and_then(|number| number.checked_sub(1));
    let name = place.and_then(|place| names.get(place));
    name.map_or_else(|| number.to_string(), |name| format!("SIG{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(end: End, was_asked: bool) -> Vec<(Kind, Severity, String)> {
        let defects = service_end("nginx", end, was_asked, Moment::default());
        defects
            .into_iter()
            .map(|defect| (defect.kind, defect.severity, defect.top))
            .collect()
    }

    #[test]
    fn an_end_that_nobody_asked_for_is_a_defect() {
        let crash = End::Signal {
            number: 11,
            has_core: true,
        };
        assert_eq!(
            told(crash, false),
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
            told(crash, true),
            [(Kind::CoreDump, Severity::Defect, "nginx".into())]
        );
        assert_eq!(
            told(End::Exit(1), false),
            [(Kind::ServiceExit, Severity::Defect, "nginx: 1".into())]
        );
        assert_eq!(told(End::Exit(0), false)[0].1, Severity::Suspicious);
        assert_eq!(told(End::Exit(1), true), []);
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
