# Everything a contributor runs. `make help` lists it.
.DEFAULT_GOAL := help
.PHONY: help dev build test check unit race full fuzz attack soak walk bench stranger install-tools

help: ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

dev: ## Start Thole here: SQLite file, loopback, sample agent
	go run ./cmd/thole dev

build: ## Build bin/thole
	go build -o bin/thole ./cmd/thole

test: install-tools ## Everything; installs what it needs
	@$(MAKE) --no-print-directory -j2 check race
	@$(MAKE) --no-print-directory -j2 full attack
	@$(MAKE) --no-print-directory walk

install-tools:
	@scripts/install.sh gcc libc6-dev procps curl jq git postgresql pgbouncer chromium
	@command -v npm >/dev/null || scripts/install.sh nodejs npm

check: ## gofmt, vet, staticcheck, tidy modules
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then echo "not gofmt'ed:"; echo "$$out"; exit 1; fi
	go mod tidy -diff
	go vet ./...
	GOOS=darwin go vet ./agent/sandbox
	GOOS=windows go vet ./agent/sandbox
	go tool staticcheck ./...
	cd bench && go mod tidy -diff && go vet ./... && $$(cd .. && go tool -n staticcheck) ./...

unit: ## All tests, embedded stores only, no C compiler needed
	go test ./...

# SQLite itself, which was translated from C, and the vendors' SDKs, which were generated
# and take long to compile, are not looked at; a process does not wait for a second at
# its end.
race: export CGO_ENABLED = 1
race: export GORACE = atexit_sleep_ms=20
race: export GOFLAGS += -race -vet=off -gcflags=github.com/ncruces/go-sqlite3-wasm/v6/...=-race=false $(SDKS:%='-gcflags=%/...=-race=false -l')
SDKS = github.com/openai/openai-go/v3 github.com/anthropics/anthropic-sdk-go
race full: export THOLE_TEST ?= all
PACKAGES ?= ./cmd/thole ./... # the one first that waits most
# More than cores, for they wait for leases and for processes.
PACKAGES_AT_ONCE = $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)

# Stores in memory sync in no time. What a disk may do is tested on simulated ones, and
# a process that is killed loses nothing that it gave to the system, on any.
IN_MEMORY = $(patsubst %,-exec 'env TMPDIR=%',$(shell scripts/memory.sh))

race: ## The tests of PACKAGES (all) under the race detector, in memory and through a server on SQLite
	go test $(IN_MEMORY) -timeout 180m -count=1 -p $(PACKAGES_AT_ONCE) -parallel 3 $(PACKAGES)

full: ## The tests of PACKAGES (all) on memory, SQLite, files and PostgreSQL, with servers that are killed and cut off
	go test $(IN_MEMORY) -vet=off -timeout 180m -count=1 -p $(PACKAGES_AT_ONCE) -parallel 4 $(PACKAGES)

FUZZTIME ?= 10s
fuzz: ## Run every fuzz target for FUZZTIME (10s)
	scripts/fuzz.sh $(FUZZTIME)

attack: build ## Attack a server as a tenant would who wants more than is theirs
	scripts/attack.sh

soak: install-tools ## The long forms of the tests, on every store and under the race detector; up to two hours; prints a table
	scripts/soak.sh $(SUITES)

walk: ## The README's way: dev, the sample's turns beside three other runs, three watchers
	scripts/walk.sh

bench: ## Measure beside the raw limits and a peer; see docs/measurements.md
	cd bench && go run . $(BENCH)

stranger: ## Prove the README on a bare Debian (needs root and debootstrap)
	scripts/stranger.sh
