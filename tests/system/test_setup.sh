#!/bin/sh
# tools/setup with a made-up archive: installed packages are never removed, and upgraded only if
# that cannot be avoided.
#
# Needs SOURCE_ROOT. apt-get, dpkg-query and id are scripts of this test: curl and libcurl4 are
# installed in version 14, libudev1 in version 38; the archive has 15, and 38 and 39.
# libcurl4-openssl-dev needs libcurl4 of its own version, and likewise libudev-dev; curl needs
# libcurl4 of its own version.
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
cd "$work"

cat >bin/id <<'END'
#!/bin/sh
echo 0
END
cat >bin/dpkg-query <<'END'
#!/bin/sh
format=$3
shift 3
for package in "$@"; do
    case $package in
    libcurl4-openssl-dev) continue ;; # is missing
    libcurl4 | curl) source=curl version=14 ;;
    libudev1) source=systemd version=38 ;;
    *) source=$package version=1 ;;
    esac
    case $format in
    *Status*) echo "installed $package" ;;
    *Version*) echo "$source $version" ;;
    *) echo "$source" ;;
    esac
done
END
cat >bin/apt-get <<'END'
#!/bin/sh
# Resolves like apt: a pinned package stays, and packages that depend on another version of it are
# removed.
pins=/dev/null simulates=no removes=yes
for word in "$@"; do
    case $word in
    Dir::Etc::Preferences=*) pins=${word#*=} ;;
    -s) simulates=yes ;;
    --no-remove) removes=no ;;
    update) exit 0 ;;
    esac
done
is_pinned() { grep -q "^Package: \(src:\)\{0,1\}$1\$" "$pins"; }
if is_pinned libcurl4; then
    exit 100 # 14 is not in the archive any more
elif is_pinned curl; then
    [ "$removes" = yes ] || exit 100
    echo "Remv curl [14]"
else
    echo "Inst curl [14] (15)"
fi
echo "Inst libcurl4 [14] (15)"
is_pinned systemd || echo "Inst libudev1 [38] (39)"
[ "$simulates" = yes ] || echo "$*" >"$WORK/installed"
[ "$simulates" = yes ] || cp "$pins" "$WORK/pins"
END
chmod +x bin/*

WORK=$work PATH="$work/bin:$PATH" "$SOURCE_ROOT/tools/setup" build >out 2>err
fail() {
    echo "FAILED: $*"
    cat out err installed pins
    exit 1
}
grep -q -- '--no-remove' installed || fail 'something may be removed'
! grep -q '^Remv' out err || fail 'something is removed'
grep -q 'packages of curl must be upgraded' err || fail 'the upgraded packages are not named'
grep -q '^Package: src:systemd$' pins || fail 'a package that could stay is not pinned'
! grep -q 'curl' pins || fail 'a pin that is in the way is kept'
