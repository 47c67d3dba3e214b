package admin

import (
	"fmt"
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

// EventField is a field of events as people see it. Lines of the command, the list of events of the console and its page of an
// event are drawn from [EventFields]: a field of [Event] is seen everywhere once it has a row there.
type EventField struct {
	Name  string // in JSON
	Title string
	Kind  ColumnKind
	Value func(e *Event) any // a string, an int or a time.Time; its zero value is left out
	// Line is how the field stands in a line about the event, with the text of a time from at; nil: it does not.
	Line func(e *Event, at func(time.Time) string) string
}

// EventFields are the fields of events but what each has, such as its time, and payloads.
var EventFields = []EventField{
	{Name: "name", Title: "Name", Kind: KindCode, Value: func(e *Event) any { return e.Name }, Line: func(e *Event, _ func(time.Time) string) string { return e.Name }},
	{Name: "key", Title: "Key", Kind: KindCode, Value: func(e *Event) any { return e.Key }, Line: func(e *Event, _ func(time.Time) string) string { return e.Key }},
	{Name: "attempt", Title: "Attempt", Kind: KindNumber, Value: func(e *Event) any { return e.Attempt }, Line: func(e *Event, _ func(time.Time) string) string {
		if e.Attempt < 2 {
			return ""
		}
		return fmt.Sprint("attempt ", e.Attempt)
	}},
	{Name: "reason", Title: "Reason", Value: func(e *Event) any { return e.Reason }, Line: func(e *Event, _ func(time.Time) string) string { return e.Reason }},
	{Name: "next", Title: "Run", Kind: KindCode, Value: func(e *Event) any { return e.Next }},
	{Name: "by", Title: "By", Kind: KindCode, Value: func(e *Event) any { return e.By }, Line: func(e *Event, _ func(time.Time) string) string {
		if e.By == "" {
			return ""
		}
		return "by " + e.By
	}},
	{Name: "build", Title: "Build", Kind: KindCode, Value: func(e *Event) any { return e.Build }},
	{Name: "due", Title: "Due", Kind: KindTime, Value: func(e *Event) any { return e.Due }, Line: func(e *Event, at func(time.Time) string) string {
		if e.Due.IsZero() {
			return ""
		}
		return "due " + at(e.Due)
	}},
}

func eventOf(e *event.Event) Event {
	return Event{
		Seq: e.Seq, Type: e.Type.String(), Time: e.Time.UTC(), Ref: e.Ref, Name: e.Name, Key: e.Key, Attempt: e.Attempt, Due: utc(e.Due), Payload: e.Payload,
		Failure: e.Failure, Reason: e.Reason, Next: string(e.Next), By: e.By, Build: e.Build, Creates: e.Type.Creates(), Ends: e.Type.Terminal(),
	}
}
