//! What differs between arms, weighed: the class of each difference, and the settings in effect.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a fact is about; those that can do most to figures first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Checks at run time: KASAN, lock debugging, poisoned pages.
    Debugging,
    /// Mitigations of CPUs' vulnerabilities.
    Mitigations,
    /// When a task in the kernel may be interrupted by another.
    Preemption,
    /// The timer tick, idle states, and who accounts for time.
    Tick,
    /// Zeroed memory, bounds checks, protected stacks.
    Hardening,
    /// Compiler, link-time optimisation, alignment of code.
    Compiler,
    /// Page and slab allocators.
    Allocator,
    /// Scheduler, control groups, frequencies.
    Scheduler,
    /// Huge pages, reclaim, locks of address spaces.
    Memory,
    /// TCP/IP, its defaults and buffers.
    Network,
    /// Block layer, I/O schedulers, io_uring.
    Block,
    /// Tracing, BPF, audit.
    Tracing,
    /// Security modules and keys.
    Security,
    /// What the kernels complained of at boot.
    BootLog,
    /// No rule knows it.
    #[default]
    Unclassified,
    /// Guests and hosts.
    Virtualization,
    /// Checksums, cryptography, compression.
    Checksums,
    /// File systems.
    FileSystems,
    /// Drivers, firmware, hardware.
    Drivers,
    /// Interfaces that programs may use.
    Interfaces,
    /// Limits that kernels work out from memory.
    Sizes,
    /// Panics, crash dumps, watchdogs.
    Accidents,
    /// Self-tests of the kernel.
    Tests,
    /// Built as a module that no trial had loaded.
    NotLoaded,
    /// Off in one kernel, unknown to the other.
    Absent,
    /// The same under another name.
    Renamed,
    /// What a kernel's build says of itself.
    Metadata,
}

/// What a class can do to figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weight {
    /// It can change any figure.
    Any,
    /// It can change figures of what uses it.
    WhereUsed,
    /// It cannot change figures.
    None,
}

impl Class {
    /// What it can do to figures. What no rule knows may do anything.
    pub fn weight(self) -> Weight {
        match self {
            Self::Debugging
            | Self::Mitigations
            | Self::Preemption
            | Self::Tick
            | Self::Hardening
            | Self::Compiler
            | Self::Allocator
            | Self::Scheduler
            | Self::Memory
            | Self::Network
            | Self::Block
            | Self::Tracing
            | Self::Security
            | Self::BootLog
            | Self::Unclassified => Weight::Any,
            Self::Virtualization
            | Self::Checksums
            | Self::FileSystems
            | Self::Drivers
            | Self::Interfaces
            | Self::Sizes => Weight::WhereUsed,
            Self::Accidents
            | Self::Tests
            | Self::NotLoaded
            | Self::Absent
            | Self::Renamed
            | Self::Metadata => Weight::None,
        }
    }
}

/// How many differences are of a class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassCount {
    /// The class.
    pub class: Class,
    /// What it can do.
    pub weight: Weight,
    /// Kernel options.
    pub options: u32,
    /// Sysctls.
    pub sysctls: u32,
    /// Other facts.
    pub others: u32,
}

/// A setting of a kernel as it is in effect, wherever it was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EffectiveSetting {
    /// Ticks in a second.
    Hz,
    /// The model of preemption.
    Preemption,
    /// Whether memory is zeroed when it is allocated.
    InitOnAlloc,
    /// Mitigations as a whole.
    Mitigations,
    /// Transparent huge pages.
    HugePages,
    /// Link-time optimisation.
    Lto,
    /// The compiler.
    Compiler,
    /// Whether memory is zeroed when it is freed.
    InitOnFree,
    /// Whether copies from and to programs are checked.
    HardenedUsercopy,
    /// Whether the kernel's stack begins at random places.
    StackOffset,
    /// Whether tasks share the CPU by session.
    Autogroup,
    /// Pressure stall information.
    Psi,
    /// Whether idle CPUs have no tick.
    DynamicTick,
    /// The multi-generational LRU.
    LruGen,
    /// Security modules that are on.
    SecurityModules,
    /// What looks for faults while the kernel runs, and costs time: KASAN, lockdep, poisoned pages.
    Debugging,
}

impl EffectiveSetting {
    /// Whether it is told even where arms agree.
    pub fn is_always_told(self) -> bool {
        matches!(
            self,
            Self::Hz
                | Self::Preemption
                | Self::InitOnAlloc
                | Self::Mitigations
                | Self::HugePages
                | Self::Lto
                | Self::Compiler
        )
    }

    /// Its name in the kernel, or the usual one.
    pub fn word(self) -> &'static str {
        match self {
            Self::Hz => "HZ",
            Self::Preemption => "preemption",
            Self::InitOnAlloc => "init_on_alloc",
            Self::Mitigations => "mitigations",
            Self::HugePages => "transparent huge pages",
            Self::Lto => "LTO",
            Self::Compiler => "compiler",
            Self::InitOnFree => "init_on_free",
            Self::HardenedUsercopy => "hardened_usercopy",
            Self::StackOffset => "randomize_kstack_offset",
            Self::Autogroup => "autogroup",
            Self::Psi => "psi",
            Self::DynamicTick => "nohz",
            Self::LruGen => "multi-generational LRU",
            Self::SecurityModules => "security modules",
            Self::Debugging => "debugging",
        }
    }

    /// A fact that shows it: checks that read the fact ask about the setting.
    pub fn fact(self) -> &'static str {
        match self {
            Self::Mitigations => "/sys/devices/system/cpu/vulnerabilities/spectre_v2",
            Self::HugePages => "/sys/kernel/mm/transparent_hugepage/enabled",
            Self::SecurityModules => "/sys/kernel/security/lsm",
            Self::Autogroup => "sysctl kernel.sched_autogroup_enabled",
            Self::Hz
            | Self::Preemption
            | Self::InitOnAlloc
            | Self::Lto
            | Self::Compiler
            | Self::InitOnFree
            | Self::HardenedUsercopy
            | Self::StackOffset
            | Self::Psi
            | Self::DynamicTick
            | Self::LruGen
            | Self::Debugging => "CONFIG_",
        }
    }

    /// Facts that only show or choose its default: once a parameter sets it, they change nothing.
    pub fn defaults(self) -> &'static [&'static str] {
        match self {
            Self::Preemption => &[
                "CONFIG_PREEMPT",
                "CONFIG_PREEMPT_LAZY",
                "CONFIG_PREEMPT_NONE",
                "CONFIG_PREEMPT_VOLUNTARY",
            ],
            Self::InitOnAlloc => &["CONFIG_INIT_ON_ALLOC_DEFAULT_ON"],
            Self::InitOnFree => &["CONFIG_INIT_ON_FREE_DEFAULT_ON"],
            Self::HugePages => &[
                "/sys/kernel/mm/transparent_hugepage/enabled",
                "CONFIG_TRANSPARENT_HUGEPAGE_ALWAYS",
                "CONFIG_TRANSPARENT_HUGEPAGE_MADVISE",
                "CONFIG_TRANSPARENT_HUGEPAGE_NEVER",
            ],
            Self::HardenedUsercopy => &["CONFIG_HARDENED_USERCOPY_DEFAULT_ON"],
            Self::StackOffset => &["CONFIG_RANDOMIZE_KSTACK_OFFSET_DEFAULT"],
            Self::Psi => &["CONFIG_PSI_DEFAULT_DISABLED"],
            Self::SecurityModules => &["/sys/kernel/security/lsm", "CONFIG_LSM"],
            Self::Hz
            | Self::Autogroup
            | Self::Mitigations
            | Self::Lto
            | Self::Compiler
            | Self::DynamicTick
            | Self::LruGen
            | Self::Debugging => &[],
        }
    }
}

/// A setting in effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effective {
    /// The setting.
    pub setting: EffectiveSetting,
    /// Its value for each arm, in the kernel's own word and in most of the arm's trials; `None` where no fact tells it.
    pub values: BTreeMap<String, Option<String>>,
    /// Arms whose own trials do not agree, with all values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub varying: BTreeMap<String, Vec<Seen>>,
    /// What would give all arms one value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<Pin>,
}

impl Effective {
    /// Whether arms, or trials of one arm, have different values, as far as they are known.
    pub fn differs(&self) -> bool {
        let mut known = self.values.values().flatten();
        let first = known.next();
        known.any(|value| Some(value) != first) || !self.varying.is_empty()
    }

    /// Whether all arms tell it.
    pub fn is_known(&self) -> bool {
        self.values.values().all(Option::is_some)
    }
}

/// A value that a fact has in some trials of an arm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The value; `None` where the trials have no such fact.
    pub value: Option<String>,
    /// Numbers of the trials.
    pub trials: Vec<u32>,
}

impl Seen {
    /// The values of an arm's trials, those of most trials first.
    pub fn of(trials: impl IntoIterator<Item = (u32, Option<String>)>) -> Vec<Self> {
        let mut seen = Vec::<Self>::new();
        for (trial, value) in trials {
            match seen.iter_mut().find(|known| known.value == value) {
                Some(known) => known.trials.push(trial),
                None => seen.push(Self {
                    value,
                    trials: vec![trial],
                }),
            }
        }
        seen.sort_by_key(|value| std::cmp::Reverse(value.trials.len()));
        seen
    }
}

/// What gives all arms one value of a setting.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "place", rename_all = "kebab-case")]
pub enum Pin {
    /// A word on all kernels' command lines.
    Cmdline {
        /// The word.
        word: String,
    },
    /// A sysctl of all arms.
    Sysctl {
        /// Its name.
        name: String,
        /// Its value.
        value: String,
    },
}

/// What differs between the arms, weighed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weighed {
    /// The arms' names, the baseline's first.
    pub arms: Vec<String>,
    /// Settings in effect: those that are always told, and others that differ.
    pub settings: Vec<Effective>,
    /// Differences that the plan does not name, by class; those that can do most first.
    pub classes: Vec<ClassCount>,
}

impl Weighed {
    /// The classes whose differences count (`Difference::counts`): another name for the same is none.
    pub fn counted(&self) -> impl Iterator<Item = &ClassCount> + Clone {
        let classes = self.classes.iter();
        classes.filter(|difference| difference.class != Class::Renamed)
    }
}
