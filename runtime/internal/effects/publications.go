package effects

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// ValueStream returns the name of the stream that contains the values published under name. The
// last chunk is the current value.
func ValueStream(name string) string { return "v:" + name }

// HookStream returns the name of the stream that contains the state of a hook. When the hook opens,
// a chunk with its name and the shape of its payloads is written; when the hook closes, the stream
// is closed. If the hook has a description, a chunk with the description precedes that chunk;
// senders read only the last chunk.
func HookStream(token string) string { return "h:" + token }

// HookState is the decoded chunk of an open hook.
type HookState struct {
	Name  string          `json:"name"`
	Shape json.RawMessage `json:"shape,omitempty"` // shape of the payloads; nil accepts any payload
	Step  *StepHook       `json:"step"`            // the step whose attempt has opened the hook; nil if the workflow code has opened it
}

// StepHook identifies the attempt that is finished by the payload of a hook.
type StepHook struct {
	Ref     uint64    `json:"ref"` // number of the event that created the step
	Attempt int       `json:"attempt"`
	Due     time.Time `json:"due"` // when the attempt times out
}

// shapeMark separates the name and the shape in a chunk. A shape is JSON, so it does not contain
// the mark. The chunk of a hook that an attempt of a step has opened is the mark and a HookState as
// JSON. No other hook chunk begins with the mark, because every hook has a name.
const shapeMark = 0

// hookState returns the encoded chunk of an open hook.
func hookState(e *event.Event) []byte {
	if e.Type == event.StepHookCreated {
		data, _ := json.Marshal(HookState{Name: e.Name, Shape: e.Payload, Step: &StepHook{Ref: e.Ref, Attempt: e.Attempt, Due: e.Due}}) // encoding cannot fail, because a shape is valid JSON
		return append([]byte{shapeMark}, data...)
	}
	if len(e.Payload) == 0 {
		return []byte(e.Name)
	}
	b := append([]byte(e.Name), shapeMark)
	return append(b, e.Payload...)
}

// DecodeHook decodes the chunk of an open hook.
func DecodeHook(chunk []byte) (HookState, error) {
	i := bytes.LastIndexByte(chunk, shapeMark)
	switch {
	case i < 0:
		return HookState{Name: string(chunk)}, nil
	case i > 0:
		return HookState{Name: string(chunk[:i]), Shape: chunk[i+1:]}, nil
	}
	var h HookState
	if err := json.Unmarshal(chunk[1:], &h); err != nil || h.Step == nil {
		return HookState{}, fmt.Errorf("decode the state of a hook: %w: %w", err, event.ErrCorrupt)
	}
	return h, nil
}

// RetryHint contains the changes of the step's retry policy that a sender requests when it makes an
// attempt fail.
type RetryHint struct {
	Fatal bool           `json:"fatal,omitempty"`
	After *time.Duration `json:"after,omitempty"` // delay before the next attempt
	Hold  bool           `json:"hold,omitempty"`  // whether the rates of the step are closed for the delay
}

// Publications returns the stream operations of the commit that records e. If e ends the run, state
// must be the state of the log up to e. For other events state is not read.
func Publications(state *event.LogState, e *event.Event) []store.Publication {
	switch e.Type {
	case event.ValueSet:
		return []store.Publication{value(e)}
	case event.HookCreated, event.StepHookCreated:
		// The token may have belonged to another hook of this run or of an earlier run of the
		// chain.
		return openHook(e)
	case event.AskAnswered, event.HookAnswered:
		return []store.Publication{answer(Answer{ID: event.ItemID(e.Key), Payload: e.Payload, Failure: e.Failure})}
	case event.AskRefused:
		return []store.Publication{Refusal(event.ItemID(e.Key), e.Failure)}
	case event.StepStarted, event.StepRetrying, event.StepCompleted, event.StepFailed, event.HookDisposed, event.HookConflict:
		if e.Token == "" {
			return nil // the attempt had no hook, which is the usual case
		}
		return []store.Publication{closeHook(e.Token)}
	}
	if e.Type.Terminal() {
		return closeHooks(state)
	}
	return nil
}

func value(e *event.Event) store.Publication {
	return store.Publication{Stream: ValueStream(e.Name), Body: e.Payload, Keep: 1}
}

func openHook(e *event.Event) []store.Publication {
	all := []store.Publication{{Stream: HookStream(e.Token), Body: hookState(e)}}
	if len(e.Meta) > 0 {
		all = []store.Publication{{Stream: all[0].Stream, Body: e.Meta}, all[0]}
	}
	all[0].Drop = true
	return all
}

func closeHook(token string) store.Publication {
	return store.Publication{Stream: HookStream(token), Close: true}
}

// closeHooks closes the open hooks of a run and of its steps when the run ends. It does so even if
// the run continues as a new run.
func closeHooks(state *event.LogState) []store.Publication {
	var all []store.Publication
	state.Opens(func(o *event.Open) bool {
		if o.Token != "" {
			all = append(all, closeHook(o.Token))
		}
		return true
	})
	slices.SortFunc(all, func(a, b store.Publication) int { return strings.Compare(a.Stream, b.Stream) })
	return all
}

// TakenOver returns the publications of the values that a run has taken over from an older run: the
// last value of each name in events. They are published again because the older run has its own
// streams.
func TakenOver(events []event.Event) []store.Publication {
	var all []store.Publication
	at := map[string]int{}
	for i := range events {
		e := &events[i]
		if e.Type != event.ValueSet {
			continue
		}
		p := value(e)
		if n, known := at[p.Stream]; known {
			all[n] = p
			continue
		}
		at[p.Stream] = len(all)
		all = append(all, p)
	}
	return all
}

// The answers of a run are distributed over a fixed number of streams by the IDs of the asks, and
// each stream keeps a fixed number of answers. So the retained data of a run is bounded without a
// list of answered asks, and a waiting client reads few answers to other asks. Of the next 1,000
// answers, about 16 are added to the same stream. The probability that 64 are added to it is
// 10^-17.
const (
	answerStreams = 64
	answersKept   = 64
)

// Answer is the outcome of an ask.
type Answer struct {
	ID      event.ItemID    `json:"id"`
	Payload json.RawMessage `json:"answer,omitempty"`
	Failure *event.Failure  `json:"failure,omitempty"`
	// Refused is set if the ask was not accepted.
	Refused bool `json:"refused,omitempty"`
}

// AnswerStream returns the name of the stream that contains the answer to an ask, among answers to
// other asks.
func AnswerStream(id event.ItemID) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return "a:" + strconv.Itoa(int(h.Sum32()%answerStreams))
}

// Refusal returns the publication of a refused ask.
func Refusal(id event.ItemID, why *event.Failure) store.Publication {
	return answer(Answer{ID: id, Failure: why, Refused: true})
}

func answer(a Answer) store.Publication {
	body, err := json.Marshal(a)
	if err != nil { // Encoding can fail only for invalid JSON in the data of an error.
		a.Failure = &event.Failure{Code: event.CodePayload, Message: fmt.Sprintf("the answer cannot be written: %v", err)}
		a.Payload = nil
		body, _ = json.Marshal(a)
	}
	return store.Publication{Stream: AnswerStream(a.ID), Body: body, Keep: answersKept}
}

// DecodeAnswer decodes a chunk of an AnswerStream.
func DecodeAnswer(chunk []byte) (*Answer, error) {
	a := &Answer{}
	if err := json.Unmarshal(chunk, a); err != nil {
		return nil, fmt.Errorf("decode answer: %w: %w", err, event.ErrCorrupt)
	}
	return a, nil
}
