package model

import (
	"cmp"
	"go/types"
	"slices"
)

// receivers groups the steps that are methods by their receiver type. Register takes a pointer if
// at least one method needs it.
func (b *builder) receivers() {
	for _, s := range b.model.Steps {
		if s.named == nil || s.Graph != nil {
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

// Is reports whether t is the type of the receiver's parameter.
func (r *Receiver) Is(t types.Type) bool {
	if r.Pointer {
		return types.Identical(t, types.NewPointer(r.Type.Type()))
	}
	return types.Identical(t, r.Type.Type())
}
