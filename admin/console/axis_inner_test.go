package console

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/admin"
)

// logged returns the skeleton of a log whose events have the given times after the start.
func logged(start time.Time, events []admin.Event, at []time.Duration) *skeleton {
	s := newSkeleton()
	for i, e := range events {
		e.Seq, e.Time = uint64(i+1), start.Add(at[i])
		s.add(&e)
	}
	return s
}

// TestOPS2_TheTimelineOfARunThatWaitsForDaysShowsAllItsWork proves that the timeline shortens long
// waits, so that work takes most of the width in proportion to its duration. The run works for 8 s,
// waits for two days, works for 4 s, and waits for a day. The same holds while the run works again,
// and after its end.
func TestOPS2_TheTimelineOfARunThatWaitsForDaysShowsAllItsWork(t *testing.T) {
	const day = 24 * time.Hour
	start := time.Date(2026, 11, 29, 8, 0, 0, 0, time.UTC)
	s := logged(start, []admin.Event{
		{Type: "run_created", Ref: 1, Creates: true}, {Type: "run_started"},
		{Type: "step_created", Ref: 3, Creates: true, Name: "pack", Key: "fulfil/pack#1"}, {Type: "step_started", Ref: 3, Attempt: 1}, {Type: "step_completed", Ref: 3, Attempt: 1},
		{Type: "wait_created", Ref: 6, Creates: true, Key: "fulfil/sleep#1"}, {Type: "wait_completed", Ref: 6},
		{Type: "child_created", Ref: 8, Creates: true, Name: "flowgen.step/ship", Key: "fulfil/ship#1"}, {Type: "child_completed", Ref: 8},
		{Type: "wait_created", Ref: 10, Creates: true, Key: "fulfil/sleep#2"},
	}, []time.Duration{0, 0, 0, 0, 8 * time.Second, 8 * time.Second, 2 * day, 2 * day, 2*day + 4*time.Second, 2*day + 4*time.Second})
	want := []stretch{{0, 8_000}, {(2 * day).Milliseconds(), (2*day + 4*time.Second).Milliseconds()}}
	for name, c := range map[string]struct {
		now            time.Duration
		running, ended bool
		gaps           int
		more           time.Duration // additional work
	}{
		"it waits": {now: 3 * day, gaps: 2},
		"it works": {now: 2*day + 10*time.Second, running: true, gaps: 1, more: 6 * time.Second},
		"it ended": {now: 2*day + 4*time.Second, ended: true, gaps: 1},
	} {
		w := &window{start: start.UnixMilli(), now: start.Add(c.now).UnixMilli(), ended: c.ended}
		w.to = w.now - w.start
		work := s.stretches(w, c.running)
		got := make([]stretch, len(work))
		for i, one := range work {
			got[i] = stretch{one.begin - w.start, one.end - w.start}
		}
		if diff := cmp.Diff([]stretch{want[0], {want[1].begin, want[1].end + c.more.Milliseconds()}}, got, cmp.AllowUnexported(stretch{})); diff != "" {
			t.Errorf("%s: stretches of work (-want +got):\n%s", name, diff)
		}
		w.fold(work)
		x1, first, _ := w.place(work[0].begin, work[0].end)
		x2, second, _ := w.place(work[1].begin, work[1].end)
		if first+second < 60 || x1 != 0 || x2 < first || len(w.gaps) != c.gaps {
			t.Errorf("%s: work is drawn at %.1f, %.1f wide, and at %.1f, %.1f wide, with %d gaps: want 60%% of the width, with %d", name, x1, first, x2, second, len(w.gaps), c.gaps)
		}
		if long := float64(work[1].end-work[1].begin) / float64(work[0].end-work[0].begin); math.Abs(second/first-long) > 0.01 {
			t.Errorf("%s: the second part is drawn %.2f times as wide as the first, want %.2f", name, second/first, long)
		}
		for at := w.from; at <= w.to; at += (w.to - w.from) / 97 {
			if x := w.drawn(at); w.drawn(w.time(x)) < x-1 || w.drawn(w.time(x)) > x || w.time(x) > at {
				t.Errorf("%s: %d is drawn at %d, where %d is, which is drawn at %d", name, at, x, w.time(x), w.drawn(w.time(x)))
			}
		}
		if shown := idles(w); len(shown) != c.gaps || shown[0].Took != took(2*day-8*time.Second) {
			t.Errorf("%s: gaps are shown as %+v", name, shown)
		}
		if all := ticks(w); len(all) < 2 || all[0].Text != "+0 ms" || all[1].X != percent(5_000*100/float64(w.drawn(w.to))) {
			t.Errorf("%s: the ticks are %+v, want the first two 5 s apart", name, all)
		}
	}
}

// TestOPS2_TheTimelineShortensLongWaitsOnly proves that the timeline shortens neither short gaps
// nor a window without work.
func TestOPS2_TheTimelineShortensLongWaitsOnly(t *testing.T) {
	for name, c := range map[string]struct {
		work     []stretch
		from, to int64
	}{
		"short gaps":      {[]stretch{{0, 100}, {250, 350}, {500, 600}}, 0, 700},
		"it always works": {[]stretch{{0, 1000}}, 0, 1000},
		"no work":         {[]stretch{{0, 100}, {90_000, 90_100}}, 200, 80_000},
		"nothing begun":   {nil, 0, 80_000},
	} {
		w := &window{from: c.from, to: c.to, now: c.to}
		if w.fold(c.work); len(w.gaps) > 0 || w.drawn(w.to) != c.to-c.from {
			t.Errorf("%s: the gaps %v are drawn shorter", name, w.gaps)
		}
	}
}

// TestOPS2_StretchesOfWorkAreBounded proves that the number of stretches is bounded, and that the
// stretches that are separated by the longest gaps are kept.
func TestOPS2_StretchesOfWorkAreBounded(t *testing.T) {
	var all []stretch
	at := int64(0)
	for i := range int64(1000) {
		if at += 10; i%100 == 99 {
			at += 100_000
		}
		all = worked(all, at, false)
	}
	long := 0
	for i := 1; i < len(all); i++ {
		if all[i].begin-all[i-1].end > 100_000 {
			long++
		}
	}
	if len(all) > maxStretches || long != 10 || all[0].begin != 10 || all[len(all)-1].end != at {
		t.Errorf("%d stretches from %d to %d with %d long gaps, want %d from 10 to %d with 10", len(all), all[0].begin, all[len(all)-1].end, long, maxStretches, at)
	}
}

// TestOPS2_TheTimelineOfAWaitCanBeEnlarged proves that half of the drawn width is less than the
// window, even if the run has worked for less than a millisecond and then waits.
func TestOPS2_TheTimelineOfAWaitCanBeEnlarged(t *testing.T) {
	for _, work := range [][]stretch{{{0, 0}}, {{0, 1}}, {{0, 5}}, {{0, 0}, {500, 501}}, {{0, 0}, {200, 200}, {400, 401}, {600, 600}, {800, 800}}} {
		for _, long := range []int64{1079, 3_600_000} {
			w := &window{to: long, now: long}
			w.fold(work)
			drawn := w.drawn(w.to)
			if from, to := w.time(drawn/4), w.time(drawn-drawn/4); len(w.gaps) == 0 || to-from < 10 || to-from >= long {
				t.Errorf("work at %v in %d ms, %d gaps: half of the width is %d to %d", work, long, len(w.gaps), from, to)
			}
		}
	}
}
