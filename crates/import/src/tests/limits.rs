//! Small files that could take unlimited time or memory; without limits each took a minute or more.

use base::skip::limits;

use super::*;

/// A file in a temporary directory.
struct OneFile {
    _dir: tempfile::TempDir,
    path: String,
}

impl OneFile {
    fn new(text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, text).unwrap();
        let path = path.display().to_string();
        Self { _dir: dir, path }
    }

    fn read(&self) -> Result<Figures, String> {
        let read = read(std::slice::from_ref(&self.path), &ImportOptions::default());
        read.map_err(|why| why.to_string().replace(&self.path, "FILE"))
    }
}

/// A list of `count` elements, separated by commas.
fn list(count: usize, element: impl Fn(usize) -> String) -> String {
    let all: Vec<String> = (0..count).map(element).collect();
    all.join(",")
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(|number| line(number) + "\n").collect()
}

#[test]
fn a_table_of_very_many_columns() {
    let row = |arm: &str, block: u32| format!("{arm},{block},{}\n", list(8000, |_| "1.5".into()));
    let head = format!("arm,block,{}\n", list(8000, |column| format!("m{column}")));
    let file = OneFile::new(&[head, row("a", 1), row("b", 1)].concat());
    let why = limits::refusal(|| file.read());
    assert_eq!(
        why,
        "FILE:1: more than 1000 columns: 8002 (write a row for each figure: arm,block,metric,value)"
    );
}

#[test]
fn rows_of_a_key_each() {
    let text = lines(20_000, |number| {
        format!("{{\"arm\":\"a\",\"block\":{number},\"m{number}\":1.5}}")
    });
    let file = OneFile::new(&text);
    let why = limits::refusal(|| file.read());
    assert!(
        why.starts_with("FILE:1: more than 1000 columns: 20002 ("),
        "{why}"
    );
}

#[test]
fn very_many_commands_of_hyperfine() {
    let commands = list(20_000, |number| {
        format!("{{\"command\":\"c{number}\",\"times\":[1.5,1.7]}}")
    });
    let file = OneFile::new(&format!("{{\"results\":[{commands}]}}"));
    let why = limits::refusal(|| file.read());
    assert!(
        why.starts_with("FILE: too many arms to compare, more than 100: 20000 ("),
        "{why}"
    );
}

#[test]
fn very_many_google_benchmarks() {
    let all = list(30_000, |number| {
        format!(
            "{{\"name\":\"BM_{number}\",\"run_type\":\"iteration\",\"real_time\":5.5,\"cpu_time\":4.2}}"
        )
    });
    let file = OneFile::new(&format!("{{\"context\":{{}},\"benchmarks\":[{all}]}}"));
    let why = limits::refusal(|| file.read());
    assert!(why.starts_with("FILE: one arm only"), "{why}");
}

#[test]
fn very_many_results_of_phoronix() {
    let results: String = lines(10_000, |number| {
        format!(
            "<Result><Title>T{number}</Title><Scale>s</Scale><Data><Entry><Identifier>a</Identifier><RawString>8:7</RawString></Entry>\
             <Entry><Identifier>b</Identifier><RawString>9:7</RawString></Entry></Data></Result>"
        )
    });
    let file = OneFile::new(&format!(
        "<PhoronixTestSuite>\n{results}</PhoronixTestSuite>"
    ));
    let why = limits::refusal(|| file.read());
    assert!(
        why.starts_with("FILE: too many metrics to judge together, more than 100: 10000 ("),
        "{why}"
    );
}

#[test]
fn xml_that_grows_by_its_entities() {
    let file = OneFile::new(
        "<!DOCTYPE a [\n<!ENTITY b \"b\">]>\n<PhoronixTestSuite>&b;</PhoronixTestSuite>",
    );
    let why = limits::refusal(|| file.read());
    assert_eq!(
        why,
        "FILE:2: XML that declares entities (export the result again)"
    );
}

#[test]
fn xml_whose_attributes_take_quadratic_time() {
    let attributes: String = lines(100_000, |number| format!("a{number}=\"1\""));
    let file = OneFile::new(&format!(
        "<?xml version=\"1.0\"?>\n<PhoronixTestSuite>\n<a {attributes}/></PhoronixTestSuite>"
    ));
    let why = limits::refusal(|| file.read());
    assert_eq!(
        why,
        "FILE:3: more than 64 attributes in one place (export the result again)"
    );
}

#[test]
fn xml_whose_namespaces_are_searched_for_each_element() {
    let names: String = lines(50, |number| format!("xmlns:x{number}=\"u\""));
    let nested = format!("<b {names}>").repeat(2);
    let children = "<c xmlns:z=\"1\"/>".repeat(300_000);
    let file = OneFile::new(&format!(
        "<PhoronixTestSuite>{nested}{children}</b></b></PhoronixTestSuite>"
    ));
    let why = limits::refusal(|| file.read());
    assert!(
        why.contains("more than 64 attributes in one place"),
        "{why}"
    );
}

#[test]
fn go_benchmarks_that_all_fail_after_their_figures() {
    let text: String = lines(20_000, |number| {
        format!("BenchmarkA{number}-8 100 {number}.5 ns/op\n--- FAIL: BenchmarkA{number}-8")
    });
    let file = OneFile::new(&format!("pkg: p\n{text}\nFAIL\nFAIL p 1s\n"));
    let why = limits::refusal(|| file.read());
    assert!(why.starts_with("FILE: nothing is left to judge: "), "{why}");
}

#[test]
fn very_many_metrics_of_k6() {
    let metrics = list(20_000, |number| {
        format!("\"m{number}\":{{\"count\":5,\"rate\":14.5}}")
    });
    let file = OneFile::new(&format!(
        "{{\"root_group\":{{}},\"metrics\":{{{metrics}}}}}"
    ));
    let why = limits::refusal(|| file.read());
    assert!(
        why.contains("one run, of an arm that it does not name"),
        "{why}"
    );
}

#[test]
fn a_figure_of_every_request() {
    let file = OneFile::new(&"1.5\n".repeat(150_000));
    let why = limits::refusal(|| file.read());
    assert_eq!(
        why,
        "FILE:100001: more than 100000 figures (give one figure per run instead of every request)"
    );
}

#[test]
fn a_long_name_that_all_figures_have() {
    let head = format!("pkg: {}\n", "x".repeat(1 << 20));
    let file = OneFile::new(
        &(head
            + &lines(5000, |number| {
                format!("BenchmarkA{number}-2 1 {number} ns/op")
            })),
    );
    let why = limits::refusal(|| file.read());
    assert!(
        why.contains("names longer than 32.0 MiB together ("),
        "{why}"
    );
}

#[test]
fn very_many_values_of_two_bytes() {
    let file = OneFile::new(&format!("{{\"results\":[{}]}}", "1,".repeat(2_000_000)));
    let why = limits::refusal(|| file.read());
    assert!(why.starts_with("FILE: more than 1000000 values ("), "{why}");
}
