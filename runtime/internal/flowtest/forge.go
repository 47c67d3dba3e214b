package flowtest

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Forge delivers a message of any topic to a run, as could a client of a release that does not
// protect the topics of the runtime.
func (w *World) Forge(run Follows, topic, payload string) {
	w.T.Helper()
	body, err := event.AppendItem(nil, &event.Event{Type: event.MessageReceived, Name: topic, Payload: []byte(payload)})
	if err == nil {
		_, err = w.Store.Deliver(w.Ctx, store.Deliver{Run: run.ID(), Item: store.Item{ID: event.NewItemID(), Scope: store.ScopeChain, Body: body}})
	}
	if err != nil {
		w.T.Fatal(err)
	}
}
