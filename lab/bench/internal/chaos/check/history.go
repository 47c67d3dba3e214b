package check

import (
	"encoding/json"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/chaos/flows"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// history summarizes the log of a run.
type history struct {
	run     event.RunID
	created time.Time
	spec    *event.Spec
	input   flows.Job
	started time.Time // zero: no worker ever ran its code
	frames  int
	steps   map[string]*stepHistory // by key
	end     *event.Event            // nil: it has not ended
	// unreadable says that what it says is not all.
	unreadable bool
	// interrupted says that a step ended because its worker died.
	interrupted bool
}

// stepHistory summarizes the events of one step.
type stepHistory struct {
	name     string
	attempts map[int]attempt
	end      *event.Event // nil: it has not ended
	endFrame int          // that holds the end, counted from 0
}

// attempt records the beginning of an attempt.
type attempt struct {
	by    string
	frame int
	epoch uint64 // of the fence under which it began
}

// read reads as much of a log as can be read: what cannot is found by fsck.
func read(r *store.RunState) *history {
	h := &history{run: r.Run, steps: map[string]*stepHistory{}}
	keys := map[uint64]*stepHistory{}
	for i, b := range r.Frames {
		f, err := event.DecodeFrame(b)
		if err != nil {
			h.unreadable = true
			break
		}
		h.frames++
		for n := range f.Events {
			h.apply(&f.Events[n], i, f.Epoch, keys)
		}
	}
	return h
}

func (h *history) apply(e *event.Event, frame int, epoch uint64, steps map[uint64]*stepHistory) {
	s := steps[e.Ref]
	switch {
	case e.Type == event.RunCreated:
		h.created, h.spec = e.Time, e.Spec
		var in struct {
			Job flows.Job `json:"job"`
		}
		if json.Unmarshal(e.Payload, &in) == nil { // else its job is found to be missing
			h.input = in.Job
		}
	case e.Type == event.RunStarted:
		h.started = e.Time
	case e.Type.Terminal():
		h.end = e
	case e.Type == event.StepCreated:
		s = &stepHistory{name: e.Name, attempts: map[int]attempt{}}
		steps[e.Seq], h.steps[e.Key] = s, s
	case s == nil: // about something else, or in a log that fsck finds broken
	case e.Type == event.StepStarted:
		s.attempts[e.Attempt] = attempt{by: e.By, frame: frame, epoch: epoch}
	case e.Type == event.StepCompleted, e.Type == event.StepFailed:
		s.end, s.endFrame = e, frame
		if e.Failure != nil && e.Failure.Code == event.CodeInterrupted {
			h.interrupted = true
		}
	}
}
