//! What a run directory says now: directories that are written while they are read, locked, not there yet, gone, or damaged.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::time::{Duration, SystemTime};

use record::latency::Latency;
use record::live::{Activity, Eyes, Snapshot, State, Watched};
use record::load::Second;

/// Eyes for which no time passes while they judge.
pub(crate) fn eyes() -> Eyes {
    Eyes {
        check: workload::check,
        look: judge::look,
        now: SystemTime::now,
        clock: || Duration::ZERO,
    }
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

/// A copy of a run that is kept with the tests.
pub(crate) fn copy(name: &str, to: &Path) {
    let done = Command::new("cp")
        .arg("-r")
        .arg(golden(name))
        .arg(to)
        .status();
    assert!(done.unwrap().success());
}

/// The lines of a run's journal.
pub(crate) fn journal(dir: &Path) -> Vec<String> {
    let text = fs::read_to_string(dir.join("journal.jsonl")).unwrap();
    text.lines().map(String::from).collect()
}

/// The first line of the last of its six blocks.
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

/// Holds a run's lock as the bakeoff does that is at it, until it is unlocked: a program that another test starts has it, too, for a moment.
pub(crate) fn lock(dir: &Path) -> File {
    let lock = File::create(dir.join("lock")).unwrap();
    lock.try_lock().unwrap();
    lock
}

fn words(now: &Snapshot) -> Vec<&'static str> {
    judge::topics::live::document::verdicts_so_far(now)
        .into_iter()
        .map(|(word, _)| word)
        .collect()
}

#[test]
fn a_run_is_followed_from_before_it_is_there_until_it_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("real");
    let mut watched = Watched::new(&path, eyes());
    assert_eq!(watched.look(true).state, State::NotThere);
    copy("real", &path);
    let lines = journal(&path);
    fs::remove_file(path.join("journal.jsonl")).unwrap();
    let now = watched.look(true);
    assert_eq!(now.state, State::NotBegun);
    assert!(now.plan.is_some() && now.left.is_none());
    let held = lock(&path);
    assert_eq!(watched.look(true).state, State::Running);
    // All but the last block, and the begin of its first line.
    let torn = last_block(&lines);
    cut_journal(&path, &lines[..torn]);
    append(&path.join("journal.jsonl"), &lines[torn][..20]);
    let now = watched.look(true);
    assert_eq!((now.state, now.entries.len()), (State::Running, torn));
    assert_eq!(now.problem, None);
    assert_eq!(words(&now), ["undecided"]);
    assert!(now.left.is_some());
    append(
        &path.join("journal.jsonl"),
        &format!("{}\n", &lines[torn][20..]),
    );
    assert_eq!(watched.look(true).entries.len(), torn + 1);
    let last = lines.len() - 1;
    for line in &lines[torn + 1..last] {
        append(&path.join("journal.jsonl"), &format!("{line}\n"));
    }
    held.unlock().unwrap();
    assert_eq!(watched.look(true).state, State::Interrupted);
    append(&path.join("journal.jsonl"), &format!("{}\n", lines[last]));
    let now = watched.look(true);
    assert_eq!(now.state, State::Finished);
    assert_eq!(words(&now), ["trade-off"]);
    assert_eq!((now.left, now.attempts.len()), (None, 12));
    fs::remove_dir_all(&path).unwrap();
    let now = watched.look(true);
    assert_eq!(now.state, State::Gone);
    assert_eq!(words(&now), ["trade-off"], "what was said stays");
}

#[test]
fn a_damaged_directory_is_told_with_its_place_and_another_in_its_place_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("real");
    copy("real", &path);
    let lines = journal(&path);
    let mut broken = lines.clone();
    broken[3] = "{\"at\":\"half".into();
    cut_journal(&path, &broken);
    let mut watched = Watched::new(&path, eyes());
    for _ in 0..2 {
        let now = watched.look(true);
        assert_eq!(now.state, State::Damaged);
        let problem = now.problem.unwrap();
        assert!(problem.starts_with("damaged journal: "), "{problem}");
        assert!(problem.contains("journal.jsonl line 4: "), "{problem}");
    }
    fs::remove_file(path.join("journal.jsonl")).unwrap();
    cut_journal(&path, &lines);
    assert_eq!(watched.look(true).state, State::Finished);
    fs::write(path.join("trials/003/trial.json"), "{}").unwrap();
    let mut watched = Watched::new(&path, eyes());
    let now = watched.look(true);
    assert_eq!(now.state, State::Damaged);
    assert!(now.problem.unwrap().contains("trials/003/trial.json"));
    fs::write(path.join("plan.toml"), "title = 1").unwrap();
    let now = Watched::new(&path, eyes()).look(true);
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

/// A copy of a run in which trial 012 is under way.
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
fn a_trial_under_way_grows_second_by_second() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("real");
    let trial = under_way(&path);
    let mut watched = Watched::new(&path, eyes());
    let held = lock(&path);
    let activity = |now: &Snapshot| {
        let arm = now.arms.iter().find(|arm| arm.attempt.trial.number == 12);
        let arm = arm.expect("it is its arm's newest");
        (arm.activity, arm.curve.points().len())
    };
    assert_eq!(activity(&watched.look(true)), (Some(Activity::Starting), 0));
    append(&trial.join("seconds.jsonl"), &second(0, 10));
    append(&trial.join("seconds.jsonl"), &second(1, 20)[..30]);
    // Its window is of one second.
    assert_eq!(activity(&watched.look(true)), (Some(Activity::Ending), 1));
    append(&trial.join("seconds.jsonl"), &second(1, 20)[30..]);
    append(
        &trial.join("defects.jsonl"),
        "{\"kind\":\"hung-task\",\"top\":\"fsync\",\"count\":2}\n",
    );
    let now = watched.look(true);
    assert_eq!(activity(&now), (Some(Activity::Ending), 2));
    assert_eq!(now.defects.len(), 1);
    // Thinned: another file takes its place.
    fs::write(trial.join("draft"), second(0, 30) + &second(60, 5)).unwrap();
    fs::rename(trial.join("draft"), trial.join("seconds.jsonl")).unwrap();
    let (_, points) = activity(&watched.look(true));
    assert_eq!(points, 2);
    held.unlock().unwrap();
    let now = watched.look(true);
    assert_eq!((now.state, activity(&now).0), (State::Interrupted, None));
}

/// What the console tells of a trial is written as it ends, after the last look at it.
#[test]
fn a_defect_that_is_told_as_a_trial_ends_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let (path, whole) = (dir.path().join("real"), dir.path().join("whole"));
    copy("real", &whole);
    let trial = under_way(&path);
    let mut watched = Watched::new(&path, eyes());
    let _held = lock(&path);
    assert!(watched.look(true).defects.is_empty());
    let defect = "{\"kind\":\"panic\",\"top\":\"\",\"count\":1}\n";
    append(&trial.join("defects.jsonl"), defect);
    let lines = journal(&whole);
    let mut ended = lines.iter().filter(|line| line.contains("\"ended\""));
    let last = ended.next_back().unwrap();
    append(&path.join("journal.jsonl"), &format!("{last}\n"));
    assert_eq!(watched.look(true).defects.len(), 1);
}

/// What is done once the screen is drawn: keys, or something else.
type Action<'a> = &'a dyn Fn(&mut ChildStdin);

/// Runs a command in a terminal of 100 columns and 30 rows; returns all that was written to it.
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
    let (mut stdin, mut out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (mut seen, mut piece) = (Vec::new(), [0; 4096]);
    let mut actions = actions.iter();
    loop {
        match out.read(&mut piece).unwrap() {
            0 => break,
            length => seen.extend_from_slice(&piece[..length]),
        }
        let is_drawn = String::from_utf8_lossy(&seen).contains("journal");
        if is_drawn && let Some(action) = actions.next() {
            action(&mut stdin);
        }
    }
    child.wait().unwrap();
    String::from_utf8_lossy(&seen).into_owned()
}

#[test]
fn a_terminal_is_put_back_whether_a_key_or_a_signal_ends_it() {
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
    let ways: [&[Action<'_>]; 2] = [&[&help, &quit], &[&kill]];
    for actions in ways {
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
fn without_a_terminal_a_line_tells_of_the_run_and_a_run_that_is_not_there_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    copy("real", &dir.path().join("real"));
    let watch = |run: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
        let output = command
            .args(["watch", run])
            .current_dir(dir.path())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    let (status, out, _) = watch("real");
    assert_eq!((status, out.lines().count()), (Some(0), 1), "{out}");
    assert!(
        out.contains("trade-off: 7.2 can serve 3.48 % fewer requests/s than 6.1"),
        "{out}"
    );
    let (status, _, said) = watch("absent");
    assert_eq!(status, Some(2));
    assert_eq!(
        said,
        "bakeoff: no run here: absent (bakeoff list tells which there are)\n"
    );
}
