package storetest_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

var storeFaults = map[string]fault{
	"claim hands over runs without their logs": {"AClaimHandsOverWhatLoadAnswers", func(w wrapper) store.Store {
		return edit{wrapper: w, claim: func(_ context.Context, _ *store.Claim, got *store.Claimed) {
			if got == nil {
				return
			}
			for i := range got.Runs {
				got.Runs[i].Loaded = &store.Loaded{}
			}
		}}
	}},
	"commit ignores the token": {"F1_CommitNeedsEpochAndToken", func(w wrapper) store.Store {
		return edit{wrapper: w, commit: func(ctx context.Context, c *store.Commit) *store.Committed {
			if r := w.state(ctx, c.Run); r != nil && r.Fence.Epoch == c.Fence.Epoch {
				c.Fence = r.Fence
			}
			return nil
		}}
	}},
	"commit ignores the epoch": {"F1_CommitNeedsEpochAndToken", func(w wrapper) store.Store {
		return edit{wrapper: w, commit: func(ctx context.Context, c *store.Commit) *store.Committed {
			if r := w.state(ctx, c.Run); r != nil && r.Fence.Token == c.Fence.Token {
				c.Fence = r.Fence
			}
			return nil
		}}
	}},
	"commit compares counts": {"F3_APositionIsNotACount", func(w wrapper) store.Store {
		return edit{wrapper: w, commit: func(ctx context.Context, c *store.Commit) *store.Committed {
			if r := w.state(ctx, c.Run); r != nil && c.Frame != nil && c.First == r.Seq+1 {
				c.Prev = r.Last
			}
			return nil
		}}
	}},
	"commit does not know itself again": {"W3_TheSameCommitIsAppliedOnce", func(w wrapper) store.Store {
		return edit{wrapper: w, commit: func(ctx context.Context, c *store.Commit) *store.Committed {
			if r := w.state(ctx, c.Run); r != nil && r.Last == c.CommitID && c.Frame != nil {
				return &store.Committed{Err: &store.ConflictError{Run: c.Run}}
			}
			return nil
		}}
	}},
	"commit asks for the fence first": {"W3_ACommitIsKnownAgainAfterItsRunWasRecovered", func(w wrapper) store.Store {
		return edit{wrapper: w, commit: func(ctx context.Context, c *store.Commit) *store.Committed {
			if r := w.state(ctx, c.Run); r != nil && r.Fence != c.Fence {
				return &store.Committed{Err: store.ErrFenced}
			}
			return nil
		}}
	}},
	"consume counts": {"M3_ConsumeNamesTheItem", func(w wrapper) store.Store {
		return edit{wrapper: w, commit: func(ctx context.Context, c *store.Commit) *store.Committed {
			if r := w.state(ctx, c.Run); r != nil && c.Consume > 0 && c.Consume <= len(r.Inbox) {
				c.ConsumeLast = r.Inbox[c.Consume-1].ID
			}
			return nil
		}}
	}},
	"park swallows items": {"M4_ParkAndFinishNeedAnEmptyInbox", func(w wrapper) store.Store {
		return edit{wrapper: w, commit: func(ctx context.Context, c *store.Commit) *store.Committed {
			if r := w.state(ctx, c.Run); r != nil && c.Effect == store.EffectPark && len(r.Inbox) > 0 {
				c.Consume, c.ConsumeLast = len(r.Inbox), r.Inbox[len(r.Inbox)-1].ID
			}
			return nil
		}}
	}},
	"progress is not noticed": {"RecoveriesAreCountedUntilThereIsProgress", func(w wrapper) store.Store {
		return edit{wrapper: w, commit: func(_ context.Context, c *store.Commit) *store.Committed {
			c.Progress = false
			return nil
		}}
	}},
	"create asks for the policy first": {"C1_CreateSentAgainIsAskedBeforeThePolicy", func(w wrapper) store.Store {
		return edit{wrapper: w, create: func(ctx context.Context, c *store.Create) *store.Created {
			if active, err := w.Resolve(ctx, c.WorkflowID); err == nil && c.Active == store.ActiveFail {
				return &store.Created{Err: &store.ActiveError{WorkflowID: c.WorkflowID, Run: active}}
			}
			return nil
		}}
	}},
	"create adds the delay to the time": {"CreateParksADelayedRunUntilTheLaterOfDelayAndAt", func(w wrapper) store.Store {
		return edit{wrapper: w, create: func(_ context.Context, c *store.Create) *store.Created {
			if !c.At.IsZero() {
				c.At = c.At.Add(c.Delay)
			}
			return nil
		}}
	}},
	"successors do not cancel": {"CreateUnderActiveCancelCancelsEverybodyBeforeIt", func(w wrapper) store.Store {
		return edit{wrapper: w, create: func(_ context.Context, c *store.Create) *store.Created {
			c.Cancel.ID = "always the same"
			return nil
		}}
	}},
	"the latest start cancels the active run": {"CreateUnderActiveLatestCancelsThoseInLineOnly", func(w wrapper) store.Store {
		return edit{wrapper: w, create: func(_ context.Context, c *store.Create) *store.Created {
			if c.Active == store.ActiveLatest {
				c.Active = store.ActiveCancel
			}
			return nil
		}}
	}},
	"a queued start cancels those before it": {"C1_RunsUnderActiveQueueStartOneAfterTheOther", func(w wrapper) store.Store {
		return edit{wrapper: w, create: func(_ context.Context, c *store.Create) *store.Created {
			if c.Active == store.ActiveQueue {
				c.Active = store.ActiveCancel
			}
			return nil
		}}
	}},
	"deliver forgets": {"M1_TheSameItemIsAcceptedOnce", func(w wrapper) store.Store {
		n := 0
		return edit{wrapper: w, deliver: func(_ context.Context, d *store.Deliver) error {
			n++
			d.Item.ID += event.ItemID(rune('0' + n))
			return nil
		}}
	}},
	"deliver refuses before it remembers": {"M2_DeliverIsAcceptedAgainAfterTheRunEnded", func(w wrapper) store.Store {
		return edit{wrapper: w, deliver: func(ctx context.Context, d *store.Deliver) error {
			if r := w.state(ctx, d.Run); r != nil && r.QueueState == store.StateEnded {
				return &store.TerminalError{Run: d.Run, Status: r.Status}
			}
			return nil
		}}
	}},
	"deliver ignores its deadline": {"DeliverPastItsDeadlineIsStale", func(w wrapper) store.Store {
		return edit{wrapper: w, deliver: func(_ context.Context, d *store.Deliver) error {
			d.Deadline = w.Clock().Now()
			return nil
		}}
	}},
	"all sessions have one code": {"B2_ASessionWithOtherCodeThatIsThereAlreadyTakesABlockedRun", func(w wrapper) store.Store {
		return coded{w, func(store.Session) string { return "same" }}
	}},
	"each session has other code": {"B2_NoSessionWithTheSameCodeIsGivenIt", func(w wrapper) store.Store {
		return coded{w, func(s store.Session) string { return string(s.ID) }}
	}},
	"silence is not bounded": {"W5_AnOutageOfTheStoreMakesNobodyDead", func(w wrapper) store.Store {
		return hurried{w}
	}},
	"only a session that has lived for a TTL counts": {"W5_SessionsThatLiveForLessThanATTLRecoverADeadOne", func(w wrapper) store.Store {
		return forgiving{w}
	}},
	"claim takes too many": {"ClaimTakesAtMostMax", func(w wrapper) store.Store {
		return edit{wrapper: w, claim: func(_ context.Context, c *store.Claim, got *store.Claimed) {
			if got == nil {
				c.Max++
			}
		}}
	}},
	"claim is last come first served": {"ClaimIsFirstComeFirstServed", func(w wrapper) store.Store {
		return edit{wrapper: w, claim: func(_ context.Context, _ *store.Claim, got *store.Claimed) {
			if got != nil {
				slices.Reverse(got.Runs)
			}
		}}
	}},
	"release ignores the token": {"F1_ReleaseNeedsEpochAndToken", func(w wrapper) store.Store {
		return edit{wrapper: w, release: func(ctx context.Context, run event.RunID, f *store.Fence) {
			if r := w.state(ctx, run); r != nil && r.Fence.Epoch == f.Epoch {
				*f = r.Fence
			}
		}}
	}},
	"wait takes no wake": {"K2_WaitTakesTheWakeOfAReadyRun", func(w wrapper) store.Store {
		return edit{wrapper: w, wait: func(*store.Wait) *store.Woken { return &store.Woken{Due: true} }}
	}},
	"wait announces what is not there": {"K2_OneWakePerRoute", func(w wrapper) store.Store {
		return edit{wrapper: w, wait: func(*store.Wait) *store.Woken { return &store.Woken{Claim: []int{0}, Due: true} }}
	}},
	"a commit does not hold back rates": {"HoldBack_NothingBeginsByTheRateUntilItIsOver", func(w wrapper) store.Store {
		return edit{wrapper: w, commit: func(_ context.Context, c *store.Commit) *store.Committed {
			c.HoldBack = 0
			return nil
		}}
	}},
	"due ignores its limit": {"DueMakesAtMostLimitReady", func(w wrapper) store.Store {
		return edit{wrapper: w, due: func(_ context.Context, limit *int) { *limit = 1000 }}
	}},
	"a heartbeat creates a lease":                    {"W1_HeartbeatNeverCreatesALease", func(w wrapper) store.Store { return eagerHeart{w} }},
	"a heartbeat hides unread items":                 {"W2_HeartbeatNamesRunsWithUnreadItems", func(w wrapper) store.Store { return mutedHeart{w} }},
	"watch does not wait":                            {"WatchEndsWithItsContext", func(w wrapper) store.Store { return hastyWatch{w} }},
	"watch until the end returns with another frame": {"WatchUntilEndReturnsWithTheEndAlone", func(w wrapper) store.Store { return shortWatch{w} }},
	"retention is not kept": {"P1_ARunIsKeptForItsRetention", func(w wrapper) store.Store {
		return edit{wrapper: w, create: func(_ context.Context, c *store.Create) *store.Created {
			c.Retention = time.Millisecond
			return nil
		}}
	}},
	"a run is created again while it may be sent again": {"C1_CreateSentAgainAfterDeleteIsTheSameRun", func(w wrapper) store.Store {
		return edit{wrapper: w, create: func(ctx context.Context, c *store.Create) *store.Created {
			if r := w.state(ctx, c.Run); r != nil && r.Hidden {
				return &store.Created{Err: store.ErrRunNotFound}
			}
			return nil
		}}
	}},
	"purge ignores its limit":         {"PurgeRemovesAtMostLimit", func(w wrapper) store.Store { return purger{wrapper: w, greedy: true} }},
	"purge does not say what is left": {"PurgeTellsWhenTheNextIsDue", func(w wrapper) store.Store { return purger{wrapper: w, mute: true} }},
	"purge does nothing":              {"P1_PurgeLeavesNothingOfARun", func(w wrapper) store.Store { return purger{wrapper: w, idle: true} }},
	"delete does nothing":             {"DeleteHidesTheRunAtOnce", func(w wrapper) store.Store { return purger{wrapper: w, idle: true} }},
	"delete swallows its refusal":     {"DeleteOfARunThatHasNotEndedIsRefused", func(w wrapper) store.Store { return purger{wrapper: w, polite: true} }},
	"the model notices a purge":       {"RandomHistoriesMatchTheModel", func(w wrapper) store.Store { return purger{wrapper: w, mute: true} }},
	"the model notices":               {"RandomHistoriesMatchTheModel", func(w wrapper) store.Store { return mutedHeart{w} }},
}

// purger is a store with a mistake in Purge and Delete.
type purger struct {
	wrapper
	greedy, mute, idle, polite bool
}

func (p purger) Purge(ctx context.Context, partition, limit int) (int, time.Time, error) {
	inner, _ := store.As[store.Purger](p.Store)
	switch {
	case p.greedy:
		limit = 1000
	case p.idle:
		limit = 0
	}
	n, next, err := inner.Purge(ctx, partition, limit)
	if p.mute {
		next = time.Time{}
	}
	return n, next, err
}

func (p purger) Delete(ctx context.Context, run event.RunID) error {
	inner, _ := store.As[store.Purger](p.Store)
	if p.idle {
		return nil
	}
	err := inner.Delete(ctx, run)
	if _, refused := errors.AsType[*store.NotEndedError](err); refused && p.polite {
		return nil
	}
	return err
}

// coded is a store that replaces the fingerprints of sessions.
type coded struct {
	wrapper
	code func(store.Session) string
}

func (c coded) OpenSession(ctx context.Context, s store.Session) error {
	s.Fingerprint = c.code(s)
	return c.Store.OpenSession(ctx, s)
}

// hurried is a store that treats a session as dead as soon as its lease has expired, even after an
// outage of the store.
type hurried struct{ wrapper }

func (d hurried) Heartbeat(ctx context.Context, partition int, s store.SessionID) (store.Heartbeat, error) {
	for id, l := range d.snapshot(ctx).Leases {
		if id != s && l.Expires.Before(d.Clock().Now()) {
			if err := d.CloseSession(ctx, partition, id); err != nil {
				return store.Heartbeat{}, err
			}
		}
	}
	return d.Store.Heartbeat(ctx, partition, s)
}

// forgiving is a store that renews all leases when a session is opened.
type forgiving struct{ wrapper }

func (f forgiving) OpenSession(ctx context.Context, s store.Session) error {
	for id := range f.snapshot(ctx).Leases {
		if _, err := f.Store.Heartbeat(ctx, s.Partition, id); err != nil {
			return err
		}
	}
	return f.Store.OpenSession(ctx, s)
}

type eagerHeart struct{ wrapper }

func (e eagerHeart) Heartbeat(ctx context.Context, partition int, s store.SessionID) (store.Heartbeat, error) {
	beat, err := e.Store.Heartbeat(ctx, partition, s)
	if errors.Is(err, store.ErrExpired) {
		return beat, e.OpenSession(ctx, store.Session{Partition: partition, ID: s})
	}
	return beat, err
}

type mutedHeart struct{ wrapper }

func (m mutedHeart) Heartbeat(ctx context.Context, partition int, s store.SessionID) (store.Heartbeat, error) {
	beat, err := m.Store.Heartbeat(ctx, partition, s)
	beat.Unread, beat.Owned = nil, max(0, beat.Owned-1)
	return beat, err
}

type hastyWatch struct{ wrapper }

func (hastyWatch) Watch(context.Context, event.RunID, uint64) error { return nil }

// shortWatch is a store whose Watch with store.UntilEnd returns after any frame.
type shortWatch struct{ wrapper }

func (s shortWatch) Watch(ctx context.Context, run event.RunID, n uint64) error {
	if n == store.UntilEnd {
		n = 1
		if r := s.state(context.WithoutCancel(ctx), run); r != nil && r.N > n { // even if ctx has ended
			return nil
		}
	}
	return s.Store.Watch(ctx, run, n)
}
