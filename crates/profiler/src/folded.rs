//! Folded stacks: a line for each call path with its instructions, as flame graph viewers read them.

use crate::profile::{Kind, Profile};

/// `nginx;entry_SYSCALL_64;do_syscall_64;... 1234`, task first, the idle task included, in the order of the tree.
pub fn lines(profile: &Profile) -> Vec<String> {
    let mut sums = vec![0_u64; profile.nodes.len()];
    for count in profile.windows.iter().flat_map(|window| &window.counts) {
        sums[count.node as usize] += count.instructions;
    }
    let mut paths: Vec<String> = Vec::with_capacity(profile.nodes.len());
    // Parents come first.
    for node in &profile.nodes {
        let name = match (node.kind, node.name.as_str()) {
            (Kind::All, _) => String::new(),
            (Kind::User | Kind::Module, "") if !node.image.is_empty() => {
                format!("[{}]", node.image)
            }
            (Kind::Task | Kind::Kernel | Kind::User | Kind::Module, "") => "[unknown]".into(),
            // Separators of the format.
            (_, name) => name.replace([';', ' ', '\n'], "_"),
        };
        let parent = paths.get(node.parent as usize).map_or("", String::as_str);
        paths.push(if parent.is_empty() {
            name
        } else {
            format!("{parent};{name}")
        });
    }
    let counted = paths.iter().zip(&sums).filter(|(_, sum)| **sum > 0);
    counted.map(|(path, sum)| format!("{path} {sum}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Count, Node, Window};

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
            lines(&profile),
            [
                "a_task__of_mine;do_syscall_64 10",
                "a_task__of_mine;[libc.so.6] 14"
            ]
        );
    }
}
