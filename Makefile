# make(1) in front of meson: each target alone installs what is missing (tools/setup), configures
# (tools/configure) and builds. `make help` lists them.

BUILD   = build
PREFIX  = /usr/local
DESTDIR =

.PHONY: all web demo test soak chaos stalled peers-soak fuzz traps unprotected mutants bench explore verify lab install deb deb-test coverage format lint clean help
.NOTPARALLEL:

all:
	@tools/setup build
	@tools/configure $(BUILD)
	@ninja -C $(BUILD) product

# The playground, for `conclave play` and as a folder that any file server can serve.
web: all
	@tools/setup web
	@tools/configure $(BUILD) -Dweb=enabled
	@ninja -C $(BUILD) web
	@rm -rf web/dist
	@cp -r $(BUILD)/web/dist web/dist
	@echo 'the playground is in web/dist; $(BUILD)/conclave play shows it'

demo: all
	@tools/demo $(BUILD)/conclave

test:
	@tools/setup test
	@tools/run-tests

# The random fault runs in full: 20,000 drawn scenarios for each protocol, and the fixed shapes beside them.
soak:
	@tools/setup test
	@tools/configure $(BUILD) -Dtests=enabled
	@ninja -C $(BUILD) --quiet all meson-test-prereq
	@CV_TEST_SCALE=100 meson test -C $(BUILD) --no-rebuild --suite sim --timeout-multiplier 10

# Kills, stops, stalls and cuts, one after the other; a failure names the command that ran when it must not.
# STORE: sqlite, postgres, etcd or zookeeper. CHAOS: options, such as '--seed 7'; with --library first, programs that
# embed the library and resign run instead of `conclave run`.
MINUTES = 5
STORE   = sqlite
chaos:
	@tools/setup test
	@tools/configure $(BUILD) -Dtests=enabled
	@ninja -C $(BUILD) --quiet product chaos-parts
	@tools/chaos $(BUILD) $(STORE) $(MINUTES) $(CHAOS)

# The tests of stores, processes and files, while their disk stalls again and again.
stalled:
	@tools/setup test
	@tools/configure $(BUILD) -Dtests=enabled
	@ninja -C $(BUILD) --quiet all meson-test-prereq
	@meson test -C $(BUILD) --no-rebuild --setup stalled

# Members of clusters in network namespaces, with random faults; as root. Then leaders that are stopped and
# woken up, with a lease of 15 ms: none of them leads or writes after another did.
STOPS = 1000
peers-soak:
	@tools/setup test
	@tools/configure $(BUILD) -Dtests=enabled
	@ninja -C $(BUILD) --quiet peers-parts
	@CHAOS_SECONDS=$$(($(MINUTES) * 60)) CHAOS_SEED=$(SEED) tests/system/test_peers_wan.py $(BUILD)/conclave \
		$(BUILD)/tests/peers_claims random_faults_of_three random_faults_of_five_with_local random_faults_of_seven
	@STOPS=$(STOPS) STOPS_OPTIONS='profile = loopback,heartbeat = 3ms,timeout = 12ms,round = 2500us,lease = 15ms' \
		tests/system/test_peers.py $(BUILD)/conclave $(BUILD)/tests/peers_claims woken_leader_neither_leads_nor_writes

# Every parser of input from others, with inputs of libFuzzer. Stops at the first failure.
# SECONDS: for each target; TARGETS=etcd,core: only those.
SECONDS = 60
TARGETS =
fuzz:
	@tools/setup test
	@tools/configure build-asan -Dtests=enabled
	@ninja -C build-asan --quiet fuzz-programs
	@tools/fuzz build-asan --seconds $(SECONDS) --only '$(TARGETS)'

# The tests that provoke the traps of docs/traps.md, and a table of their results.
traps:
	@tools/setup test
	@tools/configure $(BUILD) -Dtests=enabled
	@ninja -C $(BUILD) --quiet all meson-test-prereq
	@tools/traps $(BUILD)

# Protections of stores, supervisor and commands, taken out one by one: their tests must fail.
unprotected:
	@tools/setup test
	@mkdir -p $(BUILD)
	@tests/unprotected/run.py $(BUILD)

# Mutation testing of the cores: each mechanical mistake should make a test fail. COUNT for each protocol, 0: all.
COUNT = 100
SEED  = 1
mutants:
	@tools/setup test
	@tools/configure $(BUILD) -Dtests=enabled
	@ninja -C $(BUILD) --quiet all meson-test-prereq
	@tools/mutants --build $(BUILD) --count $(COUNT) --seed $(SEED)

bench:
	@tools/setup test
	@tools/setup bench || echo 'make bench: runs without the programs that could not be installed' >&2
	@tools/configure $(BUILD) -Dtests=enabled
	@ninja -C $(BUILD) --quiet all meson-test-prereq
	@tools/bench $(BUILD)

# Takes minutes; docs/lab/local.md, docs/lab/pole.md and docs/lab/auto.md explain the results.
lab: all
	@tools/setup lab
	@$(BUILD)/conclave lab local --plots docs/lab
	@$(BUILD)/conclave lab pole --plots docs/lab
	@$(BUILD)/conclave lab pole --random 1000 --plots docs/lab
	@$(BUILD)/conclave lab auto --plots docs/lab

# The tables of docs/explore.md; some of it takes hours. It can be stopped, and continues later.
explore: all
	@tools/explore-tables $(BUILD)/conclave --nodes 2 --limit 600s --results $(BUILD)/explore.results
	@tools/explore-tables $(BUILD)/conclave --nodes 3 --limit 600s --results $(BUILD)/explore.results
	@tools/explore-tables $(BUILD)/conclave --nodes 2 --limit 600s --pairs --results $(BUILD)/explore.results
	@tools/explore-tables $(BUILD)/conclave --nodes 2 --limit 600s --drift --results $(BUILD)/explore.results
	@tools/explore-tables $(BUILD)/conclave --nodes 3 --limit 60s --total 1h --pairs --results $(BUILD)/explore.results
	@tools/configure $(BUILD) -Dtests=enabled
	@ninja -C $(BUILD) --quiet all meson-test-prereq
	@tools/explore-plants $(BUILD)
	@tests/sim/replay.py $(BUILD)/conclave --larger

# Models of pole and local, written from the papers, checked by spin: with any rule switched off, spin must find an error.
# Then the models must be able to follow traces of the program, but not those of planted bugs.
verify: all
	@tools/setup verify
	@tools/verify
	@tools/configure $(BUILD) -Dtests=enabled
	@ninja -C $(BUILD) --quiet all meson-test-prereq
	@tests/sim/validate.py $(BUILD)/conclave $(BUILD)/tests/planted --seeds 20

# The prefix is compiled in, so it is set before building; only a new one configures again.
# ldconfig: so that a program finds the library at once.
install:
	@tools/setup build
	@tools/configure $(BUILD) -Dprefix=$(PREFIX)
	@ninja -C $(BUILD) installable
	@DESTDIR=$(DESTDIR) meson install -C $(BUILD) --no-rebuild --quiet
	@if [ -z "$(DESTDIR)" ] && [ "$(PREFIX)" = /usr/local ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi

# Debian packages into build-deb/; deb-test installs and tries them in a fresh Debian, as root.
deb:
	@tools/setup deb
	@tools/make-deb

deb-test:
	@tools/setup deb
	@SOURCE_ROOT=$(CURDIR) tests/system/test_deb.sh

coverage:
	@tools/setup test
	@tools/configure build-coverage -Dtests=enabled
	@ninja -C build-coverage --quiet all meson-test-prereq
	@find build-coverage -name '*.gcda' -delete
	@meson test -C build-coverage --no-rebuild --quiet --no-suite system --no-suite bench \
		--no-suite build --no-suite planted || echo 'some tests failed; the lines that ran are counted'
	@mkdir -p build-coverage/report
	@gcovr --root . --object-directory build-coverage --filter src/ --filter include/ \
		--txt --print-summary --html-details build-coverage/report/index.html
	@echo "line by line: build-coverage/report/index.html"

format:
	@tools/setup test
	@tools/format

# clang-tidy, and gcc's analyzer where it is useful; files that have passed are not checked again.
lint:
	@tools/setup test
	@tools/configure $(BUILD) -Dtests=enabled
	@ninja -C $(BUILD) --quiet product
	@tools/lint $(BUILD)

clean:
	rm -rf web/dist build build-asan build-clang build-coverage build-deb

help:
	@echo 'make            build/conclave and the libraries'
	@echo 'make web        the playground: web/dist, which conclave play serves'
	@echo 'make demo       three contenders, one command: killed, asked to resign, stopped'
	@echo 'make test       every test, also with sanitizers and valgrind'
	@echo 'make soak       the random fault runs in full: some minutes'
	@echo 'make chaos      MINUTES=5 STORE=sqlite: processes killed and stopped at random, one leader;'
	@echo '                CHAOS=--library: programs that embed the library'
	@echo 'make stalled    the tests of stores and processes on a disk that stalls again and again; minutes'
	@echo 'make peers-soak MINUTES=5 SEED=1: clusters in network namespaces, with random faults; as root'
	@echo 'make fuzz       SECONDS=60: search for inputs that break a parser; minutes'
	@echo 'make traps      the tests of docs/traps.md, and the table'
	@echo 'make unprotected protections taken out one by one: their tests must fail'
	@echo 'make mutants    COUNT=100 SEED=1: mistakes in the cores that tests must notice; an hour'
	@echo 'make bench      the benchmarks'
	@echo 'make explore    every run of small clusters: the tables of docs/explore.md; hours'
	@echo 'make verify     models of pole and local, checked by spin, and compared with traces; minutes'
	@echo 'make lab        the experiments of docs/lab and their plots'
	@echo 'make install    PREFIX=/usr/local DESTDIR=: program, libraries, headers, man pages'
	@echo 'make deb        Debian packages, into build-deb/; deb-test tries them in a fresh Debian'
	@echo 'make coverage   which lines the tests run: build-coverage/report'
	@echo 'make format     lay out the sources with clang-format'
	@echo 'make lint       clang-tidy and gcc -fanalyzer on what has changed'
	@echo 'make clean      remove the build trees'
