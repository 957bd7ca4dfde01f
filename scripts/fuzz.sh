#!/bin/sh
# Fuzzes every parser of untrusted bytes and prints how often each was tried. Fails when one of them crashed, hung or grew.
#
#   scripts/fuzz.sh              every target
#   scripts/fuzz.sh archive      only the targets that are named
#
# FUZZ_SECONDS is how long each target runs (default: 60). Needs a nightly toolchain of Rust; installs cargo-fuzz into
# target/tools. What is found interesting is kept in target/fuzz/corpus and tried first the next time; the input of a crash is
# kept in target/fuzz/artifacts.
set -eu
cd "$(dirname "$0")/.."
. scripts/prepare.sh

seconds=${FUZZ_SECONDS:-60}
tools=$PWD/target/tools
found=$PWD/target/fuzz
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$found/build}
export CARGO_TARGET_DIR

need_packages c++=g++
need_rust
cargo +nightly --version >/dev/null 2>&1 ||
    die "fuzzing needs a nightly toolchain of Rust" "rustup toolchain install nightly --profile minimal"
PATH=$tools/bin:$PATH
export PATH
if ! command -v cargo-fuzz >/dev/null 2>&1; then
    say "installing cargo-fuzz"
    cargo +nightly install --quiet --locked --root "$tools" cargo-fuzz >&2 || die "cargo-fuzz cannot be installed"
fi

targets=${*:-$(cargo +nightly fuzz list)}
say "building the fuzz targets"
mkdir -p "$found"
cargo +nightly fuzz build >"$found/build.log" 2>&1 || { tail -n 40 "$found/build.log" >&2; die "the fuzz targets cannot be built"; }

printf '%-14s %12s %10s %9s  %s\n' target executions per-second coverage outcome
failed=""
for target in $targets; do
    corpus=$found/corpus/$target
    artifacts=$found/artifacts/$target
    log=$found/$target.log
    mkdir -p "$corpus" "$artifacts"
    outcome=ok
    cargo +nightly fuzz run "$target" "$corpus" "fuzz/corpus-seed/$target" -- -max_total_time="$seconds" -timeout=10 \
        -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 -artifact_prefix="$artifacts/" >"$log" 2>&1 ||
        outcome="FAILED: $log"
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
    coverage=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    printf '%-14s %12s %10s %9s  %s\n' "$target" "${executions:--}" "${rate:--}" "${coverage:--}" "$outcome"
    [ "$outcome" = ok ] || failed="$failed $target"
done
[ -z "$failed" ] || die "crashes in:$failed" "their inputs are in target/fuzz/artifacts; cargo +nightly fuzz run TARGET INPUT repeats one"
