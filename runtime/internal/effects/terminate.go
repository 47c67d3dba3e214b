package effects

import "github.com/flowgen/flowgen/runtime/event"

// Termination returns the event that ends a run without its code, for a cancel item with the name
// event.Terminate.
func Termination(asked *event.Event) event.Event {
	text := "terminated without its code"
	if asked.Reason != "" {
		text += ": " + asked.Reason
	}
	return event.Event{Type: event.RunCanceled, Item: asked.Item, By: asked.By, Failure: &event.Failure{Code: event.CodeTerminated, Message: text}}
}
