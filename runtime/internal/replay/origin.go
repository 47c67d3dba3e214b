package replay

import "github.com/flowgen/flowgen/runtime/event"

// origin contains the fields of [event.Event.Origin].
type origin struct {
	attributes map[string]string
	by         string
}

// received records where the message, payload or question comes from that the branch has received.
// e is nil if the branch has received nothing.
func (b *Branch) received(e *event.Event) {
	switch {
	case e == nil:
	case len(e.Attributes) == 0 && e.By == "":
		b.origin = nil
	default:
		b.origin = &origin{e.Attributes, e.By}
	}
}

// Origin returns a new map with the attributes of the last message, payload or question that the
// branch has received, or of that which the opener of the branch had received when it opened the
// branch.
func (b *Branch) Origin() map[string]string {
	if b.origin == nil {
		return nil
	}
	return (&event.Event{Attributes: b.origin.attributes, By: b.origin.by}).Origin()
}
