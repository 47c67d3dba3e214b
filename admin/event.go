package admin

import (
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Event is one record of a log. Fields without a value are omitted in JSON.
type Event struct {
	Seq  uint64    `json:"seq"` // from 1, without gaps
	Type string    `json:"type"`
	Time time.Time `json:"time"`
	// Ref is the Seq of the first event of the operation that this event belongs to.
	Ref     uint64    `json:"ref,omitempty"`
	Name    string    `json:"name,omitempty"`
	Key     string    `json:"key,omitempty"`
	Attempt int       `json:"attempt,omitempty"`
	Due     time.Time `json:"due,omitzero"`
	Payload Payload   `json:"payload,omitempty"`
	Failure *Failure  `json:"failure,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Next    string    `json:"next,omitempty"`
	By      string    `json:"by,omitempty"` // the worker, or the principal that requested it
	Build   string    `json:"build,omitempty"`
	// Creates reports that an operation begins with this event, Ends that the run ends with it.
	Creates bool `json:"creates,omitempty"`
	Ends    bool `json:"ends,omitempty"`
}

// EventPage is a page of a log.
type EventPage struct {
	Events []Event `json:"events"`
	Next   uint64  `json:"next,omitempty"` // number of the first event of the next page; 0 if there was none
}

// EventField is a field of events in the output for people. The lines of the command and the pages
// of the console are drawn from [EventFields], so that a field of [Event] appears in all of them
// once it has a row there.
type EventField struct {
	Name  string // in JSON
	Title string
	Kind  ColumnKind
	Value func(e *Event) any // a string, an int or a time.Time; a zero value is omitted
	// Line returns the text of the field for a one-line description of the event; at formats a
	// time. Nil means that the field is omitted there.
	Line func(e *Event, at func(time.Time) string) string
}

// EventFields are the fields of events, except payloads and those that every event has, such as its
// time.
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
