#!/usr/bin/env bash
# Prints deploy/install.yaml: the chart with its defaults, the definitions and the namespace, for `kubectl apply -f`.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
helm=$("$here/../tests/helm/build.sh")/helm4

echo "# Generated from deploy/chart by \`make install-manifest\`: change that, not this."
"$helm" template sriov-network-operator "$here/chart" --namespace sriov-network-operator \
  --include-crds --no-hooks --set namespace.create=true 2> >(grep -v "found symbolic link" >&2)
