//! What limits an arm's figures, in words.

use base::input::units::{show_change, show_share, significant};
use record::load_path::{CeilingOutcome, ClientUnit, OneFewerOutcome, Side};
use record::verdict::limit::{ArmLimit, CeilingUse, DropPlace, Limit, LimitSign, OneFewerUse};
use record::verdict::{ArmSummary, Headline, Judgement};

use crate::words::{NONE, count, figure};

/// Sentences beside a verdict about arms whose figures do not measure their server, one for each limit.
pub(crate) fn beside_verdict(judgement: &Judgement, headline: &Headline) -> Vec<String> {
    let mut sentences = Vec::new();
    for limit in [Limit::Clients, Limit::Network, Limit::NotSaturated] {
        let mut arms = Vec::new();
        for limited in headline.limits.iter().filter(|each| each.limit == limit) {
            let (workload, arm) = (&headline.workload, &limited.arm);
            let mut summaries = judgement.arm_summaries.iter();
            let signs = summaries
                .find(|summary| (&summary.workload, &summary.arm) == (workload, arm))
                .and_then(|summary| summary.limit.as_ref())
                .map_or(Vec::new(), |limit| limit.signs.iter().map(sign).collect());
            arms.push(match signs.join("; ").as_str() {
                "" => arm.clone(),
                signs => format!("{arm} ({signs})"),
            });
        }
        if !arms.is_empty() {
            let (word, arms, remedy) = (limit.word(), arms.join(", "), remedy(limit));
            sentences.push(format!("{word}: {arms}; {remedy}"));
        }
    }
    sentences
}

/// The consequence of a limit, and what the user can do.
fn remedy(limit: Limit) -> &'static str {
    match limit {
        Limit::Clients => {
            "a faster server would measure about the same: give the clients more CPUs, more hosts or less to do"
        }
        Limit::Network => {
            "a faster server would measure about the same: take a faster or a better link, or smaller answers"
        }
        Limit::NotSaturated => "the servers could have done more: add connections",
        Limit::Server => "the figures are the server's",
    }
}

fn sign(sign: &LimitSign) -> String {
    match sign {
        LimitSign::BusyThread { share } => format!(
            "the busiest client thread ran or waited for a CPU {} of the time",
            percent(*share)
        ),
        LimitSign::WaitingThread { share } => format!(
            "a client thread waited for a CPU {} of the time",
            percent(*share)
        ),
        LimitSign::BusyInterrupts { cpu, share } => format!(
            "the clients' CPU {cpu} spent {} of the time in interrupts",
            percent(*share)
        ),
        LimitSign::SentLate(late) => format!(
            "send delay {} ms at p99, where latency is {} ms",
            significant(late.send_delay_ns as f64 / 1e6, 2),
            significant(late.latency_ns as f64 / 1e6, 2)
        ),
        LimitSign::LostByClients { share } => {
            format!("the clients lost {} of the requests", percent(*share))
        }
        LimitSign::OneClientFewer { unit, left, change } => format!(
            "one client {} fewer ({left} left) moved the figure by {}, more than trials scatter",
            unit_name(*unit),
            show_change(1.0 + *change)
        ),
        LimitSign::NearCeiling {
            share,
            is_of_clients,
        } => {
            let ended = if *is_of_clients {
                "the clients' CPUs"
            } else {
                "the network"
            };
            format!(
                "{} of what these clients get from a null server, which {ended} ended",
                percent(*share)
            )
        }
        LimitSign::NearLineRate { link, side, share } => {
            format!(
                "{link} of {} at {} of its speed",
                whose(*side),
                percent(*share)
            )
        }
        LimitSign::Retransmits { side, share } => format!(
            "{} sent {} of the TCP segments again",
            whose(*side),
            percent(*share)
        ),
        LimitSign::OutOfOrder { side, share } => format!(
            "{} received {} of the TCP segments out of order: lost before, or overtaken",
            whose(*side),
            percent(*share)
        ),
        LimitSign::Dropped {
            place,
            side,
            link,
            share,
        } => dropped(*place, *side, link.as_deref(), *share),
        LimitSign::RateKept => "the server kept up with the rate".into(),
        LimitSign::IdleCpu { share } => format!("{} of the CPU time was idle", percent(*share)),
    }
}

fn dropped(place: DropPlace, side: Side, link: Option<&str>, share: f64) -> String {
    let place = match place {
        DropPlace::Queue => "the queueing discipline",
        DropPlace::Interface => "the interface",
        DropPlace::Softnet => "the kernel's receive queue",
    };
    let link = link.map_or_else(String::new, |link| format!(" {link}"));
    format!(
        "{place}{link} of {} dropped {} of the packets",
        whose(side),
        percent(share)
    )
}

fn unit_name(unit: ClientUnit) -> &'static str {
    match unit {
        ClientUnit::Host => "host",
        ClientUnit::Thread => "thread",
    }
}

fn whose(side: Side) -> &'static str {
    match side {
        Side::Clients => "the clients",
        Side::Server => "the server",
    }
}

/// Rows of the table of arms: a name, and a cell for each arm.
pub(crate) fn rows(tables: &[&ArmSummary]) -> Vec<(String, Vec<String>)> {
    let row = |name: &str, cell: &dyn Fn(&ArmLimit) -> Option<String>| {
        let cells = tables.iter().map(|table| {
            let cell = table.limit.as_ref().and_then(cell);
            cell.unwrap_or(NONE.into())
        });
        (name.to_string(), cells.collect())
    };
    vec![
        row("limit", &|arm| Some(limit_cell(arm))),
        row("of what a null server serves", &|arm| {
            Some(ceiling_cell(arm))
        }),
        row("one client fewer", &|arm| {
            arm.one_fewer.as_ref().map(one_fewer_cell)
        }),
        row("busiest client thread", &|arm| arm.client_busy.map(percent)),
        row("TCP segments sent again", &|arm| {
            arm.retransmitted.map(percent)
        }),
        row("used of the link's speed", &|arm| {
            arm.line_share.map(percent)
        }),
    ]
}

/// Cell with the limit. Without a ceiling, a limit of the network may have no sign and look like one of the server.
fn limit_cell(arm: &ArmLimit) -> String {
    match (arm.limit, &arm.ceiling) {
        (None, _) => "not known".into(),
        (
            Some(Limit::Server),
            CeilingUse::NotKnown | CeilingUse::Failed { .. } | CeilingUse::TooLow { .. },
        ) => format!("{} (no ceiling)", Limit::Server.word()),
        (Some(limit), _) => limit.word().into(),
    }
}

/// Cell with the share of the ceiling that was served.
fn ceiling_cell(arm: &ArmLimit) -> String {
    match &arm.ceiling {
        CeilingUse::NotKnown | CeilingUse::Failed { .. } => "ceiling not known".into(),
        CeilingUse::TooLow {
            requests_per_s,
            share,
        } => format!(
            "{} of {}/s: null server too slow to be one",
            percent(*share),
            rate(*requests_per_s)
        ),
        CeilingUse::Known {
            share,
            is_of_cpu_time: true,
            ..
        } => format!("{} by CPU time", percent(*share)),
        CeilingUse::Known {
            requests_per_s,
            share,
            is_of_cpu_time: false,
        } => format!("{} of {}/s", percent(*share), rate(*requests_per_s)),
    }
}

/// Cell with the effect of one client fewer on the figure.
fn one_fewer_cell(one_fewer: &OneFewerUse) -> String {
    match one_fewer {
        OneFewerUse::Failed { .. } => "not known".into(),
        OneFewerUse::Known {
            change,
            scatter: Some(scatter),
            ..
        } => format!(
            "{} (trials: ±{})",
            show_change(1.0 + change),
            percent(*scatter)
        ),
        OneFewerUse::Known {
            change,
            scatter: None,
            ..
        } => show_change(1.0 + change),
    }
}

/// A rate, without decimals from 100 on.
fn rate(per_s: f64) -> String {
    match per_s {
        per_s if per_s < 100.0 => figure(per_s),
        per_s => count(per_s.round() as u64),
    }
}

/// Progress line about the measurement of a ceiling.
pub fn ceiling(workload: &str, outcome: &CeilingOutcome) -> String {
    match outcome {
        CeilingOutcome::Measured(ceiling) => format!(
            "  ceiling  {workload}: {} requests/s from a null server",
            rate(ceiling.requests_per_s)
        ),
        CeilingOutcome::Failed { detail } => {
            format!("  ceiling  {workload}: not known, {detail}")
        }
    }
}

/// Progress line about an arm with one client fewer.
pub fn one_fewer(workload: &str, arm: &str, outcome: &OneFewerOutcome) -> String {
    match outcome {
        OneFewerOutcome::Measured(one_fewer) => format!(
            "  one client {} fewer  {workload}  {arm}  {} {}",
            unit_name(one_fewer.unit),
            figure(one_fewer.value),
            one_fewer.metric_unit
        ),
        OneFewerOutcome::Failed { detail } => {
            format!("  one client fewer  {workload}  {arm}  not known, {detail}")
        }
    }
}

/// A share with two significant digits.
fn percent(share: f64) -> String {
    show_share(share, 2)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use record::fixtures::web;
    use record::load_path::LoadPace;
    use record::verdict::limit::LimitedArm;

    use super::*;
    use crate::report::judged;

    fn slow_clients() -> ArmLimit {
        ArmLimit {
            limit: Some(Limit::Clients),
            signs: vec![
                LimitSign::BusyThread { share: 0.93 },
                LimitSign::NearCeiling {
                    share: 0.824,
                    is_of_clients: true,
                },
            ],
            pace: LoadPace::Closed,
            ceiling: CeilingUse::Known {
                requests_per_s: 2800.0,
                share: 0.824,
                is_of_cpu_time: false,
            },
            one_fewer: Some(OneFewerUse::Known {
                unit: ClientUnit::Host,
                left: 2,
                change: -0.31,
                scatter: Some(0.021),
            }),
            client_busy: Some(0.93),
            retransmitted: Some(0.0012),
            line_share: None,
        }
    }

    #[test]
    fn a_server_limit_without_a_ceiling_is_marked() {
        let cell = |limit, ceiling| {
            let arm = ArmLimit {
                limit,
                ceiling,
                ..slow_clients()
            };
            limit_cell(&arm)
        };
        let known = slow_clients().ceiling;
        let too_low = CeilingUse::TooLow {
            requests_per_s: 50.0,
            share: 2.0,
        };
        let (server, clients) = (Some(Limit::Server), Some(Limit::Clients));
        assert_eq!(cell(server, known), "server-limited");
        let none = "server-limited (no ceiling)";
        assert_eq!(cell(server, CeilingUse::NotKnown), none);
        assert_eq!(cell(server, too_low), none);
        assert_eq!(cell(clients, CeilingUse::NotKnown), "client-limited");
        assert_eq!(cell(None, CeilingUse::NotKnown), "not known");
    }

    #[test]
    fn all_formats_have_a_limit_beside_the_verdict_and_in_the_table() {
        let (run, mut judgement) = judged(web::two_kernels());
        for summary in &mut judgement.arm_summaries {
            summary.limit = Some(slow_clients());
        }
        judgement.headlines[0].limits = vec![LimitedArm {
            arm: "6.1".into(),
            limit: Limit::Clients,
        }];
        let text = crate::report::terminal(&run, &judgement, &[], 100);
        let (_, closing) = text.rsplit_once("\n\n").unwrap();
        expect![[r#"
            better: 7.2 against 6.1, web-static (emulated, counted instructions): +7.36 % requests/s [+7.12 %,
            +7.82 %] (97.5 % interval), better; p99 latency -6.86 % [-7.25 %, -6.65 %] (97.5 % interval),
            better; 9 blocks
                significant after 9 blocks
                client-limited: 6.1 (the busiest client thread ran or waited for a CPU 93 % of the time; 82 % of
                what these clients get from a null server, which the clients' CPUs ended); a faster server would
                measure about the same: give the clients more CPUs, more hosts or less to do
                sensitivity: holds without any one of 9 blocks (+7.28 % to +7.40 %); holds for margins up to 7.6
                %; server-cpu in place of the primary metric says something else (equivalent); holds at other
                prices of a string byte (+7.36 % at 1/32, +7.36 % at 1/3 of an instruction)
        "#]]
        .assert_eq(closing);
        let rows = text.lines().skip_while(|line| !line.starts_with("limit "));
        expect![[r#"
            limit                                    client-limited             client-limited
            of what a null server serves            82 % of 2 800/s            82 % of 2 800/s
            one client fewer              -31.00 % (trials: ±2.1 %)  -31.00 % (trials: ±2.1 %)
            busiest client thread                              93 %                       93 %
            TCP segments sent again                          0.12 %                     0.12 %"#]]
        .assert_eq(&rows.take(5).collect::<Vec<_>>().join("\n"));
        let sentence = "client-limited: 6.1 (the busiest client thread";
        assert!(crate::report::markdown(&run, &judgement, &[]).contains(sentence));
        assert!(crate::report::html(&run, &judgement, &[]).contains(sentence));
    }

    #[test]
    fn signs_in_words() {
        let (side, share) = (Side::Server, 0.0312);
        let dropped = |place, link: Option<&str>| LimitSign::Dropped {
            place,
            side,
            link: link.map(String::from),
            share,
        };
        let signs = [
            LimitSign::NearLineRate {
                link: "eth0".into(),
                side,
                share: 0.9,
            },
            LimitSign::Retransmits { side, share },
            LimitSign::OutOfOrder { side, share },
            dropped(DropPlace::Queue, Some("eth0")),
            dropped(DropPlace::Softnet, None),
            LimitSign::BusyInterrupts { cpu: 1, share: 0.9 },
            LimitSign::OneClientFewer {
                unit: ClientUnit::Thread,
                left: 3,
                change: -0.31,
            },
        ];
        expect![[r#"
            eth0 of the server at 90 % of its speed
            the server sent 3.1 % of the TCP segments again
            the server received 3.1 % of the TCP segments out of order: lost before, or overtaken
            the queueing discipline eth0 of the server dropped 3.1 % of the packets
            the kernel's receive queue of the server dropped 3.1 % of the packets
            the clients' CPU 1 spent 90 % of the time in interrupts
            one client thread fewer (3 left) moved the figure by -31.00 %, more than trials scatter"#]]
        .assert_eq(&signs.iter().map(sign).collect::<Vec<_>>().join("\n"));
    }
}
