package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// describeMachine names what the figures depend on: cores, kernel, file system of the scratch directory, load, peers.
func describeMachine(scratch string) string {
	release := firstLine("/proc/sys/kernel/osrelease")
	load := strings.Fields(firstLine("/proc/loadavg"))
	return fmt.Sprintf("%d cores (%s), %s %s, %s, load %s at the start, %s, %s",
		runtime.NumCPU(), processorName(), runtime.GOOS, release, fileSystem(scratch),
		strings.Join(load[:min(3, len(load))], " "), versionOf("flock"), runtime.Version())
}

// busyNote warns of company: a wake-up that should take 0.1 ms takes 4 ms while others want the processors.
func busyNote() []string {
	load := strings.Fields(firstLine("/proc/loadavg"))
	if len(load) == 0 {
		return nil
	}
	if one, err := strconv.ParseFloat(load[0], 64); err != nil || one < 0.5*float64(runtime.NumCPU()) {
		return nil
	}
	return []string{"others use this machine: of these figures only large differences mean something"}
}

func firstLine(path string) string {
	text, _ := os.ReadFile(path)
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

func processorName() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func versionOf(tool string) string {
	out, err := exec.Command(tool, "--version").Output()
	if err != nil {
		return "no " + tool
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}

// fileSystem answers the type of the file system that dir is on, as the longest matching mount point has it.
func fileSystem(dir string) string {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "unknown file system"
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	kind, longest := "unknown file system", -1
	for line := range strings.Lines(string(mounts)) {
		left, right, _ := strings.Cut(line, " - ")
		fields, types := strings.Fields(left), strings.Fields(right)
		if len(fields) < 5 || len(types) == 0 {
			continue
		}
		point := fields[4]
		within := point == "/" || dir == point || strings.HasPrefix(dir, point+"/")
		if within && len(point) >= longest {
			kind, longest = types[0], len(point)
		}
	}
	return kind
}
