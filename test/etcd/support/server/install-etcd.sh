#!/bin/sh
# Installs what the etcd tests run on Debian: etcd, etcdctl and openssl. Does nothing where all are there already.
set -eu

is_there() {
  { [ -n "${LEASEHOLD_ETCD:-}" ] || command -v etcd >/dev/null; } &&
    command -v etcdctl >/dev/null && command -v openssl >/dev/null
}

is_there && exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo 'etcd, etcdctl or openssl is missing; on Debian: sudo apt-get update && sudo apt-get install -y etcd-server etcd-client openssl' >&2
  exit 1
fi

# Several test workers may find etcd missing at once.
exec 9>"${TMPDIR:-/tmp}/leasehold-install-etcd.lock"
flock 9
is_there && exit 0

# The package starts a service on the default port unless a policy forbids it.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
fi

export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends etcd-server etcd-client openssl
if [ -d /run/systemd/system ]; then systemctl disable --now etcd.service || true; fi
