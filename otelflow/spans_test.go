package otelflow_test

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace/noop"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/flowgen/flowgen/otelflow"
)

// receiver receives spans by OTLP over HTTP.
type receiver struct {
	t   *testing.T
	url string

	mu   sync.Mutex
	got  []*tracepb.Span
	seen map[string]*tracepb.Span // by ID
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{t: t, seen: map[string]*tracepb.Span{}}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.url = server.URL + "/v1/traces"
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	var request collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	if err != nil || q.URL.Path != "/v1/traces" {
		http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range request.ResourceSpans {
		for _, s := range resource.ScopeSpans {
			r.got = append(r.got, s.Spans...)
			for _, span := range s.Spans {
				r.seen[hex.EncodeToString(span.SpanId)] = span
			}
		}
	}
	_, _ = w.Write(nil)
}

// provider returns a tracer provider that exports to the receiver.
func (r *receiver) provider() *sdk.TracerProvider {
	r.t.Helper()
	e, err := otlptracehttp.New(r.t.Context(), otlptracehttp.WithEndpointURL(r.url))
	if err != nil {
		r.t.Fatal(err)
	}
	p := otelflow.NewTracerProvider(e)
	r.t.Cleanup(func() { _ = p.Shutdown(r.t.Context()) })
	return p
}

// spans returns the received spans without repetitions, and the number of repetitions. A repeated
// span must be equal to the first one.
func (r *receiver) spans() (all []*tracepb.Span, repeated int) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[string][]byte{}
	for _, s := range r.got {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(s)
		if err != nil {
			r.t.Fatal(err)
		}
		switch before := seen[string(s.SpanId)]; {
		case before == nil:
			seen[string(s.SpanId)] = b
			all = append(all, s)
		case !bytes.Equal(before, b):
			r.t.Errorf("span %s (%x) was exported twice with different contents", s.Name, s.SpanId)
		default:
			repeated++
		}
	}
	return all, repeated
}

// tree returns the spans as lines, indented by depth and ordered by time. The spans of other traces
// follow.
func tree(all []*tracepb.Span) string {
	var b strings.Builder
	known := map[string]bool{}
	for _, s := range all {
		known[string(s.SpanId)] = true
	}
	slices.SortStableFunc(all, func(x, y *tracepb.Span) int {
		return cmp.Or(cmp.Compare(x.StartTimeUnixNano, y.StartTimeUnixNano), cmp.Compare(x.EndTimeUnixNano, y.EndTimeUnixNano))
	})
	var under func(parent string, depth int)
	under = func(parent string, depth int) {
		for _, s := range all {
			if string(s.ParentSpanId) != parent && (parent != "" || known[string(s.ParentSpanId)]) {
				continue
			}
			fmt.Fprintf(&b, "%s%s%s\n", strings.Repeat("  ", depth), s.Name, mark(s))
			under(string(s.SpanId), depth+1)
		}
	}
	under("", 0)
	return b.String()
}

func mark(s *tracepb.Span) string {
	if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
		return ": " + s.Status.Message
	}
	return ""
}

func traces(all []*tracepb.Span) (ids []string) {
	for _, s := range all {
		if id := hex.EncodeToString(s.TraceId); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

func TestOPS4_SpansOfARunAndItsChildrenNestInOneTrace(t *testing.T) {
	r := newReceiver(t)
	p := r.provider()
	s := newSite(t, otelflow.New(otelflow.Config{TracerProvider: p}))
	run := s.start(1)
	if got, err := quote.Ask(t.Context(), run, 7); err != nil || got != 7 {
		t.Fatalf("ask: %d, %v", got, err)
	}
	if _, err := run.Result(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.stop() // exports the spans
	all, repeated := r.spans()
	var nested []*tracepb.Span // an ask has no defined position
	asks := 0
	for _, one := range all {
		if one.Name == "ask quote" {
			asks++
			continue
		}
		nested = append(nested, one)
	}
	want := `start shop.order
  run shop.order
    attempt shop.reserve: out of order
    attempt shop.reserve
    wait sleep
    start shop.shipment
      run shop.shipment
        attempt shop.ship
`
	// The message may have arrived before the code waits for it.
	got := strings.Replace(tree(nested), "    wait message paid\n", "", 1)
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	if ids := traces(all); len(ids) != 1 || repeated != 0 || asks != 1 {
		t.Errorf("%d traces, %d repetitions and %d asks, want 1, 0 and 1", len(ids), repeated, asks)
	}
	for _, one := range all {
		if one.StartTimeUnixNano > one.EndTimeUnixNano {
			t.Errorf("span %s ends before it begins", one.Name)
		}
	}
}

func TestOPS4_AGlobalProviderThatIsSetAfterNewGetsTheSpans(t *testing.T) {
	r := newReceiver(t)
	o := otelflow.New(otelflow.Config{})
	otel.SetTracerProvider(r.provider())
	t.Cleanup(func() { otel.SetTracerProvider(noop.NewTracerProvider()) })
	s := newSite(t, o)
	if _, err := s.start(1).Result(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.stop() // exports the spans
	if all, _ := r.spans(); len(all) < 8 {
		t.Errorf("spans: got %d, want those of a run with a child", len(all))
	}
}

func TestOPS4_ARerunIsANewTraceThatIsLinkedToTheRunBefore(t *testing.T) {
	r := newReceiver(t)
	s := newSite(t, otelflow.New(otelflow.Config{TracerProvider: r.provider()}))
	first := s.start(badOrder)
	if _, err := first.Result(t.Context()); err == nil {
		t.Fatal("the order has not failed")
	}
	second, err := first.Retry(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.Result(t.Context()); err == nil {
		t.Fatal("the order has not failed")
	}
	s.stop()
	all, _ := r.spans()
	byRun := map[string]*tracepb.Span{}
	for _, one := range all {
		if one.Name == "run shop.order" {
			byRun[attribute(one, "flowgen.run")] = one
		}
	}
	before, after := byRun[string(first.ID())], byRun[string(second.ID())]
	if before == nil || after == nil {
		t.Fatalf("spans of the runs are missing:\n%s", tree(all))
	}
	if bytes.Equal(before.TraceId, after.TraceId) {
		t.Error("the rerun is in the trace of the run before")
	}
	if len(after.Links) != 1 || !bytes.Equal(after.Links[0].SpanId, before.SpanId) || !bytes.Equal(after.Links[0].TraceId, before.TraceId) {
		t.Errorf("links of the rerun: %v, want one to %x", after.Links, before.SpanId)
	}
}

func attribute(s *tracepb.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

func TestOPS4_ALongRunIsSplitIntoLinkedTraces(t *testing.T) {
	r := newReceiver(t)
	s := newSite(t, otelflow.New(otelflow.Config{TracerProvider: r.provider(), SplitAfter: 10 * time.Millisecond}))
	run := s.start(1) // sleeps for 20 ms
	if _, err := run.Result(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.stop()
	all, _ := r.spans()
	if n := len(traces(all)); n < 2 {
		t.Errorf("%d traces, want several:\n%s", n, tree(all))
	}
	known := map[string]string{}
	for _, one := range all {
		known[string(one.SpanId)] = string(one.TraceId)
	}
	for _, one := range all {
		if parent := string(one.ParentSpanId); parent != "" && known[parent] != string(one.TraceId) {
			t.Errorf("span %s (%s) has a parent that is not in its trace:\n%s", one.Name, attribute(one, "flowgen.run"), tree(all))
		}
		if len(one.ParentSpanId) == 0 && one.Name != "start shop.order" && len(one.Links) == 0 {
			t.Errorf("span %s begins a trace and has no link", one.Name)
		}
		for _, l := range one.Links {
			if known[string(l.SpanId)] != string(l.TraceId) {
				t.Errorf("span %s is linked to a span that was not exported", one.Name)
			}
		}
	}
}

// TestOPS4_TheTraceOfTheCallerReachesTheCodeOfSteps proves that a run continues the trace of the
// span in whose context it was started, that a message and a question are linked to the span of
// their sender, and that a span of the code of a step is a child of the span of its attempt.
func TestOPS4_TheTraceOfTheCallerReachesTheCodeOfSteps(t *testing.T) {
	r := newReceiver(t)
	p := r.provider()
	o := otelflow.New(otelflow.Config{TracerProvider: p})
	s := newInterceptedSite(t, o, p.Tracer("test"))
	ctx, caller := p.Tracer("test").Start(t.Context(), "request")
	run, err := order.Start(ctx, s.client, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := quote.Ask(ctx, run, 7); err != nil || got != 7 {
		t.Fatalf("ask: %d, %v", got, err)
	}
	if err := paid.Send(ctx, run, 100); err != nil {
		t.Fatal(err)
	}
	if _, err := run.Result(ctx); err != nil {
		t.Fatal(err)
	}
	caller.End()
	s.stop()
	all, _ := r.spans()
	if n := len(traces(all)); n != 1 {
		t.Errorf("%d traces, want 1:\n%s", n, tree(all))
	}
	request := caller.SpanContext().SpanID()
	byID, inner := map[string]*tracepb.Span{}, 0
	for _, one := range all {
		byID[string(one.SpanId)] = one
	}
	for _, one := range all {
		parent := byID[string(one.ParentSpanId)]
		switch one.Name {
		case "start shop.order":
			if parent == nil || parent.Name != "request" {
				t.Errorf("parent of %s is %v, want the span of the request", one.Name, parent)
			}
		case "in a step":
			inner++
			if parent == nil || !strings.HasPrefix(parent.Name, "attempt shop.") {
				t.Errorf("parent of %s is %v, want an attempt", one.Name, parent)
			}
		case "receive paid", "ask quote":
			if len(one.Links) != 1 || !bytes.Equal(one.Links[0].SpanId, request[:]) {
				t.Errorf("links of %s: %v, want one to the span of the request", one.Name, one.Links)
			}
		}
	}
	if text := tree(all); inner != 3 || !strings.Contains(text, "receive paid") || !strings.Contains(text, "ask quote") {
		t.Errorf("%d spans of the code of steps, want 3 (two attempts of one step, and one of another):\n%s", inner, text)
	}
}
