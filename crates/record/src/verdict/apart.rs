//! What differs between two runs that are compared with one another.

use crate::machine::MachineDescription;
use plan::StringPrice;

/// What must agree, and does not: with it, figures would differ by what they are. Each is first of the earlier run, then of
/// the other.
#[derive(Debug, Clone, PartialEq)]
pub enum Obstacle {
    /// Guest time of an instruction; `None` under the wall clock.
    Clock([Option<u32>; 2]),
    /// What a string instruction was charged.
    StringPrice([Option<StringPrice>; 2]),
    /// The machine, as its run describes it.
    Machine(Box<[MachineDescription; 2]>),
    /// The hash of a file that trials stand on; `None` where a run has none.
    Input {
        /// `image`, or `kernel of arm NAME`.
        name: String,
        /// The hashes.
        sha256: [Option<String>; 2],
    },
    /// Kind and options of a workload of both runs.
    Workload {
        /// Its id.
        id: String,
        /// Kind and options.
        options: [String; 2],
    },
    /// No arm is in both runs: the arms of each.
    NoCommonArm([Vec<String>; 2]),
}

/// What differs and may be what is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Keys of an arm in the plan.
    Arm {
        /// Its name.
        arm: String,
        /// The key.
        key: ArmKey,
    },
    /// The build of bakeoff.
    Bakeoff,
}

/// Keys of an arm that may differ between two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArmKey {
    /// `cmdline`.
    Cmdline,
    /// `sysctl`.
    Sysctl,
    /// `cpus`.
    Cpus,
    /// `env`, `config` or `program`.
    Tuning,
}
