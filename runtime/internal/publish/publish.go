// Package publish says what the log of a run lets others read: which events
// publish something, on which streams, in which form. Workers publish it in the
// commits that hold the events; clients read it.
package publish

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// ValueStream is where a value is published: one chunk, the last one.
func ValueStream(name string) string { return "v:" + name }

// Of returns what the commit that records an event publishes.
func Of(e *event.Event) []store.Publication {
	if e.Type == event.ValueSet {
		return []store.Publication{value(e)}
	}
	return nil
}

func value(e *event.Event) store.Publication {
	return store.Publication{Stream: ValueStream(e.Name), Body: e.Payload, Keep: 1}
}

// Again returns what a run publishes that has taken over events of an older run,
// whose streams are not its own: the values as they stood there.
func Again(events []event.Event) []store.Publication {
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
