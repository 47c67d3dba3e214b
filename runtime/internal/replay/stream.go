package replay

import (
	"maps"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
)

// WriteStream records that the code writes to a stream. encode returns the payload of the event,
// which contains the chunks to publish and is not kept in the log. If encode returns a failure, the
// run ends with it. encode is not called if the log contains the write.
func (b *Branch) WriteStream(name string, encode func() ([]byte, *event.Failure)) {
	b.enter()
	r := b.run
	if r.closed[name] {
		panic(&MisuseError{"workflow: Write to stream " + name + ", which is closed: nothing can be written to a stream after Close, " +
			"not by another run of its chain either"})
	}
	asked := event.Event{Type: event.StreamWritten, Name: name, Key: b.Key("write." + name)}
	if !r.holds(&asked) {
		payload, failed := encode()
		if failed != nil {
			b.Fail(failed)
		}
		asked.Payload = payload
	}
	r.command(&asked, nil)
}

// CloseStream records that the code closes a stream. Calls for a closed stream do nothing.
func (b *Branch) CloseStream(name string) {
	b.enter()
	r := b.run
	if r.closed[name] {
		return
	}
	r.command(&event.Event{Type: event.StreamClosed, Name: name, Key: b.Key("close." + name)}, nil)
	r.closeStream(name)
}

func (r *Run) closeStream(name string) {
	if r.closed == nil {
		r.closed = map[string]bool{}
	}
	r.closed[name] = true
}

// ClosedStreams returns the names of the closed streams, sorted.
func (r *Run) ClosedStreams() []string {
	return slices.Sorted(maps.Keys(r.closed))
}

// holds reports whether the next event in the log is the requested operation.
func (r *Run) holds(asked *event.Event) bool {
	r.halt()
	return len(r.feed) > 0 && r.isCommand(&r.feed[0]) && sameOperation(&r.feed[0], asked)
}

// SetValue records that the code publishes a value under a name, even if the scope of the caller
// has ended. same compares the recorded value with the requested one.
func (b *Branch) SetValue(name, key string, value []byte, same func(recorded []byte) string) {
	b.enter()
	asked := event.Event{Type: event.ValueSet, Name: name, Key: key, Payload: value}
	b.run.command(&asked, func(rec *event.Event) string { return same(rec.Payload) })
}
