#!/usr/bin/env bash
# Provides Helm 4 and Helm 3 for the tests of the chart, as helm4 and helm3.
#
# The last line on stdout is the directory that holds both; progress goes to stderr. They are built from the Go modules
# that go.mod pins, into the cache of tests/control-plane/build.sh, and appear there only when they are complete.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
fingerprint=$(cat "$here/go.mod" "$here/go.sum" | sha256sum | cut -c1-12)
built=${XDG_CACHE_HOME:-$HOME/.cache}/sriov-operator/helm-$fingerprint
kubernetes=$(awk '$1 == "k8s.io/client-go" { split($2, part, "."); print part[2]; exit }' "$here/go.mod")

say() { echo "helm: $*" >&2; }

build() {
  local major=$1 started=$SECONDS part="$built/.helm$1.$$"
  say "building Helm $major (about 30 s after the control plane, 2 minutes on a cold Go cache and 2 cores) ..."
  trap 'rm -f "$part"' EXIT
  # Without a control plane at hand, charts are rendered for this version of Kubernetes. Helm 4 finds it out by itself.
  (
    cd "$here"
    exec env CGO_ENABLED=0 GOWORK=off go build -mod=readonly -buildvcs=false -o "$part" -ldflags "-s -w \
      -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=$kubernetes \
      -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor=$kubernetes" \
      "helm.sh/helm/v$major/cmd/helm"
  ) >&2
  mv "$part" "$built/helm$major"
  trap - EXIT
  say "  Helm $major is built, $((SECONDS - started)) s"
}

if [[ ! -x $built/helm3 || ! -x $built/helm4 ]]; then
  if ! command -v go >/dev/null; then
    say "building Helm needs Go (https://go.dev/dl/)"
    exit 2
  fi
  mkdir -p "$built"
  exec 9>"$built/.lock"
  flock 9
  for major in 4 3; do
    [[ -x $built/helm$major ]] || build "$major"
  done
  exec 9>&-
fi
echo "$built"
