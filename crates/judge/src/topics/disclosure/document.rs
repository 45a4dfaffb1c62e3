//! The full disclosure as a section of the page and as Markdown: one printed page of a plan with two arms.

use maud::{Markup, html};
use record::rundir::Run;
use record::verdict::Judgement;

use crate::topics::disclosure::tell::{Row, TITLE, groups};

/// The page's section.
pub(crate) fn section(run: &Run, judgement: &Judgement) -> Markup {
    html! {
        section #disclosure.disclosure {
            h2 { (TITLE) }
            p.sub { "SPEC and TPC require this of published figures: who measured, on which machine, with which settings and rules, and all deviations." }
            div.groups {
                @for group in groups(run, judgement) {
                    section aria-label=(group.title) {
                        h3 { (group.title) }
                        dl { @for row in &group.rows { (entry(row)) } }
                    }
                }
            }
        }
    }
}

fn entry(row: &Row) -> Markup {
    html! {
        div {
            dt { (row.label) }
            @for line in &row.lines {
                @if row.is_hash { dd { code { (line) } } } @else { dd { (line) } }
            }
        }
    }
}

/// A table for Markdown: group, property, value.
pub(crate) fn rows(run: &Run, judgement: &Judgement) -> Vec<Vec<String>> {
    let mut rows = vec![vec![TITLE.to_string(), String::new(), String::new()]];
    for group in groups(run, judgement) {
        let mut title = group.title;
        for row in group.rows {
            rows.push(vec![title.into(), row.label, row.lines.join("; ")]);
            title = "";
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use record::fixtures::web;

    use super::*;
    use crate::report::judged;

    #[test]
    fn known_facts_are_printed_and_missing_ones_named() {
        let (mut run, judgement) = judged(web::two_kernels());
        run.plan.disclosure.tested_by = Some("<the kernel team>".into());
        run.plan.arms[1].sysctl = [("net.core.somaxconn".into(), "8192".into())].into();
        run.plan.arms[1].tuned.by = Some("its maintainer".into());
        let facts = run.facts.iter_mut().flatten();
        for (number, facts) in facts.enumerate() {
            let mut add = |name: &str, value: &str| {
                facts.values.insert(name.into(), value.into());
            };
            add("host:hardware:cpu:model", "Xeon 7");
            add("host:hardware:cpu:sockets", "2");
            add("host:hardware:nic:eth0:driver", "ixgbe");
            add("host:hardware:nic:eth0:speed", "10000 Mbit/s");
            add(
                "/proc/meminfo:MemTotal",
                if number % 2 == 0 {
                    "1048576 kB"
                } else {
                    "524288 kB"
                },
            );
            add("hash:server:apache2", "a4e5");
            add("version:apache2", "Apache/2.4.65");
            add("java:collector", "Serial");
            add("java:worker-threads", "9");
        }
        let lines: Vec<String> = rows(&run, &judgement)
            .iter()
            .map(|row| row.join(" | "))
            .collect();
        expect![[r#"
            Full disclosure |  | 
            Test | tested by | <the kernel team>
             | paid for by | not stated
             | availability | not stated
             | measured | 2026-01-01 10:00 to 2026-01-01 10:41, UTC
            Hardware | machine | QEMU 7.2.22, emulation (TCG), clock instructions, CPUs 1 (max), memory 1.00 GiB
             | host: CPU | Xeon 7
             | host: CPUs | 2 sockets, cores not known, threads not known
             | host: network card eth0 | driver ixgbe, speed 10000 Mbit/s
             | guest: memory | 1.00 GiB or 512 MiB, swap not known
             | not known | host: product, host: firmware, host: SMT, host: caches, host: CPU frequency, host: microcode, host: NUMA nodes, host: memory, host: disk, guest: CPU, guest: CPUs, guest: NUMA nodes
            Software | kernel | 6.1: 6.1.0-40-cloud-amd64; 7.2: 7.2.3-cloud-amd64
             | kernel from | 6.1: debian:bookworm/6.1; 7.2: debian:trixie-backports/7.2
             | image recipe | web
             | server apache2 | Apache/2.4.65
             | Java | collector Serial, worker threads 9
             | bakeoff | 0.1.0
             | not known | kernel built by, command line as booted, user land, host: kernel
            Tuning | arm 6.1 | changes nothing; by whom and why: not stated
             | arm 7.2 | net.core.somaxconn=8192; by its maintainer; reason: not stated
             | not tuned in any arm | command line, CPUs, environment, server configuration, server programs, I/O scheduler, debugfs (defaults of kernels, packages and bakeoff, in all arms)
            Workloads | web-static | web-static: not known
            Rules | question | not declared: defaults differ as the kernels bring them (mode of the plan says whether code or products are asked about)
             | order | each block runs every arm once, back to back, in an order drawn from seed 7
             | blocks | 10 run; the plan sets at least 4 and at most 30; 1 interim analysis during the run
             | decision | margin 1 % and error rate 5 %, fixed before the first trial; the warm-up is an option of each workload
            Deviations | checks without an answer | clocksource, command-line, compiler, congestion-control, control-groups, cpu-model, cpus, descriptors, huge-pages, io-scheduler, limits, listen-backlog, memory, mitigations, mounts, numa, power, security-modules, server-configuration, server-program, smt, socket-buffers, swap, user-land, workers, writeback, a-a-history
             | failed trials | web-static, arm 7.2: 2 of 11, listed in the report
             | warnings | 3 warnings, listed above
            SHA-256 | journal | not known
             | kernel 6.1 | 0c1d0c1d0c1d0c1d0c1d0c1d0c1d0c1d0c1d0c1d0c1d0c1d0c1d0c1d0c1d0c1d
             | kernel 7.2 | 9e8f9e8f9e8f9e8f9e8f9e8f9e8f9e8f9e8f9e8f9e8f9e8f9e8f9e8f9e8f9e8f
             | plan | 5f2a5f2a5f2a5f2a5f2a5f2a5f2a5f2a5f2a5f2a5f2a5f2a5f2a5f2a5f2a5f2a
             | program apache2 | a4e5
             | not known | user land's packages
             | cache key of the image | 77b177b177b177b177b177b177b177b177b177b177b177b177b177b177b177b1
             | cache keys | hashes of the sources of a kernel or image, not of a file
            To run it again | one command | bakeoff run plan.toml --out DIR, with plan.toml of the run directory
             | the same figures | bakeoff show RUN: the journal names each trial's record by its SHA-256"#]].assert_eq(&lines.join("\n"));
        let page = crate::report::html(&run, &judgement, &[]);
        assert!(page.contains("id=\"disclosure\"") && page.contains("&lt;the kernel team&gt;"));
        let json = crate::report::json(&run, &judgement);
        assert_eq!(json["disclosure"]["Test"]["paid for by"][0], "not stated");
    }
}
