//! The plugin's engine without QEMU: blocks as QEMU would execute them, and the call tree that comes of them.
#![expect(unsafe_code, reason = "the plugin reads the guest's memory")]
#![allow(
    dead_code,
    clippy::allow_attributes,
    reason = "parts of the plugin are only used where QEMU calls it"
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
#[path = "../plugin/tree.rs"]
mod tree;
#[path = "../plugin/waits.rs"]
mod waits;

use std::collections::BTreeMap;

use block::Block;
use decode::{Kind, Last};
use engine::Engine;
use functions::{Layout, Place, flag};
use memory::Memory;
use tree::Key;

const TEXT: u64 = 0xffff_ffff_8100_0000;

/// Memory of a guest that has one page of interest.
#[derive(Default)]
struct Words(BTreeMap<u64, u64>);

impl Memory for Words {
    fn word(&self, offset: u64) -> Option<u64> {
        Some(self.0.get(&offset).copied().unwrap_or(0))
    }

    fn physical(&mut self, _host: usize) -> Option<u64> {
        None
    }
}

/// Where the fake kernel keeps its tasks; physical and direct addresses are the same but for `DIRECT`.
const PER_CPU: u64 = 0x100;
const CURRENT: u64 = 0x200;
const COMM: u64 = 0x10;

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
        let mut memory = Words::default();
        memory.0.insert(PER_CPU, memory::DIRECT);
        let layout = Layout {
            per_cpu_offset: memory::DIRECT + PER_CPU,
            current_task: CURRENT,
            comm: COMM,
            memory_bytes: 1 << 20,
            text: (TEXT, TEXT + 0x1000),
            ns_per_instruction: 2,
            ..Layout::default()
        };
        Self {
            engine: Engine::new(memory, layout),
            blocks: BTreeMap::new(),
        }
    }

    /// Executes a block of three instructions of two bytes each at a place of a function.
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
        let words = &mut self.engine.memory.0;
        // The per-CPU area begins at the start of the direct mapping.
        words.insert(CURRENT, memory::DIRECT + task);
        words.insert(task + COMM, u64::from_le_bytes(name));
        self
    }

    /// Paths with what each counted: `boot;1;2 3`.
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

    fn is(&self, want: &[&str]) {
        assert_eq!(self.tree(), want);
        let sum: i64 = self.engine.nodes().iter().map(|node| node.count.own).sum();
        assert_eq!(sum, self.engine.total(), "nothing is counted twice or lost");
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
    guest.is(&["boot;1 9 in 1", "boot;1;2 6 in 2"]);
    assert_eq!(guest.engine.health().lost, 0);
}

#[test]
fn a_jump_to_another_function_takes_its_place() {
    let mut guest = Guest::new();
    guest
        .run(MAIN, 0, Kind::Call)
        .run(LEAF, 0, Kind::Other)
        .run(9, 0, Kind::Ret)
        .run(MAIN, 6, Kind::Other);
    guest.is(&["boot;1 6 in 1", "boot;1;2 3 in 1", "boot;1;9 3 in 1"]);
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
    guest.is(&["boot;1 6 in 1", "boot;1;2 9 in 1"]);
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
        guest.is(&["boot;1 6 in 1", "boot;1;7 6 in 1", want]);
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
    guest.is(&["boot;1 6 in 1", "boot;1;2 3 in 1", "boot;3 3 in 1"]);
    assert_eq!(guest.engine.health().lost, 0);
}

#[test]
fn what_a_fault_kept_from_being_executed_is_counted_once() {
    // The second instruction of three faults, and is executed again.
    let mut guest = Guest::new();
    guest.run(MAIN, 0, Kind::Ret).run(FAULT, 0, Kind::Iret);
    guest.block(function(MAIN) + 2, Last::OTHER, 2);
    guest.is(&["boot;1 3 in 1", "boot;4 3 in 1"]);
    assert_eq!(guest.engine.health().cut, 1);
    // The same of user code, whose first instruction faults.
    let mut guest = Guest::new();
    guest
        .block(0x1000, Last::OTHER, 3)
        .run(FAULT, 0, Kind::Iret)
        .block(0x1000, Last::OTHER, 3);
    guest.is(&["boot;1000 3 in 0", "boot;4 3 in 1"]);
}

#[test]
fn an_instruction_on_two_pages_that_qemu_names_and_gives_up_is_not_counted() {
    let at = function(0x0f) + 0xf8;
    let mut guest = Guest::new();
    for _ in 0..3 {
        // Four instructions of two bytes, the last of which is a call as far as can be seen on the first page.
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
        "the block is known for what it is from then on"
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
fn each_task_has_a_stack_of_its_own() {
    let mut guest = Guest::new();
    let switch_to = |guest: &mut Guest, task: u64, name: [u8; 8]| {
        guest
            .run(SCHEDULE, 0, Kind::Call)
            .run(SWITCH, 0, Kind::Other);
        guest.set_task(task, name);
        guest.run(SWITCH, 6, Kind::Ret).run(SCHEDULE, 6, Kind::Ret);
    };
    // One that comes back finds its callers again, also when its name has changed meanwhile.
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
fn rep_iterations_are_counted_apart() {
    let mut guest = Guest::new();
    let at = function(MAIN);
    let rep = Last {
        target: at,
        is_rep: true,
        ..Last::OTHER
    };
    for _ in 0..10 {
        guest.block(at, rep, 1);
    }
    let count = guest.engine.nodes().last().unwrap().count;
    assert_eq!((count.own, count.rep), (10, 10));
}

#[test]
fn the_last_instruction_is_read_from_its_bytes() {
    let kind = |bytes: &[u8]| decode::last(0x1000, bytes).kind;
    assert_eq!(kind(&[0xe8, 0, 0, 0, 0]), Kind::Call);
    assert_eq!(kind(&[0x41, 0xff, 0xd3]), Kind::Call, "call *%r11");
    assert_eq!(kind(&[0xf3, 0xc3]), Kind::Ret);
    assert_eq!(kind(&[0x48, 0xcf]), Kind::Iret);
    assert_eq!(kind(&[0xff, 0xe0]), Kind::Other, "jmp *%rax");
    let target = |bytes: &[u8]| decode::last(0x1000, bytes).target;
    assert_eq!(target(&[0x75, 0xfe]), 0x1000);
    assert_eq!(target(&[0x0f, 0x85, 0x10, 0, 0, 0]), 0x1016);
    assert_eq!(target(&[0xe9, 0xfb, 0xff, 0xff, 0xff]), 0x1000);
    assert!(
        decode::last(0x1000, &[0xf3, 0x48, 0xa5]).is_rep,
        "rep movsq"
    );
    assert!(!decode::last(0x1000, &[0xf3, 0x90]).is_rep, "pause");
    assert_eq!(
        decode::mark(&[0x0f, 0x1f, 0x80, 2, 0x0f, 0xbe, 0xba]),
        Some(2)
    );
    assert_eq!(decode::mark(&[0x0f, 0x1f, 0x80, 2, 0, 0, 0]), None);
}

#[test]
fn memory_above_the_hole_is_found() {
    let bytes = 4 << 30;
    assert_eq!(memory::offset(0x1000, bytes), Some(0x1000));
    assert_eq!(memory::offset(1 << 32, bytes), Some(0x8000_0000));
    assert_eq!(memory::offset(0x9000_0000, bytes), None, "the hole");
    assert_eq!(
        memory::offset(0x9000_0000, 0xa000_0000),
        Some(0x9000_0000),
        "no hole below 2.75 GiB"
    );
}

#[test]
fn who_ran_while_a_task_waited_is_told() {
    use waits::{Arrival, Left, Waits};
    let mut all = Waits::new(2);
    let arrive = |task, root, run_delay_ns, at_ns| Arrival {
        task,
        root,
        is_idle: false,
        run_delay_ns,
        at_ns,
    };
    let left = |task, root, state| Left {
        task,
        root,
        node: root,
        state,
    };
    all.switch(left(0, 9, 0), arrive(1, 10, 0, 1000), 0);
    // The first one sleeps at 2000, is woken at 2500, and gets the CPU at 4000.
    all.switch(left(1, 10, 1), arrive(2, 20, 0, 2000), 0);
    all.switch(left(2, 20, 0), arrive(3, 30, 0, 3000), 0);
    all.switch(left(3, 30, 0), arrive(1, 10, 1500, 4000), 0);
    let size = 64 - 1500_u64.leading_zeros();
    assert_eq!(all.queued[&(10, size)], waits::Sum { count: 1, ns: 1500 });
    assert_eq!(
        all.blame,
        [((10, size, 20), 500), ((10, size, 30), 1000)].into()
    );
    let slept = 64 - 500_u64.leading_zeros();
    assert_eq!(all.asleep[&(10, slept)], waits::Sum { count: 1, ns: 500 });
    assert_eq!(
        all.preempted,
        [(9, 1), (20, 1), (30, 1)]
            .into_iter()
            .filter(|(root, _)| *root != 9)
            .collect()
    );
    assert_eq!(all.ran[&20], 1000);
}
