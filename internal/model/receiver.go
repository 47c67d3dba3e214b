package model

import (
	"cmp"
	"slices"
)

// receivers groups the method steps by the type that declares them. Register
// takes a pointer as soon as one method needs it.
func (b *builder) receivers() {
	for _, s := range b.model.Steps {
		if s.named == nil {
			continue
		}
		i := slices.IndexFunc(b.model.Receivers, func(r *Receiver) bool { return r.Type == s.named })
		if i < 0 {
			i = len(b.model.Receivers)
			b.model.Receivers = append(b.model.Receivers, &Receiver{Type: s.named})
		}
		r := b.model.Receivers[i]
		r.Pointer = r.Pointer || !s.ByValue
		r.Steps = append(r.Steps, s)
		s.Receiver = r
	}
	slices.SortFunc(b.model.Receivers, func(x, y *Receiver) int { return cmp.Compare(x.Type.Name(), y.Type.Name()) })
}
