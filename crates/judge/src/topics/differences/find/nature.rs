//! Facts that vary although no setting changed: a table to extend, each row with its reason. If another fact differs between trials
//! of one arm, something is wrong with the arm.

/// How a fact varies although no setting changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nature {
    /// An event, not a setting, or a repetition of another fact. It is never compared.
    State,
    /// It may depend on chance or load. It is compared unless it differs between trials of one arm.
    Chance,
    /// The kernel computes it from the size of memory. Close sizes count as equal.
    Memory,
}

/// Tolerance for sizes that depend on memory, the same as of the fairness check of memory.
const CLOSE: f64 = 0.03;

/// Nature, reason, and patterns of facts. A `*` stands for any text.
const VARYING: [(Nature, &str, &str); 10] = [
    (
        Nature::State,
        "load of the machine, the clients or the emulator's host",
        "agent:settled clients:*-us clients:*cpus-used clients:*idle clients:*softirq clients:*softnet-drops clients:*device-drops \
         clients:*device-bytes clients:*retransmits seek-disk:* host:steal remote:connect-us sysctl:kernel.sched_domain.*",
    ),
    (
        Nature::State,
        "counters of work that kernel threads did during the trial",
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
        "`/sys/block` has the same value as the kernel prints it",
        "hardware:disk:*:scheduler",
    ),
    (
        Nature::State,
        "counters of an arm's scheduler and of its framework",
        "scheduler:*",
    ),
    (
        Nature::State,
        "how far a kernel went and what stopped it: the figures themselves",
        "limits:*",
    ),
    (
        Nature::Chance,
        "servers start and end workers by load",
        "workers:*",
    ),
    (
        Nature::Chance,
        "lines of the boot log depend on how long devices and CPUs take to answer; numbers of devices and the placement of guests depend \
         on other work of the host; the kernel lowers the rate if samples take long",
        "boot* net:* host:pinning sysctl:kernel.perf_event_max_sample_rate",
    ),
    (
        Nature::Memory,
        "computed from the size of memory, which differs by some pages between boots",
        "/proc/meminfo:MemTotal host:hardware:memory limit:*:pending* limit:*:processes /proc/self/limits",
    ),
    (
        Nature::Memory,
        "computed from the size of memory, which differs by some pages between boots",
        "sysctl:fs.epoll.max_user_watches sysctl:fs.fanotify.max_user_marks sysctl:fs.file-max sysctl:fs.inotify.max_user_watches \
         sysctl:kernel.threads-max sysctl:net.ipv4.inet_peer_threshold sysctl:net.ipv4.tcp_max_orphans sysctl:net.ipv4.tcp_mem sysctl:net.ipv4.udp_mem sysctl:net.nf_conntrack_max \
         sysctl:user.max_* sysctl:vm.admin_reserve_kbytes sysctl:vm.min_free_kbytes sysctl:vm.user_reserve_kbytes",
    ),
];

/// How a fact varies although no setting changed; `None` if it does not.
pub(crate) fn of(fact: &str) -> Option<Nature> {
    let name = fact.replacen("sysctl ", "sysctl:", 1);
    let is_named = |patterns: &str| {
        let mut patterns = patterns.split_whitespace();
        patterns.any(|pattern| fits(pattern, &name))
    };
    let mut rows = VARYING.iter();
    let (nature, _, _) = rows.find(|(_, _, patterns)| is_named(patterns))?;
    Some(*nature)
}

fn fits(pattern: &str, name: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(left) = name.strip_prefix(begin) else {
        return false;
    };
    let mut ends = left.char_indices().map(|(place, _)| &left[place..]);
    rest.is_empty() || ends.any(|end| fits(rest, end))
}

/// Whether two texts have the same words, or numbers that are close.
pub(crate) fn is_close(left: &str, right: &str) -> bool {
    let is_same = |(left, right): (&str, &str)| match (left.parse::<f64>(), right.parse::<f64>()) {
        (Ok(left), Ok(right)) => left.min(right) >= left.max(right) * (1.0 - CLOSE),
        _ => left == right,
    };
    let (left, right) = (left.split_whitespace(), right.split_whitespace());
    left.clone().count() == right.clone().count() && left.zip(right).all(is_same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_that_vary_without_a_change_are_recognised() {
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
    fn close_sizes_count_as_equal_and_other_words_do_not() {
        assert!(is_close("995364 kB", "995360 kB") && is_close("9 12 18", "9 12 18"));
        assert!(!is_close("995364 kB", "895360 kB") && !is_close("1 kB", "1 MB"));
        assert!(!is_close("1 2", "1 2 3"));
    }
}
