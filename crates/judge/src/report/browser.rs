//! The page in a real browser: the console is quiet, nothing is fetched, charts and tables have room.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use record::rundir::Run;
use record::verdict::Judgement;

use crate::report::judged;
use record::fixtures::web;

mod trees;

/// Names under which Debian and others install Chromium.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Nothing of a person's browser, nothing that leaves this machine, and a frame may look into a
/// frame.
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

/// Without a browser the test is skipped.
fn browser() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = env::split_paths(&path).collect();
    let found = BROWSERS.iter().find_map(|name| {
        let files = places.iter().map(|dir| dir.join(name));
        files.into_iter().find(|file| file.is_file())
    });
    if found.is_none() {
        base::skip::skip("no browser to open the report in: apt install chromium");
    }
    found
}

/// What a browser made of a page.
struct Seen {
    dom: String,
    console: Vec<String>,
    requests: Vec<String>,
}

/// Opens the last of some pages, given by name and content.
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

/// All URLs that pages asked for by a net log. Chromium also asks for some of its own accord
/// (updates, the time): those have no page as their origin, and the resolver rule keeps them on
/// this machine.
fn requests(net_log: &str) -> Vec<String> {
    let log: serde_json::Value = serde_json::from_str(net_log).unwrap();
    let asked = |event: &serde_json::Value| {
        let origin = event["params"]["initiator"].as_str()?;
        let url = event["params"]["url"].as_str()?;
        (origin != "not an origin").then(|| url.to_string())
    };
    log["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(asked)
        .collect()
}

fn draws(run: &Run, judgement: &Judgement, charts: &[&str]) {
    let Some(browser) = browser() else { return };
    let seen = open(
        &browser,
        &[("report.html", &crate::report::html(run, judgement, &[]))],
    );
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
fn the_page_draws_its_charts_without_network_and_without_complaint() {
    let (run, judgement) = judged(web::two_kernels());
    draws(
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
    draws(&run, &judgement, &["curve-0-0", "curve-0-1"]);
}

#[test]
fn arms_that_differ_in_cpus_have_a_chart_of_their_own() {
    let (run, judgement) = judged(web::cpu_counts(&[1, 2, 4, 8]));
    draws(&run, &judgement, &["verdicts-0", "cpus-0"]);
}

#[test]
fn each_workload_of_several_arms_has_its_charts() {
    let (run, judgement) = judged(web::two_workloads());
    draws(
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
fn a_page_without_figures_does_not_complain_either() {
    let (run, judgement) = judged(web::just_begun());
    draws(&run, &judgement, &[]);
}

/// The net log is what the test above relies on, so it must be seen to notice a request.
#[test]
fn a_page_that_fetches_or_complains_is_noticed() {
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

/// Run in a page: what is too wide, and which labels of a chart touch each other or lie outside the window.
const MEASURE: &str = "
    const page = frames[0].document;
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
    document.querySelector('p').textContent = `tables ${tables.length}, labels ${labels > 0}, `
        + `bad [${[...sizes, ...bad, ...ids]}]`;
";

/// Opens the page in a window of that width, with all that is folded laid open: the page scrolls only downwards, the
/// tables of metrics do not scroll at all, and no label of a chart hides another.
#[track_caller]
fn fits(width: u32, (run, judgement): &(Run, Judgement)) {
    let workloads = &run.plan.workloads;
    let is_told = |id: &str| !crate::topics::robustness::document::table(judgement, id).is_empty();
    let told = workloads.iter().filter(|one| is_told(&one.id)).count();
    let tables = workloads.len() + usize::from(workloads.len() > 1) + told;
    page_fits(width, &crate::report::html(run, judgement, &[]), tables);
}

/// The same of a page with so many tables of cards.
#[track_caller]
fn page_fits(width: u32, report: &str, tables: usize) {
    let Some(browser) = browser() else { return };
    let frame = format!(
        "<iframe src='report.html' style='width:{width}px;height:800px;border:0'></iframe><p></p>
        <script>onload = () => {{ {MEASURE} }}</script>"
    );
    let seen = open(&browser, &[("report.html", report), ("frame.html", &frame)]);
    let want = format!("tables {tables}, labels true, bad []</p>");
    let (dom, console) = (&seen.dom, &seen.console);
    assert!(dom.contains(&want), "{width} px: {dom} {console:?}");
}

/// Curves, groups of CPUs, and changes that are far apart.
fn wide_changes() -> Vec<(Run, Judgement)> {
    let (run, mut wild) = judged(web::two_kernels());
    let metric = &mut wild.comparisons[1];
    (metric.ratio, metric.low, metric.high) = (Some(45.0), Some(30.0), Some(60.0));
    wild.comparisons[0].pairs[3].arm *= 50.0;
    wild.comparisons[3].spec.unit = "instructions/request".into();
    vec![
        (run, wild),
        judged(web::connection_ramp()),
        judged(web::cpu_counts(&[1, 2, 4, 8])),
    ]
}

#[test]
fn labels_have_room_whatever_the_figures_are() {
    for page in wide_changes() {
        for width in [390, 700, 1000] {
            fits(width, &page);
        }
    }
}

#[test]
fn the_page_fits_a_phone_and_scrolls_only_downwards() {
    fits(390, &judged(web::two_kernels()));
    fits(390, &judged(web::two_workloads()));
}

#[test]
fn tables_of_metrics_are_not_cut_in_a_window_of_1000_pixels() {
    fits(1000, &judged(web::two_kernels()));
    fits(1000, &judged(web::two_workloads()));
}
