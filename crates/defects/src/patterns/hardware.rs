//! Hardware, real or emulated: machine checks, memory, buses, disks.

use super::{Extent, Row, row};
use crate::kind::{Kind, Severity};

use Extent::Line;
use Kind::{
    Ata, Edac, HardwareError, Iommu, MachineCheck, MemoryFailure, Nvme, Pcie, Scsi, Thermal, Virtio,
};
use Severity::{Defect, Notice, Suspicious};

pub(super) const ROWS: &[Row] = &[
    row(
        MachineCheck,
        Suspicious,
        Line,
        "mce: [Hardware Error]: CPU %d: Machine Check%s: %x %N: %x",
        &[
            (
                "mce: [Hardware Error]: CPU 1: Machine Check: 0 Bank 5: be00000000800400",
                "Bank 5",
            ),
            (
                "mce: [Hardware Error]: CPU 1: Machine Check Exception: 5 Bank 5: be00000000800400",
                "Bank 5",
            ),
        ],
    ),
    row(
        MachineCheck,
        Suspicious,
        Line,
        "mce: [Hardware Error]: Machine check events logged",
        &[("mce: [Hardware Error]: Machine check events logged", "")],
    ),
    row(
        MachineCheck,
        Defect,
        Line,
        "mce: Uncorrected hardware memory error in user-access at %x",
        &[(
            "mce: Uncorrected hardware memory error in user-access at 12345000",
            "",
        )],
    ),
    row(
        MachineCheck,
        Suspicious,
        Line,
        "[Hardware Error]: %N error, %s action required.",
        &[
            (
                "[Hardware Error]: Deferred error, no action required.",
                "Deferred",
            ),
            (
                "[Hardware Error]: Corrected error, no action required.",
                "Corrected",
            ),
        ],
    ),
    row(
        Edac,
        Notice,
        Line,
        "EDAC MC%d: %d CE %s",
        &[(
            "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0 (channel:1 slot:0)",
            "",
        )],
    ),
    row(
        Edac,
        Suspicious,
        Line,
        "EDAC MC%d: %d UE %s",
        &[(
            "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0 (channel:1 slot:0)",
            "",
        )],
    ),
    row(
        Edac,
        Suspicious,
        Line,
        "EDAC PCI: %sError on %N",
        &[(
            "EDAC PCI: Signaled System Error on 0000:00:03.0",
            "0000:00:03.0",
        )],
    ),
    row(
        HardwareError,
        Suspicious,
        Line,
        "{%d}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: %d",
        &[(
            "{1}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 2",
            "",
        )],
    ),
    row(
        HardwareError,
        Suspicious,
        Line,
        "BERT: [Hardware Error]: %s",
        &[("BERT: [Hardware Error]: Skipped 3 error records", "")],
    ),
    row(
        HardwareError,
        Suspicious,
        Line,
        "BERT: Error records from previous boot:",
        &[("BERT: Error records from previous boot:", "")],
    ),
    row(
        MemoryFailure,
        Suspicious,
        Line,
        "Memory failure: %x: recovery action for %N: %s",
        &[(
            "Memory failure: 0x12345: recovery action for dirty LRU page: Recovered",
            "dirty LRU page",
        )],
    ),
    row(
        MemoryFailure,
        Suspicious,
        Line,
        "Memory failure: %x: Sending SIGBUS to %P:%d",
        &[(
            "Memory failure: 0x12345: Sending SIGBUS to mariadbd:812 due to hardware memory corruption",
            "mariadbd",
        )],
    ),
    row(
        MemoryFailure,
        Suspicious,
        Line,
        "MCE: Killing %P:%d due to hardware memory corruption",
        &[(
            "MCE: Killing mariadbd:812 due to hardware memory corruption fault at 7f0123456000",
            "mariadbd",
        )],
    ),
    row(
        Pcie,
        Suspicious,
        Line,
        "%N: PCIe Bus Error: severity=%s",
        &[(
            "pcieport 0000:00:1c.0: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Transaction Layer, (Requester ID)",
            "pcieport 0000:00:1c.0",
        )],
    ),
    // 7.x: also over CXL.
    row(
        Pcie,
        Suspicious,
        Line,
        "%N: CXL Bus Error: severity=%s",
        &[(
            "pcieport 0000:00:1c.0: CXL Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)",
            "pcieport 0000:00:1c.0",
        )],
    ),
    row(
        Pcie,
        Defect,
        Line,
        "%N: AER: device recovery failed",
        &[(
            "pcieport 0000:00:1c.0: AER: device recovery failed",
            "pcieport 0000:00:1c.0",
        )],
    ),
    row(
        Pcie,
        Suspicious,
        Line,
        "%N: DPC: containment event, status:%x",
        &[(
            "pcieport 0000:00:1c.0: DPC: containment event, status:0x1f01 source:0x0000",
            "pcieport 0000:00:1c.0",
        )],
    ),
    // Device and reason changed their format between 5.10, 6.1 and 7.x; the words around them did not.
    row(
        Iommu,
        Suspicious,
        Line,
        "DMAR: [%s] Request device [%N] %s",
        &[
            (
                "DMAR: [DMA Read NO_PASID] Request device [00:03.0] fault addr 0xfffff000 [fault reason 0x06] PTE Read access is not set",
                "00:03.0",
            ),
            (
                "DMAR: [DMA Write] Request device [0000:00:03.0] PASID ffffffff fault addr fffff000 [fault reason 05] PTE Write access is not set",
                "0000:00:03.0",
            ),
        ],
    ),
    row(
        Iommu,
        Suspicious,
        Line,
        "%sAMD-Vi: Event logged [%N %s",
        &[(
            "AMD-Vi: Event logged [IO_PAGE_FAULT device=0000:00:03.0 domain=0x000e address=0xfffff000 flags=0x0000]",
            "IO_PAGE_FAULT",
        )],
    ),
    row(
        Thermal,
        Suspicious,
        Line,
        "mce: CPU%d: %s temperature%sabove threshold, cpu clock%sthrottled",
        &[(
            "mce: CPU1: Core temperature above threshold, cpu clock throttled (total events = 1)",
            "",
        )],
    ),
    row(
        Thermal,
        Suspicious,
        Line,
        "CPU%d: %s temperature%sabove threshold, cpu clock%sthrottled",
        &[
            (
                "CPU1: Package temperature above threshold, cpu clock throttled (total events = 1)",
                "",
            ),
            (
                "CPU1: Core temperature is above threshold, cpu clock is throttled (total events = 1)",
                "",
            ),
        ],
    ),
    row(
        Scsi,
        Suspicious,
        Line,
        "sd %s: Device offlined - not ready after error recovery",
        &[(
            "sd 2:0:0:0: Device offlined - not ready after error recovery",
            "",
        )],
    ),
    row(
        Scsi,
        Suspicious,
        Line,
        "sd %s: rejecting I/O to offline device",
        &[("sd 2:0:0:0: rejecting I/O to offline device", "")],
    ),
    row(
        Scsi,
        Suspicious,
        Line,
        "sd %s: [%N] Medium access timeout failure. Offlining disk!",
        &[(
            "sd 2:0:0:0: [sda] Medium access timeout failure. Offlining disk!",
            "sda",
        )],
    ),
    row(
        Scsi,
        Suspicious,
        Line,
        "sd %s: [%N] %sFAILED Result: hostbyte=%s",
        &[(
            "sd 2:0:0:0: [sda] tag#12 FAILED Result: hostbyte=DID_TIME_OUT driverbyte=DRIVER_OK cmd_age=30s",
            "sda",
        )],
    ),
    row(
        Scsi,
        Suspicious,
        Line,
        "sd %s: [%N] %stiming out command, waited %ds",
        &[(
            "sd 2:0:0:0: [sda] tag#12 timing out command, waited 180s",
            "sda",
        )],
    ),
    row(
        Scsi,
        Suspicious,
        Line,
        "scsi host%d: %sreset%s failed",
        &[("scsi host2: Bus reset 0 failed", "")],
    ),
    row(
        Ata,
        Suspicious,
        Line,
        "%N: exception Emask %x SAct %x SErr %x action %x",
        &[
            (
                "ata1.00: exception Emask 0x0 SAct 0x0 SErr 0x0 action 0x6 frozen",
                "ata1.00",
            ),
            (
                "ata1: exception Emask 0x10 SAct 0x0 SErr 0x4010000 action 0xe frozen",
                "ata1",
            ),
        ],
    ),
    row(
        Ata,
        Suspicious,
        Line,
        "%N: hard resetting link",
        &[("ata1: hard resetting link", "ata1")],
    ),
    row(
        Ata,
        Suspicious,
        Line,
        "%N: reset failed, giving up",
        &[("ata1: reset failed, giving up", "ata1")],
    ),
    // Later kernels print more between `I/O` and `timeout`.
    row(
        Nvme,
        Suspicious,
        Line,
        "nvme %N: I/O %s timeout, %s",
        &[
            ("nvme nvme0: I/O 12 QID 1 timeout, aborting", "nvme0"),
            (
                "nvme nvme0: I/O 12 (I/O Cmd) QID 1 timeout, aborting",
                "nvme0",
            ),
            (
                "nvme nvme0: I/O tag 12 (100c) opcode 0x2 (I/O Cmd) QID 1 timeout, aborting req_op:READ(0) size:4096",
                "nvme0",
            ),
        ],
    ),
    row(
        Nvme,
        Suspicious,
        Line,
        "nvme %N: controller is down; will reset: CSTS=%x",
        &[(
            "nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10",
            "nvme0",
        )],
    ),
    row(
        Nvme,
        Suspicious,
        Line,
        "nvme %N: Removing after probe failure status: %d",
        &[(
            "nvme nvme0: Removing after probe failure status: -19",
            "nvme0",
        )],
    ),
    row(
        Nvme,
        Suspicious,
        Line,
        "nvme %N: Disabling device after reset failure: %d",
        &[(
            "nvme nvme0: Disabling device after reset failure: -19",
            "nvme0",
        )],
    ),
    row(
        Virtio,
        Defect,
        Line,
        "%N: %s:id %d is not a head!",
        &[(
            "virtio_net virtio0: input.0:id 5 is not a head!",
            "virtio_net virtio0",
        )],
    ),
    row(
        Virtio,
        Defect,
        Line,
        "%N: %s:id %d out of range",
        &[(
            "virtio_blk virtio1: requests:id 300 out of range",
            "virtio_blk virtio1",
        )],
    ),
    row(
        Virtio,
        Suspicious,
        Line,
        "virtio: device refuses features: %x",
        &[("virtio: device refuses features: 1", "")],
    ),
];
