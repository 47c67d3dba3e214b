package workflowtest

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/activity"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// scheduler determines the next event in virtual time. A call that waits for a run (Result, Events,
// Execute) drives the scheduler: when everything waits, the call makes one move and rechecks its
// condition. Therefore time advances only while a caller waits. Events happen one after the other,
// in the same order in every execution of a test.
type scheduler struct {
	env      *Env
	clock    *clock
	activity *activity.Counter // activity outside of workers
	turn     chan struct{}     // held while a move is made

	mu         sync.Mutex
	executions map[*execution]struct{}
	none       chan struct{} // closed when no execution remains; nil: no caller waits for it
	waiters    map[*waiter]struct{}
	calls      []*call // functions planned with At, ordered by time
	claiming   int     // number of claim loops that wait in the store
	moves      int
	stuck      error // reason why no further move is possible; nil: a move may be possible

	// choose returns the index of the next move. If choose is nil, the first move is made.
	choose func(moves []move) int
}

// waiter is a goroutine that waits for a condition of a run.
type waiter struct {
	ctx  context.Context
	done func() bool
}

// call is a function planned with At.
type call struct {
	at time.Time
	f  func(context.Context)
}

// move is a possible next event.
type move struct {
	kind moveKind
	x    *execution // the execution, for moveBegin and moveTell
	call *call
	at   time.Time // time of a planned call, or to which time advances
}

type moveKind uint8

const (
	moveBegin moveKind = iota // a step's code begins
	moveTell                  // the worker is notified of the outcome of a step
	moveCall                  // a function planned with At is called
	moveTime                  // time advances until something is due
)

func (c *scheduler) init(e *Env) {
	c.env = e
	c.activity = &activity.Counter{}
	c.clock = newClock(c.activity)
	c.turn = make(chan struct{}, 1)
	c.executions = map[*execution]struct{}{}
	c.waiters = map[*waiter]struct{}{}
}

// await makes moves until done returns true, until ctx ends, or until no move is possible. The
// owner of ctx always counts either as active or as waiting.
func (c *scheduler) await(ctx context.Context, done func() bool) error {
	w := &waiter{ctx: ctx, done: done}
	c.mu.Lock()
	c.waiters[w] = struct{}{}
	c.mu.Unlock()
	resume := paused(ctx)
	leave := sync.OnceFunc(func() {
		resume()
		c.leave(w)
	})
	defer leave()
	began := c.moveCount()
	for {
		select {
		case c.turn <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		err := c.step(ctx, began)
		over := err != nil || done() || ctx.Err() != nil
		if over { // leave while holding turn, so that the next caller detects the further activity of this caller
			leave()
		}
		<-c.turn
		switch {
		case err != nil:
			return err
		case over && done():
			return nil
		case over:
			return ctx.Err()
		}
		runtime.Gosched()
	}
}

func (c *scheduler) leave(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiters, w)
}

func (c *scheduler) moveCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.moves
}

// maxMoves is the maximum number of moves while a caller waits for one condition.
const maxMoves = 100_000

// step waits until everything waits, and makes one move. It makes none if the condition of some
// waiter holds.
func (c *scheduler) step(ctx context.Context, began int) error {
	if err := c.settle(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	err := c.stuck
	c.mu.Unlock()
	if err != nil || c.anyDone() {
		return err
	}
	if c.env.reachQuiet() {
		return nil // the worker was killed at this crash point
	}
	moves, err := c.possible()
	if err != nil {
		return err
	}
	if len(moves) == 0 {
		return c.giveUp(errStuck)
	}
	if n := c.moveCount() - began; n > maxMoves {
		return c.giveUp(errEndless)
	}
	i := 0
	if c.choose != nil && len(moves) > 1 {
		i = c.choose(moves)
	}
	if m := moves[i]; m.kind == moveTime && m.at.Sub(Epoch) > c.env.options.horizon {
		return c.giveUp(errHorizon)
	}
	c.mu.Lock()
	c.moves++
	c.mu.Unlock()
	return c.make(ctx, moves[i])
}

// giveUp fails the test and prevents further moves.
func (c *scheduler) giveUp(why error) error {
	c.mu.Lock()
	known := c.stuck
	c.mu.Unlock()
	if known != nil {
		return known
	}
	err := c.env.explain(why)
	c.mu.Lock()
	c.stuck = err
	c.mu.Unlock()
	return err
}

// anyDone reports whether some waiter can continue because its condition holds or its context has
// ended. No move is made before that waiter has continued.
func (c *scheduler) anyDone() bool {
	c.mu.Lock()
	all := make([]*waiter, 0, len(c.waiters))
	for w := range c.waiters {
		all = append(all, w)
	}
	c.mu.Unlock()
	return slices.ContainsFunc(all, func(w *waiter) bool { return w.ctx.Err() != nil || w.done() })
}

// stepsPending reports whether a step can begin or end before time advances.
func (c *scheduler) stepsPending() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for x := range c.executions {
		if x.phase == phaseReady || x.phase == phaseEnded {
			return true
		}
	}
	return false
}

// possible returns the possible moves. The default move is first. The order is: beginning steps,
// ending steps, and then the earlier of a planned call and an advance of time.
func (c *scheduler) possible() ([]move, error) {
	due, err := c.env.nextDue()
	if err != nil {
		return nil, err
	}
	if t := c.clock.next(); !t.IsZero() && (due.IsZero() || t.Before(due)) {
		due = t
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var begin, tell []move
	var limit time.Time // earliest deadline of an attempt; time must not pass it
	busy := false
	for x := range c.executions {
		switch x.phase {
		case phaseReady:
			begin = append(begin, move{kind: moveBegin, x: x})
		case phaseEnded:
			tell = append(tell, move{kind: moveTell, x: x})
		case phaseRunning:
			busy = true
			continue
		default:
			continue
		}
		if limit.IsZero() || x.wanted.Before(limit) {
			limit = x.wanted
		}
	}
	byOrder := func(a, b move) int { // in the order of creation of the attempts
		p, q := a.x.info, b.x.info
		return cmp.Or(cmp.Compare(p.Log, q.Log), cmp.Compare(p.Ref, q.Ref), cmp.Compare(p.Number, q.Number))
	}
	slices.SortFunc(begin, byOrder)
	slices.SortFunc(tell, byOrder)
	moves := slices.Concat(begin, tell)
	if busy {
		return moves, nil // time does not advance while a step runs in real time
	}
	for i, k := range c.calls {
		if i == 0 && (due.IsZero() || !k.at.After(due)) || c.choose != nil {
			moves = append(moves, move{kind: moveCall, call: k, at: k.at})
		}
	}
	if !due.IsZero() && (limit.IsZero() || due.Before(limit)) {
		moves = append(moves, move{kind: moveTime, at: due})
	}
	return moves, nil
}

// make makes a move. When it returns, all work that the move has started counts as activity.
func (c *scheduler) make(ctx context.Context, m move) error {
	switch m.kind {
	case moveBegin:
		c.mu.Lock()
		defer c.mu.Unlock()
		m.x.since = time.Now()
		m.x.shift(phaseRunning)
		close(m.x.begin)
	case moveTell:
		c.mu.Lock()
		defer c.mu.Unlock()
		m.x.release()
	case moveCall:
		c.mu.Lock()
		c.calls = slices.DeleteFunc(c.calls, func(k *call) bool { return k == m.call })
		c.mu.Unlock()
		if c.choose == nil {
			c.clock.moveTo(m.call.at)
		}
		c.activity.Begin()
		c.env.background.Go(func() {
			defer c.activity.End()
			c.env.callPlanned(context.WithValue(c.env.ctx, callKey{}, c), m.call.f)
		})
	case moveTime:
		c.clock.moveTo(m.at)
		return c.env.makeDue(ctx)
	}
	return nil
}

type callKey struct{}

// paused stops counting the owner of ctx as active until resume is called. The owner is a step or a
// function planned with At.
func paused(ctx context.Context) (resume func()) {
	if x := executionOf(ctx); x != nil {
		shift := func(to phase) {
			c := &x.incarnation.env.scheduler
			c.mu.Lock()
			defer c.mu.Unlock()
			x.shift(to)
		}
		shift(phaseAsleep)
		return func() { shift(phaseRunning) }
	}
	if c, ok := ctx.Value(callKey{}).(*scheduler); ok {
		c.activity.End()
		return c.activity.Begin
	}
	return func() {}
}

var (
	errStuck   = errors.New("nothing is left to happen")
	errHorizon = errors.New("virtual time has passed the horizon")
	errEndless = errors.New("more has happened than is plausible")
)

// StuckError is the error of a call that waits, in virtual time, for something that can never
// happen. The test has already failed with the same text.
type StuckError struct{ Text string }

// Error returns a description of what each run waits for, and where.
func (e *StuckError) Error() string { return e.Text }

// Permanent returns true, because waiting longer cannot help. It implements store.PermanentError.
func (*StuckError) Permanent() bool { return true }

var _ workflow.Registrar = (*Env)(nil)
