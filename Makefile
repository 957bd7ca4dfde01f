# What developers type beside ./run and ./test.
.PHONY: lint bench soak fuzz crash clean test-long build install toolchains

lint:
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo clippy --locked --package stead-server --features otlp --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --quiet --locked --workspace --no-deps --document-private-items
	cargo deny --log-level error check bans licenses sources

# Prints each figure beside its yardstick, measured in the same run, with the load average. BENCH='--only NAME' picks one.
bench:
	scripts/bench.sh $(BENCH)

# Lets clients work for SOAK_SECONDS (an hour) and says what grows.
soak:
	scripts/soak.sh

# Fuzzes the parsers of untrusted bytes, FUZZ_SECONDS of a processor each. Needs a nightly toolchain and cargo-fuzz.
fuzz:
	scripts/fuzz.sh

# Kills the server again and again while clients work: STEAD_CRASH_ROUNDS times (1000) from STEAD_CRASH_SEED (1) on. Needs root.
# Each round prints its seed, with which it can be repeated; the table at the end says where the server died, and how often.
crash:
	scripts/crash.sh

# A service of this machine (docs/installing.md): compile as anybody, then install as root. PREFIX, SYSCONFDIR, DATA and DESTDIR may be
# given; `install` compiles nothing.
build:
	scripts/install/install.sh build

install:
	@PREFIX='$(PREFIX)' SYSCONFDIR='$(SYSCONFDIR)' DATA='$(DATA)' DESTDIR='$(DESTDIR)' scripts/install/install.sh files

toolchains:
	@DATA='$(DATA)' DESTDIR='$(DESTDIR)' scripts/install/install.sh toolchains

test-long: fuzz bench
	STEAD_NO_SKIP=1 ./test --with-run

clean:
	cargo clean
	rm -rf target .stead
