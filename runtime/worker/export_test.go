package worker

import "time"

// Capacity returns how many more runs the worker would work on.
func (w *Worker) Capacity() int { return w.runs.capacity() }

// LookEvery lets the claim loop sleep for no longer than d. It must be called before Run.
func (w *Worker) LookEvery(d time.Duration) { w.waitMost = d }

// ObeysWithin bounds how long a stop waits for users' code that was told to end. It must
// be called before Run.
func (w *Worker) ObeysWithin(d time.Duration) { w.obeys = d }
