//! What differs between two runs, in words.

use plan::StringPrice;
use record::verdict::apart::{ArmKey, Change, Obstacle};

use crate::topics::host::tell::machine;

/// `machine was fake machine, simulated time, is this host, Linux 6.1, clock wall, CPUs 2`.
pub fn obstacle(obstacle: &Obstacle) -> String {
    let was = |name: &str, [before, after]: [String; 2]| format!("{name} was {before}, is {after}");
    match obstacle {
        Obstacle::Clock(clocks) => was("clock", clocks.map(clock)),
        Obstacle::StringPrice(prices) => was("price of string instructions", prices.map(price)),
        Obstacle::Machine(machines) => was("machine", machines.each_ref().map(machine)),
        Obstacle::Input { name, sha256 } => {
            let short = |sha: &Option<String>| match sha {
                Some(sha) => format!("{sha:.12}"),
                None => "none".into(),
            };
            was(name, sha256.each_ref().map(short))
        }
        Obstacle::Workload { id, options } => was(&format!("workload {id}"), options.clone()),
        Obstacle::NoCommonArm([before, after]) => {
            let (before, after) = (before.join(", "), after.join(", "));
            format!("no arm is in both: {before} and {after}")
        }
    }
}

/// `cmdline of arm 7.2`.
pub fn change(change: &Change) -> String {
    match change {
        Change::Arm { arm, key } => {
            let key = match key {
                ArmKey::Cmdline => "cmdline",
                ArmKey::Sysctl => "sysctl",
                ArmKey::Cpus => "cpus",
                ArmKey::Tuning => "env, config or program",
            };
            format!("{key} of arm {arm}")
        }
        Change::Bakeoff => "bakeoff's own build".into(),
    }
}

fn clock(ns_per_instruction: Option<u32>) -> String {
    match ns_per_instruction {
        Some(ns) => format!("counted instructions, {ns} ns each"),
        None => "the wall clock".into(),
    }
}

fn price(price: Option<StringPrice>) -> String {
    match price {
        Some(StringPrice { byte, start }) => {
            format!("{byte} instructions a byte and {start} a start")
        }
        None => "none".into(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use record::machine::MachineDescription;

    use super::*;

    #[test]
    fn differences_are_reported_with_both_values() {
        let kernel = Obstacle::Input {
            name: "kernel of arm 6.1".into(),
            sha256: [None, Some("0123456789abcdef".into())],
        };
        let arms = [["6.1", "7.2"], ["old", "new"]];
        let obstacles = [
            Obstacle::Clock([None, Some(2)]),
            Obstacle::StringPrice([None, Some(StringPrice::USUAL)]),
            Obstacle::Machine(Box::new([
                MachineDescription::Fake,
                MachineDescription::Local {
                    release: "6.1".into(),
                    cpus: 2,
                },
            ])),
            kernel,
            Obstacle::NoCommonArm(arms.map(|arms| arms.map(String::from).to_vec())),
        ];
        let mut lines: Vec<String> = obstacles.iter().map(obstacle).collect();
        let arm = "7.2".into();
        let key = ArmKey::Cmdline;
        let changes = [Change::Arm { arm, key }, Change::Bakeoff];
        lines.extend(changes.iter().map(change));
        expect![[r#"
            clock was the wall clock, is counted instructions, 2 ns each
            price of string instructions was none, is 0.125 instructions a byte and 10 a start
            machine was fake machine, simulated time, is this host, Linux 6.1, clock wall, CPUs 2
            kernel of arm 6.1 was none, is 0123456789ab
            no arm is in both: 6.1, 7.2 and old, new
            cmdline of arm 7.2
            bakeoff's own build"#]]
        .assert_eq(&lines.join("\n"));
    }
}
