#!/bin/sh
# Installs the Debian packages named as arguments that are missing.
# usage: scripts/install.sh gcc procps …
set -eu
missing=
for p in "$@"; do
	dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null; then
	echo "please install:$missing" >&2
	exit 1
fi
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
echo "installing$missing"
# Packages of servers start them, and the tests start their own.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
	trap '$sudo rm -f $policy' EXIT
	printf '#!/bin/sh\nexit 101\n' | $sudo tee $policy >/dev/null
	$sudo chmod +x $policy
fi
$sudo apt-get update -qq
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
