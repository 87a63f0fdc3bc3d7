# Everything that can be asked of this repository. `make help` lists it.
.DEFAULT_GOAL := help
.PHONY: help test lint audit cluster recording dictionary chaos bench micro soak chart-readme manifests image image-check

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## Set up all that the tests need, and run every test (needs Rust and Go; installs buildah and Chromium by apt)
	@tests/run

lint: ## Formatting, clippy and the library's docs; warnings fail
	@began=$$(date +%s); set -ex; \
	cargo fmt --check; \
	cargo clippy --all-targets -- -D warnings; \
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --no-deps; \
	{ set +x; } 2>/dev/null; echo "how long it took: lint $$(($$(date +%s) - began)) s"

audit: ## Licences and known vulnerabilities of the dependencies (needs cargo-deny)
	@cargo deny --version >/dev/null 2>&1 || { echo "make audit: cargo-deny is needed: cargo install --locked cargo-deny" >&2; exit 1; }
	cargo deny check

cluster: ## Start the control plane of the tests, with controllers and fake nodes, until Ctrl-C
	@tests/cluster/build check
	@exec cargo run --quiet --example cluster

recording: ## Play the demo's story on a real control plane, and record it for `kubediff demo`
	@tests/cluster/build check
	cargo build --bin kubediff
	cargo run --quiet --example scenario -- src/cli/demo/recording.zst

dictionary: ## Make the dictionary that stored events are compressed with, out of the events of the demo
	cargo build --bin kubediff --example dictionary
	timeout --preserve-status --signal=INT 40 target/debug/kubediff demo --no-page -o json --speed 4 >target/events.jsonl
	target/debug/examples/dictionary <target/events.jsonl >src/ledger/event.dict

chart-readme: ## Write the chart's README from the comments in its values
	charts/readme >charts/kubediff/README.md

SEED ?=
SEEDS ?= 1
MINUTES ?= 10
REPLICAS ?=
chaos: ## Random changes and random faults at once, and nothing may be lost (SEED=7 MINUTES=10 SEEDS=1 REPLICAS=2)
	@tests/cluster/build check
	KUBEDIFF_CHAOS_SEED=$(SEED) KUBEDIFF_CHAOS_SEEDS=$(SEEDS) KUBEDIFF_CHAOS_MINUTES=$(MINUTES) \
	  KUBEDIFF_CHAOS_REPLICAS=$(REPLICAS) \
	  cargo test --test promises -- --exact chaos::nothing_is_lost_whatever_a_random_seed_does --nocapture

# What is measured runs in the environment that the image sets.
AS_SHIPPED = env $(shell sed -n 's/^ENV \(MALLOC_.*\)$$/\1/p' Dockerfile)
SIZES ?= 1000,10000,100000+0,0+100000
IDLE ?= 600
bench: ## Measure beside a Go program on client-go's informers, into docs/benchmarks.md; fails when a budget is missed (SIZES=10000 IDLE=60)
	@tests/cluster/build check
	@code=0; \
	cargo bench --features jemalloc --bench event --bench route || code=1; \
	$(AS_SHIPPED) cargo bench --features jemalloc --bench memory -- --write || code=1; \
	$(AS_SHIPPED) cargo bench --features jemalloc --bench cluster -- --write --sizes $(SIZES) --idle $(IDLE) || code=1; \
	exit $$code

micro: ## Micro-benchmarks of parsing and redaction, diff, event, route, store, and pages of a million events
	cargo bench --features jemalloc --bench redact --bench diff --bench event --bench route --bench store
	KUBEDIFF_HISTORY_EVENTS=1000000 cargo test --release --lib history::tests::million -- --nocapture

HOURS ?= 1
RATE ?= 100
soak: ## Hours of changes; fails when memory or open files grow, writes docs/soak.md (HOURS=1 RATE=100)
	@tests/cluster/build check
	$(AS_SHIPPED) cargo bench --features jemalloc --bench cluster -- --write --only kubediff --sizes 1000 --rates $(RATE) --soak-hours $(HOURS)

manifests: ## Render the chart into deploy/, for those who do not use Helm
	deploy/render

image: ## Build the image with docker or buildah (IMAGE_FLAGS=--static compiles here and pulls nothing)
	deploy/image $(IMAGE_FLAGS)

image-check: ## Build the release image twice in two folders: the same image, under 25 MB, and it runs (two release builds)
	deploy/image-check
