//go:build !linux

package signals

import "syscall"

// more are the forwarded signals of the BSDs: ^T.
var more = []syscall.Signal{syscall.SIGINFO}

// receive leaves it to Notify, which doesn't know the sender.
func receive(list []syscall.Signal, in *post, done chan int, parked chan<- struct{}) {
	close(parked)
	done <- <-done
}

func threadID() int { return 0 }
func wake(int)      {}
