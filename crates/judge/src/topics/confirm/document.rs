//! How much of a difference settings explain, as terminal text, Markdown and JSON.

use doc::{Block, Table};
use record::verdict::confirm::Confirmation;
use serde_json::Value;

use crate::topics::confirm::tell::{note, rows, sentences, title};

/// The sentences, then the table.
fn blocks(confirmation: &Confirmation) -> Vec<Block> {
    let mut blocks = vec![Block::Title(title(confirmation))];
    blocks.extend(sentences(confirmation).into_iter().map(Block::Lead));
    blocks.extend(Block::table(Table::new(rows(confirmation), 2)));
    blocks.extend([Block::Gap, Block::List(vec![note(confirmation)])]);
    blocks
}

/// Text for a terminal of `width` columns.
pub fn terminal(confirmation: &Confirmation, width: usize) -> String {
    doc::terminal::render(&blocks(confirmation), width)
}

/// Markdown for a mail or a pull request.
pub fn markdown(confirmation: &Confirmation) -> String {
    doc::markdown::render(&blocks(confirmation))
}

/// The data, with the sentences added as `text`.
pub fn json(confirmation: &Confirmation) -> Value {
    let mut value =
        serde_json::to_value(confirmation).expect("a confirmation has string keys only");
    value["text"] = sentences(confirmation).join("; ").into();
    value
}

#[cfg(test)]
pub(crate) mod tests {
    use expect_test::expect;
    use record::verdict::confirm::{MetricEffect, SettingEffect, VERSION};

    use super::*;

    pub(crate) fn found() -> Confirmation {
        let effect =
            |metric: &str, unit: &str, without: f64, with: f64, share: Option<f64>| MetricEffect {
                metric: metric.into(),
                unit: unit.into(),
                is_absolute: unit == "instructions/request",
                without,
                with,
                share,
                low: share.map(|share| share - 0.012),
                high: share.map(|share| share + 0.01),
                blocks: 6,
            };
        let setting = |text: &str, metrics| SettingEffect {
            setting: text.into(),
            arms: ["6.1+x".into(), "7.2+x".into()],
            metrics,
        };
        let counted = |with, share| {
            effect(
                "instructions",
                "instructions/request",
                -20_600.0,
                with,
                share,
            )
        };
        Confirmation {
            version: VERSION,
            workload: "web-static".into(),
            arms: ["6.1".into(), "7.2".into()],
            settings: vec![
                setting(
                    "init_on_alloc=0",
                    vec![
                        effect("throughput", "requests/s", 1.1463, 1.11, Some(0.2357)),
                        counted(-16_000.0, Some(0.2233)),
                    ],
                ),
                setting("psi=0", vec![counted(-24_000.0, Some(-0.165))]),
                setting("audit=0", vec![counted(-20_600.0, None)]),
            ],
            confidence: 0.9,
        }
    }

    #[test]
    fn shares_are_reported_by_setting_and_metric() {
        expect![[r#"
            web-static: what settings explain of the difference between 7.2 and 6.1
            init_on_alloc=0 explains 22.3 % [21.1 %, 23.3 %] (90 % interval) of the difference in instructions
            psi=0 hides a part: with it the difference in instructions is 16.5 % larger
            audit=0: the difference in instructions is no more than chance in 6 blocks, so there is nothing to
            explain

            setting          metric         without      with  explains       90 % interval
            ---------------  ------------  --------  --------  --------  ------------------
            init_on_alloc=0  throughput    +14.63 %  +11.00 %    23.6 %    [22.4 %, 24.6 %]
                             instructions   -20.6 k   -16.0 k    22.3 %    [21.1 %, 23.3 %]
            psi=0            instructions   -20.6 k   -24.0 k   -16.5 %  [-17.7 %, -15.5 %]
            audit=0          instructions   -20.6 k   -20.6 k         -                   -

            - without, with: the difference between the arms, an arm whose kernel has no such setting standing
              for itself; explains: the share that is gone with the setting, of ratios the share of their
              logarithm; intervals: 90 % confidence, each row by itself, over 6 blocks; shares of settings need
              not sum to 100 %
        "#]].assert_eq(&terminal(&found(), 100));
        let mut nothing = found();
        let effect = &mut nothing.settings[0].metrics[0];
        (effect.with, effect.low) = (0.999_97, Some(-0.000_2));
        let text = terminal(&nothing, 100);
        assert!(
            !text.contains("-0.00 %") && !text.contains("-0 %"),
            "{text}"
        );
        assert!(markdown(&found()).contains("| psi=0 |"));
        assert_eq!(json(&found())["settings"][0]["metrics"][1]["share"], 0.2233);
    }
}
