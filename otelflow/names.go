package otelflow

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// DefaultMaxNames is the default of [Config.MaxNames].
const DefaultMaxNames = 200

// other replaces the names beyond the bound.
const other = "other"

// labels are the values of the attributes of a measurement. Empty values are omitted.
type labels struct{ workflow, step, queue, outcome, errorType, payload, status, limit, operation, destination string }

// with returns the labels with an outcome.
func (v labels) with(outcome string) labels {
	v.outcome = outcome
	return v
}

// options are the options of a measurement with certain attributes.
type options struct {
	set    attribute.Set
	record []metric.RecordOption
}

// names bounds the number of values of each attribute. The names of workflows, steps and queues come
// from code, but a program may build them from input, and then each input would be a time series.
type names struct {
	most int

	mu    sync.RWMutex
	known map[attribute.Key]map[string]bool
	made  map[labels]*options // by values within the bound
}

func newNames(most int) *names {
	return &names{most: most, known: map[attribute.Key]map[string]bool{}, made: map[labels]*options{}}
}

// options returns the options of a measurement. They are made once, because most measurements repeat
// a combination of values.
func (n *names) options(v labels) *options {
	n.mu.RLock()
	o := n.made[v]
	n.mu.RUnlock()
	if o == nil {
		o = n.make(v)
	}
	return o
}

// within reports whether the names are within the bound.
func (n *names) within(v labels) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.made[v] != nil
}

func (n *names) make(v labels) *options {
	n.mu.Lock()
	defer n.mu.Unlock()
	var kept []attribute.KeyValue
	for _, a := range []struct {
		key   attribute.Key
		value *string
	}{
		{attrWorkflow, &v.workflow}, {attrStep, &v.step}, {attrQueue, &v.queue}, {attrOutcome, &v.outcome},
		{attrError, &v.errorType}, {attrPayload, &v.payload}, {attrStatus, &v.status}, {attrLimit, &v.limit},
		{attrOperation, &v.operation}, {attrDestination, &v.destination},
	} {
		if *a.value != "" {
			*a.value = n.bounded(a.key, *a.value)
			kept = append(kept, a.key.String(*a.value))
		}
	}
	if v.destination != "" {
		kept = append(kept, attrSystem.String("flowgen"))
	}
	o := n.made[v]
	if o == nil {
		set := attribute.NewSet(kept...)
		o = &options{set, []metric.RecordOption{metric.WithAttributeSet(set)}}
		n.made[v] = o
	}
	return o
}

// bounded returns v, or other if the attribute has too many values. n.mu must be locked.
func (n *names) bounded(key attribute.Key, v string) string {
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
