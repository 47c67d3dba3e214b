package worker

import (
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/rates"
	"github.com/flowgen/flowgen/runtime/internal/runloop"
	"github.com/flowgen/flowgen/runtime/store"
)

// TestOPS4_OnlyAcceptedCommitsAreCounted proves that a commit which the store refuses counts neither
// as the begin nor as the end of a run. The next owner of the run counts it.
func TestOPS4_OnlyAcceptedCommitsAreCounted(t *testing.T) {
	run := newMeasured()
	whole := &runloop.Commit{Req: store.Commit{Frame: []byte("begins and ends the run"), Effect: store.EffectFinish}}
	for _, refusal := range []error{store.ErrFenced, &store.ConflictError{}, store.ErrRunNotFound} {
		whole.Answer = store.Committed{Err: refusal}
		run.answered(whole)
		if body := run.meter.Encode(store.MaxSessionData); body != nil {
			t.Fatalf("after %v: got the report %s, want none", refusal, body)
		}
	}
	whole.Answer = store.Committed{}
	run.answered(whole)
	wantCounted(t, run)
}

// TestOPS4_ARunIsCountedOnceHoweverManyCommitsItHas proves that only the first commit of a run that
// has not begun counts as its begin.
func TestOPS4_ARunIsCountedOnceHoweverManyCommitsItHas(t *testing.T) {
	run := newMeasured()
	for range 3 {
		run.answered(&runloop.Commit{Req: store.Commit{Frame: []byte("goes on")}})
	}
	run.answered(&runloop.Commit{Req: store.Commit{Frame: []byte("ends"), Effect: store.EffectFinish}})
	wantCounted(t, run)
}

// newMeasured returns the loop of a run that has not begun.
func newMeasured() *runLoop {
	run := &runLoop{env: &env{meter: rates.NewMeter(time.Now)}, loopParts: &loopParts{}, fresh: true}
	run.setName("orders.fulfil")
	return run
}

// wantCounted fails the test unless the meter has counted one run that has begun and ended.
func wantCounted(t *testing.T, run *runLoop) {
	t.Helper()
	got, err := rates.Decode(run.meter.Encode(store.MaxSessionData))
	if err != nil || got.Started != 1 || got.Ended != 1 {
		t.Errorf("got the report %+v and %v, want one run that has begun and ended", got, err)
	}
}
