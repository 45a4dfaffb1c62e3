//! The statement of a bundle, in the format of in-toto (predicate `test-result`, version 0.1).

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use record::hash::sha256;
use record::rundir::Run;
use record::verdict::{Conclusion, Headline, Judgement, Verdict};
use serde::{Deserialize, Serialize};

use super::archive::{Cover, MANIFEST};
use crate::build_id;

/// Type of in-toto statements.
const TYPE: &str = "https://in-toto.io/Statement/v1";

/// Type of test results.
const PREDICATE: &str = "https://in-toto.io/attestation/test-result/v0.1";

/// Version of the bundle.
pub const VERSION: u32 = 1;

/// Most conclusions in a statement; a plan has fewer.
const MOST_TESTS: usize = 10_000;

/// The statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    subject: Vec<Resource>,
    #[serde(rename = "predicateType")]
    predicate_type: String,
    /// The test result.
    pub predicate: TestResult,
}

/// A name and its digests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resource {
    name: String,
    digest: BTreeMap<String, String>,
}

impl Resource {
    fn new(name: &str, sha256: &str) -> Self {
        Self {
            name: name.into(),
            digest: [("sha256".into(), sha256.into())].into(),
        }
    }
}

/// The predicate. Other readers of in-toto ignore the fields in snake case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TestResult {
    /// `FAILED` if any arm is worse or failed, `WARNED` if any question is open, else `PASSED`.
    result: String,
    /// Plan, kernels, image and program.
    configuration: Vec<Resource>,
    passed_tests: Vec<String>,
    warned_tests: Vec<String>,
    failed_tests: Vec<String>,
    /// Version of the bundle.
    #[serde(rename = "bundle_version")]
    bundle_version: u32,
    /// Build of bakeoff that judged the run.
    #[serde(rename = "bakeoff_build")]
    pub bakeoff_build: String,
}

/// Only what says which version a statement has.
#[derive(Deserialize)]
struct Versioned {
    predicate: VersionedPredicate,
}

#[derive(Deserialize)]
struct VersionedPredicate {
    bundle_version: u32,
}

/// What a conclusion is in a test result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Grade {
    Passed,
    Warned,
    Failed,
}

impl Grade {
    fn of(conclusion: &Conclusion) -> Self {
        match conclusion {
            Conclusion::Better | Conclusion::Equivalent => Self::Passed,
            Conclusion::Worse | Conclusion::Failed(_) => Self::Failed,
            Conclusion::TradeOff { primary, .. } | Conclusion::ModelDependent { primary, .. }
                if *primary == Verdict::Worse =>
            {
                Self::Failed
            }
            Conclusion::TradeOff { .. }
            | Conclusion::ModelDependent { .. }
            | Conclusion::Undecided { .. }
            | Conclusion::Withheld { .. } => Self::Warned,
        }
    }
}

impl Statement {
    /// The statement on a run.
    pub fn of(run: &Run, judgement: &Judgement, manifest: &str) -> Self {
        let inputs = run.opening.inputs.iter();
        let configuration = inputs.map(|(name, digest)| Resource::new(name, digest));
        let configuration = configuration.collect();
        let tests = |grade| -> Vec<String> {
            let headlines = judgement.headlines.iter();
            let graded = headlines.filter(|headline| Grade::of(&headline.conclusion) == grade);
            let line = |headline: &Headline| {
                let word = headline.conclusion.word();
                format!("{}: {}: {word}", headline.workload, headline.arm)
            };
            graded.map(line).collect()
        };
        let [passed_tests, warned_tests, failed_tests] =
            [Grade::Passed, Grade::Warned, Grade::Failed].map(tests);
        let result = if !failed_tests.is_empty() {
            "FAILED"
        } else if !warned_tests.is_empty() || passed_tests.is_empty() {
            "WARNED"
        } else {
            "PASSED"
        };
        Self {
            kind: TYPE.into(),
            subject: vec![Resource::new(MANIFEST, &sha256(manifest.as_bytes()))],
            predicate_type: PREDICATE.into(),
            predicate: TestResult {
                result: result.into(),
                configuration,
                passed_tests,
                warned_tests,
                failed_tests,
                bundle_version: VERSION,
                bakeoff_build: build_id::build(),
            },
        }
    }

    /// Whether it says of the run what another one says, whichever build made it.
    pub fn agrees_with(&self, other: &Self) -> bool {
        let mut same_build = self.clone();
        same_build
            .predicate
            .bakeoff_build
            .clone_from(&other.predicate.bakeoff_build);
        same_build == *other
    }

    /// The statement as JSON.
    pub fn text(&self) -> Result<Vec<u8>> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        Ok(text)
    }

    /// Reads the statement of a bundle, and compares it with the manifest.
    ///
    /// # Errors
    /// It is no statement of this version, or another manifest's.
    pub fn read(cover: &Cover) -> Result<Self> {
        let version: Versioned =
            serde_json::from_slice(&cover.statement).context("statement.json is damaged")?;
        let version = version.predicate.bundle_version;
        if version != VERSION {
            bail!(
                "bundle of version {version}, and this bakeoff reads {VERSION} (use the bakeoff that made it)"
            );
        }
        let statement: Self =
            serde_json::from_slice(&cover.statement).context("statement.json is damaged")?;
        let expected = [Resource::new(MANIFEST, &sha256(cover.manifest.as_bytes()))];
        if statement.kind != TYPE || statement.predicate_type != PREDICATE {
            bail!("statement.json is no test result of in-toto (bakeoff bundle makes one)");
        }
        if statement.subject != expected {
            bail!("changed: {MANIFEST} differs from statement.json (do not trust this bundle)");
        }
        let predicate = &statement.predicate;
        let tests = [
            &predicate.passed_tests,
            &predicate.warned_tests,
            &predicate.failed_tests,
        ];
        if tests.map(Vec::len).iter().sum::<usize>() > MOST_TESTS {
            bail!("statement.json has more than {MOST_TESTS} results");
        }
        Ok(statement)
    }
}
