package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/chaos/flows"
	"github.com/flowgen/flowgen/lab/internal/harm/record"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// checkLimits checks that the use of a limit never exceeded its capacity, and that nothing is held
// or waiting at the end. It derives the use from the records of steps.
//
// A limit guarantees that the held permits fit its capacity whenever permits are given. An attempt
// that executes under a valid fence holds permits. After a change of the capacity, the use may fit
// only the earlier capacity at first. The new capacity applies from the first report of the store
// that the held permits fit it. From then on, the use must not exceed it until a higher capacity is
// requested.
func (c *checker) checkLimits() {
	for _, capacity := range flows.Capacities {
		name := capacity.Limit.Name()
		spans := c.spansOf(name)
		if len(spans) > 0 {
			c.sweep(&Limit{Name: name}, spans, c.bounds(name, capacity.Declared))
		}
	}
	keys, atOnce := flows.Keys()
	for _, key := range keys {
		name := store.LimitID{Name: key.Name(), Key: key.Key()}.String()
		if spans := c.spansOf(name); len(spans) > 0 {
			c.sweep(&Limit{Name: name}, spans, c.bounds(name, atOnce))
		}
	}
	for id, l := range c.Snapshot.Limits {
		if l.Held != 0 || l.Waits != 0 {
			c.findf(Broken, "", "limit %s: in the end %d are held, and %d wait", id, l.Held, l.Waits)
		}
	}
}

// span is an interval in which one attempt or run used a limit.
type span struct {
	from, to time.Time
	// void is the actual end of the use if the fence became void at to. If the fence stayed valid,
	// void is zero.
	void   time.Time
	weight int
	run    event.RunID
	what   string
}

// spansOf returns the uses of a limit. A use is an attempt, or a run that holds the limit until its
// end. The use by such a run lasts from the first beginning to the last end of its steps.
func (c *checker) spansOf(limit string) (all []span) {
	whole := map[event.RunID]*span{}
	for _, run := range slices.Sorted(maps.Keys(c.histories)) {
		h := c.histories[run]
		for _, x := range c.executions[run] {
			s, ok := c.spanOf(h, x)
			if !ok {
				continue
			}
			if !h.spec.Whole {
				s.weight = weight(h.spec, limit)
			}
			if s.weight > 0 {
				all = append(all, s)
			}
			holder := run
			if event.Internal(h.spec.Workflow) {
				holder = h.spec.Parent
			}
			c.extend(whole, holder, limit, s)
		}
	}
	for _, run := range slices.Sorted(maps.Keys(whole)) {
		all = append(all, *whole[run])
	}
	return all
}

// extend extends the use by a run that holds a limit until its end, so that it includes the
// execution of one of its steps.
func (c *checker) extend(whole map[event.RunID]*span, run event.RunID, limit string, s span) {
	h := c.histories[run]
	if h == nil || h.spec == nil || !h.spec.Whole || weight(h.spec, limit) == 0 {
		return
	}
	w := whole[run]
	if w == nil {
		w = &span{from: s.from, to: s.to, weight: weight(h.spec, limit), run: run, what: "run " + string(run) + " to its end"}
		whole[run] = w
	}
	if s.from.Before(w.from) {
		w.from = s.from
	}
	if s.to.After(w.to) {
		w.to = s.to
	}
}

func weight(spec *event.Spec, limit string) int {
	for _, u := range spec.Uses {
		if (store.LimitID{Name: u.Limit, Key: u.Key}).String() == limit {
			return u.Weight
		}
	}
	return 0
}

// spanOf returns the interval of an attempt. It returns false if the interval is not known.
func (c *checker) spanOf(h *history, x *record.Execution) (span, bool) {
	s := span{from: x.Began, to: x.Ended, run: h.run, what: fmt.Sprintf("attempt %d of %s of run %s by %s", x.Attempt, x.Key, x.Run, x.Worker)}
	step := h.steps[x.Key]
	if h.spec == nil || step == nil {
		return s, false
	}
	began, ok := step.attempts[x.Attempt]
	if !ok {
		return s, false // The attempt is reported as unrecorded.
	}
	if x.Outcome == record.Unknown {
		if s.to = c.Deaths[x.Worker]; s.to.IsZero() {
			s.to = c.last[x.Worker]
		}
	}
	if at, ok := c.voids[fence{h.run, began.epoch}]; ok && at.Before(s.to) {
		s.to, s.void = at, s.to
	}
	return s, s.to.After(s.from)
}

// fence identifies one claim of a run.
type fence struct {
	run   event.RunID
	epoch uint64
}

// readFences determines when fences became void because another worker claimed the run. It also
// determines until when each worker is known to have been alive.
func (c *checker) readFences() {
	for _, a := range c.Snapshot.Audit {
		f := fence{a.Run, a.Epoch}
		if at, ok := c.voids[f]; !ok || a.Time.Before(at) {
			c.voids[f] = a.Time
		}
	}
	for i := range c.Executions {
		x := &c.Executions[i]
		for _, at := range []time.Time{x.Began, x.Ended} {
			if at.After(c.last[x.Worker]) {
				c.last[x.Worker] = at
			}
		}
	}
}

// checkAttempts checks that no two attempts of a step were executed at the same time. It also
// counts the attempts that continued under a void fence.
func (c *checker) checkAttempts(h *history) {
	last := map[string]span{} // last attempt by step key
	for _, x := range slices.SortedFunc(slices.Values(c.executions[h.run]), func(a, b *record.Execution) int { return a.Began.Compare(b.Began) }) {
		s, ok := c.spanOf(h, x)
		if !ok {
			continue
		}
		if !s.void.IsZero() {
			c.verdict.Void++
			if !c.wasStalled(x.Worker, s.from, s.to) {
				c.verdict.VoidAwake++
			}
		}
		before, ok := last[x.Key]
		if ok && before.what != s.what && before.to.After(s.from) {
			c.findf(Together, h.run, "%s began at %s, when %s was under way, until %s", s.what, clock(s.from), before.what, clock(before.to))
		}
		if !ok || s.to.After(before.to) {
			last[x.Key] = s
		}
	}
}

func (c *checker) wasStalled(worker string, from, to time.Time) bool {
	return slices.ContainsFunc(c.Stalls, func(s Stall) bool { return s.Worker == worker && s.From.Before(to) && s.To.After(from) })
}

// edge is a moment at which the use or the allowed use of a limit changes.
type edge struct {
	at    time.Time
	order int // order of edges at the same time; ends come before beginnings
	span  *span
	sign  int
	void  bool // the edge begins or ends the part of a use that is under a void fence
	bound int
}

// bounds returns the changes of the maximum allowed use of a limit over time.
func (c *checker) bounds(limit string, declared int) []edge {
	allowed := declared
	all := []edge{{order: 1, bound: allowed}}
	for _, change := range c.Changes {
		if change.Limit != limit {
			continue
		}
		allowed = max(allowed, change.AtOnce)
		all = append(all, edge{at: change.Asked, order: 1, bound: allowed})
		if !change.Settled.IsZero() {
			allowed = change.AtOnce
			all = append(all, edge{at: change.Settled, order: 1, bound: allowed})
		}
	}
	return all
}

// sweep computes the use of a limit over time and reports violations.
func (c *checker) sweep(l *Limit, spans []span, edges []edge) {
	for i := range spans {
		s := &spans[i]
		if strings.HasPrefix(s.what, "run ") {
			l.Whole++
		} else {
			l.Attempts++
		}
		edges = append(edges, edge{at: s.from, order: 2, span: s, sign: 1}, edge{at: s.to, span: s, sign: -1})
		if !s.void.IsZero() {
			edges = append(edges, edge{at: s.to, order: 2, span: s, sign: 1, void: true}, edge{at: s.void, span: s, sign: -1, void: true})
		}
	}
	slices.SortStableFunc(edges, func(a, b edge) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.order, b.order)) })
	bound, live, void, above := 0, 0, 0, false
	under := map[*span]bool{}
	for _, e := range edges {
		switch {
		case e.span == nil:
			bound = e.bound
		case e.void:
			void += e.sign * e.span.weight
		default:
			live += e.sign * e.span.weight
			under[e.span] = e.sign > 0
		}
		l.Most, l.Beside = max(l.Most, live), max(l.Beside, live+void)
		if e.sign > 0 && !e.void && live == bound {
			l.Full++
		}
		if live > bound && !above {
			c.findf(Above, tipping(e, under), "%d are under way at %s of limit %s, which has %d: %s", live, clock(e.at), l.Name, bound, list(under))
		}
		above = live > bound
	}
	for _, change := range c.Changes {
		if change.Limit == l.Name {
			l.Changes++
		}
	}
	l.Between = between(c.Changes, l.Name)
	c.verdict.Limits = append(c.verdict.Limits, *l)
}

// tipping returns the run that explains a violation. It is the run whose use began at e, or any run
// in under.
func tipping(e edge, under map[*span]bool) event.RunID {
	if e.span != nil {
		return e.span.run
	}
	for s, there := range under {
		if there {
			return s.run
		}
	}
	return ""
}

// list returns the names of the active uses.
func list(under map[*span]bool) string {
	var all []string
	for s, there := range under {
		if there {
			all = append(all, fmt.Sprintf("%d for %s (%s to %s)", s.weight, s.what, clock(s.from), clock(s.to)))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

// between returns the fraction of time after changes of a capacity in which the store had not yet
// reported that the held permits fit the new capacity.
func between(changes []Change, limit string) float64 {
	var unknown, all time.Duration
	var first, open time.Time
	for _, change := range changes {
		if change.Limit != limit {
			continue
		}
		if first.IsZero() {
			first = change.Asked
		}
		if open.IsZero() {
			open = change.Asked
		}
		if !change.Settled.IsZero() {
			unknown += change.Settled.Sub(open)
			all, open = change.Settled.Sub(first), time.Time{}
		}
	}
	if all == 0 {
		return 0
	}
	return 100 * float64(unknown) / float64(all)
}
