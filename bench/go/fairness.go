// Two goroutines a processor that compute for a slice between yields; beside them a sleep of 10 ms, and
// a goroutine that is started and waited for.  Usage: fairness SLICE_US PROCESSORS SECONDS
// Prints one "name value" a line, as bench/support/go_program.hpp reads them.
package main

import (
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"sync/atomic"
	"time"
)

func compute(slice time.Duration) {
	for begin := time.Now(); time.Since(begin) < slice; {
	}
}

func print(name string, all []float64) {
	sort.Float64s(all)
	fmt.Printf("%s_p50_ms %g\n%s_max_ms %g\n", name, all[len(all)/2], name, all[len(all)-1])
}

func main() {
	slice, _ := strconv.Atoi(os.Args[1])
	processors, _ := strconv.Atoi(os.Args[2])
	seconds, _ := strconv.ParseFloat(os.Args[3], 64)
	runtime.GOMAXPROCS(processors)
	length := time.Duration(seconds * float64(time.Second))
	var end int32
	for i := 0; i < 2*processors; i++ {
		go func() {
			for atomic.LoadInt32(&end) == 0 {
				compute(time.Duration(slice) * time.Microsecond)
				runtime.Gosched()
			}
		}()
	}
	late := make(chan []float64)
	go func() {
		var all []float64
		for begin := time.Now(); len(all) == 0 || time.Since(begin) < length; {
			slept := time.Now()
			time.Sleep(10 * time.Millisecond)
			all = append(all, float64(time.Since(slept))/1e6-10)
		}
		late <- all
	}()
	var spawn []float64
	for begin := time.Now(); len(spawn) == 0 || time.Since(begin) < length; {
		one := time.Now()
		done := make(chan struct{})
		go func() { close(done) }()
		<-done
		spawn = append(spawn, float64(time.Since(one))/1e6)
	}
	print("sleep_late", <-late)
	atomic.StoreInt32(&end, 1)
	print("spawn", spawn)
}
