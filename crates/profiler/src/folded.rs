//! Folded stacks: a line per call path with its instructions, as flame graph viewers read them.

use crate::profile::{Kind, Node, Profile};

/// Lines such as `nginx;entry_SYSCALL_64;do_syscall_64;... 1234`, task first, including the idle task, in tree order.
/// The iterator is lazy, because all lines together may be a thousand times as long as the profile.
pub fn lines(profile: &Profile) -> impl Iterator<Item = String> {
    let mut sums = vec![0_u64; profile.nodes.len()];
    for count in profile.windows.iter().flat_map(|window| &window.counts) {
        sums[count.node as usize] += count.instructions;
    }
    let counted = (0..).zip(sums).filter(|(_, sum)| *sum > 0);
    counted.map(|(node, sum)| format!("{} {sum}", path(profile, node)))
}

/// The names on the path from a node's task to the node.
fn path(profile: &Profile, node: u32) -> String {
    let mut names = Vec::new();
    let mut at = &profile.nodes[node as usize];
    while at.kind != Kind::All {
        names.push(name(at));
        at = &profile.nodes[at.parent as usize];
    }
    names.reverse();
    names.join(";")
}

fn name(node: &Node) -> String {
    match (node.kind, node.name.as_str()) {
        (Kind::User | Kind::Module, "") if !node.image.is_empty() => format!("[{}]", node.image),
        (_, "") => "[unknown]".into(),
        // Replaces the separators of the format.
        (_, name) => name.replace([';', ' ', '\n'], "_"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Count, Window};

    #[test]
    fn a_stack_is_a_line_and_names_cannot_break_it() {
        let node = |parent, kind, name: &str, image: &str| Node {
            parent,
            kind,
            name: name.into(),
            image: image.into(),
        };
        let count = |node, instructions| Count {
            node,
            instructions,
            ..Count::default()
        };
        let window = Window {
            counts: vec![count(2, 5), count(4, 7)],
            ..Window::default()
        };
        let profile = Profile {
            nodes: vec![
                node(0, Kind::All, "", ""),
                node(0, Kind::Task, "a task; of mine", ""),
                node(1, Kind::Kernel, "do_syscall_64", ""),
                node(2, Kind::Kernel, "vfs_read", ""),
                node(1, Kind::User, "", "libc.so.6"),
            ],
            windows: vec![window.clone(), window],
            lacks: Vec::new(),
            sampling: None,
        };
        assert_eq!(
            lines(&profile).collect::<Vec<_>>(),
            [
                "a_task__of_mine;do_syscall_64 10",
                "a_task__of_mine;[libc.so.6] 14"
            ]
        );
    }
}
