//! Facts that vary though nobody changed anything: a table to be extended, each row with its reason. All others are the same in all
//! trials of an arm, or something is wrong with the arm.

/// How a fact varies by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nature {
    /// It says what happened, not what was set, or repeats another fact: it is never compared.
    State,
    /// It may depend on chance or load: it is compared unless trials of one arm differ in it.
    Chance,
    /// Kernels work it out from the memory that they find: sizes that are close are the same.
    Memory,
}

/// Share by which sizes that come from the memory may differ: that of the check of memory itself.
const CLOSE: f64 = 0.03;

/// A `*` stands for any text.
const VARYING: [(Nature, &str, &str); 10] = [
    (
        Nature::State,
        "when and how much the machine, the clients or the emulator's host were busy",
        "agent:settled clients:*-us clients:*cpus-used clients:*idle clients:*softirq clients:*softnet-drops clients:*device-drops \
         clients:*device-bytes clients:*retransmits seek-disk:* host:steal remote:connect-us sysctl:kernel.sched_domain.*",
    ),
    (
        Nature::State,
        "counters of work that kernel threads did meanwhile",
        "/sys/kernel/mm/transparent_hugepage/khugepaged/full_scans /sys/kernel/mm/transparent_hugepage/khugepaged/pages_collapsed \
         /sys/kernel/mm/ksm/full_scans /sys/kernel/mm/ksm/general_profit /sys/kernel/mm/ksm/ksm_zero_pages /sys/kernel/mm/ksm/pages_s* \
         /sys/kernel/mm/ksm/pages_unshared /sys/kernel/mm/ksm/pages_volatile /sys/kernel/mm/ksm/stable_node_chains \
         /sys/kernel/mm/ksm/stable_node_dups",
    ),
    (
        Nature::State,
        "random at each boot",
        "sysctl:kernel.random.* sysctl:net.core.netdev_rss_key sysctl:net.ipv4.tcp_fastopen_key sysctl:net.ipv6.conf.*.stable_secret",
    ),
    (
        Nature::State,
        "`/sys/block` tells it in the kernel's own words",
        "hardware:disk:*:scheduler",
    ),
    (
        Nature::State,
        "what an arm's scheduler has counted, and its framework",
        "scheduler:*",
    ),
    (
        Nature::State,
        "how far a kernel went, and why no further: the figures themselves",
        "limits:*",
    ),
    (
        Nature::Chance,
        "servers start and end workers as the load asks for them",
        "workers:*",
    ),
    (
        Nature::Chance,
        "lines come and go with the time that devices and CPUs take to answer; numbers of devices and places of guests follow what else \
         the host does; the kernel lowers the rate when samples take long",
        "boot* net:* host:pinning sysctl:kernel.perf_event_max_sample_rate",
    ),
    (
        Nature::Memory,
        "worked out from the memory that a boot finds, which differs by pages",
        "/proc/meminfo:MemTotal host:hardware:memory limit:*:pending* limit:*:processes /proc/self/limits",
    ),
    (
        Nature::Memory,
        "worked out from the memory that a boot finds, which differs by pages",
        "sysctl:fs.epoll.max_user_watches sysctl:fs.fanotify.max_user_marks sysctl:fs.file-max sysctl:fs.inotify.max_user_watches \
         sysctl:kernel.threads-max sysctl:net.ipv4.inet_peer_threshold sysctl:net.ipv4.tcp_max_orphans sysctl:net.ipv4.tcp_mem sysctl:net.ipv4.udp_mem sysctl:net.nf_conntrack_max \
         sysctl:user.max_* sysctl:vm.admin_reserve_kbytes sysctl:vm.min_free_kbytes sysctl:vm.user_reserve_kbytes",
    ),
];

/// How a fact varies by itself; `None` where it does not.
pub(crate) fn of(fact: &str) -> Option<Nature> {
    let name = fact.replacen("sysctl ", "sysctl:", 1);
    let is_named = |patterns: &str| {
        let mut patterns = patterns.split_whitespace();
        patterns.any(|pattern| fits(pattern, &name))
    };
    let mut rows = VARYING.iter();
    let row = rows.find(|(_, _, patterns)| is_named(patterns));
    row.map(|(nature, _, _)| *nature)
}

fn fits(pattern: &str, name: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(left) = name.strip_prefix(begin) else {
        return false;
    };
    let mut ends = left.char_indices().map(|(place, _)| place);
    rest.is_empty() || ends.any(|place| fits_end(rest, &left[place..]))
}

/// The rest of a pattern: what follows its next `*` is free again.
fn fits_end(rest: &str, name: &str) -> bool {
    if rest.contains('*') {
        fits(rest, name)
    } else {
        rest == name
    }
}

/// Whether two texts are the same but for numbers that are close.
pub(crate) fn is_close(one: &str, other: &str) -> bool {
    let is_same = |(one, other): (&str, &str)| {
        let numbers = (one.parse::<f64>(), other.parse::<f64>());
        match numbers {
            (Ok(one), Ok(other)) => one.min(other) >= one.max(other) * (1.0 - CLOSE),
            _ => one == other,
        }
    };
    let words = (one.split_whitespace(), other.split_whitespace());
    words.0.clone().count() == words.1.clone().count() && words.0.zip(words.1).all(is_same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_varies_by_itself_is_told_from_what_does_not() {
        for (fact, nature) in [
            ("agent:settled", Some(Nature::State)),
            ("clients:one:round-trip-us", Some(Nature::State)),
            ("clients:place", None),
            ("hardware:disk:vda:scheduler", Some(Nature::State)),
            ("hardware:disk:vda:model", None),
            ("sysctl net.core.netdev_rss_key", Some(Nature::State)),
            ("sysctl net.core.rmem_max", None),
            ("scheduler:picks", Some(Nature::State)),
            ("scheduler", None),
            ("host:pinning", Some(Nature::Chance)),
            ("host:governor", None),
            ("limit:apache2:pending signals", Some(Nature::Memory)),
            ("limit:apache2:open files", None),
            ("sysctl user.max_user_namespaces", Some(Nature::Memory)),
            ("CONFIG_HZ", None),
            (
                "/sys/devices/system/clocksource/clocksource0/current_clocksource",
                None,
            ),
        ] {
            assert_eq!(of(fact), nature, "{fact}");
        }
    }

    #[test]
    fn close_sizes_are_the_same_and_other_words_are_not() {
        assert!(is_close("995364 kB", "995360 kB") && is_close("9 12 18", "9 12 18"));
        assert!(!is_close("995364 kB", "895360 kB") && !is_close("1 kB", "1 MB"));
        assert!(!is_close("1 2", "1 2 3"));
    }
}
