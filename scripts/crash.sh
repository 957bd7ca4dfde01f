#!/bin/sh
# Kills the server at seeded moments while ten clients work, as often as STEAD_CRASH_ROUNDS says, and looks at everything each time.
#
#   STEAD_CRASH_ROUNDS=1000 STEAD_CRASH_SEED=1 scripts/crash.sh
#   STEAD_CRASH_ROUNDS=1 STEAD_CRASH_SEED=17 STEAD_CRASH_MOMENT=turn.ran scripts/crash.sh    one round again
set -eu
cd "$(dirname "$0")/.."
. scripts/prepare.sh
need_tools
need_rust
build_runtime
export STEAD_CRASH_ROUNDS="${STEAD_CRASH_ROUNDS:-1000}" STEAD_CRASH_SEED="${STEAD_CRASH_SEED:-1}" STEAD_NO_SKIP=1
exec cargo test --locked -p stead-server --test it crash::rounds -- --nocapture
