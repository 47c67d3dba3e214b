package worker

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/runloop"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/lease"
	"github.com/flowgen/flowgen/runtime/worker/internal/wait"
)

const (
	// claimBatch bounds the number of runs that one claim requests.
	claimBatch = 128
	// dueBatch bounds the number of due runs that one call makes ready.
	dueBatch = 1024
	// inAHurry bounds the number of consecutive rounds in which a worker makes due runs ready
	// without collecting wakes. Collecting wakes takes one script per partition. The bound keeps
	// many timers from delaying ready runs and messages.
	inAHurry = 4
	// waitMost bounds how long a busy worker leaves a partition unclaimed. If a worker dies after
	// it has taken a wake, only this bound makes another worker claim.
	waitMost = 5 * time.Second
)

// claimer claims runs from all partitions while the worker has free slots.
type claimer struct {
	*env
	runs    *runs
	loop    func(event.RunID) *inputs // creates a run loop
	sources []*source                 // indexed by partition
	revived wait.Notifier             // notified when a silent partition answers
	turn    atomic.Int64              // the partition to claim from first
	passed  atomic.Bool               // whether a partition was skipped in this round
	asker   *asker                    // an idle asker; nil if there is none
	pulse   wait.Pulse                // of run
}

// source is a partition from which runs are claimed.
type source struct {
	*lease.Lease
	asking *asker      // the asker whose claim takes longer than claimPatience; nil if there is none; used only by the claim loop
	silent atomic.Bool // true while asking is set: the partition does not answer
	asked  time.Time   // when the last claim was answered; used only by the claim loop
	next   time.Time   // the next due time that the partition reported
}

// due reports whether the partition must be claimed from even without a wake.
func (s *source) due(now time.Time, rest time.Duration) bool {
	return !s.next.IsZero() && !s.next.After(now) || !s.asked.Add(rest).After(now)
}

// until returns the time at which a claim becomes due without a wake.
func (s *source) until(rest time.Duration) time.Time {
	if end := s.asked.Add(rest); s.next.IsZero() || end.Before(s.next) {
		return end
	}
	return s.next
}

func newClaimer(e *env, r *runs, loop func(event.RunID) *inputs) *claimer {
	return &claimer{env: e, runs: r, loop: loop, revived: wait.NewNotifier()}
}

// silent reports whether the partition does not answer at present.
func (c *claimer) silent(partition int) bool { return c.sources[partition].silent.Load() }

// run claims runs until ctx ends. It returns an error only if the store was closed before ctx
// ended. A partition that does not answer does not delay claims from the other partitions.
func (c *claimer) run(ctx context.Context) error {
	claim := make(map[int]cause)
	for _, s := range c.sources {
		claim[s.Partition] = sure
	}
	defer c.handOn(claim)
	defer c.dismiss()
	defer c.pulse.Wait()
	for hurried := 0; ctx.Err() == nil; {
		c.pulse.Work()
		now := c.clock.Now()
		rest := c.rest(now)
		for s := range c.inTurn() {
			why := claim[s.Partition]
			if s.due(now, rest) {
				why = sure
			}
			a, answered := c.claimSoon(ctx, s, why)
			switch {
			case !answered:
				continue
			case errors.Is(a.err, store.ErrClosed):
				return a.err
			case a.err != nil:
				return nil // ctx has ended
			}
			if s.next = a.next; !a.hinted {
				s.asked = now
			}
			if delete(claim, s.Partition); a.full {
				claim[s.Partition] = sure
			}
		}
		c.tellDamage()
		if len(claim) == 0 {
			c.runs.quiet()
		}
		wanting := c.wanting(claim)
		if hurried < inAHurry && !wanting && c.due() {
			hurried++
			continue
		}
		hurried = 0
		woken, err := c.await(ctx, wanting)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, store.ErrClosed):
			return err
		default:
			c.pause(ctx)
		}
		for _, p := range woken.Hinted {
			claim[p] = max(claim[p], hinted)
		}
		for _, p := range slices.Concat(woken.Claim, woken.Sooner) {
			claim[p] = sure
		}
		for _, run := range woken.Unread {
			c.runs.OnUnread(run)
		}
		if err != nil {
			for _, s := range c.sources {
				claim[s.Partition] = sure
			}
		}
	}
	return nil
}

// pause waits before the loop repeats a wait that has failed.
func (c *claimer) pause(ctx context.Context) {
	c.pulse.Wait()
	defer c.pulse.Work()
	wait.For(ctx, c.clock, time.Second)
}

// cause is the reason to claim from a partition.
type cause uint8

const (
	hinted cause = iota + 1 // a wake arrived, but another worker may have taken it
	sure                    // this worker must claim, for example because it has taken the wake
)

// due reports whether a run has become due in any partition that answers.
func (c *claimer) due() bool {
	now := c.clock.Now()
	return slices.ContainsFunc(c.sources, func(s *source) bool { return !s.silent.Load() && !s.next.IsZero() && !s.next.After(now) })
}

// rest returns how long a partition may go without a claim. If any partition has reached waitMost,
// the limit is half of waitMost for all of them. So an idle worker claims from many partitions in
// one round instead of waking up for each.
func (c *claimer) rest(now time.Time) time.Duration {
	if slices.ContainsFunc(c.sources, func(s *source) bool { return !s.asked.Add(c.waitMost).After(now) }) {
		return c.waitMost / 2
	}
	return c.waitMost
}

// wanting reports whether claim names a partition that answers.
func (c *claimer) wanting(claim map[int]cause) bool {
	return slices.ContainsFunc(c.sources, func(s *source) bool { return claim[s.Partition] != 0 && !s.silent.Load() })
}

// claimPatience is how long the claim loop waits for the answer of a partition if there are
// several. If an answer takes longer, because the server is lost or slow, an asker waits for it in
// a separate goroutine and the loop serves the other partitions.
const claimPatience = time.Second

// claimAnswer is the outcome of a claim from a partition.
type claimAnswer struct {
	next time.Time
	full bool
	// hinted reports whether the claim ended with a hinted request. The store may answer a hinted
	// request without recovering runs or making due runs ready, so it does not count as an
	// examination of the partition.
	hinted bool
	err    error // set only if ctx has ended or the store was closed
}

// claimSoon claims from a partition if why is not zero. It reports false if there is no answer:
// either there was no reason to claim, or the answer takes longer than claimPatience.
func (c *claimer) claimSoon(ctx context.Context, s *source, why cause) (claimAnswer, bool) {
	if s.asking != nil {
		select {
		case a := <-s.asking.answer:
			if c.asker == nil {
				c.asker = s.asking
			} else {
				close(s.asking.claims)
			}
			s.asking = nil
			s.silent.Store(false)
			return a, true
		default:
			return claimAnswer{}, false
		}
	}
	switch {
	case why == 0:
		return claimAnswer{}, false
	case len(c.sources) == 1:
		c.pulse.Wait()
		defer c.pulse.Work()
		return c.claimUntil(ctx, s, why), true
	}
	asker := c.asker
	if c.asker = nil; asker == nil {
		asker = c.newAsker()
	}
	c.pulse.Wait()
	defer c.pulse.Work()
	asker.claims <- func() claimAnswer { return c.claimUntil(ctx, s, why) }
	patience := time.NewTimer(claimPatience)
	defer patience.Stop()
	select {
	case a := <-asker.answer:
		c.asker = asker
		return a, true
	case <-patience.C:
	}
	s.asking = asker
	s.silent.Store(true)
	asker.slow.Store(true)
	if len(asker.answer) > 0 {
		c.revived.Notify() // The asker may have read slow before it was set.
	}
	return claimAnswer{}, false
}

// asker makes claims in its own goroutine. Reusing the goroutine keeps its grown stack between
// claims.
type asker struct {
	claims chan func() claimAnswer
	answer chan claimAnswer
	slow   atomic.Bool // set if the claim loop does not wait for the answer
}

func (c *claimer) newAsker() *asker {
	a := &asker{claims: make(chan func() claimAnswer, 1), answer: make(chan claimAnswer, 1)}
	c.work.Go(func() {
		for claim := range a.claims {
			if a.answer <- claim(); a.slow.Swap(false) {
				c.revived.Notify()
			}
		}
	})
	return a
}

// dismiss ends the askers. An asker with a claim in flight ends after that claim.
func (c *claimer) dismiss() {
	if c.asker != nil {
		close(c.asker.claims)
	}
	for _, s := range c.sources {
		if s.asking != nil {
			close(s.asking.claims)
		}
	}
}

// claimUntil claims from a partition until the store answers, until ctx ends, or until the store is
// closed.
func (c *claimer) claimUntil(ctx context.Context, s *source, why cause) (a claimAnswer) {
	for delay := 100 * time.Millisecond; ; delay = min(2*delay, 2*time.Second) {
		a = c.claimFrom(ctx, s, why)
		why = sure // The failed claim may have taken the wake.
		if a.err == nil || ctx.Err() != nil || errors.Is(a.err, store.ErrClosed) {
			return a
		}
		wait.For(ctx, c.clock, delay)
	}
}

// handOn makes wakes available to other workers that this worker has taken without claiming
// afterwards. A claim of zero runs makes the store announce its ready runs again.
func (c *claimer) handOn(claim map[int]cause) {
	ctx, cancel := context.WithTimeout(context.Background(), hardStop)
	defer cancel()
	for _, s := range c.sources {
		if (claim[s.Partition] != 0 || len(c.cfg.AtOnce)+len(c.cfg.Capacity) > 0) && !s.silent.Load() && len(c.served.routes()) > 0 {
			// If this claim fails, other workers claim after waitMost at the latest.
			_, _ = c.store.Claim(ctx, store.Claim{Partition: s.Partition, Session: s.Current(), Token: event.NewToken(), Routes: c.served.routes()})
		}
	}
}

// await waits until there may be runs to claim. If full is set, the worker became full before it
// had claimed all runs of its last wake. It then waits for free capacity and takes no further wake.
func (c *claimer) await(ctx context.Context, full bool) (store.Woken, error) {
	req := store.Wait{Until: c.clock.Now().Add(c.waitMost), Hinted: true}
	for _, s := range c.sources {
		if s.silent.Load() {
			continue // the partition would delay the wait for the others
		}
		if until := s.until(c.waitMost); until.Before(req.Until) {
			req.Until = until
		}
		req.Sessions = append(req.Sessions, store.WaitSession{Partition: s.Partition, Session: s.Current()})
	}
	var from time.Time
	routes := c.served.routes()
	if full && c.runs.capacity() > 0 {
		c.runs.freed.Notify() // An earlier wait may have consumed the notification.
	}
	if !full && c.runs.capacity() > 0 {
		if req.Routes, from = c.runs.awaited(routes); !from.IsZero() && from.Before(req.Until) {
			req.Until = from
		}
	}
	// The wait ends when capacity is freed or when a silent partition answers.
	wctx, cancel := context.WithCancel(ctx)
	defer cancel()
	freed := c.runs.freed
	if len(req.Routes) == len(routes) {
		freed = nil
	}
	if freed != nil || len(req.Sessions) < len(c.sources) {
		go func() {
			select {
			case <-freed:
				cancel()
			case <-c.revived:
				cancel()
			case <-wctx.Done():
			}
		}()
	}
	c.pulse.Wait()
	woken, err := c.store.Wait(wctx, req)
	c.pulse.Work()
	freedNow := err != nil && ctx.Err() == nil && wctx.Err() != nil
	if freedNow {
		woken, err = store.Woken{}, nil
	}
	if freedNow || woken.Due && !from.IsZero() && !from.After(c.clock.Now()) { // The worker has free capacity, so it claims from every partition.
		for _, s := range c.sources {
			woken.Claim = append(woken.Claim, s.Partition)
		}
	}
	return woken, err
}

// claimFrom claims from a partition until no ready runs are left, and returns the partition's next
// due time. If the worker becomes full earlier, it must claim again once it has free capacity,
// because it has taken the wake.
func (c *claimer) claimFrom(ctx context.Context, s *source, why cause) (a claimAnswer) {
	a.hinted = len(c.served.routes()) > 0 // a worker of a retired build claims nothing
	for _, routes := range c.shares() {
		share := c.claimShare(ctx, s, routes, why)
		if share.err != nil || share.full {
			return share
		}
		if a.hinted = a.hinted && share.hinted; a.next.IsZero() || !share.next.IsZero() && share.next.Before(a.next) {
			a.next = share.next
		}
	}
	return a
}

// claimShare is like claimFrom for one group of routes; see shares.
func (c *claimer) claimShare(ctx context.Context, s *source, routes []store.Route, why cause) (a claimAnswer) {
	for renewed, filled, over := false, false, false; ; why = sure {
		capacity := c.runs.capacity()
		free := min(capacity, claimBatch)
		switch {
		case c.passes(s, free, filled):
			c.runs.setBehind(s.Partition, true)
			a.full = true
			a.next, a.err = c.store.Due(ctx, s.Partition, dueBatch)
			return a
		case over:
			c.runs.setBehind(s.Partition, true)
			a.full = true
			return a
		}
		id := s.Current()
		if id == "" {
			if a.err = s.Renew(ctx, id); a.err != nil {
				return a
			}
			continue
		}
		var answer store.Claimed
		var err error
		most, done := c.runs.promise(queueOf(routes[0]), free)
		s.Claim(func() {
			if routes = c.served.among(routes); len(routes) == 0 { // read after the claim counts as in flight, see mover.update
				return
			}
			answer, err = c.store.Claim(ctx, store.Claim{
				Partition: s.Partition, Session: id, Token: event.NewToken(), Routes: routes, Max: most, Exempt: c.exemptAfter(), FreeCapacity: c.runs.free(),
				Hinted: why == hinted,
			})
			s.OnClaimed(err)
			c.runs.passOver(answer.Skipped)
			for _, run := range answer.Runs {
				c.adopt(s.Lease, id, run)
			}
		})
		done()
		switch {
		case len(routes) == 0:
			a.hinted = why == hinted
			return a
		case errors.Is(err, store.ErrExpired) && !renewed:
			// The old session has taken the wake, so the new session must claim.
			if a.err = s.Renew(ctx, id); a.err != nil {
				return a
			}
			renewed = true
		case errors.Is(err, store.ErrExpired):
			return a // do not renew the session twice
		case err != nil:
			a.err = err
			return a
		case len(answer.Runs) == free:
			// Runs may have ended meanwhile and freed slots. The other partitions get these slots
			// first, because they may have runs of a higher priority. This partition is claimed
			// from again in the next round.
			filled, over, a.next = true, free == capacity && len(c.sources) > 1, answer.Next
		case most > 0 && len(answer.Runs) == most: // The claim reached the bound of the queue, which may have more ready runs.
		default:
			c.runs.setBehind(s.Partition, false)
			a.next, a.hinted = answer.Next, why == hinted
			return a
		}
	}
}

// inTurn iterates over the sources in the order in which a worker claims from them in a round. A
// round begins with the partition after the one that filled the worker in the last round. So one
// partition cannot monopolize a full worker, even if it always has a ready run, such as a run that
// yields repeatedly.
//
// Within a partition, runs are claimed in the order of their priority. Across partitions the order
// is bounded as follows. Before a full worker claims the run with the highest priority of all, each
// of the other partitions fills the worker at most once. To fill it, a partition gets one run per
// slot that becomes free, and at most claimBatch runs.
func (c *claimer) inTurn() iter.Seq[*source] {
	c.passed.Store(false)
	return func(yield func(*source) bool) {
		first := int(c.turn.Load())
		for n := range c.sources {
			if !yield(c.sources[(first+n)%len(c.sources)]) {
				return
			}
		}
	}
}

// passes reports whether the round skips a partition. It does so if the worker has no free
// capacity, or had none for an earlier partition of the round. Capacity that is freed meanwhile is
// reserved for that earlier partition, which begins the next round. If the partition has filled the
// worker itself, the next round begins with the partition after it.
func (c *claimer) passes(s *source, free int, filled bool) bool {
	if free > 0 && !c.passed.Load() {
		return false
	}
	if c.passed.CompareAndSwap(false, true) {
		next := s.Partition
		if filled {
			next++
		}
		c.turn.Store(int64(next))
	}
	return true
}

// adopt creates or finds the run loop of a claimed run and posts the claim to it.
func (c *claimer) adopt(l *lease.Lease, id store.SessionID, run store.ClaimedRun) {
	c.runs.adopt(&runloop.Claim{ClaimedRun: run, Partition: l.Partition, Session: id, Lease: l}, func() bool { return l.Holds(id) }, func() *inputs { return c.loop(run.Run) })
}

// claimByName claims the given run, independent of its route. It returns [store.ErrNotClaimable] if the
// run must wait, for example because it is blocked and other runs hold its permits.
func (c *claimer) claimByName(ctx context.Context, run event.RunID) error {
	s := c.sources[c.partitionOf(run)].Lease
	id := s.Current()
	var err error
	s.Claim(func() {
		var got store.ClaimedRun
		if got, err = c.store.ClaimRun(ctx, s.Partition, id, event.NewToken(), run); err == nil {
			c.adopt(s, id, got)
		}
	})
	switch {
	case errors.Is(err, store.ErrOwned), errors.Is(err, store.ErrRunNotFound), errors.Is(err, store.ErrExpired),
		errors.As(err, new(*store.TerminalError)):
		return nil // another worker has claimed the run
	}
	return err
}
