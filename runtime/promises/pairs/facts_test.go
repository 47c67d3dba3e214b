package pairs_test

import (
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
)

// A kind is the purpose of a run.
type kind string

// The kinds of runs. All except the first two are internal to the runtime.
const (
	kindUser     kind = "user"
	kindChild    kind = "child"
	kindStep     kind = "step"
	kindToken    kind = "token"
	kindPermit   kind = "permit"
	kindSchedule kind = "schedule"
	kindBulk     kind = "bulk"
)

// own reports whether runs of the kind are internal to the runtime.
func (k kind) own() bool { return k != kindUser && k != kindChild }

// facts are the properties of a state that the rules use. Observed contains those that the store
// shows, which the test compares.
type facts struct {
	Kind kind
	Observed
	Debug      bool     // it is executed step by step
	Unserved   bool     // no worker serves its queue until all obstacles are removed
	Collecting bool     // several starts share the run, and it has no input yet
	Singleton  bool     // it is the only active run of its key
	Taken      bool     // its workflow ID has another active run
	Undone     bool     // its compensations have undone its work
	Terminated bool     // it was ended by Terminate
	Last       Observed // the last run of its chain, if it has continued
	Gone       bool     // it was deleted or purged
	Unreadable bool     // its log cannot be read to its end
	Imported   bool
	Permits    bool // it uses limits until its end
	Full       bool // when it is woken it may wait in the queue of its limit
	Step       bool // the step "first" is in its log
	Hook       bool // it has an open hook, which belongs to a step if OfStep is set
	OfStep     bool
	// Rerun is the status of the last rerun made after the run failed or was canceled; empty: there
	// is none, or it was deleted.
	Rerun event.Status
}

// Observed are the facts of a run in the store.
type Observed struct {
	Place  store.QueueState
	Status event.Status
	Begun  bool // its log has run_started
	Asked  bool // it was asked to cancel
	Paused bool
	Waits  bool // it waits for permits
	// Delayed reports that it is an automatic rerun whose time has not come, so that its code has
	// not continued.
	Delayed bool
}

// open reports whether the run has not ended.
func (f *facts) open() bool { return f.Place != store.StateEnded }

// kept reports whether commands stay in the inbox until a worker claims the run.
func (f *facts) kept() bool {
	return f.Unserved || f.Collecting || f.Waits || f.Place == store.StateQueued || f.Place == store.StateBlocked
}

// observe reads the facts of a run from its record and its log. A paused run may be owned briefly.
func observe(w *flowtest.World, run event.RunID) (o Observed, there bool) {
	loaded, err := w.Store.Load(w.Ctx, []store.Load{{Run: run}})
	if err != nil || loaded[0].Err != nil {
		return o, false
	}
	r := &loaded[0].Record
	state := stateOf(loaded[0].Frames)
	return Observed{
		Place: r.QueueState, Status: r.Status, Begun: !state.StartedAt.IsZero(), Asked: state.CancelRequested, Paused: state.Paused, Waits: r.Waits(),
		Delayed: !state.Delayed.IsZero(),
	}, true
}

// stateOf returns the state of the readable part of a log.
func stateOf(frames [][]byte) *event.LogState {
	state := &event.LogState{}
	for _, e := range eventsOf(frames) {
		if state.Apply(&e) != nil {
			break
		}
	}
	return state
}

// eventsOf returns the events of the readable part of a log.
func eventsOf(frames [][]byte) (all []event.Event) {
	for _, b := range frames {
		f, err := event.DecodeFrame(b)
		if err != nil {
			break
		}
		all = append(all, f.Events...)
	}
	return all
}

// TestFacts_OfAKindThatIsTheRuntimesOwn checks which kinds are internal.
func TestFacts_OfAKindThatIsTheRuntimesOwn(t *testing.T) {
	for k, want := range map[kind]bool{kindUser: false, kindChild: false, kindStep: true, kindToken: true, kindPermit: true, kindSchedule: true, kindBulk: true} {
		if got := k.own(); got != want {
			t.Errorf("%s is the runtime's own: got %v, want %v", k, got, want)
		}
	}
}
