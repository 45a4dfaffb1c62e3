//! Why an arm differs, as terminal text, Markdown and JSON; `section` and `tree` are its part of the page.

use doc::{Block, Table};
use record::verdict::why::{WaitView, Why};
use serde_json::Value;

use crate::topics::why::tell::{self, notes, tables};

pub(crate) mod section;
pub(crate) mod tree;

struct Section {
    topic: Topic,
    title: String,
    table: Table,
}

/// The topic of a table. The page draws mechanisms and functions itself.
enum Topic {
    Mechanisms,
    Functions,
    Tasks,
    Counters,
    Waits,
}

/// Sections that are not empty.
fn sections(why: &Why) -> Vec<Section> {
    let (quantity, each) = (tell::quantity(why), tell::per_unit(why.per));
    let mechanisms = Section {
        topic: Topic::Mechanisms,
        title: format!("{quantity} {each}, by mechanism"),
        table: Table::new(tables::mechanism_rows(why), 1),
    };
    let functions = Section {
        topic: Topic::Functions,
        title: "significant functions of significant mechanisms".into(),
        table: Table::new(tables::function_rows(why), 1),
    };
    let tasks = Section {
        topic: Topic::Tasks,
        title: format!("{quantity} {each}, by task"),
        table: Table::new(tables::task_rows(why), 1),
    };
    let counters = Section {
        topic: Topic::Counters,
        title: format!("counters {each}"),
        table: Table::new(tables::counter_rows(why), 1),
    };
    let waits = |title: String, view| Section {
        topic: Topic::Waits,
        title,
        table: Table::new(tables::wait_rows(why, view), 2),
    };
    let mean = waits(format!("time that tasks waited, {each}"), WaitView::Mean);
    let slowest = waits(
        "the slowest 1 % of waits, mean length of one".into(),
        WaitView::Slowest,
    );
    let all = [mechanisms, functions, tasks, counters, mean, slowest].into_iter();
    all.filter(|section| !section.table.is_empty()).collect()
}

/// The sentence first, then tables, then notes.
fn blocks(why: &Why) -> Vec<Block> {
    let mut blocks = vec![
        Block::Title(tell::title(why)),
        Block::Text(tell::metric(why)),
        Block::Lead(tell::sentence(why)),
    ];
    for section in sections(why) {
        blocks.extend(Block::titled_table(section.title, section.table));
    }
    blocks.push(Block::Gap);
    blocks.extend(Block::list(notes::all(why)));
    blocks
}

/// Text for a terminal of `width` columns.
pub fn terminal(why: &Why, width: usize) -> String {
    doc::terminal::render(&blocks(why), width)
}

/// Markdown for a mail or a pull request.
pub fn markdown(why: &Why) -> String {
    doc::markdown::render(&blocks(why))
}

/// The explanation as JSON, with the sentence as `text`.
pub fn json(why: &Why) -> Value {
    let mut value = serde_json::to_value(why).expect("an explanation has string keys only");
    value["text"] = tell::sentence(why).into();
    value
}

#[cfg(test)]
pub(crate) mod tests {
    use expect_test::expect;

    use super::*;
    use crate::topics::why::find::{Question, explain};
    use crate::topics::why::tell::paths;
    use record::account::CounterUnit;
    use record::fixtures::accounts::{self, Profile};
    use record::verdict::call_tree::CallNode;
    use record::verdict::mechanism::{Mechanism, Presence};
    use record::verdict::why::{CounterRow, LostReason, LostTrial, Unexplained, WaitRow};

    pub(crate) fn explained(arm: &Profile, blocks: u32, metric: Option<&str>) -> Why {
        let (run, accounts) = accounts::run(&Profile::web(), arm, blocks, 1);
        let question = Question {
            workload: "web",
            arm: "7.2",
            metric,
        };
        explain(&run, &accounts, &question).unwrap()
    }

    /// Fewer context switches, less zeroing, and a server that waits behind its clients.
    pub(crate) fn newer() -> Profile {
        let mut arm = Profile::web();
        for code in &mut arm.code {
            let is_switching = matches!(
                code.name.as_str(),
                "__schedule"
                    | "finish_task_switch.isra.0"
                    | "dequeue_task_fair"
                    | "enqueue_task_fair"
                    | "psi_group_change"
            );
            if is_switching {
                code.calls *= 0.11;
                code.instructions *= 0.11;
            }
        }
        let zeroing = arm.function("memset_orig");
        (zeroing.instructions, zeroing.strings) = (600.0, 300.0);
        let sending = arm.function("tcp_sendmsg_locked");
        sending.name = "tcp_sendmsg_mine".into();
        sending.instructions *= 1.2;
        arm.queued[0].3 *= 6.8;
        arm
    }

    #[test]
    fn an_explanation_reads_well_on_a_terminal() {
        let why = explained(&newer(), 6, None);
        expect![[r#"
            web: 7.2 against 6.1
            instructions: 127.9 k → 112.9 k instructions/request, -15.0 k [-15.5 k, -14.2 k] (95 % interval)
            3.3 fewer context switches a request save 11.0 k of the 15.0 k instructions; zeroing saves 4.6 k; TCP/IP costs 541; the slowest 1 % of
            nginx's waits for the CPU are 1.9 ms longer, behind bakeoff

            instructions a request, by mechanism:
            mechanism                6.1      7.2  difference       95 % interval  share  significant
            -------------------  -------  -------  ----------  ------------------  -----  -----------
            scheduler             14.7 k    3.7 k     -11.0 k  [-11.1 k, -10.9 k]   74 %          yes
            zeroing                8.5 k    3.9 k      -4.6 k    [-4.7 k, -4.5 k]   31 %          yes
            TCP/IP                17.9 k   18.5 k        +541        [+406, +673]   -4 %          yes
            user code             51.9 k   52.0 k        +122        [-118, +555]   -1 %           no
            copying               11.4 k   11.4 k         -30          [-94, +51]    0 %           no
            mitigations            3.1 k    3.1 k        +9.1          [-20, +53]    0 %           no
            memory allocation      7.0 k    7.0 k        +3.8          [-32, +52]    0 %           no
            VFS                    5.6 k    5.6 k           0          [-43, +50]    0 %           no
            8 too small to test    7.7 k    7.7 k        -5.7                   -      -            -
            all                  127.8 k  112.8 k     -15.0 k                   -      -            -

            significant functions of significant mechanisms:
            function                       calls a request  instructions a call  difference  by calls
            -----------------------------  ---------------  -------------------  ----------  --------
            scheduler:
            __schedule                        3.69 → 0.405          1190 → 1190      -3.9 k    -3.9 k
            psi_group_change                   12.0 → 1.32            250 → 250      -2.7 k    -2.7 k
            enqueue_task_fair                 3.68 → 0.408            622 → 622      -2.0 k    -2.0 k
            zeroing:
            memset                             6.98 → 6.99           743 → 85.7      -4.6 k         0
            TCP/IP:
            tcp_sendmsg_mine (new)                0 → 2.00             - → 1560      +3.1 k    +3.1 k
            tcp_sendmsg_locked (vanished)         2.00 → 0             1300 → -      -2.6 k    -2.6 k
            2 smaller ones: see --json

            instructions a request, by task:
            task        6.1     7.2  difference     95 % interval
            -------  ------  ------  ----------  ----------------
            nginx    76.7 k  67.7 k      -9.0 k  [-9.3 k, -8.5 k]
            bakeoff  51.1 k  45.1 k      -6.0 k  [-6.2 k, -5.7 k]

            time that tasks waited, a request:
            task   state        6.1      7.2  difference         95 % interval     mostly due to
            -----  ---------  -----  -------  ----------  --------------------  ----------------
            nginx  run queue  86 µs  0.56 ms    +0.48 ms  [+0.47 ms, +0.48 ms]  bakeoff +0.48 ms

            the slowest 1 % of waits, mean length of one:
            task     state          6.1      7.2  difference       95 % interval    mostly due to
            -------  ---------  -------  -------  ----------  ------------------  ---------------
            nginx    run queue  0.32 ms   2.2 ms     +1.9 ms  [+1.8 ms, +2.0 ms]  bakeoff +1.9 ms
            bakeoff  run queue  0.48 ms  0.48 ms     +2.7 µs    [-10 µs, +31 µs]  not significant

            - -15 instructions a request (0.1 % of the difference) are in the metric and in no mechanism
            - intervals: 95 % confidence, each row by itself, over 6 blocks; significant: at most 5 % of runs of equal arms name anything
            - string instructions, charged by their bytes: 11 % of the baseline's instructions, 10 % of the arm's
            - functions: 1 only in the baseline, 1 only in the arm; compilers inline and rename
            - to be tried with bakeoff why RUN --confirm MECHANISM: scheduler (psi=0, kernel.sched_autogroup_enabled=0, preempt=full,
              sched/features=NO_RUN_TO_PARITY, sched/features=NO_DELAY_DEQUEUE, sched/features=NO_PLACE_LAG, sched/base_slice_ns=100000,
              sched/features=NO_GENTLE_FAIR_SLEEPERS); zeroing (init_on_alloc=0); TCP/IP (net.ipv4.tcp_timestamps=0, net.ipv4.tcp_sack=0)
        "#]].assert_eq(&terminal(&why, 140));
        expect!["p99 latency falls by 15 µs [-16 µs, -14 µs] (95 % interval), although the slowest 1 % of nginx's waits for the CPU are 1.9 ms longer, behind bakeoff; 3.3 fewer context switches a request save 11.0 k of the 15.0 k instructions; zeroing saves 4.6 k; TCP/IP costs 541"].assert_eq(&tell::sentence(&explained(
            &newer(),
            6,
            Some("latency-p99"),
        )));
    }

    #[test]
    fn a_wait_that_explains_the_latency_is_named_before_a_longer_one() {
        let mut why = explained(&newer(), 6, Some("latency-p99"));
        (why.difference, why.low, why.high) = (-2000.0, Some(-2200.0), Some(-1800.0));
        let client = |row: &&mut WaitRow| row.task == "bakeoff" && row.view == WaitView::Slowest;
        let row = why.waits.iter_mut().find(client).unwrap();
        (row.significant, row.difference_ns) = (true, -1.2e6);
        assert!(
            tell::sentence(&why).contains(
                "because the slowest 1 % of bakeoff's waits for the CPU are 1.2 ms shorter"
            ),
            "{}",
            tell::sentence(&why)
        );
        // A wait of less than half of the difference does not explain it.
        let row = why.waits.iter_mut().find(client).unwrap();
        row.difference_ns = -0.9e6;
        assert!(
            tell::sentence(&why).contains(
                "although the slowest 1 % of nginx's waits for the CPU are 1.9 ms longer"
            )
        );
    }

    #[test]
    fn a_task_that_only_one_arm_has_is_not_named_as_waiting() {
        let mut why = explained(&newer(), 6, None);
        let is_named = |why: &Why| tell::sentence(why).contains("nginx's waits for the CPU");
        assert!(is_named(&why));
        for row in &mut why.waits {
            if row.task == "nginx" {
                row.baseline_ns = 0.0;
            }
        }
        assert!(!is_named(&why));
    }

    #[test]
    fn equal_arms_and_too_few_blocks_claim_nothing() {
        expect!["no mechanism differs by more than chance in 6 blocks"]
            .assert_eq(&tell::sentence(&explained(&Profile::web(), 6, None)));
        expect!["too few blocks to name a cause: 1 (at least 6)"]
            .assert_eq(&tell::sentence(&explained(&newer(), 1, None)));
        expect![[r#"
            web: 7.2 against 6.1
            instructions: 127.5 k → 112.6 k instructions/request, -15.0 k
            too few blocks to name a cause: 1 (at least 6)

            instructions a request, by mechanism:
            mechanism                 6.1      7.2  difference  interval  share  significant
            --------------------  -------  -------  ----------  --------  -----  -----------
            scheduler              14.7 k    3.6 k     -11.0 k         -   74 %           no
            zeroing                 8.5 k    3.9 k      -4.6 k         -   31 %           no
            TCP/IP                 17.8 k   18.4 k        +569         -   -4 %           no
            user code              51.7 k   51.8 k        +104         -   -1 %           no
            copying                11.4 k   11.4 k         -30         -    0 %           no
            11 too small to test   23.3 k   23.3 k        -7.4         -      -            -
            all                   127.4 k  112.4 k     -14.9 k         -      -            -

            instructions a request, by task:
            task        6.1     7.2  difference  interval
            -------  ------  ------  ----------  --------
            nginx    76.4 k  67.5 k      -9.0 k         -
            bakeoff  51.0 k  45.0 k      -6.0 k         -

            time that tasks waited, a request:
            task   state        6.1      7.2  difference  interval    mostly due to
            -----  ---------  -----  -------  ----------  --------  ---------------
            nginx  run queue  87 µs  0.56 ms    +0.47 ms         -  not significant

            the slowest 1 % of waits, mean length of one:
            task   state          6.1     7.2  difference  interval    mostly due to
            -----  ---------  -------  ------  ----------  --------  ---------------
            nginx  run queue  0.31 ms  2.1 ms     +1.8 ms         -  not significant

            - -15 instructions a request (0.1 % of the difference) are in the metric and in no mechanism
            - 1 block: no intervals, and nothing is named, below 6 blocks at an error rate of 5 %
            - string instructions, charged by their bytes: 11 % of the baseline's instructions, 10 % of the arm's
            - functions: 1 only in the baseline, 1 only in the arm; compilers inline and rename
        "#]].assert_eq(&terminal(&explained(&newer(), 1, None), 140));
    }

    #[test]
    fn markdown_escapes_names_and_has_all_tables() {
        let mut why = explained(&newer(), 6, None);
        why.arm = "7.2 <b>|".into();
        let text = markdown(&why);
        assert!(
            text.contains("7.2 &lt;b&gt;\\|") && !text.contains("<b>"),
            "{text}"
        );
        let tables = text.lines().filter(|line| line.starts_with("|---|"));
        assert_eq!(tables.count(), 5, "{text}");
    }

    #[test]
    fn the_json_is_that_of_the_documentation() {
        let value = json(&explained(&newer(), 6, None));
        for key in [
            "version",
            "metric",
            "unit",
            "difference",
            "remainder",
            "mechanisms",
            "waits",
            "text",
        ] {
            assert!(!value[key].is_null(), "{key}");
        }
        let mechanism = &value["mechanisms"][0];
        for key in [
            "name",
            "baseline",
            "arm",
            "difference",
            "low",
            "high",
            "share",
            "significant",
            "functions",
        ] {
            assert!(!mechanism[key].is_null(), "{key}");
        }
        assert_eq!(mechanism["name"], "scheduler");
        let function = &mechanism["functions"][0];
        for key in ["name", "calls", "cost_per_call", "difference"] {
            assert!(!function[key].is_null(), "{key}");
        }
        assert_eq!(function["calls"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn each_reason_for_a_missing_profile_has_its_own_note_and_remedy() {
        let mut why = explained(&newer(), 6, None);
        let reasons = [
            LostReason::NoProfile,
            LostReason::NotMade,
            LostReason::Gone,
            LostReason::Damaged,
            LostReason::Newer,
            LostReason::NoWork,
        ];
        why.lost = (1..)
            .zip(reasons)
            .map(|(trial, reason)| LostTrial {
                trial,
                block: trial,
                arm: "7.2".into(),
                reason,
            })
            .collect();
        let notes = notes::all(&why);
        let lost = notes.iter().filter(|note| note.contains("left out"));
        let lost: Vec<&str> = lost.map(String::as_str).collect();
        expect![[r#"
            block 1 is left out: it was not profiled (trial 001, arm 7.2)
            block 2 is left out: no profile could be made (trial 002, arm 7.2)
            block 3 is left out: its profile is missing (trial 003, arm 7.2)
            block 4 is left out: a damaged profile (trial 004, arm 7.2)
            block 5 is left out: a profile of a newer bakeoff (trial 005, arm 7.2)
            block 6 is left out: no request served (trial 006, arm 7.2)"#]]
        .assert_eq(&lost.join("\n"));
        let remedies = reasons.map(|reason| tell::remedy([reason, LostReason::NoFigure]));
        expect![[r#"
            profile a new run: bakeoff run PLAN --why
            mend what kept profiles from being made, and profile a new run: bakeoff run PLAN --why
            put the trials' files back from a copy, or profile a new run: bakeoff run PLAN --why
            put the trials' files back from a copy, or profile a new run: bakeoff run PLAN --why
            explain it with the bakeoff that has written it, or a later one
            see the failed trials in the report"#]]
        .assert_eq(&remedies.join("\n"));
    }

    #[test]
    fn a_large_difference_is_named_even_if_it_is_not_significant() {
        let mut why = explained(&newer(), 6, None);
        why.mechanisms[0].significant = false;
        assert!(tell::sentence(&why).starts_with(
            "3.3 fewer context switches a request save 11.0 k instructions (not significant after 6 blocks); \
             zeroing saves 4.6 k (memset: 85.7 instead of 743 a call); TCP/IP costs 541"
        ), "{}", tell::sentence(&why));
        // But not if its interval contains zero.
        (why.mechanisms[0].low, why.mechanisms[0].high) = (Some(-22e3), Some(1e3));
        assert!(tell::sentence(&why).starts_with("zeroing saves 4.6 k of the"));
    }

    #[test]
    fn a_difference_is_as_precise_as_the_figures_beside_it() {
        let mut why = explained(&newer(), 6, Some("throughput"));
        let mut metric = |figures: [f64; 2], low, high| {
            why.figures = figures;
            why.difference = figures[1] - figures[0];
            (why.low, why.high) = (Some(low), Some(high));
            tell::metric(&why)
        };
        assert_eq!(
            metric([4411.6, 5428.1], 990.4, 1042.9),
            "throughput: 4412 → 5428 requests/s, +1016 [+990, +1043] (95 % interval)"
        );
        assert_eq!(
            metric([3100.2, 3095.2], -7.0, -3.0),
            "throughput: 3100 → 3095 requests/s, -5.00 [-7.00, -3.00] (95 % interval)"
        );
    }

    #[test]
    fn user_code_shows_no_calls() {
        let mut arm = newer();
        arm.function("ngx_http_process_request").instructions *= 2.0;
        let text = terminal(&explained(&arm, 6, None), 140);
        let row = text
            .lines()
            .find(|line| line.starts_with("nginx: ngx_http_process_request"));
        let row: Vec<&str> = row.unwrap().split_whitespace().collect();
        assert_eq!(row[2..4], ["-", "-"], "{row:?}");
    }

    #[test]
    fn the_page_has_the_counters_of_samples() {
        let mut why = explained(&newer(), 6, None);
        let page = |why: &Why| section::section(why, "1").into_string();
        assert!(!page(&why).contains("Counters a request"));
        why.counters = vec![CounterRow {
            name: "context-switches".into(),
            unit: CounterUnit::Events,
            baseline: 1.45,
            arm: 1.34,
            difference: -0.11,
            low: Some(-0.445),
            high: Some(0.386),
        }];
        let page = page(&why);
        assert!(page.contains("Counters a request"), "{page}");
        assert!(
            page.contains("<th scope=\"row\">context-switches</th><td class=\"n\">1.45</td>"),
            "{page}"
        );
    }

    #[test]
    fn a_path_is_not_called_vanished_if_its_function_is_on_other_paths() {
        let mut why = explained(&newer(), 6, None);
        let node = |name: &str, presence, elsewhere, total| CallNode {
            parent: Some(0),
            name: name.into(),
            mechanism: Mechanism::Zeroing,
            presence,
            elsewhere,
            via: [None, None],
            folded: 0,
            own: total,
            total,
            calls: [1.0; 2],
        };
        why.tree.nodes.truncate(1);
        why.tree.nodes.extend([
            node("memset", Presence::Vanished, true, [900.0, 0.0]),
            node("memset", Presence::New, true, [0.0, 800.0]),
            node("psi_group_change", Presence::Vanished, false, [700.0, 0.0]),
            node("update_se", Presence::New, false, [0.0, 600.0]),
        ]);
        let rows = paths::largest(&why, 9);
        let names: Vec<&str> = rows[1..].iter().map(|row| row[0].as_str()).collect();
        assert_eq!(
            names,
            [
                "memset (this path in 6.1 alone)",
                "memset (this path in 7.2 alone)",
                "psi_group_change (vanished)",
                "update_se (new)"
            ]
        );
    }

    #[test]
    fn unexplained_runs_name_a_remedy() {
        let lost = [
            (LostReason::NoProfile, 1),
            (LostReason::NoProfile, 2),
            (LostReason::Damaged, 3),
        ];
        let lost = lost.map(|(reason, trial)| LostTrial {
            trial,
            block: 1,
            arm: "7.2".into(),
            reason,
        });
        let all = [
            Unexplained::NoBlock {
                lost: lost.to_vec(),
            },
            Unexplained::NoBlock { lost: Vec::new() },
            Unexplained::NoArm { arm: "8".into() },
            Unexplained::NoWorkload {
                workload: "cgi".into(),
            },
            Unexplained::NoMetric {
                metric: "p42".into(),
                known: vec!["a".into(), "b".into()],
            },
            Unexplained::NotOfAllTasks {
                metric: "server-cpu".into(),
            },
        ];
        let sentences: Vec<String> = all.iter().map(tell::unexplained).collect();
        expect![[r#"
            no block that can be explained: 2 trials: it was not profiled, 1 trial: a damaged profile (put the trials' files back from a copy, or profile a new run: bakeoff run PLAN --why)
            no block that can be explained: none was measured of both arms (see the failed trials in the report)
            no arm to explain: 8 (name one of the plan's, other than the baseline)
            no such workload: cgi (see the plan's [[workload]])
            no such metric: p42 (there are a, b)
            server-cpu is of the services' tasks alone, and the profile counts all tasks: the clients' and the kernel's with them (leave --metric out; the table of tasks has the services' rows)"#]].assert_eq(&sentences.join("\n"));
    }
}
