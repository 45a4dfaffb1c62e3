# The two commands of a newcomer are `make demo` and `make test`.
BAKEOFF := target/x86_64-unknown-linux-gnu/release/bakeoff
PLAN ?= plans/web-static.toml

.PHONY: demo build test check packages clean

demo: build
	$(BAKEOFF) run $(PLAN)

build:
	@tools/packages run
	cargo build --release --bin bakeoff

# Everything that can be wrong: form, lints, tests, documentation. People and CI run this one gate.
check:
	cargo fmt --check
	@tools/packages run test
	cargo clippy --workspace --all-targets -- -D warnings
	cargo test --workspace
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items

test:
	@tools/packages run test
	cargo test --workspace

packages:
	@tools/packages run test

clean:
	cargo clean
