package event

import (
	"encoding/json"
	"slices"
)

// Gather determines how the inputs of the starts that share a run form its input.
type Collect uint8

// The ways to form the input.
const (
	// CollectNone: the run belongs to one start.
	CollectNone Collect = 0
	// CollectLast: the run has the input of the last start.
	CollectLast Collect = 1
	// CollectAll: the run has an array of all inputs, in order.
	CollectAll Collect = 2
)

// Add returns the input of a run after another InputReceived. It may modify input.
func (g Collect) Add(input, payload json.RawMessage) json.RawMessage {
	if g != CollectAll {
		return payload
	}
	if len(input) == 0 {
		return slices.Concat(json.RawMessage("["), payload, json.RawMessage("]"))
	}
	input[len(input)-1] = ','
	return append(append(input, payload...), ']')
}

// InputOf returns the input of a run from its log. known is false if the input is determined only
// when the run is claimed.
func InputOf(log []Event) (input json.RawMessage, known bool) {
	first := &log[0]
	if first.Spec == nil || first.Spec.Collect == CollectNone {
		return first.Payload, true
	}
	for i := range log {
		if e := &log[i]; e.Type == InputReceived {
			input, known = first.Spec.Collect.Add(input, e.Payload), true
		}
	}
	return input, known
}
