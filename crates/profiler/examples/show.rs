//! Prints a profile: `show profile.zst [REQUESTS]`; counts are divided by REQUESTS.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use profiler::format;
use profiler::profile::{Kind, Node, Profile};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().context("show profile.zst [REQUESTS]")?;
    let requests: f64 = arguments.next().map_or(Ok(1.0), |text| text.parse())?;
    let bytes = std::fs::read(&path)?;
    let profile = format::read(&bytes)?;
    println!(
        "{path}: {} bytes, {} nodes, {:?}",
        bytes.len(),
        profile.nodes.len(),
        profile.lacks
    );
    for window in &profile.windows {
        let sum: u64 = window.counts.iter().map(|count| count.instructions).sum();
        println!(
            "{:?}: {} instructions, counted {sum}, {:?}",
            window.marks, window.instructions, window.health
        );
    }
    println!(
        "busy: {:.0} a request",
        profile.busy_instructions() as f64 / requests
    );
    let top = |title: &str, label: &dyn Fn(u32) -> String| show(title, &profile, requests, label);
    let node = |index: u32| &profile.nodes[index as usize];
    let task = |index: u32| {
        profile
            .task_of(index)
            .map_or(String::new(), |task| node(task).name.clone())
    };
    top("by task", &task);
    top("by function", &|index| name_of(node(index)));
    top(
        "user code by task and function",
        &|index| match node(index).kind {
            Kind::User => format!("{} {}", task(index), name_of(node(index))),
            Kind::All | Kind::Task | Kind::Kernel | Kind::Module => "the kernel".into(),
        },
    );
    waits(&profile, requests);
    Ok(())
}

fn name_of(node: &Node) -> String {
    let name = if node.name.is_empty() {
        "?"
    } else {
        &node.name
    };
    match node.kind {
        Kind::All | Kind::Task | Kind::Kernel => name.into(),
        Kind::Module => format!("[{}] {name}", node.image),
        Kind::User => format!("{}:{name}", node.image),
    }
}

fn show(title: &str, profile: &Profile, requests: f64, label: &dyn Fn(u32) -> String) {
    const ROWS: usize = 40;
    let mut sums: BTreeMap<String, [u64; 3]> = BTreeMap::new();
    for count in profile.windows.iter().flat_map(|window| &window.counts) {
        let sum = sums.entry(label(count.node)).or_default();
        for (sum, value) in
            sum.iter_mut()
                .zip([count.instructions, count.strings.iterations, count.calls])
        {
            *sum += value;
        }
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, sum)| std::cmp::Reverse(sum[0]));
    println!("\n{title}: instructions, REP iterations, calls; each a request");
    for (name, sum) in sums.iter().take(ROWS) {
        let [own, rep, calls] = sum.map(|value| value as f64 / requests);
        println!("{own:12.1} {rep:10.1} {calls:10.3} {name}");
    }
}

fn waits(profile: &Profile, requests: f64) {
    let mut queued: BTreeMap<u32, [u64; 2]> = BTreeMap::new();
    let mut blame: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    let mut asleep: BTreeMap<u32, [u64; 2]> = BTreeMap::new();
    for window in &profile.windows {
        for (sums, waits) in [(&mut queued, &window.queued), (&mut asleep, &window.asleep)] {
            for wait in waits {
                let sum = sums.entry(wait.node).or_default();
                sum[0] += wait.count;
                sum[1] += wait.ns;
            }
        }
        for blamed in &window.blame {
            *blame.entry((blamed.waiter, blamed.runner)).or_default() += blamed.ns;
        }
    }
    let name = |node: u32| profile.nodes[node as usize].name.as_str();
    println!("\nwaits for the CPU: mean us, number a request");
    for (node, [count, ns]) in &queued {
        println!(
            "{:12.1} {:10.3} {}",
            *ns as f64 / 1e3 / *count as f64,
            *count as f64 / requests,
            name(*node)
        );
        let mut runners: Vec<_> = blame
            .iter()
            .filter(|((waiter, _), _)| waiter == node)
            .collect();
        runners.sort_by_key(|(_, ns)| std::cmp::Reverse(**ns));
        for ((_, runner), run) in runners.iter().take(3) {
            println!(
                "{:30.1} % while {} ran",
                100.0 * **run as f64 / *ns as f64,
                name(*runner)
            );
        }
    }
    let mut asleep: Vec<_> = asleep.into_iter().collect();
    asleep.sort_by_key(|(_, sum)| std::cmp::Reverse(sum[0]));
    println!("\nsleeps: mean us, number a request, where");
    for (node, [count, ns]) in asleep.iter().take(8) {
        let mut path = Vec::new();
        let mut at = *node;
        while at != 0 {
            path.push(name(at));
            at = profile.nodes[at as usize].parent;
        }
        path.reverse();
        println!(
            "{:12.1} {:10.3} {}",
            *ns as f64 / 1e3 / *count as f64,
            *count as f64 / requests,
            path.join(";")
        );
    }
}
