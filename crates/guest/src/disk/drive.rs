//! A model of a drive's head, platters and memory in simulated time, which computes how long commands take.
//!
//! Commands are executed in order. A read ends when its last byte has passed the head and the interface; then the drive
//! reads ahead, until another command needs the head. A write to the write cache ends when the interface has transferred
//! it. The drive writes the cache to the platters in the order of arrival, when no command needs the head. A write that
//! finds the cache full waits for room. A flush ends when the cache is empty.

use std::collections::VecDeque;

use plan::SeekDisk;

use crate::disk::geometry::Geometry;

/// A command to a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    Read(Extent),
    Write(Extent),
    Flush,
}

/// A range of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
}

impl Extent {
    pub(crate) fn end(self) -> u64 {
        self.start + self.bytes
    }

    fn touches(self, start: u64, end: u64) -> bool {
        self.start < end && start < self.end()
    }
}

/// Statistics of a drive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// Moves of the head to another track.
    pub(crate) seeks: u64,
    /// Reads that the read-ahead served.
    pub(crate) hits: u64,
    /// Time in which the head seeks, waits for the platter, reads or writes, without reading ahead.
    pub(crate) busy_ns: u64,
}

/// A drive between two commands.
#[derive(Debug, Clone)]
pub(crate) struct Drive {
    geometry: Geometry,
    interface_bytes_per_ns: f64,
    read_ahead: u64,
    write_cache: u64,
    /// End of the last command.
    done_ns: u64,
    /// When the head is free.
    free_ns: u64,
    /// The byte under the head at `free_ns`.
    head: u64,
    ahead: Option<Ahead>,
    /// Writes in the cache that the head has not begun, with the times of their arrival.
    pending: VecDeque<(u64, Extent)>,
    pending_bytes: u64,
    /// Bytes of the cache that are being written until `free_ns`.
    begun_bytes: u64,
    pub(crate) work: Work,
}

/// The read-ahead after a read: from `start` to the head's position, which was `from` at `since_ns`.
#[derive(Debug, Clone, Copy)]
struct Ahead {
    start: u64,
    from: u64,
    since_ns: u64,
    /// Where it pauses because its memory is full.
    limit: u64,
    /// When the head left.
    left_ns: Option<u64>,
}

impl Drive {
    pub(crate) fn new(disk: &SeekDisk) -> Self {
        Self {
            geometry: Geometry::new(disk),
            interface_bytes_per_ns: disk.interface_bytes_per_s as f64 / 1e9,
            read_ahead: disk.read_ahead_bytes,
            write_cache: disk.write_cache_bytes,
            done_ns: 0,
            free_ns: 0,
            head: 0,
            ahead: None,
            pending: VecDeque::new(),
            pending_bytes: 0,
            begun_bytes: 0,
            work: Work::default(),
        }
    }

    /// When a command ends that arrives now. `now_ns` must not decrease from call to call.
    pub(crate) fn serve(&mut self, now_ns: u64, command: Command) -> u64 {
        let begins = now_ns.max(self.done_ns);
        self.write_behind(begins);
        self.done_ns = match command {
            Command::Read(extent) => self.read(begins, extent),
            Command::Write(extent) => self.write(begins, extent),
            Command::Flush => {
                self.write_behind(u64::MAX);
                begins.max(self.free_ns)
            }
        };
        self.done_ns
    }

    fn read(&mut self, begins: u64, extent: Extent) -> u64 {
        let carried = begins + self.interface_ns(extent.bytes);
        if let Some(had) = self.read_ahead_has(begins, extent) {
            self.work.hits += 1;
            return had.max(carried);
        }
        let end = self.access(begins, extent);
        self.ahead = Some(Ahead {
            start: extent.start,
            from: extent.end(),
            since_ns: end,
            limit: extent.end() + self.read_ahead,
            left_ns: None,
        });
        end.max(carried)
    }

    /// When the read-ahead has all of an extent; `None` if the extent does not begin in it.
    fn read_ahead_has(&mut self, now_ns: u64, extent: Extent) -> Option<u64> {
        let mut ahead = self.ahead?;
        let reached = self.reached(&ahead, now_ns);
        if extent.start < ahead.start || extent.start > reached {
            return None;
        }
        if extent.end() <= reached {
            self.extend(&mut ahead, now_ns, extent.end());
            self.ahead = Some(ahead);
            return Some(now_ns);
        }
        // The head must still be reading ahead, and the extent must fit into the memory.
        if ahead.left_ns.is_some() || extent.bytes > self.read_ahead {
            return None;
        }
        self.extend(&mut ahead, now_ns, extent.end());
        self.ahead = Some(ahead);
        let rest = extent.end().saturating_sub(ahead.from);
        let passed = self.geometry.place(ahead.from).transfer_ns(rest);
        Some((ahead.since_ns + passed).max(now_ns))
    }

    /// The host has taken everything before `taken`, so the drive reads further ahead, after a rotation if the head had paused.
    fn extend(&self, ahead: &mut Ahead, now_ns: u64, taken: u64) {
        let limit = ahead.limit.max(taken + self.read_ahead);
        if ahead.left_ns.is_none() && self.reached(ahead, now_ns) == ahead.limit {
            let place = self.geometry.place(ahead.limit);
            ahead.from = ahead.limit;
            ahead.since_ns = now_ns + self.geometry.rotation_ns(now_ns, place);
        }
        ahead.start = ahead.start.max(limit.saturating_sub(2 * self.read_ahead));
        ahead.limit = limit;
    }

    /// How far the drive has read ahead at an instant.
    fn reached(&self, ahead: &Ahead, now_ns: u64) -> u64 {
        let until = ahead.left_ns.unwrap_or(now_ns).min(now_ns);
        let passed = until.saturating_sub(ahead.since_ns) as f64;
        let per_byte =
            self.geometry.place(ahead.from).transfer_ns(1 << 20) as f64 / f64::from(1 << 20);
        (ahead.from + (passed / per_byte) as u64).min(ahead.limit)
    }

    fn write(&mut self, begins: u64, extent: Extent) -> u64 {
        if let Some(ahead) = self.ahead
            && extent.touches(ahead.start, ahead.limit)
        {
            self.head = self.leave_ahead(begins);
            self.ahead = None;
        }
        let carried = begins + self.interface_ns(extent.bytes);
        if extent.bytes > self.write_cache {
            self.write_behind(u64::MAX);
            return self.access(begins, extent).max(carried);
        }
        let mut room_ns = begins;
        while self.pending_bytes + self.begun_bytes + extent.bytes > self.write_cache {
            room_ns = self.free_ns.max(begins);
            self.write_behind_until_room();
        }
        self.pending.push_back((room_ns, extent));
        self.pending_bytes += extent.bytes;
        carried.max(room_ns)
    }

    /// Begins all cached writes that the head would have begun before an instant.
    fn write_behind(&mut self, now_ns: u64) {
        loop {
            if self.free_ns <= now_ns {
                self.begun_bytes = 0;
            }
            let Some((arrived, _)) = self.pending.front() else {
                return;
            };
            if self.free_ns.max(*arrived) >= now_ns {
                return;
            }
            self.begin_oldest();
        }
    }

    /// Ends the present write from the cache, and begins the next.
    fn write_behind_until_room(&mut self) {
        self.begun_bytes = 0;
        if !self.pending.is_empty() {
            self.begin_oldest();
        }
    }

    fn begin_oldest(&mut self) {
        let (arrived, extent) = self.pending.pop_front().expect("something is pending");
        self.pending_bytes -= extent.bytes;
        self.access(self.free_ns.max(arrived), extent);
        self.begun_bytes = extent.bytes;
    }

    /// Moves the head to an extent and lets it pass; returns when it has passed.
    fn access(&mut self, now_ns: u64, extent: Extent) -> u64 {
        let begins = now_ns.max(self.free_ns);
        let from = self.leave_ahead(begins);
        let place = self.geometry.place(extent.start);
        let seek = self.geometry.seek_ns(self.geometry.place(from), place);
        self.work.seeks += u64::from(seek > 0);
        let there = begins + seek;
        let turned = there + self.geometry.rotation_ns(there, place);
        let end = turned + place.transfer_ns(extent.bytes);
        self.work.busy_ns += end - begins;
        (self.free_ns, self.head) = (end, extent.end());
        end
    }

    /// Ends reading ahead; returns the head's position.
    fn leave_ahead(&mut self, now_ns: u64) -> u64 {
        match self.ahead {
            Some(mut ahead) if ahead.left_ns.is_none() => {
                ahead.left_ns = Some(now_ns);
                self.ahead = Some(ahead);
                self.reached(&ahead, now_ns)
            }
            Some(_) | None => self.head,
        }
    }

    fn interface_ns(&self, bytes: u64) -> u64 {
        (bytes as f64 / self.interface_bytes_per_ns).round() as u64
    }
}

#[cfg(test)]
mod tests;
