#!/bin/bash
# Ten real projects, as they were published: five source distributions of the Python index and five npm packages, each of
# another shape (docs/real-projects.md). Each is fetched, imported, built and run in a session, and must say what stands below.
# Needs STEAD_URL and STEAD_KEY and `stead` on the PATH, as ./run sets them.
#
#   scripts/projects.sh [NAME...]     all of them, or some
set -eu -o pipefail
scratch=$(mktemp -d)
made=
clean() {
    for project in $made; do stead project delete "$project" > /dev/null 2>&1 || true; done
    rm -rf "$scratch"
}
trap clean EXIT
wanted=" $* "
count=0

# fetch pip|npm PACKAGE VERSION: the path of its archive.
fetch() {
    case $1 in
        pip)
            [ -x "$scratch/venv/bin/pip" ] || /usr/bin/python3 -m venv "$scratch/venv" >&2
            "$scratch/venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --no-binary "$2" --dest "$scratch/$2" "$2==$3" >&2
            ls "$scratch/$2"/*.tar.gz ;;
        npm)
            mkdir -p "$scratch/$2"
            (cd "$scratch/$2" && npm pack --silent "$2@$3" > /dev/null)
            ls "$scratch/$2"/*.tgz ;;
    esac
}

# project pip|npm PACKAGE VERSION 'FILE=CONTENT or nothing' SCRIPT EXPECTED: imports, builds, runs; the script's output must hold
# the expected text.
project() {
    case $wanted in "  " | *" $2 "*) ;; *) return 0 ;; esac
    local archive output began=$SECONDS
    printf '== %s %s (%s)\n' "$2" "$3" "$1"
    archive=$(fetch "$1" "$2" "$3")
    ! stead project show "real-$2" > /dev/null 2>&1 || stead project delete "real-$2" > /dev/null 2>&1
    stead project create "Real $2" > /dev/null 2>&1
    made="$made real-$2"
    stead project import "real-$2" "$archive" > "$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
    if [ -n "$4" ]; then
        printf '%s\n' "${4#*=}" > "$scratch/${4%%=*}"
        stead project put "real-$2" "$scratch/${4%%=*}" > /dev/null
    fi
    stead project build "real-$2" > "$scratch/log" 2>&1 || { tail -n 40 "$scratch/log"; echo "$2 does not build" >&2; exit 1; }
    output=$(stead run "real-$2" -- bash -c "$5" 2> "$scratch/errors") ||
        { printf '%s\n' "$output"; cat "$scratch/errors"; echo "$2 does not run" >&2; exit 1; }
    case $output in
        *"$6"*) printf '%s\n   built and run in %s s\n' "$(printf '%s' "$output" | tail -n 3 | sed 's/^/   /')" $((SECONDS - began)) ;;
        *) printf '%s\n' "$output"; echo "$2 does not say: $6" >&2; exit 1 ;;
    esac
    count=$((count + 1))
}

# A pyproject.toml of flit's.
project pip flask 3.1.0 '' \
    'python -c "import flask; app = flask.Flask(\"a\"); app.route(\"/\")(lambda: \"served by flask\"); print(app.test_client().get(\"/\").text)"' \
    'served by flask'
# setup.cfg and setup.py without a pyproject.toml: one line says that the project itself is wanted.
project pip httpie 3.2.4 'requirements.txt=.' 'http --ignore-stdin --offline --print=H POST example.org name=value' 'POST / HTTP/1.1'
# A pyproject.toml of poetry's own kind, whose dependencies no standard table names.
project pip rich 13.9.4 '' 'python -c "from rich.table import Table; from rich import print; t = Table(title=\"rich table\"); t.add_row(\"a cell of some width\"); print(t)"' 'rich table'
# A module in C, compiled in the build.
project pip markupsafe 3.0.2 '' \
    'python -c "from markupsafe import _speedups, escape; print(_speedups.__file__, escape(\"<b>\"))"' '/.venv/lib/python'
# uv.lock, a dynamic version, some eighty packages.
project pip fastmcp 2.10.6 '' 'fastmcp version' '2.10.6'
# What is published holds no lock, so npm resolves; the tools of its authors are left out.
project npm express 4.21.2 '.npmrc=omit=dev' \
    'node -e "const app = require(process.env.PROJECT_ROOT)(); app.get(\"/\", (q, r) => r.send(\"served by express\")); const s = app.listen(0, async () => { console.log(await (await fetch(\"http://127.0.0.1:\" + s.address().port)).text()); s.close() })"' \
    'served by express'
# Twenty megabytes of code, no dependency.
project npm typescript 5.6.3 '.npmrc=omit=dev' \
    'echo "const x: number = 41 + 1; console.log(x)" > a.ts && node $PROJECT_ROOT/bin/tsc a.ts && node a.js' '42'
# Programs of its dependencies, and the tools of its authors with them.
project npm http-server 14.1.1 '' \
    'echo served > index.html; node $PROJECT_ROOT/bin/http-server . -p 8080 -a 127.0.0.1 -s & for n in $(seq 50); do curl -sf http://127.0.0.1:8080/ && break; sleep 0.1; done' 'served'
# A script of its own that puts the platform's binary in place.
project npm esbuild 0.24.0 '' 'echo "let answer = 40 + 2; console.log(answer)" > a.js; $PROJECT_ROOT/bin/esbuild --minify a.js' 'console.log'
# Ninety packages, its own program reads a configuration of the session's.
project npm eslint 9.16.0 '.npmrc=omit=dev' \
    'printf "module.exports = [{ rules: { \"no-debugger\": 2 } }]" > eslint.config.cjs; echo debugger > a.js; node $PROJECT_ROOT/bin/eslint.js -c eslint.config.cjs a.js || true' \
    'no-debugger'

printf '%s of the real projects were imported, built and run.\n' "$count"
