package pairs_test

import (
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
)

// A kind is the purpose of a run.
type kind string

// The kinds of runs. All kinds except the first two are internal to the runtime.
const (
	kindUser     kind = "user"
	kindChild    kind = "child"
	kindStep     kind = "step"
	kindToken    kind = "token"
	kindPermit   kind = "permit"
	kindSchedule kind = "schedule"
	kindBulk     kind = "bulk"
	kindAlert    kind = "alert"
)

// own reports whether runs of the kind are internal to the runtime.
func (k kind) own() bool { return k != kindUser && k != kindChild }

// facts are the properties of a state from which the rules determine results. Observed contains the
// properties that the store shows; the test compares them with the store.
type facts struct {
	Kind kind
	Observed
	Debug      bool     // the run is executed step by step
	Unserved   bool     // no worker serves the queue of the run before all obstacles are removed
	Collecting bool     // several starts share the run, whose input is incomplete
	Singleton  bool     // the run is the only active run of its singleton key
	Taken      bool     // another run is the active run of the workflow ID
	Undone     bool     // the compensations of the run have undone its work
	Terminated bool     // Terminate has ended the run
	Last       Observed // the facts of the last run of the chain, if the run was continued
	Gone       bool     // the run was deleted or purged
	Unreadable bool     // the log of the run cannot be read to its end
	Imported   bool
	Permits    bool // the run holds permits until its end
	Full       bool // when the run wakes up, it may wait in the queue of its limit
	Step       bool // the step "first" is in the log
	Hook       bool // the run has an open hook, which belongs to a step if OfStep is set
	OfStep     bool
	// Rerun is the status of the last rerun of a run that failed or was canceled. It is empty if
	// there is no rerun, or the rerun was deleted.
	Rerun event.Status
}

// Observed are the facts about a run that the store shows.
type Observed struct {
	Place  store.QueueState
	Status event.Status
	Begun  bool // the log contains run_started
	Asked  bool // the run was asked to cancel
	Paused bool
	Waits  bool // the run waits for permits
	// Delayed reports that the run is an automatic rerun whose delay has not passed. The code of
	// such a run has not continued.
	Delayed bool
}

// open reports whether the run has not ended.
func (f *facts) open() bool { return f.Place != store.StateEnded }

// kept reports whether commands remain in the inbox until a worker claims the run.
func (f *facts) kept() bool {
	return f.Unserved || f.Collecting || f.Waits || f.Place == store.StateQueued || f.Place == store.StateBlocked
}

// observe returns the facts of a run, from its record and its log. there is false if the run does
// not exist. A paused run may be owned for a short time.
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

// stateOf returns the state of the log, up to the first frame that cannot be read.
func stateOf(frames [][]byte) *event.LogState {
	state := &event.LogState{}
	for _, e := range eventsOf(frames) {
		if state.Apply(&e) != nil {
			break
		}
	}
	return state
}

// eventsOf returns the events of a log, up to the first frame that cannot be read.
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

// TestFacts_OfAKindThatIsTheRuntimesOwn proves which kinds of runs are internal to the runtime.
func TestFacts_OfAKindThatIsTheRuntimesOwn(t *testing.T) {
	for k, want := range map[kind]bool{kindUser: false, kindChild: false, kindStep: true, kindToken: true, kindPermit: true, kindSchedule: true, kindBulk: true, kindAlert: true} {
		if got := k.own(); got != want {
			t.Errorf("%s is the runtime's own: got %v, want %v", k, got, want)
		}
	}
}
