# Resolves the packages that are this script's arguments with apt, fetches what the machine lacks, and unpacks it into ./apt.
# Nothing is configured and no maintainer script runs.
set -euo pipefail
cache=/var/cache/stead/apt work=/tmp/stead-apt root=$PWD/apt
mkdir -p "$cache/state/lists/partial" "$cache/cache/archives/partial" "$work/none/partial"

# apt prints its faults on standard error with a line for each, which the log keeps.
apt-get update
# Named packages are wanted even where the machine has them: it may lose them, and its versions are not the ones asked for.
# What apt would have to remove from the machine stays there.
choose() { apt-get install --yes --reinstall --allow-downgrades --allow-change-held-packages "${@}"; }
choose --quiet=2 --print-uris -o "Dir::Cache::archives=$work/none/" -- "$@" >"$work/uris"

# Packages of the machine that depend on what is chosen may have to follow it. Only what the named ones depend on is of use here.
names=()
for spec in "$@"; do names+=("${spec%%[=/]*}"); done
apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances "${names[@]}" |
    sed -n 's/^\([a-z0-9][^: ]*\).*/\1/p' | sort -u >"$work/needed"

choose --quiet=1 --download-only -- "$@"

# Merged as the machine's own system is, so that each kind of file is in one place.
mkdir -p "$root/usr/bin" "$root/usr/sbin" "$root/usr/lib"
for name in bin sbin lib; do ln -sfn "usr/$name" "$root/$name"; done
: >"$work/unpacked"
while read -r _ file _ hash; do
    package=${file%%_*}
    grep -qxF -- "$package" "$work/needed" || continue
    archive=$cache/cache/archives/$file
    # Archives of earlier builds are taken again, so it is checked that they are what the signed index says.
    if [ "${hash%%:*}" != SHA256 ] || ! printf '%s  %s\n' "${hash#*:}" "$archive" | sha256sum --check --status; then
        rm -f "$archive"
        echo "E: $file is not what the index says: it was removed, build again" >&2
        exit 1
    fi
    case $package in
        # The C library and its loader go together, and the loader is the machine's.
        libc6 | libc-bin | libc6-*-cross) echo "$package stays the machine's own" && continue ;;
    esac
    dpkg-deb --extract "$archive" "$root"
    dpkg-deb --show --showformat='${Package} ${Version}\n' "$archive" | tee -a "$work/unpacked" | sed 's/^/unpacked /'
done <"$work/uris"
sort -u -o "$work/unpacked" "$work/unpacked"

# Links lead to where the files are: beside them in ./apt, else on the machine. Some lead nowhere, such as those to alternatives,
# which maintainer scripts would have made.
find "$root" -type l ! -path "$root/bin" ! -path "$root/sbin" ! -path "$root/lib" -print0 | while IFS= read -r -d '' link; do
    target=$(readlink "$link") place=${link%/*}
    case $target in /*) path=$target ;; *) path=$(realpath -ms "${place#"$root"}/$target") ;; esac
    if [ -e "$root$path" ]; then
        case $target in /*) ln -sfnr "$root$path" "$link" ;; esac
    elif [ -e "$path" ]; then
        ln -sfn "$path" "$link"
    fi
done

# Libraries in a directory of their own are found by a loader's configuration or by alternatives, neither of which is here: they
# get links where libraries are looked for, unless the machine has one of that name.
for libraries in "$root"/usr/lib/*-linux-gnu*; do
    [ -d "$libraries" ] || continue
    for library in "$libraries"/*/lib*.so.[0-9]* "$libraries"/*/lib*-[0-9]*.so; do
        name=${library##*/}
        if [ -e "$library" ] && [ ! -e "$libraries/$name" ] && [ ! -e "/usr/lib/${libraries##*/}/$name" ]; then
            ln -sr "$library" "$libraries/$name"
        fi
    done
    for modules in "$libraries"/perl5/[0-9]*; do
        if [ -d "$modules" ]; then ln -sfn "${modules##*/}" "$libraries/perl5/current"; fi
    done
done

# Files and scripts that tell compilers where a library lies say where it lies now.
for file in "$root"/usr/lib/*/pkgconfig/*.pc "$root"/usr/lib/pkgconfig/*.pc "$root"/usr/share/pkgconfig/*.pc; do
    if [ -f "$file" ] && [ ! -L "$file" ]; then sed -i "s,^\([a-z_]*\) *= */usr\(/\|$\),\1=$root/usr\2," "$file"; fi
done
for file in "$root"/usr/bin/*[-_]config; do
    if [ -f "$file" ] && [ ! -L "$file" ] && head -c 2 "$file" | grep -q '#!'; then
        sed -i "s,/usr/\(include\|lib\)\>,$root/usr/\1,g" "$file"
    fi
done
