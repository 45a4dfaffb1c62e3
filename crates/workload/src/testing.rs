//! Helpers for tests of workloads.

use std::fs::{self, File};
use std::path::Path;
use std::process::Child;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use expect_test::Expect;
use plan::fields::{Fields, Page};
use record::load::Tick;
use serde::de::DeserializeOwned;

use crate::context::WorkloadContext;
use crate::service::Service;
use crate::{Control, Driven, Watcher, Workload};

/// Reads a `[[workload]]` table. The error has all mistakes.
pub(crate) fn read(text: &str) -> Result<plan::WorkloadPlan, String> {
    let page = Page::new("plan.toml", text);
    let table = page.parse();
    let plan = crate::check(&Fields::top(&page, &table));
    page.close(plan).map_err(|problems| problems.to_string())
}

/// Reads the options of a workload from a table.
pub(crate) fn options<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let plan = read(text)?;
    Ok(serde_json::from_value(plan.options).unwrap())
}

pub(crate) fn check_mistakes(text: &str, expected: &Expect) {
    expected.assert_eq(&read(text).unwrap_err());
}

/// Starts a service on this host and waits until it serves. Its output goes to a file in `dir`.
pub(crate) fn start_service(service: &Service, dir: &Path, env: &[(&str, &str)]) -> Child {
    let log = dir.join(format!("{}.log", service.name));
    let file = File::create(&log).unwrap();
    let mut process = crate::context::command(&service.command[0])
        .args(&service.command[1..])
        .envs(env.iter().copied())
        .stdout(file.try_clone().unwrap())
        .stderr(file)
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while let Err(why) = service.probe.ask() {
        let has_ended = process.try_wait().unwrap().is_some();
        let output = fs::read_to_string(&log).unwrap_or_default();
        let failed = service
            .start_failure
            .and_then(|failure| failure.find(&output));
        if has_ended || failed.is_some() || deadline <= Instant::now() {
            let _ = process.kill();
            let _ = process.wait();
            panic!("{why}\n{}", fs::read_to_string(&log).unwrap());
        }
        thread::sleep(Duration::from_millis(50));
    }
    process
}

/// Drives a workload to its end, unobserved.
pub(crate) fn drive(workload: &dyn Workload, context: &WorkloadContext) -> Result<Driven> {
    let mut control = Control {
        stop: &AtomicBool::new(false),
        watcher: &mut NullWatcher,
    };
    workload.drive(context, &mut control)
}

struct NullWatcher;

impl Watcher for NullWatcher {
    fn begins(&mut self) {}
    fn ticks(&mut self, _: Tick) {}
}
