//! The CPU model of a virtual machine: one of QEMU's models, with features added and removed.

use std::fmt;

use base::arch::Arch;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// Feature that gives a guest a performance monitoring unit. QEMU accepts it, and does not list it.
pub const PERFORMANCE_MONITORING: &str = "pmu";

/// QEMU's CPU models without 64-bit mode, on which no kernel of a plan boots.
const MODELS_OF_32_BITS: [&str; 10] = [
    "486", "athlon", "base", "coreduo", "kvm32", "n270", "pentium", "pentium2", "pentium3",
    "qemu32",
];

/// The remedy for a model without 64-bit mode.
pub const MODELS_OF_64_BITS: &str = "name another, such as \"qemu64\" or \"EPYC\"";

/// Key of the fact about a feature of a guest's CPU; its value is the word of a [`Presence`].
pub fn fact_key(feature: &str) -> String {
    format!("cpu:{feature}")
}

/// Whether a CPU has a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Presence {
    /// The CPU has it.
    Present,
    /// The CPU lacks it.
    Absent,
}

impl Presence {
    /// `present` or `absent`.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// A CPU model in the form of QEMU's option `-cpu`: `Haswell-noTSX,-avx2`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuModel {
    /// Name of the model.
    pub name: String,
    /// Features that differ from the model, each named once.
    pub features: Vec<(String, Presence)>,
}

impl CpuModel {
    /// A model without changed features.
    pub fn plain(name: &str) -> Self {
        Self {
            name: name.into(),
            features: Vec::new(),
        }
    }

    /// Parses `NAME`, or `NAME,+FEATURE,-FEATURE`. It does not check that QEMU knows them.
    pub fn parse(text: &str) -> Result<Self, String> {
        const FORM: &str = "write it like \"EPYC\" or \"Haswell-noTSX,-avx2\"";
        let is_word = |word: &str| {
            let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            word.starts_with(|c: char| c.is_ascii_alphanumeric()) && word.chars().all(is_allowed)
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

    /// Whether the model adds or removes a feature; `None` if it does neither.
    pub fn asks_for(&self, feature: &str) -> Option<Presence> {
        let entry = self.features.iter().find(|(name, _)| name == feature);
        entry.map(|(_, presence)| *presence)
    }

    /// Whether guests with it can run 64-bit kernels, as far as its name and its features show.
    pub fn has_64_bits(&self, arch: Arch) -> bool {
        if arch != Arch::X86_64 {
            return true;
        }
        // In QEMU `486` is also `486-v1`.
        let (name, version) = self.name.rsplit_once("-v").unwrap_or((&self.name, "0"));
        let is_version = version.bytes().all(|digit| digit.is_ascii_digit());
        let name = if is_version { name } else { &self.name };
        match self.asks_for("lm") {
            Some(presence) => presence == Presence::Present,
            None => !MODELS_OF_32_BITS.contains(&name),
        }
    }

    /// Its obstacles to counted instructions, each with the reason: `without erms and fsrm`.
    pub fn uncounted(&self, arch: Arch) -> Vec<(String, &'static str)> {
        let mut obstacles = Vec::new();
        if self.name == "host" {
            let why = "only KVM shows a guest the host's CPU";
            obstacles.push(("\"host\"".into(), why));
        }
        let removed = self.removed_fast_strings(arch);
        if !removed.is_empty() {
            let why = "kernels would copy and clear memory in loops that no server of today runs";
            obstacles.push((format!("without {}", removed.join(" and ")), why));
        }
        obstacles
    }

    /// The features of fast strings that it removes.
    fn removed_fast_strings(&self, arch: Arch) -> Vec<&'static str> {
        let is_removed = |feature: &&str| self.asks_for(feature) == Some(Presence::Absent);
        let features = arch.facts().fast_strings().iter().copied();
        features.filter(is_removed).collect()
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
    fn texts_that_could_be_other_options_of_qemu_are_refused() {
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
            let error = CpuModel::parse(text).unwrap_err();
            assert!(error.starts_with(why), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_model_without_64_bits_is_known_by_its_name_and_features() {
        let has = |text| CpuModel::parse(text).unwrap().has_64_bits(Arch::X86_64);
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
    fn removed_fast_strings_are_named() {
        let model = CpuModel::parse("max,+fsrm,-erms,-avx2").unwrap();
        assert_eq!(model.removed_fast_strings(Arch::X86_64), ["erms"]);
    }
}
