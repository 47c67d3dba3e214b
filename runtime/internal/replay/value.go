package replay

import "github.com/flowgen/flowgen/runtime/event"

// SetValue publishes a value under a name, even if the scope of the caller has ended. same compares
// the recorded value with the requested one.
func (b *Branch) SetValue(name, key string, value []byte, same func(recorded []byte) string) {
	b.enter()
	asked := event.Event{Type: event.ValueSet, Name: name, Key: key, Payload: value}
	b.run.command(&asked, func(rec *event.Event) string { return same(rec.Payload) })
}
