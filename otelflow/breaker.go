package otelflow

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

const (
	// exportPatience is how long the export of a batch may take.
	exportPatience = 10 * time.Second
	// exportPause is the time between two batches that are tried during an outage.
	exportPause = 5 * time.Second
)

// errOutage is the error of a flush during an outage.
var errOutage = errors.New("the receiver of spans does not answer in time, so spans are dropped")

// breaker is an exporter that drops spans while the receiver does not answer in time. Otherwise the
// queue of the provider would be full, and all runs would wait for the receiver.
type breaker struct {
	sdk.SpanExporter
	patience, pause time.Duration

	mu      sync.Mutex
	outage  bool
	next    time.Time // when the next batch is tried
	trying  bool
	dropped int // number of spans that were dropped during the outage
	tries   sync.WaitGroup
}

// breakers contains the breakers of the providers of NewTracerProvider, by provider.
var breakers sync.Map

// ExportSpans exports a batch. During an outage it drops the batch, or tries it without waiting.
func (b *breaker) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	b.mu.Lock()
	if !b.outage {
		b.mu.Unlock()
		return b.try(ctx, spans)
	}
	defer b.mu.Unlock()
	if b.trying || time.Now().Before(b.next) {
		b.dropped += len(spans)
		return nil
	}
	b.trying = true
	batch := slices.Clone(spans) // the provider reuses the slice
	b.tries.Go(func() { _ = b.try(context.WithoutCancel(ctx), batch) })
	return nil
}

// try exports a batch within the patience. An export that takes longer begins an outage or prolongs
// it, and another one ends it.
func (b *breaker) try(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	limited, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	err := b.SpanExporter.ExportSpans(limited, spans)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trying = false
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		b.outage, b.next, b.dropped = true, time.Now().Add(b.pause), b.dropped+len(spans)
		return errors.Join(errOutage, err) // a provider logs it
	}
	if b.outage {
		slog.Default().Warn("the receiver of spans answers again", "dropped", b.dropped)
	}
	b.outage, b.dropped = false, 0
	return err
}

// failing returns an error during an outage.
func (b *breaker) failing() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.outage {
		return errOutage
	}
	return nil
}

// Shutdown waits for the batch that is tried, and ends the exporter.
func (b *breaker) Shutdown(ctx context.Context) error {
	b.tries.Wait()
	return b.SpanExporter.Shutdown(ctx)
}
