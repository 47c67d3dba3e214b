package otelflow_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"

	"github.com/flowgen/flowgen/otelflow"
)

// TestOPS4_AnOutageOfTheReceiverDoesNotStopRuns ends more spans than the queue of the provider can
// contain while the receiver does not answer.
func TestOPS4_AnOutageOfTheReceiverDoesNotStopRuns(t *testing.T) {
	r, back := newReceiver(t), make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		select {
		case <-back:
			r.ServeHTTP(w, q)
		case <-q.Context().Done():
		}
	}))
	defer silent.Close()
	release := sync.OnceFunc(func() { close(back) })
	defer release()
	e, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(silent.URL+"/v1/traces"))
	if err != nil {
		t.Fatal(err)
	}
	p := otelflow.NewImpatientProvider(e, time.Second)
	defer func() { _ = p.Shutdown(t.Context()) }()
	span := func(name string) {
		_, s := p.Tracer("test").Start(t.Context(), name)
		s.End()
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 20_000 {
			span("outage")
		}
	}()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the spans wait for the receiver")
	}
	release()
	deadline := time.Now().Add(20 * time.Second)
	for { // until a batch ends the outage
		span("afterwards")
		_ = p.ForceFlush(t.Context())
		all, _ := r.spans()
		for _, s := range all {
			if s.Name == "afterwards" {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("spans after the outage: got %d, want them exported", len(all))
		}
	}
}
