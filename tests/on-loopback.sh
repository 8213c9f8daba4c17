#!/usr/bin/env bash
# Runs a command where port 443 of loopback addresses can be bound, which is where the API server calls webhooks:
# here when that is allowed and free, else in a network namespace of its own.
set -euo pipefail

# Root's right to bind low ports (CAP_NET_BIND_SERVICE is bit 10), or a system that lets everybody.
may_bind() {
  local capabilities
  capabilities=$(awk '$1 == "CapEff:" { print $2 }' /proc/self/status)
  (((0x$capabilities >> 10) & 1)) || (($(cat /proc/sys/net/ipv4/ip_unprivileged_port_start) <= 443))
}

# Whether a server of this machine listens on port 443 (01BB) of all addresses.
taken() {
  cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk '$2 ~ /^0+:01BB$/ && $4 == "0A" { found = 1 } END { exit !found }'
}

if may_bind && ! taken; then
  exec "$@"
fi

loopback_up='{ ip link set lo up || ifconfig lo up; } 2>/dev/null'
if unshare -Urn sh -c "$loopback_up" 2>/dev/null; then
  echo "port 443 is not to be had here: running in a network namespace of its own" >&2
  exec unshare -Urn sh -c "$loopback_up && exec \"\$@\"" sh "$@"
fi

cat >&2 <<'EOF'
Port 443 of loopback addresses cannot be bound, and network namespaces are not allowed. One of these helps:
  - run as root
  - sudo sysctl net.ipv4.ip_unprivileged_port_start=443
  - allow unprivileged user namespaces and install iproute2
and no other server may listen on port 443 of all addresses.
EOF
exit 2
