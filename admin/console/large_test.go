package console_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/admintest"
	"github.com/flowgen/flowgen/admin/console"
	"github.com/flowgen/flowgen/memstore"
)

// steps is the number of steps of a large run. With the attempts of these steps, the log has more
// than 20,000 events.
const steps = 6_700

// largeRuns is a console with completed runs of many steps.
type largeRuns struct {
	testing.TB
	h    http.Handler
	read *reads
}

// reads counts the events that the console reads.
type reads struct {
	console.Service
	events atomic.Int64
}

func (r *reads) of(admin.Principal) console.Service { return r }

// Follow counts the events that the service returns.
func (r *reads) Follow(ctx context.Context, run string, f admin.EventFilter) iter.Seq2[admin.Event, error] {
	return func(yield func(admin.Event, error) bool) {
		for e, err := range r.Service.Follow(ctx, run, f) {
			r.events.Add(1)
			if !yield(e, err) {
				return
			}
		}
	}
}

// newLargeRuns creates runs with the given numbers of steps. It returns the console and the URLs of
// the runs.
func newLargeRuns(t testing.TB, steps ...int) (*largeRuns, []string) {
	s := admintest.NewScene(t, memstore.New(), func(_ testing.TB, direct *admin.Service) admintest.Service { return direct })
	read := &reads{Service: s.Direct}
	var all []string
	for i, n := range steps {
		all = append(all, "/runs/"+s.Long(n, fmt.Sprint("long-", i)))
	}
	return &largeRuns{t, console.Over(read.of, console.Config{}), read}, all
}

// page returns a page and the time that the handler needed.
func (l *largeRuns) page(path string) (string, time.Duration) {
	l.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Host, r.RemoteAddr = "localhost", "127.0.0.1:1"
	answer := httptest.NewRecorder()
	began := time.Now()
	l.h.ServeHTTP(answer, r)
	took := time.Since(began)
	if answer.Code != http.StatusOK {
		l.Fatalf("%s: status %d", path, answer.Code)
	}
	return answer.Body.String(), took
}

// opened returns the URL of the page that draws the steps of a run one by one.
func (l *largeRuns) opened(run string) string {
	l.Helper()
	first, _ := l.page(run)
	open := regexp.MustCompile(`\?open=[^"]+`).FindString(first)
	if open == "" {
		l.Fatal("the steps are not drawn as one that can be expanded")
	}
	return run + open
}

// TestOPS2_ALargeRunCostsAsMuchAsASmallOne proves that the pages of a run with 20,000 events stay
// within fixed limits for bytes, DOM nodes, bars and memory.
func TestOPS2_ALargeRunCostsAsMuchAsASmallOne(t *testing.T) {
	l, runs := newLargeRuns(t, steps)
	run := runs[0]
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	_, cold := l.page(run)
	kept := heap() - before
	if kept > 30<<20 {
		t.Errorf("after the first page %d MB are kept, want at most 30", kept>>20)
	}
	t.Logf("cold %v, %d KB are kept", cold, kept>>10)
	open := l.opened(run)
	if expanded, _ := l.page(open); strings.Count(expanded, `class="k-step"`) != 78 || !strings.Contains(expanded, `rel="next"`) {
		t.Errorf("expanded there are %d steps on the first page, want 78 beside two lanes", strings.Count(expanded, `class="k-step"`))
	}
	if end, _ := l.page(open + "&row=6690"); strings.Count(end, `class="k-step"`) != steps+2-6690 || !strings.Contains(end, "6,691 and on, of 6,702 rows") || strings.Contains(end, `rel="next"`) {
		t.Errorf("expanded there are %d steps on the last page, want %d", strings.Count(end, `class="k-step"`), steps+2-6690)
	}
	if beyond, _ := l.page(open + "&row=7000"); !strings.Contains(beyond, ">1 and on, of 6,702 rows") {
		t.Error("a page after the last is not the first")
	}
	for _, path := range []string{run, open, run + "?from=10&to=400", run + "/events", run + "/events?from=20001", run + "/data", run + "/talk", run + "/audit"} {
		text, took := l.page(path)
		nodes, bars := len(regexp.MustCompile(`<[a-z]`).FindAllString(text, -1)), strings.Count(text, `class="b `)
		t.Logf("%-30s %6d bytes %5d nodes %4d bars %v", strings.TrimPrefix(path, run), len(text), nodes, bars, took)
		if len(text) > 120_000 || nodes > 1500 || bars > 400+4 { // includes the 4 bars of the legend
			t.Errorf("%s has %d bytes, %d nodes, %d bars: want at most 120,000, 1,500, 400", path, len(text), nodes, bars)
		}
	}
}

// drawnMore is the maximum difference in allocations between two pages. The pages may differ in the
// cells of a density, because only cells with operations are drawn.
const drawnMore = 2500

// TestOPS2_AWarmPageDoesNotGrowWithItsRun proves that the cost of drawing a page for the second
// time does not depend on the size of its run. No event is read, and no part of the log is built a
// second time, which would take at least one allocation for each of 6,700 steps.
func TestOPS2_AWarmPageDoesNotGrowWithItsRun(t *testing.T) {
	l, runs := newLargeRuns(t, 200, steps)
	small, big := runs[0], runs[1]
	for _, page := range []struct{ small, big string }{{small, big}, {l.opened(small), l.opened(big)}, {small + "/talk", big + "/talk"}, {small + "/audit", big + "/audit"}} {
		cost := func(path string) (allocs float64, events int64) {
			l.page(path)
			before := l.read.events.Load()
			allocs = testing.AllocsPerRun(20, func() { l.page(path) })
			return allocs, l.read.events.Load() - before
		}
		want, _ := cost(page.small)
		got, events := cost(page.big)
		t.Logf("%s: %.0f allocations where a run of 200 steps needs %.0f, %d events", strings.TrimPrefix(page.big, big), got, want, events)
		if events != 0 || got > want+drawnMore {
			t.Errorf("%s: %d events are read, and there are %.0f allocations, want none, and at most %.0f", page.big, events, got, want+drawnMore)
		}
	}
}

// TestOPS2_OnlyNewEventsAreRead proves that only new events are read if a page is drawn for the
// second time.
func TestOPS2_OnlyNewEventsAreRead(t *testing.T) {
	s := admintest.NewScene(t, memstore.New(), func(_ testing.TB, direct *admin.Service) admintest.Service { return direct })
	read := &reads{Service: s.Direct}
	l := &largeRuns{t, console.Over(read.of, console.Config{}), read}
	ref := s.Start("talk", "order-1")
	s.Until(ref, "waiting")
	l.page("/runs/" + ref)
	for range 20 {
		if _, err := s.Direct.Send(t.Context(), ref, "verdict", admin.Message{Payload: admin.Payload(`"more"`)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Direct.Send(t.Context(), ref, "verdict", admin.Message{Payload: admin.Payload(`"bye"`)}); err != nil {
		t.Fatal(err)
	}
	s.Until(ref, "completed")
	run, err := s.Direct.Run(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	before := read.events.Load()
	if l.page("/runs/" + ref); uint64(read.events.Load()) != run.Events {
		t.Errorf("%d events were read first and %d then, want %d in all", before, read.events.Load()-before, run.Events)
	}
}

func BenchmarkRunPage(b *testing.B) {
	l, runs := newLargeRuns(b, steps)
	open := l.opened(runs[0])
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			l.h = console.Over(l.read.of, console.Config{})
			l.page(runs[0])
		}
	})
	b.Run("warm", func(b *testing.B) {
		b.ReportAllocs()
		for l.page(runs[0]); b.Loop(); {
			l.page(runs[0])
		}
	})
	b.Run("expanded", func(b *testing.B) {
		b.ReportAllocs()
		for l.page(open); b.Loop(); {
			l.page(open)
		}
	})
}
