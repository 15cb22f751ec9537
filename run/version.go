package run

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is what the linker says of a build without version control stamps
// (make build VERSION=v1.2.3).
var version string

// Version says which withlease this is. A build without version control
// stamps says so.
func Version() string {
	name, commit, dirty := cmp.Or(version, "(unknown)"), "", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if v := info.Main.Version; v != "" && v != "(devel)" {
			name = v
		}
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				commit = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				dirty = ", modified"
			}
		}
	}
	if commit == "" {
		commit = "not recorded (built with -buildvcs=false)"
	}
	return fmt.Sprintf("withlease %s, commit %s%s, %s %s/%s", name, commit, dirty, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
