#!/usr/bin/env bash
# Says which of the tools that the build needs are missing, all at once, and how to get them.
set -euo pipefail

declare -A how=(
  [git]="from the distribution: apt install git, dnf install git"
  [cc]="with a C compiler: apt install build-essential, dnf install gcc"
  [cargo]="with Rust: https://rustup.rs"
  [go]="with Go: https://go.dev/dl/ (or set KUBEBUILDER_ASSETS to a directory with etcd, kube-apiserver, kube-controller-manager and kubectl)"
)
missing=0
for tool in git cc cargo go; do
  if ! command -v "$tool" >/dev/null; then
    [[ $tool == go && -n ${KUBEBUILDER_ASSETS:-} ]] && continue
    echo "missing: $tool. Get it ${how[$tool]}" >&2
    missing=1
  fi
done
exit "$missing"
