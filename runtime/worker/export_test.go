package worker

import "time"

// Capacity returns the number of free slots for runs.
func (w *Worker) Capacity() int { return w.runs.capacity() }

// ProbeEvery bounds the sleep of the claim loop to d. It must be called before Run.
func (w *Worker) ProbeEvery(d time.Duration) { w.waitMost = d }

// ObeysWithin bounds how long a stop waits for user code that was canceled. It must be called
// before Run.
func (w *Worker) ObeysWithin(d time.Duration) { w.obeys = d }
