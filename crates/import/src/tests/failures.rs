//! Work that a tool itself reports as failed is judged, or left out with its reason, and always reported.

use std::fmt::Write;

use expect_test::expect;

use super::{Files, check, judge, read_all, refuse, remarks, rendered};
use crate::compare::ImportOptions;

/// Ten files of each arm; `text` gets whether the arm is new, and the number of the file.
fn ten(text: impl Fn(bool, u32) -> String) -> Vec<(String, String)> {
    let file = |number: u32| {
        let is_new = number % 2 == 1;
        let name = format!("{}/{number}.json", if is_new { "new" } else { "old" });
        (name, text(is_new, number))
    };
    (0..20).map(file).collect()
}

fn borrowed(files: &[(String, String)]) -> Vec<(&str, &str)> {
    files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect()
}

/// The figures of a failure metric, if it is judged.
#[track_caller]
fn failed(files: &[(String, String)], metric: &str) -> Option<String> {
    let figures = read_all(&borrowed(files), &["old", "new"]);
    let rendered = rendered(&figures);
    rendered
        .lines()
        .find(|line| line.starts_with(metric))
        .map(String::from)
}

// ---- oha ----

fn oha(number: u32, successes: f64, statuses: &str, errors: &str) -> String {
    format!(
        r#"{{"summary": {{"successRate": {successes}, "average": 8e-05, "requestsPerSec": 4{number}001.5}},
  "latencyPercentiles": {{"p50": 5.{number}e-05, "p99": 0.0005{number}}},
  "statusCodeDistribution": {{{statuses}}}, "errorDistribution": {{{errors}}}}}"#
    )
}

#[test]
fn failures_of_oha_are_counted_by_status() {
    // hatoo/oha#212
    let files = ten(|is_new, number| {
        if is_new {
            oha(number, 1.0, r#""200": 60000, "503": 40000"#, "")
        } else {
            oha(number, 1.0, r#""200": 100000"#, "")
        }
    });
    let figures = read_all(&borrowed(&files), &["old", "new"]);
    let rendered = rendered(&figures);
    let want = format!("failed [share] - new: runs {:?} {:?}", [0.0; 10], [0.4; 10]);
    assert!(rendered.lines().any(|line| line == want), "{rendered}");
    remarks(
        &figures,
        &["work failed in 10 of 10 runs of new: failed, at most 40 %"],
    );
}

#[test]
fn every_kind_of_failed_request_of_oha_counts() {
    for (successes, statuses, errors, share) in [
        (1.0, r#""204": 5, "302": 3, "404": 2"#, "", 0.2),
        (1.0, r#""429": 10"#, "", 1.0),
        (0.5, r#""200": 5"#, r#""connection refused": 5"#, 0.5),
        (1.0, r#""200": 5"#, r#""aborted due to deadline": 5"#, 0.0),
        (1.0, r#""101": 5, "200": 5"#, "", 0.5),
        (0.75, "", "", 0.25),
    ] {
        let files = ten(|is_new, number| {
            if is_new {
                oha(number, successes, statuses, errors)
            } else {
                oha(number, 1.0, r#""200": 9"#, r#""timeout": 1"#)
            }
        });
        let want = format!(
            "failed [share] - new: runs {:?} {:?}",
            [0.1; 10], [share; 10]
        );
        assert_eq!(failed(&files, "failed"), Some(want), "{statuses} {errors}");
    }
}

#[test]
fn latencies_of_an_oha_run_without_a_response_are_left_out() {
    let files = ten(|is_new, number| {
        let text = oha(number, if is_new { 0.0 } else { 1.0 }, "", "");
        if is_new {
            text.replace("8e-05", "null")
                .replace("\"p50\": 5.", "\"p50\": null, \"p51\": 5.")
        } else {
            text
        }
    });
    let figures = read_all(&borrowed(&files), &["old", "new"]);
    let rendered = rendered(&figures);
    assert!(
        rendered.contains("failed [share]") && rendered.contains("latency p99"),
        "{rendered}"
    );
    assert!(!rendered.contains("latency p50"), "{rendered}");
    remarks(
        &figures,
        &[
            "left out, because it is null (first in new/1.json:2)",
            "latency p50",
        ],
    );
}

#[test]
fn no_failures_anywhere_are_not_judged() {
    let files = ten(|_, number| oha(number, 1.0, r#""200": 5"#, ""));
    assert_eq!(failed(&files, "failed"), None);
}

#[test]
fn failures_are_always_lower_is_better() {
    let files = ten(|is_new, number| {
        if is_new {
            oha(number, 1.0, r#""200": 5, "500": 5"#, "")
        } else {
            oha(number, 1.0, r#""200": 10"#, "")
        }
    });
    let options = ImportOptions {
        direction: Some(record::metric::Direction::Higher),
        ..Default::default()
    };
    let figures = judge(&borrowed(&files), &["old", "new"], &options).unwrap();
    assert!(
        rendered(&figures).contains("failed [share] - new"),
        "{}",
        rendered(&figures)
    );
    let options = ImportOptions {
        metrics: vec!["requests".into()],
        ..Default::default()
    };
    let figures = judge(&borrowed(&files), &["old", "new"], &options).unwrap();
    assert_eq!(figures.comparisons.len(), 1);
    remarks(&figures, &["work failed in 10 of 10 runs of new"]);
}

// ---- k6 ----

fn k6(number: u32, more: &str) -> String {
    format!(
        r#"{{"root_group": {{}}, "metrics": {{"http_reqs": {{"count": 5000, "rate": 1{number}4.125}},
  "http_req_duration": {{"avg": 0.06, "med": 0.{number}3, "p(95)": 0.{number}4}},
  "iterations": {{"count": 80, "rate": 1.5}}, {more}}}}}"#
    )
}

#[test]
fn k6_reports_four_kinds_of_failure() {
    for (metric, old, new, want) in [
        (
            "http_req_failed rate",
            r#""http_req_failed": {"value": 0, "passes": 0, "fails": 5000}"#,
            r#""http_req_failed": {"value": 0.25, "passes": 1250, "fails": 3750}"#,
            [0.0, 0.25],
        ),
        (
            "http_req_failed rate",
            r#""http_req_failed": {"type": "rate", "contains": "default", "values": {"rate": 0.5}}"#,
            r#""http_req_failed": {"type": "rate", "contains": "default", "values": {"rate": 0.75}}"#,
            [0.5, 0.75],
        ),
        (
            "checks failed",
            r#""checks": {"value": 1, "passes": 80, "fails": 0}"#,
            r#""checks": {"value": 0.75, "passes": 60, "fails": 20}"#,
            [0.0, 0.25],
        ),
        // k6 writes this metric only if iterations were dropped.
        (
            "iterations dropped",
            r#""vus": {"value": 1, "min": 1, "max": 1}"#,
            r#""dropped_iterations": {"count": 20, "rate": 0.5}"#,
            [0.0, 0.2],
        ),
        (
            "thresholds failed",
            r#""d": {"avg": 1, "thresholds": {"avg<2": false, "avg<3": false}}"#,
            r#""d": {"avg": 2.5, "thresholds": {"avg<2": true, "avg<3": false}}"#,
            [0.0, 0.5],
        ),
        (
            "thresholds failed",
            r#""d": {"type": "trend", "values": {"avg": 1}, "thresholds": {"avg<2": {"ok": true}}}"#,
            r#""d": {"type": "trend", "values": {"avg": 3}, "thresholds": {"avg<2": {"ok": false}}}"#,
            [0.0, 1.0],
        ),
    ] {
        let files = ten(|is_new, number| k6(number, if is_new { new } else { old }));
        let [before, after] = want;
        let want = format!(
            "{metric} [share] - new: runs {:?} {:?}",
            [before; 10], [after; 10]
        );
        assert_eq!(failed(&files, metric), Some(want));
        let figures = read_all(&borrowed(&files), &["old", "new"]);
        remarks(&figures, &["work failed in 10 of 10 runs of new", metric]);
    }
}

#[test]
fn a_threshold_that_failed_is_named() {
    let crossed = r#""http_req_duration{name:a}": {"avg": 1, "thresholds": {"p(95)<200": true}}"#;
    let files = ten(|_, number| k6(number, crossed));
    let figures = read_all(&borrowed(&files), &["old", "new"]);
    remarks(
        &figures,
        &["a threshold of k6 failed: http_req_duration{name:a} p(95)<200"],
    );
}

// ---- Go and hyperfine: a run that failed is left out alone ----

/// Three processes of one package, without the last lines of the last one.
const GOOD: &str = "pkg: p\nBenchmarkA-2 100 12.4 ns/op\nBenchmarkB-2 100 13.4 ns/op\nok p 1s\n\
                    pkg: p\nBenchmarkA-2 100 12.5 ns/op\nBenchmarkB-2 100 13.5 ns/op\nok p 1s\n\
                    pkg: p\nBenchmarkA-2 100 12.6 ns/op\n";

/// The comparisons if the last process of the new arm continues with `end`; one remark must contain `words`.
#[track_caller]
fn go(end: &str, words: &[&str]) -> String {
    let old = GOOD
        .replace(".4", ".1")
        .replace(".5", ".2")
        .replace(".6", ".3");
    let old = old + "BenchmarkB-2 100 13.3 ns/op\nok p 1s\n";
    let new = format!("{GOOD}{end}\n");
    let files: Files<'_> = &[("old.txt", &old), ("new.txt", &new)];
    let figures = read_all(files, &["old.txt", "new.txt"]);
    if words.is_empty() {
        assert_eq!(figures.remarks, Vec::<String>::new());
    } else {
        remarks(&figures, words);
    }
    rendered(&figures)
}

/// The comparisons of A and B with these figures of the new arm.
fn judged(a: &str, b: &str) -> String {
    format!(
        "A ns/op [ns/op] - new: runs [12.1, 12.2, 12.3] [{a}]\n\
         B ns/op [ns/op] - new: runs [13.1, 13.2, 13.3] [{b}]\n"
    )
}

const ALL_OF_A: &str = "12.4, 12.5, 12.6";
const ALL_OF_B: &str = "13.4, 13.5, 13.6";

#[test]
fn a_benchmark_of_go_that_failed_is_left_out_alone() {
    for end in [
        "--- FAIL: BenchmarkB-2\n    b_test.go:9: no device\nFAIL\nexit status 1\nFAIL\tp\t1.2s\nFAIL",
        "BenchmarkB-2 \t--- FAIL: BenchmarkB-2\nFAIL\nexit status 1\nFAIL\tp\t1.2s",
        "BenchmarkB-2   \tpanic: boom [recovered]\n\tpanic: boom\n\ngoroutine 1 [running]:\nexit status 2\nFAIL\tp\t1.2s",
        "BenchmarkB-2\npanic: test timed out after 10m0s\nexit status 2\nFAIL\tp\t600.0s\nFAIL",
        "BenchmarkB-2   \tfatal error: all goroutines are asleep - deadlock!\nexit status 2\nFAIL\tp\t1.2s",
        "BenchmarkB-2   \tsignal: killed\nFAIL\tp\t1.2s",
        "BenchmarkB-2   \texit status 66\nFAIL\tp\t1.2s",
        "BenchmarkB-2   \t*** Test killed with quit: ran too long (11m0s).\nexit status 2\nFAIL\tp\t660.0s",
    ] {
        let words = [": BenchmarkB-2 failed and is left out there", "new.txt:"];
        assert_eq!(go(end, &words), judged(ALL_OF_A, "13.4, 13.5"), "{end}");
        go(
            end,
            &["work failed in 1 of 1 runs of new", "benchmarks failed"],
        );
    }
    let sub = "BenchmarkB-2 100 13.6 ns/op\n    --- FAIL: BenchmarkC/sub-2\nFAIL\nexit status 1\nFAIL p 1s";
    let words = ["new.txt:12: BenchmarkC/sub-2 failed"];
    assert_eq!(go(sub, &words), judged(ALL_OF_A, ALL_OF_B));
}

#[test]
fn figures_of_a_go_benchmark_that_fails_afterwards_are_left_out() {
    for end in [
        "BenchmarkB-2 100 13.6 ns/op\n--- FAIL: BenchmarkB-2\n    b_test.go:9: wrong answer\nFAIL\nFAIL p 1s",
        "BenchmarkB-2 100 13.6 ns/op\nBenchmarkB-2 100 13.7 ns/op\n--- FAIL: BenchmarkB\nFAIL\nexit status 1\nFAIL p 1s",
        "BenchmarkB-2 100 13.6 ns/op\n--- FAIL: BenchmarkB-2\n    testing.go:1: race detected during execution of test\nFAIL p 1s",
    ] {
        let words = [" failed and is left out there"];
        assert_eq!(go(end, &words), judged(ALL_OF_A, "13.4, 13.5"), "{end}");
    }
}

#[test]
fn a_process_of_go_that_failed_without_a_name_is_left_out_whole() {
    for end in [
        "FAIL",
        "FAIL\tp\t1.204s",
        "exit status 66\nFAIL\tp\t1.204s\nFAIL",
        "panic: runtime error: index out of range\nexit status 2\nFAIL p 1s",
        "--- FAIL: BenchmarkC-2\nfatal error: out of memory\nexit status 2\nFAIL p 1s",
        "signal: killed",
    ] {
        let words = [
            "new.txt:",
            "names no benchmark, so its 2 figures are left out",
        ];
        let rendered = go(&format!("BenchmarkB-2 100 13.6 ns/op\n{end}"), &words);
        assert_eq!(rendered, judged("12.4, 12.5", "13.4, 13.5"), "{end}");
    }
}

#[test]
fn another_package_of_go_that_failed_leaves_this_one_alone() {
    let all = judged(ALL_OF_A, ALL_OF_B);
    for end in [
        "ok p 1s\nFAIL\tq [build failed]\nFAIL",
        "FAIL\tq [setup failed]\nok p 1s",
    ] {
        let end = format!("BenchmarkB-2 100 13.6 ns/op\n{end}");
        assert_eq!(go(&end, &["q failed and is left out"]), all);
    }
    let log = "BenchmarkB-2 100 13.6 ns/op\nsome log: no panic: here, exit status 0\nok p 1s";
    assert_eq!(go(log, &[]), all);
}

#[test]
fn a_file_of_go_of_which_nothing_is_left_is_refused() {
    for bad in [
        "--- FAIL: BenchmarkB-2\nFAIL\nexit status 1\nFAIL\tp\t1s\n",
        "pkg: p\nBenchmarkB-2 \t--- FAIL: BenchmarkB-2\nFAIL\nexit status 1\nFAIL\tp\t1s\n",
        "BenchmarkB-2 100 13.5 ns/op\nBenchmarkB-2 100 13.6 ns/op\nexit status 66\n",
    ] {
        refuse(
            &[("old.txt", GOOD), ("new.txt", bad)],
            &["old.txt", "new.txt"],
            &["new.txt: nothing is left to judge", "failed"],
        );
    }
}

/// An export of two commands; `b` has these exit codes.
fn hyperfine(codes: &str) -> String {
    format!(
        r#"{{"results": [{{"command": "a", "times": [1.5, 1.6, 1.4], "exit_codes": [0, 0, 0]}},
            {{"command": "b", "times": [1.7, 1.8, 1.9], "memory_usage_byte": [1, 2, 3], "exit_codes": [{codes}]}}]}}"#
    )
}

#[test]
fn a_run_of_hyperfine_that_failed_is_left_out_alone() {
    for (codes, times, remark) in [
        (
            "0, 1, 0",
            "[1.7, 1.9]",
            "1 of 3 runs of \"b\" failed (exit status 1)",
        ),
        (
            "137, 0, 0",
            "[1.8, 1.9]",
            "1 of 3 runs of \"b\" failed (exit status 137)",
        ),
        (
            "0, 0, null",
            "[1.7, 1.8]",
            "1 of 3 runs of \"b\" failed (a signal)",
        ),
    ] {
        let text = hyperfine(codes);
        let figures = read_all(&[("h.json", &text)], &["h.json"]);
        let rendered = rendered(&figures);
        let want = format!("time [s] - b: runs [1.5, 1.6, 1.4] {times}\n");
        assert!(rendered.starts_with(&want), "{rendered}");
        remarks(&figures, &[remark, "left out"]);
        remarks(
            &figures,
            &["work failed in 1 of 1 runs of b", "runs failed"],
        );
    }
}

#[test]
fn a_command_of_hyperfine_that_always_failed_is_left_out_and_the_others_are_judged() {
    let third = r#", {"command": "c", "times": [1.2, 1.3], "exit_codes": [0, 0]}]}"#;
    let text = hyperfine("1, 1, 1").replace("]}]}", &format!("]}}{third}"));
    let figures = read_all(&[("h.json", &text)], &["h.json"]);
    remarks(&figures, &["3 of 3 runs of \"b\" failed (exit status 1)"]);
    let rendered = rendered(&figures);
    assert!(
        rendered.starts_with("time [s] - c: runs [1.5, 1.6, 1.4] [1.2, 1.3]\n"),
        "{rendered}"
    );
    let text = hyperfine("null, 0, 2").replace("]}]}", &format!("]}}{third}"));
    let figures = read_all(&[("h.json", &text)], &["h.json"]);
    remarks(
        &figures,
        &["2 of 3 runs of \"b\" failed (a signal, exit status 2)"],
    );
    remarks(
        &figures,
        &["left out, because one run only of b did not fail: time"],
    );
    assert_eq!(self::rendered(&figures), rendered);
    // Without an exit code per time, a time cannot be matched with its run.
    let text = hyperfine("0, 1").replace("]}]}", &format!("]}}{third}"));
    let figures = read_all(&[("h.json", &text)], &["h.json"]);
    assert!(!self::rendered(&figures).contains("- b: runs"));
}

#[test]
fn a_block_of_hyperfine_in_which_a_command_failed_is_left_out_alone() {
    let export = |number: u32| {
        let codes = if number == 2 { "1, 1, 1" } else { "0, 0, 0" };
        (
            format!("{number}.json"),
            hyperfine(codes).replace("1.", &format!("{number}.")),
        )
    };
    let exports: Vec<_> = (1..=3).map(export).collect();
    let figures = read_all(&borrowed(&exports), &["1.json", "2.json", "3.json"]);
    remarks(&figures, &["2.json is left out, because b failed in it"]);
    let rendered = rendered(&figures);
    assert!(
        rendered.starts_with("time [s] - b: blocks [1.5, 3.5] [1.8, 3.8]\n"),
        "{rendered}"
    );
}

#[test]
fn an_export_of_hyperfine_of_which_nothing_is_left_is_refused() {
    let text = hyperfine("1, 1, 1").replace("[0, 0, 0]", "[2, 2, 2]");
    refuse(
        &[("h.json", &text)],
        &["h.json"],
        &[
            "nothing is left to judge",
            "3 of 3 runs of \"a\" failed (exit status 2)",
        ],
    );
}

// ---- google-benchmark ----

/// One benchmark as the library writes it, with further keys.
fn google(number: u32, more: &str) -> String {
    let benchmark = |name: &str, time: f64| {
        format!(
            "{{\"name\": \"{name}\", \"run_name\": \"{name}\", \"run_type\": \"iteration\", \"threads\": 1,\n\
             \"iterations\": 1000, \"real_time\": {time}, \"cpu_time\": {time}, \"time_unit\": \"ns\"{more}}}"
        )
    };
    let time = 10.125 + f64::from(number);
    format!(
        "{{\"context\": {{}}, \"benchmarks\": [\n{}\n]}}",
        benchmark("BM_Good", time)
    )
}

fn with(text: &str, benchmark: &str) -> String {
    text.replace("\n]}", &format!(",\n{benchmark}\n]}}"))
}

#[test]
fn a_benchmark_that_failed_or_was_skipped_is_left_out_alone() {
    for (entry, words) in [
        (
            r#"{"name": "BM_Bad", "run_name": "BM_Bad", "run_type": "iteration", "error_occurred": true,
                "error_message": "no device", "real_time": 0.0, "cpu_time": 0.0, "time_unit": "ns"}"#,
            [
                "it failed with \"no device\"",
                "first in new/1.json",
                "BM_Bad real time",
            ],
        ),
        (
            r#"{"name": "BM_Bad", "run_name": "BM_Bad", "run_type": "iteration", "skipped": true,
                "skip_message": "needs AVX", "iterations": 0, "real_time": NaN, "cpu_time": NaN}"#,
            ["first in new/1.json", "needs AVX", "BM_Bad real time"],
        ),
    ] {
        let fine = |number: u32| {
            entry
                .replace("true", "false")
                .replace("0.0,", &format!("5.{number},"))
                .replace("NaN", &format!("5.{number}"))
        };
        let files = ten(|_, number| {
            with(
                &google(number, ""),
                &if number == 1 {
                    entry.into()
                } else {
                    fine(number)
                },
            )
        });
        let figures = read_all(&borrowed(&files), &["old", "new"]);
        remarks(&figures, &words);
        let rendered = rendered(&figures);
        assert!(
            rendered.contains("BM_Good real time") && !rendered.contains("BM_Bad"),
            "{rendered}"
        );
        let is_failure = entry.contains("error");
        assert_eq!(
            rendered.contains("benchmarks failed [share] - new"),
            is_failure,
            "{rendered}"
        );
    }
}

#[test]
fn counters_that_are_no_numbers_are_left_out_alone() {
    for value in ["NaN", "Infinity", "-Infinity", "nan", "-nan", "inf"] {
        let more = format!(", \"hits\": 5, \"ratio\": {value}, \"label\": \"NaN, Infinity\"");
        let files = ten(|_, number| google(number, &more));
        let figures = read_all(&borrowed(&files), &["old", "new"]);
        remarks(
            &figures,
            &[
                "it is NaN or Infinity (first in old/0.json:3)",
                "BM_Good ratio",
            ],
        );
        assert!(
            rendered(&figures).starts_with("BM_Good real time"),
            "{value}"
        );
        remarks(&figures, &["only when asked for", "BM_Good hits"]);
    }
    let files = ten(|_, number| {
        google(number, "").replace("\"real_time\": 1", "\"real_time\": NaN, \"x\": 1")
    });
    let why = judge(
        &borrowed(&files),
        &["old", "new"],
        &ImportOptions {
            metrics: vec!["real".into()],
            ..Default::default()
        },
    );
    assert!(why.unwrap_err().contains("NaN or Infinity"));
}

#[test]
fn nothing_left_to_judge_is_an_error_with_the_reason() {
    let entry = r#"{"name": "BM_Bad", "error_occurred": true, "error_message": "no device", "real_time": 0}"#;
    let only = format!("{{\"context\": {{}}, \"benchmarks\": [{entry}]}}");
    let files: Files<'_> = &[("old.json", &only), ("new.json", &only)];
    refuse(
        files,
        &["old.json", "new.json"],
        &["no device", "BM_Bad real time"],
    );
}

// ---- Phoronix ----

fn phoronix(second: &str) -> String {
    let mut text = "<?xml version=\"1.0\"?>\n<PhoronixTestSuite>\n".to_string();
    let entry = |system: &str, value: &str, runs: &str| {
        format!(
            "<Entry><Identifier>{system}</Identifier><Value>{value}</Value><RawString>{runs}</RawString></Entry>\n"
        )
    };
    let data = entry("6.1", "11", "10:11:12") + &entry("7.2", "21", "20:21:22");
    write!(
        text,
        "<Result><Title>Good</Title><Scale>MB/s</Scale><Proportion>HIB</Proportion>\n\
         <DisplayFormat>BAR_GRAPH</DisplayFormat><Data>{data}</Data></Result>\n\
         <Result><Title>Odd</Title>{second}</Result>\n</PhoronixTestSuite>\n"
    )
    .unwrap();
    text
}

#[test]
fn results_of_phoronix_that_are_no_figures_are_left_out_alone() {
    let entries = |value: &str, runs: &str| {
        let entry = |system: &str| {
            format!(
                "<Entry><Identifier>{system}</Identifier><Value>{value}</Value><RawString>{runs}</RawString></Entry>"
            )
        };
        format!("<Data>{}{}</Data>", entry("6.1"), entry("7.2"))
    };
    let line = "45.1,46.2,47.3,48.4";
    for (second, words) in [
        (
            format!(
                "<DisplayFormat>LINE_GRAPH</DisplayFormat>{}",
                entries(line, "")
            ),
            ["line over time", "Odd"],
        ),
        (
            format!(
                "<DisplayFormat>FILLED_LINE_GRAPH</DisplayFormat>{}",
                entries(line, line)
            ),
            ["line over time", "Odd"],
        ),
        (
            format!("<Scale>Celsius</Scale>{}", entries(line, line)),
            ["line over time", "Odd"],
        ),
        (
            format!(
                "<DisplayFormat>PASS_FAIL</DisplayFormat>{}",
                entries("PASS", "PASS")
            ),
            ["PASS or FAIL", "Odd"],
        ),
        (
            format!(
                "<DisplayFormat>MULTI_PASS_FAIL</DisplayFormat>{}",
                entries("PASS,FAIL", "")
            ),
            ["PASS or FAIL", "Odd"],
        ),
        (
            format!(
                "<DisplayFormat>IMAGE_COMPARISON</DisplayFormat>{}",
                entries("aGk=", "")
            ),
            ["display format is IMAGE_COMPARISON", "Odd"],
        ),
        (entries("", ""), ["6.1 failed", "Odd"]),
        (entries("55", ""), ["mean alone", "Odd"]),
    ] {
        let text = phoronix(&second);
        let figures = read_all(&[("c.xml", &text)], &["c.xml"]);
        assert_eq!(
            rendered(&figures),
            "Good [MB/s] + 7.2: runs [10.0, 11.0, 12.0] [20.0, 21.0, 22.0]\n"
        );
        remarks(&figures, &words);
    }
}

#[test]
fn a_system_that_failed_one_test_is_named() {
    let second = "<Proportion>LIB</Proportion><Data>\
        <Entry><Identifier>6.1</Identifier><Value>5</Value><RawString>5:6</RawString></Entry>\
        <Entry><Identifier>7.2</Identifier><Value></Value><RawString></RawString></Entry></Data>";
    let text = phoronix(second);
    let figures = read_all(&[("c.xml", &text)], &["c.xml"]);
    remarks(&figures, &["7.2 failed, so it is not judged: Odd"]);
    check(
        &[("c.xml", &text)],
        &["c.xml"],
        &expect![[r#"
            Good [MB/s] + 7.2: runs [10.0, 11.0, 12.0] [20.0, 21.0, 22.0]
        "#]],
    );
}

#[test]
fn a_system_that_did_not_pass_is_named() {
    let second = "<DisplayFormat>MULTI_PASS_FAIL</DisplayFormat><Data>\
        <Entry><Identifier>6.1</Identifier><Value>PASS,PASS</Value></Entry>\
        <Entry><Identifier>7.2</Identifier><Value>PASS,FAIL</Value></Entry></Data>";
    let text = phoronix(second);
    let figures = read_all(&[("c.xml", &text)], &["c.xml"]);
    remarks(&figures, &["7.2 has FAIL in Odd"]);
    let names_other = |remark: &String| remark.contains("6.1 has FAIL");
    assert!(!figures.remarks.iter().any(names_other));
}

#[test]
fn a_file_of_phoronix_without_any_figure_is_refused() {
    let only = phoronix("").replace("BAR_GRAPH", "PASS_FAIL");
    refuse(&[("c.xml", &only)], &["c.xml"], &["PASS or FAIL", "Good"]);
}
