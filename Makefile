# Everything that can be asked of this repository. `make help` lists it.
.DEFAULT_GOAL := help
.PHONY: help test lint audit cluster bench chart-readme manifests image

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## Set up all that the tests need, and run every test (Rust and Go are needed, nothing else)
	@tests/run

lint: ## Formatting and clippy; warnings fail
	cargo fmt --check
	cargo clippy --all-targets -- -D warnings

audit: ## Licences and known vulnerabilities of the dependencies (needs cargo-deny)
	@cargo deny --version >/dev/null 2>&1 || { echo "make audit: cargo-deny is needed: cargo install --locked cargo-deny" >&2; exit 1; }
	cargo deny check

cluster: ## Start the control plane of the tests, with controllers and fake nodes, until Ctrl-C
	@tests/cluster/build check
	@exec cargo run --quiet --example cluster

chart-readme: ## Write the chart's README from the comments in its values
	charts/readme >charts/kubediff/README.md

SIZES ?= 10000
bench: ## Measure beside a Go program on client-go's informers, into docs/benchmarks.md (SIZES=1000,10000,100000+0)
	@tests/cluster/build check
	cargo bench --bench event
	cargo bench --bench memory
	cargo bench --bench cluster -- --write --sizes $(SIZES)

manifests: ## Render the chart into deploy/, for those who do not use Helm
	deploy/render

image: ## Build the image with docker or buildah (IMAGE_FLAGS=--static compiles here and pulls nothing)
	deploy/image $(IMAGE_FLAGS)
