//! Guests of a real kernel that do what a guest must not do: each of their trials is void with its reason, the host's memory
//! stays small, and the trials between them are measured.
//!
//! ```text
//! log       floods the kernel's log with escape sequences and reports of faults that never were
//! marks     tells the emulator's plugins that the window begins and ends, again and again
//! code      makes code, call paths and names of tasks without end, to fill the profile
//! port      takes the agent's port to the host from the agent, and floods it
//! all       all of it at once, and the same lines to the console, past the kernel's driver
//! ```
//! The attacker is this binary, which the guest runs as root.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use base::skip::limits::peak_bytes;
use record::rundir;
use record::trial::Outcome;

use crate::real_guests::{can_boot, processes, strip, stripped, wait_for_the_end_of_all};

/// Each attack with words of the reason for which its trial is void; without words it harms nothing, and the trial is measured.
const ATTACKS: [(&str, Option<&str>); 5] = [
    ("log", None),
    ("marks", Some("marks")),
    ("code", Some("")),
    ("port", Some("")),
    ("all", Some("")),
];

const MOST_MIB: u64 = 300;

fn plan() -> String {
    let honest = r#"
title = "hostile guests"
baseline = "honest"
[machine]
memory = "1GiB"
clock = "instructions"
boot_timeout = "10m"
silence = "10m"
trial_limit = "15m"
[image]
recipe = "web"
[arm.honest]
kernel = "debian:bookworm/6.1"
[[workload]]
kind = "command"
command = ["{dir}/attacker", "--exact", "hostile_guest::as_attacker", "--ignored", "--nocapture"]
files = ["attacker"]
limit = "10s"
[design]
margin = "2%"
max_blocks = 1
[why]
"#;
    let arms = ATTACKS.map(|(attack, _)| {
        format!(
            "[arm.{attack}]\nkernel = \"debian:bookworm/6.1\"\nsysctl = {{ \"kernel.domainname\" = \"attack-{attack}\" }}\n"
        )
    });
    format!("{honest}{}", arms.concat())
}

#[test]
#[ignore = "boots 10 guests: make test-all"]
fn hostile_guests_are_void_and_honest_ones_are_measured() {
    if !can_boot() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    // Free of symbolic links, as /proc shows it.
    let dir = temp.path().canonicalize().unwrap();
    strip(&std::env::current_exe().unwrap(), &dir.join("attacker"));
    fs::write(dir.join("plan.toml"), plan()).unwrap();
    // A development build has six times the bytes, and its functions are read for the profile.
    let mut run = Command::new(stripped(&dir));
    run.args(["run", "plan.toml", "--jobs", "1"])
        .current_dir(&dir);
    let mut run = run.stderr(Stdio::piped()).spawn().unwrap();
    let error = BufReader::new(run.stderr.take().unwrap());
    // Seen where the test fails, or with --nocapture.
    let said = thread::spawn(|| {
        for line in error.lines() {
            eprintln!("{}", line.unwrap());
        }
    });
    let peak_mib = peak_until_end(&mut run, &dir);
    said.join().unwrap();
    println!("peak {peak_mib} MiB");
    wait_for_the_end_of_all(&dir);
    let run = rundir::load(&dir.join("runs/plan"), &workload::check).unwrap();
    let mut endings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for attempt in &run.attempts {
        let ending = match &attempt.outcome {
            Outcome::Measured(_) => "measured".into(),
            Outcome::Void(void) => void.to_string(),
            Outcome::Skipped(why) => format!("skipped: {why:?}"),
        };
        endings
            .entry(attempt.trial.arm.clone())
            .or_default()
            .push(ending);
    }
    println!("{endings:#?}");
    assert!(endings["honest"].contains(&"measured".into()));
    for (attack, why) in ATTACKS {
        let ending = endings[attack].first().unwrap();
        match why {
            Some(why) => assert!(
                ending != "measured" && ending.contains(why),
                "{attack}: {ending}"
            ),
            None => assert_eq!(ending, "measured", "{attack}"),
        }
    }
    assert!(peak_mib < MOST_MIB, "{peak_mib} MiB");
}

/// The most memory that a process has had from its first guest until it ended, in MiB: packing a development build's initramfs
/// takes more than any guest.
fn peak_until_end(run: &mut Child, dir: &Path) -> u64 {
    let mut peak = 0;
    let mut has_guest = false;
    while run.try_wait().unwrap().is_none() {
        if !has_guest && !processes(dir, "-accel").is_empty() {
            has_guest = true;
            // 5 sets the peak back to what there is now.
            fs::write(format!("/proc/{}/clear_refs", run.id()), "5").unwrap();
        }
        peak = peak_bytes(&run.id().to_string()).unwrap_or(peak);
        thread::sleep(Duration::from_millis(50));
    }
    peak >> 20
}

/// A role of this binary, no test: a guest runs it, and a sysctl of the arm says what it does.
#[test]
#[ignore = "a role of the test of hostile guests"]
fn as_attacker() {
    let name = fs::read_to_string("/proc/sys/kernel/domainname").unwrap();
    let attack = name.trim().strip_prefix("attack-");
    // No host has such a name.
    match attack {
        Some("log") => flood_the_log(),
        Some("marks") => lie_about_marks(),
        Some("code") => fill_the_profile(),
        Some("port") => take_the_port(),
        Some(_) => thread::scope(|scope| {
            scope.spawn(flood_the_console);
            scope.spawn(flood_the_log);
            scope.spawn(lie_about_marks);
            scope.spawn(fill_the_profile);
            scope.spawn(take_the_port);
        }),
        None => {}
    }
}

/// Lines that a terminal would obey, and that report faults.
fn lines() -> Vec<u8> {
    "\u{1b}]0;taken\u{7}\u{1b}[2J\u{1b}[31mBUG: unable to handle page fault\u{202e}\n"
        .repeat(12)
        .into_bytes()
}

/// Half a gibibyte to the port of the console, which a kernel need not wait for.
#[expect(unsafe_code, reason = "what a kernel does to a port")]
fn flood_the_console() {
    const PORT: u16 = 0x3f8;
    const IOPERM: usize = 173;
    let lines = lines();
    // SAFETY: asks for the right to one port.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") IOPERM => _,
            in("rdi") usize::from(PORT), in("rsi") 1_usize, in("rdx") 1_usize,
            out("rcx") _, out("r11") _,
        );
    }
    for _ in 0..(512 << 20) / lines.len() {
        // SAFETY: reads the lines, and writes to a port of which the kernel has its own driver.
        unsafe {
            std::arch::asm!(
                "rep outsb",
                in("dx") PORT, inout("rsi") lines.as_ptr() => _, inout("rcx") lines.len() => _,
            );
        }
    }
}

/// The same to the kernel's log.
fn flood_the_log() {
    let _ = fs::write("/proc/sys/kernel/printk_devkmsg", "on");
    let mut log = File::options().write(true).open("/dev/kmsg").unwrap();
    let lines = lines();
    for _ in 0..(512 << 20) / lines.len() {
        let _ = log.write_all(&lines);
    }
}

/// Marks of windows, as the agent executes them, more than any trial has.
#[expect(unsafe_code, reason = "instructions that do nothing")]
fn lie_about_marks() {
    for _ in 0..100_000 {
        // SAFETY: nopl reads no memory and changes no register.
        unsafe {
            std::arch::asm!(
                ".byte 0x0f, 0x1f, 0x80, 1, 0x0f, 0xbe, 0xba",
                ".byte 0x0f, 0x1f, 0x80, 2, 0x0f, 0xbe, 0xba",
                ".byte 0x0f, 0x1f, 0x80, 3, 0x0f, 0xbe, 0xba",
                options(nostack, preserves_flags)
            );
        }
    }
}

/// New code at each address, and tasks with new names that make system calls.
#[expect(
    unsafe_code,
    reason = "code that is made while it runs is what a profile fears"
)]
fn fill_the_profile() {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    const BYTES: usize = 128 << 20;
    let all = ProtFlags::READ | ProtFlags::WRITE | ProtFlags::EXEC;
    // SAFETY: a new mapping of which nobody else knows.
    let code = unsafe { mmap_anonymous(std::ptr::null_mut(), BYTES, all, MapFlags::PRIVATE) };
    let code = code.unwrap().cast::<u8>();
    for turn in 0..u8::MAX {
        let names = thread::spawn(move || {
            for number in 0..2_000_u32 {
                let name = format!("t{turn}-{number}");
                let _ = fs::write("/proc/thread-self/comm", name);
            }
        });
        for at in (0..BYTES - 8).step_by(8) {
            // mov $turn, %al; ret: another block at each address, and another one at each turn.
            let block = [0xb0, turn, 0xc3, 0x90, 0x90, 0x90, 0x90, 0x90];
            // SAFETY: within the mapping, which holds whole functions alone.
            unsafe {
                let place = code.add(at);
                place.cast::<[u8; 8]>().write(block);
                std::mem::transmute::<*mut u8, extern "C" fn() -> u8>(place)();
            }
        }
        let _ = names.join();
    }
}

/// The agent's own descriptor of its port to the host, and a flood of what no agent says.
fn take_the_port() {
    use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<i32>().ok();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let open = processes.flat_map(|process| {
        let files = fs::read_dir(process.path().join("fd"))
            .into_iter()
            .flatten();
        files
            .flatten()
            .map(move |file| (process.path(), file.path()))
    });
    for (process, file) in open {
        let target = fs::read_link(&file).unwrap_or_default();
        if !target.to_string_lossy().contains("vport") {
            continue;
        }
        let process = number(&process).and_then(Pid::from_raw).unwrap();
        let agent = pidfd_open(process, PidfdFlags::empty()).unwrap();
        let port = pidfd_getfd(&agent, number(&file).unwrap(), PidfdGetfdFlags::empty());
        let mut port = File::from(port.unwrap());
        let piece = vec![b'{'; 1 << 20];
        for _ in 0..512 {
            if port.write_all(&piece).is_err() {
                return;
            }
        }
    }
}
