package flowtest

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Blocked waits until a run is blocked.
func (w *World) Blocked(run Follows) {
	w.T.Helper()
	w.Status(run, workflow.StatusBlocked)
}

// ReachWaiting waits until a run waits for a message.
func (w *World) ReachWaiting(run Follows) {
	w.T.Helper()
	w.Eventually("the run waits for a message", func() bool {
		return slices.ContainsFunc(w.Log(run), func(e event.Event) bool { return e.Type == event.WaitCreated && e.Wait == event.WaitMessage })
	})
}

// Echoes binds code to [Echo] that returns its input, or fails if the input is empty.
var Echoes = As(Echo, func(_ workflow.Context, in string) (string, error) {
	if in == "" {
		return "", errors.New("nothing to repeat")
	}
	return in, nil
})

// Ended starts a run of [Echo] and waits for its end.
func Ended(w *World, in string, opts ...workflow.StartOption) workflow.RunID {
	w.T.Helper()
	run := Start(w, Echo, in, opts...)
	Result(w, run)
	return run.ID()
}

// Parked reports whether a run is parked.
func (w *World) Parked(run Follows) bool {
	w.T.Helper()
	return w.Record(run).QueueState == store.StateParked
}

// Published returns how many chunks have been published on a stream.
func (w *World) Published(run Follows, stream string) uint64 {
	w.T.Helper()
	page, err := w.Store.ReadStream(w.Ctx, store.ReadStream{Run: run.ID(), Stream: stream, Limit: -1})
	Order(w.T, err)
	return page.Last
}

// FirstFrame returns the types of the events in the first frame of a run.
func (w *World) FirstFrame(run Follows) (types []event.Type) {
	w.T.Helper()
	for _, e := range w.Decode(w.load(store.Load{Run: run.ID(), Limit: 1}).Frames) {
		types = append(types, e.Type)
	}
	return types
}

// Status waits until the run has a status.
func (w *World) Status(run Follows, want workflow.Status) {
	w.T.Helper()
	w.Eventually("run "+string(run.ID())+" is "+string(want), func() bool { return w.info(run).Status == want })
}

func (w *World) info(run Follows) workflow.RunInfo {
	w.T.Helper()
	info, err := w.Client.Run(run.ID()).Info(w.Ctx)
	Order(w.T, err)
	return info
}

// Record returns the record of a run in the store.
func (w *World) Record(run Follows) store.Record {
	w.T.Helper()
	return w.load(store.Load{Run: run.ID(), Limit: -1}).Record
}

// List returns the IDs of the runs that match a filter, in the order of the list.
func (w *World) List(f workflow.Filter) []workflow.RunID {
	w.T.Helper()
	var ids []workflow.RunID
	for info, err := range w.Client.List(w.Ctx, f) {
		Order(w.T, err)
		ids = append(ids, info.ID)
	}
	return ids
}

// AfterCrash creates a run whose log contains exactly the given events, as if its worker had died
// after it committed the last of them.
func AfterCrash[In, Out any](w *World, d workflow.Definition[In, Out], events []event.Event) *workflow.Run[Out] {
	w.T.Helper()
	run, cid := event.NewRunID(w.Store.Clock().Now(), event.RandomSlot()), event.NewCommitID()
	last := &events[len(events)-1]
	frame, err := event.AppendFrame(nil, &event.Frame{CommitID: cid, Time: last.Time, Events: slices.Clone(events)})
	Order(w.T, err)
	created, err := w.Store.Create(w.Ctx, []store.Create{{
		Run: run, Route: store.Route{Queue: workflow.DefaultQueue, Workflow: d.Name()}, Frame: frame, CommitID: cid, Seq: last.Seq,
	}})
	if err != nil || created[0].Err != nil {
		w.T.Fatal(err, created)
	}
	return d.Get(w.Client, run)
}

// BlockedAs waits until a run is blocked. It fails the test unless the reason contains all words.
func (w *World) BlockedAs(run Follows, words ...string) {
	w.T.Helper()
	w.Status(run, workflow.StatusBlocked)
	info := w.info(run)
	for _, word := range words {
		if !strings.Contains(info.Blocked, word) {
			w.T.Errorf("the run is blocked without saying %q:\n%s", word, info.Blocked)
		}
	}
	if strings.Contains(info.Blocked, "workflow.Version") {
		w.T.Errorf("the advice does not fit a name that was changed:\n%s", info.Blocked)
	}
}

// Open returns the IDs of the runs that have not ended.
func (w *World) Open() (open []event.RunID) {
	for _, r := range w.Snapshot().Runs {
		if r.QueueState != store.StateEnded {
			open = append(open, r.Run)
		}
	}
	return open
}

// Order fails the test if err is not nil. err is usually the error of a command.
func Order(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// IsInvalid reports whether err is a [workflow.InvalidError] about what, with a value of limited
// length.
func IsInvalid(err error, what string) bool {
	var invalid *workflow.InvalidError
	return errors.As(err, &invalid) && invalid.What == what && len(invalid.Value) <= 100
}

// Described waits until workers have described all named workflows. It returns the newest version
// of each.
func (w *World) Described(names iter.Seq[string]) map[string]store.CatalogVersion {
	w.T.Helper()
	wanted := slices.Collect(names)
	found := map[string]store.CatalogVersion{}
	w.Eventually("all is described", func() bool {
		all, err := ops.New(w.Client).Catalog(w.Ctx, ops.CatalogQuery{})
		Order(w.T, err)
		for _, e := range all {
			if slices.Contains(wanted, e.Workflow) {
				found[e.Workflow] = e.Versions[0]
			}
		}
		return len(found) == len(wanted)
	})
	return found
}
