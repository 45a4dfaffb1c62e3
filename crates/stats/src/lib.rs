//! Statistics of paired blocks: numbers in, numbers out. Nothing here reads a clock, a file or the network. Randomness
//! comes from a seed, so the same input gives the same bytes.
//!
//! ```text
//! design            the order of the arms in a block, from the seed
//! rule              the verdict on a metric: better, worse, equivalent, undecided
//!   contrast          the difference within one block
//!   score             bounded scores of the contrasts, so that outliers do not decide
//!   interim           after which blocks to analyse, and how much of the error rate to spend there
//!   randomization     sign flips: the null distribution
//!   boundary          critical values of the sequential test
//!   sequential_test   which hypotheses are rejected, and when
//!   inversion         confidence intervals
//! fixed_sample      a single analysis, for figures that others measured
//! outliers          trials far from the others
//! max_t             simultaneous tests of many series
//! multiplicity      Holm's and Benjamini-Hochberg's corrections of several p-values
//! change_points     where a series changes
//! batches           means of batches of a long series, and their autocorrelation
//! usl               the universal scalability law
//! posterior         Bayesian bisection
//! eprocess          whether A/A runs favour one arm
//! noise_models      simulated machines whose truth is known
//! calibration       how often the rule errs on them
//! power             what a plan would detect on them
//! average           means and medians
//! ```

pub mod average;
pub mod batches;
pub mod boundary;
pub mod calibration;
pub mod change_points;
pub mod contrast;
pub mod counts;
pub mod design;
pub mod eprocess;
pub mod fixed_sample;
pub mod interim;
pub mod inversion;
pub mod max_t;
pub mod multiplicity;
pub mod noise_models;
pub mod outliers;
pub mod posterior;
pub mod power;
pub mod randomization;
pub mod rule;
pub mod score;
pub mod sequential_test;
pub mod usl;
