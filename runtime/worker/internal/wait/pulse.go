package wait

import "sync/atomic"

// Pulse records whether a loop executes its own code or waits, for example for a store or for work.
// Only the goroutine of the loop may call Work and Wait. The zero value is the pulse of a loop that
// waits.
type Pulse struct {
	n atomic.Uint64 // odd while the loop works
}

// Work records that the loop executes its own code from here on, which may not block.
func (p *Pulse) Work() { p.n.Store((p.n.Load() + 1) | 1) }

// Wait records that the loop waits from here on.
func (p *Pulse) Wait() { p.n.Store((p.n.Load() + 1) &^ 1) }

// Beat returns a number that changes with each call of Work. It is odd while the loop works.
func (p *Pulse) Beat() uint64 { return p.n.Load() }
