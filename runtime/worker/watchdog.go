package worker

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"slices"
	"strings"
	"time"
)

// watchdog looks for executors that do not come back from users' code.
type watchdog struct {
	stop chan struct{}
	done chan struct{}
}

func (w *Worker) watch() {
	w.dog = &watchdog{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(w.dog.done)
		// The machine's clock: what is measured is real time, also in tests that
		// bring a clock of their own.
		tick := time.NewTicker(w.cfg.BlockedAfter / 4)
		defer tick.Stop()
		for {
			select {
			case <-w.dog.stop:
				return
			case <-tick.C:
				w.checkExecutors()
				w.offerSlots() // also if the offer went to a run that is stuck
			}
		}
	}()
}

func (w *Worker) stopWatch() {
	close(w.dog.stop)
	<-w.dog.done
}

// checkExecutors replaces each executor that has been in users' code for too
// long. The code cannot be stopped: it keeps its run and its goroutine, and goes
// on where it is if it ever gets free; the other runs go on without it.
func (w *Worker) checkExecutors() {
	w.mu.Lock()
	executors := slices.Clone(w.executors)
	w.mu.Unlock()
	for _, e := range executors {
		since := e.busy.Load()
		if since == 0 || e.replaced.Load() || time.Since(time.Unix(0, since)) < w.cfg.BlockedAfter {
			continue
		}
		e.replaced.Store(true)
		w.reportStuck(e, "code of a run blocks outside of the durable operations: other runs go on without this executor")
		w.startExecutor()
	}
	w.mu.Lock()
	w.executors = slices.DeleteFunc(w.executors, func(e *executor) bool {
		select {
		case <-e.done:
			return e.replaced.Load()
		default:
			return false
		}
	})
	w.mu.Unlock()
}

func (w *Worker) reportStuck(e *executor, text string) {
	run, name := "", ""
	if t := e.task.Load(); t != nil {
		run, name = string(t.id), t.name()
	}
	w.log.Error(text, "run", run, "workflow", name, "fix", "wait with workflow.Sleep, Receive or a Future instead of channels, locks and loops",
		"stack", stackInWorkflow())
}

// stackInWorkflow returns the stacks of workflow code that is running or blocked
// on its own, which are the coroutines that are not suspended.
func stackInWorkflow() string {
	return stacks(func(s string) bool {
		return strings.Contains(s, "internal/replay.(*coroutine).run") && !strings.Contains(s, "internal/replay.(*coroutine).suspend")
	})
}

// stackOf returns the stacks of goroutines with a label.
func stackOf(label, value string) string {
	want := fmt.Sprintf("%q:%q", label, value)
	return stacks(func(s string) bool { return strings.Contains(s, want) })
}

// stacks returns those stacks of the goroutine profile that match. The profile
// gathers equal stacks, and stops the world only briefly.
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
		return "not found: it has gone on meanwhile"
	}
	return strings.Join(found, "\n\n")
}
