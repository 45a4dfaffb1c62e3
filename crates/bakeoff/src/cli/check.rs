//! `bakeoff check ...`.

use std::fmt::Write;
use std::path::PathBuf;

use base::input::problem::remedy_among;
use base::input::units;
use clap::Args;
use stats::noise_models;
use stats::noise_models::Noise;

use super::EmulatorArgs;

/// `bakeoff check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The plan file
    pub plan: PathBuf,
    /// An earlier run of the same workloads, for noise and trial times
    #[arg(long, value_name = "RUN")]
    pub earlier: Option<PathBuf>,
    /// Trials at a time, for the estimated time [default: as for run]
    #[arg(long, short, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Simulate the plan: how often it would find a difference, after how many blocks and hours
    #[arg(long)]
    pub power: bool,
    /// The machine's noise: a name from the list below, or the scatter of a block's ratio [default: counted if the plan counts
    /// instructions, else reference]
    #[arg(long, value_name = "NAME|SHARE", value_parser = noise, requires = "power", conflicts_with = "earlier")]
    pub noise: Option<Noise>,
    /// Simulated runs for each line of the table
    #[arg(long, value_name = "N", default_value_t = 200, requires = "power")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub runs: u32,
    /// Which QEMU.
    #[command(flatten)]
    pub emulator: EmulatorArgs,
}

/// Examples, and the names of noise models.
pub fn examples() -> String {
    let mut text = String::from(
        "Examples:\n  bakeoff check plans/web-static.toml\n  \
         bakeoff check plans/web-static.toml --earlier runs/web-static\n  \
         bakeoff check --power plans/web-static.toml\n  \
         bakeoff check --power plans/web-static.toml --noise quiet\n\n\
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
