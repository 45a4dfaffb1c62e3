//! Processes that share the memory and the files of whoever starts them (`CLONE_VM`, as after vfork(2)), so that very many
//! of them fit: what the kernel keeps for a process is all that each costs, beside a page of stack.
//!
//! Each answers with its PID when it begins, waits to be released, and answers once more. They end with the thread that
//! started them.

use std::ffi::{c_int, c_void};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::pin::Pin;

use rustix::io::{Errno, read, write};
use rustix::process::{Pid, Signal, WaitOptions, getpid, set_parent_process_death_signal, waitpid};

/// Room for the few calls that a process makes.
const STACK_BYTES: usize = 8 << 10;

/// Processes that wait, up to a number that was given at first.
#[derive(Debug)]
pub struct VmClones {
    pids: Vec<Pid>,
    stacks: Vec<u8>,
    pipes: Pin<Box<Pipes>>,
    answers: Option<io::PipeReader>,
    release: Option<io::PipeWriter>,
}

/// What all of them write to, and what they wait for.
#[derive(Debug)]
struct Pipes {
    answer: io::PipeWriter,
    released: io::PipeReader,
}

impl VmClones {
    /// Room for so many of them; none runs yet.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn with_room_for(most: usize) -> io::Result<Self> {
        let (answers, answer) = io::pipe()?;
        let (released, release) = io::pipe()?;
        Ok(Self {
            pids: Vec::with_capacity(most),
            // Zeros that nobody has written take no memory.
            stacks: vec![0; most * STACK_BYTES],
            pipes: Box::pin(Pipes { answer, released }),
            answers: Some(answers),
            release: Some(release),
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.pids.len()
    }

    /// Starts one more and waits for its answer; its PID.
    ///
    /// # Errors
    /// The kernel refuses another process, or there is no room for one.
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

    /// Releases all of them; how many answered once more.
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
        let is_one = |pid: &&Pid| answered.binary_search(&pid.as_raw_pid()).is_ok();
        Ok(self.pids.iter().filter(is_one).count())
    }

    fn next_answer(&mut self) -> io::Result<i32> {
        let mut bytes = [0; 4];
        let answers = self.answers.as_mut().expect("it is dropped with the whole");
        answers.read_exact(&mut bytes)?;
        Ok(i32::from_ne_bytes(bytes))
    }
}

impl Drop for VmClones {
    /// They use stacks and pipes until they have ended.
    fn drop(&mut self) {
        self.release = None;
        // Those whose answers nobody has read would wait for room in a pipe that is full.
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
    // SAFETY: `live` makes system calls alone, which rustix makes without the C library, so that the errno of the thread
    // whose memory it shares stays as it is.
    let pid = unsafe { libc::clone(live, top.cast(), flags, pipes.cast_mut().cast()) };
    // -1 is an error, and 0 would be the process itself, which never comes here.
    if pid <= 0 {
        return Err(io::Error::last_os_error());
    }
    Pid::from_raw(pid).ok_or_else(|| io::Error::other("a process without a PID"))
}

/// A process's whole life.
#[expect(unsafe_code, reason = "clone(2) hands the argument over as a pointer")]
extern "C" fn live(pipes: *mut c_void) -> c_int {
    // SAFETY: they are there until this process was waited for.
    let pipes = unsafe { &*pipes.cast::<Pipes>() };
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if answer(pipes.answer.as_fd()).is_err() {
        return 1;
    }
    // Nobody ever writes: it ends when the other end is closed.
    while matches!(read(&pipes.released, &mut [0; 1]), Err(Errno::INTR)) {}
    c_int::from(answer(pipes.answer.as_fd()).is_err())
}

/// Four bytes, which pipes keep together.
fn answer(to: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let own = getpid().as_raw_pid().to_ne_bytes();
    loop {
        match write(to, &own) {
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
    fn each_has_a_pid_of_its_own_and_answers_twice() {
        let mut clones = VmClones::with_room_for(100).unwrap();
        let pids: BTreeSet<u32> = (0..100).map(|_| clones.start().unwrap()).collect();
        assert_eq!((pids.len(), clones.count()), (100, 100));
        assert!(!pids.contains(&std::process::id()));
        let full = clones.start().unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        assert_eq!(clones.release().unwrap(), 100);
    }

    #[test]
    fn they_end_with_whoever_holds_them() {
        let mut clones = VmClones::with_room_for(1).unwrap();
        let pid = clones.start().unwrap();
        drop(clones);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}
