# New users need two commands: `make demo` and `make test`.
BAKEOFF = target/$(shell rustc --print host-tuple)/release/bakeoff
PLAN ?= plans/web-static.toml

.PHONY: demo build form test test-units test-program test-host each-machine other-release cross-arm64 test-arm64 test-all check packages licences release release-test reproducible bench-load verdict-calibration bisect-calibration clean

demo: build
	$(BAKEOFF) run $(PLAN)

build:
	@tools/packages run
	cargo build --locked --release --bin bakeoff

# Formatting, lints, documentation and tests.
check: form test

form:
	cargo fmt --check
	@tools/packages run test kernel
	cargo clippy --locked --workspace --all-targets -- -D warnings
	@# With the example, so that crates have the features that clippy's have, and are not checked again.
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --lib --example calibration --no-deps --document-private-items

# Takes minutes: unit tests, commands, simulated machines, servers on the loopback, and one comparison of two kernels in guests.
test:
	@tools/packages run test kernel
	cargo test --workspace --no-run
	@$(MAKE) --no-print-directory -j3 test-units test-program test-host

# Three targets at a time, and more threads than CPUs, because servers on the loopback mostly wait. Each target names the whole
# workspace; otherwise cargo would compile it again with other features.
test-units:
	RUST_TEST_THREADS=4 cargo test --workspace --lib --bins
	cargo test --workspace --doc

test-program:
	RUST_TEST_THREADS=4 cargo test --workspace --test '*' -- --skip local_machine::

# Runs on this host. Only one can measure at a time, so they start at once, beside the others.
test-host:
	cargo test --workspace --test it -- local_machine::

# A short run on each kind of machine, all emulated: more guests, a box by ssh, a host with KVM, a Slurm cluster. Some need root.
each-machine:
	@tools/packages run test kernel
	cargo test --workspace --test it -- --ignored each_machine::

# The other Debian release: its packages exist, and a guest of it boots and serves.
other-release:
	@tools/packages run test kernel
	tools/other-release

# This program for arm64: the agent of its guests.
cross-arm64:
	tools/cross arm64 build --locked --release --bin bakeoff

# Unit tests of arm64, by an emulator of programs, and two arm64 kernels in guests, from their packages to the explanation. Packages of
# the guests' image are installed by the same kind of emulator, which takes minutes.
test-arm64:
	@tools/packages run test
	@# Without tests that limit memory, because the limit would bind the emulator too.
	tools/cross arm64 test -p bakeoff-plan -p bakeoff-profiler -p bakeoff-record -p bakeoff-stats -- --skip within_limits --skip is_bounded
	tools/cross arm64 build --bin bakeoff
	@# Tests that count events of the CPU run in guests.
	BAKEOFF_GUEST_TESTS=$$(tools/cross arm64 test -p bakeoff-guest --lib --no-run --message-format json | sed -n 's/.*"executable":"\([^"]*\/guest-[^"]*\)".*/\1/p') \
		cargo test --workspace --test it -- --ignored other_architecture::

# All tests at full size: every kind of guest, all faults of a box, simulated days, Monte Carlo. Takes hours; run it before a
# release. Random tests have a new seed each time; SEED=7 make test-all repeats one.
test-all:
	@tools/packages run test kernel
	@seed=$${SEED:-$$(date +%s)}; echo "random tests begin at SEED=$$seed"; \
		SEED=$$seed cargo test --workspace --no-fail-fast -- --include-ignored --skip roles:: --skip other_architecture:: \
		--skip the_path_length_of_a_loop
	@$(MAKE) --no-print-directory test-arm64
	tools/other-release --build

# Checks licences and origins of all crates.
licences:
	@tools/packages run test
	tools/licences

# The files of a release in target/release-files, then both Debian releases with them. The test needs root.
release:
	tools/release
	@$(MAKE) --no-print-directory release-test

release-test:
	@tools/packages run release
	tools/release-test bookworm
	tools/release-test trixie

# Makes the release a second time elsewhere; fails unless both are the same to the byte.
reproducible:
	tools/reproducible

packages:
	@tools/packages run test kernel

# Compares the load generator with others; writes target/bench-load.md. Takes about six minutes on an idle machine. Generators that
# are missing are left out, which the page reports.
bench-load:
	@tools/packages run bench
	[ -x target/bench-peers/bin/oha ] || nice -n 19 cargo install oha --root target/bench-peers --locked \
		|| echo "oha cannot be built here: going on without it"
	cargo bench -p bakeoff-load --bench load

# Measures error rates of the decision rule on simulated machines; writes the tables in docs/method/statistics.md. Takes about ten
# minutes on two cores.
verdict-calibration:
	cargo run --release -p bakeoff-judge --example calibration

# Measures error rates of bisections on simulated machines; writes the table in docs/howto/bisect.md.
bisect-calibration:
	cargo run --release -p bakeoff-judge --example bisect_calibration

clean:
	cargo clean
