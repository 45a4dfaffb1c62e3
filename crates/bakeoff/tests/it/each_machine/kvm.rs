//! KVM in an emulated guest: an inner guest boots under KVM and is measured.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::nested_kvm::{FILES, pack, run_until_measured, shown_files};
use crate::real_guests::can_boot;

/// Makes both arms of each plan alike, so that any first trial is the wanted one.
fn shortened(name: &str, text: &str) -> String {
    match name {
        "outer.toml" => text
            .replace("clearcpuid=194", "quiet")
            .replace("inside.sh", "smoke.sh"),
        "inner.toml" => text.replace("debian:trixie-backports/7.2", "debian:bookworm/6.1"),
        _ => text.into(),
    }
}

#[test]
#[ignore = "boots guests: .ci/run, make test-all"]
fn a_guest_is_measured_under_kvm() {
    if !can_boot() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().canonicalize().unwrap();
    for (name, text) in FILES {
        fs::write(dir.join(name), shortened(name, text)).unwrap();
    }
    pack(&["debian:bookworm/6.1"], &dir);
    run_until_measured(1, &dir);
    let files: BTreeMap<String, String> = shown_files(&dir, "001").into_iter().collect();
    println!("{}", files["run"]);
    let opening = files["journal.jsonl"].lines().next().unwrap();
    let opening: Value = serde_json::from_str(opening).unwrap();
    assert_eq!(opening["event"]["opened"]["machine"]["acceleration"], "kvm");
    assert!(files["journal.jsonl"].contains("\"ending\":\"measured\""));
    let facts: Value = serde_json::from_str(&files["facts"]).unwrap();
    assert_eq!(facts["values"]["host:memory"], "reserved huge pages");
    assert!(
        facts["boot_log"]
            .to_string()
            .contains("Hypervisor detected: KVM")
    );
}
