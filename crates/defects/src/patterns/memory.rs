//! Memory: failed allocations, damaged structures, and the tools that detect damage.

use super::{Extent, Row, row};
use crate::kind::{Kind, Severity};

use Extent::{Follow, Line, Trace};
use Kind::{
    BadPage, BadRssCounter, BufferOverflow, Kasan, Kcsan, Kfence, Kmemleak, Kmsan, ListCorruption,
    OomKill, PageAllocation, SlabCorruption, StackOverflow, Swap, Ubsan,
};
use Severity::{Defect, Suspicious};

pub(super) const ROWS: &[Row] = &[
    row(
        ListCorruption,
        Defect,
        Trace,
        "list_add corruption. %s",
        &[(
            "list_add corruption. next->prev should be prev (ffff888100000000), but was 0000000000000000. (next=ffff888100000040).",
            "",
        )],
    ),
    row(
        ListCorruption,
        Defect,
        Trace,
        "list_add double add: %s",
        &[(
            "list_add double add: new=ffff888100000000, prev=ffff888100000000, next=ffff888100000040.",
            "",
        )],
    ),
    row(
        ListCorruption,
        Defect,
        Trace,
        "list_del corruption%s",
        &[
            (
                "list_del corruption, ffff888100000000->next is LIST_POISON1 (dead000000000100)",
                "",
            ),
            // 5.10 ends before `(next=..)`.
            (
                "list_del corruption. prev->next should be ffff888100000000, but was ffff888100000040",
                "",
            ),
        ],
    ),
    row(
        BadPage,
        Defect,
        Trace,
        "BUG: Bad page state in process %S  pfn:%x",
        &[("BUG: Bad page state in process nginx  pfn:1a2b3c", "nginx")],
    ),
    row(
        BadPage,
        Defect,
        Trace,
        "BUG: Bad page cache in process %S  pfn:%x",
        &[("BUG: Bad page cache in process nginx  pfn:1a2b3c", "nginx")],
    ),
    // 7.x names the bad level instead of always the lowest two.
    row(
        BadPage,
        Defect,
        Trace,
        "BUG: Bad page map in process %S  %s:%x",
        &[
            (
                "BUG: Bad page map in process nginx  pte:8000000123456865 pmd:12345067",
                "nginx",
            ),
            ("BUG: Bad page map in process nginx  pmd:12345067", "nginx"),
        ],
    ),
    row(
        BadPage,
        Defect,
        Line,
        "%N:%d: bad %s %x(%x)",
        &[(
            "mm/pgtable-generic.c:51: bad pmd 00000000a1b2c3d4(8000000123456865)",
            "mm/pgtable-generic.c",
        )],
    ),
    // 7.x appends command and process.
    row(
        BadRssCounter,
        Defect,
        Line,
        "BUG: Bad rss-counter state mm:%x type:%N val:%d",
        &[
            (
                "BUG: Bad rss-counter state mm:00000000a1b2c3d4 type:MM_ANONPAGES val:1",
                "MM_ANONPAGES",
            ),
            (
                "BUG: Bad rss-counter state mm:00000000a1b2c3d4 type:MM_FILEPAGES val:-2 Comm:nginx Pid:12",
                "MM_FILEPAGES",
            ),
        ],
    ),
    row(
        BadRssCounter,
        Defect,
        Line,
        "BUG: non-zero pgtables_bytes on freeing mm: %d",
        &[("BUG: non-zero pgtables_bytes on freeing mm: 4096", "")],
    ),
    row(
        SlabCorruption,
        Defect,
        Trace,
        "BUG %N (Not tainted): %s",
        &[(
            "BUG kmalloc-64 (Not tainted): Redzone overwritten",
            "kmalloc-64",
        )],
    ),
    row(
        SlabCorruption,
        Defect,
        Trace,
        "BUG %N (Tainted: %s): %s",
        &[(
            "BUG skbuff_head_cache (Tainted: G    B): Object already free",
            "skbuff_head_cache",
        )],
    ),
    row(
        SlabCorruption,
        Defect,
        Line,
        "kmem_cache_destroy %N: Slab cache still has objects",
        &[(
            "kmem_cache_destroy foo_cache: Slab cache still has objects",
            "foo_cache",
        )],
    ),
    row(
        SlabCorruption,
        Defect,
        Trace,
        "cache_from_obj: Wrong slab cache. %N but object is from %s",
        &[(
            "cache_from_obj: Wrong slab cache. foo_cache but object is from kmalloc-64",
            "foo_cache",
        )],
    ),
    row(
        BufferOverflow,
        Defect,
        Trace,
        "usercopy: Kernel memory %s attempt detected %s",
        &[(
            "usercopy: Kernel memory exposure attempt detected from SLUB object 'skbuff_head_cache' (offset 0, size 300)!",
            "",
        )],
    ),
    row(
        BufferOverflow,
        Defect,
        Trace,
        "detected buffer overflow in %S",
        &[("detected buffer overflow in strnlen", "strnlen")],
    ),
    // From 6.9 on with sizes, and with the function first.
    row(
        BufferOverflow,
        Defect,
        Trace,
        "%S: detected buffer overflow: %d byte %s of buffer size %d",
        &[(
            "memcpy: detected buffer overflow: 64 byte write of buffer size 32",
            "memcpy",
        )],
    ),
    row(
        BufferOverflow,
        Defect,
        Trace,
        "%S: detected field-spanning write (size %d) of single %s",
        &[(
            "memcpy: detected field-spanning write (size 64) of single field \"&a->b\" at net/x.c:12 (size 32)",
            "memcpy",
        )],
    ),
    row(
        BufferOverflow,
        Defect,
        Trace,
        "skbuff: skb_%s_panic: text:%x",
        &[(
            "skbuff: skb_over_panic: text:ffffffff81000000 len:2000 put:1500 head:ffff888100000000 data:ffff888100000040 tail:0x810 end:0x6c0 dev:eth0",
            "",
        )],
    ),
    row(
        StackOverflow,
        Defect,
        Trace,
        "corrupted stack end detected inside scheduler",
        &[("corrupted stack end detected inside scheduler", "")],
    ),
    // The first word has the prefix `slab-` since 6.1: `use-after-free` is the same report in 5.10.
    row(
        Kasan,
        Defect,
        Trace,
        "BUG: KASAN: %s in %F",
        &[
            (
                "BUG: KASAN: slab-use-after-free in tcp_ack+0x12/0x340",
                "tcp_ack",
            ),
            (
                "BUG: KASAN: use-after-free in tcp_ack+0x12/0x340",
                "tcp_ack",
            ),
        ],
    ),
    row(
        Kasan,
        Defect,
        Trace,
        "BUG: KASAN: %S in %s",
        &[(
            "BUG: KASAN: double-free or invalid-free in 0xffffffff81000000",
            "double-free or invalid-free",
        )],
    ),
    row(
        Kfence,
        Defect,
        Trace,
        "BUG: KFENCE: %s in %F",
        &[(
            "BUG: KFENCE: use-after-free read in tcp_ack+0x12/0x340",
            "tcp_ack",
        )],
    ),
    row(
        Kcsan,
        Suspicious,
        Trace,
        "BUG: KCSAN: %s in %N",
        &[
            (
                "BUG: KCSAN: data-race in tcp_poll / tcp_recvmsg",
                "tcp_poll / tcp_recvmsg",
            ),
            ("BUG: KCSAN: assert: race in foo / bar", "foo / bar"),
        ],
    ),
    row(
        Kmsan,
        Defect,
        Trace,
        "BUG: KMSAN: %s in %F",
        &[("BUG: KMSAN: uninit-value in tcp_ack+0x12/0x340", "tcp_ack")],
    ),
    row(
        Ubsan,
        Defect,
        Trace,
        "UBSAN: %s in %S:%d:%d",
        &[(
            "UBSAN: array-index-out-of-bounds in net/ipv4/tcp.c:123:9",
            "net/ipv4/tcp.c",
        )],
    ),
    row(
        Kmemleak,
        Suspicious,
        Line,
        "kmemleak: %d new suspected memory leaks",
        &[(
            "kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
            "",
        )],
    ),
    row(
        PageAllocation,
        Suspicious,
        Trace,
        "%S: page allocation failure: order:%d",
        &[(
            "nginx: page allocation failure: order:4, mode:0x40dc0(GFP_KERNEL|__GFP_COMP|__GFP_ZERO), nodemask=(null),cpuset=/,mems_allowed=0",
            "nginx",
        )],
    ),
    row(
        PageAllocation,
        Suspicious,
        Trace,
        "%S: page allocation stall for %d secs: order:%d",
        &[(
            "nginx: page allocation stall for 10 secs: order:0, mode:0x40dc0(GFP_KERNEL) nodemask=(null)",
            "nginx",
        )],
    ),
    // 5.10 has another wording.
    row(
        PageAllocation,
        Suspicious,
        Trace,
        "%S: vmalloc error: size %d, %s",
        &[(
            "nginx: vmalloc error: size 8192, failed to allocate pages, mode:0xcc2(GFP_KERNEL), nodemask=(null)",
            "nginx",
        )],
    ),
    row(
        PageAllocation,
        Suspicious,
        Trace,
        "%S: vmalloc: allocation failure%s",
        &[(
            "nginx: vmalloc: allocation failure: 8192 bytes, mode:0xcc2(GFP_KERNEL)",
            "nginx",
        )],
    ),
    row(
        PageAllocation,
        Suspicious,
        Line,
        "SLUB: Unable to allocate memory on %s",
        &[(
            "SLUB: Unable to allocate memory on CPU 1 (of node 0) on node -1, gfp=0x920(GFP_ATOMIC)",
            "",
        )],
    ),
    row(
        OomKill,
        Suspicious,
        Trace,
        "%S invoked oom-killer: gfp_mask=%x",
        &[(
            "nginx invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0",
            "nginx",
        )],
    ),
    row(
        OomKill,
        Suspicious,
        Follow,
        "Out of memory%s: Killed process %d (%P) total-vm:%d",
        &[(
            "Out of memory: Killed process 812 (mariadbd) total-vm:2097152kB, anon-rss:1048576kB, file-rss:0kB, shmem-rss:0kB, UID:101 pgtables:2200kB oom_score_adj:0",
            "mariadbd",
        )],
    ),
    row(
        OomKill,
        Suspicious,
        Follow,
        "Memory cgroup out of memory: Killed process %d (%P) %s",
        &[(
            "Memory cgroup out of memory: Killed process 812 (mariadbd) total-vm:2097152kB, anon-rss:1048576kB, file-rss:0kB, shmem-rss:0kB, UID:101 pgtables:2200kB oom_score_adj:0",
            "mariadbd",
        )],
    ),
    row(
        OomKill,
        Defect,
        Follow,
        "Out of memory and no killable processes...",
        &[("Out of memory and no killable processes...", "")],
    ),
    row(
        Swap,
        Suspicious,
        Line,
        "%s-error on swap-device (%d:%d:%d)",
        &[("Write-error on swap-device (254:0:123456)", "")],
    ),
    row(
        Swap,
        Defect,
        Line,
        "%s: Bad swap %s entry %x",
        &[("get_swap_device: Bad swap file entry 3fffffffffffe", "")],
    ),
    row(
        Swap,
        Defect,
        Line,
        "%s: Unused swap %s entry %x",
        &[("swap_info_get: Unused swap offset entry 0000001f", "")],
    ),
];
