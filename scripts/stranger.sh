#!/bin/bash
# Tests the README on a bare Debian: debootstrap in a folder, Go beside it, empty
# caches, a fresh clone of HEAD, and then only what the README says: it installs make and
# curl, starts dev, plays the sample with three watchers, and runs all tests.
#
# usage: scripts/stranger.sh [FOLDER [COMMAND]]
# FOLDER is created if it does not exist, and kept. The script needs root and debootstrap,
# and uses the mirror and the certificates of this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
root=${1:-$(mktemp -d)/debian}
command=${2:-apt-get update -qq && apt-get install -y -qq make curl >/dev/null && scripts/walk.sh && make test}

if [ ! -e "$root/usr" ]; then
	mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources} 2>/dev/null |
		grep -oE '^(URIs: *|deb )[^ ]+' | awk '$NF ~ "/debian/?$" && !n++ {print $NF}' || true)
	release=$(. /etc/os-release && echo "$VERSION_CODENAME")
	debootstrap --variant=minbase --include=ca-certificates "$release" "$root" "$mirror"
fi
for f in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
	cp -L "$f" "$root$f"
done
rm -rf "$root/etc/apt/sources.list.d" "$root/etc/apt/sources.list"
cp -rL /etc/apt/sources.list.d "$root/etc/apt/"
[ ! -f /etc/apt/sources.list ] || cp /etc/apt/sources.list "$root/etc/apt/"
cp -rL /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d/"
[ -e "$root/usr/local/go" ] || cp -r "$(go env GOROOT)" "$root/usr/local/go"
rm -rf "$root/root" "$root/src"
mkdir -p "$root/root"
git clone -q . "$root/src"

mount --rbind /dev "$root/dev"
mount --make-rslave "$root/dev"
mount -t proc proc "$root/proc"
trap 'umount -l "$root/proc" "$root/dev"' EXIT
chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/local/go/bin:/usr/bin:/bin:/usr/sbin:/sbin TERM=dumb \
	SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt GOFLAGS=-buildvcs=false \
	/bin/bash -c "cd /src && $command"
