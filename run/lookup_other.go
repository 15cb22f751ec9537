//go:build !linux

package run

func onNoExec(string) bool { return false }
