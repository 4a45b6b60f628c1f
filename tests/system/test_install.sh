#!/bin/sh
# A program that uses only pkg-config builds against an installed conclave, in C and in C++.
#
# Needs SOURCE_ROOT. Builds and installs with make, as a user would, in folders of its own: the
# prefix is compiled into what is installed, and the build tree under test must not change.
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

make_install() {
    make -C "$SOURCE_ROOT" --no-print-directory install BUILD="$work/build" PREFIX="$prefix" "$@" \
        >"$work/make.log" 2>&1 || { cat "$work/make.log" >&2; fail "make install $*"; }
}

# The playground is left out: compiling the simulator twice would take longer than all the rest.
(cd "$SOURCE_ROOT" && tools/configure "$work/build" -Dweb=disabled)

# First below DESTDIR, as packagers do: if the prefix were ignored, nothing would be overwritten.
make_install DESTDIR="$work/stage"
[ -x "$work/stage$prefix/bin/conclave" ] || fail "DESTDIR and PREFIX are not respected"
[ ! -e "$prefix" ] || fail "DESTDIR was given, but something is installed outside"
make_install

# ---- what must be there ---------------------------------------------------------------------------

[ -x "$prefix/bin/conclave" ] || fail "no program"
"$prefix/bin/conclave" --version | grep -q '0\.1\.0' || fail "conclave --version"
pc=$(find "$prefix" -name conclave.pc)
[ -n "$pc" ] || fail "no pkg-config file"
lib=$(dirname "$(dirname "$pc")")
[ -f "$lib/libconclave.a" ] || fail "no static library"
[ "$(readlink "$lib/libconclave.so")" = libconclave.so.0 ] || fail "no libconclave.so -> .so.0"
readelf -d "$lib/libconclave.so.0" | grep -q 'SONAME.*\[libconclave\.so\.0\]' || fail "soname"
[ -f "$prefix/share/bash-completion/completions/conclave" ] || fail "no completion"
[ -f "$prefix/share/zsh/site-functions/_conclave" ] || fail "no completion for zsh"
for page in "$SOURCE_ROOT"/docs/man/*.[1-9]; do
    [ -e "$page" ] || continue
    name=$(basename "$page")
    [ -n "$(find "$prefix/share/man" -name "$name*")" ] || fail "man page $name is not installed"
done

for name in $(sed -n 's/^ *\(cv_[a-z0-9_]*\);$/\1/p' "$SOURCE_ROOT/conclave.map"); do
    [ -n "$(find "$prefix/share/man/man3" -name "$name.3*")" ] || fail "no man page of $name"
done

# The shared library exports cv_* and nothing else: neither cv__* nor a name like ring_init.
shown=$(nm -D --defined-only --format=posix "$lib/libconclave.so.0" |
    awk '$2 != "A" { sub(/@.*/, "", $1); print $1 }')
echo "$shown" | grep -qx cv_core_step || fail "cv_core_step is not exported"
wrong=$(echo "$shown" | grep -v '^cv_[^_]' || true)
[ -z "$wrong" ] || fail "exported but not public: $wrong"

# ---- programs against it --------------------------------------------------------------------------

export PKG_CONFIG_PATH="$lib/pkgconfig"
cat >"$work/embed.c" <<'PROGRAM'
#include <conclave/conclave.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    struct cv_config config;
    const struct cv_protocol *bully = cv_protocol_find("bully");
    if (bully == NULL || strcmp(cv_version(), CV_VERSION) != 0) {
        return 1;
    }
    struct cv_election_options options = CV_ELECTION_OPTIONS_INIT;
    struct cv_election_status status = CV_ELECTION_STATUS_INIT;
    options.lease_ns = 1;
    if (cv_open(NULL, "x", NULL, &options, NULL) != CV_E_INVALID || cv_status(NULL, &status) == CV_OK) {
        return 1;
    }
    cv_config_init(&config, bully, 1, 3);
    if (cv_core_configure(bully, &config, NULL) != CV_OK) {
        return 1;
    }
    printf("%s needs %zu bytes\n", bully->name, cv_core_size(bully, &config));
    return 0;
}
PROGRAM
cp "$work/embed.c" "$work/embed.cc"
flags="-Wall -Wextra -Werror -pedantic"
# The output of pkg-config is meant to be split into words.
gcc -std=c11 $flags "$work/embed.c" -o "$work/embed-c" $(pkg-config --cflags --libs conclave)
g++ -std=c++11 $flags "$work/embed.cc" -o "$work/embed-cc" $(pkg-config --cflags --libs conclave)
gcc -std=c11 $flags "$work/embed.c" -o "$work/embed-static" \
    $(pkg-config --cflags conclave) "$lib/libconclave.a" \
    $(pkg-config --libs --static conclave | sed 's/-lconclave//')
for program in embed-c embed-cc; do
    LD_LIBRARY_PATH="$lib" "$work/$program" | grep -q '^bully needs [0-9]* bytes$' ||
        fail "$program does not run"
done
"$work/embed-static" >/dev/null || fail "the static library does not work"
gcc -std=c11 $flags "$SOURCE_ROOT/examples/own_oracle.c" -o "$work/own-oracle" \
    $(pkg-config --cflags --libs conclave)
LD_LIBRARY_PATH="$lib" "$work/own-oracle" >/dev/null || fail "the example own_oracle.c"
readelf -d "$work/embed-c" | grep -q 'NEEDED.*libconclave\.so\.0' || fail "not linked by soname"

# ---- the examples: one ticks; when it is killed another does ---------------------------------------

examples=$SOURCE_ROOT/examples
gcc -std=gnu11 $flags "$examples/leader.c" -o "$work/leader-c" $(pkg-config --cflags --libs conclave)
gcc -std=gnu11 $flags "$examples/leader_epoll.c" -o "$work/leader-epoll" \
    $(pkg-config --cflags --libs conclave)
g++ -std=c++17 $flags "$examples/leader.cpp" -o "$work/leader-cc" \
    $(pkg-config --cflags --libs conclave)
export LD_LIBRARY_PATH="$lib"
! "$work/leader-c" x nonsense:y 2>"$work/error" || fail "a malformed address is accepted"
grep -q "leader: unknown store 'nonsense'" "$work/error" || fail "$(cat "$work/error")"

pids=
trap 'kill -9 $pids 2>/dev/null || :; rm -rf "$work"' EXIT
for program in leader-c leader-epoll leader-cc; do
    "$work/$program" tick "sqlite:$work/tick.db" >"$work/$program.out" &
    pids="$pids $!"
    eval "pid_$(echo $program | tr - _)=$!"
done
# Waits until one of the remaining programs ticks, with a larger token than before.
token=0
await_tick() {
    tries=0
    while [ $tries -lt 600 ]; do
        for program in "$@"; do
            latest=$(sed -n 's/^tick, token //p' "$work/$program.out" | tail -n 1)
            if [ "${latest:-0}" -gt $token ]; then
                token=$latest
                leader=$program
                return 0
            fi
        done
        tries=$((tries + 1))
        sleep 0.05
    done
    fail "none of these ticks: $*"
}
left="leader-c leader-epoll leader-cc"
while [ -n "$left" ]; do
    await_tick $left
    eval "kill -9 \$pid_$(echo $leader | tr - _)"
    left=$(echo " $left " | sed "s/ $leader / /; s/^ *//; s/ *$//")
done
