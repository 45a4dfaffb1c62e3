//! An injected cost of known size: additional instructions at each call of a kernel function.
//!
//! It validates that a profile finds the function that costs more. The instructions are a BPF program without branches,
//! attached to a kprobe at the function's entry, so every caller executes them. The probe itself adds some hundreds.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use anyhow::{Context, Result, bail};
use perf_event::events::KProbe;
use perf_event::{Builder, Counter};
use plan::InjectedCost;

/// `r0 = 0`, `r0 += 1` and `exit` as the kernel numbers them.
const MOVE: u8 = 0xb7;
const ADD: u8 = 0x07;
const EXIT: u8 = 0x95;

const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_PROG_TYPE_KPROBE: u32 = 2;

/// The beginning of the kernel's `union bpf_attr` for `BPF_PROG_LOAD`; the rest is zero.
#[repr(C)]
#[derive(Default)]
struct LoadProgram {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
}

/// The probe, until it is dropped.
#[derive(Debug)]
pub struct Probe {
    _event: Counter,
    _program: OwnedFd,
}

impl Probe {
    /// Begins to add the cost. Needs root.
    pub fn begin(cost: &InjectedCost) -> Result<Self> {
        let function = &cost.function;
        let code = code(cost.instructions);
        let program = load(&code)
            .context("this kernel loads no BPF program (remove injected_cost from the arm)")?;
        let event = match probe(function) {
            Ok(event) => event,
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                bail!(
                    "this kernel can probe no function {function} (name one of /proc/kallsyms that may be probed, or remove \
                     injected_cost from the arm)"
                )
            }
            Err(why) => {
                return Err(why).with_context(|| format!("a kprobe at {function}"));
            }
        };
        attach(&event, &program).with_context(|| format!("attach a BPF program to {function}"))?;
        Ok(Self {
            _event: event,
            _program: program,
        })
    }
}

/// The program: the additions, with one instruction before and one after them.
fn code(additions: u32) -> Vec<[u8; 8]> {
    let instruction = |what: u8, value: u8| [what, 0, 0, 0, value, 0, 0, 0];
    let mut code = vec![instruction(MOVE, 0)];
    code.resize(1 + additions as usize, instruction(ADD, 1));
    code.push(instruction(EXIT, 0));
    code
}

#[expect(unsafe_code, reason = "bpf(2) has no safe form")]
fn load(code: &[[u8; 8]]) -> io::Result<OwnedFd> {
    let license = c"GPL";
    let request = LoadProgram {
        kind: BPF_PROG_TYPE_KPROBE,
        instructions: code.len() as u32,
        code: code.as_ptr() as u64,
        license: license.as_ptr() as u64,
        ..LoadProgram::default()
    };
    // SAFETY: the kernel reads the request and what it points to, all of which outlives the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_PROG_LOAD,
            &raw const request,
            size_of::<LoadProgram>(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(result as RawFd) })
}

/// Opens the kprobe. The event belongs to one CPU, but the program runs on all.
fn probe(function: &str) -> io::Result<Counter> {
    let event = KProbe::probe(function, 0)?;
    let mut builder = Builder::new(event);
    builder.any_pid().one_cpu(0).include_kernel();
    let mut counter = builder.build()?;
    counter.enable()?;
    Ok(counter)
}

#[expect(unsafe_code, reason = "the crate perf_event lacks this request")]
fn attach(event: &Counter, program: &OwnedFd) -> io::Result<()> {
    const SET_BPF: libc::Ioctl = 0x4004_2408_u32 as libc::Ioctl;
    // SAFETY: both descriptors are open, and the request takes a number.
    match unsafe { libc::ioctl(event.as_raw_fd(), SET_BPF, program.as_raw_fd()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(function: &str) -> Result<Probe> {
        Probe::begin(&InjectedCost {
            function: function.into(),
            instructions: 4000,
        })
    }

    #[test]
    fn the_program_is_as_long_as_asked() {
        let code = code(4000);
        assert_eq!(code.len(), 4002);
        let is_add = |instruction: &&[u8; 8]| instruction[0] == ADD;
        assert_eq!(code.iter().filter(is_add).count(), 4000);
        assert_eq!(code.last().unwrap()[0], EXIT);
    }

    #[test]
    fn a_function_that_is_not_there_is_named() {
        if let Err(why) = begin("ksys_read") {
            base::skip::skip(&format!("no kprobe here: {why:#}"));
            return;
        }
        let why = begin("no_such_function_anywhere").unwrap_err().to_string();
        assert!(why.contains("no_such_function_anywhere"), "{why}");
    }
}
