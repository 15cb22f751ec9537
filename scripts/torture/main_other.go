//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "torture: it looks into /proc and needs pidfds: Linux only")
	os.Exit(2)
}
