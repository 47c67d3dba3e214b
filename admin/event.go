package admin

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Event is one record of a log. What is not set is left out.
type Event struct {
	Seq  uint64    `json:"seq"` // from 1, without gaps
	Type string    `json:"type"`
	Time time.Time `json:"time"`
	// Ref is the Seq of the event with which that began which this one is about.
	Ref     uint64    `json:"ref,omitempty"`
	Name    string    `json:"name,omitempty"`
	Key     string    `json:"key,omitempty"`
	Attempt int       `json:"attempt,omitempty"`
	Due     time.Time `json:"due,omitzero"`
	Payload Payload   `json:"payload,omitempty"`
	Failure *Failure  `json:"failure,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Next    string    `json:"next,omitempty"`
	By      string    `json:"by,omitempty"` // the worker, or on whose behalf somebody else has asked for it
	Build   string    `json:"build,omitempty"`
	// Creates and Ends say that with this event something begins, or the run ends.
	Creates bool `json:"creates,omitempty"`
	Ends    bool `json:"ends,omitempty"`
}

// EventPage is a part of a log.
type EventPage struct {
	Events []Event `json:"events"`
	Next   uint64  `json:"next,omitempty"` // where the next page begins; 0: there was none
}

func eventOf(e *event.Event) Event {
	return Event{
		Seq: e.Seq, Type: e.Type.String(), Time: e.Time.UTC(), Ref: e.Ref, Name: e.Name, Key: e.Key, Attempt: e.Attempt, Due: utc(e.Due), Payload: e.Payload,
		Failure: e.Failure, Reason: e.Reason, Next: string(e.Next), By: e.By, Build: e.Build, Creates: e.Type.Creates(), Ends: e.Type.Terminal(),
	}
}
