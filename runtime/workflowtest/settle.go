package workflowtest

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

const (
	// slow is the real time after which other steps may proceed while a step runs.
	slow = 200 * time.Millisecond
	// The test fails if something is active and no new activity begins for the real time hang, or
	// if something is active for the real time endless.
	hang    = 20 * time.Second
	endless = 5 * time.Minute
)

// settle waits until everything waits: the worker is not active, and every step that has begun has
// ended or waits for virtual time.
func (c *scheduler) settle(ctx context.Context) error {
	began, last, moved := time.Now(), c.begun(), time.Now()
	for spins := 0; ; spins++ {
		if err := c.env.revive(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the caller checks ctx
		}
		begun := c.begun()
		busy := c.busy()
		if busy == nil && c.claimsSettled() && !c.waking() && c.begun() == begun && !c.env.dying() && c.stillStalled() {
			return nil
		}
		if busy == nil { // nothing is active, but a goroutine is about to continue
			if spins < 100 {
				runtime.Gosched()
			} else {
				time.Sleep(20 * time.Microsecond)
			}
		} else if !c.pass(ctx, busy) && c.onlySlowSteps() {
			return nil
		}
		if begun != last { // new activities are progress, however slow the machine is
			last, moved = begun, time.Now()
		}
		if time.Since(moved) > hang || time.Since(began) > endless || c.env.blockedCode() != "" {
			return c.giveUp(fmt.Errorf("%w for %v of real time", errHang, time.Since(moved).Round(time.Second)))
		}
	}
}

var errHang = fmt.Errorf("something has been working")

// busy returns a channel that is closed when the current activity may have ended, or nil if there
// is none.
func (c *scheduler) busy() <-chan struct{} {
	if ch := c.activity.Busy(); ch != nil {
		return ch
	}
	if l := c.env.current(); l != nil {
		return l.activity.Busy()
	}
	return nil
}

// begun returns the number of activities that have begun since the start of the Env. If two calls
// return the same number, no activity has begun in between.
func (c *scheduler) begun() uint64 {
	n := c.activity.Begun()
	if l := c.env.current(); l != nil {
		n += l.activity.Begun()
	}
	return n
}

// pass waits briefly for the current activity. It returns false if the activity cannot have ended.
func (c *scheduler) pass(ctx context.Context, busy <-chan struct{}) bool {
	timer := time.NewTimer(c.env.options.patience)
	defer timer.Stop()
	select {
	case <-busy:
		return true
	case <-c.env.woken():
		return true
	case <-ctx.Done():
		return true
	case <-timer.C:
	}
	c.findStalled()
	return false
}

// onlySlowSteps reports whether slow steps are the only activity, and other steps could proceed in
// parallel.
func (c *scheduler) onlySlowSteps() bool {
	l := c.env.current()
	if l == nil || c.activity.Busy() != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	running, others := 0, false
	for x := range c.executions {
		switch x.phase {
		case phaseRunning:
			if time.Since(x.since) < slow {
				return false
			}
			running++
		case phaseReady, phaseEnded:
			others = true
		}
	}
	return others && l.activity.Count() == running
}

// claimsSettled reports whether every claim loop waits in the store and nothing wakes it.
func (c *scheduler) claimsSettled() bool {
	c.mu.Lock()
	n := c.claiming
	c.mu.Unlock()
	return c.env.settledWaits() == n
}

// waking reports whether a step or waiter is about to continue because its context has ended.
func (c *scheduler) waking() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for x := range c.executions {
		if (x.phase == phaseAsleep || x.phase == phaseStalled) && x.ctx.Err() != nil {
			return true
		}
	}
	return false
}
