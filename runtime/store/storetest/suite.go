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

// Clock is a clock whose time changes only by calls of Advance.
type Clock = suite.Clock

// NewClock returns a clock that shows an arbitrary time.
func NewClock() *Clock { return suite.NewClock() }

// IDs makes unique IDs. All executions of a test get the same IDs.
type IDs = suite.IDs

// Log is the log of one run from the perspective of its owner.
type Log = suite.Log

// NewLog returns the log of a run that does not exist yet.
func NewLog(ids *IDs, clock store.Clock, run event.RunID, spec event.Spec) *Log {
	return suite.NewLog(ids, clock, run, spec)
}

// Run executes the whole suite: one subtest per behaviour, and one with random histories.
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

// Mute is a store that never returns outbox records. The records remain in the outbox, and no relay
// sends them.
type Mute struct{ store.Store }

// Unwrap returns the wrapped store.
func (m Mute) Unwrap() store.Store { return m.Store }

// Outbox returns no records.
func (Mute) Outbox(context.Context, int, int) ([]store.Outgoing, time.Time, error) {
	return nil, time.Time{}, nil
}

// Commit executes the commits, and removes the sent records from the answers.
func (m Mute) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	answers, err := m.Store.Commit(ctx, commits)
	for i := range answers {
		answers[i].Sent = nil
	}
	return answers, err
}
