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
archives=()
: >"$work/unpacked"
while read -r _ file _ hash; do
    package=${file%%_*}
    if grep -qxF -- "Package: $package" /var/lib/dpkg/status && ! grep -qxF -- "$package" "$work/needed"; then continue; fi
    archive=$cache/cache/archives/$file
    # apt has checked what it fetched. What is unpacked is checked here, so that this holds whatever apt is set to.
    if [ "${hash%%:*}" != SHA256 ] || ! printf '%s  %s\n' "${hash#*:}" "$archive" | sha256sum --check --status; then
        echo "E: $file is not what the index says" >&2
        exit 1
    fi
    case $package in
        # The C library and its loader go together, and the loader is the machine's.
        libc6 | libc-bin | libc6-*-cross) echo "$package stays the machine's own" && continue ;;
    esac
    dpkg-deb --extract "$archive" "$root"
    archives+=("$archive")
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

# Alternatives that a package sets up in plain words, and those that ImageMagick sets up in a loop.
alternative() { if [ ! -e "$root$1" ] && [ -e "$root$2" ]; then mkdir -p "$root${1%/*}" && ln -sfnr "$root$2" "$root$1"; fi; }
for archive in "${archives[@]}"; do
    { dpkg-deb --info "$archive" postinst 2>/dev/null || true; } | sed -e ':a' -e '/\\$/{N;s/\\\n//;ba' -e '}' |
        { grep -oE -e '--(install|slave) +/[^ $]+ +[^ $]+ +/[^ $]+' || true; } |
        while read -r _ link _ path; do alternative "$link" "$path"; done
done
for program in "$root"/usr/bin/*-im[67].q16; do
    if [ -e "$program" ]; then alternative "/usr/bin/$(basename "${program%-im[67].q16}")" "/usr/bin/${program##*/}"; fi
done

# Where programs look for their own modules, as sessions are told by variables.
for libraries in "$root"/usr/lib/*-linux-gnu*; do
    if [ -d "$libraries/graphviz" ] && [ -x "$root/usr/bin/dot" ]; then
        GVBINDIR=$libraries/graphviz LD_LIBRARY_PATH=$libraries "$root/usr/bin/dot" -c || echo "dot cannot list its plugins"
    fi
    for magick in "$libraries"/ImageMagick-[0-9]*; do
        [ -d "$magick" ] || continue
        major=${magick##*/ImageMagick-} major=${major%%.*}
        mkdir -p "$libraries/magick"
        for pair in coders="$magick"/modules-*/coders filters="$magick"/modules-*/filters config="$magick"/config-* \
            etc="$root/etc/ImageMagick-$major" share="$root/usr/share/ImageMagick-$major"; do
            for place in ${pair#*=}; do
                if [ -d "$place" ]; then ln -sfnr "$place" "$libraries/magick/${pair%%=*}"; fi
            done
        done
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
