package lease_test

import (
	"os"
	"strings"
	"testing"
)

// The tests of deaths, races and lines need other processes: this binary again,
// as the helper that the environment names. What a helper does is told to it
// (see agent_linux_test.go).
const helperEnv = "LEASE_TEST_HELPER"

var helpers = map[string]func(){}

func TestMain(m *testing.M) {
	if f := helpers[os.Getenv(helperEnv)]; f != nil {
		f()
		os.Exit(0)
	}
	// Nothing of a lease that the tests run under reaches them.
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "WITHLEASE_") {
			os.Unsetenv(name)
		}
	}
	os.Exit(m.Run())
}
