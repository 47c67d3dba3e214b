package suite

import (
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// AdmitTime is the duration for which an admitted queue keeps its position. [L7]
const AdmitTime = 5 * time.Second

// SetLimits configures limits.
func (h *Harness) SetLimits(set ...store.SetLimit) {
	h.Helper()
	l, _ := store.As[store.Limiter](h.Store)
	h.Check("set limits", l.SetLimits(h.Ctx, 0, set))
}

// Limit configures a limit that admits a total weight of atOnce at a time.
func (h *Harness) Limit(name string, atOnce int) {
	h.Helper()
	h.SetLimits(store.SetLimit{LimitID: store.LimitID{Name: name}, Config: store.LimitConfig{AtOnce: atOnce}})
}

// LimitState returns the state of a limit.
func (h *Harness) LimitState(name string) store.LimitState {
	h.Helper()
	l, _ := store.As[store.Limiter](h.Store)
	all, err := l.Limits(h.Ctx, 0, store.LimitID{}, 1000)
	h.Check("list limits", err)
	for _, s := range all {
		if s.LimitID == (store.LimitID{Name: name}) {
			return s
		}
	}
	return store.LimitState{LimitID: store.LimitID{Name: name}}
}

// Counts fails the test unless the limit has the given held and waiting weights.
func (h *Harness) Counts(name string, held, waits int) {
	h.Helper()
	got := h.LimitState(name)
	h.Equal("weights held of limit "+name, got.Held, held)
	h.Equal("weights waited for of limit "+name, got.Waits, waits)
}
