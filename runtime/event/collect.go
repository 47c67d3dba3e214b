package event

import (
	"encoding/json"
	"slices"
)

// Collect determines how the inputs of the starts that share a run form the run's input.
type Collect uint8

// The ways to form the input of a run.
const (
	// CollectNone means that the run belongs to a single start, whose input it has.
	CollectNone Collect = 0
	// CollectLast means that the run has the input of its last start.
	CollectLast Collect = 1
	// CollectAll means that the run has a JSON array of the inputs of all its starts, in order of
	// arrival.
	CollectAll Collect = 2
)

// Add returns the input of a run that had the given input and receives the payload of another
// InputReceived. It may modify input.
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

// InputOf returns the input of a run from its log. known is false if several starts share the run
// and the log contains none of their inputs yet.
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
