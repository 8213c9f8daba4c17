//go:build tools

// Package helm pins, by go.mod and go.sum, both versions of Helm that render and install the chart in the tests.
// Nothing imports it: build.sh builds the packages below as they are.
package helm

import (
	_ "helm.sh/helm/v3/cmd/helm"
	_ "helm.sh/helm/v4/cmd/helm"
)
