#!/bin/bash
# Runs the README's tour word for word: every line of its section that begins with `$ `, in order, in one shell. Needs STEAD_URL
# and STEAD_KEY and `stead` on the PATH, as ./run sets them; fails at the first command that fails.
set -eu -o pipefail
readme=$(cd "$(dirname "$0")/.." && pwd)/README.md
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
sed -n '/^## A two-minute tour/,/^## /p' "$readme" | sed -n 's/^\$ //p' > commands
[ -s commands ] || { echo "the README has no tour" >&2; exit 1; }
count=0
while IFS= read -r command <&3; do
    printf '\n$ %s\n' "$command"
    eval "$command"
    count=$((count + 1))
done 3< commands
printf '\n%s commands of the tour ran.\n' "$count"
