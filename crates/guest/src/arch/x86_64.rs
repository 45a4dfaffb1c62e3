//! x86 with 64 bits.

use std::arch::x86_64::CpuidResult;

/// Executes an instruction without effect that no compiler emits: `nopl 0xbabe0f00+NUMBER(%rax)`.
#[expect(unsafe_code, reason = "one instruction that does nothing")]
pub(crate) fn mark<const NUMBER: u8>() {
    // SAFETY: it reads no memory and changes no register.
    unsafe {
        std::arch::asm!(
            ".byte 0x0f, 0x1f, 0x80, {number}, 0x0f, 0xbe, 0xba",
            number = const NUMBER,
            options(nostack, preserves_flags)
        );
    }
}

/// The CPU features by which copies are single instructions, and whether this CPU has them. Not all of them have a name in
/// `/proc/cpuinfo`.
pub(crate) fn fast_strings() -> Vec<(&'static str, bool)> {
    // Intel's manual, volume 2A, CPUID: leaf 7, whose subleaf 0 has the last subleaf in EAX.
    const LEAF: u32 = 7;
    let highest = cpuid(0, 0).eax;
    let first = (LEAF <= highest).then(|| cpuid(LEAF, 0));
    let second = first.filter(|first| first.eax >= 1).map(|_| cpuid(LEAF, 1));
    let has = |register: Option<u32>, bit: u32| register.is_some_and(|bits| bits >> bit & 1 == 1);
    let (ebx, edx) = (first.map(|leaf| leaf.ebx), first.map(|leaf| leaf.edx));
    let eax = second.map(|leaf| leaf.eax);
    vec![
        ("erms", has(ebx, 9)),
        ("fsrm", has(edx, 4)),
        ("fzrm", has(eax, 10)),
        ("fsrs", has(eax, 11)),
        ("fsrc", has(eax, 12)),
    ]
}

/// Executes CPUID. The standard library's function is unsafe up to Rust 1.93 and safe since.
#[expect(unsafe_code, reason = "one instruction, which every x86-64 CPU has")]
fn cpuid(leaf: u32, subleaf: u32) -> CpuidResult {
    let (eax, ebx, ecx, edx);
    // SAFETY: CPUID only writes the four registers, and RBX, which the compiler reserves, is restored.
    unsafe {
        std::arch::asm!(
            "mov {rbx:r}, rbx",
            "cpuid",
            "xchg {rbx:r}, rbx",
            rbx = out(reg) ebx,
            inlateout("eax") leaf => eax,
            inlateout("ecx") subleaf => ecx,
            lateout("edx") edx,
            options(nostack, preserves_flags),
        );
    }
    CpuidResult { eax, ebx, ecx, edx }
}

#[cfg(test)]
mod tests {
    use base::arch::Arch;

    use super::*;

    #[test]
    fn every_fast_string_feature_is_asked_for() {
        let names: Vec<&str> = fast_strings().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, Arch::X86_64.facts().fast_strings());
    }

    #[test]
    fn fast_strings_agree_with_the_kernels_flags() {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let mut lines = cpuinfo.lines();
        let flags = lines.find(|line| line.starts_with("flags")).unwrap();
        for (feature, has_feature) in fast_strings() {
            // The kernel names only these.
            if ["erms", "fsrm"].contains(&feature) {
                let is_named = flags.split_whitespace().any(|flag| flag == feature);
                assert_eq!(is_named, has_feature, "{feature}");
            }
        }
    }
}
