# syntax=docker/dockerfile:1
#
# The image of sriov-operator: one binary on glibc, without shell or package manager, as user 65532.
#
#   make image                                                          for this machine
#   docker buildx build --platform linux/amd64,linux/arm64 .            for both, compiled on this machine's own processor
#
# Not FIPS: the cryptography is AWS-LC without its validated module. Such an image is another build (the feature "fips" of aws-lc-rs,
# which needs Go and CMake), not a switch of this one.

ARG RUST_IMAGE=rust:1.90-trixie
ARG BASE_IMAGE=gcr.io/distroless/cc-debian13:nonroot

FROM --platform=$BUILDPLATFORM ${RUST_IMAGE} AS build
ARG BUILDARCH
ARG TARGETARCH
# Writes the list of dependencies into the binary, where scanners read it.
ARG CARGO_AUDITABLE_VERSION=0.7.7
WORKDIR /src

# A compiler and a linker for the other processor, where it is another one.
RUN set -eu; \
    case "$TARGETARCH" in \
      amd64) echo x86_64 ;; \
      arm64) echo aarch64 ;; \
      *) echo "TARGETARCH is $TARGETARCH: it must be amd64 or arm64" >&2; exit 1 ;; \
    esac > /machine; \
    machine=$(cat /machine); \
    rustup target add "$machine-unknown-linux-gnu"; \
    if [ "$BUILDARCH" != "$TARGETARCH" ]; then \
      apt-get update; \
      apt-get install -y --no-install-recommends "gcc-$(echo "$machine" | tr _ -)-linux-gnu" "libc6-dev-$TARGETARCH-cross"; \
      rm -rf /var/lib/apt/lists/*; \
    fi; \
    cargo install --locked --version "$CARGO_AUDITABLE_VERSION" cargo-auditable

COPY Cargo.toml Cargo.lock build.rs ./
COPY src src
COPY templates templates

# The same sources give the same bytes: no path of the build, no time, the locked dependencies only.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    set -eu; \
    machine=$(cat /machine); \
    target=$machine-unknown-linux-gnu; \
    variable=$(echo "$target" | tr 'a-z-' 'A-Z_'); \
    export "CARGO_TARGET_${variable}_LINKER=$machine-linux-gnu-gcc" "CC_$(echo "$target" | tr - _)=$machine-linux-gnu-gcc"; \
    export SOURCE_DATE_EPOCH=0 CARGO_INCREMENTAL=0; \
    export CFLAGS="-ffile-prefix-map=/usr/local/cargo=/cargo -ffile-prefix-map=/src=."; \
    export RUSTFLAGS="--remap-path-prefix=/usr/local/cargo=/cargo --remap-path-prefix=/src=. -C link-arg=-Wl,--build-id=none"; \
    cargo auditable build --release --locked --bin sriov-operator --target "$target"; \
    install -D -m 0755 "target/$target/release/sriov-operator" /out/sriov-operator

# cc rather than base: Rust's unwinding needs libgcc_s.
FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title="sriov-operator" \
      org.opencontainers.image.description="SR-IOV network operator for Kubernetes and OpenShift" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/sriov-operator /usr/bin/sriov-operator
COPY LICENSE /usr/share/doc/sriov-operator/LICENSE
# glibc would keep an arena for each processor, and most of what a large list once took. Measured in docs/performance.md.
ENV MALLOC_ARENA_MAX=2 MALLOC_MMAP_THRESHOLD_=131072 MALLOC_TRIM_THRESHOLD_=131072
USER 65532:65532
ENTRYPOINT ["/usr/bin/sriov-operator"]
