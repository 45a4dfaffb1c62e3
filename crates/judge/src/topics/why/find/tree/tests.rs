//! Trees of small accounts, drawn as text.

use std::fmt::Write;

use expect_test::{Expect, expect};
use record::account::{Domain, Function, Node, WorkUnit};
use record::fixtures::accounts::{self, Profile};

use super::super::{Question, explain, table};
use super::*;

/// An account from lines with a function's name, its calls and its instructions; indentation is its depth.
fn account(text: &str) -> Account {
    let mut path: Vec<u32> = Vec::new();
    let (mut functions, mut nodes) = (Vec::new(), Vec::new());
    for (index, line) in (0..).zip(text.trim_end().lines()) {
        let depth = (line.len() - line.trim_start().len()) / 2;
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, calls, instructions] = words[..] else {
            panic!("name, calls, instructions: {line}")
        };
        functions.push(Function {
            name: name.into(),
            domain: Domain::Kernel,
        });
        path.truncate(depth);
        nodes.push(Node {
            parent: path.last().copied(),
            function: index,
            calls: calls.parse().unwrap(),
            instructions: instructions.parse().unwrap(),
            string_instructions: 0,
        });
        path.push(index);
    }
    Account {
        trial: 1,
        work: 10.0,
        unit: WorkUnit::Request,
        functions,
        nodes,
        tasks: Vec::new(),
        waits: Vec::new(),
        window_ns: 1_000_000_000,
        lost_calls: 0.0,
        sampled: None,
    }
}

fn joined_tree(baseline: &str, arm: &str) -> CallTree {
    let accounts = [account(baseline), account(arm)];
    let columns = accounts
        .each_ref()
        .map(|account| table::column(account).unwrap());
    let rows = table::join_renamed(&table::rows(columns.map(|column| vec![column])));
    tree(&accounts.each_ref().map(|account| vec![account]), &rows)
}

fn drawn(tree: &CallTree) -> String {
    let mut depths: Vec<usize> = Vec::new();
    let mut lines = Vec::new();
    for node in &tree.nodes {
        let depth = node.parent.map_or(0, |parent| depths[parent as usize] + 1);
        depths.push(depth);
        let name = match (node.folded, node.name.as_str()) {
            (0, "") => "all".to_string(),
            (0, name) => name.to_string(),
            (count, _) => format!("({count} folded)"),
        };
        let mut line = format!(
            "{}{name} {:?} of {:?}",
            "  ".repeat(depth),
            node.own,
            node.total
        );
        match &node.presence {
            Presence::Both => {}
            other => write!(line, " {other:?}").unwrap(),
        }
        if node.elsewhere {
            line += " elsewhere";
        }
        if node.via != [None, None] {
            write!(line, " via {:?}", node.via).unwrap();
        }
        lines.push(line);
    }
    lines.join("\n") + "\n"
}

#[track_caller]
fn check(baseline: &str, arm: &str, expected: &Expect) {
    let tree = joined_tree(baseline, arm);
    let got = [0, 1].map(|side| tree.nodes.iter().map(|node| node.own[side]).sum::<f64>());
    let want = [baseline, arm].map(|text| {
        let nodes = account(text).nodes;
        nodes.iter().map(|node| node.instructions).sum::<u64>() as f64 / 10.0
    });
    for side in [0, 1] {
        assert!(
            (got[side] - want[side]).abs() < 1e-9 * want[side],
            "{got:?} {want:?}"
        );
        assert!((tree.nodes[0].total[side] - want[side]).abs() < 1e-9 * want[side]);
    }
    expected.assert_eq(&drawn(&tree));
}

#[test]
fn compilers_suffixes_do_not_separate_paths() {
    check(
        "do_syscall_64 10 1000\n  vfs_read 10 500\n    memset_erms 20 4000\n  old_thing 10 900\n",
        "do_syscall_64 10 1100\n  vfs_read.isra.0 10 500\n    memset 10 1000\nnew_entry 1 700\n",
        &expect![[r#"
            all [0.0, 0.0] of [640.0, 330.0]
              do_syscall_64 [100.0, 110.0] of [640.0, 260.0]
                vfs_read [50.0, 50.0] of [450.0, 150.0]
                  memset [400.0, 100.0] of [400.0, 100.0]
                old_thing [90.0, 0.0] of [90.0, 0.0] Vanished
              new_entry [0.0, 70.0] of [0.0, 70.0] New
        "#]],
    );
}

/// A path of functions with 100 instructions each; the last one has `last` instructions.
fn path(names: &str, last: u64) -> String {
    let count = names.split(' ').count();
    let line = |(depth, name): (usize, &str)| {
        let executed = if depth + 1 == count { last } else { 100 };
        format!("{}{name} 10 {executed}\n", "  ".repeat(depth))
    };
    names.split(' ').enumerate().map(line).collect()
}

#[test]
fn callees_of_a_rewritten_path_are_aligned() {
    let old = "direct_splice_actor generic_splice_sendpage splice_from_pipe __splice_from_pipe pipe_to_sendpage \
               sock_sendpage kernel_sendpage inet_sendpage tcp_sendpage do_tcp_sendpages tcp_push tcp_write_xmit";
    let new = "direct_splice_actor splice_to_socket sock_sendmsg inet_sendmsg tcp_sendmsg tcp_sendmsg_locked \
               tcp_push tcp_write_xmit";
    let tree = joined_tree(&path(old, 9000), &path(new, 8000));
    let sending: Vec<&CallNode> = tree
        .nodes
        .iter()
        .filter(|node| node.name == "tcp_write_xmit")
        .collect();
    assert_eq!(sending.len(), 1, "{}", drawn(&tree));
    assert_eq!(
        (&sending[0].presence, sending[0].own),
        (&Presence::Both, [900.0, 800.0])
    );
    let lone = tree
        .nodes
        .iter()
        .filter(|node| matches!(node.presence, Presence::Vanished | Presence::New));
    let lone: f64 = lone.map(|node| node.own[0] + node.own[1]).sum();
    assert!(lone <= 50.0, "{}", drawn(&tree));
}

#[test]
fn an_additional_function_in_between_is_aligned() {
    check(
        "do_writev 10 100\n  do_iter_write 10 300\n    sock_write_iter 10 900\n      tcp_sendmsg 10 9000\n    other 10 50\n",
        "do_writev 10 100\n  sock_write_iter 10 800\n    tcp_sendmsg 10 8000\n",
        &expect![[r#"
            all [0.0, 0.0] of [1035.0, 890.0]
              do_writev [10.0, 10.0] of [1035.0, 890.0]
                sock_write_iter [90.0, 80.0] of [990.0, 880.0] via [Some("do_iter_write"), None]
                  tcp_sendmsg [900.0, 800.0] of [900.0, 800.0]
                do_iter_write [30.0, 0.0] of [35.0, 0.0] Vanished
                  other [5.0, 0.0] of [5.0, 0.0] Vanished
        "#]],
    );
}

#[test]
fn different_functions_with_the_same_callees_become_one_frame() {
    check(
        "recvfrom 10 100\n  inet_recvmsg 30 300\n    tcp_recvmsg 10 900\n      copy_it 10 9000\n",
        "recvfrom 10 100\n  sock_recvmsg 10 800\n    tcp_recvmsg 10 900\n      copy_it 10 8000\n",
        &expect![[r#"
            all [0.0, 0.0] of [1030.0, 980.0]
              recvfrom [10.0, 10.0] of [1030.0, 980.0]
                sock_recvmsg [30.0, 80.0] of [1020.0, 970.0] Renamed { from: "inet_recvmsg" }
                  tcp_recvmsg [90.0, 90.0] of [990.0, 890.0]
                    copy_it [900.0, 800.0] of [900.0, 800.0]
        "#]],
    );
}

#[test]
fn a_former_tail_call_is_the_same_frame() {
    check(
        "recvfrom 10 100\n  sock_recvmsg 10 90\n  inet_recvmsg 30 300\n    tcp_recvmsg 10 9000\n",
        "recvfrom 10 100\n  sock_recvmsg 10 800\n    tcp_recvmsg 10 8000\n",
        &expect![[r#"
            all [0.0, 0.0] of [949.0, 890.0]
              recvfrom [10.0, 10.0] of [949.0, 890.0]
                sock_recvmsg [39.0, 80.0] of [939.0, 880.0] Renamed { from: "inet_recvmsg" }
                  tcp_recvmsg [900.0, 800.0] of [900.0, 800.0]
        "#]],
    );
}

#[test]
fn functions_with_few_callees_in_common_stay_separate() {
    check(
        "caller 10 100\n  old_work 30 9000\n    lock 10 900\n",
        "caller 10 100\n  new_work 10 8000\n    lock 10 900\n",
        &expect![[r#"
            all [0.0, 0.0] of [1000.0, 900.0]
              caller [10.0, 10.0] of [1000.0, 900.0]
                old_work [900.0, 0.0] of [990.0, 0.0] Vanished
                  lock [90.0, 0.0] of [90.0, 0.0] Vanished elsewhere
                new_work [0.0, 800.0] of [0.0, 890.0] New
                  lock [0.0, 90.0] of [0.0, 90.0] New elsewhere
        "#]],
    );
}

#[test]
fn small_frames_are_folded() {
    check(
        "caller 10 100000\n  one 1 20\n    two 1 30\n  three 1 40\n  four 1 900\n",
        "caller 10 100000\n  one 1 20\n    two 1 30\n",
        &expect![[r#"
            all [0.0, 0.0] of [10099.0, 10005.0]
              caller [10000.0, 10000.0] of [10099.0, 10005.0]
                four [90.0, 0.0] of [90.0, 0.0] Vanished
                (3 folded) [9.0, 5.0] of [9.0, 5.0]
        "#]],
    );
}

#[test]
fn frames_that_are_too_deep_count_for_their_ancestor() {
    let lines = (0..5000).map(|depth| format!("{}f{depth} 1 10\n", "  ".repeat(depth)));
    let text: String = lines.collect();
    let tree = joined_tree(&text, &text);
    let sum: f64 = tree.nodes.iter().map(|node| node.own[0]).sum();
    assert!((sum - 5000.0).abs() < 1e-6, "{sum}");
    assert!(tree.nodes.len() <= DEEPEST as usize + 2);
}

#[test]
fn the_tree_of_a_run_sums_to_its_account_and_joins_renamed_functions() {
    let baseline = Profile::web();
    let mut arm = baseline.clone();
    arm.function("tcp_ack").name = "tcp_ack_anew".into();
    arm.function("vfs_read").instructions *= 2.0;
    let (run, accounts) = accounts::run(&baseline, &arm, 6, 5);
    let question = Question {
        workload: "web",
        arm: "7.2",
        metric: None,
    };
    let why = explain(&run, &accounts, &question).unwrap();
    let totals = [why.account.baseline, why.account.arm];
    for (side, want) in totals.into_iter().enumerate() {
        let sum: f64 = why.tree.nodes.iter().map(|node| node.own[side]).sum();
        assert!((sum / want - 1.0).abs() < 1e-9, "{sum} {want}");
    }
    let renamed = why
        .tree
        .nodes
        .iter()
        .find(|node| node.name == "tcp_ack_anew");
    let renamed = renamed.unwrap();
    assert_eq!(
        renamed.presence,
        Presence::Renamed {
            from: "tcp_ack".into()
        }
    );
    assert!(renamed.own.iter().all(|sum| *sum > 0.0));
    assert!(why.tree.nodes.iter().all(|node| node.name != "tcp_ack"));
    let functions = &why.tree.functions;
    assert_eq!(functions[0].name, "vfs_read");
    let sum: f64 = functions.iter().map(|function| function.own[0]).sum();
    assert!((sum / why.account.baseline - 1.0).abs() < 1e-9, "{sum}");
}
