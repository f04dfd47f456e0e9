# Everything a contributor runs. `make help` lists it.
.DEFAULT_GOAL := help
.PHONY: help dev build test check unit race race-postgres race-soak matrix faults fuzz fuzz-api attack soak walk bench stranger install-tools

help: ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

dev: ## Start Thole here: SQLite file, loopback, sample agent
	go run ./cmd/thole dev

build: ## Build bin/thole
	go build -o bin/thole ./cmd/thole

test: install-tools ## Everything; installs what it needs
	@$(MAKE) --no-print-directory -j2 check race # each compiles everything, often on one core
	@$(MAKE) --no-print-directory -j2 matrix race-postgres # which wait a lot for PostgreSQL
	@$(MAKE) --no-print-directory faults attack walk

install-tools:
	@scripts/install.sh gcc libc6-dev procps curl jq git postgresql pgbouncer

check: ## gofmt, vet, staticcheck, tidy modules
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then echo "not gofmt'ed:"; echo "$$out"; exit 1; fi
	go mod tidy -diff
	go vet -tags faults ./...
	GOOS=darwin go vet ./agent/sandbox
	GOOS=windows go vet ./agent/sandbox
	go tool staticcheck -tags faults ./...
	cd bench && go mod tidy -diff && go vet ./... && $$(cd .. && go tool -n staticcheck) ./...

unit: ## All tests, embedded stores only, no C compiler needed
	go test ./...

# SQLite itself, which was translated from C, and the vendors' SDKs, which were generated
# and take long to compile, are not looked at; a process does not wait for a second at
# its end.
race race-postgres race-soak: export CGO_ENABLED = 1
race race-postgres race-soak: export GORACE = atexit_sleep_ms=20
race race-postgres race-soak: export GOFLAGS += -race -vet=off -gcflags=github.com/ncruces/go-sqlite3-wasm/v6/...=-race=false $(SDKS:%='-gcflags=%/...=-race=false -l')
SDKS = github.com/openai/openai-go/v3 github.com/anthropics/anthropic-sdk-go

race: ## All tests under the race detector, in memory and through a server on SQLite
	THOLE_TEST=few go test -timeout 30m ./...

race-postgres: ## The tests of the PostgreSQL store under the race detector
	THOLE_TEST=all go test -timeout 30m ./internal/pgtest ./backend/pgstore

race-soak: # of make soak: everything, also what is slow under the race detector
	THOLE_SOAK=1 THOLE_TEST=all go test -tags faults -timeout 180m -count=1 -parallel 3 -v ./...

# The packages whose tests ask for stores, or for how much to do (internal/effort).
export STORES = . ./agent ./api/rest ./api/wire ./backend/... ./state/... ./examples/...
matrix: ## The tests of concepts and stores on memory, SQLite, files and PostgreSQL; prints how many ran on each
	scripts/matrix.sh $(STORES)

faults: ## Kill a real server in every phase, cut its connections, contend, and check what is left
	THOLE_TEST=all go test -tags faults -vet=off -timeout 60m -parallel 4 -count=1 -v ./cmd/thole

FUZZTIME ?= 10s
fuzz: ## Run every fuzz target for FUZZTIME (10s)
	scripts/fuzz.sh $(FUZZTIME)

fuzz-api: FUZZTIME = 10m
fuzz-api: FUZZSEED ?= $(shell date +%s)
fuzz-api: ## Ask a server for everything its OpenAPI document offers for FUZZTIME (10m), from FUZZSEED; prints a table
	THOLE_FUZZ_TIME=$(FUZZTIME) THOLE_FUZZ_SEED=$(FUZZSEED) go test -count=1 -timeout 60m -v -run TestEveryAnswerIsAsTheDocumentSays ./cmd/thole

attack: build ## Attack a server as a tenant would who wants more than is theirs
	scripts/attack.sh

soak: install-tools ## The long forms of the tests, on every store and under the race detector; some hours; prints a table
	scripts/soak.sh $(SUITES)

walk: ## The README's way: dev, the sample's turns beside three other runs, three watchers
	scripts/walk.sh

bench: ## Measure beside the raw limits and a peer; see docs/measurements.md
	cd bench && go run . $(BENCH)

stranger: ## Prove the README on a bare Debian (needs root and debootstrap)
	scripts/stranger.sh
