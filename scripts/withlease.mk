# withlease.mk: leases in a Makefile, also where withlease isn't installed.
#
#	-include withlease.mk
#	test: ; $(call WITHLEASE,kind-1) go test ./...
#	sub:  ; $(call WITHLEASE,-w 5m kind-1) $(MAKE) -C sub
#
# $(call WITHLEASE,FLAGS RESOURCES) is the words in front of a command: nothing where withlease isn't on PATH,
# and nothing where it is switched off (make WITHLEASE=).
# A line that reaches a make only through another program needs a + in front, as without a lease: that keeps the jobserver.
#
# All of a recipe under one lease, which neither its prerequisites take nor $(shell) at the top of the file:
#
#	.ONESHELL:
#	e2e: private SHELL := $(or $(WITHLEASE_SHELL),/bin/sh)
#	e2e: private .SHELLFLAGS := $(call WITHLEASE_SHELLFLAGS,kind-1) -ec

# Looked for once, and not below: a target's own SHELL would do the looking there.
withlease := $(shell command -v withlease 2>/dev/null)

# Recursive, not :=, as $(1) is known only when they are called.
WITHLEASE ?= $(if $(withlease),withlease $(1) --)
WITHLEASE_SHELL = $(if $(call WITHLEASE),$(withlease),/bin/sh)
WITHLEASE_SHELLFLAGS = $(if $(call WITHLEASE),$(1) -- /bin/sh)
