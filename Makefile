# The targets that people type: build, test, install. CI calls the same.

PREFIX  ?= /usr/local
DESTDIR ?=
GO      ?= go
VERSION ?=

bin   = $(DESTDIR)$(PREFIX)/bin
share = $(DESTDIR)$(PREFIX)/share

.PHONY: all build tools test cover race model model-full lint fuzz bench torture faults packages package-test install uninstall clean

all: build

# Static: no libc at run time, and a third less time to start. The version is the
# repository's; in a tree without one, VERSION=v1.2.3 says it.
LDFLAGS ?=
build:
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=auto -ldflags '$(LDFLAGS)$(if $(VERSION), -X withlease/run.version=$(VERSION))' -o withlease .

# What the tests need on a fresh Debian machine.
tools:
	scripts/test-tools

# All tests. They start real processes, terminals and shells. COVER=yes prints what
# of each package runs in them, by the processes that they start too.
test: tools
	$(if $(COVER),GO="$(GO)" scripts/cover,CGO_ENABLED=0 $(GO) test -p 1 -timeout 15m ./...)
cover:
	$(MAKE) test COVER=yes

# All tests with the race detector, which needs cgo. It makes each process sleep a
# second before it exits, so that what other threads find can be said: less is enough.
race: tools
	GORACE="atexit_sleep_ms=10 $$GORACE" CGO_ENABLED=1 $(GO) test -race -p 1 -timeout 30m ./...

# The protocol's model, and the mutations of it that must fail: a minute or two
# on two cores; all of it takes ten.
model: tools
	lease/testdata/model/check.sh --quick
model-full: tools
	lease/testdata/model/check.sh --long

lint: tools
	scripts/lint

# Each fuzz target for FUZZTIME.
FUZZTIME ?= 30s
fuzz:
	scripts/fuzz $(FUZZTIME)

# Ratios to flock(1) and script(1), measured in the same run.
bench:
	$(GO) run ./scripts/bench

# Every verb at random with kills, stops and forces, checked from outside, for FOR.
FOR ?= 1m
torture:
	$(GO) run ./scripts/torture --for $(FOR)

# Every system call of a run failing in every way, which takes some minutes; make test does a part.
faults: tools
	FAULTS=all CGO_ENABLED=0 $(GO) test -timeout 60m -run 'TestFaults' -v .

# dist/*.deb and dist/*.rpm; package-test installs them into an empty root.
packages:
	GO="$(GO)" scripts/package

package-test: tools
	scripts/package-test

install: build
	install -d $(bin) $(share)/man/man1 $(share)/man/man5 \
		$(share)/bash-completion/completions $(share)/zsh/site-functions $(share)/fish/vendor_completions.d \
		$(share)/doc/withlease $(DESTDIR)$(PREFIX)/include
	install -m 755 withlease $(bin)/withlease
	install -m 644 man/withlease.1 $(share)/man/man1/
	install -m 644 man/withlease-files.5 $(share)/man/man5/
	install -m 644 completions/withlease.bash $(share)/bash-completion/completions/withlease.bash
	install -m 644 completions/_withlease $(share)/zsh/site-functions/_withlease
	install -m 644 completions/withlease.fish $(share)/fish/vendor_completions.d/withlease.fish
	install -m 644 README.md CHANGELOG.md LICENSE $(share)/doc/withlease/
	install -m 644 scripts/withlease.mk $(DESTDIR)$(PREFIX)/include/withlease.mk
	install -m 755 scripts/lab-lock.sh $(share)/doc/withlease/lab-lock.sh

uninstall:
	rm -f $(bin)/withlease $(share)/man/man1/withlease.1 $(share)/man/man5/withlease-files.5 \
		$(share)/bash-completion/completions/withlease.bash $(share)/zsh/site-functions/_withlease \
		$(share)/fish/vendor_completions.d/withlease.fish $(DESTDIR)$(PREFIX)/include/withlease.mk
	rm -rf $(share)/doc/withlease

clean:
	rm -rf withlease dist cover
