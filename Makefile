# `make help` lists what there is.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help tools control-plane helm demo test bench fuzz soak long lint crds docs install-manifest chart-readme image

CARGO ?= cargo
CONTAINER_ENGINE ?= docker
control_plane = CONTROL_PLANE_ASSETS=$$(tests/control-plane/build.sh); export CONTROL_PLANE_ASSETS

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: tools ## the main job on a real API server; KEEP=1 leaves it running, KUBECONFIG_DEMO=file uses that cluster
	@if [[ -z "$${KUBECONFIG_DEMO:-}" ]]; then $(control_plane); fi; \
	$(CARGO) build --bin sriov-operator --example demo; \
	if [[ -n "$${KUBECONFIG_DEMO:-}" ]]; then exec $(CARGO) run --quiet --example demo; fi; \
	exec tests/on-loopback.sh $(CARGO) run --quiet --example demo

test: tools ## every test, from units to clusters
	@$(control_plane); tests/helm/build.sh >/dev/null; \
	$(CARGO) test --no-run; \
	exec tests/on-loopback.sh $(CARGO) test --no-fail-fast

bench: tools ## figures beside their floors and limits, a quarter of an hour; BENCH_QUICK=1 for less, BENCH_JSON=file for machines
	@$(control_plane); \
	$(CARGO) bench --bench bench --no-run; \
	if [[ -z "$${BENCH_QUICK:-}" ]]; then export BENCH_PLOTS=$${BENCH_PLOTS-docs/bench}; fi; \
	exec tests/on-loopback.sh $(CARGO) bench --quiet --bench bench

fuzz: tools ## every way in with inputs made from recorded ones; FUZZ_CASES=10000 each
	FUZZ_CASES=$${FUZZ_CASES:-10000} $(CARGO) test --test fuzz

soak: tools ## everything at once for ten minutes; SOAK_SECONDS=60, SOAK_JSON=file for machines, SOAK_SEED=1
	@$(control_plane); \
	$(CARGO) build --bin sriov-operator --example soak; \
	exec tests/on-loopback.sh $(CARGO) run --quiet --example soak

long: tools ## tests in their longer form: three minutes of rotation under load, an API server that is away for minutes
	@$(control_plane); \
	LONG=1 exec tests/on-loopback.sh $(CARGO) test --test cluster -- --nocapture not_one_call_fails with_the_api_server_away

lint: tools ## format and clippy, warnings denied
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets -- -D warnings

crds: tools ## write deploy/crds from the API types
	$(CARGO) run --quiet -- crds --directory deploy/crds

docs: tools ## write the generated parts of the documentation
	UPDATE_DOCS=1 $(CARGO) test --quiet --test cluster -- docs::generated docs::examples

install-manifest: tools ## write deploy/install.yaml from the chart
	@manifest=$$(mktemp); trap 'rm -f "$$manifest"' EXIT; deploy/install-manifest.sh >"$$manifest"; cat "$$manifest" >deploy/install.yaml

chart-readme: tools ## write the table of values in deploy/chart/README.md
	REGENERATE=1 $(CARGO) test --quiet --test cluster chart::documents::the_readme_lists

image: ## build the container image for this machine, with docker or what CONTAINER_ENGINE names
	$(CONTAINER_ENGINE) build --tag sriov-operator:$$(awk -F '"' '/^version = / { print $$2; exit }' Cargo.toml) .

helm: tools ## build Helm 3 and 4 for the tests of the chart (cached)
	@tests/helm/build.sh

control-plane: tools ## build etcd, kube-apiserver, kube-controller-manager and kubectl (cached; KUBEBUILDER_ASSETS first)
	@tests/control-plane/build.sh

tools:
	@tests/tools.sh
