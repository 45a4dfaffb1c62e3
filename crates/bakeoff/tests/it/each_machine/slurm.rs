//! A Slurm cluster of two nodes: one node dies during a job, the verdict is still right, and two
//! kernels are compared.

use std::fs;

use record::verdict::Verdict;

use crate::simulated_lab::judged;
use crate::slurm_cluster::cluster::Cluster;
use crate::slurm_cluster::{check_guests, check_refusals, has_ended, start, submitter, wait_for};

#[test]
#[ignore = "boots guests: .ci/run, make test-all"]
fn a_fleet_survives_a_node_and_compares_kernels() {
    if !Cluster::can_start() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().canonicalize().unwrap();
    let mut cluster = Cluster::start(&dir);
    check_refusals(&cluster, &dir);
    let (run, log) = (dir.join("fake"), dir.join("fake.log"));
    let mut submitted = start(submitter(&cluster, &run, ""), &log);
    wait_for("block 1", &log, || has_ended(&run, 1));
    wait_for("a job under way", &log, || cluster.is_at_work("n2"));
    cluster.kill_slurmd("n2");
    wait_for("block 3", &log, || has_ended(&run, 3));
    cluster.start_slurmd("n2");
    assert!(submitted.wait().unwrap().success());
    let text = fs::read_to_string(&log).unwrap();
    println!("{text}");
    assert!(text.contains("FINISH Complete"), "{text}");
    assert_eq!(judged(&run).comparisons[0].verdict, Verdict::Better);
    check_guests(&cluster, &dir, 1);
    assert_eq!(cluster.queue(), "", "jobs are left in the queue");
}
