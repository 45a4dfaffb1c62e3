//! `bakeoff simulate ...`.

use std::fmt::Write;
use std::path::PathBuf;

use base::input::problem::remedy_among;
use base::input::units;
use clap::Args;
use stats::noise_models;
use stats::noise_models::Noise;

/// `bakeoff simulate`: what was typed.
#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// The plan file
    pub plan: PathBuf,
    /// An earlier run of the same workloads: its noise, order effect, outliers and lengths of trials
    #[arg(long, value_name = "RUN", conflicts_with = "noise")]
    pub from: Option<PathBuf>,
    /// The machine's noise: a name from the list below, or the share by which a block's ratio scatters
    /// [default: counted where the plan counts instructions, as "auto" does on a host that is known to emulate;
    /// else reference]
    #[arg(long, value_name = "NAME|SHARE", value_parser = noise)]
    pub noise: Option<Noise>,
    /// Simulated runs for each line of the table
    #[arg(long, value_name = "N", default_value_t = 200)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub runs: u32,
    /// Trials at a time for which times are told [default: as many as run would take]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
}

/// Examples, and the names of noise models.
pub fn examples() -> String {
    let mut text = String::from(
        "Examples:\n  bakeoff simulate plans/web-static.toml\n  \
         bakeoff simulate plans/web-static.toml --noise quiet\n  \
         bakeoff simulate plans/web-static.toml --from runs/web-static\n\n\
         Noise:",
    );
    for noise in noise_models::named() {
        write!(text, "\n  {:10} {}", noise.word, noise.name).expect("a string takes all text");
    }
    text
}

fn noise(text: &str) -> Result<Noise, String> {
    if let Some(noise) = noise_models::named().find(|noise| noise.word == text) {
        return Ok(noise);
    }
    match units::share(text) {
        Ok(scale) if 0.0 < scale && scale <= 1.0 => Ok(Noise::as_measured(scale, 0.0, 0.0)),
        Ok(_) => Err("a share must be above 0 and at most 100 %".into()),
        Err(_) => {
            let words: Vec<&str> = noise_models::named().map(|noise| noise.word).collect();
            let remedy = remedy_among(text, &words);
            Err(format!(
                "neither a share like 2% nor a known noise ({remedy})"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_a_name_or_a_share() {
        assert_eq!(noise("quiet").unwrap(), noise_models::QUIET);
        let scale = noise("2%").unwrap().scale();
        assert!((0.019..0.021).contains(&scale), "{scale}");
        assert!(noise("quite").unwrap_err().contains("quiet"));
        assert!(noise("-1%").is_err());
    }
}
