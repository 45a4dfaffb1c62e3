//! Formats that are accepted, and precise messages for mistakes.

use expect_test::expect;

use super::{Files, check, judge, read_all, refuse, remarks, rendered};
use crate::compare::ImportOptions;

// ---- k6's machine-readable summary ----

fn summary(number: u32, config: &str) -> String {
    format!(
        r#"{{"version": "1.0.0", "metadata": {{"k6_version": "1.5.0"}}, {config} "results": {{
  "checks": {{"metrics": [], "results": [{{"name": "ok", "passes": 8, "fails": {fails}}}]}},
  "metrics": [
    {{"name": "http_reqs", "type": "counter", "contains": "default", "values": {{"count": 9{number}}}}},
    {{"name": "http_req_duration", "type": "trend", "contains": "time",
      "values": {{"avg": 1.5, "max": 9.5, "med": 1.{number}25, "min": 0.5, "p(90)": 4.5, "p(95)": 5.{number}25}}}},
    {{"name": "http_req_failed", "type": "rate", "contains": "default",
      "values": {{"matches": 1, "rate": 0.125, "total": 8}}}},
    {{"name": "vus", "type": "gauge", "contains": "default", "values": {{"max": 1, "min": 1, "value": 1}}}}
  ]}}}}"#,
        fails = number % 2 * 2,
    )
}

#[test]
fn the_machine_readable_summary_of_k6_is_read() {
    // grafana/k6#4803
    let texts: Vec<String> = (1..5)
        .map(|n| summary(n, r#""config": {"duration": 10},"#))
        .collect();
    let files: Files<'_> = &[
        ("old/1.json", &texts[1]),
        ("old/2.json", &texts[3]),
        ("new/1.json", &texts[0]),
        ("new/2.json", &texts[2]),
    ];
    check(
        files,
        &["old", "new"],
        &expect![[r#"
            http_reqs rate [/s] + new: runs [9.2, 9.4] [9.1, 9.3]
            http_req_duration med [ms] - new: runs [1.225, 1.425] [1.125, 1.325]
            http_req_duration p(95) [ms] - new: runs [5.225, 5.425] [5.125, 5.325]
            http_req_failed rate [share] - new: runs [0.125, 0.125] [0.125, 0.125]
            checks failed [share] - new: runs [0.0, 0.0] [0.2, 0.2]
        "#]],
    );
}

#[test]
fn a_summary_without_a_duration_has_counts() {
    let of = |count: u32| {
        format!(
            r#"{{"version":"1.0.0","results":{{"metrics":[{{"name":"http_reqs","type":"counter","values":{{"count":{count}}}}}]}}}}"#
        )
    };
    let texts = [of(9), of(8), of(7), of(6)];
    let files: Files<'_> = &[
        ("old/1.json", &texts[0]),
        ("old/2.json", &texts[1]),
        ("new/1.json", &texts[2]),
        ("new/2.json", &texts[3]),
    ];
    check(
        files,
        &["old", "new"],
        &expect![[r#"
            http_reqs count [] + new: runs [9.0, 8.0] [7.0, 6.0]
        "#]],
    );
}

#[test]
fn a_format_has_more_than_one_key() {
    for text in [
        r#"{"results": {"mean": 5}}"#,
        r#"{"results": [1, 2, 3]}"#,
        r#"{"benchmarks": [1, 2]}"#,
        r#"{"metrics": {"a": 1}}"#,
        r#"{"summary": {"requestsPerSec": 5}}"#,
    ] {
        refuse(&[("a.json", text)], &["a.json"], &["no known format"]);
    }
}

// ---- Go's units ----

fn go(unit: &str, head: &str, figures: [u32; 3]) -> String {
    let lines = figures.map(|figure| format!("pkg: p\nBenchmarkA 1 {figure} {unit}\n"));
    head.to_string() + &lines.concat()
}

/// `+`, `-`, or `None` if the metric is left out.
fn direction(unit: &str, old: &str, new: &str) -> Option<char> {
    let (old, new) = (go(unit, old, [5, 6, 7]), go(unit, new, [6, 7, 8]));
    let options = ImportOptions::default();
    let figures = judge(
        &[("old.txt", &old), ("new.txt", &new)],
        &["old.txt", "new.txt"],
        &options,
    );
    let figures = figures.ok()?;
    assert_eq!(figures.comparisons.len(), 1);
    rendered(&figures).split("] ").nth(1)?.chars().next()
}

#[test]
fn the_direction_in_a_go_file_overrides_a_guess() {
    // golang/go#43744
    for (unit, head, want) in [
        ("ns/op", "", Some('-')),
        ("ns/op", "Unit ns/op better=higher\n", Some('+')),
        ("ns/op", "Unit sec/op better=higher\n", Some('+')),
        ("MB/s", "Unit B/s better=lower\n", Some('-')),
        (
            "p99-ns/op",
            "Unit p99-sec/op better=higher assume=nothing\n",
            Some('+'),
        ),
        ("file-bytes", "", None),
        (
            "file-bytes",
            "Unit file-bytes better=lower assume=exact\n",
            Some('-'),
        ),
        (
            "file-bytes",
            "Unit file-bytes assume=exact better=lower\n",
            Some('-'),
        ),
        ("file-bytes", "Unit other better=lower\n", None),
        ("hits", "Unit hits better=lower\n", Some('-')),
    ] {
        assert_eq!(direction(unit, head, head), want, "{unit} {head}");
        // One file may declare it for both, anywhere.
        assert_eq!(direction(unit, head, ""), want, "{unit} {head}");
        assert_eq!(
            direction(unit, "", &format!("goos: linux\n{head}")),
            want,
            "{unit} {head}"
        );
    }
    let late = |figures| go("hits", "", figures) + "Unit hits better=lower\n";
    let (old, new) = (late([5, 6, 7]), late([6, 7, 8]));
    let figures = read_all(
        &[("old.txt", &old), ("new.txt", &new)],
        &["old.txt", "new.txt"],
    );
    assert!(rendered(&figures).starts_with("A hits [hits] - new"));
}

#[test]
fn an_invalid_unit_line_is_refused() {
    let good = go("ns/op", "", [5, 6, 7]);
    for (head, why) in [
        (
            "Unit ns/op better=faster\n",
            "new.txt:1: no direction of the unit sec/op",
        ),
        (
            "Unit ns/op better=lower\nUnit sec/op better=higher\n",
            "new.txt:2: another direction",
        ),
    ] {
        let bad = go("ns/op", head, [6, 7, 8]);
        refuse(
            &[("old.txt", &good), ("new.txt", &bad)],
            &["old.txt", "new.txt"],
            &[why],
        );
    }
    let (old, new) = (
        go("hits", "Unit hits better=lower\n", [5, 6, 7]),
        go("hits", "Unit hits better=higher\n", [6, 7, 8]),
    );
    refuse(
        &[("old.txt", &old), ("new.txt", &new)],
        &["old.txt", "new.txt"],
        &["the other direction"],
    );
}

#[test]
fn an_exact_unit_that_varies_gives_a_remark() {
    let head = "Unit B better=lower assume=exact\n";
    let (old, new) = (go("B", head, [5, 5, 5]), go("B", head, [6, 7, 8]));
    let figures = read_all(
        &[("old.txt", &old), ("new.txt", &new)],
        &["old.txt", "new.txt"],
    );
    remarks(&figures, &["new.txt: A B scatters", "assume=exact"]);
    assert!(
        !figures
            .remarks
            .iter()
            .any(|remark| remark.contains("old.txt: A B"))
    );
}

// ---- directions ----

#[test]
fn a_metric_whose_name_and_unit_disagree_needs_the_users_choice() {
    let csv = "arm,block,metric,value,unit\nold,1,failed,5,requests/s\nnew,1,failed,9,requests/s\n\
               old,2,failed,6,requests/s\nnew,2,failed,9,requests/s\n";
    refuse(
        &[("d.csv", csv)],
        &["d.csv"],
        &[
            "say different things about which way is better: failed",
            "--lower-is-better",
        ],
    );
    let with_time =
        format!("{csv}old,1,time,1,s\nnew,1,time,2,s\nold,2,time,2,s\nnew,2,time,3,s\n");
    let figures = read_all(&[("d.csv", &with_time)], &["d.csv"]);
    assert_eq!(figures.comparisons.len(), 1);
    remarks(&figures, &["left out", "failed"]);
    let options = ImportOptions {
        direction: Some(record::metric::Direction::Lower),
        ..Default::default()
    };
    assert_eq!(
        judge(&[("d.csv", csv)], &["d.csv"], &options)
            .unwrap()
            .comparisons
            .len(),
        1
    );
}

#[test]
fn the_name_of_a_benchmark_does_not_give_its_direction() {
    let of = |time: u32| {
        format!(
            "pkg: p\nBenchmarkErrorThroughput 1 {time} ns/op\npkg: p\nBenchmarkErrorThroughput 1 9{time} ns/op\n"
        )
    };
    let figures = read_all(
        &[("old.txt", &of(5)), ("new.txt", &of(6))],
        &["old.txt", "new.txt"],
    );
    assert!(rendered(&figures).starts_with("ErrorThroughput ns/op [ns/op] -"));
}

#[test]
fn only_the_measured_part_of_a_name_has_a_direction() {
    let csv = "arm,block,benchmark,metric,value,unit\nold,1,errors,speed,5,MB/s\nnew,1,errors,speed,9,MB/s\n\
               old,2,errors,speed,6,MB/s\nnew,2,errors,speed,9,MB/s\n";
    let figures = read_all(&[("d.csv", csv)], &["d.csv"]);
    assert!(rendered(&figures).starts_with("errors speed [MB/s] +"));
}

// ---- memory of hyperfine ----

#[test]
fn memory_of_hyperfine_is_judged_when_asked_for() {
    let text = r#"{"results": [
        {"command": "a", "times": [1.5, 1.6], "memory_usage_byte": [4096, 8192], "exit_codes": [0, 0]},
        {"command": "b", "times": [1.7, 1.8], "memory_usage_byte": [4096, 4096], "exit_codes": [0, 0]}]}"#;
    let figures = read_all(&[("h.json", text)], &["h.json"]);
    assert_eq!(
        rendered(&figures),
        "time [s] - b: runs [1.5, 1.6] [1.7, 1.8]\n"
    );
    remarks(&figures, &["only when asked for", "memory"]);
    let options = ImportOptions {
        metrics: vec!["memory".into()],
        ..Default::default()
    };
    let figures = judge(&[("h.json", text)], &["h.json"], &options).unwrap();
    assert_eq!(
        rendered(&figures),
        "memory [B] - b: runs [4096.0, 8192.0] [4096.0, 4096.0]\n"
    );
}

// ---- copies ----

#[test]
fn copies_of_one_run_are_refused() {
    let oha = |rate: f64| {
        format!(
            r#"{{"summary": {{"successRate": 1.0, "average": 8e-05, "requestsPerSec": {rate}}},
                "latencyPercentiles": {{"p50": 5.1e-05, "p99": 0.00052}}}}"#
        )
    };
    let k6 =
        |rate: f64| format!(r#"{{"metrics": {{"http_reqs": {{"count": 5, "rate": {rate}}}}}}}"#);
    let hyperfine = |time: f64| {
        format!(
            r#"{{"results": [{{"command": "a", "times": [{time}]}}, {{"command": "b", "times": [1.70312]}}]}}"#
        )
    };
    let google = |time: f64| {
        format!(
            r#"{{"benchmarks": [{{"name": "A", "run_type": "iteration", "real_time": {time}}}]}}"#
        )
    };
    let go = |time: f64| {
        format!(
            "pkg: p\nBenchmarkA 9 {time} ns/op\nBenchmarkA 9 50.25 ns/op\nBenchmarkA 9 7 ns/op\n"
        )
    };
    let rows = |time: f64| {
        format!("arm,block,time\na,1,{time}\na,2,1.5\na,3,1.6\nb,1,1.9\nb,2,1.6\nb,3,1.8\n")
    };
    let plain = |time: f64| format!("{time}\n101\n102\n");
    let formats: [&dyn Fn(f64) -> String; 7] = [&oha, &k6, &hyperfine, &google, &go, &rows, &plain];
    for text in formats {
        let (first_run, second_run) = (text(48_854.937), text(47_000.125));
        let copied = first_run.replace('\n', "\r\n") + "\n";
        let files: Files<'_> = &[
            ("a/1.x", &first_run),
            ("a/2.x", &second_run),
            ("b/1.x", &copied),
        ];
        refuse(
            files,
            &["a", "b"],
            &["b/1.x", "the same figures as in a/1.x"],
        );
    }
    let copy = go(48_854.937) + &go(48_854.937);
    refuse(
        &[("old.txt", &copy), ("new.txt", &go(5.5))],
        &["old.txt", "new.txt"],
        &["old.txt:6", "as in old.txt:2"],
    );
}

#[test]
fn figures_without_noise_may_repeat() {
    let sizes = "Unit B better=lower assume=exact\npkg: p\nBenchmarkA 1 104857601 B 7 allocs/op\n";
    let two = sizes.repeat(2);
    let figures = read_all(
        &[("old.txt", &two), ("new.txt", &two)],
        &["old.txt", "new.txt"],
    );
    assert_eq!(figures.comparisons.len(), 2);
    let files: Files<'_> = &[("old.txt", "1\n2\n"), ("new.txt", "1\n2\n")];
    refuse(files, &["old.txt", "new.txt"], &["which way is better"]);
}

// ---- decimal commas ----

#[test]
fn a_decimal_comma_is_named() {
    for (name, text, words) in [
        (
            "a.txt",
            "1,5\n1,6\n1,7\n",
            ["a.txt:1: a decimal comma: \"1,5\"", "write 1.5"],
        ),
        (
            "a.txt",
            "1.5\n-1.234,5\n1.7\n",
            ["a.txt:2: a decimal comma", "write -1234.5"],
        ),
        (
            "a.txt",
            "1,234,567\n7\n",
            ["a decimal comma: \"1,234,567\"", "write 1234567"],
        ),
        (
            "a.csv",
            "arm;block;value\nold;1;12,5\nnew;1;13,5\n",
            ["a.csv:2: a decimal comma in column \"value\"", "write 12.5"],
        ),
        (
            "a.csv",
            "arm,block,value\nold,1,\"12,5e3\"\nnew,1,3\n",
            ["a.csv:2: a decimal comma", "write 12.5e3"],
        ),
        (
            "a.tsv",
            "arm\tblock\ttime (s)\nold\t1\t0,5\nnew\t1\t2\n",
            ["a.tsv:2: a decimal comma", "write 0.5"],
        ),
        (
            "a.txt",
            "BenchmarkA-2 100 625,6 ns/op\nBenchmarkA-2 100 7 ns/op\n",
            ["a.txt:1: a decimal comma", "write 625.6"],
        ),
        (
            "a.csv",
            "arm,block,value\nold,1,12,5\nnew,1,13,5\n",
            ["a.csv:2: 4 columns under a head of 3", "decimal"],
        ),
    ] {
        refuse(&[(name, text)], &[name], &words);
    }
}

#[test]
fn a_decimal_comma_that_breaks_json_is_named_too() {
    let json = "{\"arm\":\"a\",\"value\":1,5}\n{\"arm\":\"b\",\"value\":2}\n";
    refuse(
        &[("a.jsonl", json)],
        &["a.jsonl"],
        &["a.jsonl:1: a decimal comma: \"1,5\"", "write 1.5"],
    );
}
