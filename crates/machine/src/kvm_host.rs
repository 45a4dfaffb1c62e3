//! What this host provides to guests under KVM: dedicated CPUs, and memory in large pages.

use record::machine::{HostOfGuests, Locality};
use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use crate::host;
use crate::host_state::{GuestMemory, HostState, Lack, StealMeter, fact};
use crate::topology::{Placement, Topology};

/// Decided once for all arms of a plan, so that they do not differ in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvmHost {
    state: HostState,
    /// CPUs that bakeoff may use.
    cpus: Vec<usize>,
    /// Where virtual CPUs run, or why they are not pinned.
    pub(crate) placement: Result<Placement, String>,
    /// The pages of guests' memory.
    pub(crate) memory: GuestMemory,
}

impl KvmHost {
    /// This host, for guests with at most this many virtual CPUs.
    pub fn open(vcpus: u32, memory_bytes: u64) -> Result<Self> {
        let state = HostState::at(Path::new("/"));
        Ok(Self::of(state, host::cpus()?, vcpus, memory_bytes))
    }

    fn of(state: HostState, cpus: Vec<usize>, vcpus: u32, memory_bytes: u64) -> Self {
        let placement = Topology::read(&state.sys(), &cpus).place(vcpus as usize);
        let node = placement.as_ref().map_or(0, |placement| placement.node);
        Self {
            memory: state.memory(memory_bytes, node),
            placement,
            cpus,
            state,
        }
    }

    /// The same with other memory.
    #[cfg(test)]
    pub(crate) fn with_memory(&self, memory: GuestMemory) -> Self {
        Self {
            memory,
            ..self.clone()
        }
    }

    /// Its description in records.
    pub(crate) fn describe(&self) -> HostOfGuests {
        HostOfGuests {
            placement: self
                .placement
                .as_ref()
                .map(Placement::describe)
                .map_err(Clone::clone),
            memory: self.memory.words().into(),
        }
    }

    /// What this host lacks for guests of this plan.
    pub fn lacks(&self) -> Vec<Lack> {
        let mut lacks = self.state.lacks();
        let what = "virtual CPUs";
        match &self.placement {
            Err(why) => lacks.push(Lack {
                what,
                found: format!("not pinned: {why}"),
                remedy: "lower cpus, or run on a larger host",
            }),
            Ok(placement) => {
                if placement.others.is_empty() {
                    lacks.push(Lack {
                        what,
                        found: "no host CPU is left for the emulator and for bakeoff itself".into(),
                        remedy: "lower cpus by one, or run on a larger host",
                    });
                }
                if placement.shares_cores || placement.locality > Locality::Cache {
                    lacks.push(Lack {
                        what,
                        found: placement.spread(),
                        remedy: "lower cpus to what one cache domain has cores",
                    });
                }
            }
        }
        lacks
    }

    /// Begins to record facts of a trial. `pinned` is the result of the placement.
    pub(crate) fn begin_trial(&self, pinned: Option<String>) -> TrialOnHost {
        let mut facts = self.state.facts();
        let pinned = match (&self.placement, pinned) {
            (_, Some(placement)) => placement,
            (Err(why), None) => format!("none: {why}"),
            (Ok(_), None) => "none: the emulator had ended".into(),
        };
        facts.insert(fact("pinning"), pinned);
        facts.insert(fact("memory"), self.memory.words().into());
        let cpus = self
            .placement
            .as_ref()
            .map_or(&self.cpus, |placement| &placement.vcpus);
        TrialOnHost {
            facts,
            steal: StealMeter::start(&self.state, cpus),
        }
    }
}

/// The host's state during a trial.
#[derive(Debug)]
pub(crate) struct TrialOnHost {
    facts: BTreeMap<String, String>,
    steal: StealMeter,
}

impl TrialOnHost {
    /// The facts as they are at the trial's end.
    pub(crate) fn facts(&self) -> BTreeMap<String, String> {
        let mut facts = self.facts.clone();
        facts.insert(fact("steal"), self.steal.words());
        facts
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_small_host_is_told_what_it_cannot_give() {
        let nothing = tempfile::tempdir().unwrap();
        let description = |vcpus| {
            let host = KvmHost::of(HostState::at(nothing.path()), vec![0, 1], vcpus, 1 << 30);
            let lacks = host
                .lacks()
                .into_iter()
                .filter(|lack| lack.what == "virtual CPUs");
            let lacks: Vec<_> = lacks
                .map(|lack| format!("{} ({})", lack.found, lack.remedy))
                .collect();
            format!("{:?}\n{}", host.describe(), lacks.join("\n"))
        };
        expect![[r#"
            HostOfGuests { placement: Err("3 virtual CPUs on 2 host CPUs"), memory: "small pages" }
            not pinned: 3 virtual CPUs on 2 host CPUs (lower cpus, or run on a larger host)"#]]
        .assert_eq(&description(3));
        expect![[r#"
            HostOfGuests { placement: Ok(Placement { cpus: "0-1", locality: Node, shares_cores: false }), memory: "small pages" }
            no host CPU is left for the emulator and for bakeoff itself (lower cpus by one, or run on a larger host)
            on host CPUs 0-1, of one NUMA node (lower cpus to what one cache domain has cores)"#]]
        .assert_eq(&description(2));
        expect![[r#"
            HostOfGuests { placement: Ok(Placement { cpus: "1", locality: Cache, shares_cores: false }), memory: "small pages" }
        "#]]
        .assert_eq(&description(1));
    }

    #[test]
    fn a_trial_has_facts_of_its_host() {
        let nothing = tempfile::tempdir().unwrap();
        let host = |vcpus| KvmHost::of(HostState::at(nothing.path()), vec![0], vcpus, 1 << 30);
        let pinned =
            |vcpus, placement| host(vcpus).begin_trial(placement).facts()["host:pinning"].clone();
        assert_eq!(pinned(1, Some("vCPU 0 on 0".into())), "vCPU 0 on 0");
        assert_eq!(pinned(2, None), "none: 2 virtual CPUs on 1 host CPUs");
        let facts = host(1).begin_trial(None).facts();
        assert_eq!(facts["host:steal"], "0 %");
        assert_eq!(facts["host:memory"], "small pages");
    }
}
