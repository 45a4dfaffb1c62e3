//! The block layer, and devices built from several disks.

use super::{Extent, Row, row};
use crate::kind::{Kind, Severity};

use Extent::Line;
use Kind::{BlockIo, DeviceMapper, Raid};
use Severity::{Defect, Notice, Suspicious};

pub(super) const ROWS: &[Row] = &[
    // Up to 5.x the function precedes it.
    row(
        BlockIo,
        Suspicious,
        Line,
        "%sI/O error, dev %N, sector %d",
        &[
            (
                "I/O error, dev vda, sector 2048 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 2",
                "vda",
            ),
            (
                "blk_update_request: I/O error, dev vda, sector 2048 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 0",
                "vda",
            ),
        ],
    ),
    row(
        BlockIo,
        Suspicious,
        Line,
        "%scritical %s error, dev %N, sector %d",
        &[
            (
                "critical medium error, dev sda, sector 2048 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
                "sda",
            ),
            (
                "blk_update_request: critical target error, dev nvme0n1, sector 2048 op 0x9:(WRITE_ZEROES)",
                "nvme0n1",
            ),
        ],
    ),
    row(
        BlockIo,
        Suspicious,
        Line,
        "%sprotection error, dev %N, sector %d",
        &[(
            "protection error, dev nvme0n1, sector 2048 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
            "nvme0n1",
        )],
    ),
    row(
        BlockIo,
        Suspicious,
        Line,
        "Buffer I/O error on dev %N, logical block %d",
        &[(
            "Buffer I/O error on dev vda, logical block 256, lost async page write",
            "vda",
        )],
    ),
    row(
        BlockIo,
        Suspicious,
        Line,
        "Buffer I/O error on device %N, logical block %d",
        &[("Buffer I/O error on device vda, logical block 256", "vda")],
    ),
    row(
        BlockIo,
        Defect,
        Line,
        "%sattempt to access beyond end of device",
        &[
            ("nginx: attempt to access beyond end of device", ""),
            ("attempt to access beyond end of device", ""),
        ],
    ),
    row(
        Raid,
        Suspicious,
        Line,
        "md/raid%s:%N: Disk failure on %s, disabling device",
        &[(
            "md/raid1:md0: Disk failure on vdb, disabling device.",
            "md0",
        )],
    ),
    row(
        Raid,
        Defect,
        Line,
        "md/raid%s:%N: %s: unrecoverable I/O read error for block %d",
        &[(
            "md/raid1:md0: vdb: unrecoverable I/O read error for block 2048",
            "md0",
        )],
    ),
    row(
        Raid,
        Notice,
        Line,
        "md/raid%s:%N: read error corrected (%d sectors at %d on %s)",
        &[(
            "md/raid1:md0: read error corrected (8 sectors at 2048 on vdb)",
            "md0",
        )],
    ),
    row(
        DeviceMapper,
        Suspicious,
        Line,
        "device-mapper: multipath: %s: Failing path %N.",
        &[(
            "device-mapper: multipath: 253:0: Failing path 8:16.",
            "8:16",
        )],
    ),
    row(
        DeviceMapper,
        Defect,
        Line,
        "device-mapper: %N: %s: mapping table unavailable, erroring io",
        &[(
            "device-mapper: core-rq: 253:0: mapping table unavailable, erroring io",
            "core-rq",
        )],
    ),
    row(
        DeviceMapper,
        Defect,
        Line,
        "device-mapper: thin: %N: switching pool to %s mode",
        &[(
            "device-mapper: thin: 253:2: switching pool to read-only mode",
            "253:2",
        )],
    ),
];
