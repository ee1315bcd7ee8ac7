// SPDX-License-Identifier: GPL-2.0-only

// Pairs of goroutines that pass a number to and fro over unbuffered channels: what Go's own
// scheduler makes of wake-ups, with as many of its processors as there are vCPUs.
//
//	channels PAIRS PROCESSORS SECONDS
//
// Prints "done N", round trips of all pairs, and "rate N": of them per second.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

func answer(in <-chan int, out chan<- int) {
	for number := range in {
		out <- number + 1
	}
	close(out)
}

func ask(over *atomic.Bool) (trips uint64) {
	there, back := make(chan int), make(chan int)
	go answer(there, back)
	for number := 0; !over.Load(); trips++ {
		there <- number
		number = <-back
	}
	close(there)
	<-back
	return trips
}

func run(pairs int, duration time.Duration) (uint64, time.Duration) {
	var over atomic.Bool
	var done atomic.Uint64
	var all sync.WaitGroup
	begin := time.Now()
	for i := 0; i < pairs; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			done.Add(ask(&over))
		}()
	}
	time.Sleep(duration)
	over.Store(true)
	all.Wait()
	return done.Load(), time.Since(begin)
}

func main() {
	var numbers [3]float64
	if len(os.Args) != 4 {
		usage()
	}
	for i := range numbers {
		number, why := strconv.ParseFloat(os.Args[i+1], 64)
		if why != nil || number <= 0 {
			usage()
		}
		numbers[i] = number
	}
	runtime.GOMAXPROCS(int(numbers[1]))
	done, took := run(int(numbers[0]), time.Duration(numbers[2]*float64(time.Second)))
	fmt.Printf("done %d\nrate %.6g\n", done, float64(done)/took.Seconds())
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: channels PAIRS PROCESSORS SECONDS")
	os.Exit(64)
}
