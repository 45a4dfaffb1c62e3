//! The full disclosure as a section of the page and as Markdown: one printed page of a plan with two arms.

use maud::{Markup, html};
use record::rundir::Run;
use record::verdict::Judgement;
use serde_json::Value;

use crate::words::disclosure::{Row, TITLE, groups};

/// The page's section.
pub(crate) fn section(run: &Run, judgement: &Judgement) -> Markup {
    html! {
        section #disclosure.disclosure {
            h2 { (TITLE) }
            p.sub { "What SPEC and TPC ask of whoever publishes a figure: who measured, on what, with which settings, by which rules, and what went otherwise." }
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

/// A table for Markdown: group, what it is, and its value.
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

/// The data.
pub(crate) fn json(run: &Run, judgement: &Judgement) -> Value {
    let disclosure = fairness::disclosure::of(run, judgement);
    serde_json::to_value(disclosure).expect("a disclosure has string keys only")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use fixtures::web;

    use super::*;
    use crate::judged;

    #[test]
    fn what_is_known_is_told_and_what_is_not_is_said_to_be_unknown() {
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
        }
        let told: Vec<String> = rows(&run, &judgement)
            .iter()
            .map(|row| row.join(" | "))
            .collect();
        expect![[r#""#]].assert_eq(&told.join("\n"));
        let page = crate::html(&run, &judgement, &[]);
        assert!(page.contains("id=\"disclosure\"") && page.contains("&lt;the kernel team&gt;"));
        let json = crate::json(&run, &judgement);
        assert_eq!(json["disclosure"]["statement"]["sponsor"], Value::Null);
    }
}
