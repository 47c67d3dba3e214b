package storetest_test

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// marking returns a constructor of stores with a mistake in Mark. The store calls do with each mark
// and its record, if the record exists. If do returns false, the store drops the mark.
func marking(do func(ctx context.Context, w wrapper, m *store.Mark, o store.Outgoing) bool) func(wrapper) store.Store {
	return func(w wrapper) store.Store {
		return edit{wrapper: w, mark: func(ctx context.Context, m *store.Mark) bool {
			all := w.snapshot(ctx).Outbox
			i := slices.IndexFunc(all, func(o store.Outgoing) bool { return o.From == m.From && o.ID == m.ID })
			return i < 0 || do(ctx, w, m, all[i])
		}}
	}
}

// reading returns a constructor of stores with a mistake in the answers of Outbox.
func reading(do func(ctx context.Context, w wrapper, got *[]store.Outgoing, next *time.Time)) func(wrapper) store.Store {
	return func(w wrapper) store.Store {
		return edit{wrapper: w, outbox: func(ctx context.Context, _ *int, got *[]store.Outgoing, next *time.Time) {
			if got != nil {
				do(ctx, w, got, next)
			}
		}}
	}
}

func markIgnoresPhases(_ context.Context, _ wrapper, m *store.Mark, o store.Outgoing) bool {
	m.Phase = o.Phase
	return true
}

// sendsAll returns a store whose commits return all records that they write, including records that
// must wait for earlier ones.
func sendsAll(w wrapper) store.Store {
	return edit{wrapper: w, commit: func(ctx context.Context, c *store.Commit) *store.Committed {
		got, err := w.Commit(ctx, []store.Commit{*c})
		if err != nil {
			return &store.Committed{Err: err}
		}
		got[0].Sent = nil
		for i := range c.Send {
			got[0].Sent = append(got[0].Sent, c.Send[i].Outgoing(c.Run, w.Clock().Now()))
		}
		return &got[0]
	}}
}

var outboxFaults = map[string]fault{
	"mark ignores the phase":                                    {"MarkIgnoresARecordInAnotherPhase", marking(markIgnoresPhases)},
	"the model notices marks of any phase":                      {"RandomHistoriesMatchTheModel", marking(markIgnoresPhases)},
	"a commit returns all that it sends":                        {"O1_ACommitReturnsOnlyWhatNothingComesBefore", sendsAll},
	"the model notices a commit that returns all that it sends": {"RandomHistoriesMatchTheModel", sendsAll},
	"a record goes with its answer": {"O2_ARecordPassesThroughItsPhases",
		marking(func(ctx context.Context, w wrapper, m *store.Mark, o store.Outgoing) bool {
			if m.Phase != o.Phase {
				return true
			}
			for p := m.Phase; p <= store.PhaseSettled; p++ {
				_ = w.Store.Mark(ctx, 0, []store.Mark{{From: m.From, ID: m.ID, Phase: p, Refusal: m.Refusal}})
			}
			return false
		})},
	"a refusal is always new": {"M1_ARefusalThatWasAcceptedIsNotPushedAgain",
		marking(func(_ context.Context, _ wrapper, m *store.Mark, _ store.Outgoing) bool {
			if m.Refusal != nil {
				m.Refusal = &store.Item{ID: event.NewItemID()}
			}
			return true
		})},
	"a refusal is kept from a closing sender": {"ARefusalReachesAClosingSender",
		marking(func(ctx context.Context, w wrapper, m *store.Mark, _ store.Outgoing) bool {
			return m.Refusal == nil || !w.state(ctx, m.From).Closing
		})},
	"a refusal is lost": {"M1_ARefusalIsAcceptedWithTheAnswer",
		marking(func(_ context.Context, _ wrapper, m *store.Mark, _ store.Outgoing) bool {
			m.Refusal = nil
			return true
		})},
	"a refusal follows the chain": {"ASenderThatHasContinuedIsToldOfNoRefusal",
		marking(func(ctx context.Context, w wrapper, m *store.Mark, _ store.Outgoing) bool {
			if r := w.state(ctx, m.From); m.Refusal != nil && r.Next != "" && m.Refusal.Scope == store.ScopeChain {
				_, _ = w.Store.Deliver(ctx, store.Deliver{Run: r.Next, Item: *m.Refusal})
			}
			return true
		})},
	"an unknown receiver is always an answer": {"O1_AnUnknownReceiverTakesBackWhatWasAnsweredBefore",
		marking(func(_ context.Context, _ wrapper, m *store.Mark, _ store.Outgoing) bool {
			m.Unknown = false
			return true
		})},
	"an unknown receiver is never an answer": {"AnUnknownReceiverIsAnAnswerIfThereIsNothingBefore",
		marking(func(_ context.Context, _ wrapper, m *store.Mark, _ store.Outgoing) bool { return !m.Unknown })},
	"an unknown receiver is no reason to let a settled record go": {"AnUnknownReceiverLetsASettledRecordGo",
		marking(func(_ context.Context, _ wrapper, m *store.Mark, _ store.Outgoing) bool {
			return !m.Unknown || m.Phase != store.PhaseSettled
		})},
	"the outbox ignores its limit": {"OutboxReturnsAtMostLimitAndTellsOfMore", func(w wrapper) store.Store {
		return edit{wrapper: w, outbox: func(_ context.Context, limit *int, _ *[]store.Outgoing, _ *time.Time) { *limit = 1000 }}
	}},
	"the outbox does not say what is left": {"OutboxReturnsAtMostLimitAndTellsOfMore",
		reading(func(_ context.Context, _ wrapper, _ *[]store.Outgoing, next *time.Time) { *next = time.Time{} })},
	"the outbox is always in a hurry": {"O2_ARecordPassesThroughItsPhases",
		reading(func(_ context.Context, w wrapper, _ *[]store.Outgoing, next *time.Time) { *next = w.Clock().Now() })},
	"the outbox has no order": {"O1_FreshRecordsAreReturnedInTheOrderInWhichTheyWereWritten",
		reading(func(_ context.Context, _ wrapper, got *[]store.Outgoing, _ *time.Time) { slices.Reverse(*got) })},
	"the outbox sets no deadline": {"ACommitWritesItsRecords",
		reading(func(_ context.Context, _ wrapper, got *[]store.Outgoing, _ *time.Time) {
			for i := range *got {
				(*got)[i].Deadline = time.Time{}
			}
		})},
	"a record sent twice in one commit has two places":                        {"ARecordThatComesTwiceInOneCommitIsOne", twoPlaces},
	"the model notices that a record sent twice in one commit has two places": {"RandomHistoriesMatchTheModel", twoPlaces},
	"the outbox settles before its time": {"O2_ARecordPassesThroughItsPhases",
		reading(func(ctx context.Context, w wrapper, got *[]store.Outgoing, _ *time.Time) {
			*got = w.snapshot(ctx).Outbox
		})},
	"the outbox settles out of order": {"O1_AnAnsweredRecordWaitsForTheEarlierOnesOfItsPair",
		reading(func(ctx context.Context, w wrapper, got *[]store.Outgoing, _ *time.Time) {
			*got = dueByThemselves(ctx, w)
		})},
	"the model notices what is settled out of order": {"RandomHistoriesMatchTheModel",
		reading(func(ctx context.Context, w wrapper, got *[]store.Outgoing, _ *time.Time) {
			if all := dueByThemselves(ctx, w); len(all) > len(*got) && len(*got) > 0 {
				*got = all
			}
		})},
	"a heartbeat hides the outbox": {"HeartbeatTellsWhenTheOutboxWantsSomething", func(w wrapper) store.Store {
		return edit{wrapper: w, beat: func(b *store.Heartbeat) { b.Outbox = time.Time{} }}
	}},
	"a heartbeat is late for the outbox": {"HeartbeatTellsWhenTheOutboxWantsSomething", func(w wrapper) store.Store {
		return edit{wrapper: w, beat: func(b *store.Heartbeat) {
			if b.Outbox.After(w.Clock().Now()) {
				b.Outbox = b.Outbox.Add(time.Millisecond)
			}
		}}
	}},
	"the model notices a late heartbeat": {"RandomHistoriesMatchTheModel", func(w wrapper) store.Store {
		return edit{wrapper: w, beat: func(b *store.Heartbeat) {
			if b.Outbox.After(w.Clock().Now()) {
				b.Outbox = b.Outbox.Add(time.Millisecond)
			}
		}}
	}},
}

// twoPlaces returns a store that finds duplicates only among the records of earlier commits. If one
// commit contains a record twice, the store writes the record twice.
func twoPlaces(w wrapper) store.Store {
	const second = " in its second place"
	return edit{
		wrapper: w,
		commit: func(ctx context.Context, c *store.Commit) *store.Committed {
			known := map[event.ItemID]bool{}
			for _, o := range w.snapshot(ctx).Outbox {
				known[o.ID] = known[o.ID] || o.From == c.Run
			}
			c.Send = slices.Clone(c.Send)
			for i, s := range c.Send {
				if !known[s.ID] && slices.ContainsFunc(c.Send[:i], func(o store.Send) bool { return o.ID == s.ID }) {
					c.Send[i].ID += second
				}
			}
			return nil
		},
		outbox: func(_ context.Context, _ *int, got *[]store.Outgoing, _ *time.Time) {
			if got == nil {
				return
			}
			for i, o := range *got {
				(*got)[i].ID = event.ItemID(strings.TrimSuffix(string(o.ID), second))
			}
		},
	}
}

// dueByThemselves returns the records that are due if the order of records from one sender to one
// receiver is ignored.
func dueByThemselves(ctx context.Context, w wrapper) []store.Outgoing {
	now := w.Clock().Now()
	all := w.snapshot(ctx).Outbox
	for i := range all {
		all[i].Deadline = now.Add(store.Horizon / 2)
	}
	return slices.DeleteFunc(all, func(o store.Outgoing) bool {
		return o.Phase != store.PhaseFresh && now.Before(o.Since.Add(store.Horizon))
	})
}
