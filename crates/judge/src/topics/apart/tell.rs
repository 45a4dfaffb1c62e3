//! What differs between two runs, in words.

use crate::topics::host::tell as machine;
use plan::StringPrice;
use record::verdict::apart::{ArmKey, Change, Obstacle};

/// `machine was fake machine, simulated time, is this host, Linux 6.1, clock wall, CPUs 2`.
pub fn obstacle(obstacle: &Obstacle) -> String {
    let was = |what: &str, [one, other]: [String; 2]| format!("{what} was {one}, is {other}");
    match obstacle {
        Obstacle::Clock(each) => was("clock", each.map(clock)),
        Obstacle::StringPrice(each) => was("price of string instructions", each.map(price)),
        Obstacle::Machine(each) => was("machine", [&each[0], &each[1]].map(machine::machine)),
        Obstacle::Input { name, sha256 } => {
            let short = |sha: &Option<String>| match sha {
                Some(sha) => format!("{sha:.12}"),
                None => "none".into(),
            };
            was(name, sha256.each_ref().map(short))
        }
        Obstacle::Workload { id, options } => was(&format!("workload {id}"), options.clone()),
        Obstacle::NoCommonArm([one, other]) => {
            format!(
                "no arm is in both: {} and {}",
                one.join(", "),
                other.join(", ")
            )
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
    fn what_differs_is_told_with_both_values() {
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
        let mut told: Vec<String> = obstacles.iter().map(obstacle).collect();
        let arm = "7.2".into();
        let key = ArmKey::Cmdline;
        told.extend(
            [Change::Arm { arm, key }, Change::Bakeoff]
                .iter()
                .map(change),
        );
        expect![[r#"
            clock was the wall clock, is counted instructions, 2 ns each
            price of string instructions was none, is 0.125 instructions a byte and 10 a start
            machine was fake machine, simulated time, is this host, Linux 6.1, clock wall, CPUs 2
            kernel of arm 6.1 was none, is 0123456789ab
            no arm is in both: 6.1, 7.2 and old, new
            cmdline of arm 7.2
            bakeoff's own build"#]]
        .assert_eq(&told.join("\n"));
    }
}
