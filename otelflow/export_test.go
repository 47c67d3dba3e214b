package otelflow

import (
	"context"
	"encoding/json"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/flowgen/flowgen/runtime/store"
)

// Quick returns a configuration with which the spans of a dead process are exported soon.
func (c Config) Quick() Config {
	c.renewal, c.stale = 200*time.Millisecond, 2*time.Second
	return c
}

// Die writes the entry of a process that has exported nothing for an hour.
func Die(ctx context.Context, s store.Store) error {
	entries, _ := store.As[store.Entries](s)
	hourAgo := entries.Clock().Now().Add(-time.Hour)
	value, err := json.Marshal(progress{Worker: "dead", Exported: hourAgo, Renewed: hourAgo})
	if err != nil {
		return err
	}
	return entries.WriteEntry(ctx, store.EntryWrite{Entry: store.Entry{Space: journalSpace, Key: "dead", Value: value}})
}

// Sweep exports the spans of dead processes, as a new process does.
func (t *Telemetry) Sweep(ctx context.Context, s store.Store) error {
	t.connect()
	t.store = s
	entries, _ := store.As[store.Entries](s)
	return t.keeper(s, entries, "sweeper").sweep(ctx)
}

// NewImpatientProvider returns a NewTracerProvider with another patience.
func NewImpatientProvider(e sdk.SpanExporter, patience time.Duration) *sdk.TracerProvider {
	return newTracerProvider(&breaker{SpanExporter: e, patience: patience, pause: patience})
}
