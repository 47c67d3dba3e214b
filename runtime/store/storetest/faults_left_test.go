package storetest_test

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// creating returns a constructor of stores with a mistake in the creation of runs.
func creating(do func(ctx context.Context, w wrapper, c *store.Create)) func(wrapper) store.Store {
	return func(w wrapper) store.Store {
		return edit{wrapper: w, create: func(ctx context.Context, c *store.Create) *store.Created {
			do(ctx, w, c)
			return nil
		}}
	}
}

func keepsNothing(w wrapper) store.Store {
	return edit{wrapper: w, deliver: func(_ context.Context, d *store.Deliver) error {
		d.Keep = false
		return nil
	}}
}

// deafToStepData is a store that never counts step data as progress.
type deafToStepData struct{ wrapper }

func (s deafToStepData) SetStepData(ctx context.Context, run event.RunID, fence store.Fence, key string, body []byte, _ bool) error {
	n, _ := store.As[store.StepDataStore](s.Store)
	return n.SetStepData(ctx, run, fence, key, body, false)
}

func (s deafToStepData) StepData(ctx context.Context, run event.RunID) (map[string][]byte, error) {
	n, _ := store.As[store.StepDataStore](s.Store)
	return n.StepData(ctx, run)
}

// renewing is a store that renews the lease of a session when its data are written.
type renewing struct{ wrapper }

func (s renewing) SetSessionData(ctx context.Context, partition int, id store.SessionID, body []byte) error {
	d, _ := store.As[store.SessionDataStore](s.Store)
	if _, err := s.Heartbeat(ctx, partition, id); err != nil {
		return err
	}
	return d.SetSessionData(ctx, partition, id, body)
}

func (s renewing) SessionData(ctx context.Context, partition int) ([]store.SessionData, error) {
	d, _ := store.As[store.SessionDataStore](s.Store)
	return d.SessionData(ctx, partition)
}

// lasting is a store that returns the data of sessions that have ended.
type lasting struct {
	renewing
	last *[]store.SessionData
}

func (s lasting) SessionData(ctx context.Context, partition int) ([]store.SessionData, error) {
	all, err := s.renewing.SessionData(ctx, partition)
	if len(all) < len(*s.last) {
		return *s.last, err
	}
	*s.last = all
	return all, err
}

// blaming is a store that ignores Exempt in claims.
type blaming struct{ wrapper }

func (s blaming) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	c.Exempt = 0
	return s.wrapper.Claim(ctx, c)
}

// careless is a store with a mistake in WriteEntry.
type careless struct {
	wrapper
	edit func(w *store.EntryWrite)
}

func (s careless) WriteEntry(ctx context.Context, w store.EntryWrite) error {
	s.edit(&w)
	e, _ := store.As[store.Entries](s.Store)
	return e.WriteEntry(ctx, w)
}

func (s careless) Entries(ctx context.Context, q store.EntryQuery) ([]store.Entry, error) {
	e, _ := store.As[store.Entries](s.Store)
	return e.Entries(ctx, q)
}

// writing returns a constructor of stores with a mistake in WriteEntry.
func writing(edit func(w *store.EntryWrite)) func(wrapper) store.Store {
	return func(w wrapper) store.Store { return careless{w, edit} }
}

// leftFaults are mistakes in data that a store keeps beside the runs: items that a receiver
// remembers, exemptions, step data and entries.
var leftFaults = map[string]fault{
	"an entry is replaced whatever it is":        {"OfThoseThatReplaceTheSameValueOneDoes", writing(func(w *store.EntryWrite) { w.Match = false })},
	"entries have no limit":                      {"V1_ThereAreNoMoreViewsThanMayBe", writing(func(w *store.EntryWrite) { w.Limit = 0 })},
	"a space keeps more entries than it should":  {"WritesOfEntriesDoWhatTheModelDoes", writing(func(w *store.EntryWrite) { w.Keep.Most = 0 })},
	"a space keeps older entries than it should": {"J1_TheOldestAreForgottenOnceTheyAreTooOld", writing(func(w *store.EntryWrite) { w.Keep.From = "" })},
	"an item is kept for a day":                  {"O2_AKeptItemIsRememberedForLongerThanADay", keepsNothing},
	"no run is exempt when it is claimed":        {"TheEndOfASessionDoesNotCountForRunsThatAreExempt", func(w wrapper) store.Store { return blaming{w} }},
	"an exemption lasts": {"TheEndOfASessionDoesNotCountForRunsThatAreExempt", func(w wrapper) store.Store {
		return edit{wrapper: w, commit: func(_ context.Context, c *store.Commit) *store.Committed {
			c.Exempt = store.ExemptUnchanged
			return nil
		}}
	}},
	"step data is no progress":                 {"NewStepDataIsProgressIfItsWriterSaysSo", func(w wrapper) store.Store { return deafToStepData{w} }},
	"a write of session data renews the lease": {"OPS4_SessionDataHaveTheLeaseOfTheirSession", func(w wrapper) store.Store { return renewing{w} }},
	"session data outlive their session": {"OPS4_SessionDataEndWithTheSession", func(w wrapper) store.Store {
		return lasting{renewing{w}, &[]store.SessionData{}}
	}},
	"an item is not kept":                        {"O2_AKeptItemIsRememberedUntilConfirm", keepsNothing},
	"the model notices an item that is not kept": {"RandomHistoriesMatchTheModel", keepsNothing},
	"every item is kept": {"M1_WhatIsAcceptedIsInTheInboxAndSeen", func(w wrapper) store.Store {
		return edit{wrapper: w, deliver: func(_ context.Context, d *store.Deliver) error {
			d.Keep = true
			return nil
		}}
	}},
	"create forgets its creator": {"O2_CreateKeepsCreatedByUntilConfirm",
		creating(func(_ context.Context, _ wrapper, c *store.Create) { c.CreatedBy = "" })},
	"create ignores its deadline": {"CreatePastItsDeadlineIsStale",
		creating(func(_ context.Context, _ wrapper, c *store.Create) { c.Deadline = time.Time{} })},
	"create asks whether it is late last": {"CreatePastItsDeadlineIsStale",
		creating(func(ctx context.Context, w wrapper, c *store.Create) {
			if w.state(ctx, c.Run) != nil {
				c.Deadline = time.Time{}
			}
		})},
	"create is early to be late": {"CreatePastItsDeadlineIsStale",
		creating(func(_ context.Context, w wrapper, c *store.Create) {
			if c.Deadline.Equal(w.Clock().Now()) {
				c.Deadline = c.Deadline.Add(-time.Millisecond)
			}
		})},
	"purge ignores starts": {"P1_ARunIsNotPurgedBeforeItsCreationIsConfirmed", func(w wrapper) store.Store {
		return edit{wrapper: w, purge: func(ctx context.Context) {
			for run, r := range w.snapshot(ctx).Runs {
				_ = w.Store.Confirm(ctx, run, r.CreatedBy)
			}
		}}
	}},
	"the model notices a purge that ignores starts": {"RandomHistoriesMatchTheModel", func(w wrapper) store.Store {
		return edit{wrapper: w, purge: func(ctx context.Context) {
			for run, r := range w.snapshot(ctx).Runs {
				_ = w.Store.Confirm(ctx, run, r.CreatedBy)
			}
		}}
	}},
	"purge ignores records": {"P1_ASenderIsNotPurgedWhileItHasRecords", func(w wrapper) store.Store {
		return edit{wrapper: w, purge: func(ctx context.Context) {
			for _, o := range w.snapshot(ctx).Outbox {
				for p := o.Phase; p <= store.PhaseSettled; p++ {
					_ = w.Store.Mark(ctx, 0, []store.Mark{{From: o.From, ID: o.ID, Phase: p}})
				}
			}
		}}
	}},
	"purge ignores settled records": {"P1_ASenderIsNotPurgedWhileItHasRecords", func(w wrapper) store.Store {
		return edit{wrapper: w, purge: func(ctx context.Context) {
			for _, o := range w.snapshot(ctx).Outbox {
				_ = w.Store.Mark(ctx, 0, []store.Mark{{From: o.From, ID: o.ID, Phase: store.PhaseSettled}})
			}
		}}
	}},
	"confirm does nothing": {"P1_ARunIsNotPurgedBeforeItsCreationIsConfirmed", func(w wrapper) store.Store {
		return edit{wrapper: w, confirm: func(context.Context, event.RunID, event.ItemID) bool { return false }}
	}},
	"confirm finds no deleted run": {"P1_ADeletedRunIsNotPurgedBeforeItsCreationIsConfirmed", func(w wrapper) store.Store {
		return edit{wrapper: w, confirm: func(ctx context.Context, run event.RunID, _ event.ItemID) bool {
			r := w.state(ctx, run)
			return r != nil && !r.Hidden
		}}
	}},
	"confirm knows the last run of a chain only": {"O2_ConfirmReachesTheChainByAnyOfItsRuns", func(w wrapper) store.Store {
		return edit{wrapper: w, confirm: func(ctx context.Context, run event.RunID, _ event.ItemID) bool {
			r := w.state(ctx, run)
			return r == nil || r.Next == ""
		}}
	}},
	"confirm forgets a local start for another record": {"O2_CreateKeepsCreatedByUntilConfirm", func(w wrapper) store.Store {
		return edit{wrapper: w, confirm: func(ctx context.Context, run event.RunID, _ event.ItemID) bool {
			if r := w.state(ctx, run); r != nil {
				_ = w.Store.Confirm(ctx, run, r.CreatedBy)
			}
			return true
		}}
	}},
}
