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
need_rust
say "building release binaries"
build_runtime
cargo build --quiet --locked --release -p stead-server >&2 || die "building the server failed"
cargo build --quiet --locked --release -p stead-sandbox --example launch_time >&2 || die "building the launch timer failed"
need_uv target/tools/toolchains

STEAD__BUILDS__REGISTRY_HOSTS=$(registry_hosts | tr ' ' ',')
[ -n "$STEAD__BUILDS__REGISTRY_HOSTS" ] || unset STEAD__BUILDS__REGISTRY_HOSTS
export STEAD__BUILDS__REGISTRY_HOSTS 2>/dev/null || true
exec /usr/bin/python3 -B scripts/bench/main.py --runtime "$STEAD_RUNTIME" --uv target/tools/toolchains/uv/bin/uv "$@"
