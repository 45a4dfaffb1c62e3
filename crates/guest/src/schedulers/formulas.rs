//! The arithmetic of the BPF programs, compiled for this host and held against what is published of 2.4 and 2.6.0.

use std::path::Path;
use std::process::Command;

/// What the test program prints, a list of words for each line.
fn output() -> Vec<Vec<String>> {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("formulas");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/schedulers/bpf/formulas_test.c");
    let compiled = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-o"])
        .args([program.as_path(), source.as_path()])
        .status()
        .expect("a C compiler, which builds libbpf too");
    assert!(compiled.success(), "{compiled}");
    let output = Command::new(program).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let words = |line: &str| line.split(' ').map(String::from).collect();
    text.lines().map(words).collect()
}

/// The numbers of all lines that begin with a word.
fn rows(output: &[Vec<String>], word: &str) -> Vec<Vec<i64>> {
    let matching = output.iter().filter(|line| line[0] == word);
    let numbers = matching.map(|line| line[1..].iter().map(|text| text.parse().unwrap()).collect());
    numbers.collect()
}

#[test]
fn quanta_by_nice_are_those_of_2_4_and_2_6() {
    let output = output();
    let by_nice = rows(&output, "nice");
    assert_eq!(by_nice.len(), 40);
    for row in by_nice {
        let nice = row[0];
        // 2.4, HZ = 100: a quarter of 20 - nice, and one tick; twice that at the most, less one.
        let fresh = ((20 - nice) >> 2) + 1;
        // 2.6.0, HZ = 1000: 10 ms to 200 ms by 39 steps; Rust's division rounds towards 0 as C's does.
        let slice = 10 + 190 * (19 - nice) / 39;
        let delta = nice * 10 / 40 + 2;
        let just = 1020 * (5 + delta + 1) / 10 - 1;
        assert_eq!(row, [nice, fresh, 2 * fresh - 1, slice, delta, just]);
    }
    // As they are quoted most often: 60 ms in 2.4, 102 ms in 2.6.0.
    let of_nice_0 = &rows(&output, "nice")[20];
    assert_eq!((of_nice_0[1], of_nice_0[3]), (6, 102));
}

#[test]
fn time_left_of_2_4_goes_down_by_one_with_each_tick() {
    let by_nice = rows(&output(), "left");
    assert_eq!(by_nice.len(), 40);
    for row in by_nice {
        let fresh = ((20 - row[0]) >> 2) + 1;
        // Looked at each 5 ms, which is twice a tick.
        let expected = (0..=24).map(|half_ticks| (fresh - half_ticks / 2).max(0));
        assert_eq!(row[1..], expected.collect::<Vec<_>>());
    }
}

#[test]
fn counters_of_2_4_are_halved_at_forks_and_recalculations() {
    let output = output();
    // Time left, 20 at nice 0, and one for the memory that is loaded already; nothing for who has used up its time.
    assert_eq!(rows(&output, "worth"), [[0, 26, 27]]);
    // On the CPU on which it ran last, 15 more.
    assert_eq!(rows(&output, "worth_on"), [[0, 41, 27]]);
    assert_eq!(rows(&output, "recalculated"), [[9, 9, 5]]);
    let halves = [[0, 0, 0], [1, 1, 0], [2, 1, 1], [3, 2, 1]];
    assert_eq!(rows(&output, "fork"), halves);
    assert_eq!(rows(&output, "exit"), [[9, 20]]);
}

#[test]
fn sleep_moves_priorities_of_2_6_by_five_levels_either_way() {
    let output = output();
    for row in rows(&output, "bonus") {
        let bonus = row[0];
        let turn = 10 << ((10 - bonus).max(1) - 1);
        let child = bonus * 95 / 100 * 102;
        // Beside three other CPUs turns are four times as long.
        let expected = [bonus, bonus, 25 - bonus, turn, 4 * turn, bonus * 102, child];
        assert_eq!(row, expected);
    }
    assert_eq!(rows(&output, "edges"), [[0, 39]]);
    let slept = [
        // Ten times as fast from nothing.
        vec![10, 100, 0],
        // Long sleepers are idle, and get no more than this.
        vec![900, 918, 1],
        // Whoever waits for a disk becomes just interactive.
        vec![900, 815, 0],
        // Without credit, one slice at the most.
        vec![100, 102, -101],
    ];
    assert_eq!(rows(&output, "sleep"), slept);
    assert_eq!(
        rows(&output, "run"),
        [[100, 400, 0], [100, 1010, 101], [100, 0, -1]]
    );
    // Interruptible, uninterruptible, killable (and freezable) as page cache and vfork are waited for, and idle.
    assert_eq!(rows(&output, "uninterruptible"), [[0, 1, 1, 1, 0]]);
    assert_eq!(rows(&output, "starving"), [[0, 1]]);
    // Ordinary tasks run to the end of their slice; of interactive ones 32 ms of 102 are used: 8 ms to the next turn, and 28
    // where three CPUs make turns of 30.
    assert_eq!(rows(&output, "turn"), [[70, 8, 28]]);
}
