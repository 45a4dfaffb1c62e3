//! Tests of the plugin's engine without QEMU: executes blocks as QEMU would, and checks the call tree.
#![allow(
    dead_code,
    clippy::allow_attributes,
    reason = "parts of the plugin are only used when QEMU calls it"
)]

#[path = "../plugin/block.rs"]
mod block;
#[path = "../plugin/decode.rs"]
mod decode;
#[path = "../plugin/engine.rs"]
mod engine;
#[path = "../plugin/functions.rs"]
mod functions;
#[path = "../plugin/memory.rs"]
mod memory;
#[path = "../plugin/output.rs"]
mod output;
#[path = "../counter/strings.rs"]
mod strings;
#[path = "../plugin/tree.rs"]
mod tree;
#[path = "../plugin/waits.rs"]
mod waits;

use std::collections::BTreeMap;

use block::Block;
use decode::{Isa, Kind, Last};
use engine::Engine;
use functions::{Layout, Place, flag};
use memory::Memory;
use tree::Key;

const TEXT: u64 = 0xffff_ffff_8100_0000;

/// Memory of a guest, of which only some words matter.
#[derive(Default)]
struct Words(BTreeMap<u64, u64>);

impl Memory for Words {
    fn word(&self, address: u64) -> Option<u64> {
        Some(self.0.get(&address).copied().unwrap_or(0))
    }

    fn physical(&mut self, _host: usize) -> Option<u64> {
        None
    }
}

/// Where the fake kernel keeps the address of the running task.
const CURRENT: u64 = 0x200;
/// Where its tasks have their data.
const COMM: u64 = 0x10;
const PID: u64 = 0x20;
const STATE: u64 = 0x28;
const RUN_DELAY: u64 = 0x30;
const LAST_ARRIVAL: u64 = 0x38;
const LAST_QUEUED: u64 = 0x40;
const PCOUNT: u64 = 0x48;

/// `TASK_INTERRUPTIBLE` and `TASK_DEAD`.
const ASLEEP: u64 = 1;
const DEAD: u64 = 0x80;

/// The fake kernel's data about a task that gets the CPU.
#[derive(Clone, Copy)]
struct Arriving {
    task: u64,
    name: [u8; 8],
    pid: u64,
    pcount: u64,
    run_delay_ns: u64,
    at_ns: u64,
}

impl Arriving {
    /// A task that had the CPU before, and has never waited.
    fn of(task: u64, name: [u8; 8], at_ns: u64) -> Self {
        Self {
            task,
            name,
            pid: task,
            pcount: 2,
            run_delay_ns: 0,
            at_ns,
        }
    }
}

struct Guest {
    engine: Engine<Words>,
    blocks: BTreeMap<u64, u32>,
}

/// Functions of 0x100 bytes each, one after the other.
const fn function(index: u64) -> u64 {
    TEXT + index * 0x100
}

const MAIN: u64 = 1;
const LEAF: u64 = 2;
const IRQ: u64 = 3;
const FAULT: u64 = 4;
const SWITCH: u64 = 5;
const SCHEDULE: u64 = 6;
const THUNK: u64 = 7;
const SYSCALL: u64 = 8;

fn flags(index: u64) -> u8 {
    match index {
        IRQ | SYSCALL => flag::ENTRY,
        FAULT => flag::ENTRY | flag::FAULT,
        SWITCH => flag::SWITCH,
        SCHEDULE => flag::RESUME,
        THUNK => flag::THUNK,
        _ => 0,
    }
}

impl Guest {
    fn new() -> Self {
        let layout = Layout {
            comm: COMM,
            pid: PID,
            state: STATE,
            run_delay: RUN_DELAY,
            last_arrival: LAST_ARRIVAL,
            last_queued: LAST_QUEUED,
            pcount: PCOUNT,
            text: (TEXT, TEXT + 0x1000),
            ns_per_instruction: 2,
            ..Layout::default()
        };
        let mut engine = Engine::new(Words::default(), layout);
        // As the first mark does.
        engine.begin_user_nodes();
        Self {
            engine,
            blocks: BTreeMap::new(),
        }
    }

    /// Executes a block of three instructions of two bytes each, at an offset of a function.
    fn run(&mut self, index: u64, at: u64, kind: Kind) -> &mut Self {
        let last = Last {
            kind,
            ..Last::OTHER
        };
        self.block(function(index) + at, last, 3)
    }

    fn block(&mut self, address: u64, last: Last, count: u16) -> &mut Self {
        let engine = &mut self.engine;
        let number = *self.blocks.entry(address).or_insert_with(|| {
            let place = match address {
                user if user >> 63 == 0 => Place::user(user),
                module if module >= TEXT + 0x1000 => Place {
                    function: 0,
                    flags: 0,
                    is_user: false,
                },
                kernel => {
                    let index = (kernel - TEXT) / 0x100;
                    Place {
                        function: function(index),
                        flags: flags(index),
                        is_user: false,
                    }
                }
            };
            let starts: Vec<u16> = (0..count).map(|index| index * 2).collect();
            let end = address + u64::from(count) * 2;
            engine.add(Block::new(address, end, last, place, &starts))
        });
        self.engine.execute(number);
        self
    }

    fn set_task(&mut self, task: u64, name: [u8; 8]) -> &mut Self {
        self.engine.switch_to(task);
        let words = &mut self.engine.memory.0;
        words.insert(CURRENT, task);
        words.insert(task + COMM, u64::from_le_bytes(name));
        self
    }

    /// Switches from the running task, which gets a state, to another one. This executes 12 instructions: 9 of the task
    /// that leaves, 3 of the other.
    fn switch(&mut self, state: u64, to: Arriving) -> &mut Self {
        self.run(SCHEDULE, 0, Kind::Call)
            .run(SWITCH, 0, Kind::Other);
        let words = &mut self.engine.memory.0;
        let old = words.get(&CURRENT).copied();
        if let Some(old) = old {
            words.insert(old + STATE, state);
        }
        for (offset, value) in [
            (PID, to.pid),
            (PCOUNT, to.pcount),
            (RUN_DELAY, to.run_delay_ns),
            (LAST_ARRIVAL, to.at_ns),
        ] {
            words.insert(to.task + offset, value);
        }
        self.set_task(to.task, to.name);
        self.run(SWITCH, 6, Kind::Ret).run(SCHEDULE, 6, Kind::Ret)
    }

    /// Guest time by the number of instructions.
    fn now_ns(&self) -> u64 {
        self.engine.total().cast_unsigned() * 2
    }

    /// Executes this many blocks of 3 instructions, each of 6 ns.
    fn work(&mut self, blocks: u64) -> &mut Self {
        self.run(MAIN, 0, Kind::Other);
        for _ in 1..blocks {
            self.run(MAIN, 8, Kind::Other);
        }
        self
    }

    /// Waits for the CPU and sleeps of a task, each as number and total nanoseconds.
    fn waits(&self, name: &str) -> [(u64, u64); 2] {
        let waits = self.engine.waits();
        [&waits.queued, &waits.asleep].map(|sums| {
            let task_sums = sums
                .iter()
                .filter(|((node, _), _)| self.task_of(*node as usize) == name);
            task_sums.fold((0, 0), |(count, ns), (_, sum)| {
                (count + sum.count, ns + sum.ns)
            })
        })
    }

    /// Nanoseconds of instructions that a task executed.
    fn executed_ns(&self, name: &str) -> u64 {
        let nodes = self.engine.nodes().iter().enumerate();
        let own_nodes = nodes.filter(|(index, _)| self.task_of(*index) == name);
        2 * own_nodes
            .map(|(_, node)| node.count.own)
            .sum::<i64>()
            .cast_unsigned()
    }

    /// The name of the task that a node belongs to.
    fn task_of(&self, node: usize) -> String {
        let nodes = self.engine.nodes();
        let mut at = node;
        while nodes[at].parent != 0 {
            at = nodes[at].parent as usize;
        }
        let Key::Task(task) = nodes[at].key else {
            return String::new();
        };
        let name = self.engine.names()[task as usize];
        String::from_utf8_lossy(&name).trim_end_matches('\0').into()
    }

    /// Paths with their counts: `boot;1;2 3`.
    fn tree(&self) -> Vec<String> {
        let nodes = self.engine.nodes();
        let name = |key: Key| match key {
            Key::All => String::new(),
            Key::Task(task) => {
                let name = self.engine.names()[task as usize];
                String::from_utf8_lossy(&name).trim_end_matches('\0').into()
            }
            Key::Kernel(address) if address < TEXT + 0x1000 => {
                ((address - TEXT) / 0x100).to_string()
            }
            Key::Kernel(address) | Key::User(address) => format!("{address:x}"),
        };
        let path = |index: usize| {
            let (mut names, mut at) = (Vec::new(), index);
            while at != 0 {
                names.push(name(nodes[at].key));
                at = nodes[at].parent as usize;
            }
            names.reverse();
            names.join(";")
        };
        let counted = (1..nodes.len()).filter(|index| nodes[*index].count.own != 0);
        let mut lines: Vec<String> = counted
            .map(|index| {
                let count = nodes[index].count;
                format!("{} {} in {}", path(index), count.own, count.calls)
            })
            .collect();
        lines.sort();
        lines
    }

    fn check(&self, want: &[&str]) {
        assert_eq!(self.tree(), want);
        let sum: i64 = self.engine.nodes().iter().map(|node| node.count.own).sum();
        assert_eq!(
            sum,
            self.engine.total(),
            "an instruction is counted twice or lost"
        );
    }
}

#[test]
fn calls_and_returns_make_a_tree() {
    let mut guest = Guest::new();
    guest
        .run(MAIN, 0, Kind::Call)
        .run(LEAF, 0, Kind::Ret)
        .run(MAIN, 6, Kind::Call)
        .run(LEAF, 0, Kind::Ret);
    guest.run(MAIN, 12, Kind::Other);
    guest.check(&["boot;1 9 in 1", "boot;1;2 6 in 2"]);
    assert_eq!(guest.engine.health().lost, 0);
}

#[test]
fn the_host_knows_when_the_tree_is_full() {
    assert_eq!(engine::MOST_NODES, profiler::raw::MOST_NODES);
}

#[test]
fn user_code_is_charged_to_its_task_until_the_first_mark() {
    let mut guest = Guest {
        engine: Engine::new(Words::default(), Layout::default()),
        blocks: BTreeMap::new(),
    };
    let twice = |guest: &mut Guest| {
        for _ in 0..2 {
            guest
                .block(0x1000, Last::OTHER, 3)
                .block(0x1006, Last::OTHER, 3);
        }
    };
    twice(&mut guest);
    guest.check(&["boot 12 in 0"]);
    guest.engine.mark(1);
    twice(&mut guest);
    guest.check(&["boot 12 in 0", "boot;1000 6 in 0", "boot;1006 6 in 0"]);
}

#[test]
fn a_jump_to_another_function_takes_its_place() {
    let mut guest = Guest::new();
    guest
        .run(MAIN, 0, Kind::Call)
        .run(LEAF, 0, Kind::Other)
        .run(9, 0, Kind::Ret)
        .run(MAIN, 6, Kind::Other);
    guest.check(&["boot;1 6 in 1", "boot;1;2 3 in 1", "boot;1;9 3 in 1"]);
}

#[test]
fn filling_the_return_stack_buffer_is_no_call() {
    let mut guest = Guest::new();
    guest.run(MAIN, 0, Kind::Call);
    guest
        .run(LEAF, 0, Kind::Call)
        .run(LEAF, 8, Kind::Call)
        .run(LEAF, 16, Kind::Ret)
        .run(MAIN, 6, Kind::Other);
    guest.check(&["boot;1 6 in 1", "boot;1;2 9 in 1"]);
    assert_eq!(guest.engine.health().lost, 0);
}

#[test]
fn a_retpoline_leads_to_functions_known_and_unknown() {
    for (target, want) in [
        (function(9), "boot;1;9 3 in 1"),
        (TEXT + 0x1000_0000, "boot;1;ffffffff91000000 3 in 1"),
    ] {
        let mut guest = Guest::new();
        let ret = Last {
            kind: Kind::Ret,
            ..Last::OTHER
        };
        guest
            .run(MAIN, 0, Kind::Call)
            .run(THUNK, 0, Kind::Call)
            .run(THUNK, 12, Kind::Ret)
            .block(target, ret, 3);
        guest.run(MAIN, 6, Kind::Other);
        guest.check(&["boot;1 6 in 1", "boot;1;7 6 in 1", want]);
        assert_eq!(guest.engine.health().lost, 0);
    }
}

#[test]
fn an_interrupt_between_a_call_and_its_function_does_not_lose_the_caller() {
    let mut guest = Guest::new();
    guest
        .run(MAIN, 0, Kind::Call)
        .run(IRQ, 0, Kind::Iret)
        .run(LEAF, 0, Kind::Ret)
        .run(MAIN, 6, Kind::Other);
    guest.check(&["boot;1 6 in 1", "boot;1;2 3 in 1", "boot;3 3 in 1"]);
    assert_eq!(guest.engine.health().lost, 0);
}

#[test]
fn instructions_that_a_fault_prevents_are_counted_once() {
    // The second instruction of three faults, and is executed again.
    let mut guest = Guest::new();
    guest.run(MAIN, 0, Kind::Ret).run(FAULT, 0, Kind::Iret);
    guest.block(function(MAIN) + 2, Last::OTHER, 2);
    guest.check(&["boot;1 3 in 1", "boot;4 3 in 1"]);
    assert_eq!(guest.engine.health().cut, 1);
    // The same in user code, whose first instruction faults.
    let mut guest = Guest::new();
    guest
        .block(0x1000, Last::OTHER, 3)
        .run(FAULT, 0, Kind::Iret)
        .block(0x1000, Last::OTHER, 3);
    guest.check(&["boot;1000 3 in 0", "boot;4 3 in 1"]);
}

#[test]
fn an_instruction_that_crosses_a_page_is_counted_once() {
    let at = function(0x0f) + 0xf8;
    let mut guest = Guest::new();
    for _ in 0..3 {
        // Four instructions of two bytes, the last of which looks like a call from its bytes on the first page.
        let call = Last {
            kind: Kind::Call,
            ..Last::OTHER
        };
        guest.block(at, call, 4).block(at + 6, Last::OTHER, 1);
    }
    assert_eq!(guest.engine.total(), 3 * 4);
    assert_eq!(
        guest.engine.health().cut,
        1,
        "the block is corrected after the first time"
    );
}

#[test]
fn a_loop_into_its_own_block_is_no_cut() {
    let mut guest = Guest::new();
    let jump = Last {
        target: function(MAIN) + 2,
        ..Last::OTHER
    };
    guest.block(function(MAIN), jump, 3);
    for _ in 0..5 {
        guest.block(function(MAIN) + 2, jump, 2);
    }
    assert_eq!((guest.engine.total(), guest.engine.health().cut), (13, 0));
}

#[test]
fn each_task_has_a_separate_stack() {
    let mut guest = Guest::new();
    let switch_to = |guest: &mut Guest, task: u64, name: [u8; 8]| {
        guest
            .run(SCHEDULE, 0, Kind::Call)
            .run(SWITCH, 0, Kind::Other);
        guest.set_task(task, name);
        guest.run(SWITCH, 6, Kind::Ret).run(SCHEDULE, 6, Kind::Ret);
    };
    // A task that comes back finds its callers again, even if its name has changed meanwhile.
    switch_to(&mut guest, 0x1000, *b"first\0\0\0");
    guest.run(MAIN, 0, Kind::Call);
    switch_to(&mut guest, 0x2000, *b"second\0\0");
    guest.run(LEAF, 0, Kind::Call);
    switch_to(&mut guest, 0x1000, *b"renamed\0");
    let before = guest.engine.health().lost;
    guest.run(MAIN, 6, Kind::Other);
    assert_eq!(guest.engine.health().lost, before);
    let tree = guest.tree();
    assert!(
        tree.iter()
            .any(|line| line.starts_with("renamed;") && line.contains(";1 3")),
        "{tree:?}"
    );
    assert_eq!(guest.engine.health().switches, 3);
}

#[test]
fn string_instructions_are_counted_by_iterations_bytes_and_starts() {
    let mut guest = Guest::new();
    let at = function(MAIN);
    let movsq = Isa::X86_64.last(at, &[0xf3, 0x48, 0xa5]);
    for _ in 0..10 {
        guest.block(at, movsq, 1);
    }
    // Another block runs, and the same instruction starts again.
    guest.block(at + 0x10, Last::OTHER, 2);
    guest.block(at, movsq, 1);
    let count = guest.engine.nodes().last().unwrap().count;
    assert_eq!((count.own, count.iterations), (13, 11));
    assert_eq!((count.bytes, count.starts), (88, 2));
}

#[test]
fn string_instructions_that_move_or_fill_are_decoded() {
    use strings::StringOp;
    let size = |bytes: &[u8]| StringOp::of(bytes).map(|op| op.size);
    assert_eq!(size(&[0xf3, 0xa4]), Some(0), "rep movsb");
    assert_eq!(size(&[0xf3, 0x48, 0xab]), Some(3), "rep stosq");
    assert_eq!(size(&[0x66, 0xf3, 0xa5]), Some(1), "rep movsw");
    assert_eq!(size(&[0xf3, 0xab]), Some(2), "rep stosd");
    assert_eq!(size(&[0xf2, 0xae]), None, "repne scasb scans item by item");
    assert_eq!(size(&[0xf3, 0xa6]), None, "repe cmpsb");
    assert_eq!(size(&[0x48, 0xa5]), None, "movsq without REP");
    assert_eq!(size(&[0xf3, 0x90]), None, "pause");
}

#[test]
fn the_last_instruction_is_decoded() {
    let kind = |bytes: &[u8]| Isa::X86_64.last(0x1000, bytes).kind;
    assert_eq!(kind(&[0xe8, 0, 0, 0, 0]), Kind::Call);
    assert_eq!(kind(&[0x41, 0xff, 0xd3]), Kind::Call, "call *%r11");
    assert_eq!(kind(&[0xf3, 0xc3]), Kind::Ret);
    assert_eq!(kind(&[0x48, 0xcf]), Kind::Iret);
    assert_eq!(kind(&[0xff, 0xe0]), Kind::Other, "jmp *%rax");
    let target = |bytes: &[u8]| Isa::X86_64.last(0x1000, bytes).target;
    assert_eq!(target(&[0x75, 0xfe]), 0x1000);
    assert_eq!(target(&[0x0f, 0x85, 0x10, 0, 0, 0]), 0x1016);
    assert_eq!(target(&[0xe9, 0xfb, 0xff, 0xff, 0xff]), 0x1000);
    assert!(
        Isa::X86_64.last(0x1000, &[0xf3, 0x48, 0xa5]).is_rep,
        "rep movsq"
    );
    assert!(!Isa::X86_64.last(0x1000, &[0xf3, 0x90]).is_rep, "pause");
    assert_eq!(
        Isa::X86_64.mark(&[0x0f, 0x1f, 0x80, 2, 0x0f, 0xbe, 0xba]),
        Some(2)
    );
    assert_eq!(Isa::X86_64.mark(&[0x0f, 0x1f, 0x80, 2, 0, 0, 0]), None);
}

#[test]
fn branches_of_arm_are_decoded() {
    let last = |word: u32| Isa::Aarch64.last(0x1000, &word.to_le_bytes());
    let kind = |word| (last(word).kind, last(word).is_indirect);
    // Encodings from objdump(1).
    assert_eq!(kind(0x9400_0004), (Kind::Call, false), "bl");
    assert_eq!(kind(0xd63f_0060), (Kind::Call, true), "blr x3");
    assert_eq!(kind(0xd61f_0200), (Kind::Other, true), "br x16");
    assert_eq!(kind(0xd65f_03c0), (Kind::Ret, false), "ret");
    assert_eq!(kind(0xd65f_0bff), (Kind::Ret, false), "retaa");
    assert_eq!(kind(0xd69f_03e0), (Kind::Iret, false), "eret");
    assert_eq!(last(0x1400_0003).target, 0x100c, "b");
    assert_eq!(last(0x17ff_ffff).target, 0xffc, "b");
    assert_eq!(last(0x5400_0041).target, 0x1008, "b.ne");
    assert_eq!(last(0xb4ff_ffe0).target, 0xffc, "cbz x0");
    assert_eq!(last(0x3707_fe40).target, 0xfc8, "tbnz w0, #0");
    assert_eq!(last(0xd503_201f), Last::OTHER, "nop");
    let mark = |word: u32| Isa::Aarch64.mark(&word.to_le_bytes());
    assert_eq!(mark(0xd297_401f), Some(0));
    assert_eq!(mark(0xd297_401f + (2 << 5)), Some(2));
    assert_eq!(mark(0xd297_4000), None, "into another register");
}

#[test]
fn memory_above_the_hole_is_found() {
    let bytes = 4 << 30;
    let address = |offset, bytes| memory::address(Isa::X86_64, offset, bytes);
    assert_eq!(address(0x1000, bytes), 0x1000);
    assert_eq!(address(0x8000_0000, bytes), 1 << 32);
    // No hole below 2.75 GiB.
    assert_eq!(address(0x9000_0000, 0xa000_0000), 0x9000_0000);
    let arm = memory::address(Isa::Aarch64, 0x1000, bytes);
    assert_eq!(arm, 0x4000_1000);
}

const IDLE: u64 = 0x8000;

/// The idle task gets the CPU.
fn idle() -> Arriving {
    Arriving {
        pid: 0,
        ..Arriving::of(IDLE, *b"swapper\0", 0)
    }
}

/// A guest with two tasks that have had the CPU, of which the first one runs; the kernel's clock starts at 1000. A switch takes
/// effect 18 ns after its start, and ends 6 ns later.
fn two_tasks() -> Guest {
    let mut guest = Guest::new();
    guest.switch(0, Arriving::of(0x1000, *b"nginx\0\0\0", 1018));
    let at_ns = 1000 + guest.now_ns() + 18;
    guest.switch(ASLEEP, Arriving::of(0x2000, *b"client\0\0", at_ns));
    let at_ns = 1000 + guest.now_ns() + 18;
    guest.switch(ASLEEP, Arriving::of(0x1000, *b"nginx\0\0\0", at_ns));
    guest.engine.mark(1);
    guest
}

/// A reference point: the guest time, and what had been counted by then.
struct Since {
    now_ns: u64,
    tasks: [TaskSince; 2],
}

struct TaskSince {
    name: &'static str,
    waits: [(u64, u64); 2],
    executed_ns: u64,
}

impl Since {
    fn of(guest: &Guest) -> Self {
        let task = |name| TaskSince {
            name,
            waits: guest.waits(name),
            executed_ns: guest.executed_ns(name),
        };
        Self {
            now_ns: guest.now_ns(),
            tasks: ["nginx", "client"].map(task),
        }
    }

    /// Waits for the CPU and sleeps of a task, nanoseconds.
    fn waits(&self, guest: &Guest, task: usize) -> [u64; 2] {
        let before = &self.tasks[task];
        let now = guest.waits(before.name);
        [0, 1].map(|kind| now[kind].1 - before.waits[kind].1)
    }

    /// Checks that a task's execution, waits and sleeps since then sum to the whole time, including `idle_ns` of idling.
    fn check_sum(&self, guest: &Guest, idle_ns: u64) {
        let passed = guest.now_ns() - self.now_ns + idle_ns;
        for (index, task) in self.tasks.iter().enumerate() {
            let [queued, slept] = self.waits(guest, index);
            let executed = guest.executed_ns(task.name) - task.executed_ns;
            let message = format!("{}: {executed} {queued} {slept}", task.name);
            assert_eq!(executed + queued + slept, passed, "{message}");
        }
    }
}

#[test]
fn a_preempted_task_waits_from_the_switch_on_although_the_kernels_clock_lags() {
    let mut guest = two_tasks();
    let since = Since::of(&guest);
    // The client is woken here, where the run queue's clock is read for the last time. nginx runs on for 60 ns and a switch.
    let woken = 1000 + guest.now_ns();
    guest.work(10);
    guest.switch(0, Arriving::of(0x2000, *b"client\0\0", woken));
    let preempted = guest.now_ns() - 6;
    guest.work(20);
    let back = Arriving {
        // By the kernel's accounting nginx waits from before it was preempted.
        run_delay_ns: guest.now_ns() + 18 + 1000 - woken,
        ..Arriving::of(0x1000, *b"nginx\0\0\0", 1000 + guest.now_ns() + 18)
    };
    guest.switch(ASLEEP, back);
    let waited = guest.now_ns() - 6 - preempted;
    assert_eq!(since.waits(&guest, 0), [waited, 0]);
    // The client was runnable from its wake-up to the switch, which the kernel does not record.
    let [queued, _] = since.waits(&guest, 1);
    assert_eq!(queued, preempted - (woken - 1000));
    guest.engine.mark(2);
    since.check_sum(&guest, 0);
    let blamed: u64 = guest.engine.waits().blame.values().sum();
    let queued: u64 = guest.engine.waits().queued.values().map(|sum| sum.ns).sum();
    assert_eq!(blamed, queued, "some task had the CPU all the time");
}

#[test]
fn a_task_woken_while_another_one_runs_sleeps_before_and_waits_after() {
    let mut guest = two_tasks();
    let since = Since::of(&guest);
    guest.work(10);
    let woken = guest.now_ns();
    guest.work(5);
    let arriving = Arriving {
        run_delay_ns: guest.now_ns() + 18 - woken,
        ..Arriving::of(0x2000, *b"client\0\0", 1000 + guest.now_ns() + 18)
    };
    guest.switch(ASLEEP, arriving);
    let [queued, slept] = since.waits(&guest, 1);
    assert_eq!(queued, guest.now_ns() - 6 - woken);
    assert_eq!(slept, woken - since.now_ns);
    guest.engine.mark(2);
    since.check_sum(&guest, 0);
}

#[test]
fn idle_time_is_sleep_and_no_instructions() {
    let mut guest = two_tasks();
    let since = Since::of(&guest);
    guest.switch(ASLEEP, idle());
    guest.work(3);
    // A timer wakes the client 5000 ns later.
    let at_ns = 1000 + 5000 + guest.now_ns() + 18;
    guest.switch(0, Arriving::of(0x2000, *b"client\0\0", at_ns));
    guest.work(3);
    let at_ns = 1000 + 5000 + guest.now_ns() + 18;
    guest.switch(ASLEEP, Arriving::of(0x1000, *b"nginx\0\0\0", at_ns));
    guest.engine.mark(2);
    since.check_sum(&guest, 5000);
    let ran: u64 = guest.engine.waits().ran.values().sum();
    assert_eq!(ran, guest.now_ns() + 5000);
    let idle = ran_ns(&guest, "swapper");
    // A block after the switch, three of work, and three until the next switch.
    assert_eq!(idle, 5000 + 6 + 18 + 18);
}

fn ran_ns(guest: &Guest, name: &str) -> u64 {
    let ran = guest.engine.waits().ran.iter();
    let own_nodes = ran.filter(|(node, _)| guest.task_of(**node as usize) == name);
    own_nodes.map(|(_, ns)| ns).sum()
}

#[test]
fn a_new_task_at_a_dead_tasks_address_is_a_different_task() {
    let mut guest = two_tasks();
    let since = Since::of(&guest);
    guest.run(9, 0, Kind::Call);
    let at_ns = 1000 + guest.now_ns() + 18;
    guest.switch(DEAD, Arriving::of(0x2000, *b"client\0\0", at_ns));
    let [queued, slept] = since.waits(&guest, 0);
    let callers = |guest: &Guest| -> Vec<String> {
        let tree = guest.tree().into_iter();
        tree.filter(|line| line.starts_with("nginx;9")).collect()
    };
    let before = callers(&guest);
    guest.work(100);
    let new = Arriving {
        pcount: 1,
        run_delay_ns: 40,
        ..Arriving::of(0x1000, *b"nginx\0\0\0", 1000 + guest.now_ns() + 18)
    };
    guest.switch(ASLEEP, new);
    assert_eq!(since.waits(&guest, 0), [queued + 40, slept]);
    guest.work(1);
    assert_eq!(callers(&guest), before, "it has the dead task's callers");
}

#[test]
fn waits_are_split_at_a_mark_and_sleeps_across_two_marks_are_dropped() {
    let mut guest = two_tasks();
    // The client has slept since before the first mark; only the part after it counts.
    let first = Since::of(&guest);
    guest.work(50);
    let arriving = Arriving::of(0x2000, *b"client\0\0", 1000 + guest.now_ns() + 18);
    guest.switch(ASLEEP, arriving);
    assert_eq!(
        first.waits(&guest, 1),
        [0, guest.now_ns() - 6 - first.now_ns]
    );
    // nginx sleeps on through two marks; before the third it is woken.
    let slept = |guest: &Guest| guest.waits("nginx")[1];
    guest.engine.mark(2);
    let before = slept(&guest);
    guest.work(10);
    guest.engine.mark(3);
    assert_eq!(slept(&guest), before);
    let second = Since::of(&guest);
    guest.work(10);
    let woken = guest.now_ns();
    let words = &mut guest.engine.memory.0;
    words.insert(0x1000 + LAST_QUEUED, 1000 + woken);
    guest.work(10);
    guest.engine.mark(2);
    let now_ns = guest.now_ns();
    assert_eq!(
        second.waits(&guest, 0),
        [now_ns - woken, woken - second.now_ns]
    );
    // From there on it waits, whatever the kernel's accounting reports.
    let third = Since::of(&guest);
    let arriving = Arriving {
        run_delay_ns: 1 << 40,
        ..Arriving::of(0x1000, *b"nginx\0\0\0", 1000 + guest.now_ns() + 18)
    };
    guest.switch(ASLEEP, arriving);
    assert_eq!(
        third.waits(&guest, 0),
        [guest.now_ns() - 6 - third.now_ns, 0]
    );
}

#[test]
fn a_slow_kernel_clock_makes_no_task_wait() {
    let mut guest = two_tasks();
    let since = Since::of(&guest);
    let mut queued = 0;
    for turn in 0..4000 {
        guest.work(100);
        // One part in a thousand too slow, and a task that never waits.
        let at_ns = 1000 + (guest.now_ns() + 18) * 999 / 1000;
        let (task, name) = if turn % 2 == 0 {
            (0x2000, *b"client\0\0")
        } else {
            (0x1000, *b"nginx\0\0\0")
        };
        guest.switch(ASLEEP, Arriving::of(task, name, at_ns));
        queued = since.waits(&guest, 0)[0];
    }
    let passed = guest.now_ns() - since.now_ns;
    assert!(queued < passed / 2, "{queued} of {passed}");
    guest.engine.mark(2);
    since.check_sum(&guest, 0);
}
