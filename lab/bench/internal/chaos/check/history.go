package check

import (
	"context"
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
	started time.Time // zero if no worker executed the code of the run
	frames  int
	steps   map[string]*stepHistory // indexed by step key
	end     *event.Event            // nil if the run has not ended
	// unreadable reports whether a part of the log could not be read.
	unreadable bool
	plain      []event.Part // fields with user data that are not sealed, if there is a codec
	// interrupted reports whether a step ended because its worker was killed.
	interrupted bool
}

// stepHistory summarizes the events of one step.
type stepHistory struct {
	name     string
	attempts map[int]attempt
	end      *event.Event // nil if the step has not ended
	endFrame int          // index of the frame with the end
}

// attempt describes the beginning of an attempt of a step.
type attempt struct {
	by    string
	frame int
	epoch uint64 // epoch of the fence at the beginning
}

// read summarizes a log as far as it is readable. fsck reports the remaining problems. The codec may
// be nil.
func read(r *store.RunState, codec store.Codec) *history {
	h := &history{run: r.Run, steps: map[string]*stepHistory{}}
	keys := map[uint64]*stepHistory{}
	for i, b := range r.Frames {
		f, err := h.decode(b, codec)
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

// decode opens and decodes a frame.
func (h *history) decode(frame []byte, codec store.Codec) (*event.Frame, error) {
	if codec != nil {
		opened, err := event.ConvertFrame(frame, func(b []byte, p event.Part, content []byte) ([]byte, error) {
			if !event.IsSealed(content) {
				h.plain = append(h.plain, p)
			}
			data, err := codec.Open(context.Background(), store.Place{Owner: string(h.run), Field: p.String()}, content)
			return append(b, data...), err
		})
		if err != nil {
			return nil, err
		}
		frame = opened
	}
	return event.DecodeFrame(frame)
}

func (h *history) apply(e *event.Event, frame int, epoch uint64, steps map[uint64]*stepHistory) {
	s := steps[e.Ref]
	switch {
	case e.Type == event.RunCreated:
		h.created, h.spec = e.Time, e.Spec
		var in struct {
			Job flows.Job `json:"job"`
		}
		if json.Unmarshal(e.Payload, &in) == nil { // If the input is invalid, the job is reported as missing.
			h.input = in.Job
		}
	case e.Type == event.RunStarted:
		h.started = e.Time
	case e.Type.Terminal():
		h.end = e
	case e.Type == event.StepCreated:
		s = &stepHistory{name: e.Name, attempts: map[int]attempt{}}
		steps[e.Seq], h.steps[e.Key] = s, s
	case s == nil: // The event belongs to another item, or the log is broken and fsck reports it.
	case e.Type == event.StepStarted:
		s.attempts[e.Attempt] = attempt{by: e.By, frame: frame, epoch: epoch}
	case e.Type == event.StepCompleted, e.Type == event.StepFailed:
		s.end, s.endFrame = e, frame
		if e.Failure != nil && e.Failure.Code == event.CodeInterrupted {
			h.interrupted = true
		}
	}
}
