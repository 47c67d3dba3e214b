# What a developer and CI run. It needs Go, git and make; the race detector
# needs a C compiler, too.

GO            ?= go
GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOTESTSUM     := gotest.tools/gotestsum@v1.13.0
GOVULNCHECK   := golang.org/x/vuln/cmd/govulncheck@v1.9.0
APIDIFF       := golang.org/x/exp/cmd/apidiff@v0.0.0-20261113113407-e3970619a1a4
OLD           ?= $(shell git describe --tags --abbrev=0 2>/dev/null)
FUZZTIME      ?= 20s
RACE_TIMEOUT  ?= 30m
CHAOS         ?= -store redis -runs 1000 -workers 3 -seconds 8 -wait 60s
LIMITS        ?= -limits -runs 1000 -workers 8 -seconds 60 -every 500ms -wait 4m
LIMIT_SEEDS   ?= 1 2 3 4 5
ENDURE        ?= -duration 1h
CHECKS        ?= 1000
SEEDS         ?= 30
SEED          ?= 1
PAIRS_SEED    ?= 1
PACKAGES      := ./... ./admin/jwtauth/... ./cloudblobs/... ./cloudblobs/servers/... ./lab/... ./lambdaflow/... ./otelflow/... ./cmd/flowctl/... ./flowcheck/golangci/... ./runtime/step/sqlstep/databases/...
CORPORA       := ./flowcheck/testdata/clean/... ./flowcheck/testdata/seeded/... ./flowcheck/testdata/more/...

# SQLite is C that was turned into Go, and keeps its own locks: watching it for
# races and wrong pointers finds nothing in our code and makes it five times slower.
# What it calls (libc and its locks) and what calls it are watched. make soak watches all.
UNWATCHED := -gcflags='modernc.org/sqlite/lib=-race=false -d=checkptr=0' -gcflags='modernc.org/libc=-d=checkptr=0'

# gotest executes the tests of the packages $(2) with the flags $(1). With EVENTS=DIR, a test that fails is executed again by
# itself, twice at most, unless more than three have failed or there was a data race, and DIR has the events of all (see .ci/run).
ifdef EVENTS
gotest = $(GO) run $(GOTESTSUM) --format=standard-quiet --hide-summary=skipped --rerun-fails=2 --rerun-fails-max-failures=3 \
	--rerun-fails-abort-on-data-race --rerun-fails-run-root-test --jsonfile="$(EVENTS)/$@.json" --packages="$(2)" -- $(1)
else
gotest = $(GO) test $(1) $(2)
endif

.NOTPARALLEL:
.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# These are watched for races: what has goroutines of its own, which share memory. Programs that are started and killed, what
# one goroutine does, and all that only calls these are not: they are three times faster so, and need not be compiled twice.
# make test watches the heart of it, in memory: to compile the databases for the race detector takes longer than these tests. make
# race-all watches the rest (of package workflow, the model of schedules does one thing at a time and takes seven times longer
# when it is watched), and the worker on every store; of the stores, those tests that do several things at once. make soak watches
# all tests of all of these.
WATCHED := ./memstore ./runtime/store/notify \
	./runtime/internal/activity ./runtime/internal/localstart ./runtime/internal/outage ./runtime/internal/permits
WATCHED_IN_MEMORY := ./runtime/worker/...
ALSO_WATCHED := $(WATCHED_IN_MEMORY) ./runtime/workflow ./runtime/internal/replay ./runtime/promises/... ./runtime/step/... ./runtime/step/sqlstep/databases ./admin ./admin/api ./admin/admintest ./admin/console ./admin/hooks \
	./admin/internal/rate ./admin/jwtauth
STORES := ./sqlitestore ./redisstore
AT_A_TIME := Concurrent|Together|AtOnce|Wait|Watch|Await|Close|Cancel|Beside
STORE_RACES := ^Test(Conformance|Store_KeepsTheContract)$$/^(1.partitions|.*($(AT_A_TIME)).*)$$/($(AT_A_TIME))|^Test(Queue|Wait|Watch|Await|Close|Cancel|Create_Canceled|Open_Many|RUN15|Fleet|Heartbeat|Group|REC2|REC5|STORE3_KilledConnections|STORE4_AStoreUses)

# What a change must pass draws the same cases each time: whether it lands is no matter of chance. make soak draws others.
plain race: export RAPID_SEED ?= $(SEED)

# Test binaries, and the programs that tests build, are not for debuggers: without DWARF they are linked in half the time, and
# all that is compiled takes a sixth less.
WITHOUT_DWARF := -gcflags=all=-dwarf=false -ldflags=-w
vet generated plain measuring race race-all release-check: export GOFLAGS := $(shell $(GO) env GOFLAGS) $(WITHOUT_DWARF)

# The compiler and the go command spend a sixth of their time on collecting garbage that the memory of the machine has room
# for. The tests inherit it, and bound what they allocate or what is left after a collection, never what lies around between two.
vet generated plain measuring race race-all release-check: export GOGC ?= 400

# Files of tests and compilers are in memory where it has room for them: SQLite's commits need not wait for a disk, and no test
# stops the machine's power.
IN_MEMORY := $(shell [ -w /dev/shm ] && ! grep -q ' /dev/shm .*noexec' /proc/mounts && [ $$(df -Pk /dev/shm | awk 'NR == 2 { print $$4 }') -ge 8000000 ] && echo /dev/shm)

.PHONY: test
test: format compiler ## everything that must hold before a commit (6 minutes on two cores, 11 if nothing is compiled)
	@dir=$$(mktemp -d $(if $(IN_MEMORY),-p $(IN_MEMORY))) && trap 'rm -rf "$$dir"' EXIT && chmod 711 "$$dir" && \
	GOTMPDIR="$$dir" $(MAKE) --no-print-directory all-else

# vet compiles all packages and their tests, and what follows finds them in the build cache. Beside each other, several go
# commands compile the same packages several times. The race detector needs packages of its own, and its tests mostly wait.
.PHONY: all-else
all-else:
	@$(MAKE) --no-print-directory race AT_ONCE=2 & race=$$!; status=0; \
	$(MAKE) --no-print-directory vet || status=1; \
	$(MAKE) --no-print-directory generated & generated=$$!; \
	$(MAKE) --no-print-directory plain || status=1; \
	for job in $$race $$generated; do wait $$job || status=1; done; exit $$status

.PHONY: test-all
test-all: test measuring versus-test race-all release-check ## make test, and what takes too long for it

.PHONY: release-check
release-check: ## install the modules of this tree from a module proxy as a user does (three minutes if nothing is compiled)
	@echo "== release-check: go test ./internal/release -users"
	@$(GO) test ./internal/release -users -count=1

.PHONY: format
format: ## check that every Go file is formatted
	@echo "== format: gofmt -l"
	@unformatted=$$(find . -name '*.go' -not -path '*/testdata/*' -exec gofmt -l {} +) || exit 1; \
	if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w on:"; echo "$$unformatted"; exit 1; fi

.PHONY: vet
vet: ## run what go vet does, but for two analyzers (printf, lostcancel) that make lint runs
	@echo "== vet: quickvet ./..."
	@$(GO) run ./internal/quickvet $(PACKAGES)

.PHONY: rules
rules: ## run flowgen vet (the first time it reads the standard library: two minutes)
	@echo "== rules: flowgen vet $(PACKAGES)"
	@$(GO) run ./cmd/flowgen vet $(PACKAGES)

.PHONY: generated
generated: ## check that generated files are those that the generator writes today
	@echo "== generated: flowgen -check $(PACKAGES)"
	@$(GO) run ./cmd/flowgen -check $(PACKAGES) $(CORPORA)

# The race detector waits a second at the end of each process, of the thousands that tests start: when they end, nothing of them is at work.
NO_SLEEP := GORACE="atexit_sleep_ms=0 $(GORACE)"

# Tests wait for servers, leases and clocks more than they compute: four packages at a time keep two processors busy.
AT_ONCE = $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)

# These take longest, and begin first: the last one would be waited for alone.
LONG := ./redisstore ./sqlitestore ./runtime/worker ./internal/generator ./cmd/flowctl/cli ./internal/survival ./admin/hooks ./internal/gate

# Tests sample what takes long (see internal/testutil/depth): make test-all executes all of it.
test-all: export FLOWTEST_FULL := 1

# The tests of the programs that measure and harm prove nothing that is promised: make test-all runs them.
MEASURING := ./lab/bench/...

.PHONY: measuring
measuring: ## run the tests of the programs that measure and harm fleets
	@echo "== measuring: go test $(MEASURING)"
	@$(call gotest,-vet=off -p $(AT_ONCE) -timeout $(RACE_TIMEOUT),$(MEASURING))

# lab/versus is no module of the workspace.
IN_VERSUS := cd lab/versus && export GOWORK=off &&
VERSUS    ?= -docs ../../docs/internals

.PHONY: versus-test
versus-test: ## run the tests of lab/versus, with all other systems whose servers are installed
	@echo "== versus-test: go test, in lab/versus"
	@$(IN_VERSUS) $(GO) tool flowgen -check ./... && $(GO) vet ./... && $(call gotest,-vet=off -timeout $(RACE_TIMEOUT),./...)

.PHONY: versus
versus: ## measure flowgen and other systems, and write docs/internals/comparison.md, or with other flags: VERSUS (6 minutes)
	@$(IN_VERSUS) $(GO) run . $(VERSUS)

.PHONY: plain
plain: ## run the tests of all packages that are not watched for races, and of the stores
	@echo "== plain: go test, of all packages that race and measuring leave out"
	@packages=$$($(GO) list $(PACKAGES)) && others=$$($(GO) list $(WATCHED) $(MEASURING)) && \
	packages=$$(echo "$$packages" | grep -vxF "$$others") && \
	$(call gotest,-vet=off -p $(AT_ONCE) -parallel 4 -timeout $(RACE_TIMEOUT),$(LONG) $$packages)

# vet was run by itself.
RACE = CGO_ENABLED=1 $(NO_SLEEP) $(call gotest,-race -vet=off $(UNWATCHED) -p $(AT_ONCE) -parallel 4 -timeout $(RACE_TIMEOUT) $(1),$(2))

.PHONY: race
race: compiler ## run the tests of what does several things at once under the race detector
	@echo "== race: go test -race"
	@$(call RACE,-tags inmemory,$(WATCHED_IN_MEMORY) $(WATCHED))

.PHONY: race-all
race-all: race ## the same of the stores, of the worker and all promises on each of them, and of admin (10 minutes)
	@echo "== race-all: go test -race"
	@$(call RACE,,$(ALSO_WATCHED))
	@$(call RACE,-run '$(STORE_RACES)',$(STORES))

.PHONY: compiler
compiler:
	@cc=$$($(GO) env CC); command -v "$${cc%% *}" >/dev/null && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "== compiler: no C compiler ($$cc) for the race detector: installing gcc"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends gcc libc6-dev >/dev/null; \
	else \
		echo "no C compiler ($$cc): go test -race needs one, install gcc"; exit 1; \
	fi

.PHONY: generate
generate: ## write the generated files
	$(GO) run ./cmd/flowgen $(PACKAGES) $(CORPORA)
	$(IN_VERSUS) $(GO) tool flowgen ./...

.PHONY: lint
lint: ## run golangci-lint (the first time builds it: one to five minutes) and check the English of changed files
	$(GO) run ./lab/english
	$(GO) run $(GOLANGCI_LINT) run $(PACKAGES)
	@for os in windows darwin; do echo "== vet: what is generated, for $$os"; GOOS=$$os CGO_ENABLED=0 $(GO) vet ./generated/... || exit 1; done

.PHONY: govulncheck
govulncheck: ## look for known vulnerabilities in what this tree calls (asks vuln.go.dev)
	$(GO) run $(GOVULNCHECK) $(PACKAGES)

# The export data of the old revision is written from a copy of its tree. What is not for import is not compared.
.PHONY: apidiff
apidiff: ## print what has changed in the exported names of the root module since OLD, a revision (the last tag)
	@[ -n "$(OLD)" ] || { echo "no tag to compare with: make apidiff OLD=REVISION"; exit 1; }
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && $(GO) mod download && GOBIN="$$dir" $(GO) install $(APIDIFF) && mkdir "$$dir/old" && \
	git archive "$(OLD)" | tar -x -C "$$dir/old" && export GOWORK=off && \
	(cd "$$dir/old" && "$$dir/apidiff" -m -w "$$dir/export" $$($(GO) list -m) >/dev/null 2>&1) && \
	{ "$$dir/apidiff" -m "$$dir/export" $$($(GO) list -m) 2>&1 | grep -v '^Ignoring internal package' || true; }

# Node 20 or later and npm are needed for this only.
.PHONY: ts
ts: ## check, build and test the TypeScript client, also against a server and a worker (needs Node 20 and npm)
	cd clients/ts && npm ci && npm run build && npm run check && npm test
	$(GO) run ./clients/ts/e2e npm --prefix clients/ts run e2e

.PHONY: fuzz
fuzz: ## run every fuzz test for FUZZTIME (20s)
	@list=$$($(GO) test -list '^Fuzz' $(PACKAGES)) || { echo "$$list"; exit 1; }; \
	echo "$$list" | \
		awk '/^Fuzz/ { names[n++] = $$1 } /^ok/ { for (i = 0; i < n; i++) print names[i], $$2; n = 0 }' | \
		while read -r name package; do \
			echo "== fuzz: $$name of $$package"; \
			$(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "$$package" </dev/null || exit 1; \
		done

.PHONY: cover
cover: ## measure the coverage of all packages by all tests
	$(GO) test -coverpkg=./... -coverprofile=coverage.out $(PACKAGES)
	$(GO) tool cover -func=coverage.out | tail -n 1

.PHONY: mutants
mutants: ## disable each guard of the engine in turn, into build/mutants.md: some test must notice (40 minutes on two cores)
	@mkdir -p build
	$(GO) run ./lab/mutants -write build/mutants.md

.PHONY: promises
promises: ## write build/promises.md: each promise with the tests that prove it
	@mkdir -p build
	$(GO) test ./internal/docs -run TestPromises_ -count=1 -promises $(CURDIR)/build/promises.md

.PHONY: chaos
chaos: compiler ## kill and stall workers at random, on SQLite and Redis, with the race detector and seeds 1 to 10
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && CGO_ENABLED=1 $(GO) build -race -o "$$dir/bench" ./lab/bench && \
	for seed in 1 2 3 4 5 6 7 8 9 10; do for store in redis "sqlite:$$dir/$$seed.db"; do \
		echo "== chaos: bench chaos $(CHAOS) -every 200ms -store $$store -seed $$seed"; \
		"$$dir/bench" chaos $(CHAOS) -every 200ms -store "$$store" -seed $$seed 2>"$$dir/log" || { cat "$$dir/log"; exit 1; }; \
	done; done

.PHONY: chaos-redis
chaos-redis: ## harm fleets on Redis, with seeds 1 to 10, and restart the server, too (4 minutes)
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && $(GO) build -o "$$dir/bench" ./lab/bench && \
	for seed in 1 2 3 4 5 6 7 8 9 10; do for more in "" -restart-server; do \
		echo "== chaos-redis: bench chaos $(CHAOS) -seed $$seed $$more"; \
		"$$dir/bench" chaos $(CHAOS) -seed $$seed $$more 2>"$$dir/log" || { cat "$$dir/log"; exit 1; }; \
	done; done

.PHONY: chaos-limits
chaos-limits: LIMITED_STORE = sqlite:$$dir/chaos.db
chaos-limits: ## harm fleets whose steps use limits, on SQLite, with LIMIT_SEEDS (1 to 5): 10,000 steps each (7 minutes)
	@$(LIMITED)

.PHONY: chaos-limits-redis
chaos-limits-redis: LIMITED_STORE = redis-sentinel -failovers 2
chaos-limits-redis: ## the same on Redis, with two failovers to the replica (10 minutes)
	@$(LIMITED)

define LIMITED
dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && $(GO) build -o "$$dir/bench" ./lab/bench && \
for seed in $(LIMIT_SEEDS); do \
	echo "== $@: bench chaos $(LIMITS) -store $(LIMITED_STORE) -seed $$seed"; \
	"$$dir/bench" chaos $(LIMITS) -store $(LIMITED_STORE) -seed $$seed 2>"$$dir/log" || { cat "$$dir/log"; exit 1; }; \
	grep -E '^(chaos|[0-9]+ (steps|attempts|pauses))' "$$dir/log"; rm -f "$$dir"/chaos.db*; \
done
endef

.PHONY: endure
endure: ## an hour of deploys, restarts of the server, deleted keys and repairs: ENDURE (-duration 1h)
	$(GO) run ./lab/bench endure $(ENDURE)

.PHONY: check-protocol
check-protocol: ## explore the kernel of the stores to the end, every configuration (three minutes, 3 GB)
	$(GO) test -count=1 -v -timeout 1h ./runtime/store/protocol/check -full

.PHONY: matrix
matrix: ## judge every change of the table of docs/use/breaking.md by the runtime
	@echo "== matrix: go test ./internal/compat -matrix"
	@$(GO) test ./internal/compat -run Matrix -matrix -v -count=1

.PHONY: chromium
chromium:
	@for name in chromium chromium-browser google-chrome; do command -v $$name >/dev/null && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "== chromium: no browser: installing chromium"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium fonts-dejavu-core >/dev/null; \
	else \
		echo "no chromium: the console is tested in a browser, install chromium"; exit 1; \
	fi

.PHONY: ui
ui: chromium ## test the web console in a browser, on every store (installs chromium where it is missing); PICTURES=DIR draws all pages
	FLOWTEST_BROWSER=1 FLOWTEST_PICTURES=$(abspath $(PICTURES)) $(GO) test -count=1 -timeout 20m ./admin/console ./cmd/flowctl/uitest/...

.PHONY: pictures
pictures: chromium ## draw the pictures of the documentation from real runs
	@dir=$$(mktemp -d) && $(GO) build -o "$$dir" ./lab/tour ./cmd/flowctl ./cmd/flowctl/uitest/pictures && \
	"$$dir/tour" -store "sqlite:$$dir/tour.db" -messages 400 >/dev/null && { \
		"$$dir/flowctl" ui --store "sqlite:$$dir/tour.db" --no-browser >"$$dir/at" & server=$$!; \
		trap 'kill $$server; wait $$server; rm -rf "$$dir"' EXIT; \
		until [ -s "$$dir/at" ]; do sleep 0.1; done; \
		newest() { "$$dir/flowctl" runs --store "sqlite:$$dir/tour.db" --workflow $$1 --limit 1 -o name 2>/dev/null; }; \
		"$$dir/pictures" -at "$$(cat "$$dir/at")" -width 1200 -height 640 -out docs/images "console-runs=runs?q=status:failed,cancelled,continued%20children" && \
		"$$dir/pictures" -at "$$(cat "$$dir/at")" -width 1200 -height 960 -out docs/images console-run="runs/$$(newest tour.travel)" && \
		"$$dir/pictures" -at "$$(cat "$$dir/at")" -width 1200 -height 560 -theme dark -out docs/images console-failures=failures; }
	$(GO) test ./otelflow -run TestPictures -count=1 -pictures $(CURDIR)/docs/images
	$(GO) test ./cmd/flowctl/uitest/pictures -count=1 -pictures $(CURDIR)/docs/images

.PHONY: pairs
pairs: ## judge every command in every state of a run on every store, and two commands in turn: PAIRS_SEED (1)
	$(GO) test -count=1 -v -timeout 2h ./runtime/promises/pairs -pairs.long -pairs.seed=$(PAIRS_SEED)

.PHONY: soak
soak: compiler ## the long versions of the tests that chance and sizes bound: CHECKS (1000), SEEDS (30), SEED (1)
	CGO_ENABLED=1 $(GO) test -race -count=1 -timeout 2h ./memstore ./sqlitestore -rapid.checks=$(CHECKS)
	CGO_ENABLED=1 $(GO) test -race -count=1 -timeout 2h ./redisstore -layouts -rapid.checks=$(CHECKS)
	$(GO) test -count=1 -timeout 1h ./runtime/event ./runtime/internal/effects ./runtime/internal/replay -rapid.checks=$(CHECKS)0
	$(GO) test -count=1 -timeout 1h -run CatchesEveryFault ./runtime/store/storetest -faults
	CGO_ENABLED=1 $(GO) test -race -count=1 -timeout 1h ./runtime/step/sqlstep/databases -kills=20
	CGO_ENABLED=1 $(GO) test -race -count=1 -timeout 1h ./runtime/internal/... ./runtime/limit ./runtime/store/paging ./admin/...
	$(GO) test -count=1 -run TestPlan ./runtime/workflow -plan.asks=200
	CGO_ENABLED=1 $(GO) test -race -count=1 -timeout 2h ./runtime/worker -attack.seeds=$(SEEDS)
	CGO_ENABLED=1 $(GO) test -race -count=1 -timeout 2h ./runtime/worker ./runtime/promises/... -near
	CGO_ENABLED=1 $(GO) test -race -count=1 -timeout 1h ./internal/survival -killer.innocents=200
	$(MAKE) chaos
	$(GO) test -count=1 -v -run 'VeryManyChunks|ThousandsOfReaders' ./runtime/promises/streams -soak
	CGO_ENABLED=1 $(GO) test -race -count=1 -timeout 2h ./runtime/workflowtest -crash.sample=$(SEEDS) -crash.seed=$(SEED)
