//! Attributes each executed block to a node of the call tree.
//!
//! Each task has a shadow stack of return addresses. Calls push, and returns search it, so that calls that never return
//! (filling the return stack buffer, retpolines) do no harm. Interrupts push a frame with the interrupted state.
//!
//! ```text
//! 0 all -> task (by name) -> system call, interrupt or exception -> function -> function ...
//!                         -> block of user code
//! ```
//! Blocks of user code have nodes from the first mark on. Until then large programs would use up all nodes as they start.
//!
//! A block may end before its last instruction: by a fault, or because QEMU retranslates the rest (device access under
//! counted instructions). The next block then starts inside it, or at its start, and the unexecuted rest is subtracted.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::block::{Block, Hot, NOT_BEGUN, Shape};
use crate::decode::{Kind, Last};
use crate::functions::{Layout, Place, flag};
use crate::memory::Memory;
use crate::output::Written;
use crate::tree::{Count, Key, Mixer, Node, Recent};
use crate::waits::{Arrival, Left, Waits};

/// More frames than kernel stacks can hold; beyond it the older half is dropped.
const DEPTH: usize = 1024;

/// Most nodes; further work is charged to the parent. Ten threads of a Java program have a million blocks of user code.
pub const MOST_NODES: usize = 1 << 21;

/// Most task names; tasks with further names are counted together.
const MOST_NAMES: usize = 1 << 14;
const OTHER_TASKS: [u8; 16] = *b"(other tasks)\0\0\0";

/// Bytes of a page, and more than those of the longest instruction.
const PAGE_BYTES: u64 = 4096;
const INSTRUCTION_BYTES: u64 = 16;

/// Largest distance between a retpoline's inner call and its return.
const RETPOLINE_BYTES: u64 = 64;

/// Most tasks with a saved state.
const MOST_TASKS: usize = 1 << 16;

#[derive(Debug, Clone, Copy)]
enum Frame {
    /// A call: its return address, and the caller's node.
    Call { to: u64, node: u32 },
    /// An interrupt: the block and node that it interrupted.
    Interrupt {
        block: u32,
        node: u32,
        is_fault: bool,
    },
}

/// Saved state of a task that does not run.
#[derive(Debug, Default)]
struct SavedTask {
    stack: Vec<Frame>,
    node: u32,
    root: u32,
    user: Option<(u32, bool)>,
}

/// Counters of how well the engine keeps track.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Health {
    /// Returns to an address without a call, into a function that is not among the callers.
    pub lost: u64,
    /// Returns to an address without a call, into a function that is among the callers.
    pub mended: u64,
    /// Blocks left before their end.
    pub cut: u64,
    /// Task switches.
    pub switches: u64,
}

/// The call tree, and the guest's current position in it.
pub struct Engine<M> {
    /// The guest's memory.
    pub memory: M,
    layout: Layout,
    // Of all blocks, by index.
    hot: Vec<Hot>,
    shapes: Vec<Shape>,
    starts: Vec<Box<[u16]>>,
    recent: Recent,
    nodes: Vec<Node>,
    children: HashMap<(u32, Key), u32, BuildHasherDefault<Mixer>>,
    /// Names of tasks, in order of appearance.
    names: Vec<[u8; 16]>,
    roots: HashMap<[u8; 16], u32>,
    total: i64,
    health: Health,
    waits: Waits,
    saved: HashMap<u64, SavedTask>,
    /// The task that the last call of the switching function named.
    next_task: u64,
    // The running task.
    task: u64,
    stack: Vec<Frame>,
    node: u32,
    root: u32,
    /// The user block from which the kernel was entered, and whether by a fault.
    user: Option<(u32, bool)>,
    previous: u32,
    /// Whether the current execution of a string instruction is its first iteration.
    is_start: bool,
    is_switching: bool,
    /// Whether a mark was executed.
    is_marked: bool,
    /// What earlier marks have written.
    pub(crate) written: Written,
}

/// Name of the task that runs before the first switch.
const BOOT: &[u8; 16] = b"boot\0\0\0\0\0\0\0\0\0\0\0\0";

impl<M: Memory> Engine<M> {
    /// An engine of a guest that has not started.
    pub fn new(memory: M, layout: Layout) -> Self {
        let mut engine = Self {
            memory,
            layout,
            hot: Vec::new(),
            shapes: Vec::new(),
            starts: Vec::new(),
            recent: Recent::new(),
            nodes: vec![Node {
                parent: 0,
                key: Key::All,
                count: Count::default(),
            }],
            children: HashMap::default(),
            names: Vec::new(),
            roots: HashMap::new(),
            total: 0,
            health: Health::default(),
            waits: Waits::new(layout.ns_per_instruction),
            saved: HashMap::new(),
            next_task: 0,
            task: 0,
            stack: Vec::new(),
            node: 0,
            root: 0,
            user: None,
            previous: 0,
            is_start: false,
            is_switching: false,
            is_marked: false,
            written: Written::default(),
        };
        engine.add(Block::new(0, 0, Last::OTHER, Place::user(0), &[]));
        engine.root = engine.root_of(*BOOT);
        engine.node = engine.root;
        engine
    }

    /// Adds a block and returns its index for `execute`.
    pub fn add(&mut self, block: Block) -> u32 {
        self.hot.push(Hot::new(&block.shape));
        self.shapes.push(block.shape);
        self.starts.push(block.starts);
        self.hot.len() as u32 - 1
    }

    /// The kernel switches to this task.
    pub fn switch_to(&mut self, task: u64) {
        self.next_task = task;
    }

    /// All instructions so far.
    pub fn total(&self) -> i64 {
        self.total
    }

    /// The call tree.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Names of tasks, indexed by `Key::Task`.
    pub fn names(&self) -> &[[u8; 16]] {
        &self.names
    }

    /// Counters of how well the engine keeps track.
    pub fn health(&self) -> Health {
        self.health
    }

    /// Waits and sleeps of tasks.
    pub fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Counts the execution of a block.
    #[inline]
    pub fn execute(&mut self, index: u32) {
        let now = self.hot[index as usize];
        // Most blocks continue where the one before them continued the last times.
        let continues = self.hot[self.previous as usize].next.contains(&index);
        if !continues || (now.is_user && now.began.1 != self.root) {
            self.enter(index);
        } else if now.is_user {
            self.node = now.began.0;
        }
        let before = &self.hot[self.previous as usize];
        self.is_start = before.low_end != now.low_end || before.string_bytes == 0;
        self.previous = index;
        self.charge(now.count.into(), 1, now.string_bytes);
    }

    /// Enters a block that may belong to another function or task than the one before it.
    #[inline(never)]
    fn enter(&mut self, index: u32) {
        let shape = |index: u32| self.shapes[index as usize];
        let (before, now) = (shape(self.previous), shape(index));
        if before.continues_in(&now) {
            let next = &mut self.hot[self.previous as usize].next;
            if !next.contains(&index) {
                *next = [index, next[0]];
            }
            if now.place.is_user {
                self.node = self.user_node(index);
            }
        } else if now.place.is_user {
            self.enter_user(index, &now, &before);
        } else {
            self.enter_kernel(index, &now, &before);
        }
    }

    /// Adds a block's counts, or subtracts them if `times` is -1.
    #[inline]
    fn charge(&mut self, instructions: i64, times: i64, string_bytes: u8) {
        self.total += instructions;
        let count = &mut self.nodes[self.node as usize].count;
        count.own += instructions;
        if string_bytes > 0 {
            count.iterations += times;
            count.bytes += times * i64::from(string_bytes);
            count.starts += times * i64::from(self.is_start);
        }
    }

    fn enter_user(&mut self, index: u32, now: &Shape, before: &Shape) {
        let mut interrupted = None;
        if before.place.is_user {
            interrupted = before.was_left_at(now.address).then_some(self.previous);
        } else {
            self.stack.clear();
            if let Some((block, is_fault)) = self.user.take() {
                let shape = self.shapes[block as usize];
                let again = is_fault && shape.address == now.address;
                interrupted = (again || shape.was_left_at(now.address)).then_some(block);
            }
        }
        if let Some(block) = interrupted {
            self.node = self.user_node(block);
            self.uncharge(block, now.address);
        }
        self.node = self.user_node(index);
    }

    fn user_node(&mut self, index: u32) -> u32 {
        if !self.is_marked {
            self.hot[index as usize].began = (self.root, self.root);
            return self.root;
        }
        let key = Key::User(self.shapes[index as usize].place.function);
        self.begin(index, self.root, key)
    }

    /// The child of a node that a block starts.
    fn begin(&mut self, index: u32, parent: u32, key: Key) -> u32 {
        let (node, cached_parent) = self.hot[index as usize].began;
        if cached_parent == parent {
            return node;
        }
        let node = self.recent.get(parent, index).unwrap_or_else(|| {
            let node = self.child(parent, key);
            self.recent.set(parent, index, node);
            node
        });
        self.hot[index as usize].began = (node, parent);
        node
    }

    /// Subtracts the part of a block from `address` on, which was charged but not executed.
    fn uncharge(&mut self, index: u32, address: u64) {
        let shape = &mut self.shapes[index as usize];
        let offset = address.wrapping_sub(shape.address);
        let before =
            self.starts[index as usize].partition_point(|start| u64::from(*start) < offset);
        let rest = shape.count - i32::from(before as u16);
        let string_bytes = shape.last.string_bytes;
        self.health.cut += 1;
        let to_page_end = PAGE_BYTES - address % PAGE_BYTES;
        if rest == 1 && to_page_end < INSTRUCTION_BYTES {
            // QEMU listed an instruction that crosses a page, but left it to the next block.
            shape.count -= 1;
            shape.end = address;
            shape.last = Last::OTHER;
            self.hot[index as usize] = Hot::new(shape);
        }
        self.charge(-i64::from(rest), -1, string_bytes);
    }

    fn enter_kernel(&mut self, index: u32, now: &Shape, before: &Shape) {
        if before.place.is_user {
            self.user = Some((self.previous, now.is(flag::FAULT)));
            self.stack.clear();
            self.call(self.root, index, now);
        } else if now.interrupts() && !before.is(flag::STUBS) {
            self.push(Frame::Interrupt {
                block: self.previous,
                node: self.node,
                is_fault: now.is(flag::FAULT),
            });
            self.call(self.root, index, now);
        } else if before.last.kind == Kind::Iret && now.address != before.end {
            // The kernel also uses iret to the next instruction, as a serializing instruction.
            self.leave_interrupt(index, now);
        } else {
            self.continue_kernel(self.previous, before, index, now, false);
        }
        self.is_switching |= now.is(flag::SWITCH);
    }

    fn leave_interrupt(&mut self, index: u32, now: &Shape) {
        let is_interrupt = |frame: &Frame| matches!(frame, Frame::Interrupt { .. });
        let Some(at) = self.stack.iter().rposition(is_interrupt) else {
            self.lose(now);
            return;
        };
        if let Frame::Interrupt {
            block,
            node,
            is_fault,
        } = self.stack[at]
        {
            self.stack.truncate(at);
            self.node = node;
            let before = self.shapes[block as usize];
            self.continue_kernel(block, &before, index, now, is_fault);
        }
    }

    /// Continues from one kernel block to the next one of the same task.
    fn continue_kernel(
        &mut self,
        previous: u32,
        before: &Shape,
        index: u32,
        now: &Shape,
        is_fault: bool,
    ) {
        if before.was_left_at(now.address) || (is_fault && before.address == now.address) {
            self.uncharge(previous, now.address);
            return;
        }
        match before.last.kind {
            Kind::Call if now.address != before.end => {
                self.push(Frame::Call {
                    to: before.end,
                    node: self.node,
                });
                // A call into the middle of the same function fills the return stack buffer, and is no real call.
                if now.is_entry
                    || now.place.function == 0
                    || now.place.function != before.place.function
                {
                    self.call(self.node, index, now);
                }
            }
            Kind::Ret => self.return_to(before, index, now),
            Kind::Call | Kind::Iret | Kind::Other => self.jump(index, now),
        }
    }

    fn return_to(&mut self, before: &Shape, index: u32, now: &Shape) {
        if self.is_switching && now.is(flag::RESUME) {
            self.is_switching = false;
            self.switch();
        }
        let returns = |frame: &Frame| matches!(frame, Frame::Call { to, .. } if *to == now.address);
        if let Some(at) = self.stack.iter().rposition(returns) {
            if let Frame::Call { node, .. } = self.stack[at] {
                self.stack.truncate(at);
                self.node = node;
            }
            // After a module's function of unknown extent or a tail call, the return may lead into another function.
            self.jump(index, now);
        } else if now.is_entry || (now.place.function == 0 && before.is(flag::THUNK)) {
            // A retpoline: its inner call is no frame, and it continues in a function.
            self.drop_inner_call(before);
            self.replace(index, now);
        } else {
            self.lose(now);
        }
    }

    /// Removes the frames of calls that the function of `before` made to itself.
    fn drop_inner_call(&mut self, before: &Shape) {
        let near = before.address.wrapping_sub(RETPOLINE_BYTES)..before.end;
        while let Some(Frame::Call { to, node }) = self.stack.last().copied() {
            if !near.contains(&to) || before.place.function == 0 {
                return;
            }
            self.stack.pop();
            self.node = node;
        }
    }

    /// Handles a return without a call: continues in the nearest caller with that function, else directly below the task.
    fn lose(&mut self, now: &Shape) {
        let key = Key::Kernel(key_of(now));
        let mut node = self.node;
        while node != self.root && node != 0 {
            if self.nodes[node as usize].key == key {
                self.health.mended += 1;
                self.node = node;
                return;
            }
            node = self.nodes[node as usize].parent;
        }
        self.health.lost += 1;
        self.stack.clear();
        self.node = self.child(self.root, key);
    }

    /// Handles a jump within a function, or to another one that replaces it.
    fn jump(&mut self, index: u32, now: &Shape) {
        let is_same = match self.nodes[self.node as usize].key {
            // Functions of modules are unknown, so the entered one stays.
            Key::Kernel(function) if now.place.function == 0 => self.is_module(function),
            Key::Kernel(function) => function == now.place.function,
            Key::All | Key::Task(_) | Key::User(_) => false,
        };
        if !is_same {
            self.replace(index, now);
        }
    }

    /// Replaces the running function by another one.
    fn replace(&mut self, index: u32, now: &Shape) {
        let parent = if self.node == self.root {
            self.root
        } else {
            self.nodes[self.node as usize].parent
        };
        self.node = self.begin(index, parent, Key::Kernel(key_of(now)));
        if now.is_entry || now.place.function == 0 {
            self.nodes[self.node as usize].count.calls += 1;
        }
    }

    /// Whether a node's address is code with unknown functions: modules, and code compiled at run time.
    fn is_module(&self, function: u64) -> bool {
        !(self.layout.text.0..self.layout.text.1).contains(&function)
    }

    fn call(&mut self, parent: u32, index: u32, now: &Shape) {
        self.node = self.begin(index, parent, Key::Kernel(key_of(now)));
        self.nodes[self.node as usize].count.calls += 1;
    }

    fn push(&mut self, frame: Frame) {
        if self.stack.len() >= DEPTH {
            self.stack.drain(..DEPTH / 2);
        }
        self.stack.push(frame);
    }

    fn child(&mut self, parent: u32, key: Key) -> u32 {
        if let Some(node) = self.children.get(&(parent, key)) {
            return *node;
        }
        if self.nodes.len() >= MOST_NODES {
            return parent;
        }
        let node = self.nodes.len() as u32;
        self.nodes.push(Node {
            parent,
            key,
            count: Count::default(),
        });
        self.children.insert((parent, key), node);
        node
    }

    fn root_of(&mut self, name: [u8; 16]) -> u32 {
        if let Some(root) = self.roots.get(&name) {
            return *root;
        }
        if self.names.len() >= MOST_NAMES && name != OTHER_TASKS {
            return self.root_of(OTHER_TASKS);
        }
        let task = self.names.len() as u32;
        self.names.push(name);
        let root = self.child(0, Key::Task(task));
        self.roots.insert(name, root);
        root
    }

    /// Forgets the nodes of user code that the first mark finds.
    pub fn begin_user_nodes(&mut self) {
        if !std::mem::replace(&mut self.is_marked, true) {
            let user = self.hot.iter_mut().filter(|hot| hot.is_user);
            user.for_each(|hot| hot.began = NOT_BEGUN);
        }
    }

    /// Splits all current waits and sleeps at a mark.
    pub fn mark_waits(&mut self) {
        let offset = self.layout.last_queued;
        let mut waits = std::mem::take(&mut self.waits);
        waits.mark(self.root, self.total, |task| match offset {
            0 => 0,
            offset => self.memory.word(task + offset).unwrap_or(0),
        });
        self.waits = waits;
    }

    /// Handles a task switch.
    fn switch(&mut self) {
        let layout = self.layout;
        let word = |engine: &Self, address: u64| engine.memory.word(address).unwrap_or(0);
        let task = self.next_task;
        if task == 0 || task == self.task {
            return;
        }
        self.health.switches += 1;
        let (low, high) = (
            word(self, task + layout.comm),
            word(self, task + layout.comm + 8),
        );
        let name = name_of(low, high);
        let root = self.root_of(name);
        let is_idle = |engine: &Self, task: u64| word(engine, task + layout.pid) as u32 == 0;
        let old = self.task;
        let left = Left {
            task: old,
            root: self.root,
            node: self.node,
            is_idle: old != 0 && is_idle(self, old),
            state: match old {
                0 => 0,
                old => word(self, old + layout.state) as u32,
            },
        };
        let is_new = layout.pcount != 0 && word(self, task + layout.pcount) == 1;
        if layout.run_delay != 0 && layout.last_arrival != 0 {
            let arrival = Arrival {
                task,
                root,
                is_idle: is_idle(self, task),
                is_new,
                run_delay_ns: word(self, task + layout.run_delay),
                at_ns: word(self, task + layout.last_arrival),
            };
            self.waits.switch(left, arrival, self.total);
        }
        self.resume(task, root);
        // A new task may get a dead task's address, but has different callers.
        if left.is_dead() {
            self.saved.remove(&old);
        }
        if is_new {
            self.stack.clear();
            (self.node, self.user) = (root, None);
        }
    }

    fn resume(&mut self, task: u64, root: u32) {
        let old = SavedTask {
            stack: std::mem::take(&mut self.stack),
            node: self.node,
            root: self.root,
            user: self.user.take(),
        };
        if self.saved.len() >= MOST_TASKS {
            self.saved.clear();
        }
        self.saved.insert(self.task, old);
        (self.task, self.root, self.node) = (task, root, root);
        if let Some(resumed) = self.saved.remove(&task) {
            self.stack = resumed.stack;
            self.node = resumed.node;
            self.user = resumed.user;
            if resumed.root != root {
                self.rename(resumed.root);
            }
        }
    }

    /// Moves the running task's callers below its new name.
    fn rename(&mut self, old: u32) {
        self.node = self.below(self.node, old);
        let mut stack = std::mem::take(&mut self.stack);
        for frame in &mut stack {
            match frame {
                Frame::Call { node, .. } | Frame::Interrupt { node, .. } => {
                    *node = self.below(*node, old);
                }
            }
        }
        self.stack = stack;
    }

    /// The node with the same path below the running task's root as `node` has below `old`.
    fn below(&mut self, node: u32, old: u32) -> u32 {
        let mut path = Vec::new();
        let mut at = node;
        while at != old && at != 0 {
            path.push(self.nodes[at as usize].key);
            at = self.nodes[at as usize].parent;
        }
        let root = self.root;
        path.into_iter()
            .rev()
            .fold(root, |parent, key| self.child(parent, key))
    }
}

/// The address that identifies a block's function; in a module, the address where it is entered.
fn key_of(now: &Shape) -> u64 {
    match now.place.function {
        0 => now.address,
        function => function,
    }
}

/// A task's name, zero-filled after its end.
fn name_of(low: u64, high: u64) -> [u8; 16] {
    let mut name = [0; 16];
    name[..8].copy_from_slice(&low.to_le_bytes());
    name[8..].copy_from_slice(&high.to_le_bytes());
    let end = name
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(name.len());
    name[end..].fill(0);
    // `kworker/0:1-events` changes with its work item.
    if name.starts_with(b"kworker/") {
        *b"kworker\0\0\0\0\0\0\0\0\0"
    } else {
        name
    }
}
