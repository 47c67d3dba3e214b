package pairs_test

import (
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
)

// A kind is what a run is for.
type kind string

// The kinds of runs. All but the first two are the runtime's own.
const (
	kindUser     kind = "user"
	kindChild    kind = "child"
	kindStep     kind = "step"
	kindToken    kind = "token"
	kindPermit   kind = "permit"
	kindSchedule kind = "schedule"
	kindBulk     kind = "bulk"
)

// own reports whether runs of the kind are the runtime's own.
func (k kind) own() bool { return k != kindUser && k != kindChild }

// facts are what the rules know of a state. Observed has those that the store shows: the test compares them.
type facts struct {
	Kind kind
	Observed
	Debug      bool     // it is executed step by step
	Unserved   bool     // no worker serves its queue before everything is freed
	Collecting bool     // several starts share the run, and it has no input yet
	Singleton  bool     // it is the only active run of its key
	Taken      bool     // its workflow id has another active run
	Undone     bool     // its compensations have undone what it did
	Terminated bool     // it was ended by Terminate
	Last       Observed // of the last run of its chain, if it has continued
	Gone       bool     // it was deleted or purged
	Unreadable bool     // its log cannot be read to its end
	Imported   bool
	Permits    bool // it uses limits for its whole time
	Full       bool // what wakes it lets it wait in line for its limit
	Step       bool // the step "first" is in its log
	Hook       bool // it has an open hook, which is that of a step if OfStep is set
	OfStep     bool
	// Rerun is the status of the last run that was made of it after it had failed or was cancelled; empty: there is none, or that was
	// deleted.
	Rerun event.Status
}

// Observed are the facts of a run in the store.
type Observed struct {
	Place  store.QueueState
	Status event.Status
	Begun  bool // its log has run_started
	Asked  bool // it was asked to end
	Paused bool
	Waits  bool // for permits
	// Delayed says that it is a rerun by a policy whose time has not come: its code has not gone on.
	Delayed bool
}

// open reports whether the run has not ended.
func (f *facts) open() bool { return f.Place != store.StateEnded }

// kept reports whether commands are kept in the inbox until a worker has the run.
func (f *facts) kept() bool {
	return f.Unserved || f.Collecting || f.Waits || f.Place == store.StateQueued || f.Place == store.StateBlocked
}

// observe reads the facts of a run from its record and its log. A paused run may be owned for a moment.
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

// stateOf returns the state of a log as far as it can be read.
func stateOf(frames [][]byte) *event.LogState {
	state := &event.LogState{}
	for _, e := range eventsOf(frames) {
		if state.Apply(&e) != nil {
			break
		}
	}
	return state
}

// eventsOf returns the events of a log as far as it can be read.
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

// TestFacts_OfAKindThatIsTheRuntimesOwn keeps the two lists of kinds apart.
func TestFacts_OfAKindThatIsTheRuntimesOwn(t *testing.T) {
	for k, want := range map[kind]bool{kindUser: false, kindChild: false, kindStep: true, kindToken: true, kindPermit: true, kindSchedule: true, kindBulk: true} {
		if got := k.own(); got != want {
			t.Errorf("%s is the runtime's own: got %v, want %v", k, got, want)
		}
	}
}
