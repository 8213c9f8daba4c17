#!/usr/bin/env bash
# Provides etcd, kube-apiserver, kube-controller-manager and kubectl for the tests and the demo.
#
# The last line on stdout is the directory that holds all four; progress goes to stderr. Binaries found in
# KUBEBUILDER_ASSETS are used as they are, each one missing there is built from the Go modules that go.mod pins.
# A binary appears in the cache only when it is complete, so an interrupted build goes on where it stopped.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=$(awk '$1 == "k8s.io/kubernetes" { print $2; exit }' "$here/go.mod")
minor=$(cut -d. -f2 <<<"$version")
fingerprint=$(cat "$here/go.mod" "$here/go.sum" | sha256sum | cut -c1-12)
root=${XDG_CACHE_HOME:-$HOME/.cache}/sriov-operator
built=$root/control-plane-$version-$fingerprint

names=(etcd kube-apiserver kube-controller-manager kubectl)
declare -A package=(
  [etcd]=go.etcd.io/etcd/server/v3
  [kube-apiserver]=k8s.io/kubernetes/cmd/kube-apiserver
  [kube-controller-manager]=k8s.io/kubernetes/cmd/kube-controller-manager
  [kubectl]=k8s.io/kubernetes/cmd/kubectl
)
declare -A cold=(
  [etcd]="about 2 minutes" [kube-apiserver]="about 6 minutes"
  [kube-controller-manager]="about 3 minutes" [kubectl]="about 1 minute"
)

say() { echo "control plane: $*" >&2; }

# Whether an executable of this name came with KUBEBUILDER_ASSETS.
given() { [[ -n ${KUBEBUILDER_ASSETS:-} && -x $KUBEBUILDER_ASSETS/$1 ]]; }

build() {
  local name=$1 position=$2 part="$built/.$1.$$" started=$SECONDS status=0
  say "building $name for Kubernetes $version, $position (${cold[$name]} on a cold Go cache and 2 cores) ..."
  (
    cd "$here"
    exec env CGO_ENABLED=0 GOWORK=off go build -mod=readonly -buildvcs=false -o "$part" -ldflags "-s -w \
      -X k8s.io/component-base/version.gitVersion=$version \
      -X k8s.io/component-base/version.gitMajor=1 \
      -X k8s.io/component-base/version.gitMinor=$minor" "${package[$name]}"
  ) >&2 &
  local compiler=$!
  trap 'kill $compiler 2>/dev/null || true; rm -f "$part"' EXIT
  while kill -0 "$compiler" 2>/dev/null; do
    sleep 1
    if (((SECONDS - started) % 30 == 29)); then say "  still building $name, $((SECONDS - started + 1)) s"; fi
  done
  wait "$compiler" || status=$?
  trap - EXIT
  if ((status != 0)); then
    rm -f "$part"
    say "building $name failed (see above)"
    exit "$status"
  fi
  mv "$part" "$built/$name"
  say "  $name is built, $((SECONDS - started)) s"
}

if [[ -n ${KUBEBUILDER_ASSETS:-} && ! -d $KUBEBUILDER_ASSETS ]]; then
  say "KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS is no directory: name one that holds etcd and kube-apiserver, or unset it"
  exit 2
fi

missing=()
for name in "${names[@]}"; do
  given "$name" || [[ -x $built/$name ]] || missing+=("$name")
done

if ((${#missing[@]} > 0)); then
  if ! command -v go >/dev/null; then
    say "building ${missing[*]} needs Go (https://go.dev/dl/), or set KUBEBUILDER_ASSETS to a directory that holds them"
    exit 2
  fi
  mkdir -p "$built"
  exec 9>"$built/.lock"
  if ! flock -n 9; then
    say "another build is under way, waiting for it ..."
    flock 9
  fi
  position=0
  for name in "${missing[@]}"; do
    position=$((position + 1))
    [[ -x $built/$name ]] || build "$name" "$position of ${#missing[@]}"
  done
  exec 9>&-
fi

assets=$built
if [[ -n ${KUBEBUILDER_ASSETS:-} ]]; then
  # One directory of links, named after what it links to and swapped in whole, so that the tests look in one place.
  targets=()
  for name in "${names[@]}"; do
    if given "$name"; then
      targets+=("$(cd "$KUBEBUILDER_ASSETS" && pwd)/$name")
    else
      targets+=("$built/$name")
    fi
  done
  assets=$root/control-plane-given-$(sha256sum <<<"${targets[*]}" | cut -c1-12)
  if [[ ! -d $assets ]]; then
    mkdir -p "$root"
    staging=$(mktemp -d "$root/.given.XXXXXX")
    ln -s "${targets[@]}" "$staging/"
    # Another caller with the same settings may have been faster, with the same links.
    mv -T "$staging" "$assets" 2>/dev/null || rm -rf "$staging"
  fi
fi
echo "$assets"
