# The two commands of a newcomer are `make demo` and `make test`.
BAKEOFF := target/x86_64-unknown-linux-gnu/release/bakeoff
PLAN ?= plans/web-static.toml

.PHONY: demo build form test test-units test-program test-host each-machine test-all check packages deny bench-load verdict-calibration bisect-calibration clean

demo: build
	$(BAKEOFF) run $(PLAN)

build:
	@tools/packages run
	cargo build --locked --release --bin bakeoff

# Everything that can be wrong before guests boot: form, lints, documentation, tests.
check: form test

form:
	cargo fmt --check
	@tools/packages run test kernel
	cargo clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items

# Minutes: all units, commands and simulated machines, servers on loopback, and one comparison of two kernels in guests.
test:
	@tools/packages run test kernel
	cargo test --workspace --no-run
	@$(MAKE) --no-print-directory -j3 test-units test-program test-host

# Three at a time, and more threads than CPUs: servers on loopback mostly wait. Each takes the whole workspace, or cargo would
# compile it again with other features.
test-units:
	RUST_TEST_THREADS=4 cargo test --workspace --lib --bins
	cargo test --workspace --doc

test-program:
	RUST_TEST_THREADS=4 cargo test --workspace --test '*' -- --skip local_machine::

# Runs on this host: bakeoff measures one at a time, so they begin at once.
test-host:
	cargo test --workspace --test it -- local_machine::

# A short run on each kind of machine that can be had here, all of them emulated: more guests, a box by ssh, a host with KVM, a
# Slurm cluster. Some need root.
each-machine:
	@tools/packages run test kernel
	cargo test --workspace --test it -- --ignored each_machine::

# Everything at full size: every kind of guest, all faults of a box, simulated weeks, Monte Carlo. Hours; before a release, and for a
# part whose tests it has. Random tests take another seed each time: SEED=7 make test-all repeats one.
test-all:
	@tools/packages run test kernel
	@seed=$${SEED:-$$(date +%s)}; echo "random tests begin at SEED=$$seed"; \
		SEED=$$seed cargo test --workspace --no-fail-fast -- --include-ignored --skip roles::

# Licences and origins of all crates, by deny.toml; a minute the first time, because cargo-deny is built without optimisation. Where
# it cannot be built, the check says so.
deny:
	[ -x target/deny/bin/cargo-deny ] || CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off \
		cargo install cargo-deny --locked --root target/deny --target-dir target/deny/build \
		|| echo "cargo-deny cannot be built here: licences and origins of crates are not checked"
	[ ! -x target/deny/bin/cargo-deny ] || target/deny/bin/cargo-deny --locked check licenses bans sources

packages:
	@tools/packages run test kernel

# The load generator beside its peers, about six minutes on an otherwise idle machine; writes docs/bench/load.md.
# A peer that cannot be had is left out, and the page says so.
bench-load:
	@tools/packages run bench
	[ -x target/bench-peers/bin/oha ] || nice -n 19 cargo install oha --root target/bench-peers --locked \
		|| echo "oha cannot be built here: going on without it"
	cargo bench -p bakeoff-load --bench load

# How often the rule is right on simulated machines, about ten minutes on two cores; writes the tables in docs/statistics.md.
verdict-calibration:
	cargo run --release -p bakeoff-judge --example calibration

# How often bisections are right on simulated machines; writes the table in docs/bisect.md.
bisect-calibration:
	cargo run --release -p bakeoff-judge --example bisect_calibration

clean:
	cargo clean
