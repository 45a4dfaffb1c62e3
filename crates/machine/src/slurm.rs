//! Jobs of a Slurm cluster, through its programs for users: sbatch, squeue, scancel, sinfo.
//!
//! Slurm's library changes between releases, and its REST service is seldom installed; the output of these programs with an
//! explicit format has been the same since Slurm 15. Nothing here knows what a job does, nor whether it has succeeded: sacct,
//! which would know, needs a database that small clusters lack.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use base::input::text::shell_word;

/// Most tasks of an array: the default of `MaxArraySize` is 1000.
pub const MOST_TASKS: u32 = 500;

/// An array to submit: one task for each number.
#[derive(Debug, Clone)]
pub struct Array {
    /// Name of the job, by which it is found again.
    pub name: String,
    /// The numbers of the tasks, from 1 to `MOST_TASKS`.
    pub tasks: Vec<u32>,
    /// Most simultaneous tasks; `None` for the number of nodes.
    pub width: Option<u32>,
    /// The partition; `None` for the cluster's default.
    pub partition: Option<String>,
    /// Nodes that it must not run on.
    pub excluded: Vec<String>,
    /// Directory for the tasks' outputs, visible on all nodes.
    pub outputs: PathBuf,
    /// Working directory of the tasks.
    pub directory: PathBuf,
    /// The shell script of each task.
    pub script: String,
}

/// A task that the cluster has not finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// `12_3`: the array's number and the task's.
    pub id: String,
    /// The number of the task.
    pub task: u32,
    /// The name of its array.
    pub name: String,
    /// Its state.
    pub state: State,
    /// The node that it is on; empty while it waits.
    pub node: String,
    /// Why it waits, from Slurm.
    pub reason: String,
}

/// The state of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It waits.
    Pending,
    /// It is on a node.
    Running,
    /// Any other state, by Slurm's name.
    Other(String),
}

/// Nodes of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeState {
    /// Its name.
    pub name: String,
    /// Its state: `idle`, `drained`, `down*`.
    pub state: String,
}

/// The nodes of a partition, or of the default one, each once.
///
/// # Errors
/// There is no Slurm, it does not answer, or it has no such partition.
pub fn nodes(partition: Option<&str>) -> Result<Vec<NodeState>> {
    let text = ask("sinfo", &["-h", "-N", "-o", "%P|%N|%t"])?;
    let lines: Vec<[&str; 3]> = text.lines().filter_map(fields).collect();
    // The default partition has a star.
    let is_wanted = |name: &str| match partition {
        Some(wanted) => name.trim_end_matches('*') == wanted,
        None => name.ends_with('*'),
    };
    let mut nodes: Vec<NodeState> = Vec::new();
    for [_, name, state] in lines
        .iter()
        .filter(|[partition_name, ..]| is_wanted(partition_name))
    {
        if nodes.iter().all(|known| known.name != *name) {
            nodes.push(NodeState {
                name: (*name).into(),
                state: (*state).into(),
            });
        }
    }
    if !nodes.is_empty() {
        return Ok(nodes);
    }
    let mut known: Vec<&str> = lines
        .iter()
        .map(|[name, ..]| name.trim_end_matches('*'))
        .collect();
    known.sort_unstable();
    known.dedup();
    let known = known.join(", ");
    match partition {
        Some(wanted) => bail!("no such partition: {wanted} (Slurm has: {known})"),
        None => bail!("Slurm has no default partition (name one with --partition: {known})"),
    }
}

/// The names in a list such as `n[1-3,7]`.
///
/// # Errors
/// Slurm cannot read it.
pub fn expand(list: &str) -> Result<Vec<String>> {
    let text = ask("scontrol", &["show", "hostnames", list])?;
    Ok(text.lines().map(String::from).collect())
}

/// Submits an array, and returns its number.
///
/// # Errors
/// The error of sbatch.
pub fn submit(array: &Array) -> Result<String> {
    let mut command = Command::new("sbatch");
    command.args(options(array));
    // Variables of another job must not affect these jobs.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SLURM_") && name != "SLURM_CONF" {
            command.env_remove(name);
        }
    }
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|why| missing("sbatch", &why))?;
    let mut stdin = child.stdin.take().context("sbatch has no input")?;
    // If it ends before it has read everything, its standard error says why.
    let _ = stdin.write_all(array.script.as_bytes());
    drop(stdin);
    let text = text_of("sbatch", &child.wait_with_output()?)?;
    let id = text.lines().last().unwrap_or_default();
    Ok(id.split(';').next().unwrap_or_default().into())
}

fn options(array: &Array) -> Vec<String> {
    let tasks: Vec<String> = ranges(&array.tasks);
    let width = array
        .width
        .map_or(String::new(), |width| format!("%{width}"));
    let output = array.outputs.join("slurm-%A_%a.log");
    let mut options = vec![
        "--parsable".to_string(),
        format!("--job-name={}", array.name),
        format!("--array={}{width}", tasks.join(",")),
        "--nodes=1".into(),
        "--ntasks=1".into(),
        "--requeue".into(),
        "--exclusive".into(),
        "--open-mode=append".into(),
        format!("--output={}", output.display()),
        format!("--chdir={}", array.directory.display()),
    ];
    options.extend(
        array
            .partition
            .iter()
            .map(|name| format!("--partition={name}")),
    );
    if !array.excluded.is_empty() {
        options.push(format!("--exclude={}", array.excluded.join(",")));
    }
    options
}

/// `1-3`, `7`.
fn ranges(numbers: &[u32]) -> Vec<String> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let show = |(first, last): &(u32, u32)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    };
    ranges.iter().map(show).collect()
}

/// All tasks of this user whose names begin so, and that the cluster has not finished.
///
/// # Errors
/// There is no Slurm, or it does not answer.
pub fn jobs(beginning: &str) -> Result<Vec<Job>> {
    let text = ask("squeue", &["-h", "-r", "--me", "-o", "%i|%K|%j|%T|%N|%r"])?;
    Ok(read_jobs(&text, beginning))
}

fn read_jobs(text: &str, beginning: &str) -> Vec<Job> {
    let job = |line: &str| {
        let [id, task, name, state, node, reason] = fields(line)?;
        name.starts_with(beginning).then_some(())?;
        Some(Job {
            id: id.into(),
            task: task.parse().ok()?,
            name: name.into(),
            state: match state {
                "PENDING" => State::Pending,
                "RUNNING" => State::Running,
                other => State::Other(other.into()),
            },
            node: node.into(),
            reason: reason.into(),
        })
    };
    text.lines().filter_map(job).collect()
}

/// Removes waiting tasks from the queue; running ones continue.
///
/// # Errors
/// The error of scancel.
pub fn cancel_pending(ids: &[String]) -> Result<()> {
    for some in ids.chunks(200) {
        let mut args = vec!["--state=PENDING", "--quiet"];
        args.extend(some.iter().map(String::as_str));
        ask("scancel", &args)?;
    }
    Ok(())
}

/// The file with a task's output.
#[must_use]
pub fn output(outputs: &Path, id: &str) -> PathBuf {
    outputs.join(format!("slurm-{id}.log"))
}

/// A script that runs a command. Its words are quoted, except `$block`, which is the task's number plus `offset`.
#[must_use]
pub fn script(words: &[String], offset: u32) -> String {
    let word = |word: &String| match word.as_str() {
        "$block" => "\"$block\"".to_string(),
        word => shell_word(word),
    };
    let words: Vec<String> = words.iter().map(word).collect();
    format!(
        "#!/bin/sh\nblock=$((SLURM_ARRAY_TASK_ID + {offset}))\nexec {}\n",
        words.join(" ")
    )
}

fn fields<const N: usize>(line: &str) -> Option<[&str; N]> {
    let fields: Vec<&str> = line.split('|').map(str::trim).collect();
    fields.try_into().ok()
}

/// The output of a Slurm program.
fn ask(program: &str, args: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .map_err(|why| missing(program, &why))?;
    text_of(program, &output)
}

fn missing(program: &str, why: &std::io::Error) -> anyhow::Error {
    anyhow!(
        "no Slurm here: cannot run {program}: {why} (run this on a host of the cluster, install slurm-client there, or leave out \
         --slurm)"
    )
}

fn text_of(program: &str, output: &Output) -> Result<String> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let lines = stderr
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let lines: Vec<&str> = lines.map(|line| strip(program, line)).collect();
    bail!(
        "Slurm refused: {program}: {} (sinfo says how the cluster is)",
        lines.join("; ")
    )
}

/// Without `squeue: error: `.
fn strip<'t>(program: &str, line: &'t str) -> &'t str {
    let line = line.strip_prefix(program).unwrap_or(line);
    let line = line.strip_prefix(": ").unwrap_or(line);
    line.strip_prefix("error: ").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn tasks_are_written_as_ranges() {
        let shown = |numbers: &[u32]| ranges(numbers).join(",");
        assert_eq!(shown(&[1, 2, 3, 7, 9, 10]), "1-3,7,9-10");
        assert_eq!(shown(&[4]), "4");
    }

    #[test]
    fn a_script_quotes_all_words_but_the_block() {
        let words = ["bakeoff", "run", "a b.toml", "--block", "$block", "$HOME"];
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        expect![[r#"
            #!/bin/sh
            block=$((SLURM_ARRAY_TASK_ID + 500))
            exec bakeoff run 'a b.toml' --block "$block" '$HOME'
        "#]]
        .assert_eq(&script(&words, 500));
    }

    #[test]
    fn jobs_of_others_and_lines_of_another_form_are_passed_over() {
        let text = "12_3|3|bakeoff-ab-0|RUNNING|n1|None\n\
                    12_4|4|bakeoff-ab-0|PENDING||Resources\n\
                    12_5|5|bakeoff-ab-0|COMPLETING|n2|None\n\
                    13|N/A|bakeoff-ab-0|RUNNING|n1|None\n\
                    14_1|1|other|RUNNING|n1|None\nnonsense\n";
        let jobs = read_jobs(text, "bakeoff-ab-");
        let listed: Vec<String> = jobs
            .iter()
            .map(|job| format!("{} {} {:?} {}", job.id, job.task, job.state, job.reason))
            .collect();
        expect![[r#"
            [
                "12_3 3 Running None",
                "12_4 4 Pending Resources",
                "12_5 5 Other(\"COMPLETING\") None",
            ]
        "#]]
        .assert_debug_eq(&listed);
    }

    #[test]
    fn an_array_asks_for_one_node_to_itself() {
        let array = Array {
            name: "bakeoff-ab-0".into(),
            tasks: vec![1, 2],
            width: Some(4),
            partition: Some("lab".into()),
            excluded: vec!["n3".into()],
            outputs: "/run/blocks".into(),
            directory: "/home".into(),
            script: String::new(),
        };
        expect![[r#"
            --parsable
            --job-name=bakeoff-ab-0
            --array=1-2%4
            --nodes=1
            --ntasks=1
            --requeue
            --exclusive
            --open-mode=append
            --output=/run/blocks/slurm-%A_%a.log
            --chdir=/home
            --partition=lab
            --exclude=n3"#]]
        .assert_eq(&options(&array).join("\n"));
    }
}
