//go:build tools

// Package controlplane pins, by go.mod and go.sum, the Kubernetes control plane that the tests and the demo boot.
// Nothing imports it: build.sh builds the packages below as they are.
package controlplane

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kubectl"
)
