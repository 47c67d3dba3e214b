// Package observe defines how programs observe what a worker commits, for example to export metrics
// and spans. Package otelflow, a module of its own, implements its interfaces for OpenTelemetry.
//
// An observer receives committed events only. A worker calls it after the store has confirmed the
// commit. A replay commits nothing, so a worker reports each event at most once, and two workers
// never report the same event as their own. A process that is killed between a commit and its
// report loses the report, but not the event: the log of the run contains it, and [Run.Log] gives it
// to an observer of the worker that takes the run over.
//
// A worker calls an observer on the goroutine that executes the run, without holding a lock, and
// starts the steps of the commit first. So a slow observer delays its run, but no other run: the
// worker continues the other runs on further goroutines, and logs an observer that does not return,
// as it does for workflow code that blocks. A panic of an observer is logged once and has no effect
// on the run.
package observe

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Observer observes the runs that a worker executes. Its methods are called concurrently for
// different runs.
type Observer interface {
	// Run is called when the worker has a run in memory: when it is about to create the run, or when
	// it has read and replayed its log. The result receives the commits that follow, until the worker
	// drops the run from memory. If the result is nil, the run is not observed.
	Run(r Run) RunObserver
}

// RunObserver observes one run. Its methods are called one at a time.
type RunObserver interface {
	// Committed is called after each commit of this worker that added events to the log.
	Committed(c Commit)
}

// WorkerObserver is an optional interface of an [Observer].
type WorkerObserver interface {
	// Worker is called when the worker starts. The worker calls stop after its last call of the
	// observer, and waits for it.
	Worker(w Worker) (stop func())
}

// Run is a run that a worker has in memory.
type Run struct {
	ID         event.RunID
	WorkflowID string
	Workflow   string
	Queue      string
	Epoch      uint64 // number of the claim, from 1
	// Recoveries is the number of workers that have died since the last progress of the run.
	Recoveries int
	// Log contains the events that were committed before, by this worker or by others. It is empty
	// if this worker creates the run. The observer must not change it, and must not use the events
	// after its method has returned. If the log has more than 32 MiB of offloaded data, most events
	// are without their payloads.
	Log []event.Event
	// Replay is how long it took to execute the code of the run to the end of Log.
	Replay time.Duration
}

// Commit contains the events that a commit has added to the log of a run.
type Commit struct {
	// Events are the new events. The observer must not change them, and must not use them after its
	// method has returned, because the worker reuses their memory. It may keep a copy of an event.
	Events []event.Event
	// Bytes is the size of the events in the log, and LogBytes the size of the log.
	Bytes, LogBytes int
	// Made is when the commit was made, and Confirmed is when the worker received the answer of the
	// store.
	Made, Confirmed time.Time
	// Progress reports that the commit counts as progress of the run, so that Run.Recoveries of the
	// next claim counts from 0.
	Progress bool
}

// Worker is a worker that has started.
type Worker struct {
	Name string
	// Store is the store of the worker. An observer may read the logs of runs from it.
	Store store.Store
	// Gauges returns the present load of the worker.
	Gauges func() Gauges
}

// Gauges is the present load of a worker.
type Gauges struct {
	Runs    int // runs that the worker executes
	Steps   int // attempts of steps that are running
	Parked  int // waiting runs that are kept in memory
	Blocked int // runs whose code has not returned for longer than worker.Config.BlockedAfter
}
