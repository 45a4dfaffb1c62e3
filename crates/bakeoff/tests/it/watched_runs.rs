//! Watching run directories: written while they are read, locked, not there yet, gone, or damaged.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::time::{Duration, SystemTime};

use base::latency::Latency;
use record::live::{Activity, Callbacks, Snapshot, State, Watched};
use record::load::Second;

use crate::golden::golden;
use crate::program::{bakeoff, refusal, stdout};

/// Callbacks with a clock that stands still, so judging takes no time.
pub(crate) fn callbacks() -> Callbacks {
    Callbacks {
        check: workload::check,
        judge: judge::interim,
        now: SystemTime::now,
        clock: || Duration::ZERO,
    }
}

/// Copies a stored run.
pub(crate) fn copy(name: &str, to: &Path) {
    let cp = Command::new("cp")
        .args(["-r", "--no-preserve=all"])
        .arg(golden(name))
        .arg(to)
        .status();
    assert!(cp.unwrap().success());
}

/// The lines of a run's journal.
pub(crate) fn journal(dir: &Path) -> Vec<String> {
    let text = fs::read_to_string(dir.join("journal.jsonl")).unwrap();
    text.lines().map(String::from).collect()
}

/// Index of the first journal line of the last of six blocks.
pub(crate) fn last_block(lines: &[String]) -> usize {
    let first = lines.iter().position(|line| line.contains("\"block\":6"));
    first.expect("it has six blocks")
}

pub(crate) fn cut_journal(dir: &Path, lines: &[String]) {
    fs::write(dir.join("journal.jsonl"), lines.join("\n") + "\n").unwrap();
}

pub(crate) fn append(path: &Path, text: &str) {
    let file = OpenOptions::new().append(true).create(true).open(path);
    file.unwrap().write_all(text.as_bytes()).unwrap();
}

/// Holds a run's lock like a running bakeoff. Unlock it explicitly: a program that another test
/// starts may inherit it for a moment.
pub(crate) fn lock(dir: &Path) -> File {
    let lock = File::create(dir.join("lock")).unwrap();
    lock.try_lock().unwrap();
    lock
}

fn verdict_words(now: &Snapshot) -> Vec<&'static str> {
    judge::topics::live::document::verdicts_so_far(now)
        .into_iter()
        .map(|(word, _)| word)
        .collect()
}

#[test]
fn a_run_is_watched_from_before_it_exists_until_it_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("real");
    let mut watched = Watched::new(&path, callbacks());
    assert_eq!(watched.refresh(true).state, State::NotThere);
    copy("real", &path);
    let lines = journal(&path);
    fs::remove_file(path.join("journal.jsonl")).unwrap();
    let now = watched.refresh(true);
    assert_eq!(now.state, State::NotBegun);
    assert!(now.plan.is_some() && now.left.is_none());
    let held = lock(&path);
    assert_eq!(watched.refresh(true).state, State::Running);
    // All but the last block, and a torn line of that.
    let torn = last_block(&lines);
    cut_journal(&path, &lines[..torn]);
    append(&path.join("journal.jsonl"), &lines[torn][..20]);
    let now = watched.refresh(true);
    assert_eq!((now.state, now.entries.len()), (State::Running, torn));
    assert_eq!(now.problem, None);
    assert_eq!(verdict_words(&now), ["undecided"]);
    assert!(now.left.is_some());
    append(
        &path.join("journal.jsonl"),
        &format!("{}\n", &lines[torn][20..]),
    );
    assert_eq!(watched.refresh(true).entries.len(), torn + 1);
    let last = lines.len() - 1;
    for line in &lines[torn + 1..last] {
        append(&path.join("journal.jsonl"), &format!("{line}\n"));
    }
    held.unlock().unwrap();
    assert_eq!(watched.refresh(true).state, State::Interrupted);
    append(&path.join("journal.jsonl"), &format!("{}\n", lines[last]));
    let now = watched.refresh(true);
    assert_eq!(now.state, State::Finished);
    assert_eq!(verdict_words(&now), ["trade-off"]);
    assert_eq!((now.left, now.attempts.len()), (None, 12));
    fs::remove_dir_all(&path).unwrap();
    let now = watched.refresh(true);
    assert_eq!(now.state, State::Gone);
    assert_eq!(verdict_words(&now), ["trade-off"], "the verdict stays");
}

#[test]
fn a_damaged_directory_is_reported_and_read_again_after_repair() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("real");
    copy("real", &path);
    let lines = journal(&path);
    let mut broken = lines.clone();
    broken[3] = "{\"at\":\"half".into();
    cut_journal(&path, &broken);
    let mut watched = Watched::new(&path, callbacks());
    for _ in 0..2 {
        let now = watched.refresh(true);
        assert_eq!(now.state, State::Damaged);
        let problem = now.problem.unwrap();
        assert!(problem.starts_with("damaged journal: "), "{problem}");
        assert!(problem.contains("journal.jsonl line 4: "), "{problem}");
    }
    fs::remove_file(path.join("journal.jsonl")).unwrap();
    cut_journal(&path, &lines);
    assert_eq!(watched.refresh(true).state, State::Finished);
    fs::write(path.join("trials/003/trial.json"), "{}").unwrap();
    let mut watched = Watched::new(&path, callbacks());
    let now = watched.refresh(true);
    assert_eq!(now.state, State::Damaged);
    assert!(now.problem.unwrap().contains("trials/003/trial.json"));
    fs::write(path.join("plan.toml"), "title = 1").unwrap();
    let now = Watched::new(&path, callbacks()).refresh(true);
    assert!(now.problem.unwrap().starts_with("cannot read plan: "));
    assert!(now.plan.is_none());
}

fn second(at_s: u64, ok: u64) -> String {
    let mut latency = Latency::coarse();
    (0..ok).for_each(|_| latency.record(2_000_000));
    let second = Second {
        at_ms: at_s * 1000,
        ok,
        latency: latency.pack(),
        ..Second::default()
    };
    format!("{}\n", serde_json::to_string(&second).unwrap())
}

/// Copies a run, changed so that trial 012 is running; returns the trial's directory.
pub(crate) fn under_way(path: &Path) -> PathBuf {
    copy("real", path);
    let lines = journal(path);
    let ended = lines
        .iter()
        .rposition(|line| line.contains("\"ended\""))
        .unwrap();
    cut_journal(path, &lines[..ended]);
    let trial = path.join("trials/012");
    fs::remove_dir_all(&trial).unwrap();
    fs::create_dir(&trial).unwrap();
    trial
}

#[test]
fn a_running_trial_grows_second_by_second() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("real");
    let trial = under_way(&path);
    let mut watched = Watched::new(&path, callbacks());
    let held = lock(&path);
    let activity = |now: &Snapshot| {
        let arm = now.arms.iter().find(|arm| arm.attempt.trial.number == 12);
        let arm = arm.expect("it is its arm's newest");
        (arm.activity, arm.curve.points().len())
    };
    assert_eq!(
        activity(&watched.refresh(true)),
        (Some(Activity::Starting), 0)
    );
    append(&trial.join("seconds.jsonl"), &second(0, 10));
    append(&trial.join("seconds.jsonl"), &second(1, 20)[..30]);
    // The window has one second.
    assert_eq!(
        activity(&watched.refresh(true)),
        (Some(Activity::Ending), 1)
    );
    append(&trial.join("seconds.jsonl"), &second(1, 20)[30..]);
    append(
        &trial.join("defects.jsonl"),
        "{\"kind\":\"hung-task\",\"top\":\"fsync\",\"count\":2}\n",
    );
    let now = watched.refresh(true);
    assert_eq!(activity(&now), (Some(Activity::Ending), 2));
    assert_eq!(now.defects.len(), 1);
    // Thinning replaces the file.
    fs::write(trial.join("draft"), second(0, 30) + &second(60, 5)).unwrap();
    fs::rename(trial.join("draft"), trial.join("seconds.jsonl")).unwrap();
    let (_, points) = activity(&watched.refresh(true));
    assert_eq!(points, 2);
    held.unlock().unwrap();
    let now = watched.refresh(true);
    assert_eq!((now.state, activity(&now).0), (State::Interrupted, None));
}

/// Defects on the console are written when a trial ends, after the last look at it.
#[test]
fn a_defect_that_is_written_at_the_end_of_a_trial_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let (path, whole) = (dir.path().join("real"), dir.path().join("whole"));
    copy("real", &whole);
    let trial = under_way(&path);
    let mut watched = Watched::new(&path, callbacks());
    let _held = lock(&path);
    assert!(watched.refresh(true).defects.is_empty());
    let defect = "{\"kind\":\"panic\",\"top\":\"\",\"count\":1}\n";
    append(&trial.join("defects.jsonl"), defect);
    let lines = journal(&whole);
    let last = lines.iter().rfind(|line| line.contains("\"ended\""));
    let last = last.unwrap();
    append(&path.join("journal.jsonl"), &format!("{last}\n"));
    assert_eq!(watched.refresh(true).defects.len(), 1);
}

/// An action after the screen was drawn, such as a key.
type Action<'a> = &'a dyn Fn(&mut ChildStdin);

/// Runs a command in a terminal of 100 columns and 30 rows; returns its output.
fn in_terminal(dir: &Path, command: &str, actions: &[Action<'_>]) -> String {
    let mut script = Command::new("script");
    script
        .args([
            "-qec",
            &format!("stty cols 100 rows 30; {command}"),
            "/dev/null",
        ])
        .current_dir(dir)
        .env("TERM", "xterm-256color")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = script.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let (mut screen, mut buffer) = (Vec::new(), [0; 4096]);
    let mut actions = actions.iter();
    loop {
        match stdout.read(&mut buffer).unwrap() {
            0 => break,
            length => screen.extend_from_slice(&buffer[..length]),
        }
        let is_drawn = String::from_utf8_lossy(&screen).contains("journal");
        if is_drawn && let Some(action) = actions.next() {
            action(&mut stdin);
        }
    }
    child.wait().unwrap();
    String::from_utf8_lossy(&screen).into_owned()
}

#[test]
fn the_terminal_is_restored_after_a_key_or_a_signal() {
    let dir = tempfile::tempdir().unwrap();
    copy("real", &dir.path().join("real"));
    let bakeoff = env!("CARGO_BIN_EXE_bakeoff");
    let command = format!("sh -c 'echo $$ > pid; exec {bakeoff} watch real'; stty -a");
    let help = |keys: &mut ChildStdin| keys.write_all(b"?").unwrap();
    let quit = |keys: &mut ChildStdin| keys.write_all(b"q").unwrap();
    let kill = |_: &mut ChildStdin| {
        let pid = fs::read_to_string(dir.path().join("pid")).unwrap();
        Command::new("kill").arg(pid.trim()).status().unwrap();
    };
    let cases: [&[Action<'_>]; 2] = [&[&help, &quit], &[&kill]];
    for actions in cases {
        let screen = in_terminal(dir.path(), &command, actions);
        let entered = screen.find("\u{1b}[?1049h");
        let left = screen.rfind("\u{1b}[?1049l");
        assert!(entered.is_some() && entered < left, "{screen}");
        assert!(screen.contains("Static web serving"), "{screen}");
        assert!(
            screen.contains(" icanon") && screen.contains(" echo "),
            "{screen}"
        );
    }
}

#[test]
fn without_a_terminal_watch_prints_one_line() {
    let dir = tempfile::tempdir().unwrap();
    copy("real", &dir.path().join("real"));
    let output = bakeoff(dir.path(), &["watch", "real"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(
        text.contains("trade-off: 7.2 against 6.1, web-static (emulated, counted instructions): capacity -3.48 %"),
        "{text}"
    );
    assert_eq!(
        refusal(&bakeoff(dir.path(), &["watch", "absent"])),
        "bakeoff: no run here: absent (bakeoff list tells which there are)\n"
    );
}
