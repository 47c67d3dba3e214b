package effects

import (
	"bytes"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// ValueStream is where a value is published: one chunk, the last one.
func ValueStream(name string) string { return "v:" + name }

// HookStream is where the state of a hook is published: one chunk with the hook's
// name and the shape of its payloads once it is open, and the end of the stream once it
// is closed. If the hook says something of itself, a chunk with that comes before: who sends
// reads the last chunk only.
func HookStream(token string) string { return "h:" + token }

// shapeMark stands between name and shape; a shape is JSON, and does not contain it.
const shapeMark = 0

// hookState is the chunk about an open hook.
func hookState(e *event.Event) []byte {
	if len(e.Payload) == 0 {
		return []byte(e.Name)
	}
	b := append([]byte(e.Name), shapeMark)
	return append(b, e.Payload...)
}

// DecodeHook reads the chunk about an open hook: its name and the shape of its payloads, nil
// if any fit.
func DecodeHook(chunk []byte) (name string, shape []byte) {
	i := bytes.LastIndexByte(chunk, shapeMark)
	if i < 0 {
		return string(chunk), nil
	}
	return string(chunk[:i]), chunk[i+1:]
}

// Publications returns what the commit that records an event publishes. state is that of the
// log up to an event that ends the run; of others it is not looked at.
func Publications(state *event.LogState, e *event.Event) []store.Publication {
	switch e.Type {
	case event.ValueSet:
		return []store.Publication{value(e)}
	case event.HookCreated:
		// The run, or one that it continues, may have had a hook of that token before.
		return openHook(e)
	case event.AskAnswered:
		return []store.Publication{answer(Answer{ID: event.ItemID(e.Key), Payload: e.Payload, Failure: e.Failure})}
	case event.AskRefused:
		return []store.Publication{Refusal(event.ItemID(e.Key), e.Failure)}
	case event.HookDisposed, event.HookConflict:
		return []store.Publication{closeHook(e.Token)}
	}
	if e.Type.Terminal() {
		return closeHooks(state)
	}
	return nil
}

func value(e *event.Event) store.Publication {
	return store.Publication{Stream: ValueStream(e.Name), Body: e.Payload, Keep: 1}
}

func openHook(e *event.Event) []store.Publication {
	all := []store.Publication{{Stream: HookStream(e.Token), Body: hookState(e)}}
	if len(e.Meta) > 0 {
		all = []store.Publication{{Stream: all[0].Stream, Body: e.Meta}, all[0]}
	}
	all[0].Drop = true
	return all
}

func closeHook(token string) store.Publication {
	return store.Publication{Stream: HookStream(token), Close: true}
}

// closeHooks closes the open hooks when the run ends, even if it continues as another
// one.
func closeHooks(state *event.LogState) []store.Publication {
	var all []store.Publication
	state.Opens(func(o *event.Open) bool {
		if o.Entity == event.EntityHook {
			all = append(all, closeHook(o.Token))
		}
		return true
	})
	slices.SortFunc(all, func(a, b store.Publication) int { return strings.Compare(a.Stream, b.Stream) })
	return all
}

// TakenOver returns what a run publishes that has taken over events of an older run,
// whose streams are not its own: the values as they stood there.
func TakenOver(events []event.Event) []store.Publication {
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
