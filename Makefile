# Every target does its own set-up: on Debian the packages that are missing are installed (scripts/setup), then CMake builds.
SHELL := /bin/bash
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 600
POLICY ?= deploy/policy.example.yaml
export CTEST_PARALLEL_LEVEL ?= $(JOBS)

.DEFAULT_GOAL := help
.PHONY: help setup build run race test bench fuzz lint package clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install the packages that are missing for everything below
	@scripts/setup all

build: ## Build what ships into build/bin and build/lib
	@scripts/setup build
	@scripts/build release ship

run: build ## Build and start sluiced on its embedded store with POLICY (deploy/policy.example.yaml)
	@exec build/bin/sluiced --policy $(POLICY) $(ARGS)

race: build ## Show a read-then-write limiter and sluice under 40 requests at once
	@scripts/setup build race
	@examples/race/run --bin build/bin $(ARGS)

test: ## Build and run every test; the last line is `N passed, N failed`
	@scripts/setup build test
	@scripts/build release
	@scripts/test release

bench: build ## Run the benchmarks and print what they measured, as ratios
	@scripts/setup build bench
	@scripts/build release benches
	@bench/run $(ARGS)

fuzz: ## Run every fuzz target for FUZZ_SECONDS (600) each
	@scripts/setup build fuzz
	@scripts/fuzz $(FUZZ_SECONDS)

lint: ## Formatting, clang-tidy, cppcheck and the order of the layers
	@scripts/setup build lint
	@scripts/lint

package: build ## Make a Debian package and a tar archive in build/package
	@scripts/setup build package
	@scripts/package

clean: ## Remove everything that was built
	rm -rf build build-dev build-asan build-tsan build-fuzz build-clang
