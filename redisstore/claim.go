package redisstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Claim recovers the runs of dead sessions, makes due runs ready, and grants ready runs. Runs with
// a higher priority come first, whatever their routes; among equal priorities, the run that has
// been ready for longest comes first. If the session repeats a claim with the same token and has
// made no other claim in between, Claim returns the same runs.
func (s *Store) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	p, err := s.enterPartition(ctx, c.Partition)
	if err != nil {
		return store.Claimed{}, fmt.Errorf("claim for session %s: %w", c.Session, err)
	}
	keys, args := s.claimArgs(p, &c)
	request, sent := &call{script: scriptClaim, p: p, keys: keys, args: args}, time.Now()
	if err := s.do(ctx, request); err != nil {
		return store.Claimed{}, fmt.Errorf("claim for session %s: %w", c.Session, err)
	}
	a, session := request.answer(), sessionCode(c.Session)
	if c.Hinted && a.word() != refusedExpired {
		s.waiterEstimate.note(s.retained.hints(p, session), a.word() == answerOK)
	}
	if a.word() == refusedExpired {
		return store.Claimed{}, fmt.Errorf("claim for session %s: %w", c.Session, store.ErrExpired)
	}
	claimed, err := s.claimed(ctx, p, a)
	if err != nil {
		return store.Claimed{}, fmt.Errorf("claim for session %s: %w", c.Session, err)
	}
	s.retained.learn(p, session, millis(claimed.Next), sent)
	return claimed, nil
}

// claimArgs returns the keys and the arguments of the claim script.
func (s *Store) claimArgs(p *partition, c *store.Claim) (keys []string, args []any) {
	session := sessionCode(c.Session)
	keys = make([]string, 0, 5+len(c.Routes))
	keys = append(keys, p.session(session), p.leases(), p.timers(), p.wakes(), p.owned(session))
	args = make([]any, 0, 8+len(c.Routes))
	args = append(args, s.at(), session, c.Token[:], min(max(c.Max, 0), mostClaimed), chores, max(c.Exempt, 0), packFree(c.FreeCapacity), "")
	hinted := len(args) - 1
	for _, route := range c.Routes {
		code := s.names.codeOf(route)
		keys, args = append(keys, p.ready(code)), append(args, code)
	}
	switch {
	case c.Hinted && s.waiterEstimate.any(c.Routes, s.names.codeOf):
		args[hinted] = "waiters"
	case c.Hinted:
		args[hinted] = "hint"
	}
	return keys, args
}

// claimed decodes the answer to a claim.
func (s *Store) claimed(ctx context.Context, p *partition, a answer) (store.Claimed, error) {
	claimed := store.Claimed{Next: a.time(1)}
	for i := 2; i < len(a); i++ {
		if finding, is := a[i].(string); is {
			s.findings(p, []string{finding})
			continue
		}
		if list, _ := a[i].([]any); len(list) == 3 {
			passed, err := s.passedRun(ctx, p, list)
			if err != nil {
				return claimed, err
			}
			claimed.Skipped = append(claimed.Skipped, passed)
			continue
		}
		run, err := s.claimedRun(ctx, p, a[i])
		if err != nil {
			return claimed, err
		}
		claimed.Runs = append(claimed.Runs, run)
	}
	return claimed, nil
}

// packFree encodes the free capacity of the local limits of a worker as a script argument. The
// result is empty if there are no local limits.
func packFree(free []store.FreeCapacity) string {
	if len(free) == 0 {
		return ""
	}
	packed := make(map[string][2]int, len(free))
	for _, r := range free {
		packed[r.Limit] = [2]int{r.Free, r.Most}
	}
	b, _ := json.Marshal(packed) // cannot fail for strings and integers
	return string(b)
}

// passedRun decodes a run that the script has skipped.
func (s *Store) passedRun(ctx context.Context, p *partition, a answer) (run store.SkippedRun, err error) {
	run.Run, run.Never = long(a.text(0)), a.text(2) != ""
	run.Route, err = s.routeOf(ctx, p, a.text(1))
	return run, err
}

// mostClaimed is the maximum number of runs that one claim grants. It is bounded because a script
// can pass only a limited number of arguments to a command. The wake of a route remains set if some
// of its runs were not granted.
const mostClaimed = 4000

// ClaimRun grants the given run to the session.
func (s *Store) ClaimRun(ctx context.Context, partition int, session store.SessionID, token event.Token, run event.RunID) (store.ClaimedRun, error) {
	claimed, err := s.claimNamed(ctx, scriptClaimRun, partition, session, token, run)
	if err != nil {
		return store.ClaimedRun{}, fmt.Errorf("claim run %s: %w", run, err)
	}
	return claimed, nil
}

// Seize grants a run to the session whatever the queue state of the run is. If owned is set, it
// also takes the run from another session.
func (s *Store) Seize(ctx context.Context, partition int, session store.SessionID, token event.Token, run event.RunID, owned bool) (store.ClaimedRun, error) {
	claimed, err := s.claimNamed(ctx, scriptSeize, partition, session, token, run, flag(owned, "o"))
	if err != nil {
		return store.ClaimedRun{}, fmt.Errorf("seize run %s: %w", run, err)
	}
	return claimed, nil
}

func (s *Store) claimNamed(ctx context.Context, script *script, partition int, id store.SessionID, token event.Token, run event.RunID, more ...any) (store.ClaimedRun, error) {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return store.ClaimedRun{}, err
	}
	session := sessionCode(id)
	c := &call{
		script: script, p: p, keys: []string{p.session(session), p.meta(short(run)), p.timers()},
		args: append([]any{s.at(), session, token[:], short(run)}, more...),
	}
	if err := s.do(ctx, c); err != nil {
		return store.ClaimedRun{}, err
	}
	a := c.answer()
	switch a.word() {
	case answerOK:
		return s.claimedRun(ctx, p, a[1])
	case refusedExpired:
		err = store.ErrExpired
	case refusedUnknown:
		err = store.ErrRunNotFound
	case refusedEnded:
		err = &store.TerminalError{Run: run, Status: statusOf(byte(a.number(1)))}
	case refusedOwned:
		err = store.ErrOwned
	case refusedQueued:
		err = store.ErrNotClaimable
	default:
		err = unexpected(c)
	}
	return store.ClaimedRun{}, err
}

// claimedRun decodes a run that a script has granted. If the long workflow ID of the run is
// damaged, claimedRun returns the run without the ID and without an error. The worker gets the
// error when it loads the run.
func (s *Store) claimedRun(ctx context.Context, p *partition, given any) (store.ClaimedRun, error) {
	list, _ := given.([]any)
	a := answer(list)
	h := unpackHeader(a.text(1))
	run := store.ClaimedRun{
		Run: long(a.text(0)), WorkflowID: a.text(3), Fence: h.fence,
		Recoveries: h.recoveries, N: h.frames, Seq: h.seq, Last: h.last, Bytes: h.bytes, Unread: h.flags&hasUnread != 0,
	}
	var err error
	if run.Route, err = s.routeOf(ctx, p, a.text(2)); err != nil {
		return run, err
	}
	if v := a.text(5); v != "" {
		permits, _, off := unpackPermits(v)
		if run.LeftQueue = off; permits {
			run.Waited = waitsSince(v)
		}
		run.Uses = store.LocalOf(unpackUses(a.text(6)))
	}
	run.Group = a.text(7)
	if a.text(4) != "" { // the log has one frame and the inbox is empty
		run.Loaded = &store.Loaded{Frames: [][]byte{[]byte(a.text(4))}}
	}
	if hashed(run.WorkflowID) {
		whole, err := s.workflowIDOf(ctx, run.Run)
		if _, damaged := errors.AsType[*store.DamagedError](err); damaged {
			run.Loaded = nil // loading the run returns the same error, and the other claimed runs are not affected
			return run, nil
		}
		run.WorkflowID = whole
		return run, err
	}
	return run, nil
}

// Due makes at most limit due runs ready. It returns the next due time.
func (s *Store) Due(ctx context.Context, partition, limit int) (time.Time, error) {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return time.Time{}, fmt.Errorf("make due runs ready: %w", err)
	}
	for {
		n := min(max(limit, 0), chores)
		c := &call{script: scriptDue, p: p, keys: []string{p.timers()}, args: []any{s.at(), n}}
		if err := s.do(ctx, c); err != nil {
			return time.Time{}, fmt.Errorf("make due runs ready: %w", err)
		}
		next := c.answer().time(0)
		s.findings(p, c.answer().texts(1))
		if limit -= n; limit <= 0 || next.IsZero() || next.After(s.Clock().Now()) {
			return next, nil
		}
	}
}

// Release makes an owned run ready and changes its fence. It does not count as a recovery.
func (s *Store) Release(ctx context.Context, run event.RunID, fence store.Fence) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	p := s.partitionOf(run)
	c := &call{
		script: scriptRelease, p: p, keys: []string{p.meta(short(run))},
		args: []any{s.at(), short(run), packFence(fence)},
	}
	if err := s.do(ctx, c); err != nil {
		return fmt.Errorf("release run %s: %w", run, err)
	}
	if c.answer().word() != answerOK {
		return fmt.Errorf("release run %s: %w", run, store.ErrFenced)
	}
	return nil
}
