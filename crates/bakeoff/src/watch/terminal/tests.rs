//! Tests of drawn screens, without a terminal.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base::latency::Latency;
use expect_test::{Expect, expect};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use record::fixtures::web;
use record::journal::Ending;
use record::live::{Activity, ArmNow, Attempt, Basis, Curve, Left, Seen, Snapshot, State};
use record::load::Second;
use record::rundir::Series;
use record::trial::Trial;

use super::keys::{Choice, Step};
use super::screen::{self, Palette, View};

fn curve(seconds: u64, rate: u64, latency_ms: u64) -> Curve {
    let second = |at: u64| {
        let mut latency = Latency::coarse();
        let ok = rate + at * 7 % 5 * rate / 50;
        (0..100).for_each(|_| latency.record((latency_ms + at % 3) * 1_000_000));
        Second {
            at_ms: at * 1000,
            ok,
            faults: at / 10,
            latency: latency.pack(),
            ..Second::default()
        }
    };
    let seconds: Vec<Second> = (0..seconds).map(second).collect();
    Curve::of(&seconds)
}

fn attempt(number: u32, arm: &str, is_over: bool) -> Attempt {
    let begun = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(number) * 100);
    Attempt {
        trial: Trial {
            number,
            block: number.div_ceil(2),
            slot: 1,
            arm: arm.into(),
            workload: "web-static".into(),
        },
        attempt: 1,
        series: Series::Judged,
        begun: Some(begun),
        ended: is_over.then_some((Some(begun), Ending::Measured)),
        is_invalidated: false,
    }
}

/// A run with a running trial. Its title contains control characters.
fn now() -> Snapshot {
    let run = web::two_kernels();
    let judgement = judge::interim(&run);
    let mut plan = run.plan.clone();
    plan.title = "Web \u{1b}[31mserving\n".into();
    let attempts = vec![
        attempt(1, "6.1", true),
        attempt(2, "7.2", true),
        attempt(3, "7.2", true),
        attempt(4, "6.1", false),
    ];
    let arm = |index: usize, place, activity, curve| ArmNow {
        place,
        attempt: attempts[index].clone(),
        activity,
        curve: Arc::new(curve),
        sample: None,
    };
    let measuring = Activity::Measuring {
        second: 42.0,
        of_s: Some(60.0),
    };
    Snapshot {
        name: "web".into(),
        state: State::Running,
        problem: None,
        is_measured_here: false,
        plan: Some(Arc::new(plan)),
        blocks: 1,
        arms: vec![
            arm(3, 0, Some(measuring), curve(42, 2300, 20)),
            arm(2, 1, None, curve(60, 2450, 35)),
        ],
        left: Some(Left {
            least: Duration::from_secs(120),
            likely: Some(Duration::from_secs(600)),
            most: Duration::from_secs(3600),
            basis: Basis::Ended { trials: 3 },
        }),
        entries: Arc::new(run.entries.clone()),
        judged: Some(Arc::new((run, judgement))),
        is_judged_whole: true,
        attempts,
        defects: vec![(
            "7.2".into(),
            3,
            Seen {
                kind: "hung-task".into(),
                severity: "defect".into(),
                top: "fsync".into(),
                count: 2,
                source: "kernel".into(),
                first_s: Some(12.0),
                since_boot_s: None,
                line: String::new(),
            },
        )],
        at: SystemTime::UNIX_EPOCH + Duration::from_secs(3661),
    }
}

fn draw(
    now: &Snapshot,
    choice: &Choice,
    width: u16,
    height: u16,
    palette: Palette,
) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let chosen = curve(30, 1000, 5);
    let view = View {
        now,
        choice,
        chosen: choice.attempt(now).map(|_| &chosen),
        palette,
    };
    terminal.draw(|frame| screen::draw(frame, view)).unwrap();
    terminal
}

fn text(terminal: &Terminal<TestBackend>) -> String {
    let shown = terminal.backend().to_string();
    let lines = shown.lines().map(|line| line.trim_matches('"').trim_end());
    lines.collect::<Vec<_>>().join("\n")
}

fn check(width: u16, height: u16, want: &Expect) {
    let screen = draw(&now(), &Choice::default(), width, height, Palette::of(true));
    want.assert_eq(&text(&screen));
}

#[test]
fn a_wide_screen_shows_everything() {
    check(
        130,
        40,
        &expect![[r#"
            Web serving
            running, 1 of at most 30 blocks, about 10 min left (2 min to 60 min), from 3 trials
            better 7.2 against 6.1, web-static (emulated, counted instructions): +7.36 % requests/s [+7.12 %, +7.82 %] (97.5 % interval),
            better; p99 latency -6.86 % [-7.25 %, -6.65 %] (97.5 % interval), better; 9 blocks
            ┌ 6.1 ───────────────────────────────────────────────────────────┌ 7.2 ───────────────────────────────────────────────────────────
            │trial        trial 004, block 2                                 │trial        trial 003, block 2
            │state        measuring, second 42 of 60                         │state        measured
            │throughput   2 392/s                                            │throughput   2 597/s
            │p99          22.0 ms                                            │p99          37.2 ms
            │failed       68                                                 │failed       150
            │figure       2 285.3 requests/s                                 │figure       2 464.0 requests/s
            │trials       1 measured                                         │trials       2 measured
            │                                                                │
             requests/s ─────────────────────────────────────────────────────  p99, ms ───────────────────────────────────────────────────────
            2910│                                                             40.9│
                │ •• • •• • •• • •• • •• • •• • •• • •• • •• • •• • •• • •• •     │ •• •• •• •• •• •• •• •• •• •••• •• •• •• •• •• •• •• •• ••
                │•⠊⠘•⠱•⠊⠘•⠱•⠊⠘•⠱•⠊⠘•⠱•⠊⠘•⠱•⠊⠘•⠑•⠔⠁•⠊•⠔⠁•⠊•  • •  • •  • •  •      │•  •  •  •  •  •  •  •  •  • •  •  •  •  •  •  •  •  •  •
                │                                                                 │
                │                                                                 │
                │                                                                 │
            1460│                                                             20.5│⠤⠒⠑⠤⠒⠑⠤⠒⠑⠤⠒⠑⠤⠒⠑⠤⠒⠑⠤⠒⠑⠤⠒⠑⠤⠒⠑⠤⠒⠣⠔⠊⠢⠔⠊⠢⠔⠊⠢⠔
                │                                                                 │
                │                                                                 │
                │                                                                 │
                │                                                                 │
                │                                                                 │
            0   │                                                             0   │
                └────────────────────────────────────────────────────────────     └───────────────────────────────────────────────────────────
              0 s                                                        59 s   0 s                                                       59 s
             trials ───────────────────────────────────  defects ─────────────────────────────────  journal ──────────────────────────────────
            004 block 2 6.1: measuring, second 42 of 60 7.2, trial 003: hung-task in fsync, 2 time 10:41:00 decided after 10 blocks
            003 block 2 7.2: measured 2 464.0 requests/                                            10:20:00 after 9 blocks: web-static through
            002 block 1 7.2: measured 2 451.0 requests/                                            10:00:00 the run began on QEMU 7.2.22, emul
            001 block 1 6.1: measured 2 285.0 requests/





            01:01:01  q end  ←→ trial  ? keys  newest trial of each arm"#]],
    );
}

#[test]
fn a_usual_screen_has_curves_and_trials() {
    check(
        80,
        30,
        &expect![[r#"
            Web serving
            running, 1 of at most 30 blocks, about 10 min left (2 min to 60 min), from 3
            trials
            better 7.2 against 6.1, web-static (emulated, counted instructions): +7.36 %
            requests/s [+7.12 %, +7.82 %] (97.5 % interval), better; p99 latency -6.86 %
            [-7.25 %, -6.65 %] (97.5 % interval), better; 9 blocks
            ┌ 6.1 ──────────────────────────────────┌ 7.2 ──────────────────────────────────
            │trial        trial 004, block 2        │trial        trial 003, block 2
            │state        measuring, second 42 of 60│state        measured
            │throughput   2 392/s                   │throughput   2 597/s
            │p99          22.0 ms                   │p99          37.2 ms
            │failed       68                        │failed       150
            │figure       2 285.3 requests/s        │figure       2 464.0 requests/s
            │trials       1 measured                │trials       2 measured
            │                                       │
             requests/s ────────────────────────────  p99, ms ──────────────────────────────
            2910│⢀••••••••••••••••••⡀•••⡀•• •••••••• 40.9│ •••• ••••••••••••••••••••••••••••
                │• ••⠈••• ••⠈••• •• •• •• •• •• •••      │• •• • •• • •• • •• • •• • • •• •
            1460│                                    20.5│⠔⠢⠔⠢⠒⠔⠒⠔⠢⠒⠤⠒⠔⠢⠒⠢⠒⠔⠢⠔⠢⠒⠔
                │                                        │
            0   │                                    0   │
                └───────────────────────────────────     └──────────────────────────────────
              0 s                               59 s   0 s                              59 s
             trials ──────────────────  defects ─────────────────  journal ─────────────────
            004 block 2 6.1: measuring 7.2, trial 003: hung-task  10:41:00 decided after 10
            003 block 2 7.2: measured                             10:20:00 after 9 blocks: w
            002 block 1 7.2: measured                             10:00:00 the run began on
            001 block 1 6.1: measured

            01:01:01  q end  ←→ trial  ? keys  newest trial of each arm"#]],
    );
}

#[test]
fn a_small_screen_has_what_matters_most() {
    check(
        40,
        16,
        &expect![[r#"
            Web serving
            running, 1 of at most 30 blocks, about
            10 min left (2 min to 60 min), from 3
            trials
            better 7.2 against 6.1, web-static
            (emulated, counted instructions): +7.36
            % requests/s [+7.12 %, +7.82 %] (97.5 %
            interval), better; p99 latency -6.86 %
            [-7.25 %, -6.65 %] (97.5 % interval),
            ┌ 6.1 ──────────────────────────────────
            │trial        trial 004, block 2
            │state        measuring, second 42 of 60
            ┌ 7.2 ──────────────────────────────────
            │trial        trial 003, block 2
            │state        measured
            01:01:01  q end  ←→ trial  ? keys  newes"#]],
    );
}

#[test]
fn every_screen_size_can_be_drawn() {
    let now = now();
    for width in (1..200).step_by(7) {
        for height in (1..80).step_by(5) {
            draw(&now, &Choice::default(), width, height, Palette::of(false));
        }
    }
}

#[test]
fn a_plain_palette_has_no_colours() {
    let colours = |is_plain: bool| {
        let screen = draw(&now(), &Choice::default(), 120, 40, Palette::of(is_plain));
        let cells = screen.backend().buffer().content().to_vec();
        let is_coloured =
            |cell: &&ratatui::buffer::Cell| cell.fg != Color::Reset || cell.bg != Color::Reset;
        cells.iter().filter(is_coloured).count()
    };
    assert_eq!(colours(true), 0);
    assert!(colours(false) > 50);
}

fn press(choice: &mut Choice, now: &Snapshot, code: KeyCode) -> Step {
    choice.handle(now, KeyEvent::new(code, KeyModifiers::NONE))
}

#[test]
fn arrows_choose_a_trial_which_stays_when_others_begin() {
    let mut now = now();
    let mut choice = Choice::default();
    let mut chosen = |code: KeyCode, now: &Snapshot| {
        assert_eq!(press(&mut choice, now, code), Step::Stay);
        choice.attempt(now).map(|attempt| attempt.trial.number)
    };
    assert_eq!(chosen(KeyCode::Left, &now), Some(4));
    assert_eq!(chosen(KeyCode::Left, &now), Some(3));
    now.attempts.push(attempt(5, "6.1", false));
    assert_eq!(chosen(KeyCode::Left, &now), Some(2));
    assert_eq!(chosen(KeyCode::Home, &now), Some(1));
    assert_eq!(chosen(KeyCode::Left, &now), Some(1));
    assert_eq!(chosen(KeyCode::Right, &now), Some(2));
    assert_eq!(chosen(KeyCode::End, &now), None);
    assert_eq!(chosen(KeyCode::Right, &now), None);
    now.attempts.clear();
    assert_eq!(chosen(KeyCode::Left, &now), None);
}

#[test]
fn a_chosen_trial_has_its_curve_and_its_line() {
    let now = now();
    let mut choice = Choice::default();
    press(&mut choice, &now, KeyCode::Home);
    let screen = draw(&now, &choice, 100, 30, Palette::of(true));
    let shown = text(&screen);
    assert!(
        shown.contains("trial 001 of 6.1") && shown.contains("29 s"),
        "{shown}"
    );
}

#[test]
fn keys_show_help_and_quit() {
    let now = now();
    let mut choice = Choice::default();
    press(&mut choice, &now, KeyCode::Char('?'));
    let shown = text(&draw(&now, &choice, 80, 30, Palette::of(true)));
    assert!(shown.contains("q, Esc, Ctrl-C"), "{shown}");
    assert_eq!(press(&mut choice, &now, KeyCode::Esc), Step::Stay);
    assert_eq!(press(&mut choice, &now, KeyCode::Esc), Step::Leave);
    assert_eq!(press(&mut choice, &now, KeyCode::Char('q')), Step::Leave);
    let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(choice.handle(&now, ctrl_c), Step::Leave);
}
