# Installs what building and running Stead needs and the machine lacks. Sourced by ./run and ./test, never run by itself.
# POSIX shell. It says what it installs, and installs nothing that is there.

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $1"; [ -z "${2:-}" ] || { say ""; say "hint: $2"; }; exit 1; }

# need_packages COMMAND=PACKAGE...: Debian packages for commands (or files, by absolute path) that are missing. What the caller
# has found missing by itself stands as /nonexistent=PACKAGE.
need_packages() {
    missing=""
    for pair in "$@"; do
        command=${pair%%=*}
        case $command in
            # Some package scripts make even this one.
            /nonexistent) missing="$missing ${pair#*=}" ;;
            /*) [ -e "$command" ] || missing="$missing ${pair#*=}" ;;
            *) command -v "$command" >/dev/null 2>&1 || missing="$missing ${pair#*=}" ;;
        esac
    done
    [ -n "$missing" ] || return 0
    [ "$(id -u)" = 0 ] || die "these packages are missing:$missing" "as root: apt-get install -y$missing"
    command -v apt-get >/dev/null 2>&1 || die "these packages are missing:$missing" "install them with your system's package manager"
    say "installing$missing"
    if [ -z "${STEAD_APT_UPDATED:-}" ]; then
        output=$(apt-get update -qq 2>&1) || { say "$output"; die "apt-get update failed"; }
        STEAD_APT_UPDATED=1
    fi
    # shellcheck disable=SC2086 # a list of package names
    output=$(DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing 2>&1) ||
        { say "$output"; die "apt-get install$missing failed"; }
}

# Debian's own interpreters: what a session has under /usr is the host's.
need_tools() {
    set -- cc=gcc /usr/include/stdio.h=libc6-dev make=make curl=curl \
        /etc/ssl/certs/ca-certificates.crt=ca-certificates /usr/bin/bash=bash /usr/bin/git=git \
        /usr/bin/python3=python3 /usr/bin/node=nodejs /usr/bin/npm=npm
    # Python's modules lie in folders named after its version, so Python itself says whether it has them.
    /usr/bin/python3 -c 'import pip' >/dev/null 2>&1 || set -- "$@" /nonexistent=python3-pip
    /usr/bin/python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || set -- "$@" /nonexistent=python3-venv
    need_packages "$@"
}

# Rust by rustup, in the version that rust-toolchain.toml names.
need_rust() {
    cargo_home=${CARGO_HOME:-${HOME:-/root}/.cargo}
    case ":$PATH:" in *":$cargo_home/bin:"*) ;; *) PATH="$cargo_home/bin:$PATH" ;; esac
    export PATH
    if ! command -v cargo >/dev/null 2>&1; then
        say "installing Rust by rustup"
        curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y -q --no-modify-path --profile minimal >&2 ||
            die "installing Rust failed" "install it by hand from https://rustup.rs and try again"
    fi
    cargo --version >/dev/null 2>&1 || rustup toolchain install >&2 || die "the Rust toolchain of rust-toolchain.toml cannot be installed"
}

# The runtime is a static binary of its own, built into its own folder so that its flags disturb nothing else.
build_runtime() {
    # Small rather than fast: there is one in every environment.
    CARGO_TARGET_DIR=target/runtime RUSTFLAGS='-C target-feature=+crt-static' \
        CARGO_PROFILE_RELEASE_OPT_LEVEL=s CARGO_PROFILE_RELEASE_LTO=fat CARGO_PROFILE_RELEASE_PANIC=abort CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 \
        cargo build --quiet --locked --release -p stead-runtime --target "$(rustc -vV | sed -n 's/^host: //p')" >&2 ||
        die "building the runtime failed"
    STEAD_RUNTIME="$PWD/target/runtime/$(rustc -vV | sed -n 's/^host: //p')/release/stead-runtime"
    # A server that is built after this runs no other runtime from beside it.
    STEAD_RUNTIME_SHA256=$(sha256sum <"$STEAD_RUNTIME" | cut -d ' ' -f 1)
    export STEAD_RUNTIME STEAD_RUNTIME_SHA256
}

# need_uv DIRECTORY: uv from the Python index, as a toolchain of the server.
need_uv() {
    [ ! -x "$1/uv/bin/uv" ] || return 0
    say "installing uv into $1/uv"
    mkdir -p "$1/uv/bin" || die "cannot write to $1"
    scratch=$(mktemp -d)
    if /usr/bin/python3 -m venv "$scratch/venv" >&2 && "$scratch/venv/bin/pip" install --quiet uv >&2; then
        cp "$scratch/venv/bin/uv" "$1/uv/bin/uv.new" && chmod 0755 "$1/uv/bin/uv.new" && mv "$1/uv/bin/uv.new" "$1/uv/bin/uv"
    else
        say "uv could not be installed; builds use pip, which is slower"
    fi
    rm -rf "$scratch"
}

# need_node_tools DIRECTORY: pnpm and Yarn from the npm registry, as toolchains of the server. A lock is installed by a version that
# writes its format, so there are several; all of them run on Node 18 and later.
need_node_tools() {
    need_node_tool "$1/pnpm" pnpm@npm:pnpm@10.34.9 pnpm-8@npm:pnpm@8.15.9
    need_node_tool "$1/yarn" yarn@npm:yarn@1.22.22
    need_node_tool "$1/yarn-berry" yarn-3@npm:@yarnpkg/cli-dist@3.8.7 yarn-4.13@npm:@yarnpkg/cli-dist@4.13.0 \
        yarn-4.15@npm:@yarnpkg/cli-dist@4.15.0 yarn-4@npm:@yarnpkg/cli-dist@4.18.1
}

need_node_tool() {
    place=$1
    shift
    # The list of what lies there, so that another list is noticed.
    [ "$(cat "$place/installed" 2>/dev/null)" != "$*" ] || return 0
    say "installing into $place: $*"
    rm -rf "$place.new"
    mkdir -p "$place.new" || die "cannot write to $place"
    if /usr/bin/npm install --prefix "$place.new" --no-audit --no-fund --no-update-notifier --ignore-scripts --loglevel=error "$@" >&2; then
        printf '%s' "$*" >"$place.new/installed"
        rm -rf "$place" && mv "$place.new" "$place"
    else
        rm -rf "$place.new"
        say "that failed; projects with such locks cannot be built"
    fi
}

# registry_hosts: the hosts of this machine's package registries that resolve to addresses which the egress proxy denies
# (private networks and the like). An operator must name them before builds may reach them.
registry_hosts() {
    NPM_REGISTRY=$(npm config get registry 2>/dev/null) /usr/bin/python3 - <<'PYTHON'
import ipaddress, os, socket, subprocess, sys, urllib.parse
urls = [os.environ.get("NPM_REGISTRY", "")]
try:
    from pip._internal.models.index import PyPI
    urls += [PyPI.simple_url, "https://" + PyPI.file_storage_domain]
except ImportError:
    pass
for name in ("index-url", "extra-index-url"):
    got = subprocess.run([sys.executable, "-m", "pip", "config", "get", "global." + name], capture_output=True, text=True)
    urls += got.stdout.split()
try:
    # The sources of system packages. Nothing is fetched.
    argv = ["apt-get", "update", "--print-uris", "-o", "Debug::NoLocking=true"]
    got = subprocess.run(argv, capture_output=True, text=True)
    urls += [line.split()[0].strip("'") for line in got.stdout.splitlines() if line.startswith("'")]
except OSError:
    pass
hosts = []
for url in urls:
    host = urllib.parse.urlsplit(url).hostname
    if not host or host in hosts:
        continue
    try:
        addresses = {ipaddress.ip_address(info[4][0]) for info in socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)}
    except OSError:
        continue
    if any(not address.is_global for address in addresses):
        hosts.append(host)
print(" ".join(hosts))
PYTHON
}
