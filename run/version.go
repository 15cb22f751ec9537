package run

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Version says which withlease this is. A build without version control
// stamps says so.
func Version() string {
	version, commit, dirty := "(unknown)", "", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if v := info.Main.Version; v != "" && v != "(devel)" {
			version = v
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
	return fmt.Sprintf("withlease %s, commit %s%s, %s %s/%s", version, commit, dirty, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
