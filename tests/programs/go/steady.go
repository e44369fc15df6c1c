// SPDX-License-Identifier: LGPL-2.1-or-later

// A program that uses what is peculiar to Go: goroutines that the runtime suspends anywhere by a signal, that begin with
// 2 KiB of stack and move to another stack when that is full, faults that become panics, and a collector that reads all
// stacks. It has the command line of the C programs (check.h).
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
)

const (
	workers = 4
	steps   = 200000
	levels  = 200
)

var expected uint64

//go:noinline
func hot(n int, a, b uint64) uint64 {
	for i := 0; i < n; i++ {
		if a&1 == 0 {
			a = a/2 + b
		} else {
			a = a*3 + 1
		}
		b ^= a << 3
	}
	return a ^ b
}

//go:noinline
func deep(n int) int {
	var pad [6]int
	if n == 0 {
		return 0
	}
	pad[n%6] = n
	return deep(n-1) + pad[n%6] - n + 1
}

//go:noinline
func faulty(where *int) (value int) {
	defer func() {
		if recover() != nil {
			value = -1
		}
	}()
	return *where
}

func check(good bool, what string) {
	if !good {
		fmt.Fprintln(os.Stderr, "FAIL steady:", what)
		os.Exit(1)
	}
}

func oneRound() {
	check(hot(steps, 1, 2) == expected, "hot")
	depth := make(chan int)
	go func() { depth <- deep(levels) }()
	check(<-depth == levels, "deep")
	check(faulty(nil) == -1, "faulty")
	text := strconv.Itoa(len(make([]byte, 10000)))
	check(text == "10000", "strconv")
}

func rounds(amount int, over *atomic.Bool) {
	var group sync.WaitGroup
	for worker := 0; worker < workers; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for round := 0; round < amount || over != nil && !over.Load(); round++ {
				oneRound()
			}
		}()
	}
	group.Wait()
}

func untilClosed() {
	var over atomic.Bool
	fmt.Println("ready")
	go func() {
		os.Stdin.Read(make([]byte, 1))
		over.Store(true)
	}()
	rounds(0, &over)
}

func main() {
	expected = hot(steps, 1, 2)
	if len(os.Args) > 1 && os.Args[1] == "loop" {
		untilClosed()
	} else {
		rounds(10, nil)
		runtime.GC()
	}
	fmt.Println("ok steady")
}
