//! Processes that share their starter's memory and files (`CLONE_VM`, as after vfork(2)), so that very many of them fit: each
//! costs only the kernel's bookkeeping and a small stack.
//!
//! Each process writes its PID when it starts, waits to be released, and writes its PID again. They end with the thread
//! that started them.

use std::ffi::{c_int, c_void};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::pin::Pin;

use rustix::io::{Errno, read, write};
use rustix::process::{Pid, Signal, WaitOptions, getpid, set_parent_process_death_signal, waitpid};

/// Stack for the few system calls of a process.
const STACK_BYTES: usize = 8 << 10;

/// Waiting processes, up to a fixed number.
#[derive(Debug)]
pub struct VmClones {
    pids: Vec<Pid>,
    stacks: Vec<u8>,
    pipes: Pin<Box<Pipes>>,
    answers: Option<io::PipeReader>,
    release: Option<io::PipeWriter>,
}

/// The pipes that all processes write to and wait on.
#[derive(Debug)]
struct Pipes {
    answer: io::PipeWriter,
    released: io::PipeReader,
}

impl VmClones {
    /// Reserves memory for at most `most` processes; none runs yet.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn with_room_for(most: usize) -> io::Result<Self> {
        let (answers, answer) = io::pipe()?;
        let (released, release) = io::pipe()?;
        Ok(Self {
            pids: Vec::with_capacity(most),
            // Zero pages take no memory until they are written.
            stacks: vec![0; most * STACK_BYTES],
            pipes: Box::pin(Pipes { answer, released }),
            answers: Some(answers),
            release: Some(release),
        })
    }

    /// Number of started processes.
    pub fn count(&self) -> usize {
        self.pids.len()
    }

    /// Starts another process, waits for its answer, and returns its PID.
    ///
    /// # Errors
    /// The kernel refuses another process, or the limit is reached.
    pub fn start(&mut self) -> io::Result<u32> {
        let end = (self.pids.len() + 1) * STACK_BYTES;
        let Some(stack) = self.stacks.get_mut(end - STACK_BYTES..end) else {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        };
        let pid = spawn(stack, &self.pipes)?;
        self.pids.push(pid);
        let answer = self.next_answer()?;
        if answer != pid.as_raw_pid() {
            let what = format!("process {pid} answered as {answer}");
            return Err(io::Error::other(what));
        }
        Ok(answer.unsigned_abs())
    }

    /// Releases all processes, and returns how many answered again.
    ///
    /// # Errors
    /// An answer cannot be read.
    pub fn release(mut self) -> io::Result<usize> {
        self.release = None;
        let mut answered = Vec::with_capacity(self.pids.len());
        for _ in 0..self.pids.len() {
            answered.push(self.next_answer()?);
        }
        answered.sort_unstable();
        answered.dedup();
        let has_answered = |pid: &&Pid| answered.binary_search(&pid.as_raw_pid()).is_ok();
        Ok(self.pids.iter().filter(has_answered).count())
    }

    fn next_answer(&mut self) -> io::Result<i32> {
        let mut bytes = [0; 4];
        let answers = self.answers.as_mut().expect("it exists until the drop");
        answers.read_exact(&mut bytes)?;
        Ok(i32::from_ne_bytes(bytes))
    }
}

impl Drop for VmClones {
    /// Waits for the processes, because they use the stacks and pipes until they have ended.
    fn drop(&mut self) {
        self.release = None;
        // Otherwise processes with unread answers would block on a full pipe.
        self.answers = None;
        for pid in &self.pids {
            while matches!(waitpid(Some(*pid), WaitOptions::empty()), Err(Errno::INTR)) {}
        }
    }
}

#[expect(
    unsafe_code,
    reason = "clone(2) with a stack and pipes that outlive the process: `VmClones` waits for it before it lets go of them"
)]
fn spawn(stack: &mut [u8], pipes: &Pin<Box<Pipes>>) -> io::Result<Pid> {
    // The ABI wants it aligned to 16 bytes; it grows downwards.
    let top = stack.as_mut_ptr_range().end;
    let top = top.wrapping_sub(top as usize % 16);
    let flags = libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_FS | libc::SIGCHLD;
    let pipes: *const Pipes = &raw const **pipes;
    // SAFETY: `live` only makes system calls, by rustix without the C library, so that the errno of the thread
    // whose memory it shares is unchanged.
    let pid = unsafe { libc::clone(live, top.cast(), flags, pipes.cast_mut().cast()) };
    // -1 is an error, and 0 would be the new process, which never returns here.
    if pid <= 0 {
        return Err(io::Error::last_os_error());
    }
    Pid::from_raw(pid).ok_or_else(|| io::Error::other("a process without a PID"))
}

/// Runs a process from start to end.
#[expect(unsafe_code, reason = "clone(2) hands the argument over as a pointer")]
extern "C" fn live(pipes: *mut c_void) -> c_int {
    // SAFETY: they exist until this process has been waited for.
    let pipes = unsafe { &*pipes.cast::<Pipes>() };
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if answer(pipes.answer.as_fd()).is_err() {
        return 1;
    }
    // No data arrives; the read returns when the other end is closed.
    while matches!(read(&pipes.released, &mut [0; 1]), Err(Errno::INTR)) {}
    c_int::from(answer(pipes.answer.as_fd()).is_err())
}

/// Writes the PID as four bytes, which a pipe writes atomically.
fn answer(to: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let pid = getpid().as_raw_pid().to_ne_bytes();
    loop {
        match write(to, &pid) {
            Err(Errno::INTR) => {}
            other => return other.map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_process_has_a_pid_and_answers_twice() {
        let mut clones = VmClones::with_room_for(100).unwrap();
        let pids: BTreeSet<u32> = (0..100).map(|_| clones.start().unwrap()).collect();
        assert_eq!((pids.len(), clones.count()), (100, 100));
        assert!(!pids.contains(&std::process::id()));
        let full = clones.start().unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        assert_eq!(clones.release().unwrap(), 100);
    }

    #[test]
    fn processes_end_when_dropped() {
        let mut clones = VmClones::with_room_for(1).unwrap();
        let pid = clones.start().unwrap();
        drop(clones);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}
