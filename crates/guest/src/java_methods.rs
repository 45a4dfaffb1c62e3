//! Code that Java virtual machines have compiled, by method. Each writes a map of it when a client asks by the attach
//! protocol, as jcmd(1) does: <https://docs.oracle.com/en/java/javase/17/docs/specs/man/jcmd.html>.
//!
//! ```text
//! /tmp/.attach_pidPID     an empty file: the machine opens its socket at the next SIGQUIT
//! /tmp/.java_pidPID       the socket
//! /tmp/perf-PID.map       the map: start and size in hexadecimal, name
//! ```

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use base::input::text;
use record::protocol::code::Method;
use rustix::process::{Pid, Signal, kill_process};

/// Attempts to find the socket, and the time between two.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(50);

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Most bytes of a map.
const MOST_BYTES: u64 = 64 << 20;

/// Longest name of a method, in bytes.
const NAME_BYTES: usize = 1000;

/// A request of version 1 of the protocol: a command with three arguments.
const REQUEST: &[u8] = b"1\0jcmd\0Compiler.perfmap\0\0\0";

/// The number of a process, if it is a Java virtual machine.
pub(crate) fn java(process: &Path) -> Option<u32> {
    let program = fs::read_link(process.join("exe")).ok()?;
    (program.file_name()? == "java").then_some(())?;
    process.file_name()?.to_str()?.parse().ok()
}

/// The methods that a virtual machine has compiled; none if it does not answer.
pub(crate) fn of(process: u32) -> Vec<Method> {
    match written_map(process) {
        Ok(map) => parse(&map, process),
        Err(why) => {
            eprintln!("bakeoff agent: no methods of Java process {process}: {why}");
            Vec::new()
        }
    }
}

fn written_map(process: u32) -> std::io::Result<String> {
    let place = |name: String| PathBuf::from("/tmp").join(name);
    let trigger = place(format!(".attach_pid{process}"));
    let socket = place(format!(".java_pid{process}"));
    let map = place(format!("perf-{process}.map"));
    if !socket.exists() {
        File::create(&trigger)?;
        let pid = Pid::from_raw(process.cast_signed()).ok_or(std::io::ErrorKind::InvalidInput)?;
        let asked = kill_process(pid, Signal::QUIT);
        let is_open = || {
            thread::sleep(PAUSE);
            socket.exists()
        };
        let opened = asked.is_ok() && (0..ATTEMPTS).any(|_| is_open());
        fs::remove_file(&trigger)?;
        asked?;
        if !opened {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
    }
    let mut stream = UnixStream::connect(&socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(REQUEST)?;
    let mut answer = Vec::new();
    stream.take(1 << 16).read_to_end(&mut answer)?;
    let mut bytes = Vec::new();
    File::open(&map)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
    fs::remove_file(&map)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// `0x00007f8c1c4a2e00 0x0000000000000258 int java.lang.String.hashCode()`; older machines write no `0x`.
fn parse(map: &str, process: u32) -> Vec<Method> {
    let method = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let mut number = || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
        let (address, bytes) = (number()?, number()?);
        let name = text::cut(&clean_method(words.next()?), NAME_BYTES).into();
        Some(Method {
            process,
            address,
            bytes,
            name,
        })
    };
    map.lines().filter_map(method).collect()
}

/// `int java.lang.String.hashCode()` without its types, and a hidden class without its number, which differs from run to run.
fn clean_method(name: &str) -> String {
    let method = match name.split_once('(') {
        Some((method, parameters)) if parameters.ends_with(')') && !method.ends_with(' ') => method,
        _ => return name.into(),
    };
    let method = method.rsplit(' ').next().unwrap_or_default();
    let Some((class, rest)) = method.split_once("$$Lambda") else {
        return method.into();
    };
    let call = rest.rsplit('.').next().unwrap_or_default();
    format!("{class}$$Lambda.{call}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_known_by_class_and_name() {
        for (name, clean) in [
            (
                "int java.lang.String.hashCode()",
                "java.lang.String.hashCode",
            ),
            ("void a.B.c(int, java.util.Map)", "a.B.c"),
            ("StubRoutines (2)", "StubRoutines (2)"),
            (
                "void a.B$$Lambda$417/0x0000000840200c40.run()",
                "a.B$$Lambda.run",
            ),
            ("Interpreter", "Interpreter"),
        ] {
            assert_eq!(clean_method(name), clean);
        }
    }

    #[test]
    fn a_map_has_an_address_a_size_and_a_name_on_each_line() {
        let map = "0x00007f8c1c4a2e00 0x0000000000000258 int java.lang.String.hashCode()\n\
                   7f8c1c4a3000 40 StubRoutines (2)\nnothing\n0x1 2\n";
        let methods = parse(map, 7);
        let found: Vec<_> = methods
            .iter()
            .map(|method| (method.address, method.bytes, method.name.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                (0x7f8c_1c4a_2e00, 0x258, "java.lang.String.hashCode"),
                (0x7f8c_1c4a_3000, 0x40, "StubRoutines (2)")
            ]
        );
        assert!(methods.iter().all(|method| method.process == 7));
    }
}
