# The sample project: Sphinx, the documentation generator, fetched as it was published. Sourced by ./run.

SAMPLE=sphinx
SAMPLE_TRY='sphinx-build --version'

# make_sample DATA: imports and builds it unless a version of it is ready.
make_sample() {
    if stead --json project show "$SAMPLE" 2>/dev/null | grep -q '"status": *"ready"'; then
        say "the sample project \`$SAMPLE\` is built already"
        return 0
    fi
    sample=$1/sample
    mkdir -p "$sample"
    if ! ls "$sample"/*.tar.gz >/dev/null 2>&1; then
        say "fetching the source of Sphinx 8.1.3"
        /usr/bin/python3 -m venv "$sample/venv" >&2 &&
            "$sample/venv/bin/pip" download --quiet --no-deps --no-binary sphinx --dest "$sample" 'sphinx==8.1.3' >&2 ||
            die "the sample cannot be fetched"
        rm -rf "$sample/venv"
    fi
    say "importing and building it"
    stead project show "$SAMPLE" >/dev/null 2>&1 ||
        stead project create Sphinx --description 'The Sphinx documentation generator' \
            --entry 'sphinx-build -b html SOURCE OUTPUT' >/dev/null || die "the sample cannot be created"
    stead project import "$SAMPLE" "$sample"/*.tar.gz >&2 || die "the sample cannot be imported"
    # Sphinx ships no package.json; one npm package beside it makes the pages it writes smaller.
    printf '{ "name": "sphinx-site", "private": true, "dependencies": { "html-minifier-terser": "7.2.0" } }\n' \
        > "$sample/package.json"
    stead project put "$SAMPLE" "$sample/package.json" >/dev/null || die "the sample's package.json cannot be written"
    stead project build "$SAMPLE" >&2 || die "the sample cannot be built" "stead project log $SAMPLE"
}
