//! Figures that a file distinguishes are never pooled.

use std::fmt::Write;

use expect_test::expect;

use super::{Files, check, read_all, refuse, remarks, rendered};

// ---- Go ----

/// Three processes with one line per name and figure; each process adds its number to the figure.
fn go(lines: &[(&str, u32)]) -> String {
    let mut text = String::new();
    for process in 0..3 {
        text.push_str("goos: linux\ngoarch: amd64\npkg: example.org/p\ncpu: any\n");
        for (name, figure) in lines {
            writeln!(text, "Benchmark{name} 100 {} ns/op", figure + process).unwrap();
        }
        text.push_str("PASS\nok example.org/p 1.0s\n");
    }
    text
}

#[test]
fn benchmarks_that_differ_in_processors_alone_stay_apart() {
    // golang/go#30056
    let old = go(&[("Par", 10), ("Par-2", 20), ("Par-4", 30)]);
    let new = go(&[("Par", 10), ("Par-2", 20), ("Par-4", 270)]);
    let new = new.replace(" 10 ns", " 11 ns").replace(" 20 ns", " 21 ns");
    check(
        &[("old.txt", &old), ("new.txt", &new)],
        &["old.txt", "new.txt"],
        &expect![[r#"
            Par ns/op [ns/op] - new: runs [10.0, 11.0, 12.0] [11.0, 11.0, 12.0]
            Par-2 ns/op [ns/op] - new: runs [20.0, 21.0, 22.0] [21.0, 21.0, 22.0]
            Par-4 ns/op [ns/op] - new: runs [30.0, 31.0, 32.0] [270.0, 271.0, 272.0]
        "#]],
    );
}

/// The metrics of two files, and whether the remarks name GOMAXPROCS.
fn metrics(old: &[(&str, u32)], new: &[(&str, u32)]) -> (Vec<String>, bool) {
    let (old, new) = (go(old), go(new).replace("ns/op", "ns/op 7 B/op"));
    let figures = read_all(
        &[("old.txt", &old), ("new.txt", &new)],
        &["old.txt", "new.txt"],
    );
    let metrics = figures
        .comparisons
        .iter()
        .map(|comparison| comparison.metric.clone())
        .collect();
    (
        metrics,
        figures
            .remarks
            .iter()
            .any(|remark| remark.contains("GOMAXPROCS")),
    )
}

#[test]
fn a_suffix_that_all_names_have_is_removed() {
    let (names, is_told) = metrics(&[("A-8", 1), ("B/k=v-8", 2)], &[("A-8", 3), ("B/k=v-8", 4)]);
    assert_eq!(
        (names.join(", "), is_told),
        ("A ns/op, B/k=v ns/op".into(), false)
    );
}

#[test]
fn arms_with_different_suffixes_are_compared_with_a_remark() {
    for (old, new) in [("A-8", "A-16"), ("A", "A-16"), ("A-2", "A")] {
        let (names, is_told) = metrics(&[(old, 1)], &[(new, 3)]);
        assert_eq!(
            (names.join(", "), is_told),
            ("A ns/op".into(), true),
            "{old} {new}"
        );
    }
}

#[test]
fn sizes_are_no_processors() {
    // One processor, so that Go appends nothing.
    let (names, _) = metrics(
        &[("X/size-10", 1), ("X/size-20", 2), ("Y", 3)],
        &[("X/size-10", 5), ("X/size-20", 6), ("Y", 7)],
    );
    assert_eq!(
        names.join(", "),
        "X/size-10 ns/op, X/size-20 ns/op, Y ns/op"
    );
    // Eight against one.
    let (names, is_told) = metrics(
        &[("X/size-10-8", 1), ("Y-8", 3)],
        &[("X/size-10", 5), ("Y", 7)],
    );
    assert_eq!(
        (names.join(", "), is_told),
        ("X/size-10 ns/op, Y ns/op".into(), true)
    );
    // 10 and 20 may be sizes or processors, so nothing is matched.
    let (old, new) = (go(&[("X/size-10", 1)]), go(&[("X/size-20", 4)]));
    refuse(
        &[("old.txt", &old), ("new.txt", &new)],
        &["old.txt", "new.txt"],
        &["nothing to judge", "X/size-10 ns/op", "X/size-20 ns/op"],
    );
}

#[test]
fn files_of_one_arm_with_several_suffixes_stay_apart() {
    let files = [
        go(&[("A-4", 1)]),
        go(&[("A-8", 50)]),
        go(&[("A-4", 5)]),
        go(&[("A-8", 90)]),
    ];
    let files: Files<'_> = &[
        ("old/1.txt", &files[0]),
        ("old/2.txt", &files[1]),
        ("new/1.txt", &files[2]),
        ("new/2.txt", &files[3]),
    ];
    check(
        files,
        &["old", "new"],
        &expect![[r#"
            A-4 ns/op [ns/op] - new: runs [1.0, 2.0, 3.0] [5.0, 6.0, 7.0]
            A-8 ns/op [ns/op] - new: runs [50.0, 51.0, 52.0] [90.0, 91.0, 92.0]
        "#]],
    );
}

#[test]
fn packages_stay_apart_even_between_files() {
    let of = |package: &str, figure| go(&[("Enc", figure)]).replace("example.org/p", package);
    let both = |figure| of("a", figure) + &of("b", figure * 10);
    check(
        &[("old.txt", &both(10)), ("new.txt", &both(20))],
        &["old.txt", "new.txt"],
        &expect![[r#"
            a.Enc ns/op [ns/op] - new: runs [10.0, 11.0, 12.0] [20.0, 21.0, 22.0]
            b.Enc ns/op [ns/op] - new: runs [100.0, 101.0, 102.0] [200.0, 201.0, 202.0]
        "#]],
    );
    refuse(
        &[("old.txt", &of("a", 1)), ("new.txt", &of("b", 5))],
        &["old.txt", "new.txt"],
        &["a.Enc ns/op", "b.Enc ns/op", "nothing to judge"],
    );
}

#[test]
fn systems_of_one_arm_stay_apart_and_those_of_two_arms_give_a_remark() {
    let on = |cpu: &str, figure| go(&[("A-2", figure)]).replace("cpu: any", &format!("cpu: {cpu}"));
    let (old, new) = (
        on("Xeon", 10) + &on("Epyc", 30),
        on("Xeon", 20) + &on("Epyc", 40),
    );
    check(
        &[("old.txt", &old), ("new.txt", &new)],
        &["old.txt", "new.txt"],
        &expect![[r#"
            A (Xeon) ns/op [ns/op] - new: runs [10.0, 11.0, 12.0] [20.0, 21.0, 22.0]
            A (Epyc) ns/op [ns/op] - new: runs [30.0, 31.0, 32.0] [40.0, 41.0, 42.0]
        "#]],
    );
    let arm = on("Xeon", 20).replace("goarch: amd64", "goarch: arm64");
    let figures = read_all(
        &[("old.txt", &on("Epyc", 10)), ("new.txt", &arm)],
        &["old.txt", "new.txt"],
    );
    remarks(
        &figures,
        &["the arms differ in cpu too", "Xeon of new", "Epyc of old"],
    );
    remarks(&figures, &["the arms differ in goarch too", "arm64 of new"]);
}

// ---- hyperfine ----

fn export(results: &[(&str, &str, &str)]) -> String {
    let result = |(command, parameters, times): &(&str, &str, &str)| {
        let parameters = match *parameters {
            "" => String::new(),
            some => format!(r#", "parameters": {{{some}}}"#),
        };
        format!(r#"{{"command": "{command}", "times": [{times}], "exit_codes": [0]{parameters}}}"#)
    };
    let results: Vec<String> = results.iter().map(result).collect();
    format!("{{\"results\": [\n{}\n]}}", results.join(",\n"))
}

#[test]
fn commands_with_parameters_outside_of_their_text_are_separate_arms() {
    // sharkdp/hyperfine#700
    let text = export(&[
        ("make", r#""j": "1""#, "4.1, 4.2, 4.3"),
        ("make", r#""j": "4""#, "2.1, 2.2, 2.3"),
    ]);
    check(
        &[("h.json", &text)],
        &["h.json"],
        &expect![[r#"
            time [s] - make [j=4]: runs [4.1, 4.2, 4.3] [2.1, 2.2, 2.3]
        "#]],
    );
    let text = export(&[
        ("run", r#""a": "1", "b": "x""#, "4.1, 4.2"),
        ("run", r#""a": "1", "b": "y""#, "5.1, 5.2"),
        ("run", r#""a": "2", "b": "x""#, "6.1, 6.2"),
    ]);
    let figures = read_all(&[("h.json", &text)], &["h.json"]);
    let arms: Vec<&str> = figures
        .comparisons
        .iter()
        .map(|comparison| comparison.arm.as_str())
        .collect();
    assert_eq!(arms, ["run [a=1 b=y]", "run [a=2 b=x]"]);
}

#[test]
fn parameters_in_separate_exports_stay_apart_too() {
    let (single, four) = (
        export(&[("make", r#""j": "1""#, "4.1, 4.2")]),
        export(&[("make", r#""j": "4""#, "2.1, 2.2")]),
    );
    check(
        &[("1.json", &single), ("4.json", &four)],
        &["1.json", "4.json"],
        &expect![[r#"
            time [s] - make [j=4]: runs [4.1, 4.2] [2.1, 2.2]
        "#]],
    );
}

#[test]
fn unambiguous_commands_keep_their_names_without_parameters() {
    let text = export(&[
        ("sleep 1", r#""n": "1""#, "1.1, 1.2"),
        ("sleep 2", r#""n": "2""#, "2.1, 2.2"),
    ]);
    let figures = read_all(&[("h.json", &text)], &["h.json"]);
    assert_eq!(
        (
            figures.baseline.as_str(),
            figures.comparisons[0].arm.as_str()
        ),
        ("sleep 1", "sleep 2")
    );
}

#[test]
fn indistinguishable_commands_are_refused() {
    for parameters in ["", r#""j": "1""#] {
        let text = export(&[
            ("make", parameters, "4.1, 4.2"),
            ("make", parameters, "2.1, 2.2"),
        ]);
        refuse(
            &[("h.json", &text)],
            &["h.json"],
            &["two results of one name", "make", "--command-name"],
        );
    }
}

// ---- google-benchmark ----

fn google(benchmarks: &str) -> String {
    format!(r#"{{"context": {{}}, "benchmarks": [{benchmarks}]}}"#)
}

#[test]
fn counters_that_differ_in_a_blank_stay_apart() {
    let of = |time: f64| {
        google(&format!(
            r#"{{"name": "BM_A", "run_name": "BM_A", "run_type": "iteration", "real_time": {time},
                "time_unit": "ns", "cache_hits": 3, "cache hits": 900}}"#
        ))
    };
    let texts = [of(11.5), of(12.5), of(13.5), of(14.5)];
    let files: Files<'_> = &[
        ("a/1.json", &texts[0]),
        ("a/2.json", &texts[1]),
        ("b/1.json", &texts[2]),
        ("b/2.json", &texts[3]),
    ];
    let options = crate::compare::ImportOptions {
        metrics: vec!["BM_A".into()],
        direction: Some(record::metric::Direction::Lower),
        ..Default::default()
    };
    let figures = super::judge(files, &["a", "b"], &options).unwrap();
    expect![[r#"
        BM_A cache hits [] - b: runs [900.0, 900.0] [900.0, 900.0]
        BM_A cache_hits [] - b: runs [3.0, 3.0] [3.0, 3.0]
        BM_A real time [ns] - b: runs [11.5, 12.5] [13.5, 14.5]
    "#]]
    .assert_eq(&rendered(&figures));
}

#[test]
fn two_of_one_name_in_a_file_are_refused() {
    let family = |index: u32| {
        format!(
            r#"{{"name": "BM_A", "run_name": "BM_A", "run_type": "iteration", "family_index": {index},
                "real_time": 5{index}.5, "time_unit": "ns"}}"#
        )
    };
    let two_families = google(&format!("{}, {}", family(0), family(1)));
    let counter =
        google(r#"{"name": "BM_A", "run_type": "iteration", "real_time": 5.5, "real time": 3}"#);
    let twice =
        google(r#"{"name": "BM_A", "run_type": "iteration", "real_time": 5.5, "real_time": 3}"#);
    for (text, why) in [
        (two_families, "two benchmarks of one name: BM_A"),
        (counter, "a counter with the name of a time"),
        (twice, "the key \"real_time\" twice"),
    ] {
        refuse(
            &[("a.json", &text), ("b.json", &google(&family(0)))],
            &["a.json", "b.json"],
            &[why],
        );
    }
}

// ---- Phoronix ----

fn result(fields: &str, entries: &[(&str, &str)]) -> String {
    let entry = |(system, runs): &(&str, &str)| {
        format!(
            "<Entry><Identifier>{system}</Identifier><Value>1</Value><RawString>{runs}</RawString></Entry>"
        )
    };
    let entries: String = entries.iter().map(entry).collect();
    format!(
        "<Result><Title>FIO</Title><Description>Read</Description><Proportion>HIB</Proportion>{fields}<Data>{entries}</Data></Result>\n"
    )
}

fn composite(results: &[String]) -> String {
    format!(
        "<?xml version=\"1.0\"?>\n<PhoronixTestSuite>\n{}</PhoronixTestSuite>\n",
        results.concat()
    )
}

#[test]
fn results_of_one_title_stay_apart() {
    let (first_entries, second_entries) = (
        &[("6.1", "10:11:12"), ("7.2", "20:21:22")],
        &[("6.1", "1:2:3"), ("7.2", "5:6:7")],
    );
    for (first, second, names) in [
        (
            "<Scale>MB/s</Scale>",
            "<Scale>IOPS</Scale>",
            "FIO - Read (MB/s), FIO - Read (IOPS)",
        ),
        (
            "<Arguments>-a</Arguments>",
            "<Arguments>-b</Arguments>",
            "FIO - Read (-a), FIO - Read (-b)",
        ),
        (
            "<AppVersion>1</AppVersion>",
            "<AppVersion>2</AppVersion>",
            "FIO - Read (1), FIO - Read (2)",
        ),
    ] {
        let text = composite(&[result(first, first_entries), result(second, second_entries)]);
        let figures = read_all(&[("c.xml", &text)], &["c.xml"]);
        let metrics: Vec<&str> = figures
            .comparisons
            .iter()
            .map(|comparison| comparison.metric.as_str())
            .collect();
        assert_eq!(metrics.join(", "), names);
    }
    let text = composite(&[result("", first_entries), result("", second_entries)]);
    refuse(
        &[("c.xml", &text)],
        &["c.xml"],
        &["two results of one name: FIO - Read"],
    );
    let text = composite(&[result(
        "",
        &[("6.1", "1:2"), ("6.1", "3:4"), ("7.2", "5:6")],
    )]);
    refuse(&[("c.xml", &text)], &["c.xml"], &["two entries of \"6.1\""]);
}

// ---- CSV and JSON lines ----

#[test]
fn a_benchmark_and_a_metric_are_two_parts_of_a_name() {
    let csv = "arm,benchmark,metric,value\nold,copy,time,1\nold,sort,time,5\nold,copy,time,2\nold,sort,time,6\n\
               new,copy,time,3\nnew,sort,time,7\nnew,copy,time,4\nnew,sort,time,8\n";
    check(
        &[("d.csv", csv)],
        &["d.csv"],
        &expect![[r#"
            copy time [] - new: runs [1.0, 2.0] [3.0, 4.0]
            sort time [] - new: runs [5.0, 6.0] [7.0, 8.0]
        "#]],
    );
}

#[test]
fn columns_of_one_metric_and_two_units_stay_apart() {
    let csv = "arm,block,speed (MB/s),speed (req/s)\nold,1,1,5\nnew,1,2,6\nold,2,3,7\nnew,2,4,8\n";
    check(
        &[("d.csv", csv)],
        &["d.csv"],
        &expect![[r#"
            speed (MB/s) [MB/s] + new: blocks [1.0, 3.0] [2.0, 4.0]
            speed (req/s) [req/s] + new: blocks [5.0, 7.0] [6.0, 8.0]
        "#]],
    );
}

#[test]
fn rows_that_differ_in_unknown_columns_are_no_samples() {
    let csv = "arm,threads,metric,value\nold,1,time,1\nold,4,time,5\nold,1,time,2\nold,4,time,6\n\
               new,1,time,3\nnew,4,time,7\nnew,1,time,4\nnew,4,time,8\n";
    refuse(
        &[("d.csv", csv)],
        &["d.csv"],
        &[
            "d.csv:3",
            "differ in column \"threads\": \"1\" and \"4\"",
            "metric's name",
        ],
    );
    let json = csv.lines().skip(1).map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        let [arm, size, metric, value] = cells[..] else {
            panic!("{line}")
        };
        format!("{{\"arm\":\"{arm}\",\"size\":{size},\"metric\":\"{metric}\",\"value\":{value}}}\n")
    });
    let json: String = json.collect();
    refuse(
        &[("d.jsonl", &json)],
        &["d.jsonl"],
        &["differ in column \"size\""],
    );
    let csv = "arm,block,threads,time (s)\nold,1,1,5\nold,1,4,9\nnew,1,1,5\nnew,1,4,8\n";
    refuse(
        &[("d.csv", csv)],
        &["d.csv"],
        &["d.csv:3", "differ in column \"threads\": \"1\" and \"4\""],
    );
    let csv = "arm,status,time,value\nold,ok,1.5,1\nold,ok,1.6,2\nnew,ok,1.7,3\nnew,failed,1.8,4\n";
    refuse(
        &[("d.csv", csv)],
        &["d.csv"],
        &[
            "d.csv:5",
            "differ in column \"status\": \"ok\" and \"failed\"",
        ],
    );
    // Numbers of repetitions and further measured quantities do not distinguish rows.
    for column in ["run", "Iteration", "timestamp", "stddev"] {
        let values = if column == "stddev" {
            "0.1 0.2 0.3 0.4"
        } else {
            "1 2 1 2"
        };
        let values: Vec<&str> = values.split(' ').collect();
        let csv = format!(
            "arm,{column},metric,value\nold,{},time,1\nold,{},time,2\nnew,{},time,3\nnew,{},time,4\n",
            values[0], values[1], values[2], values[3]
        );
        read_all(&[("d.csv", &csv)], &["d.csv"]);
    }
}

#[test]
fn two_columns_of_one_meaning_are_refused() {
    for (head, what) in [
        (
            "arm,block,value,result",
            "two columns that mean the value: value, result",
        ),
        (
            "arm,system,block,value",
            "two columns that mean the arm: arm, system",
        ),
        (
            "Arm,ARM,block,value",
            "two columns that mean the arm: Arm, ARM",
        ),
        (
            "arm,block,round,value",
            "two columns that mean the block: block, round",
        ),
    ] {
        let csv = format!("{head}\na,1,2,3\nb,1,2,3\n");
        refuse(&[("d.csv", &csv)], &["d.csv"], &["d.csv:1", what]);
    }
}

#[test]
fn names_that_differ_in_blanks_are_refused() {
    let csv = "arm,metric,value\n\"old\",time,1\n\"old \",time,2\nnew,time,3\nnew,time,4\n";
    refuse(
        &[("d.csv", csv)],
        &["d.csv"],
        &["d.csv:3", "only blanks tell apart", "\"old \""],
    );
    let json = "{\"arm\":\"old\",\"metric\":\"time\",\"value\":1}\n{\"arm\":\"old\",\"metric\":\" time\",\"value\":2}\n";
    refuse(
        &[("d.jsonl", json)],
        &["d.jsonl"],
        &["d.jsonl:2", "\" time\""],
    );
    // Columns padded with blanks, with each name always written the same way.
    let csv =
        "arm , metric, value\nold , time,  1\nold , time,  2\nnew , time,  3\nnew , time,  4\n";
    read_all(&[("d.csv", csv)], &["d.csv"]);
}

#[test]
fn duplicate_keys_of_an_object_are_refused() {
    let json = "{\"arm\":\"old\",\"time\":1,\"time\":5}\n{\"arm\":\"new\",\"time\":2}\n";
    refuse(
        &[("d.jsonl", json)],
        &["d.jsonl"],
        &["d.jsonl:1", "the key \"time\" twice"],
    );
}

// ---- arms ----

#[test]
fn criterions_own_names_in_two_directories_are_no_arms() {
    let sample = |time: u32| {
        format!(
            r#"{{"sampling_mode":"Flat","iters":[1.0,1.0,1.0],"times":[9{time}.0,9{time}.5,{time}9.25]}}"#
        )
    };
    let samples = [sample(1), sample(2), sample(3), sample(4)];
    let files: Files<'_> = &[
        ("a/sum/base/sample.json", &samples[0]),
        ("a/sum/new/sample.json", &samples[1]),
        ("b/sum/base/sample.json", &samples[2]),
        ("b/sum/new/sample.json", &samples[3]),
    ];
    let why = [
        "b/sum/new/sample.json: criterion's new of \"sum\" as in a/sum/new",
        "ARM=DIRECTORY",
    ];
    refuse(files, &["a", "b"], &why);
    assert_eq!(read_all(files, &["old=a", "now=b"]).comparisons.len(), 1);
}

#[test]
fn two_directories_of_one_name_are_no_arm() {
    let files: Files<'_> = &[
        ("x/old/1.txt", "1\n2\n"),
        ("y/old/1.txt", "5\n6\n"),
        ("z/new/1.txt", "3\n4\n"),
    ];
    refuse(
        files,
        &["x/old", "y/old", "z/new"],
        &["two arms of one name: old", "write ARM=PATH"],
    );
    let named = ["a=x/old", "b=y/old", "new=z/new"];
    refuse(files, &named, &["which way is better is not known"]);
}
