# The two commands of a newcomer are `make demo` and `make test`.
BAKEOFF := target/x86_64-unknown-linux-gnu/release/bakeoff
PLAN ?= plans/web-static.toml

.PHONY: demo build test test-kvm test-box test-box-clients test-slurm test-slurm-night check packages bench-load fuzz soak-simulated long-run-simulated verdict-calibration verdict-campaign bisect-calibration clean

demo: build
	$(BAKEOFF) run $(PLAN)

build:
	@tools/packages run
	cargo build --release --bin bakeoff

# Everything that can be wrong: form, lints, tests, documentation. People and CI run this one gate.
check:
	cargo fmt --check
	@tools/packages run test kernel
	cargo clippy --workspace --all-targets -- -D warnings
	cargo test --workspace
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items

test:
	@tools/packages run test kernel
	cargo test --workspace

# KVM, proven: a guest of bakeoff's that is emulated, has KVM, and boots two kernels under it. Minutes; needs no KVM here.
test-kvm:
	@tools/packages run test kernel
	TEST_KVM=1 cargo test --workspace --test it -- nested_kvm --nocapture

# A box by ssh, emulated, with a management controller: two kernels are compared on it, and faults end with the box at home. Minutes.
test-box:
	@tools/packages run test kernel
	TEST_BOX=1 cargo test --workspace --test it -- emulated_box --nocapture

# The same box with two cards, and hosts for its clients. Minutes; needs root and /dev/net/tun.
test-box-clients:
	@tools/packages run test kernel
	TEST_BOX_CLIENTS=1 cargo test --workspace --test it -- emulated_box::with_clients --nocapture

# A Slurm cluster of two nodes on this host, with planted faults, and a comparison of two kernels on it. Minutes; needs root.
test-slurm:
	@tools/packages run test kernel
	TEST_SLURM=1 cargo test --workspace --test it -- --exact slurm_cluster::a_fleet_survives_what_befalls_clusters_and_compares_kernels --nocapture

# Two plans on such a cluster at once. Minutes; needs root.
test-slurm-night:
	@tools/packages run test
	TEST_SLURM=1 cargo test --workspace --test it -- --exact slurm_cluster::several_plans_share_a_cluster --nocapture

packages:
	@tools/packages run test kernel

# The load generator beside its peers, about six minutes on an otherwise idle machine; writes docs/bench/load.md.
# A peer that cannot be had is left out, and the page says so.
bench-load:
	@tools/packages run bench
	[ -x target/bench-peers/bin/oha ] || nice -n 19 cargo install oha --root target/bench-peers --locked \
		|| echo "oha cannot be built here: going on without it"
	cargo bench -p bakeoff-load --bench load

# The fuzz targets for longer than the seconds that they take in `make test`; another seed finds other things.
fuzz:
	BAKEOFF_FUZZ_ROUNDS=$${ROUNDS:-300000} BAKEOFF_FUZZ_SEED=$${SEED:-1} cargo test -p bakeoff --test it fuzz::

# Fourteen days of load on a fake machine, through the real session, lab, record and report: memory, sizes, times. Minutes.
soak-simulated:
	SOAK_DAYS=$${DAYS:-14} cargo test --workspace --test it -- --exact soak::simulated_soak --nocapture

# What looks and the verdict of a very long run cost, on a fake machine. Minutes.
long-run-simulated:
	LONG_RUN_BLOCKS=$${BLOCKS:-10000} cargo test --workspace --test it -- --exact long_runs::simulated_long_run --nocapture

# How often the rule is right on simulated machines, about ten minutes on two cores; writes the tables in docs/statistics.md.
verdict-calibration:
	cargo run --release -p bakeoff-verdict --example calibration

# How often bisections are right on simulated machines; writes the table in docs/bisect.md.
bisect-calibration:
	cargo run --release -p bakeoff-verdict --example bisect_calibration

# Its earlier name.
verdict-campaign: verdict-calibration

clean:
	cargo clean
