//! Sums a profile into the account from which the judge explains a difference.

use std::collections::{BTreeMap, HashMap};

use base::arch::is_entry;
use plan::StringPrice;

use profiler::profile::{Count, Kind, Profile};
use record::account;
use record::account::{
    Account, Domain, Function, TaskCount, WaitCause, WaitSize, WaitState, Waits, WorkUnit,
};

use super::sampled;

/// The account of a trial. `work` is the amount of work between the profile's first and last mark.
pub(super) fn account(
    profile: &Profile,
    trial: u32,
    work: f64,
    unit: WorkUnit,
    price: Option<StringPrice>,
) -> Account {
    let tasks = profile.busy_tasks();
    let mut functions = Functions::default();
    let share = sampled::Share::of(profile);
    let (node_indexes, mut nodes) = tree(profile, &tasks, &mut functions);
    let mut instructions_by_task: BTreeMap<&str, u64> = BTreeMap::new();
    for count in profile.windows.iter().flat_map(|window| &window.counts) {
        let profile_node = count.node as usize;
        if let (Some(index), Some(task)) = (node_indexes[profile_node], tasks[profile_node]) {
            let node: &mut account::Node = &mut nodes[index as usize];
            // The CPU itself enters such functions, so most of their calls are not counted.
            if !is_entry(&profile.nodes[profile_node].name) {
                node.calls += count.calls;
            }
            let (instructions, strings) = charged(count, price);
            let instructions = share.scale(instructions);
            node.instructions += instructions;
            node.string_instructions += strings;
            *instructions_by_task.entry(task).or_default() += instructions;
        }
    }
    let counts = instructions_by_task.into_iter();
    let task_counts = counts.map(|(name, instructions)| TaskCount {
        name: name.into(),
        instructions,
    });
    Account {
        trial,
        work,
        unit,
        functions: functions.all,
        nodes,
        tasks: task_counts.collect(),
        waits: waits(profile, &tasks),
        window_ns: profile.ran_ns(),
        lost_calls: lost_calls(profile),
        sampled: profile.sampling.as_ref().map(sampled::sampled),
    }
}

/// Charged instructions of a count, and the part charged for string instructions. Without a price, each iteration is one.
fn charged(count: &Count, price: Option<StringPrice>) -> (u64, u64) {
    let strings = count.strings;
    let Some(price) = price else {
        return (count.instructions, strings.iterations);
    };
    let charge = strings.bytes as f64 * price.byte + strings.starts as f64 * price.start;
    let others = count.instructions.saturating_sub(strings.iterations);
    (others + charge.round() as u64, charge.round() as u64)
}

/// Returns without a matching call in all windows, as a share of calls.
fn lost_calls(profile: &Profile) -> f64 {
    let counts = profile.windows.iter().flat_map(|window| &window.counts);
    let calls: u64 = counts.map(|count| count.calls).sum();
    let lost: u64 = profile
        .windows
        .iter()
        .map(|window| window.health.lost)
        .sum();
    if calls == 0 {
        0.0
    } else {
        lost as f64 / calls as f64
    }
}

#[derive(Default)]
struct Functions {
    all: Vec<Function>,
    indexes: HashMap<Function, u32>,
}

impl Functions {
    fn index(&mut self, function: Function) -> u32 {
        let next = self.all.len() as u32;
        *self.indexes.entry(function).or_insert_with_key(|function| {
            self.all.push(function.clone());
            next
        })
    }
}

/// The account's nodes without counts, and for each node of the profile its index among them. Code outside any known
/// function gets a node of a function without a name, one for each task.
fn tree(
    profile: &Profile,
    tasks: &[Option<&str>],
    functions: &mut Functions,
) -> (Vec<Option<u32>>, Vec<account::Node>) {
    let mut node_indexes = Vec::with_capacity(profile.nodes.len());
    let mut nodes = Vec::new();
    for (node, task) in profile.nodes.iter().zip(tasks) {
        if task.is_none() {
            node_indexes.push(None);
            continue;
        }
        let domain = match node.kind {
            Kind::Kernel if sampled::is_blind(profile, &node.name) => Domain::InterruptsOff,
            Kind::All | Kind::Task | Kind::Kernel => Domain::Kernel,
            Kind::Module => Domain::Module(node.image.clone()),
            Kind::User => Domain::User(node.image.clone()),
        };
        let (name, parent) = match node.kind {
            Kind::All | Kind::Task => (String::new(), None),
            Kind::Kernel | Kind::Module | Kind::User => {
                let has_function = profile.nodes[node.parent as usize].kind != Kind::Task;
                let parent = node_indexes[node.parent as usize].filter(|_| has_function);
                (node.name.clone(), parent)
            }
        };
        node_indexes.push(Some(nodes.len() as u32));
        nodes.push(account::Node {
            parent,
            function: functions.index(Function { name, domain }),
            calls: 0,
            instructions: 0,
            string_instructions: 0,
        });
    }
    (node_indexes, nodes)
}

/// Sums of waits by task and state, then by size.
type Sums<'p> = BTreeMap<(&'p str, WaitState), BTreeMap<u8, Sum>>;

#[derive(Default)]
struct Sum {
    count: u64,
    ns: u64,
    causes: BTreeMap<String, u64>,
}

fn waits(profile: &Profile, tasks: &[Option<&str>]) -> Vec<Waits> {
    let mut sums = Sums::default();
    let mut paths: HashMap<u32, String> = HashMap::new();
    for window in &profile.windows {
        for wait in &window.queued {
            if let Some(task) = tasks[wait.node as usize] {
                let sum = sum(&mut sums, task, WaitState::RunQueue, wait.size);
                sum.count += wait.count;
                sum.ns += wait.ns;
            }
        }
        for blame in &window.blame {
            if let Some(task) = tasks[blame.waiter as usize] {
                let sum = sum(&mut sums, task, WaitState::RunQueue, blame.size);
                let runner = &profile.nodes[blame.runner as usize].name;
                *sum.causes.entry(runner.clone()).or_default() += blame.ns;
            }
        }
        for wait in &window.asleep {
            if let Some(task) = tasks[wait.node as usize] {
                let path = paths
                    .entry(wait.node)
                    .or_insert_with(|| path(profile, wait.node));
                let sum = sum(&mut sums, task, WaitState::Blocked, wait.size);
                sum.count += wait.count;
                sum.ns += wait.ns;
                *sum.causes.entry(path.clone()).or_default() += wait.ns;
            }
        }
    }
    let all = sums.into_iter().map(|((task, state), sizes)| Waits {
        task: task.into(),
        state,
        sizes: sizes
            .into_iter()
            .map(|(below_log2_ns, sum)| size(below_log2_ns, sum))
            .collect(),
    });
    all.collect()
}

fn sum<'s, 'p>(sums: &'s mut Sums<'p>, task: &'p str, state: WaitState, size: u8) -> &'s mut Sum {
    sums.entry((task, state))
        .or_default()
        .entry(size)
        .or_default()
}

fn size(below_log2_ns: u8, sum: Sum) -> WaitSize {
    let causes = sum.causes.into_iter();
    WaitSize {
        below_log2_ns,
        count: sum.count,
        ns: sum.ns,
        causes: causes.map(|(name, ns)| WaitCause { name, ns }).collect(),
    }
}

/// Functions in which every sleep ends, so they are not a cause of it.
const SWITCHING: [&str; 9] = [
    "__schedule",
    "__switch_to",
    "__switch_to_asm",
    "io_schedule",
    "poll_schedule_timeout",
    "schedule",
    "schedule_hrtimeout_range",
    "schedule_hrtimeout_range_clock",
    "schedule_timeout",
];

/// The functions from the task's outermost to the node's, joined by `;`, without those that switch to another task.
fn path(profile: &Profile, node: u32) -> String {
    let mut names: Vec<&str> = Vec::new();
    let mut index = node;
    loop {
        let node = &profile.nodes[index as usize];
        match node.kind {
            Kind::All | Kind::Task => break,
            Kind::Kernel | Kind::Module | Kind::User => {
                // Compilers append `.constprop.0` and the like.
                let (name, _) = node.name.split_once('.').unwrap_or((&node.name, ""));
                if !(names.is_empty() && SWITCHING.contains(&name)) {
                    names.push(&node.name);
                }
            }
        }
        index = node.parent;
    }
    names.reverse();
    names.join(";")
}

#[cfg(test)]
mod tests {
    use profiler::profile::{Blame, Health, Node, StringCounts, Wait, Window};

    use super::*;

    fn node(parent: u32, kind: Kind, name: &str) -> Node {
        Node {
            parent,
            kind,
            name: name.into(),
            image: String::new(),
        }
    }

    fn profile() -> Profile {
        let count = |node, instructions, calls| Count {
            node,
            instructions,
            calls,
            strings: StringCounts {
                iterations: 4,
                bytes: 32,
                starts: 1,
            },
        };
        let wait = |node, ns| Wait {
            node,
            size: 4,
            count: 2,
            ns,
        };
        let window = Window {
            instructions: 1000,
            counts: vec![
                count(2, 600, 0),
                count(3, 5, 0),
                count(4, 20, 3),
                count(5, 30, 2),
            ],
            queued: vec![wait(3, 20)],
            blame: vec![Blame {
                waiter: 3,
                size: 4,
                runner: 6,
                ns: 18,
            }],
            asleep: vec![wait(5, 25), wait(2, 99)],
            ran: vec![(1, 99), (3, 201)],
            health: Health {
                lost: 1,
                ..Health::default()
            },
            ..Window::default()
        };
        Profile {
            nodes: vec![
                node(0, Kind::All, ""),
                node(0, Kind::Task, "swapper/0"),
                node(1, Kind::Kernel, "default_idle"),
                node(0, Kind::Task, "nginx"),
                node(3, Kind::Kernel, "ep_poll"),
                node(4, Kind::Kernel, "schedule"),
                node(0, Kind::Task, "client-0"),
            ],
            windows: vec![window.clone(), window],
            lacks: Vec::new(),
            sampling: None,
        }
    }

    #[test]
    fn windows_are_summed_and_the_idle_task_is_left_out() {
        let account = account(&profile(), 7, 10.0, WorkUnit::Request, None);
        let names = |node: &account::Node| account.functions[node.function as usize].name.clone();
        let nodes: Vec<_> = account
            .nodes
            .iter()
            .map(|node| {
                (
                    names(node),
                    node.parent,
                    node.instructions,
                    node.calls,
                    node.string_instructions,
                )
            })
            .collect();
        let expected = [
            ("", None, 10, 0, 8),
            ("ep_poll", None, 40, 6, 8),
            ("schedule", Some(1), 60, 4, 8),
            ("", None, 0, 0, 0),
        ];
        let expected = expected.map(|(name, parent, instructions, calls, rep)| {
            (name.to_string(), parent, instructions, calls, rep)
        });
        assert_eq!(nodes, expected);
        let tasks = account.tasks.iter();
        let tasks: Vec<_> = tasks
            .map(|task| (task.name.as_str(), task.instructions))
            .collect();
        assert_eq!(tasks, [("nginx", 110)]);
        assert_eq!((account.trial, account.work), (7, 10.0));
        assert_eq!((account.window_ns, account.lost_calls), (600, 0.2));
    }

    #[test]
    fn string_instructions_are_charged_by_their_bytes() {
        let price = StringPrice {
            byte: 0.25,
            start: 2.0,
        };
        let account = account(&profile(), 7, 10.0, WorkUnit::Request, Some(price));
        let nodes = account.nodes.iter().skip(1).take(2);
        let nodes: Vec<_> = nodes
            .map(|node| (node.instructions, node.string_instructions))
            .collect();
        // In each of two windows, 4 iterations are subtracted, and 32 bytes and a start cost 10.
        assert_eq!(nodes, [(52, 20), (72, 20)]);
    }

    #[test]
    fn waits_belong_to_tasks_and_name_the_running_task_or_the_sleeping_function() {
        let account = account(&profile(), 7, 10.0, WorkUnit::Request, None);
        let waits = account.waits.iter().map(|waits| {
            let [size] = &waits.sizes[..] else {
                panic!("one size")
            };
            let [cause] = &size.causes[..] else {
                panic!("one cause")
            };
            (
                waits.task.as_str(),
                waits.state,
                size.count,
                size.ns,
                cause.name.as_str(),
                cause.ns,
            )
        });
        assert_eq!(
            waits.collect::<Vec<_>>(),
            [
                ("nginx", WaitState::RunQueue, 4, 40, "client-0", 36),
                ("nginx", WaitState::Blocked, 4, 50, "ep_poll", 50),
            ]
        );
    }
}
