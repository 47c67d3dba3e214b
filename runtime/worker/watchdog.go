package worker

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// watchdog detects executors that do not return from user code, and loops that make no progress.
type watchdog struct {
	*env
	executors *executors
	slots     *slots
	loops     []*watched   // set before run
	checking  atomic.Int64 // when the current check began, in nanoseconds since 1970; 0 between two checks
	stopped   chan struct{}
	done      chan struct{}
}

// watched is a loop of the worker whose progress the watchdog observes.
type watched struct {
	name  string        // what the loop does, for operators
	beat  func() uint64 // changes when the loop makes progress; odd while the loop has work
	last  uint64
	still atomic.Int64 // nanoseconds in which the loop had work and made no progress
}

func newWatchdog(e *env, all *executors, s *slots) *watchdog {
	return &watchdog{env: e, executors: all, slots: s, stopped: make(chan struct{}), done: make(chan struct{})}
}

// watch adds a loop. It must be called before run.
func (w *watchdog) watch(name string, beat func() uint64) {
	w.loops = append(w.loops, &watched{name: name, beat: beat})
}

func (w *watchdog) run() {
	defer close(w.done)
	// The watchdog measures real time, even in tests with their own clock.
	interval := min(w.cfg.BlockedAfter, spareAfter*2) / 4
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-w.stopped:
			return
		case <-tick.C:
			w.checking.Store(time.Now().UnixNano())
			w.observe(interval)
			w.check()
			w.slots.offer() // an earlier offer may have notified a stuck run
			w.checking.Store(0)
		}
	}
}

// observe measures for how long loops have made no progress. It counts its own ticks, so that a
// process that was stopped, or a machine that slept, does not count.
func (w *watchdog) observe(interval time.Duration) {
	for _, l := range w.loops {
		switch beat := l.beat(); {
		case beat != l.last || beat%2 == 0:
			l.last = beat
			l.still.Store(0)
		default:
			l.still.Add(int64(interval))
		}
	}
}

// stuck returns the names of the loops that have had work for at least d and made no progress.
func (w *watchdog) stuck(d time.Duration) (names []string) {
	for _, l := range w.loops {
		if time.Duration(l.still.Load()) >= d && !slices.Contains(names, l.name) {
			names = append(names, l.name)
		}
	}
	if since := w.checking.Load(); since != 0 && time.Since(time.Unix(0, since)) >= d {
		names = append(names, "the watchdog")
	}
	return names
}

func (w *watchdog) stop() {
	close(w.stopped)
	<-w.done
}

const (
	// spareAfter is how long user code may occupy an executor while another run waits for one.
	// After that time the watchdog adds an executor.
	spareAfter = 50 * time.Millisecond
	// mostSpare bounds how many executors may be occupied for longer than spareAfter without being
	// reported.
	mostSpare = 256
)

// check replaces each executor that has been in user code for too long. The code cannot be stopped:
// it keeps its run and its goroutine, and continues if it ever returns. The other runs continue on
// the new executor.
//
// While runs wait for an executor, the threshold is spareAfter. With p executors, n runs with
// blocking code delay another run by about n/p times spareAfter, plus half as much for the interval
// of the checks. If more than mostSpare executors are occupied, the threshold is BlockedAfter. Code
// that computes for longer than the threshold is treated like blocking code. It then shares the
// processors with one more goroutine, which ends when the code returns.
func (w *watchdog) check() {
	all := w.executors.list()
	spare := 0
	for _, e := range all {
		if e.replaced.Load() && !e.reported {
			spare++
		}
	}
	for _, e := range all {
		since := e.busy.Load()
		if since == 0 {
			continue
		}
		kept := time.Since(time.Unix(0, since))
		if kept >= w.cfg.BlockedAfter && !e.reported && !w.converts(e) {
			e.reported = true
			w.reportStuck(e, "code of a run blocks outside of the durable operations: other runs continue without this executor")
		}
		if e.reported {
			w.tellBegun(e.run.Load())
		}
		if e.replaced.Load() || !e.reported && (kept < spareAfter || spare >= mostSpare || !w.executors.ready.waiting()) {
			continue
		}
		e.replaced.Store(true)
		spare++
		w.executors.start()
	}
	w.executors.forgetReplaced()
}

// tellBegun sets the status of a run to running if its code has not reached its first commit.
// Otherwise the status would be that of a run that waits for a worker. The commit has no frame. It
// contains the claim and the frame of the creation, so it has no effect once the run has progressed
// or has another owner.
func (w *watchdog) tellBegun(t *inputs) {
	if t == nil {
		return
	}
	c := t.unbegun.Swap(nil)
	if c == nil {
		return
	}
	w.work.Go(func() {
		ctx, cancel := context.WithTimeout(w.io, 5*time.Second)
		defer cancel()
		_, err := w.store.Commit(ctx, []store.Commit{{Run: c.Run, WorkflowID: c.WorkflowID, Fence: c.Fence, Prev: c.Last, Status: event.StatusRunning}})
		if err != nil {
			t.unbegun.CompareAndSwap(nil, c) // the next check retries
		}
	})
}

func (w *watchdog) reportStuck(e *executor, text string) {
	t := e.run.Load()
	if t == nil {
		return // the code has returned since the check
	}
	w.log.Error(text, "run", t.id, "workflow", t.name(), "fix", "wait with workflow.Sleep, Receive or a Future instead of channels, locks and loops",
		"stack", stackInWorkflow())
}

// converts reports whether the only code of workflows that is running encodes or decodes values. This
// takes long for large values, and longer than BlockedAfter on a busy machine. A caller with a blocked
// method of a value is not excepted.
func (w *watchdog) converts(e *executor) bool {
	if e.run.Load() == nil {
		return false
	}
	if now := time.Now(); now.After(e.examine) {
		e.examine, e.converts = now.Add(w.cfg.BlockedAfter/4), converting(stackInWorkflow())
	}
	return e.converts
}

// converting reports whether all of the given stacks are in the conversion of values, and in no method
// of a value.
func converting(stacks string) bool {
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		if !convertsValue(stack) {
			return false
		}
	}
	return true
}

// conversions are the functions in which values are converted. Above them, stacks contain only
// functions of the packages in converters.
var (
	conversions = []string{"/internal/flow.Marshal", "/internal/flow.checkWritten", "/internal/flow.Decode", "/internal/flow.decodeAll", "/internal/flow.readAll",
		"/internal/flow.unmarshal", "/internal/flow.checkRead"}
	converters = []string{"encoding/json.", "encoding/base64.", "unicode/utf8.", "bytes.", "reflect.", "runtime.", "slices.", "strconv.", "sync.", "internal/"}
)

func convertsValue(stack string) bool {
	for line := range strings.SplitSeq(stack, "\n") {
		fields := strings.Split(line, "\t")
		if len(fields) < 3 {
			continue // the number of goroutines, or their labels
		}
		f := fields[2]
		if slices.ContainsFunc(conversions, func(name string) bool { return strings.Contains(f, name) }) {
			return true
		}
		if !slices.ContainsFunc(converters, func(prefix string) bool { return strings.HasPrefix(f, prefix) }) {
			return false
		}
	}
	return false
}

// stackInWorkflow returns the stacks of workflow code that is running or is blocked outside of
// durable operations. These are the stacks of the coroutines that are not suspended.
func stackInWorkflow() string {
	return stacks(func(s string) bool {
		return strings.Contains(s, "internal/replay.(*coroutine).run") && !strings.Contains(s, "internal/replay.(*coroutine).suspend")
	})
}

// stackOf returns the stacks of goroutines with the given label.
func stackOf(label, value string) string {
	want := fmt.Sprintf("%q:%q", label, value)
	return stacks(func(s string) bool { return strings.Contains(s, want) })
}

// stacks returns the matching stacks of the goroutine profile, which stops the world only briefly.
// The profile merges equal stacks.
func stacks(match func(string) bool) string {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		return err.Error()
	}
	var found []string
	for s := range strings.SplitSeq(b.String(), "\n\n") {
		if match(s) {
			found = append(found, s)
		}
	}
	if len(found) == 0 {
		return "not found: the code has continued in the meantime"
	}
	return strings.Join(found, "\n\n")
}
