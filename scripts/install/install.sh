#!/bin/sh
# Makes a service out of a checkout. `make build`, `make install` and `make toolchains` call it; docs/installing.md tells the rest.
#
#   build       compiles the server and the runtime that belongs to it, beneath target/
#   files       puts what was built where it belongs, beneath DESTDIR: PREFIX (/usr/local), SYSCONFDIR (/etc). Compiles nothing.
#   toolchains  puts uv, pnpm and Yarn where the server looks for them: DATA (/var/lib/stead)
set -eu
cd "$(dirname "$0")/../.."
. scripts/prepare.sh

prefix=${PREFIX:-/usr/local}
sysconfdir=${SYSCONFDIR:-/etc}
data=${DATA:-/var/lib/stead}
destination=${DESTDIR:-}

build() {
    need_packages cc=gcc /usr/include/stdio.h=libc6-dev make=make curl=curl /etc/ssl/certs/ca-certificates.crt=ca-certificates
    need_rust
    say "building (the first time takes some minutes)"
    # The runtime first: the server is built to run this one alone.
    build_runtime
    CARGO_TARGET_DIR=target cargo build --quiet --locked --release -p stead-server >&2 || die "building the server failed"
    ln -sf "$STEAD_RUNTIME" target/release/stead-runtime
}

files() {
    bin=$destination$prefix/bin
    units=$destination$prefix/lib/systemd/system
    configuration=$sysconfdir/stead/stead.toml
    for program in stead stead-runtime; do
        [ -x "target/release/$program" ] || die "target/release/$program is not there" "build it first: make build"
    done
    # A program that runs is replaced, not written to.
    install -D -m 0755 target/release/stead-runtime "$bin/stead-runtime"
    install -D -m 0755 target/release/stead "$bin/stead"
    mkdir -p "$units"
    sed -e "s,@BIN@,$prefix/bin,g" -e "s,@CONFIGURATION@,$configuration,g" -e "s,@DATA@,$data,g" \
        scripts/install/stead.service >"$units/stead.service"
    if [ -e "$destination$configuration" ]; then
        say "$destination$configuration stays as it is"
    else
        mkdir -p "$destination$sysconfdir/stead"
        # Every option as a comment, so that a later version's defaults count. It may come to hold a password.
        (umask 077 && target/release/stead config | sed 's/^\([a-z_]\)/# \1/' >"$destination$configuration")
    fi
    say "installed $bin/stead, $bin/stead-runtime, $units/stead.service"
}

toolchains() {
    need_tools
    mkdir -p -m 0700 "$destination$data"
    need_uv "$destination$data/toolchains"
    need_node_tools "$destination$data/toolchains"
}

case ${1:-} in
    build | files | toolchains) "$1" ;;
    *) die "install.sh takes one of: build, files, toolchains" ;;
esac
