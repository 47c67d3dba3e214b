package event

import (
	"encoding/json"
	"slices"
)

// Gather says what the inputs of the starts that share a run make of its input.
type Gather uint8

// The ways.
const (
	// GatherNone: the run is of one start.
	GatherNone Gather = 0
	// GatherLast: it has the input of the last one.
	GatherLast Gather = 1
	// GatherAll: it has an array of all, in their order.
	GatherAll Gather = 2
)

// Add returns the input of a run after another InputReceived. It may change input.
func (g Gather) Add(input, payload json.RawMessage) json.RawMessage {
	if g != GatherAll {
		return payload
	}
	if len(input) == 0 {
		return slices.Concat(json.RawMessage("["), payload, json.RawMessage("]"))
	}
	input[len(input)-1] = ','
	return append(append(input, payload...), ']')
}

// InputOf returns the input of a run as its log tells it; false: it is not known before the
// run is claimed.
func InputOf(log []Event) (input json.RawMessage, known bool) {
	first := &log[0]
	if first.Spec == nil || first.Spec.Gather == GatherNone {
		return first.Payload, true
	}
	for i := range log {
		if e := &log[i]; e.Type == InputReceived {
			input, known = first.Spec.Gather.Add(input, e.Payload), true
		}
	}
	return input, known
}
