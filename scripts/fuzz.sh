#!/bin/sh
# Fuzzes every parser of untrusted bytes and prints how often each was tried and what that covers. Fails when one of them crashed,
# hung or grew.
#
#   scripts/fuzz.sh              every target
#   scripts/fuzz.sh archive      only the targets that are named
#
# FUZZ_SECONDS is how much time of a processor each target gets (default: 60). Needs a nightly toolchain of Rust; installs
# cargo-fuzz into target/tools. What is found interesting is kept in target/fuzz/corpus and tried first the next time. With
# FUZZ_KEEP=1 the fewest small inputs that cover all of it become fuzz/corpus, which the crates' tests replay. The input of a
# crash is kept in target/fuzz/artifacts.
set -eu
cd "$(dirname "$0")/.."
. scripts/prepare.sh

seconds=${FUZZ_SECONDS:-60}
tools=$PWD/target/tools
found=$PWD/target/fuzz
# Inputs that are longer than this are not kept in fuzz/corpus.
longest=4096
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
mkdir -p "$found/run"
say "building the fuzz targets"
cargo +nightly fuzz build >"$found/build.log" 2>&1 || { tail -n 40 "$found/build.log" >&2; die "the fuzz targets cannot be built"; }
host=$(rustc +nightly -vV | sed -n 's/^host: //p')
for target in $targets; do
    # A copy, so that whoever builds meanwhile changes nothing that runs.
    cp "$CARGO_TARGET_DIR/$host/release/$target" "$found/run/$target"
done

# measure: sets `spent` to the whole seconds of a processor that ended children took. Not by a substitution, whose shell has no
# children.
measure() {
    times >"$found/times"
    spent=$(sed -n '2p' "$found/times" | tr 'ms' '  ' | awk '{ printf "%d", $1 * 60 + $2 + $3 * 60 + $4 }')
}

# last NAME: the last number behind that word in the log.
last() { sed -n "s/.* $1: \([0-9]*\).*/\1/p" "$log" | tail -n 1; }

export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_odr_violation=0}"
printf '%-14s %12s %8s %9s %9s %9s %7s  %s\n' target executions seconds edges features corpus bytes outcome
failed=""
for target in $targets; do
    corpus=$found/corpus/$target
    kept=fuzz/corpus/$target
    artifacts=$found/artifacts/$target
    log=$found/$target.log
    mkdir -p "$corpus" "$kept" "$artifacts"
    : >"$log"
    outcome=ok
    executions=0
    measure
    began=$spent
    used=0
    # The fuzzer counts seconds of the clock. On a busy machine it gets fewer of a processor, so it begins again.
    while [ "$used" -lt "$seconds" ]; do
        "$found/run/$target" "$corpus" "fuzz/corpus-seed/$target" "$kept" -max_total_time="$((seconds - used))" -timeout="${FUZZ_HANG:-10}" \
            -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 -artifact_prefix="$artifacts/" >"$log.part" 2>&1 ||
            outcome="FAILED: $log"
        cat "$log.part" >>"$log"
        more=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log.part")
        rm -f "$log.part"
        executions=$((executions + ${more:-0}))
        measure
        used=$((spent - began))
        [ "$outcome" = ok ] || break
    done
    if [ "$outcome" = ok ] && [ "${FUZZ_KEEP:-0}" = 1 ]; then
        rm -rf "$found/small"
        mkdir "$found/small"
        # Edges alone, without how often each was taken: the smallest set that still goes everywhere.
        "$found/run/$target" -set_cover_merge=1 -use_counters=0 -max_len="$longest" -timeout="${FUZZ_HANG:-10}" "$found/small" \
            "fuzz/corpus-seed/$target" "$kept" "$corpus" >>"$log" 2>&1 || outcome="FAILED: $log"
        if [ "$outcome" = ok ]; then
            rm -rf "$kept"
            mv "$found/small" "$kept"
        fi
    fi
    edges=$(last cov)
    features=$(last ft)
    inputs=$(find "$kept" -type f | wc -l)
    bytes=$(cat "$kept"/* 2>/dev/null | wc -c)
    printf '%-14s %12s %8s %9s %9s %9s %7s  %s\n' "$target" "$executions" "$used" "${edges:--}" "${features:--}" "$inputs" \
        "$bytes" "$outcome"
    [ "$outcome" = ok ] || failed="$failed $target"
done
rm -f "$found/times"
[ -z "$failed" ] || die "crashes in:$failed" "their inputs are in target/fuzz/artifacts; target/fuzz/run/TARGET INPUT repeats one"
