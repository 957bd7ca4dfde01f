#!/bin/sh
# Lets clients work with a throw-away server for SOAK_SECONDS (default: 3600) and watches what it holds. Fails when something grows
# in the second half, when a client got a wrong answer or when the server ended. docs/benchmarks.md says more.
#
#   SOAK_SECONDS=300 scripts/soak.sh
set -eu
cd "$(dirname "$0")/.."
. scripts/prepare.sh

[ "$(id -u)" = 0 ] || die "sandboxes of the native provider need root"
need_tools
need_rust
say "building release binaries"
build_runtime
cargo build --quiet --locked --release -p stead-server >&2 || die "building the server failed"
exec /usr/bin/python3 -B scripts/bench/soak.py --runtime "$STEAD_RUNTIME" "$@"
