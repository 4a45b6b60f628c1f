#!/bin/sh
# The units under a real systemd, which is booted in namespaces, on a copy-on-write view of this
# machine.
#
# Needs CONCLAVE and SOURCE_ROOT. Skipped (77) where that cannot be done: without root, without systemd, or
# where namespaces, overlays or control groups of its own are not permitted.
set -eu

here=$(readlink -f "$0")

# ---- the first process of the namespaces: makes a root, and becomes systemd ---------------------------

if [ "${1:-}" = boot ]; then
    work=$2 root=$2/tmpfs/root
    mount --make-rprivate /
    mount -t tmpfs none "$work/tmpfs"
    mkdir "$work/tmpfs/upper" "$work/tmpfs/scratch" "$root"
    mount -t overlay none -o "lowerdir=/,upperdir=$work/tmpfs/upper,workdir=$work/tmpfs/scratch" "$root"
    mount -t proc none "$root/proc"
    mount -t sysfs none "$root/sys"
    mount -t cgroup2 none "$root/sys/fs/cgroup"
    mkdir "$root/sys/fs/cgroup/probe" && rmdir "$root/sys/fs/cgroup/probe"
    mount -t tmpfs none "$root/run"
    mkdir -p "$root/run/lock" "$root/run/share"
    mount --bind "$work/share" "$root/run/share"
    mount --rbind /dev "$root/dev"
    ip link set lo up
    cp "$CONCLAVE" "$root/usr/local/bin/conclave"
    rm -rf "$root/etc/systemd/system" "$root/var/lib/conclave"
    mkdir -p "$root/etc/systemd/system" "$root/etc/conclave/run" "$root/etc/conclave/job"
    for unit in conclave-run@.service conclave-job@.service; do
        sed 's|@bindir@|/usr/local/bin|' "$SOURCE_ROOT/packaging/$unit.in" >"$root/etc/systemd/system/$unit"
    done
    cp "$SOURCE_ROOT/packaging/conclave-job@.timer" "$root/etc/systemd/system/"
    cp "$SOURCE_ROOT/examples/virtual-ip/virtual-ip" "$root/usr/local/sbin/"
    # No service of this machine is started: only what basic.target needs, and no devices.
    for unit in systemd-udevd.service systemd-udev-trigger.service systemd-logind.service getty.target \
        systemd-udevd-control.socket systemd-udevd-kernel.socket; do
        ln -s /dev/null "$root/etc/systemd/system/$unit"
    done
    cat >"$root/etc/systemd/system/try.service" <<UNIT
[Unit]
Requires=basic.target
After=basic.target
[Service]
Type=oneshot
ExecStart=/bin/sh /run/share/test inside
StandardOutput=append:/run/share/log
StandardError=append:/run/share/log
ExecStopPost=/bin/systemctl poweroff --force
UNIT
    exec chroot "$root" env -i container=test PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        /lib/systemd/systemd --system --unit=try.service --show-status=no --log-target=null
fi

# ---- a service of that systemd: an operator ------------------------------------------------------------

if [ "${1:-}" = inside ]; then
    share=/run/share
    export CONCLAVE_STATE=/var/lib/conclave # that of the units
    touch "$share/booted"

    fail() {
        echo "FAILED: $*"
        systemctl status --no-pager 'conclave-*' || true
        exit 1
    }
    await() { # await WHAT COMMAND...
        what=$1
        shift
        tries=0
        until "$@" >/dev/null 2>&1; do
            tries=$((tries + 1))
            [ "$tries" -lt 600 ] || fail "timed out waiting for: $what"
            sleep 0.05
        done
    }
    property() { # property UNIT NAME
        systemctl show -p "$2" --value "$1"
    }

    # A service: the unit's status shows the leader, and stopping it ends everything that the
    # command has started.
    cat >/usr/local/bin/server <<'SERVER'
#!/bin/sh
echo "start $CONCLAVE_TOKEN $1" >>/run/share/server
trap 'echo term >>/run/share/server; exit 0' TERM
setsid sleep 1000 &
echo $! >/run/share/child
while :; do sleep 0.05; done
SERVER
    chmod +x /usr/local/bin/server
    printf 'COMMAND=/usr/local/bin/server --port\nOPTIONS=--lease 3s\n' >/etc/conclave/run/server.conf
    systemctl start conclave-run@server || fail "start of a service"
    await "the server" test -s "$share/child"
    grep -q '^start 1 --port$' "$share/server" || fail "what the server got: $(cat "$share/server")"
    await "the unit says that it leads" sh -c \
        '[ "$(systemctl show -p StatusText --value conclave-run@server)" = "leading, token 1" ]'
    systemctl stop conclave-run@server || fail "stop of a service"
    grep -q '^term$' "$share/server" || fail "the server got no SIGTERM"
    ! kill -0 "$(cat "$share/child")" 2>/dev/null || fail "a process that the server has started is still alive"
    conclave history server | grep -q ' resigned ' || fail "the trail: $(conclave history server)"

    # After kill -9 of `conclave run` no process is left, and it takes part again.
    rm "$share/child"
    systemctl start conclave-run@server
    await "the server again" test -s "$share/child"
    child=$(cat "$share/child")
    kill -9 "$(property conclave-run@server MainPID)"
    await "the end of the server's child" sh -c "! kill -0 $child"
    await "the next start" grep -q '^start 3 ' "$share/server"
    systemctl stop conclave-run@server

    # The command's own exit status 2 does not mean a wrong command line: it is started again.
    printf 'COMMAND=/bin/sh -c "echo x >>/run/share/two; exit 2"\nOPTIONS=\n' >/etc/conclave/run/two.conf
    systemctl start conclave-run@two
    await "a server that ends with 2 is started again" sh -c '[ "$(wc -l </run/share/two)" -ge 3 ]'
    systemctl stop conclave-run@two
    # A wrong command line: the start fails, and systemd gives up.
    printf 'COMMAND=/bin/true\nOPTIONS=--lease never\n' >/etc/conclave/run/wrong.conf
    ! systemctl start conclave-run@wrong 2>/dev/null || fail "a wrong line is accepted"
    await "systemd gives up" systemctl is-failed conclave-run@wrong

    # A job runs once in a period, however often the timer fires. One that fails is a failed unit.
    printf 'COMMAND=/bin/sh -c "echo ran >>/run/share/job"\nOPTIONS=--every 1d\n' >/etc/conclave/job/nightly.conf
    systemctl start conclave-job@nightly.timer || fail "the timer"
    systemctl list-timers --all | grep -q 'conclave-job@nightly.service' || fail "no timer is listed"
    systemctl start conclave-job@nightly || fail "the job"
    systemctl start conclave-job@nightly || fail "the job, once more"
    [ "$(wc -l <"$share/job")" -eq 1 ] || fail "the job ran $(wc -l <"$share/job") times"
    printf 'COMMAND=/bin/false\nOPTIONS=--every 1d --retry 0\n' >/etc/conclave/job/bad.conf
    ! systemctl start conclave-job@bad 2>/dev/null || fail "a job that fails is accepted"

    # examples/virtual-ip, with the file and the drop-in of its README.
    has_address() { ip -o address show dev v0 | grep -q 192.0.2.10; }
    if ip link add v0 type veth peer name v1 2>/dev/null; then
        ip link set v0 up
        cat >/etc/conclave/run/vip.conf <<'CONF'
COMMAND=/usr/local/sbin/virtual-ip up 192.0.2.10/24 v0
OPTIONS=--lease 10s --cleanup '/usr/local/sbin/virtual-ip down 192.0.2.10/24 v0'
CONF
        mkdir /etc/systemd/system/conclave-run@vip.service.d
        printf '[Service]\nUser=root\nExecStopPost=/usr/local/sbin/virtual-ip down 192.0.2.10/24 v0\n' \
            >/etc/systemd/system/conclave-run@vip.service.d/override.conf
        systemctl daemon-reload
        systemctl start conclave-run@vip || fail "the virtual address"
        await "the address" has_address
        systemctl kill -s KILL --kill-whom=all conclave-run@vip
        await "the address is gone" sh -c '! ip -o address show dev v0 | grep -q 192.0.2.10'
        await "the address is back" has_address
        systemctl stop conclave-run@vip
        ! has_address || fail "the address is still there"
    fi
    echo passed
    exit 0
fi

# ---- the test ----------------------------------------------------------------------------------------

skip() {
    echo "skipped: $*"
    exit 77
}
[ "$(id -u)" = 0 ] || skip "booting systemd takes root"
[ -x /lib/systemd/systemd ] && command -v unshare ip systemctl >/dev/null || skip "no systemd, unshare or ip"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tmpfs" "$work/share"
cp "$here" "$work/share/test"
CONCLAVE=$(readlink -f "$CONCLAVE")
export CONCLAVE
timeout -k 5 150 unshare --mount --pid --uts --ipc --net --cgroup --fork --kill-child \
    sh "$here" boot "$work" >"$work/boot" 2>&1 || true # it ends as a machine does
[ -e "$work/share/booted" ] || { tail -3 "$work/boot"; skip "systemd does not boot in namespaces here"; }
cat "$work/share/log"
[ "$(tail -n 1 "$work/share/log")" = passed ]
