//! The rooms may use each other only along the arrows of ARCHITECTURE.md.

use std::path::Path;

/// What tests may use beyond that: the golden page shows a real judgement, and skips are one helper's.
const TEST_ARROWS: [(&str, &str); 19] = [
    ("profiler", "skip"),
    ("machine", "skip"),
    ("record", "skip"),
    ("import", "skip"),
    ("report", "verdict"),
    ("verdict", "fixtures"),
    ("verdict", "skip"),
    ("fairness", "fixtures"),
    ("report", "fixtures"),
    ("agent", "skip"),
    ("schedulers", "skip"),
    ("workload", "skip"),
    ("report", "skip"),
    ("bakeoff", "skip"),
    ("bakeoff", "fixtures"),
    ("live", "fixtures"),
    ("watch", "fixtures"),
    ("watch", "verdict"),
    ("watch", "record"),
];

/// What each room may use; a room that is missing here may not exist.
const ARROWS: [(&str, &[&str]); 26] = [
    ("input", &[]),
    ("process", &[]),
    ("profiler", &["input"]),
    ("secret", &["input"]),
    ("slurm", &["input"]),
    ("skip", &[]),
    ("hardware", &[]),
    ("defects", &[]),
    ("fixtures", &["plan", "record"]),
    ("plan", &["input"]),
    ("disk", &["plan"]),
    ("record", &["input", "plan", "defects"]),
    ("protocol", &["input", "plan", "record"]),
    ("schedulers", &["plan"]),
    ("load", &["input", "record"]),
    (
        "workload",
        &["input", "process", "plan", "record", "protocol", "load"],
    ),
    (
        "agent",
        &[
            "input",
            "process",
            "plan",
            "record",
            "protocol",
            "load",
            "workload",
            "profiler",
            "secret",
            "hardware",
            "defects",
            "disk",
            "schedulers",
        ],
    ),
    (
        "machine",
        &[
            "input", "process", "plan", "record", "protocol", "profiler", "secret", "hardware",
            "defects",
        ],
    ),
    ("fairness", &["plan", "record"]),
    (
        "verdict",
        &["input", "plan", "record", "fairness", "defects"],
    ),
    ("live", &["input", "plan", "record"]),
    ("report", &["input", "live", "plan", "record", "fairness"]),
    ("watch", &["input", "live", "report", "secret"]),
    ("import", &["input", "record"]),
    ("load-cli", &["input", "record", "load", "report", "secret"]),
    (
        "bakeoff",
        &[
            "input",
            "plan",
            "record",
            "protocol",
            "load",
            "load-cli",
            "workload",
            "agent",
            "machine",
            "fairness",
            "verdict",
            "report",
            "import",
            "profiler",
            "live",
            "secret",
            "slurm",
            "watch",
            "schedulers",
        ],
    ),
];

fn forbidden_edges(room: &str, manifest: &str) -> Vec<String> {
    let rooms: Vec<&str> = ARROWS.iter().map(|(room, _)| *room).collect();
    let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == room) else {
        return vec![format!("{room} is not a room")];
    };
    let manifest: toml::Table = manifest.parse().expect("cargo has read this manifest");
    let mut edges = Vec::new();
    for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
        let Some(uses) = manifest.get(section).and_then(|uses| uses.as_table()) else {
            continue;
        };
        let named = uses.keys().filter(|used| rooms.contains(&used.as_str()));
        let lent = |used: &str| section.starts_with("dev") && TEST_ARROWS.contains(&(room, used));
        let wrong = named.filter(|used| !allowed.contains(&used.as_str()) && !lent(used.as_str()));
        edges.extend(wrong.map(|used| format!("{room} -> {used}")));
    }
    edges
}

#[test]
fn no_room_uses_another_against_the_arrows() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut edges = Vec::new();
    for entry in crates.read_dir().unwrap() {
        let dir = entry.unwrap().path();
        let room = dir.file_name().unwrap().to_str().unwrap();
        edges.extend(forbidden_edges(
            room,
            &std::fs::read_to_string(dir.join("Cargo.toml")).unwrap(),
        ));
    }
    assert_eq!(edges, Vec::<String>::new());
}

#[test]
fn a_forbidden_edge_is_seen() {
    let manifest = "[dependencies]\nrecord = \"1\"\nagent = \"1\"\n";
    assert_eq!(forbidden_edges("machine", manifest), ["machine -> agent"]);
    assert_eq!(
        forbidden_edges("cellar", manifest),
        ["cellar is not a room"]
    );
}

/// Packages of a lock file that are neither of this workspace nor from crates.io with a checksum.
fn of_unknown_origin(lock: &str) -> Vec<String> {
    let lock: toml::Table = lock.parse().expect("cargo has read this file");
    let packages = lock["package"].as_array().expect("a list of packages");
    let name = |package: &toml::Value| package["name"].as_str().unwrap_or_default().to_string();
    let is_known =
        |package: &&toml::Value| match package.get("source").and_then(toml::Value::as_str) {
            None => name(package).starts_with("bakeoff"),
            Some(source) => {
                source == "registry+https://github.com/rust-lang/crates.io-index"
                    && package.get("checksum").is_some()
            }
        };
    packages
        .iter()
        .filter(|package| !is_known(package))
        .map(name)
        .collect()
}

#[test]
fn all_crates_are_from_crates_io_with_a_checksum() {
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    let lock = std::fs::read_to_string(lock).unwrap();
    assert_eq!(of_unknown_origin(&lock), Vec::<String>::new());
}

#[test]
fn a_crate_of_unknown_origin_is_seen() {
    let lock = r#"
        [[package]]
        name = "bakeoff-plan"
        version = "1.0.0"
        [[package]]
        name = "from-git"
        version = "1.0.0"
        source = "git+https://example.org/x#1"
        [[package]]
        name = "without-checksum"
        version = "1.0.0"
        source = "registry+https://github.com/rust-lang/crates.io-index"
        [[package]]
        name = "beside"
        version = "1.0.0"
    "#;
    assert_eq!(
        of_unknown_origin(lock),
        ["from-git", "without-checksum", "beside"]
    );
}
