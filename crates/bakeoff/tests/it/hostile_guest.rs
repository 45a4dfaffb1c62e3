//! Hostile guests with a real kernel: each of their trials is void with its reason, the memory of the host stays small, and the
//! trials of honest guests are measured.
//!
//! ```text
//! log       floods the kernel's log with escape sequences and false reports of faults
//! marks     signals begin and end of the window to the emulator's plugins, again and again
//! code      makes code, call paths and names of tasks without end, to fill the profile
//! port      takes over the agent's port to the host, and floods it
//! all       all of these at once, and a flood of the console past the kernel's driver
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
use record::trial::Outcome;

use crate::real_guests::{can_boot, processes, strip, stripped, wait_for_the_end_of_all};
use crate::simulated_lab::load_run;

/// Each attack with a part of the reason why its trial is void. `None`: the attack is harmless, and
/// the trial is measured.
const ATTACKS: [(&str, Option<&str>); 5] = [
    ("log", None),
    ("marks", Some("marks")),
    ("code", Some("")),
    ("port", Some("")),
    ("all", Some("")),
];

const MAX_MIB: u64 = 300;

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
    // Without symbolic links, as /proc shows paths.
    let dir = temp.path().canonicalize().unwrap();
    strip(&std::env::current_exe().unwrap(), &dir.join("attacker"));
    fs::write(dir.join("plan.toml"), plan()).unwrap();
    // The unstripped program is six times as large, and the profiler reads its symbols.
    let mut run = Command::new(stripped(&dir));
    run.args(["run", "plan.toml", "--jobs", "1"])
        .current_dir(&dir);
    let mut run = run.stderr(Stdio::piped()).spawn().unwrap();
    let error = BufReader::new(run.stderr.take().unwrap());
    // Shown if the test fails, or with --nocapture.
    let printer = thread::spawn(|| {
        for line in error.lines() {
            eprintln!("{}", line.unwrap());
        }
    });
    let peak_mib = peak_until_end(&mut run, &dir);
    printer.join().unwrap();
    println!("peak {peak_mib} MiB");
    wait_for_the_end_of_all(&dir);
    let run = load_run(&dir.join("runs/plan"));
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
    assert!(peak_mib < MAX_MIB, "{peak_mib} MiB");
}

/// The peak memory of a run from its first guest until its end, in MiB. Packing the initramfs
/// before takes more than any guest.
fn peak_until_end(run: &mut Child, dir: &Path) -> u64 {
    let mut peak = 0;
    let mut has_guest = false;
    while run.try_wait().unwrap().is_none() {
        if !has_guest && !processes(dir, "-accel").is_empty() {
            has_guest = true;
            // 5 resets the peak to the current memory.
            fs::write(format!("/proc/{}/clear_refs", run.id()), "5").unwrap();
        }
        peak = peak_bytes(&run.id().to_string()).unwrap_or(peak);
        thread::sleep(Duration::from_millis(50));
    }
    peak >> 20
}

/// Not a test, but the attacker that a guest runs. A sysctl of the arm chooses the attack.
#[test]
#[ignore = "a role of the test of hostile guests"]
fn as_attacker() {
    let name = fs::read_to_string("/proc/sys/kernel/domainname").unwrap();
    let attack = name.trim().strip_prefix("attack-");
    // No ordinary host has such a domain name.
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

/// Lines with escape sequences and false reports of faults.
fn lines() -> Vec<u8> {
    "\u{1b}]0;taken\u{7}\u{1b}[2J\u{1b}[31mBUG: unable to handle page fault\u{202e}\n"
        .repeat(12)
        .into_bytes()
}

/// Writes half a gibibyte to the console's I/O port.
#[expect(unsafe_code, reason = "what a kernel does to a port")]
fn flood_the_console() {
    const PORT: u16 = 0x3f8;
    const IOPERM: usize = 173;
    let lines = lines();
    // SAFETY: ioperm only permits access to one I/O port.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") IOPERM => _,
            in("rdi") usize::from(PORT), in("rsi") 1_usize, in("rdx") 1_usize,
            out("rcx") _, out("r11") _,
        );
    }
    for _ in 0..(512 << 20) / lines.len() {
        // SAFETY: reads the lines, and writes to the I/O port of the console.
        unsafe {
            std::arch::asm!(
                "rep outsb",
                in("dx") PORT, inout("rsi") lines.as_ptr() => _, inout("rcx") lines.len() => _,
            );
        }
    }
}

/// Writes half a gibibyte to the kernel's log.
fn flood_the_log() {
    let _ = fs::write("/proc/sys/kernel/printk_devkmsg", "on");
    let mut log = File::options().write(true).open("/dev/kmsg").unwrap();
    let lines = lines();
    for _ in 0..(512 << 20) / lines.len() {
        let _ = log.write_all(&lines);
    }
}

/// Executes the agent's marks of windows, more often than any trial has windows.
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

/// Executes new code at each address, and tasks with new names.
#[expect(
    unsafe_code,
    reason = "code that is made while it runs is what a profile fears"
)]
fn fill_the_profile() {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    const BYTES: usize = 128 << 20;
    let all = ProtFlags::READ | ProtFlags::WRITE | ProtFlags::EXEC;
    // SAFETY: a new private mapping.
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
            // mov $turn, %al; ret: a different block at each address and in each turn.
            let block = [0xb0, turn, 0xc3, 0x90, 0x90, 0x90, 0x90, 0x90];
            // SAFETY: within the mapping, which holds only complete functions.
            unsafe {
                let place = code.add(at);
                place.cast::<[u8; 8]>().write(block);
                std::mem::transmute::<*mut u8, extern "C" fn() -> u8>(place)();
            }
        }
        let _ = names.join();
    }
}

/// Takes the agent's file descriptor of its port to the host, and floods it.
fn take_the_port() {
    use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<i32>().ok();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let open_files = processes.flat_map(|process| {
        let files = fs::read_dir(process.path().join("fd"))
            .into_iter()
            .flatten();
        files
            .flatten()
            .map(move |file| (process.path(), file.path()))
    });
    for (process, file) in open_files {
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
