//! File systems.

use super::{Extent, Row, row};
use crate::kind::{Kind, Severity};

use Extent::{Line, Trace};
use Kind::{Btrfs, Cifs, Ext4, F2fs, FileSystem, Jfs, Nfs, Xfs};
use Severity::{Defect, Suspicious};

pub(super) const ROWS: &[Row] = &[
    row(
        Ext4,
        Defect,
        Line,
        "EXT4-fs error (device %s): %N:%d: %s",
        &[(
            "EXT4-fs error (device vda): ext4_find_entry:1455: inode #2: comm nginx: reading directory lblock 0",
            "ext4_find_entry",
        )],
    ),
    row(
        Ext4,
        Defect,
        Line,
        "EXT4-fs error (device %s) in %N:%d: %s",
        &[(
            "EXT4-fs error (device vda) in ext4_reserve_inode_write:5764: Journal has aborted",
            "ext4_reserve_inode_write",
        )],
    ),
    row(
        Ext4,
        Suspicious,
        Line,
        "EXT4-fs warning (device %s): %N:%d: %s",
        &[(
            "EXT4-fs warning (device vda): ext4_end_bio:346: I/O error 10 writing to inode 12 starting block 3456)",
            "ext4_end_bio",
        )],
    ),
    row(
        Ext4,
        Defect,
        Line,
        "EXT4-fs (%N): Remounting filesystem read-only",
        &[("EXT4-fs (vda): Remounting filesystem read-only", "vda")],
    ),
    row(
        Ext4,
        Defect,
        Line,
        "EXT4-fs (%N): Delayed block allocation failed for inode %d",
        &[(
            "EXT4-fs (vda): Delayed block allocation failed for inode 12 at logical offset 3 with max blocks 4 with error 5",
            "vda",
        )],
    ),
    row(
        Ext4,
        Defect,
        Line,
        "Aborting journal on device %N.",
        &[("Aborting journal on device vda-8.", "vda-8")],
    ),
    row(
        Ext4,
        Defect,
        Line,
        "JBD2: Detected IO errors while flushing file data on %N",
        &[(
            "JBD2: Detected IO errors while flushing file data on vda-8",
            "vda-8",
        )],
    ),
    row(
        Ext4,
        Defect,
        Line,
        "JBD2: I/O error when updating journal superblock for %N",
        &[(
            "JBD2: I/O error when updating journal superblock for vda-8.",
            "vda-8",
        )],
    ),
    row(
        Ext4,
        Defect,
        Line,
        "JBD2: Error %d detected when updating journal superblock for %N",
        &[(
            "JBD2: Error -5 detected when updating journal superblock for vda-8.",
            "vda-8",
        )],
    ),
    row(
        Ext4,
        Defect,
        Line,
        "JBD2 unexpected failure: %N: %s",
        &[(
            "JBD2 unexpected failure: jbd2_journal_revoke: !buffer_revoked(bh);",
            "jbd2_journal_revoke",
        )],
    ),
    row(
        Xfs,
        Defect,
        Trace,
        "XFS (%s): Metadata corruption detected at %F%s",
        &[(
            "XFS (vdb): Metadata corruption detected at xfs_agf_read_verify+0x5a/0x100 [xfs], xfs_agf block 0x1",
            "xfs_agf_read_verify",
        )],
    ),
    row(
        Xfs,
        Defect,
        Trace,
        "XFS (%s): Metadata CRC error detected at %F%s",
        &[(
            "XFS (vdb): Metadata CRC error detected at xfs_agf_read_verify+0x5a/0x100 [xfs], xfs_agf block 0x1",
            "xfs_agf_read_verify",
        )],
    ),
    row(
        Xfs,
        Defect,
        Trace,
        "XFS (%s): Internal error %s at line %d of file %s.  Caller %F",
        &[(
            "XFS (vdb): Internal error i != 1 at line 1234 of file fs/xfs/libxfs/xfs_alloc.c.  Caller xfs_free_extent+0x12/0x340 [xfs]",
            "xfs_free_extent",
        )],
    ),
    // 5.10: `Corruption of in-memory data detected.  Shutting down filesystem`; later kernels name the place too.
    row(
        Xfs,
        Defect,
        Line,
        "XFS (%N): %s Shutting down filesystem%s",
        &[
            (
                "XFS (vdb): Corruption of in-memory data detected.  Shutting down filesystem",
                "vdb",
            ),
            (
                "XFS (vdb): Corruption of in-memory data (0x8) detected at xfs_defer_finish+0x1/0x2 [xfs] (fs/xfs/xfs_defer.c:5).  Shutting down filesystem.",
                "vdb",
            ),
            (
                "XFS (vdb): Log I/O Error Detected. Shutting down filesystem",
                "vdb",
            ),
        ],
    ),
    row(
        Xfs,
        Defect,
        Line,
        "XFS (%N): metadata I/O error in %s",
        &[(
            "XFS (vdb): metadata I/O error in \"xfs_imap_to_bp+0x5d/0x80 [xfs]\" at daddr 0x40 len 32 error 5",
            "vdb",
        )],
    ),
    row(
        Xfs,
        Defect,
        Line,
        "XFS (%N): log I/O error %d",
        &[("XFS (vdb): log I/O error -5", "vdb")],
    ),
    row(
        Xfs,
        Defect,
        Line,
        "XFS (%N): Corruption %s",
        &[
            (
                "XFS (vdb): Corruption detected. Unmount and run xfs_repair",
                "vdb",
            ),
            (
                "XFS (vdb): Corruption Alert: Buffer at daddr 0x40 had permanent write failures!",
                "vdb",
            ),
        ],
    ),
    row(
        Xfs,
        Suspicious,
        Line,
        "XFS: %P(%d) possible memory allocation deadlock%s",
        &[(
            "XFS: kworker/1:2(345) possible memory allocation deadlock size 65552 in kmem_alloc (mode:0x2400240)",
            "kworker/#:#",
        )],
    ),
    row(
        Btrfs,
        Defect,
        Line,
        "BTRFS: error (device %s) in %N:%d: errno=%d %s",
        &[
            (
                "BTRFS: error (device vdb) in btrfs_run_delayed_refs:2150: errno=-5 IO failure",
                "btrfs_run_delayed_refs",
            ),
            (
                "BTRFS: error (device vdb: state EA) in btrfs_sync_log:3171: errno=-5 IO failure",
                "btrfs_sync_log",
            ),
        ],
    ),
    row(
        Btrfs,
        Defect,
        Line,
        "BTRFS panic (device %s) in %N:%d: %s",
        &[(
            "BTRFS panic (device vdb) in insert_block:1034: (errno=-17 Object already exists)",
            "insert_block",
        )],
    ),
    row(
        Btrfs,
        Defect,
        Line,
        "BTRFS warning (device %N): csum failed root %d ino %d off %d%s",
        &[(
            "BTRFS warning (device vdb): csum failed root 5 ino 257 off 0 csum 0x12345678 expected csum 0x00000000 mirror 1",
            "vdb",
        )],
    ),
    row(
        Btrfs,
        Defect,
        Line,
        "BTRFS info (device %N): forced readonly",
        &[("BTRFS info (device vdb): forced readonly", "vdb")],
    ),
    row(
        Btrfs,
        Defect,
        Line,
        "BTRFS critical (device %N): %s",
        &[(
            "BTRFS critical (device vdb): corrupt leaf: root=5 block=30408704 slot=0, invalid key",
            "vdb",
        )],
    ),
    row(
        Btrfs,
        Defect,
        Line,
        "BTRFS error (device %N): bdev %s errs: wr %d, rd %d, flush %d, corrupt %d, gen %d",
        &[(
            "BTRFS error (device vdb): bdev /dev/vdb errs: wr 1, rd 0, flush 0, corrupt 0, gen 0",
            "vdb",
        )],
    ),
    row(
        Btrfs,
        Suspicious,
        Line,
        "BTRFS error (device %N): %s",
        &[(
            "BTRFS error (device vdb: state EA): parent transid verify failed on logical 1 mirror 1 wanted 7 found 5",
            "vdb: state EA",
        )],
    ),
    row(
        Jfs,
        Defect,
        Line,
        "ERROR: (device %s): %N: %s",
        &[(
            "ERROR: (device vdb): dbAllocAG: allocation request is larger than the allocation group size",
            "dbAllocAG",
        )],
    ),
    row(
        F2fs,
        Defect,
        Line,
        "F2FS-fs (%N): %sun fsck%s",
        &[("F2FS-fs (vdb): NAT is corrupt, run fsck to fix it", "vdb")],
    ),
    row(
        F2fs,
        Defect,
        Line,
        "F2FS-fs (%N): %snconsisten%s",
        &[(
            "F2FS-fs (vdb): Inconsistent error blkaddr:4660, sit bitmap:0",
            "vdb",
        )],
    ),
    row(
        Nfs,
        Suspicious,
        Line,
        "nfs: server %N not responding, %s",
        &[
            (
                "nfs: server 10.0.0.1 not responding, still trying",
                "10.0.0.1",
            ),
            ("nfs: server store not responding, timed out", "store"),
        ],
    ),
    row(
        Nfs,
        Defect,
        Line,
        "NFS: server %N error: fileid changed",
        &[("NFS: server store error: fileid changed", "store")],
    ),
    row(
        Nfs,
        Suspicious,
        Line,
        "lockd: server %N not responding, %s",
        &[("lockd: server store not responding, still trying", "store")],
    ),
    row(
        Cifs,
        Suspicious,
        Line,
        "CIFS: VFS: %N has not responded in %d seconds",
        &[(
            "CIFS: VFS: \\\\store has not responded in 180 seconds. Reconnecting...",
            "\\\\store",
        )],
    ),
    row(
        Cifs,
        Defect,
        Line,
        "CIFS: VFS: %sSMB signature verification returned error = %d",
        &[(
            "CIFS: VFS: \\\\store SMB signature verification returned error = -13",
            "",
        )],
    ),
    row(
        FileSystem,
        Defect,
        Line,
        "%N: Dentry %x{i=%x,n=%s}  still in use (%d) [unmount of %s]",
        &[(
            "BUG: Dentry 00000000a1b2c3d4{i=2,n=/}  still in use (1) [unmount of ext4 vda]",
            "BUG",
        )],
    ),
    row(
        FileSystem,
        Defect,
        Line,
        "VFS: Busy inodes after unmount of %N",
        &[("VFS: Busy inodes after unmount of vdb (ext4)", "vdb (ext4)")],
    ),
    row(
        FileSystem,
        Defect,
        Line,
        "VFS: brelse: Trying to free free buffer",
        &[("VFS: brelse: Trying to free free buffer", "")],
    ),
    row(
        FileSystem,
        Defect,
        Line,
        "%S-fs error (device %N): %s",
        &[(
            "EXT2-fs error (device vdb): ext2_lookup: deleted inode referenced: 12",
            "vdb",
        )],
    ),
    row(
        FileSystem,
        Defect,
        Line,
        "FAT-fs (%N): error, %s",
        &[(
            "FAT-fs (vdb1): error, fat_bmap_cluster: request beyond EOF (i_pos 523)",
            "vdb1",
        )],
    ),
    row(
        FileSystem,
        Defect,
        Line,
        "SQUASHFS error: %N",
        &[(
            "SQUASHFS error: Unable to read metadata cache entry [a1b2]",
            "Unable to read metadata cache entry [a1b2]",
        )],
    ),
    row(
        FileSystem,
        Defect,
        Line,
        "%N: lost filesystem error report for type %d",
        &[(
            "vdb: lost filesystem error report for type 3 error -117",
            "vdb",
        )],
    ),
    row(
        FileSystem,
        Defect,
        Line,
        "%N: lost file I/O error report for ino %d type %d",
        &[(
            "vdb: lost file I/O error report for ino 12 type 1 pos 0x0 len 0x1000 error -5",
            "vdb",
        )],
    ),
    row(
        Kind::FileLimit,
        Suspicious,
        Line,
        "VFS: file-max limit %d reached",
        &[("VFS: file-max limit 100000 reached", "")],
    ),
];
