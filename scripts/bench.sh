#!/bin/sh
# Measures Stead on this machine and prints each figure beside its yardstick, taken in the same run. docs/benchmarks.md says
# what each figure means. A slow figure never fails the run; a figure that cannot be taken says why.
#
#   scripts/bench.sh                      everything
#   scripts/bench.sh --only launch,task   some figures
#   scripts/bench.sh --quick              few samples, to see that it works
set -eu
cd "$(dirname "$0")/.."
. scripts/prepare.sh

[ "$(id -u)" = 0 ] || die "sandboxes of the native provider need root"
need_tools
need_packages bwrap=bubblewrap
# An engine is measured where one answers, with an image of this; none is installed or started for it.
! docker version >/dev/null 2>&1 || need_packages busybox=busybox-static
need_rust
say "building release binaries"
build_runtime
cargo build --quiet --locked --release -p stead-server >&2 || die "building the server failed"
cargo build --quiet --locked --release -p stead-sandbox --example launch_time >&2 || die "building the launch timer failed"
cargo build --quiet --locked --release -p stead-egress --example throughput >&2 || die "building the throughput timer failed"
need_uv target/tools/toolchains

hosts=$(registry_hosts || true)
if [ -n "$hosts" ]; then
    STEAD__BUILDS__REGISTRY_HOSTS=$(printf '%s' "$hosts" | tr ' ' ',')
    export STEAD__BUILDS__REGISTRY_HOSTS
fi
exec /usr/bin/python3 -B scripts/bench/main.py --runtime "$STEAD_RUNTIME" --uv target/tools/toolchains/uv/bin/uv "$@"
