#!/bin/bash
# Runs the README's tour word for word: every line of its section that begins with `$ `, in order, in one shell. Needs STEAD_URL
# and STEAD_KEY and `stead` on the PATH, as ./run sets them. Fails at the first command that fails or whose output lacks a line
# that the README shows below it; ids, times, sizes of made files, and versions of what is not pinned may differ, and `…`
# stands for anything.
set -eu -o pipefail
readme=$(cd "$(dirname "$0")/.." && pwd)/README.md
if stead project show hello > /dev/null 2>&1; then
    echo "there is a project \`hello\` already, which the tour makes; STEAD_DATA names a data directory without it" >&2
    exit 1
fi
scratch=$(mktemp -d)
# What the tour made goes, so that it can be taken again.
clean() {
    rm -rf "$scratch"
    [ -z "${HARNESS:-}" ] || curl -s -o /dev/null -X DELETE "$STEAD_URL/v1/harnesses/$HARNESS" -H "Authorization: Bearer $STEAD_KEY" || true
    stead project delete hello > /dev/null 2>&1 || true
}
trap clean EXIT
mkdir "$scratch/tour" "$scratch/work"
# Each command into a file of its own, the lines below it into another.
awk -v into="$scratch/tour" '
    /^## / { inside = /^## A two-minute tour/; shown = 0 }
    !inside { next }
    /^```/ { shown = 0; next }
    /^\$ / { number = sprintf("%03d", ++count); print substr($0, 3) > (into "/" number ".command"); shown = 1; next }
    shown { print > (into "/" number ".shown") }
' "$readme"
cd "$scratch/work"
count=0
for file in "$scratch"/tour/*.command; do
    [ -e "$file" ] || { echo "the README has no tour" >&2; exit 1; }
    command=$(cat "$file")
    printf '\n$ %s\n' "$command"
    status=0
    eval "$command" < /dev/null > "$scratch/output" 2>&1 || status=$?
    cat "$scratch/output"
    [ "$status" = 0 ] || { echo "the command ended with status $status" >&2; exit 1; }
    shown=${file%.command}.shown
    [ ! -e "$shown" ] || /usr/bin/python3 - "$shown" "$scratch/output" <<'PYTHON'
import re, sys

def alike(line):
    for pattern, word in [
        (r"\b(henv|hsess|chrn|resp)_[0-9a-f]+", r"\1_ID"),
        (r"\d{4}-\d\d-\d\dT[\d:]+Z", "TIME"),
        (r"\d+ [A-Z][a-z]{2} +\d+ [\d:]+", "SIZE TIME"),
        (r"\b[\d.]+m?s\b", "DURATION"),
        (r"==\S+", "==VERSION"),
        (r"\b(uv|pip|glibc|python|node|npm) [\d.]+", r"\1 VERSION"),
        (r"\b(npm registry|requirements\.txt) [0-9a-f]{12}$", r"\1 DIGEST"),
        (r"saved \d+ files", "saved N files"),
        (r"\s+", " "),
    ]:
        line = re.sub(pattern, word, line)
    return line.strip()

output = [alike(line) for line in open(sys.argv[2], encoding="utf-8")]
# A tour taken before has left the layer that this one would install.
reused = any(": nothing to install," in line for line in output)
installing = False
rest = iter(output)
for line in open(sys.argv[1], encoding="utf-8"):
    if line.strip() in ("", "…"):
        continue
    installing = line.rstrip().endswith(": installing") or installing and not line.startswith("version ")
    if reused and installing:
        continue
    if alike(line) not in rest:
        sys.exit("the README shows a line here that did not come: " + line.strip())
PYTHON
    count=$((count + 1))
done
printf '\n%s commands of the tour ran, and said what the README shows.\n' "$count"
