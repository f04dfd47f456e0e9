# Everything a contributor runs. `make help` lists it.
.DEFAULT_GOAL := help
.PHONY: help dev build test check unit race race-postgres race-rest matrix faults fuzz walk bench stranger install-tools

help: ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

dev: ## Start Thole here: SQLite file, loopback, sample agent
	go run ./cmd/thole dev

build: ## Build bin/thole
	go build -trimpath -o bin/thole ./cmd/thole

test: install-tools ## Everything; installs what it needs
	@$(MAKE) --no-print-directory -j2 check race # each compiles everything, often on one core
	@$(MAKE) --no-print-directory -j2 matrix race-postgres # which wait a lot for PostgreSQL
	@$(MAKE) --no-print-directory faults walk

install-tools:
	@scripts/install.sh gcc libc6-dev procps curl git postgresql pgbouncer

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
# its end. What is skipped is long and uses one goroutine.
race race-postgres race-rest: export CGO_ENABLED = 1
race race-postgres race-rest: export GORACE = atexit_sleep_ms=20
race race-postgres race-rest: export GOFLAGS += -race -vet=off -timeout=30m -gcflags=github.com/ncruces/go-sqlite3-wasm/v6/...=-race=false $(SDKS:%='-gcflags=%/...=-race=false -l')
SDKS = github.com/openai/openai-go/v3 github.com/anthropics/anthropic-sdk-go
RACE_SKIP = -skip 'WhatBreaksTheContract|AsTheModel|SmallSegments|BehindAPooler$$|TenThousandTurns'

race: ## All tests under the race detector, in memory and through a server on SQLite
	THOLE_TEST=few go test $(RACE_SKIP) ./...

race-postgres: ## The tests of the PostgreSQL store under the race detector
	THOLE_TEST=all go test $(RACE_SKIP) ./internal/pgtest ./backend/pgstore

race-rest: install-tools ## What make test does not run under the race detector, under it; half an hour
	THOLE_TEST=all go test $(RACE_SKIP:-skip=-run) ./...
	THOLE_TEST=all go test -tags faults -count=1 -parallel 3 -v -skip 'Contract|AsTheModel' ./cmd/thole ./backend/sqlitestore ./backend/filestore

matrix: ## All tests on every backend, with servers; prints how many ran on each
	scripts/matrix.sh $$(go list ./... | grep -v /cmd/thole) # the binary's run with the faults

# Everything about faults runs; the rest of the stores' tests ran before. Those that
# run in parallel mostly wait.
faults: ## Kill a real server in every phase, cut its connections, contend, and check what is left; fail the disk at random
	THOLE_TEST=all go test -tags faults -vet=off -timeout 60m -parallel 4 -count=1 -v -skip 'Contract|AsTheModel' ./cmd/thole ./backend/sqlitestore ./backend/filestore

FUZZTIME ?= 10s
fuzz: ## Run every fuzz target for FUZZTIME (10s)
	scripts/fuzz.sh $(FUZZTIME)

walk: ## The README's way: dev, the sample's turns beside three other runs, three watchers
	scripts/walk.sh

bench: ## Measure beside the raw limits and a peer; see docs/measurements.md
	cd bench && go run . $(BENCH)

stranger: ## Prove the README on a bare Debian (needs root and debootstrap)
	scripts/stranger.sh
