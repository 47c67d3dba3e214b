package otelflow

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"
)

// DefaultMaxNames is the default of [Config.MaxNames].
const DefaultMaxNames = 200

// other replaces the names beyond the bound.
const other = "other"

// names bounds the number of values of each attribute. The names of workflows, steps and queues come
// from code, but a program may build them from input, and then each input would be a time series.
type names struct {
	most int

	mu    sync.RWMutex
	known map[attribute.Key]map[string]bool
}

func newNames(most int) *names {
	return &names{most: most, known: map[attribute.Key]map[string]bool{}}
}

// set returns a set of attributes. It omits empty values.
func (n *names) set(attrs []attribute.KeyValue) attribute.Set {
	kept := make([]attribute.KeyValue, 0, len(attrs))
	for _, a := range attrs {
		if v := a.Value.AsString(); v != "" {
			kept = append(kept, a.Key.String(n.bounded(a.Key, v)))
		}
	}
	return attribute.NewSet(kept...)
}

func (n *names) bounded(key attribute.Key, v string) string {
	n.mu.RLock()
	known, full := n.known[key][v], len(n.known[key]) >= n.most
	n.mu.RUnlock()
	switch {
	case known:
		return v
	case full:
		return other
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.known[key]
	switch {
	case all == nil:
		n.known[key] = map[string]bool{v: true}
	case all[v] || len(all) < n.most:
		all[v] = true
	default:
		return other
	}
	return v
}
