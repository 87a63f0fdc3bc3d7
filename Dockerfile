# kubediff's image: one static program and the certificate authorities that it trusts. No shell, no libc, not root.
#
# `make image` builds it with docker or buildah. By hand:
#   docker build -t kubediff .                      compiles inside, in the Rust image
#   docker build -t kubediff --target prebuilt .    takes out/rootfs, as `deploy/image --from PROGRAM` lays it out

ARG RUST=docker.io/library/rust:1.95-bookworm

FROM scratch AS base
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="kubediff" \
      org.opencontainers.image.description="git log -p for a Kubernetes cluster" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# For what SQLite and zstd allocate: glibc gives memory back sooner so. The rest is jemalloc (docs/decisions/0008-jemalloc.md).
ENV MALLOC_ARENA_MAX=2 MALLOC_TRIM_THRESHOLD_=131072 MALLOC_MMAP_THRESHOLD_=65536
# No name for it in the image: the number is what Kubernetes checks for runAsNonRoot.
USER 65532:65532
ENTRYPOINT ["/kubediff"]
CMD ["run"]

# Stands before the build so that a builder that makes every stage up to its target needs no Rust for it.
FROM base AS prebuilt
COPY out/rootfs/ /
COPY --chown=65532:65532 out/state/ /var/lib/kubediff/
WORKDIR /var/lib/kubediff

FROM ${RUST} AS build
ARG REVISION=unknown
ARG SOURCE_DATE_EPOCH=0
WORKDIR /src
COPY . .
# crt-static holds for --target alone, so that build scripts and procedural macros stay what they are.
RUN set -eu; \
    host=$(rustc -vV | sed -n 's/^host: //p'); \
    export SOURCE_DATE_EPOCH KUBEDIFF_REVISION="$REVISION"; \
    export RUSTFLAGS="-C target-feature=+crt-static --remap-path-prefix=$PWD=/src --remap-path-prefix=$CARGO_HOME=/cargo"; \
    cargo build --release --locked --features jemalloc --bin kubediff --target "$host"; \
    mkdir -p out/rootfs/etc/ssl/certs out/rootfs/var/lib out/state; \
    cp "target/$host/release/kubediff" out/rootfs/kubediff; \
    cp /etc/ssl/certs/ca-certificates.crt out/rootfs/etc/ssl/certs/; \
    find out -exec touch -d "@$SOURCE_DATE_EPOCH" {} +

FROM base AS image
COPY --from=build /src/out/rootfs/ /
COPY --from=build --chown=65532:65532 /src/out/state/ /var/lib/kubediff/
WORKDIR /var/lib/kubediff
