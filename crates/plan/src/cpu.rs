//! The CPU model of a virtual machine: one of QEMU's models, with features added and taken away.

use std::fmt;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// CPU features that make kernels and the C library use REP string instructions for most copies and fills, as servers of today have
/// them: `erms` since 2013, `fsrm` since 2019.
pub const FAST_STRING_FEATURES: [&str; 5] = ["erms", "fsrm", "fzrm", "fsrs", "fsrc"];

/// Those without which no guest is measured under counted instructions: kernels would copy in loops that no server of today runs,
/// and those of different versions in different ones.
pub const NEEDED_FEATURES: [&str; 2] = ["erms", "fsrm"];

/// What gives a guest a performance monitoring unit. QEMU takes it as a feature, and lists it nowhere.
pub const PERFORMANCE_MONITORING: &str = "pmu";

/// Models of QEMU whose CPUs have no 64-bit mode, without which no kernel of a plan starts.
const MODELS_OF_32_BITS: [&str; 10] = [
    "486", "athlon", "base", "coreduo", "kvm32", "n270", "pentium", "pentium2", "pentium3",
    "qemu32",
];

/// The remedy for one of them.
pub const MODELS_OF_64_BITS: &str = "name another, such as \"qemu64\" or \"EPYC\"";

/// The key of the fact that says whether a guest's CPU has a feature; its value is a [`Presence`]'s word.
pub fn fact_key(feature: &str) -> String {
    format!("cpu:{feature}")
}

/// Whether a CPU has a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Presence {
    /// It has it.
    Present,
    /// It lacks it.
    Absent,
}

impl Presence {
    /// `present` or `absent`.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// A CPU model as `-cpu` of QEMU takes it: `Haswell-noTSX,-avx2`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuModel {
    /// Name of the model.
    pub name: String,
    /// Features that differ from the model's own, each named once.
    pub features: Vec<(String, Presence)>,
}

impl CpuModel {
    /// The model as it is.
    pub fn plain(name: &str) -> Self {
        Self {
            name: name.into(),
            features: Vec::new(),
        }
    }

    /// Reads `NAME`, or `NAME,+FEATURE,-FEATURE`. Whether QEMU knows them is not asked here.
    pub fn parse(text: &str) -> Result<Self, String> {
        const FORM: &str = "write it like \"EPYC\" or \"Haswell-noTSX,-avx2\"";
        let is_word = |word: &str| {
            let good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            word.starts_with(|c: char| c.is_ascii_alphanumeric()) && word.chars().all(good)
        };
        let mut parts = text.split(',').map(str::trim);
        let name = parts.next().unwrap_or_default();
        if !is_word(name) {
            return Err(format!("not a CPU model: {text:?} ({FORM})"));
        }
        let mut model = Self::plain(name);
        for part in parts {
            let (presence, feature) = match (part.strip_prefix('+'), part.strip_prefix('-')) {
                (Some(feature), _) => (Presence::Present, feature),
                (None, Some(feature)) => (Presence::Absent, feature),
                (None, None) => return Err(format!("feature without + or -: {part:?} ({FORM})")),
            };
            if !is_word(feature) {
                return Err(format!("not a CPU feature: {part:?} ({FORM})"));
            }
            if model.asks_for(feature).is_some() {
                return Err(format!("CPU feature named twice: {feature} (name it once)"));
            }
            model.features.push((feature.into(), presence));
        }
        Ok(model)
    }

    /// What the model says of a feature, if anything.
    pub fn asks_for(&self, feature: &str) -> Option<Presence> {
        let said = self.features.iter().find(|(name, _)| name == feature);
        said.map(|(_, presence)| *presence)
    }

    /// Whether guests with it can run 64-bit kernels, as far as its name and its features say.
    pub fn has_64_bits(&self) -> bool {
        // QEMU knows `486` as `486-v1` too.
        let (name, version) = self.name.rsplit_once("-v").unwrap_or((&self.name, "0"));
        let is_version = version.bytes().all(|digit| digit.is_ascii_digit());
        let name = if is_version { name } else { &self.name };
        match self.asks_for("lm") {
            Some(presence) => presence == Presence::Present,
            None => !MODELS_OF_32_BITS.contains(&name),
        }
    }

    /// What guests whose instructions are counted cannot have of it, each with the reason: `without erms and fsrm`.
    pub fn uncounted(&self) -> Vec<(String, &'static str)> {
        let mut found = Vec::new();
        if self.name == "host" {
            let why = "only KVM shows a guest the host's CPU";
            found.push(("\"host\"".into(), why));
        }
        let lacking = self.lacking_fast_strings();
        if !lacking.is_empty() {
            let why = "kernels would copy and clear memory in loops that no server of today runs";
            found.push((format!("without {}", lacking.join(" and ")), why));
        }
        found
    }

    /// The features of fast strings that are taken away.
    fn lacking_fast_strings(&self) -> Vec<&'static str> {
        let is_asked = |feature: &&str| self.asks_for(feature) == Some(Presence::Absent);
        FAST_STRING_FEATURES.into_iter().filter(is_asked).collect()
    }
}

impl fmt::Display for CpuModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (feature, presence) in &self.features {
            let sign = match presence {
                Presence::Present => '+',
                Presence::Absent => '-',
            };
            write!(f, ",{sign}{feature}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_written_as_it_was_read() {
        for text in ["max", "EPYC", "Skylake-Server-v2,-avx512f,+erms"] {
            assert_eq!(CpuModel::parse(text).unwrap().to_string(), text);
        }
        let spaced = CpuModel::parse(" EPYC , -avx2 ").unwrap();
        assert_eq!(spaced.to_string(), "EPYC,-avx2");
        assert_eq!(spaced.asks_for("avx2"), Some(Presence::Absent));
        assert_eq!(spaced.asks_for("avx"), None);
    }

    #[test]
    fn what_could_be_another_option_of_qemu_is_refused() {
        for (text, why) in [
            ("", "not a CPU model: \"\""),
            ("-avx", "not a CPU model"),
            ("max,enforce", "feature without + or -: \"enforce\""),
            ("max,vendor=AuthenticAMD", "feature without + or -"),
            ("max,+", "not a CPU feature: \"+\""),
            ("max,-avx,", "feature without + or -: \"\""),
            ("max,-avx,+avx", "CPU feature named twice: avx"),
            ("max -smp 4", "not a CPU model"),
        ] {
            let said = CpuModel::parse(text).unwrap_err();
            assert!(said.starts_with(why), "{text:?}: {said}");
        }
    }

    #[test]
    fn a_model_without_64_bits_is_known_by_its_name_and_features() {
        let has = |text| CpuModel::parse(text).unwrap().has_64_bits();
        for old in ["486", "486-v1", "pentium3", "qemu32", "max,-lm"] {
            assert!(!has(old), "{old}");
        }
        for new in [
            "max",
            "qemu64",
            "kvm64",
            "EPYC-v3",
            "Haswell-noTSX",
            "athlon,+lm",
        ] {
            assert!(has(new), "{new}");
        }
    }

    #[test]
    fn fast_strings_that_are_taken_away_are_named() {
        let model = CpuModel::parse("max,+fsrm,-erms,-avx2").unwrap();
        assert_eq!(model.lacking_fast_strings(), ["erms"]);
    }
}
