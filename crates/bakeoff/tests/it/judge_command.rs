//! `bakeoff judge` on figures of other tools: formats, verdicts and refusals.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Output;

use expect_test::{Expect, expect};
use serde_json::Value;

use crate::fairness_command::one_sided_plan;
use crate::program::{bakeoff, refusal, stderr, stdout};
use crate::simulated_lab::World;

type Files<'f> = &'f [(&'f str, &'f str)];

fn judge(dir: &Path, files: Files<'_>, args: &[&str]) -> Output {
    for (name, text) in files {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    bakeoff(dir, &[&["judge"], args].concat())
}

/// Standard output of `judge`. The status must be 0.
#[track_caller]
fn judged(files: Files<'_>, args: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let output = judge(dir.path(), files, args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

fn check(files: Files<'_>, args: &[&str], want: &Expect) {
    want.assert_eq(&judged(files, args));
}

fn judged_json(files: Files<'_>, args: &[&str]) -> Value {
    serde_json::from_str(&judged(files, &[args, &["--json"]].concat())).unwrap()
}

/// Checks the error of `judge`. The status must be 2, and standard output empty.
fn check_refused(files: Files<'_>, args: &[&str], want: &Expect) {
    let dir = tempfile::tempdir().unwrap();
    let output = judge(dir.path(), files, args);
    assert_eq!(stdout(&output), "");
    want.assert_eq(&refusal(&output));
}

/// Checks the comparisons, one line each: metric, arm, verdict, design, figures.
fn check_comparisons(files: Files<'_>, args: &[&str], want: &Expect) {
    let mut lines = String::new();
    for comparison in judged_json(files, args)["comparisons"].as_array().unwrap() {
        let text = |key: &str| comparison[key].as_str().unwrap().to_string();
        writeln!(
            lines,
            "{} [{}] {} {}: {}, {:.4}, {} {}+{}",
            text("metric"),
            text("unit"),
            text("direction"),
            text("arm"),
            text("verdict"),
            comparison["change"].as_f64().unwrap(),
            text("design"),
            comparison["figures_of_baseline"],
            comparison["figures_of_arm"],
        )
        .unwrap();
    }
    want.assert_eq(&lines);
}

/// Spreadsheets and some editors put it before a text.
const BYTE_ORDER_MARK: &str = "\u{feff}";

#[test]
fn a_byte_order_mark_before_figures_is_ignored() {
    let csv = "arm,block,metric,value\nold,1,s,10\nnew,1,s,11\nold,2,s,10.5\nnew,2,s,11.5\n";
    let json = "{\"arm\":\"old\",\"block\":1,\"metric\":\"s\",\"value\":10}\n\
                {\"arm\":\"new\",\"block\":1,\"metric\":\"s\",\"value\":11}\n\
                {\"arm\":\"old\",\"block\":2,\"metric\":\"s\",\"value\":10}\n\
                {\"arm\":\"new\",\"block\":2,\"metric\":\"s\",\"value\":12}\n";
    let hyperfine = "{\"results\":[{\"command\":\"old\",\"times\":[1.0,1.1]},\
                     {\"command\":\"new\",\"times\":[1.2,1.3]}]}";
    for (name, text) in [("a.csv", csv), ("a.jsonl", json), ("a.json", hyperfine)] {
        let args = [name, "--lower-is-better", "--json"];
        let plain = judged(&[(name, text)], &args);
        for marks in 1..=2 {
            let marked = BYTE_ORDER_MARK.repeat(marks) + text;
            assert_eq!(judged(&[(name, &marked)], &args), plain, "{name}");
        }
    }
}

#[test]
fn a_file_of_nothing_but_a_byte_order_mark_is_empty() {
    for text in ["\u{feff}", "\u{feff}\n", "\u{feff}\u{feff}", "\u{feff} \n"] {
        let dir = tempfile::tempdir().unwrap();
        let output = judge(dir.path(), &[("a.csv", text)], &["a.csv"]);
        let why = refusal(&output);
        assert!(why.contains("a.csv: the file is empty"), "{why}");
    }
}

// ---- the reference ----
//
// The figures below were drawn by `trials` in the simulation for the rule's design, and judged by
// its functions `center`, `psi_tukey` and `MCBound`: 20,000 sign flips, one test after the last
// block, error rate 1 %, margin 2 %. The interval is the bisection of `MCBound.look` over shifts.
// The estimate is that of the sum of `psi_tukey` after `center`. Its sign flips differ from ours,
// so the ends of intervals agree only to the precision of 20,000 sign flips.

/// 40 blocks, the arm slower by 2 %; `old<new` where old ran first, `old>new` where new did.
const SLOWER: &str = "\
    998<979 1001<968 1006<983 1006<984 1015<966 998>988 984<978 997<957 1003<976 985>976 658<974 \
    994<957 984<947 972<966 1001>983 987>971 994>967 999<639 1006<973 1008<957 970<970 999<966 \
    992<825 994>957 1015>997 1013>982 1000<986 997<985 990<971 986<963 992>970 988>976 998<975 \
    1005<999 1011<1010 925<1002 1001>986 1045>1004 1037>1014 1025<1000";

/// 40 blocks of one system against itself.
const ALIKE: &str = "\
    1001>1007 988>985 982<967 992>1007 979>972 985<998 1011<996 987<991 986>983 974>976 973>993 \
    975<966 611>963 986>972 980<975 981>1002 977>702 997>981 987>970 1007>773 965>978 985>962 \
    974>967 1005<985 977>983 988>989 976<965 1007>989 1000<989 709>1004 1008<1007 891>1005 \
    994<1002 1001>1010 1014<1018 1017<1018 1022<1016 1029>1030 755<1015 640>1028";

/// 24 blocks, slower by 1 % in a noise of 6 %.
const NOISY: &str = "\
    930>1051 1049<1018 1047>1055 1052>1090 1091>1028 1082<1043 1088>1040 1081<1026 1015>1037 \
    1042>1122 1082<1031 1077<1049 1040<654 991<1056 983<1029 1055<1018 1015<973 981<1023 997>1027 \
    709<1003 939<953 1018>963 1019>1004 878<992";

/// 16 blocks, faster by 12 % in a noise of 20 %.
const FASTER: &str = "\
    1011<1076 906>1046 979<1160 988<1140 622<1105 985>1240 1026<1226 1031>1130 1056>1141 970<1138 \
    1057>1225 1062>1161 1043>1196 918<1100 1039<1106 1041<1142";

/// 24 blocks, slower by 10 %.
const FAR_SLOWER: &str = "\
    992>883 992>898 1000<882 976>871 976<872 939>865 946>873 687>857 964>851 965<850 953>860 \
    951<854 936>862 971<842 968>850 950<863 964<874 966>851 973>843 960<861 946<860 958<863 \
    952>532 956>858";

fn csv(blocks: &str, with_order: bool) -> String {
    let order = if with_order { ",slot" } else { "" };
    let mut text = format!("arm,block,metric,value,unit{order}\n");
    for (index, block) in blocks.split(' ').enumerate() {
        let old_first = block.contains('<');
        let (old, new) = block.split_once(['<', '>']).unwrap();
        let slots = match (with_order, old_first) {
            (false, _) => ["", ""],
            (true, true) => [",1", ",2"],
            (true, false) => [",2", ",1"],
        };
        for (arm, value, slot) in [("old", old, slots[0]), ("new", new, slots[1])] {
            writeln!(
                text,
                "{arm},{},throughput,{value},requests/s{slot}",
                index + 1
            )
            .unwrap();
        }
    }
    text
}

/// Verdict and estimate must be those of the reference. The ends of the interval may differ by 3 %
/// of its length.
#[track_caller]
fn check_against_reference(
    files: Files<'_>,
    args: &[&str],
    verdict: &str,
    [ratio, low, high]: [f64; 3],
) {
    let comparison = &judged_json(files, args)["comparisons"][0];
    assert_eq!(comparison["verdict"], verdict, "{comparison}");
    let check_close = |key: &str, want: f64, tolerance: f64| {
        let got = comparison[key].as_f64().unwrap();
        assert!(
            (got - want).abs() <= tolerance,
            "{key} is {got}, not {want}"
        );
    };
    check_close("change", ratio, 1e-6);
    check_close("low", low, 0.03 * (high - low));
    check_close("high", high, 0.03 * (high - low));
}

#[test]
fn a_csv_is_judged_as_the_reference_judges_it() {
    for (blocks, verdict, figures) in [
        (SLOWER, "worse", [0.977_823, 0.9715, 0.9838]),
        // For equivalence, the interval has twice the error rate of 1 %.
        (ALIKE, "equivalent", [0.997_227, 0.9920, 1.0024]),
        (NOISY, "undecided", [1.004_168, 0.9718, 1.0579]),
        (FASTER, "better", [1.138_119, 1.0965, 1.1852]),
    ] {
        check_against_reference(
            &[("data.csv", &csv(blocks, true))],
            &["data.csv"],
            verdict,
            figures,
        );
    }
}

#[test]
fn an_error_rate_out_of_range_is_refused() {
    let refused = |share: &str| {
        let dir = tempfile::tempdir().unwrap();
        let files = [("figures.csv", &*csv(FASTER, true))];
        refusal(&judge(
            dir.path(),
            &files,
            &["figures.csv", "--error-rate", share],
        ))
    };
    for share in ["0", "1e-320", "0.00001", "21%"] {
        let why = format!("out of range: {share:?}, write above 0.001 % to 20 %");
        let error = refused(share);
        assert!(error.contains(&why), "{error}");
    }
}

#[test]
fn without_a_known_order_fewer_verdicts_are_possible() {
    let text = csv(FAR_SLOWER, false);
    check_against_reference(
        &[("d.csv", &text)],
        &["d.csv"],
        "worse",
        [0.895_135, 0.8856, 0.9055],
    );
    for blocks in [SLOWER, ALIKE] {
        let judged = judged_json(&[("d.csv", &csv(blocks, false))], &["d.csv"]);
        assert_eq!(judged["comparisons"][0]["verdict"], "undecided");
    }
}

#[test]
fn runs_without_blocks_are_judged_by_ranks_as_the_reference_judges_them() {
    // The interval is of all pairwise differences of logarithms; the exact distribution of U gives
    // the number outside. The Mann-Whitney p-value is 0.0000823 here (scipy 1.17.1).
    let old = "992 987 998 1004 1011 1001 994 992";
    let new = "947 955 943 928 931 955 942 924 939";
    let files = [("old.txt", old), ("new.txt", new)];
    let args = ["old.txt", "new.txt", "--higher-is-better"];
    check_against_reference(&files, &args, "worse", [0.943_575, 0.928_783, 0.956_914]);
    let old = "988 994 995 993 1006 999 994";
    let new = "1004 1008 984 997 990 998 987";
    let files = [("old.txt", old), ("new.txt", new)];
    check_against_reference(
        &files,
        &args,
        "undecided",
        [0.998_999, 0.987_988, 1.014_085],
    );
}

// ---- output ----

#[test]
fn a_verdict_is_printed_with_the_design_and_every_guess() {
    check(
        &[("data.csv", &csv(SLOWER, true))],
        &["data.csv"],
        &expect![[r#"
            data.csv: CSV, 80 figures of new, old
            baseline: old (by its name; --baseline chooses another)

            warnings:
            - paired in random order: 40 blocks, both orders, as by a coin; drift and order pass for a
              difference no more often than the error rate says
            - higher is better, guessed from the unit requests/s: throughput (requests/s)
            - the chance of a wrong verdict is at most 1 %, if nobody looked before

            metric        arm  verdict   change       99 % interval       from
            ------------  ---  -------  -------  ------------------  ---------
            throughput ↑  new  worse    -2.22 %  [-2.85 %, -1.63 %]  40 blocks

            worse: new than old in throughput (requests/s), -2.22 % [-2.85 %, -1.63 %] (99 % interval)
                significant after 40 blocks
        "#]],
    );
}

#[test]
fn markdown_has_a_table_and_sentences() {
    check(
        &[("data.csv", &csv(FAR_SLOWER, false))],
        &["data.csv", "--markdown"],
        &expect![[r#"
            | metric | arm | verdict | change | 99 % interval | from |
            |---|---|---|---|---|---|
            | throughput ↑ | new | worse | -10.49 % | [-11.45 %, -9.43 %] | 24 blocks |

            - **worse**: new than old in throughput (requests/s), -10.49 % [-11.45 %, -9.43 %] (99 % interval) - the whole confidence interval lies beyond the margin of 2 %; what ran second may differ by that alone (draw the order at random)

            <details><summary>baseline: old (by its name; --baseline chooses another)</summary>

            - data.csv: CSV, 48 figures of new, old
            - paired: 24 blocks, which arm ran first is not said (a column slot would); an effect of the order is not excluded, so only differences beyond the margin are told, and never that arms are equivalent
            - higher is better, guessed from the unit requests/s: throughput (requests/s)
            - the chance of a wrong verdict is at most 1 %, if nobody looked before

            </details>
        "#]],
    );
}

#[test]
fn a_gate_has_no_answer_while_figures_are_undecided() {
    let dir = tempfile::tempdir().unwrap();
    let status = |blocks, gate: &str| {
        let text = csv(blocks, true);
        let output = judge(
            dir.path(),
            &[("d.csv", &text)],
            &["d.csv", "--fail-on", gate],
        );
        output.status.code().unwrap()
    };
    assert_eq!([status(SLOWER, "worse"), status(FASTER, "worse")], [1, 0]);
    let both = |blocks| [status(blocks, "regression"), status(blocks, "worse")];
    assert_eq!(
        [both(SLOWER), both(NOISY), both(ALIKE)],
        [[1, 1], [3, 0], [0, 0]]
    );
}

fn rows(head: &str, base: &str, new: &str, blocks: u32) -> String {
    let rows = (1..=blocks).map(|block| {
        let value = 100.0 + f64::from(block);
        format!(
            "old,{block},time,{value},ms{base}\nnew,{block},time,{},ms{new}\n",
            value / 30.0
        )
    });
    format!(
        "arm,block,metric,value,unit{head}\n{}",
        rows.collect::<Vec<_>>().concat()
    )
}

#[test]
fn rows_of_failed_runs_are_refused() {
    for (head, base, new) in [
        (",exit_code", ",0", ",1"),
        (",status", ",ok", ",FAILED"),
        (",error", ",", ",timeout"),
        (",ok", ",true", ",false"),
        (",Passed", ",1", ",0"),
    ] {
        let text = rows(head, base, new, 10);
        let error = refusal(&judge_csv(&text, &["--fail-on", "worse"]));
        assert!(
            error.contains("d.csv:3: rows that say that they failed: 10 of 20"),
            "{head}: {error}"
        );
        let sound = judge_csv(&rows(head, base, base, 10), &[]);
        assert_eq!(sound.status.code(), Some(0), "{head}");
    }
}

#[test]
fn blocks_that_differ_in_another_column_are_refused() {
    let some = rows(",threads", ",1", ",1", 10);
    let more = rows(",threads", ",4", ",4", 20);
    // Keep blocks 11 to 20.
    let more = more.lines().skip(21).collect::<Vec<_>>().join("\n");
    let error = refusal(&judge_csv(&(some + &more), &[]));
    assert!(
        error.contains("that differ in column \"threads\": \"1\" and \"4\""),
        "{error}"
    );
}

#[test]
fn a_gate_with_too_few_figures_has_no_answer() {
    let rows = |arm: &str, from: u32, count: u32| -> String {
        let rows = (from..from + count).map(|value| format!("{arm},{value}\n"));
        rows.collect::<Vec<_>>().concat()
    };
    for (old, new) in [(16, 4), (16, 3), (4, 4), (50, 2)] {
        let text = format!(
            "arm,time (ms)\n{}{}",
            rows("old", 100, old),
            rows("new", 300, new)
        );
        for gate in ["regression", "worse"] {
            let output = judge_csv(&text, &["--fail-on", gate]);
            assert_eq!(output.status.code(), Some(3), "{old} and {new}, {gate}");
        }
    }
}

#[test]
fn an_arm_that_fails_more_does_not_pass_a_gate_by_being_faster() {
    let command = |name: &str, time: f64, failed: usize| {
        let times = (0..20).map(|run| (time + f64::from(run) / 1000.0).to_string());
        let times = times.collect::<Vec<_>>().join(",");
        let codes = [vec!["1"; failed], vec!["0"; 20 - failed]]
            .concat()
            .join(",");
        format!(r#"{{"command":"{name}","mean":{time},"times":[{times}],"exit_codes":[{codes}]}}"#)
    };
    for (failed, status) in [(0, 0), (5, 1)] {
        let (a, b) = (command("a", 1.0, 0), command("b", 0.5, failed));
        let export = format!(r#"{{"results":[{a},{b}]}}"#);
        let dir = tempfile::tempdir().unwrap();
        let args = ["h.json", "--fail-on", "worse"];
        let output = judge(dir.path(), &[("h.json", &export)], &args);
        assert_eq!(output.status.code(), Some(status));
    }
}

fn judge_csv(text: &str, args: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    judge(dir.path(), &[("d.csv", text)], &[&["d.csv"], args].concat())
}

#[test]
fn too_few_blocks_are_reported_with_the_minimum() {
    let few: Vec<&str> = FASTER.split(' ').take(5).collect();
    let text = judged(&[("d.csv", &csv(&few.join(" "), true))], &["d.csv"]);
    let why = "too few for any verdict at this error rate: 5 blocks (at least 8;";
    assert!(text.contains(why), "{text}");
}

#[test]
fn orders_that_are_not_random_are_reported() {
    let report = |blocks: &str| judged(&[("d.csv", &csv(blocks, true))], &["d.csv"]);
    let fixed = report(&FAR_SLOWER.replace('>', "<"));
    assert!(
        fixed.contains("paired: 24 blocks, the same arm first in every block"),
        "{fixed}"
    );
    let alternating: Vec<String> = FAR_SLOWER
        .split(' ')
        .enumerate()
        .map(|(index, block)| block.replace(['<', '>'], if index % 2 == 0 { "<" } else { ">" }))
        .collect();
    let alternating = report(&alternating.join(" "));
    assert!(
        alternating.contains("paired: 24 blocks, the arms first by turns"),
        "{alternating}"
    );
}

// ---- formats ----

/// Twelve times of two commands in hyperfine's format.
fn hyperfine(faster: f64) -> String {
    let times = |scale: f64| -> String {
        let times: Vec<String> = [1.21, 1.19, 1.24, 1.2, 1.22, 1.18]
            .map(|time| format!("{:.3}", time * scale))
            .to_vec();
        times.join(", ")
    };
    format!(
        r#"{{"results": [
  {{"command": "gzip", "mean": 1.2, "times": [{}], "exit_codes": [0, 0, 0, 0, 0, 0]}},
  {{"command": "pigz", "mean": 1.1, "times": [{}], "exit_codes": [0, 0, 0, 0, 0, 0]}}
]}}"#,
        times(1.0),
        times(faster)
    )
}

#[test]
fn hyperfine_has_commands_for_arms_and_no_blocks() {
    let text = hyperfine(0.5);
    check_comparisons(
        &[("h.json", &text)],
        &["h.json"],
        &expect![[r#"
        time [s] lower pigz: better, 0.5000, unpaired 6+6
    "#]],
    );
}

#[test]
fn several_exports_of_hyperfine_are_blocks() {
    let (one, two, three) = (hyperfine(0.49), hyperfine(0.5), hyperfine(0.51));
    let files = [
        ("1.json", one.as_str()),
        ("2.json", &two),
        ("3.json", &three),
    ];
    check_comparisons(
        &files,
        &["1.json", "2.json", "3.json"],
        &expect![[r#"
        time [s] lower pigz: undecided, 0.5000, paired 3+3
    "#]],
    );
}

const GO_OLD: &str = "\
goos: linux
goarch: amd64
pkg: example.org/text
cpu: any
BenchmarkJoin-2        45794    625.6 ns/op    896 B/op   1 allocs/op
BenchmarkJoin-2        53499    528.1 ns/op    896 B/op   1 allocs/op
BenchmarkSplit/k=a-2   70152    543.2 ns/op   1472.76 MB/s
BenchmarkSplit/k=a-2   70160    545.0 ns/op   1470.20 MB/s
PASS
ok      example.org/text        1.204s
";

#[test]
fn one_go_process_per_arm_concludes_nothing() {
    let new = GO_OLD.replace("625.6", "425.6");
    let files = [("old.txt", GO_OLD), ("new.txt", &new)];
    check_comparisons(
        &files,
        &["old.txt", "new.txt"],
        &expect![[r#"
        Join ns/op [ns/op] lower new: undecided, 0.8248, one run of each arm 2+2
        Join B/op [B/op] lower new: undecided, 1.0000, one run of each arm 2+2
        Join allocs/op [allocs/op] lower new: undecided, 1.0000, one run of each arm 2+2
        Split/k=a ns/op [ns/op] lower new: undecided, 1.0000, one run of each arm 2+2
        Split/k=a MB/s [MB/s] higher new: undecided, 1.0000, one run of each arm 2+2
    "#]],
    );
}

#[test]
fn processes_of_go_are_separated_by_their_headers() {
    let many = |scale: f64| -> String {
        let process =
            |n: i32| GO_OLD.replace("625.6", &format!("{:.1}", (600.0 + f64::from(n)) * scale));
        (0..8).map(process).collect()
    };
    let (old, new) = (many(1.0), many(0.7));
    let files = [("old.txt", old.as_str()), ("new.txt", &new)];
    check_comparisons(
        &files,
        &["old.txt", "new.txt", "--metric", "Join ns/op"],
        &expect![[r#"
            Join ns/op [ns/op] lower new: better, 0.8400, unpaired 8+8
        "#]],
    );
}

/// Output of one process of google-benchmark.
fn google(time: f64) -> String {
    format!(
        r#"{{"context": {{"num_cpus": 2}}, "benchmarks": [
  {{"name": "BM_Copy/64", "run_name": "BM_Copy/64", "run_type": "iteration", "repetitions": 2,
    "repetition_index": 0, "threads": 1, "iterations": 1000, "real_time": {time}, "cpu_time": 2.2e+01,
    "time_unit": "ns", "bytes_per_second": 2.8e+09, "hits": 3}},
  {{"name": "BM_Copy/64", "run_name": "BM_Copy/64", "run_type": "iteration", "repetitions": 2,
    "repetition_index": 1, "threads": 1, "iterations": 1000, "real_time": {time}, "cpu_time": 2.3e+01,
    "time_unit": "ns", "bytes_per_second": 2.8e+09, "hits": 3}},
  {{"name": "BM_Copy/64_mean", "run_name": "BM_Copy/64", "run_type": "aggregate", "repetitions": 2,
    "aggregate_name": "mean", "iterations": 2, "real_time": 1, "cpu_time": 1, "time_unit": "ns"}}
]}}"#
    )
}

#[test]
fn google_benchmark_has_one_process_per_file() {
    let texts: Vec<String> = (0..12)
        .map(|n| google(27.0 + f64::from(n % 5) * 0.1 + f64::from(n) * 1e-6))
        .collect();
    let names: Vec<String> = (0..12)
        .map(|n| format!("{}/{n}.json", ["a", "b"][n % 2]))
        .collect();
    let files: Vec<(&str, &str)> = names
        .iter()
        .map(String::as_str)
        .zip(texts.iter().map(String::as_str))
        .collect();
    check_comparisons(
        &files,
        &["a", "b"],
        &expect![[r#"
        BM_Copy/64 real time [ns] lower b: undecided, 1.0000, unpaired 6+6
    "#]],
    );
    check_comparisons(
        &files,
        &["old=a/0.json", "new=b/1.json"],
        &expect![[r#"
        BM_Copy/64 real time [ns] lower new: undecided, 1.0037, one run of each arm 2+2
    "#]],
    );
}

#[test]
fn criterion_has_directories_for_arms() {
    let sample = |ns: f64| {
        let times: Vec<String> = (1..=4)
            .map(|n| format!("{:.1}", f64::from(n * 100) * ns))
            .collect();
        format!(
            r#"{{"sampling_mode":"Linear","iters":[100.0,200.0,300.0,400.0],"times":[{}]}}"#,
            times.join(",")
        )
    };
    let raw = "group,function,value,throughput_num,throughput_type,sample_measured_value,unit,iteration_count\n\
               sum,fold,10,,,900.0,ns,100\nsum,fold,10,,,1800.0,ns,200\n";
    let (base, new) = (sample(9.0), sample(9.5));
    let files = [
        ("criterion/sum/fold/10/base/sample.json", base.as_str()),
        ("criterion/sum/fold/10/new/sample.json", &new),
        ("criterion/sum/fold/20/base/raw.csv", raw),
        ("criterion/sum/fold/20/new/raw.csv", raw),
        ("criterion/sum/fold/10/change/estimates.json", "{}"),
        ("criterion/report/index.html", "<html></html>"),
    ];
    check_comparisons(
        &files,
        &["criterion"],
        &expect![[r#"
        sum/fold/10 [ns/iteration] lower new: undecided, 1.0556, one run of each arm 4+4
        sum/fold/20 [ns/iteration] lower new: undecided, 1.0000, one run of each arm 2+2
    "#]],
    );
}

#[test]
fn criterion_copies_are_not_compared_with_themselves() {
    let sample = r#"{"sampling_mode":"Flat","iters":[10.0,10.0,10.0],"times":[90.0,91.0,95.5]}"#;
    let later = sample.replace("95.5", "97.5");
    let (base, new) = (
        "criterion/sum/base/sample.json",
        "criterion/sum/new/sample.json",
    );
    check_refused(
        &[(base, sample), (new, sample)],
        &["criterion"],
        &expect![[r#"
            bakeoff: criterion/sum/new/sample.json:1: the same samples as of base: sum (criterion copies new to base when it ends; keep each run with --save-baseline NAME)
        "#]],
    );
    let files = [
        ("criterion/sum/before/sample.json", sample),
        ("criterion/sum/after/sample.json", &later),
        (base, &later),
        (new, &later),
    ];
    let args = ["criterion", "--baseline", "before"];
    check_comparisons(
        &files,
        &args,
        &expect![[r#"
        sum [ns/iteration] lower after: undecided, 1.0000, one run of each arm 3+3
    "#]],
    );
}

const PHORONIX: &str = r#"<?xml version="1.0"?>
<PhoronixTestSuite>
  <System><Identifier>Linux 6.1</Identifier></System>
  <System><Identifier>Linux 7.2</Identifier></System>
  <Result>
    <Identifier>pts/compress-7zip-1.9.0</Identifier>
    <Title>7-Zip Compression</Title>
    <Description>Test: Compression Rating</Description>
    <Scale>MIPS</Scale>
    <Proportion>HIB</Proportion>
    <Data>
      <Entry><Identifier>Linux 6.1</Identifier><Value>8000</Value><RawString>8010:7990:8000:8005:7985:8003</RawString></Entry>
      <Entry><Identifier>Linux 7.2</Identifier><Value>9000</Value><RawString>9010:8990:9000:9002:9011:8995</RawString></Entry>
    </Data>
  </Result>
</PhoronixTestSuite>
"#;

#[test]
fn phoronix_has_systems_for_arms_and_a_direction() {
    check_comparisons(
        &[("composite.xml", PHORONIX)],
        &["composite.xml"],
        &expect![[r#"
            7-Zip Compression - Test: Compression Rating [MIPS] higher Linux 7.2: better, 1.1252, unpaired 6+6
        "#]],
    );
}

#[test]
fn k6_has_one_run_per_file_in_both_forms() {
    let exported = |rate: u32| {
        format!(
            r#"{{"root_group": {{}}, "metrics": {{
  "http_reqs": {{"count": 5, "rate": {rate}.5}},
  "http_req_duration": {{"avg": 0.06, "min": 0.01, "med": 0.03, "max": 5.2, "p(90)": 0.08, "p(95)": 0.14}},
  "http_req_failed": {{"value": 0, "passes": 0, "fails": 5}}, "vus": {{"value": 2, "min": 2, "max": 2}}
}}}}"#
        )
    };
    let handled = r#"{"options": {}, "metrics": {
  "http_reqs": {"type": "counter", "contains": "default", "values": {"count": 5, "rate": 14000.5}},
  "http_req_duration": {"type": "trend", "contains": "time",
    "values": {"avg": 0.06, "min": 0.01, "med": 0.03, "max": 5.2, "p(90)": 0.08, "p(95)": 0.14}},
  "http_req_failed": {"type": "rate", "contains": "default", "values": {"rate": 0, "passes": 0, "fails": 5}}
}}"#;
    let (one, two, three) = (exported(14001), exported(14002), exported(14003));
    let files = [
        ("a/1.json", one.as_str()),
        ("a/2.json", &two),
        ("b/1.json", handled),
        ("b/2.json", &three),
    ];
    check_comparisons(
        &files,
        &["a", "b"],
        &expect![[r#"
        http_req_duration med [ms] lower b: undecided, 1.0000, unpaired 2+2
        http_req_duration p(95) [ms] lower b: undecided, 1.0000, unpaired 2+2
        http_req_failed rate [share] lower b: undecided, 1.0000, unpaired 2+2
        http_reqs rate [/s] higher b: undecided, 1.0000, unpaired 2+2
    "#]],
    );
}

#[test]
fn oha_has_one_run_per_file_and_arms_by_directory() {
    let run = |rate: f64| {
        format!(
            r#"{{"summary": {{"successRate": 1.0, "total": 1.0, "average": 8e-05, "requestsPerSec": {rate}}},
  "metrics": {{"requests_per_sec": {rate}}}, "latencyPercentiles": {{"p50": 5.1e-05, "p99": 0.00052}}}}"#
        )
    };
    let runs = [48854.9, 47000.1, 48854.8, 47000.2].map(run);
    let files = [
        ("runs/a/1.json", runs[0].as_str()),
        ("runs/a/2.json", &runs[1]),
        ("runs/b/1.json", &runs[2]),
        ("runs/b/2.json", &runs[3]),
    ];
    check_comparisons(
        &files,
        &["runs"],
        &expect![[r#"
        requests [requests/s] higher b: undecided, 1.0000, unpaired 2+2
        latency p50 [s] lower b: undecided, 1.0000, unpaired 2+2
        latency p99 [s] lower b: undecided, 1.0000, unpaired 2+2
    "#]],
    );
}

#[test]
fn rows_may_be_json_lines_or_wide() {
    let lines = "{\"arm\": \"a\", \"block\": 1, \"metric\": \"p99\", \"value\": 1.5, \"unit\": \"ms\"}\n\
                 {\"arm\": \"b\", \"block\": 1, \"metric\": \"p99\", \"value\": 1.4, \"unit\": \"ms\"}\n\
                 {\"arm\": \"a\", \"block\": 2, \"metric\": \"p99\", \"value\": 1.6, \"unit\": \"ms\"}\n\
                 {\"arm\": \"b\", \"block\": 2, \"metric\": \"p99\", \"value\": 1.5, \"unit\": \"ms\"}\n";
    check_comparisons(
        &[("d.jsonl", lines)],
        &["d.jsonl"],
        &expect![[r#"
        p99 [ms] lower b: undecided, 0.9354, paired 2+2
    "#]],
    );
    let list = format!("[{}]", lines.trim_end().replace('\n', ",\n"));
    check_comparisons(
        &[("d.json", &list)],
        &["d.json"],
        &expect![[r#"
        p99 [ms] lower b: undecided, 0.9354, paired 2+2
    "#]],
    );
    let metrics = "arm\tblock\tthroughput (req/s)\tp99 (ms)\na\t1\t100\t1.5\nb\t1\t90\t1.4\n\
                   a\t2\t101\t1.6\nb\t2\t91\t1.5\n";
    check_comparisons(
        &[("m.tsv", metrics)],
        &["m.tsv"],
        &expect![[r#"
        throughput [req/s] higher b: undecided, 0.9005, paired 2+2
        p99 [ms] lower b: undecided, 0.9354, paired 2+2
    "#]],
    );
    let arms = "block;old;new;metric\n1;100;90;throughput\n2;101;91;throughput\n";
    check_comparisons(
        &[("a.csv", arms)],
        &["a.csv"],
        &expect![[r#"
        throughput [] higher new: undecided, 0.9005, paired 2+2
    "#]],
    );
}

/// Ten runs of oha of each arm; arm `new` has these statuses.
fn oha_runs(statuses: &str) -> Vec<(String, String)> {
    let run = |number: u32| {
        let (arm, statuses) = [("old", "\"200\": 50000"), ("new", statuses)][number as usize % 2];
        let rate = 50_000 + 50_000 * (number % 2) + number * 7;
        let text = format!(
            r#"{{"summary": {{"successRate": 1.0, "average": 8e-05, "requestsPerSec": {rate}.5}},
  "latencyPercentiles": {{"p50": 5.{number}e-05, "p99": 0.00052{number}}},
  "statusCodeDistribution": {{{statuses}}}, "errorDistribution": {{}}}}"#
        );
        (format!("{arm}/{number}.json"), text)
    };
    (0..20).map(run).collect()
}

#[test]
fn failures_are_judged_beside_the_throughput_that_they_raise() {
    // hatoo/oha#212
    let check = |statuses: &str, failed: Option<&str>, status: i32| {
        let dir = tempfile::tempdir().unwrap();
        let runs = oha_runs(statuses);
        let files: Vec<(&str, &str)> = runs.iter().map(|(name, text)| (&**name, &**text)).collect();
        let args = ["old", "new", "--json", "--fail-on", "worse"];
        let output = judge(dir.path(), &files, &args);
        let judged: Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut verdicts = BTreeMap::new();
        for comparison in judged["comparisons"].as_array().unwrap() {
            let text = |key: &str| comparison[key].as_str().unwrap().to_string();
            verdicts.insert(text("metric"), text("verdict"));
        }
        assert_eq!(verdicts["requests"], "better");
        assert_eq!(verdicts.get("failed").map(String::as_str), failed);
        let warning = "work failed in 10 of 10 runs of new";
        let has_warning = judged["remarks"].to_string().contains(warning);
        assert_eq!(has_warning, failed.is_some());
        assert_eq!(output.status.code(), Some(status));
    };
    check(r#""200": 60000, "503": 40000"#, Some("worse"), 1);
    check(r#""200": 90000, "302": 10000"#, None, 0);
}

#[test]
fn benchmarks_with_several_numbers_of_processors_have_separate_verdicts() {
    // golang/go#30056
    let runs = |four: u32| -> String {
        let run = format!(
            "pkg: p\nBenchmarkPar 100 1 allocs/op\nBenchmarkPar-2 100 1 allocs/op\n\
             BenchmarkPar-4 100 {four} allocs/op\nok p 1s\n"
        );
        run.repeat(8)
    };
    check_comparisons(
        &[("old.txt", &runs(1)), ("new.txt", &runs(9))],
        &["old.txt", "new.txt"],
        &expect![[r#"
            Par allocs/op [allocs/op] lower new: equivalent, 1.0000, unpaired 8+8
            Par-2 allocs/op [allocs/op] lower new: equivalent, 1.0000, unpaired 8+8
            Par-4 allocs/op [allocs/op] lower new: worse, 9.0000, unpaired 8+8
        "#]],
    );
}

#[test]
fn a_metric_whose_name_contradicts_its_unit_is_refused() {
    let mut csv = "arm,block,slot,metric,value,unit\n".to_string();
    for block in 0..8 {
        let (old, new) = (1000 + block, 2010 + block);
        let (first, second) = if block % 3 == 0 { (1, 2) } else { (2, 1) };
        writeln!(csv, "old,{block},{first},failed,{old},requests/s").unwrap();
        writeln!(csv, "new,{block},{second},failed,{new},requests/s").unwrap();
    }
    check_refused(
        &[("d.csv", &csv)],
        &["d.csv", "--fail-on", "worse"],
        &expect![[r#"
            bakeoff: d.csv: nothing to judge: left out, because its name and its unit say different things about which way is better: failed (add --higher-is-better or --lower-is-better, or choose with --metric NAME)
        "#]],
    );
    check_comparisons(
        &[("d.csv", &csv)],
        &["d.csv", "--lower-is-better"],
        &expect![[r#"
            failed [requests/s] lower new: worse, 2.0066, paired in random order 8+8
        "#]],
    );
}

// ---- bad input ----

#[test]
fn all_mistakes_in_all_files_are_listed_together() {
    let csv = "arm,block,metric,value,unit\n\
               old,1,throughput,100,req/s\nnew,1,throughput,fast,req/s\n\
               old,2,throughput,nan,req/s\nnew,2,throughput,,req/s\n\
               ,3,throughput,99,req/s\nnew,3,throughput,12,5,req/s\n";
    check_refused(
        &[("d.csv", csv), ("empty.txt", " \n"), ("odd.xml", "<html/>")],
        &["d.csv", "empty.txt", "odd.xml", "nowhere.csv"],
        &expect![[r#"
            bakeoff: nowhere.csv: cannot be read: No such file or directory (os error 2) (give a file, a directory or ARM=FILE)
            d.csv:3: no number in column "value": "fast" (write a number such as 12.5)
            d.csv:4: no finite number in column "value": "nan" (leave a failed run out, with its whole block)
            d.csv:5: nothing where a number belongs in column "value" (write a number such as 12.5)
            d.csv:6: no arm in this row (write its name in column "arm")
            d.csv:7: 6 columns under a head of 5 (write a decimal point, not a comma, and an empty text for what is unknown)
            empty.txt: the file is empty (accepted: CSV or JSON lines with arm, block, metric, value; hyperfine JSON; go test -bench; google-benchmark JSON; target/criterion; Phoronix composite.xml; k6 and oha JSON; plain numbers)
            odd.xml: no known format, beginning with "<html/>" (accepted: CSV or JSON lines with arm, block, metric, value; hyperfine JSON; go test -bench; google-benchmark JSON; target/criterion; Phoronix composite.xml; k6 and oha JSON; plain numbers)
        "#]],
    );
}

#[test]
fn mistakes_are_reported_in_json_too() {
    let dir = tempfile::tempdir().unwrap();
    let files = [("d.csv", "arm,block,value\nold,1,x\n")];
    let output = judge(dir.path(), &files, &["d.csv", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["problems"][0]["line"], 2);
}

#[test]
fn a_text_among_the_times_of_an_export_has_its_line() {
    let text = hyperfine(0.5).replacen("1.190", "\"fast\"", 1);
    check_refused(
        &[("h.json", &text)],
        &["h.json"],
        &expect![[r#"
        bakeoff: h.json:2: no number in times: "\"fast\"" (write a number such as 12.5)
    "#]],
    );
}

#[test]
fn figures_that_do_not_fit_together_are_refused() {
    let csv = "arm,block,metric,value,unit,slot\n\
               old,1,throughput,100,req/s,1\nnew,1,throughput,-3,req/s,1\n\
               old,2,throughput,100,req/s,2\nnew,2,throughput,0,kreq/s,1\n\
               old,3,throughput,100,req/s,1\n";
    check_refused(
        &[("d.csv", csv)],
        &["d.csv"],
        &expect![[r#"
            bakeoff: d.csv:3: zero or negative throughput: -3 (a run that served nothing has failed: leave its block out)
            d.csv:3: both arms at one place of block 1 (the arm that ran first has the smaller slot)
            d.csv:5: another unit for throughput than "req/s" of d.csv:2: "kreq/s" (convert all figures of a metric to one unit)
            d.csv:5: zero or negative throughput: 0 (a run that served nothing has failed: leave its block out)
            d.csv:6: no throughput of new in block 3 (add it, or take the block out)
        "#]],
    );
}

#[test]
fn one_block_one_arm_or_one_run_are_refused() {
    let one_block = "arm,block,metric,value\nold,1,time,100\nnew,1,time,90\n";
    check_refused(
        &[("d.csv", one_block)],
        &["d.csv"],
        &expect![[r#"
        bakeoff: d.csv:2: one block only: 1 (one block has no noise to judge by; add more)
    "#]],
    );
    let one_arm = "arm,block,metric,value\nold,1,time,100\nold,2,time,90\n";
    check_refused(
        &[("d.csv", one_arm)],
        &["d.csv"],
        &expect![[r#"
        bakeoff: d.csv: one arm only: "old" (give the figures of another arm too: two files, or a column arm)
    "#]],
    );
    let files = [("a.txt", "1\n2\n"), ("b.txt", "3\n")];
    check_refused(
        &files,
        &["a.txt", "b.txt", "--lower-is-better"],
        &expect![[r#"
            bakeoff: b.txt:1: one run only of b: value (one run has no noise to judge by; add more)
        "#]],
    );
}

#[test]
fn many_figures_of_many_arms_are_refused_with_the_product() {
    let rows = (0..101).flat_map(|block| {
        let row = move |arm| format!("a{arm},{block},time,{}\n", 100 + arm + block);
        (0..100).map(row)
    });
    let text = format!(
        "arm,block,metric,value\n{}",
        rows.collect::<Vec<_>>().concat()
    );
    check_refused(
        &[("d.csv", &text)],
        &["d.csv"],
        &expect![[r#"
            bakeoff: d.csv: too much to compare: 10100 figures of 100 arms, of which the product is at most 1000000 (give fewer arms at a time)
        "#]],
    );
}

#[test]
fn thousands_of_metrics_are_refused_with_the_remedy() {
    let mut text = "arm,block,metric,value\n".to_string();
    for metric in 0..3000 {
        for (arm, block) in [("a", 1), ("b", 1), ("a", 2), ("b", 2)] {
            writeln!(text, "{arm},{block},time {metric},{}", metric + block).unwrap();
        }
    }
    check_refused(
        &[("d.csv", &text)],
        &["d.csv"],
        &expect![[r#"
        bakeoff: d.csv: too many metrics to judge together, more than 100: 3000 (choose with --metric NAME, a part of a name will do; metrics share the error rate, so each one more makes every verdict harder)
    "#]],
    );
    check_comparisons(
        &[("d.csv", &text)],
        &["d.csv", "--metric", "time 2999"],
        &expect![[r#"
            time 2999 [] lower b: undecided, 1.0000, paired 2+2
        "#]],
    );
}

#[test]
fn unknown_and_mixed_formats_are_refused() {
    check_refused(
        &[("n.txt", "hello there\nfriend\n")],
        &["n.txt"],
        &expect![[r#"
            bakeoff: n.txt: no known format, beginning with "hello there" (accepted: CSV or JSON lines with arm, block, metric, value; hyperfine JSON; go test -bench; google-benchmark JSON; target/criterion; Phoronix composite.xml; k6 and oha JSON; plain numbers)
        "#]],
    );
    let both = r#"{"results": [], "benchmarks": []}"#;
    check_refused(
        &[("b.json", both)],
        &["b.json"],
        &expect![[r#"
        bakeoff: b.json: several formats in one file: hyperfine JSON and google-benchmark JSON (keep each in a file of its own)
    "#]],
    );
    let both = format!("arm,block,value\n{GO_OLD}");
    check_refused(
        &[("b.txt", &both)],
        &["b.txt"],
        &expect![[r#"
        bakeoff: b.txt: several formats in one file: Go benchmark output and CSV (keep each in a file of its own)
    "#]],
    );
    let twice = "arm,metric,value, value\nold,m,1,2\nnew,m,3,4\n";
    check_refused(
        &[("twice.csv", twice)],
        &["twice.csv"],
        &expect![[r#"
        bakeoff: twice.csv:1: two columns of one name: "value" (rename one of them, or take it out)
    "#]],
    );
    let unclear = "old,new\n1,2\n3,4\n";
    check_refused(
        &[("u.csv", unclear)],
        &["u.csv"],
        &expect![[r#"
        bakeoff: u.csv:1: columns that could mean several things: old, new (accepted: arm,block,metric,value with slot, unit and direction if known; arm,block and a column per metric; block and a column per arm)
    "#]],
    );
    check_refused(
        &[(
            "t.json",
            "{\"results\": [\n{\"command\": \"a\", \"times\": [1, \"x\"]}, \n",
        )],
        &["t.json"],
        &expect![[r#"
            bakeoff: t.json:3: not hyperfine JSON at column 0: EOF while parsing a value (export the file again)
        "#]],
    );
}

#[test]
fn missing_information_is_asked_for() {
    let files = [("a.txt", "1\n2\n"), ("b.txt", "3\n4\n")];
    check_refused(
        &files,
        &["a.txt", "b.txt"],
        &expect![[r#"
        bakeoff: a.txt: nothing to judge: each plain number is taken as the figure of a run of its own; left out, because which way is better is not known: value (add --higher-is-better or --lower-is-better, or choose with --metric NAME)
    "#]],
    );
    check_refused(
        &files,
        &["a.txt", "a.txt", "--lower-is-better"],
        &expect![[r#"
            bakeoff: a.txt: given twice (each file is of one arm)
        "#]],
    );
    let args = [
        "a.txt",
        "b.txt",
        "--lower-is-better",
        "--baseline",
        "c",
        "--metric",
        "vlaue",
    ];
    check_refused(
        &files,
        &args,
        &expect![[r#"
        bakeoff: a.txt: --baseline is no arm: "c" (did you mean "a"?)
        a.txt: --metric is in no file: "vlaue" (did you mean "value"?)
    "#]],
    );
    let k6 = r#"{"metrics": {"http_reqs": {"count": 5, "rate": 14.5}}}"#;
    check_refused(
        &[("one.json", k6), ("two.json", k6)],
        &["one.json", "two.json"],
        &expect![[r#"
            bakeoff: one.json: one run, of an arm that it does not name (write ARM=FILE, or put the runs of each arm into a directory of its name)
            two.json: one run, of an arm that it does not name (write ARM=FILE, or put the runs of each arm into a directory of its name)
        "#]],
    );
}

#[test]
fn options_for_figures_do_not_apply_to_a_run_directory() {
    check_refused(
        &[("a/plan.toml", ""), ("b/plan.toml", "")],
        &["a", "b", "--margin", "5%"],
        &expect![[r#"
            bakeoff: a run is judged by the plan that it was made by, because what is chosen after the figures are seen has no error rate: --margin with a b (leave it out, or run a plan that says so)
        "#]],
    );
}

// ---- run directories ----

/// Makes two runs of the same two arms. `new` is 20 % faster only in the second run.
fn two_runs(dir: &Path) {
    for (name, ratio) in [("a", 1.0), ("b", 1.2)] {
        let world = World::new(ratio, 0.002, &[]);
        world.run(&dir.join("runs").join(name), |_| false).unwrap();
    }
}

#[test]
fn two_run_directories_are_compared_arm_by_arm() {
    let dir = tempfile::tempdir().unwrap();
    two_runs(dir.path());
    let output = judge(dir.path(), &[], &["before=runs/a", "after=runs/b"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for line in [
        "measured trials: 7 of old, 7 of new",
        "baseline: before (by its name; --baseline chooses another)",
        "- not interleaved: whatever changed on the machine",
        "- before and after have the same plan, inputs and machine",
        "better: after than before in web-static throughput of new",
        "undecided: after against before in web-static throughput of old",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let json = judge(
        dir.path(),
        &[],
        &["runs/b", "runs/a", "--json", "--baseline", "a"],
    );
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        (&json["baseline"], &json["margin"]),
        (&"a".into(), &0.02.into())
    );
    assert_eq!(json["comparisons"][1]["arm"], "b");
    let some = judge(
        dir.path(),
        &[],
        &["runs/a", "runs/b", "--metric", "throughp", "--json"],
    );
    let some: Value = serde_json::from_slice(&some.stdout).unwrap();
    assert_eq!(
        some["comparisons"][0]["metric"],
        "web-static throughput of old"
    );
    let gate = judge(
        dir.path(),
        &[],
        &[
            "b=runs/b",
            "a=runs/a",
            "--baseline",
            "b",
            "--fail-on",
            "worse",
        ],
    );
    assert_eq!(gate.status.code(), Some(1));
}

#[test]
fn failed_fairness_checks_are_reported_when_runs_are_compared() {
    let dir = tempfile::tempdir().unwrap();
    let text = one_sided_plan();
    for (name, entries) in [("a", u32::MAX), ("b", 15)] {
        let world = World::new(1.0, 0.002, &[]);
        let run = dir.path().join("runs").join(name);
        world
            .run_text(&run, &text, |entry| entry >= entries)
            .unwrap();
    }
    let output = judge(dir.path(), &[], &["a=runs/a", "b=runs/b"]);
    let report = stdout(&output);
    for line in [
        "runs/a: run of bakeoff begun ",
        "- fairness of a: one-sided-tuning: settings in new, none in old",
        "- fairness of b: one-sided-tuning: settings in new, none in old",
        "- a withholds its own headline of new on web-static: it is not fair",
        "too few for any verdict at this error rate: 6 of a and 3 of b (at least ",
    ] {
        assert!(report.contains(line), "{line}\n{report}");
    }
    let json = judge(dir.path(), &[], &["a=runs/a", "b=runs/b", "--json"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        json["failed_checks"][0],
        serde_json::json!({ "run": "a", "id": "one-sided-tuning" })
    );
    for (gate, status, why) in [
        ("unfair", 1, "fairness: one-sided-tuning of a"),
        (
            "regression",
            3,
            "a run that is compared is not fair: one-sided-tuning of a",
        ),
    ] {
        let gated = judge(
            dir.path(),
            &[],
            &["a=runs/a", "b=runs/b", "--fail-on", gate],
        );
        let error = stderr(&gated);
        assert_eq!(gated.status.code(), Some(status), "{error}");
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn runs_that_cannot_be_compared_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    two_runs(dir.path());
    let journal = dir.path().join("runs/b/journal.jsonl");
    let text = std::fs::read_to_string(&journal).unwrap();
    std::fs::write(&journal, text.replacen("\"fake\"", "\"another\"", 1)).unwrap();
    let refused = |args: &[&str]| {
        let output = judge(dir.path(), &[], args);
        assert_eq!(stdout(&output), "");
        refusal(&output)
    };
    expect![[r#"
        bakeoff: damaged journal: runs/b/journal.jsonl line 1: unknown variant `another`, expected one of `qemu`, `local`, `ssh`, `url`, `fake` at line 1 column 189
    "#]]
    .assert_eq(&refused(&["before=runs/a", "after=runs/b"]));
    expect![[r#"
        bakeoff: no such file or directory: figures.csv
    "#]]
    .assert_eq(&refused(&["runs/a", "figures.csv"]));
    expect![[r#"
        bakeoff: two runs of one name: a (write NAME=runs/a)
    "#]]
    .assert_eq(&refused(&["a=runs/b", "runs/a"]));
    expect![[r#"
        bakeoff: one run named twice: ./runs/a (name two runs, or judge it alone: its arms are compared with one another)
    "#]]
    .assert_eq(&refused(&["before=runs/a", "after=./runs/a"]));
    let error = refused(&["runs/a", "runs/b", "--margin", "5%"]);
    assert!(
        error.contains("--margin with runs/a runs/b (leave it out"),
        "{error}"
    );
}

#[test]
fn a_directory_of_runs_and_a_missing_run_are_named() {
    let run = |name: &'static str| [(name, "title = \"x\"\n")];
    check_refused(
        &run("runs/monday/plan.toml"),
        &["runs"],
        &expect![[r#"
        bakeoff: runs: run directories in it: monday (name one of them, or two)
    "#]],
    );
    check_refused(
        &run("monday/plan.toml"),
        &["before=monday", "after=tuesday"],
        &expect![[r#"
            bakeoff: no such file or directory: after=tuesday
        "#]],
    );
}
