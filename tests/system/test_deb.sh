#!/bin/sh
# The Debian packages build, install in a minimal Debian, and work there.
#
# Needs SOURCE_ROOT. Skipped (77) where packages or a fresh Debian cannot be made: without
# dpkg-buildpackage, debhelper or debootstrap, or without root. `make deb-test` installs these.
set -eu

skip() {
    echo "skipped: $*"
    exit 77
}
[ "$(id -u)" = 0 ] || skip "making a fresh Debian takes root"
for tool in dpkg-buildpackage dh debootstrap; do
    command -v "$tool" >/dev/null || skip "no $tool"
done
mirror=$(apt-get indextargets --format '$(SITE) $(RELEASE)' 2>/dev/null | awk '$2 !~ /-/ { print $1; exit }')
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
[ -n "$mirror" ] && [ -n "$release" ] || skip "no Debian mirror is known here"

work=$(mktemp -d)
root=$work/root
trap 'rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

mkdir "$work/source"
tar -C "$SOURCE_ROOT" -c --exclude='./build*' --exclude=./.git . | tar -x -C "$work/source"
"$work/source/tools/make-deb" >"$work/made" 2>&1 || { cat "$work/made" >&2; fail "make deb"; }
debootstrap --variant=minbase "$release" "$root" "$mirror" >"$work/debootstrap.log" 2>&1 ||
    { tail -5 "$work/debootstrap.log" >&2; skip "debootstrap failed: cannot make a fresh Debian"; }
mkdir "$root/packages"
cp "$work"/source/build-deb/*.deb "$root/packages"
rm "$root"/packages/*-dbgsym_*.deb
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp -r /etc/apt/apt.conf.d /etc/apt/sources.list* "$root/etc/apt/" 2>/dev/null || true

inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive "$@"; }
inside apt-get -qq update >"$work/apt.log" 2>&1 || { cat "$work/apt.log" >&2; skip "no package lists"; }

# The program alone first: without the store packages, their addresses say which package to install.
inside sh -c 'apt-get -qq install -y --no-install-recommends /packages/conclave_*.deb' \
    >"$work/apt.log" 2>&1 || { tail -20 "$work/apt.log" >&2; fail "installing conclave"; }
inside mount -t proc proc /proc 2>/dev/null && trap 'umount "$root/proc"; rm -rf "$work"' EXIT
[ "$(inside conclave run hello --once -- sh -c 'echo token $CONCLAVE_TOKEN')" = "token 1" ] ||
    fail "conclave run in a fresh Debian"
inside conclave status hello >/dev/null || true
inside conclave run x --via postgres://nowhere/x -n -- true >"$work/out" 2>&1 &&
    fail "a postgres address works without its module"
grep -q postgres "$work/out" || fail "nothing about the missing module: $(cat "$work/out")"

inside sh -c 'apt-get -qq install -y --no-install-recommends /packages/*.deb' >"$work/apt.log" 2>&1 ||
    { tail -20 "$work/apt.log" >&2; fail "installing everything"; }
inside conclave stores >"$work/stores"
for store in sqlite postgres etcd zookeeper; do
    grep -q "^$store" "$work/stores" || fail "no $store among: $(cat "$work/stores")"
done
[ -f "$root/usr/lib/systemd/system/conclave-run@.service" ] || fail "no unit"
grep -q '^ExecStart=/usr/bin/conclave ' "$root/usr/lib/systemd/system/conclave-run@.service" ||
    fail "the unit names another program"
inside dpkg --audit | grep . && fail "dpkg has complaints"
inside sh -c 'dpkg --purge $(dpkg -l | awk "/conclave/ { print \$2 }")' >/dev/null || fail "purging"
echo "built, installed, tried and purged"
