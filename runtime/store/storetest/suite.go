package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/behavior/chains"
	"github.com/flowgen/flowgen/runtime/store/storetest/behavior/limits"
	"github.com/flowgen/flowgen/runtime/store/storetest/behavior/operators"
	"github.com/flowgen/flowgen/runtime/store/storetest/behavior/runs"
	"github.com/flowgen/flowgen/runtime/store/storetest/behavior/streams"
	"github.com/flowgen/flowgen/runtime/store/storetest/history"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// Config configures the suite for the store under test.
type Config = suite.Config

// Clock is a clock that only Advance moves.
type Clock = suite.Clock

// NewClock returns a clock that shows an arbitrary time.
func NewClock() *Clock { return suite.NewClock() }

// IDs makes IDs that are unique and the same in every execution.
type IDs = suite.IDs

// Log is the log of one run as its owner sees it.
type Log = suite.Log

// NewLog returns the log of a run that has not been created.
func NewLog(ids *IDs, clock store.Clock, run event.RunID, spec event.Spec) *Log {
	return suite.NewLog(ids, clock, run, spec)
}

// Run runs the whole suite: one subtest per behaviour, and random histories against a model.
func Run(t *testing.T, cfg Config) {
	t.Helper()
	for _, g := range groups() {
		if !g.Applies(t, cfg) {
			continue
		}
		for _, b := range g.Behaviors {
			t.Run(b.Name, func(t *testing.T) { b.Test(suite.NewHarness(t, t, cfg)) })
		}
	}
	t.Run("RandomHistoriesMatchTheModel", func(t *testing.T) { history.Run(t, cfg) })
}

func groups() []suite.Group {
	return slices.Concat(runs.Groups, chains.Groups, streams.Groups, operators.Groups, limits.Groups)
}

// Mute is a store that hides sent records: they stay in the outbox, and no relay finds them.
type Mute struct{ store.Store }

// Unwrap returns the wrapped store.
func (m Mute) Unwrap() store.Store { return m.Store }

// Outbox returns no records.
func (Mute) Outbox(context.Context, int, int) ([]store.Outgoing, time.Time, error) {
	return nil, time.Time{}, nil
}

// Commit returns no sent records.
func (m Mute) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	answers, err := m.Store.Commit(ctx, commits)
	for i := range answers {
		answers[i].Sent = nil
	}
	return answers, err
}
