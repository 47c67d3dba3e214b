package worker

import "time"

// Capacity returns the number of free slots for runs.
func (w *Worker) Capacity() int { return w.runs.capacity() }

// ProbeEvery sets waitMost to d, which bounds the sleep of the claim loop. It must be called before
// Run.
func (w *Worker) ProbeEvery(d time.Duration) { w.waitMost = d }
