// A Go program that computes in C and in Go, and again while Go's own profiler, its signals and its timers run. Prints what is not as
// Go promises; exit status 1 if anything is not.
package main

/*
#include <errno.h>
#include <time.h>
#include <unistd.h>

static double CpuSeconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
static __attribute__((noinline)) void BurnCpu(double seconds) {
  static volatile unsigned sink;
  const double end = CpuSeconds() + seconds;
  do {
    for (unsigned i = 0; i < 2000; ++i) sink += i * i;
  } while (CpuSeconds() < end);
}
// The error of a read that waits for a byte; 0: none.
static int ReadByte(int fd) {
  char byte;
  return read(fd, &byte, 1) == 1 ? 0 : errno;
}
extern int Square(int);
static int CallsGo(int number) {
  BurnCpu(0.002);
  return Square(number);
}
*/
import "C"

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

var wrong atomic.Bool

func expect(is bool, what string) {
	if !is {
		fmt.Println(what)
		wrong.Store(true)
	}
}

//export Square
func Square(number C.int) C.int {
	_ = make([]byte, 1<<16) // grows and collects
	return number * number
}

func compute() (sum int) {
	for i := 0; i < 20_000_000; i++ {
		sum += i & 3
	}
	return
}

func work() {
	received := make(chan os.Signal, 100)
	signal.Notify(received, syscall.SIGUSR1)
	var all sync.WaitGroup
	for i := 0; i < 4; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			runtime.LockOSThread() // the thread ends with it
			var pipe [2]int
			expect(syscall.Pipe(pipe[:]) == nil, "no pipe")
			for round := 0; round < 10; round++ {
				C.BurnCpu(0.01)
				go func() { // while C waits
					time.Sleep(time.Millisecond)
					syscall.Write(pipe[1], []byte{1})
				}()
				expect(C.ReadByte(C.int(pipe[0])) == 0, "a read in C is interrupted")
				expect(C.CallsGo(C.int(round)) == C.int(round*round), "C gets another result of Go")
				expect(compute() == 30_000_000, "Go computes something else")
				runtime.GC()
			}
		}()
	}
	for i := 0; i < 10; i++ {
		expect(syscall.Kill(os.Getpid(), syscall.SIGUSR1) == nil, "no signal is sent")
		<-received
		expect(exec.Command("true").Run() == nil, "a child does not end as it should")
		start := time.Now()
		time.Sleep(5 * time.Millisecond)
		expect(time.Since(start) >= 5*time.Millisecond, "a sleep is short")
	}
	all.Wait()
	signal.Stop(received)
}

func main() {
	work()
	var profile bytes.Buffer
	expect(pprof.StartCPUProfile(&profile) == nil, "Go's own profiler does not start")
	work()
	pprof.StopCPUProfile()
	expect(profile.Len() > 0, "Go's own profile is empty")
	if wrong.Load() {
		os.Exit(1)
	}
}
