//! The page in a real browser: no errors on the console, no requests, charts and tables that fit.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use record::rundir::Run;
use record::verdict::Judgement;

use crate::report::{html, judged};
use crate::topics::robustness::document::table as robustness_table;
use plan::WorkloadPlan;
use record::fixtures::web;

mod trees;

/// Names under which Debian and others install Chromium.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A fresh profile without network access, in which a frame may read another frame.
const FLAGS: [&str; 14] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--allow-file-access-from-files",
    "--enable-logging=stderr",
    "--virtual-time-budget=60000",
    "--dump-dom",
];

/// `None` without a browser, and the test is skipped.
fn browser() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<PathBuf> = env::split_paths(&path).collect();
    let browser = BROWSERS.iter().find_map(|name| {
        let mut files = dirs.iter().map(|dir| dir.join(name));
        files.find(|file| file.is_file())
    });
    if browser.is_none() {
        base::skip::skip("no browser to open the report in: apt install chromium");
    }
    browser
}

/// The results of opening a page.
struct Seen {
    dom: String,
    console: Vec<String>,
    requests: Vec<String>,
}

/// Opens the last of `pages`, each a file name and content.
fn open(browser: &Path, pages: &[(&str, &str)]) -> Seen {
    let dir = tempfile::tempdir().unwrap();
    for (name, page) in pages {
        fs::write(dir.path().join(name), page).unwrap();
    }
    let (shown, _) = pages.last().unwrap();
    let (file, net_log) = (dir.path().join(shown), dir.path().join("net.json"));
    let output = Command::new("timeout")
        .arg("--kill-after=5s")
        .arg("120s")
        .arg(browser)
        .args(FLAGS)
        .arg(format!(
            "--user-data-dir={}",
            dir.path().join("profile").display()
        ))
        .arg(format!("--log-net-log={}", net_log.display()))
        .arg(format!("file://{}", file.display()))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let log = String::from_utf8_lossy(&output.stderr);
    let console = log
        .lines()
        .filter(|line| line.contains(":CONSOLE"))
        .map(String::from);
    Seen {
        dom: String::from_utf8_lossy(&output.stdout).into_owned(),
        console: console.collect(),
        requests: requests(&fs::read_to_string(&net_log).unwrap()),
    }
}

/// All URLs that pages requested, from a net log.
///
/// Chromium's own requests (updates, the time) have no page as their origin, and the resolver rule blocks them.
fn requests(net_log: &str) -> Vec<String> {
    let log: serde_json::Value = serde_json::from_str(net_log).unwrap();
    let requested = |event: &serde_json::Value| {
        let origin = event["params"]["initiator"].as_str()?;
        let url = event["params"]["url"].as_str()?;
        (origin != "not an origin").then(|| url.to_string())
    };
    log["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(requested)
        .collect()
}

#[track_caller]
fn check_drawn(run: &Run, judgement: &Judgement, charts: &[&str]) {
    let Some(browser) = browser() else { return };
    let seen = open(&browser, &[("report.html", &html(run, judgement, &[]))]);
    assert_eq!(seen.console, Vec::<String>::new());
    assert_eq!(seen.requests, Vec::<String>::new());
    for chart in charts {
        let (_, rest) = seen
            .dom
            .split_once(&format!("id=\"{chart}\""))
            .expect(chart);
        let drawn = rest.split("<figcaption>").next().unwrap();
        let marks = ["<use", "<path"];
        let has_marks = marks.iter().any(|mark| drawn.contains(mark));
        assert!(drawn.contains("<svg") && has_marks, "{chart} is not drawn");
    }
}

#[test]
fn the_page_draws_its_charts_without_network_and_without_errors() {
    let (run, judgement) = judged(web::two_kernels());
    check_drawn(
        &run,
        &judgement,
        &[
            "verdicts-0",
            "estimates-0",
            "time-0",
            "blocks-0",
            "latency-0",
        ],
    );
}

#[test]
fn a_ramp_has_a_curve_for_each_of_its_figures() {
    let (run, judgement) = judged(web::connection_ramp());
    check_drawn(&run, &judgement, &["curve-0-0", "curve-0-1"]);
}

#[test]
fn arms_that_differ_in_cpus_have_a_scaling_chart() {
    let (run, judgement) = judged(web::cpu_counts(&[1, 2, 4, 8]));
    check_drawn(&run, &judgement, &["verdicts-0", "cpus-0"]);
}

#[test]
fn each_workload_of_several_arms_has_its_charts() {
    let (run, judgement) = judged(web::two_workloads());
    check_drawn(
        &run,
        &judgement,
        &[
            "verdicts-0",
            "blocks-0",
            "verdicts-1",
            "blocks-1",
            "latency-1",
        ],
    );
}

#[test]
fn a_page_without_figures_has_no_errors() {
    let (run, judgement) = judged(web::just_begun());
    check_drawn(&run, &judgement, &[]);
}

/// Checks that the tests above would see a request or an error.
#[test]
fn a_page_with_a_request_and_an_error_is_noticed() {
    let Some(browser) = browser() else { return };
    let page = "<script>console.error('oh'); fetch('http://127.0.0.1:9/x')</script>";
    let seen = open(&browser, &[("bad.html", page)]);
    assert!(
        seen.console.iter().any(|line| line.contains("oh")),
        "{:?}",
        seen.console
    );
    assert!(
        seen.requests.iter().any(|url| url.contains("127.0.0.1:9")),
        "{:?}",
        seen.requests
    );
}

/// A script for a page of frames: lists elements that are too wide, and labels of charts that overlap or are outside the frame.
const MEASURE: &str = "
    const measure = page => {
        for (const fold of page.querySelectorAll('details')) fold.open = true;
        const tables = [...page.querySelectorAll('table.cards')].map(table => table.parentElement);
        const wide = [page.documentElement, ...tables].filter(one => one.scrollWidth > one.clientWidth);
        const sizes = wide.map(one => `${one.tagName} ${one.scrollWidth} in ${one.clientWidth}`);
        const width = page.documentElement.clientWidth;
        const bad = [];
        let labels = 0;
        for (const chart of page.querySelectorAll('svg')) {
            const texts = [...chart.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()]);
            const seen = texts.filter(([, box]) => box.width > 0);
            labels += seen.length;
            for (const [index, [text, box]] of seen.entries()) {
                if (box.left < 0 || box.right > width) bad.push(`${text} outside`);
                for (const [other, next] of seen.slice(index + 1)) {
                    const apart = box.right < next.left || next.right < box.left
                        || box.bottom <= next.top || next.bottom <= box.top;
                    if (!apart) bad.push(`${text} on ${other}`);
                }
            }
        }
        const ids = [...page.querySelectorAll('use')].filter(use => !page.querySelector(use.getAttribute('href')));
        return `tables ${tables.length}, labels ${labels > 0}, bad [${[...sizes, ...bad, ...ids]}]`;
    };
    document.querySelector('pre').textContent = [...document.querySelectorAll('iframe')].map(frame => measure(frame.contentDocument)).join('\\n');
";

/// A run's page, and how many tables of metrics it has.
fn page((run, judgement): &(Run, Judgement)) -> (String, usize) {
    let workloads = &run.plan.workloads;
    let has_sensitivity =
        |workload: &&WorkloadPlan| !robustness_table(judgement, &workload.id).is_empty();
    let sensitivity = workloads.iter().filter(has_sensitivity).count();
    let tables = workloads.len() + usize::from(workloads.len() > 1) + sensitivity;
    (html(run, judgement, &[]), tables)
}

/// Opens each page in frames of these widths, and unfolds everything.
///
/// Pages must scroll only downwards, tables of metrics must not scroll, and labels of charts must not overlap.
#[track_caller]
fn check_fit(widths: &[u32], pages: &[(String, usize)]) {
    let Some(browser) = browser() else { return };
    let names: Vec<String> = (0..pages.len())
        .map(|page| format!("{page}.html"))
        .collect();
    let (mut frames, mut want) = (Vec::new(), Vec::new());
    for (name, (_, tables)) in names.iter().zip(pages) {
        for width in widths {
            frames.push(format!(
                "<iframe src='{name}' style='width:{width}px;height:800px;border:0'></iframe>"
            ));
            want.push(format!("tables {tables}, labels true, bad []"));
        }
    }
    let frames = frames.concat();
    let all = format!("{frames}<pre></pre><script>onload = () => {{ {MEASURE} }}</script>");
    let mut files: Vec<(&str, &str)> = names
        .iter()
        .map(String::as_str)
        .zip(pages.iter().map(|(page, _)| page.as_str()))
        .collect();
    files.push(("frames.html", &all));
    let seen = open(&browser, &files);
    let found = seen
        .dom
        .split_once("<pre>")
        .and_then(|(_, rest)| rest.split_once("</pre>"));
    let found: Vec<&str> = found.map_or(Vec::new(), |(lines, _)| lines.lines().collect());
    assert_eq!(found, want, "{widths:?} px: {:?}", seen.console);
}

/// Runs with changes that are far apart, with curves, and with groups of CPUs.
fn extreme_runs() -> Vec<(Run, Judgement)> {
    let (run, mut extreme) = judged(web::two_kernels());
    let metric = &mut extreme.comparisons[1];
    (metric.ratio, metric.low, metric.high) = (Some(45.0), Some(30.0), Some(60.0));
    extreme.comparisons[0].pairs[3].arm *= 50.0;
    extreme.comparisons[3].spec.unit = "instructions/request".into();
    vec![
        (run, extreme),
        judged(web::connection_ramp()),
        judged(web::cpu_counts(&[1, 2, 4, 8])),
    ]
}

#[test]
fn labels_do_not_overlap_even_with_extreme_figures() {
    let pages: Vec<_> = extreme_runs().iter().map(page).collect();
    check_fit(&[390, 700, 1000], &pages);
}

#[test]
fn the_page_fits_a_phone_and_a_window_and_scrolls_only_downwards() {
    let pages = [web::two_kernels(), web::two_workloads()].map(|run| page(&judged(run)));
    check_fit(&[390, 1000], &pages);
}
