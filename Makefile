# stoker's commands. `make run` tries it, `make test` tests it; `make help` lists the rest.

# The language version is pinned: an older toolchain fetches this one by itself.
export GOTOOLCHAIN := go1.27.3
# One file that runs anywhere; see docs/adr.
export CGO_ENABLED := 0

# Compilers at a time while llama.cpp is built; each wants up to 1.5 GB of memory.
JOBS ?= 2
FUZZTIME ?= 10s
# For a release: make build VERSION=v1.2.3. Otherwise Go takes version and commit from git.
VERSION ?=
LDFLAGS := $(if $(VERSION),-X github.com/stoker-llm/stoker/internal/buildinfo.version=$(VERSION))
PLATFORMS := linux/amd64 linux/arm64 darwin/arm64

# What tests need, and what each asset is: go run ./test/assets list
TEST_ASSETS := smollm2 gemma3 llama-src llama-server tiny

.DEFAULT_GOAL := help
.PHONY: help build run engine test check-platforms lint bench soak fuzz vuln clean testtools

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

build: ## bin/stoker
	go build -trimpath -ldflags "$(LDFLAGS)" -o bin/stoker ./cmd/stoker

run: build testtools ## get a small chat model if needed, and serve it at 127.0.0.1:1919 with stoker's own engine
	@bin/assets get smollm2
	@model="$$(bin/assets path smollm2)" && exec bin/stoker serve "$$model" --served-model-name smollm2

engine: testtools ## build llama-server and install it where `stoker serve` finds it
	@bin/assets --jobs $(JOBS) install llama-server

# One package at a time: two real engines at once on two cores spin against each other and take many times as long.
test: testtools check-platforms ## everything that must pass: all platforms vetted and built, all tests
	@echo "== assets"
	@bin/assets --jobs $(JOBS) get $(TEST_ASSETS)
	@echo "== tests"
	@set -e; vars="$$(bin/assets env $(TEST_ASSETS))"; set -a; eval "$$vars"; set +a; \
		bin/gotest -p 1 -timeout 20m ./...

check-platforms:
	@set -e; for p in $(PLATFORMS); do \
		echo "== vet and build for $$p"; \
		export GOOS=$${p%/*} GOARCH=$${p#*/}; \
		go vet ./...; \
		go build -trimpath -buildvcs=false -o bin/$$GOOS-$$GOARCH/stoker ./cmd/stoker; \
	done

lint: bin/tools/.installed ## formatting, vet, staticcheck, golangci-lint, our own rules
	@echo "== gofumpt"; out="$$(bin/tools/gofumpt -l .)"; \
		if [ -n "$$out" ]; then echo "not formatted (bin/tools/gofumpt -w FILE):"; echo "$$out"; exit 1; fi
	@echo "== vet"; go vet ./...
	@echo "== staticcheck"; bin/tools/staticcheck ./...
	@echo "== golangci-lint"; bin/tools/golangci-lint run ./...
	@echo "== internal/lint"; go test ./internal/lint

bench: testtools ## what stoker adds to an engine, and its own engine beside llama.cpp: tokens/s, first token, memory
	@bin/assets --jobs $(JOBS) get smollm2 gemma3 random-1b llama-server
	@set -e; vars="$$(bin/assets env smollm2 gemma3 random-1b llama-server)"; set -a; eval "$$vars"; set +a; \
		go run ./test/bench; go run ./test/enginebench

soak: testtools ## many requests, faults and restarts, for some minutes
	@bin/assets --jobs $(JOBS) get $(TEST_ASSETS)
	@set -e; vars="$$(bin/assets env $(TEST_ASSETS))"; set -a; eval "$$vars"; set +a; \
		bin/gotest -tags soak -run Soak -timeout 30m ./test/soak

fuzz: ## each fuzz target for FUZZTIME (10s)
	@set -e; for pkg in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "== $$pkg $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

vuln: bin/tools/.installed ## known vulnerabilities in what we import (asks the Go vulnerability database)
	bin/tools/govulncheck ./...

clean: ## remove what was built here; the assets stay in their cache
	rm -rf bin

testtools:
	@go build -buildvcs=false -o bin/ ./test/assets ./test/gotest

# The tools are pinned in a module of their own. The first time takes some minutes.
bin/tools/.installed: tools/go.mod tools/go.sum
	@echo "== building the tools pinned in tools/go.mod"
	cd tools && GOBIN=$(CURDIR)/bin/tools go install tool
	@touch $@
