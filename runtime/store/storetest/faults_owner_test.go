package storetest_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// createsOwned returns a constructor of stores with a mistake in the creation of runs with an
// owner.
func createsOwned(wrong func(context.Context, wrapper, *store.Create) *store.Created) func(wrapper) store.Store {
	return func(w wrapper) store.Store {
		return edit{wrapper: w, create: func(ctx context.Context, c *store.Create) *store.Created {
			if c.Owner == nil {
				return nil
			}
			return wrong(ctx, w, c)
		}}
	}
}

// forbids executes a create. If the create fails with want, forbids also creates the run without an
// owner, and returns the error.
func forbids(ctx context.Context, w wrapper, c *store.Create, want error) *store.Created {
	got, err := w.Create(ctx, []store.Create{*c})
	if err == nil && errors.Is(got[0].Err, want) {
		c.Owner = nil
		_, err = w.Create(ctx, []store.Create{*c})
	}
	if err != nil {
		return &store.Created{Err: err}
	}
	return &got[0]
}

// orphan returns the fence of the owner, but leaves the run ready for any session.
func orphan(ctx context.Context, w wrapper, c *store.Create) *store.Created {
	owner := c.Owner
	c.Owner = nil
	got, err := w.Create(ctx, []store.Create{*c})
	if err != nil {
		return &store.Created{Err: err}
	}
	if got[0].New {
		got[0].Fence = owner.Fence()
	}
	return &got[0]
}

// lease returns the lease of the session that owns the new run, or nil if the session has none.
func lease(ctx context.Context, w wrapper, c *store.Create) *store.Lease {
	if l, ok := w.snapshot(ctx).Leases[c.Owner.Session]; ok {
		return &l
	}
	return nil
}

// alwaysFenced makes stores that answer a repeated create with the fence of the request, whichever
// session owns the run.
var alwaysFenced = createsOwned(func(ctx context.Context, w wrapper, c *store.Create) *store.Created {
	if w.state(ctx, c.Run) == nil {
		return nil
	}
	return &store.Created{Run: c.Run, New: true, Fence: c.Owner.Fence()}
})

// neverFenced makes stores that answer a repeated create without a fence.
var neverFenced = createsOwned(func(ctx context.Context, w wrapper, c *store.Create) *store.Created {
	if w.state(ctx, c.Run) != nil {
		c.Owner = nil
	}
	return nil
})

// claimsLater makes stores that create a ready run and claim it in a second action. Between the two
// actions the route has a wake.
var claimsLater = createsOwned(func(ctx context.Context, w wrapper, c *store.Create) *store.Created {
	if w.state(ctx, c.Run) != nil || lease(ctx, w, c) == nil {
		return nil
	}
	unowned := *c
	got := orphan(ctx, w, &unowned)
	if _, err := w.ClaimRun(ctx, 0, c.Owner.Session, c.Owner.Token, c.Run); err != nil {
		return &store.Created{Err: err}
	}
	return got
})

// pretends returns a store that reports one refused create as successful.
func pretends(w wrapper) store.Store {
	var told atomic.Bool
	return createsOwned(func(ctx context.Context, w wrapper, c *store.Create) *store.Created {
		got, err := w.Create(ctx, []store.Create{*c})
		if err != nil {
			return &store.Created{Err: err}
		}
		if errors.Is(got[0].Err, store.ErrExpired) && !told.Swap(true) {
			return &store.Created{Run: c.Run, New: true, Fence: c.Owner.Fence()}
		}
		return &got[0]
	})(w)
}

var ownerFaults = map[string]fault{
	"what is created owned is ready": {"CreateWithAnOwnerIsCreateAndClaim", createsOwned(orphan)},
	"reconcile does not tell of what was created owned": {"CreateWithAnOwnerIsCreateAndClaim", func(w wrapper) store.Store {
		return forgetfulReconcile{w}
	}},
	"what is created owned wakes":           {"K1_ARunThatIsCreatedOwnedIsNotToBeClaimed", claimsLater},
	"what is created owned stays ready":     {"K1_ARunThatIsCreatedOwnedIsNotToBeClaimed", createsOwned(orphan)},
	"the snapshot shows it ready and owned": {"K1_ARunThatIsCreatedOwnedIsNotToBeClaimed", func(w wrapper) store.Store { return doubleVision{w} }},
	"what is created owned is fenced by nothing": {"ARunThatIsCreatedOwnedIsCommittedUnderItsFence", func(w wrapper) store.Store {
		return edit{wrapper: w, commit: func(ctx context.Context, c *store.Commit) *store.Committed {
			if r := w.state(ctx, c.Run); r != nil && r.Fence.Epoch == 1 {
				c.Fence = r.Fence
			}
			return nil
		}}
	}},
	"the first frame counts for one event": {"ARunThatIsCreatedOwnedMayHaveBegun", createsOwned(func(_ context.Context, _ wrapper, c *store.Create) *store.Created {
		c.Seq = 1
		return nil
	})},
	"what is created owned cannot be released": {"ARunThatIsCreatedOwnedLeavesItsOwnerLikeAnyOther", func(w wrapper) store.Store {
		return edit{wrapper: w, release: func(_ context.Context, _ event.RunID, f *store.Fence) { f.Epoch = max(f.Epoch, 2) }}
	}},
	"items of what is created owned are not told": {"AnItemOfARunThatIsCreatedOwnedIsAnnounced", func(w wrapper) store.Store {
		return edit{wrapper: w, beat: func(b *store.Heartbeat) { b.Unread = nil }}
	}},
	"what is created owned belongs to another session": {"F2_ARunThatIsCreatedOwnedIsRecoveredWithItsSession", shadowed},
	"closing a session leaves what it bore":            {"F2_ClosingASessionRecoversWhatItBore", shadowed},
	"closing a session counts no recovery of what it bore": {"F2_ClosingASessionRecoversWhatItBore", func(w wrapper) store.Store {
		return gentleClose{w}
	}},
	"a run for later is refused and created": {"ARunThatASessionWouldHaveToWaitForIsNotCreated", createsOwned(func(ctx context.Context, w wrapper, c *store.Create) *store.Created {
		return forbids(ctx, w, c, store.ErrNotClaimable)
	})},
	"a run for later is owned": {"ARunThatASessionWouldHaveToWaitForIsNotCreated", createsOwned(func(_ context.Context, _ wrapper, c *store.Create) *store.Created {
		c.Delay, c.At = 0, time.Time{}
		return nil
	})},
	"a run behind an active one is refused and queued": {"ARunBehindAnActiveOneIsNotCreatedOwned", createsOwned(func(ctx context.Context, w wrapper, c *store.Create) *store.Created {
		return forbids(ctx, w, c, store.ErrNotClaimable)
	})},
	"a run that is refused cancels": {"ARunBehindAnActiveOneIsNotCreatedOwned", createsOwned(func(ctx context.Context, w wrapper, c *store.Create) *store.Created {
		if active, err := w.Resolve(ctx, c.WorkflowID); err == nil && c.Active == store.ActiveCancel {
			_, _ = w.Deliver(ctx, store.Deliver{Run: active, Item: c.Cancel})
		}
		return nil
	})},
	"a session that is over creates runs": {"ASessionThatIsOverCreatesNothing", createsOwned(func(ctx context.Context, w wrapper, c *store.Create) *store.Created {
		if lease(ctx, w, c) != nil {
			return nil
		}
		return orphan(ctx, w, c)
	})},
	"what is refused for its session is created": {"ASessionThatIsOverCreatesNothing", createsOwned(func(ctx context.Context, w wrapper, c *store.Create) *store.Created {
		return forbids(ctx, w, c, store.ErrExpired)
	})},
	"a lease that is past creates nothing": {"ASessionOfWhichOnlyTheLeaseIsPastCreatesRuns", createsOwned(func(ctx context.Context, w wrapper, c *store.Create) *store.Created {
		if l := lease(ctx, w, c); l != nil && l.Expires.Before(w.Clock().Now()) {
			return &store.Created{Err: store.ErrExpired}
		}
		return nil
	})},
	"a session that is being recovered creates runs": {"ASessionThatIsBeingRecoveredCreatesNothing", createsOwned(func(ctx context.Context, w wrapper, c *store.Create) *store.Created {
		return forbids(ctx, w, c, store.ErrExpired)
	})},
	"a session creates no runs of other slots": {"ASessionCreatesRunsOfItsPartitionOnly", createsOwned(func(_ context.Context, _ wrapper, c *store.Create) *store.Created {
		if c.Run.Slot() != 0 {
			return &store.Created{Err: store.ErrExpired}
		}
		return nil
	})},
	"the session is asked before the policies": {"C1_CreateWithAnOwnerAsksThePoliciesFirst", createsOwned(func(ctx context.Context, w wrapper, c *store.Create) *store.Created {
		if lease(ctx, w, c) == nil {
			return &store.Created{Err: store.ErrExpired}
		}
		return nil
	})},
	"the time is asked before the policies": {"C1_CreateWithAnOwnerAsksThePoliciesFirst", createsOwned(func(_ context.Context, _ wrapper, c *store.Create) *store.Created {
		if c.Delay > 0 {
			return &store.Created{Err: store.ErrNotClaimable}
		}
		return nil
	})},
	"one session that is over is an error of all": {"CreateJudgesEachOwnerByItself", func(w wrapper) store.Store { return strictCreate{w} }},
	"a run continues as one that is created owned": {"ARunThatContinuesIgnoresAnOwner", func(w wrapper) store.Store {
		return edit{wrapper: w, commit: func(ctx context.Context, c *store.Commit) *store.Committed {
			if c.Continue == nil || c.Continue.Owner == nil {
				return nil
			}
			got, _ := w.Commit(ctx, []store.Commit{*c})
			_, _ = w.ClaimRun(ctx, 0, c.Continue.Owner.Session, c.Continue.Owner.Token, c.Continue.Run)
			return &got[0]
		}}
	}},

	"a create sent again is not told of its fence":    {"C1_CreateWithAnOwnerSentAgainIsToldOfItsFence", neverFenced},
	"a create sent again is told of any fence":        {"C1_CreateSentAgainIsToldOfNoFenceButItsOwn", alwaysFenced},
	"a create is told of its fence after a release":   {"C1_CreateWithAnOwnerSentAgainLaterIsToldOfNoFence", alwaysFenced},
	"the model notices a fence that is told too late": {"RandomHistoriesMatchTheModel", alwaysFenced},
	"a create sent again looks at the token only": {"C1_CreateWithAnOwnerSentAgainLaterIsToldOfNoFence", createsOwned(func(ctx context.Context, w wrapper, c *store.Create) *store.Created {
		if r := w.state(ctx, c.Run); r != nil && r.Fence.Token == c.Owner.Token {
			return &store.Created{Run: c.Run, New: true, Fence: c.Owner.Fence()}
		}
		return nil
	})},
	"a create sent again claims a ready run": {"C1_AReadyRunIsNotOwnedByACreateSentAgain", createsOwned(func(ctx context.Context, w wrapper, c *store.Create) *store.Created {
		if r := w.state(ctx, c.Run); r != nil && r.QueueState == store.StateReady {
			_, _ = w.ClaimRun(ctx, 0, c.Owner.Session, c.Owner.Token, c.Run)
		}
		return nil
	})},

	"runs that are created owned have no workflow id": {"C1_OfManyLocalStartsOfOneWorkflowIDOneIsOwned", createsOwned(func(_ context.Context, _ wrapper, c *store.Create) *store.Created {
		c.WorkflowID = ""
		return nil
	})},
	"one try of many is told of the fence":    {"C1_ConcurrentTriesOfOneLocalStartAreOneRun", neverFenced},
	"a closed session loses a local start":    {"NoLocalStartIsLostToASessionThatIsClosed", pretends},
	"a recovered session loses a local start": {"NoLocalStartIsLostToASessionThatIsRecovered", pretends},
	"lists leave out what was created owned":  {"ListFindsARunThatIsCreatedOwned", func(w wrapper) store.Store { return shortList{w} }},
}

// forgetfulReconcile is a store whose Reconcile omits runs of the first epoch.
type forgetfulReconcile struct{ wrapper }

func (f forgetfulReconcile) Reconcile(ctx context.Context, partition int, s store.SessionID) ([]store.Owned, error) {
	owned, err := f.Store.Reconcile(ctx, partition, s)
	return slices.DeleteFunc(owned, func(o store.Owned) bool { return o.Fence.Epoch == 1 }), err
}

// doubleVision is a store whose snapshot lists runs that were created owned among the ready runs.
type doubleVision struct{ wrapper }

func (d doubleVision) Inspect(ctx context.Context) (*store.Snapshot, error) {
	snap := d.snapshot(ctx)
	for id, r := range snap.Runs {
		if r.QueueState == store.StateOwned && r.Fence.Epoch == 1 {
			snap.Ready = map[store.Route][]event.RunID{r.Route: {id}}
		}
	}
	return snap, nil
}

// shadowed returns a store that gives runs with an owner to a session that never ends.
func shadowed(w wrapper) store.Store {
	return edit{wrapper: w, create: func(ctx context.Context, c *store.Create) *store.Created {
		if c.Owner != nil {
			shadow := store.Session{ID: "shadow", TTL: 1000 * time.Hour}
			if err := w.OpenSession(ctx, shadow); err != nil {
				return &store.Created{Err: err}
			}
			c.Owner = &store.Owner{Session: shadow.ID, Token: c.Owner.Token}
		}
		return nil
	}}
}

// gentleClose is a store that releases the runs of a session before it closes the session.
type gentleClose struct{ wrapper }

func (g gentleClose) CloseSession(ctx context.Context, partition int, s store.SessionID) error {
	owned, err := g.Store.Reconcile(ctx, partition, s)
	for _, o := range owned {
		err = errors.Join(err, g.Store.Release(ctx, o.Run, o.Fence))
	}
	return errors.Join(err, g.Store.CloseSession(ctx, partition, s))
}

// strictCreate is a store whose Create fails for all runs if the session of one of them has ended.
type strictCreate struct{ wrapper }

func (s strictCreate) Create(ctx context.Context, runs []store.Create) ([]store.Created, error) {
	got, err := s.Store.Create(ctx, runs)
	for _, a := range got {
		if errors.Is(a.Err, store.ErrExpired) {
			return nil, a.Err
		}
	}
	return got, err
}

// shortList is a store whose List omits owned runs.
type shortList struct{ wrapper }

func (s shortList) List(ctx context.Context, q store.Query) (store.Page, error) {
	inner, _ := store.As[store.Lister](s.Store)
	page, err := inner.List(ctx, q)
	page.Runs = slices.DeleteFunc(page.Runs, func(r store.Record) bool { return r.QueueState == store.StateOwned })
	return page, err
}

func (s shortList) Count(ctx context.Context, q store.Query) (store.Counts, error) {
	inner, _ := store.As[store.Lister](s.Store)
	return inner.Count(ctx, q)
}
