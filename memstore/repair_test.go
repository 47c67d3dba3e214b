package memstore

import (
	"slices"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/repairtest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Memory does not rot: what these tests do to it stands for a defect of the
// program, and proves the repairs that all stores have in common.

// broken is one case: a scene, what is done to it under the mutex of its
// partition, and what comes of it.
type broken struct {
	scene  func(w *repairtest.World) *repairtest.Scene
	damage func(p *partition, r *run, s *repairtest.Scene)
	want   repairtest.Want
}

// linked is a case that is about several runs.
type linked struct {
	scene  func(w *repairtest.World) *repairtest.Scene
	damage func(w *repairtest.World, st *Store, s *repairtest.Scene)
	want   repairtest.Want
}

func (l linked) repairs(t *testing.T) {
	t.Helper()
	t.Parallel()
	clock := storetest.NewClock()
	st := NewWith(Config{Clock: clock, Partitions: 3})
	w := repairtest.New(t, st, clock)
	s := l.scene(w)
	w.Repairs(s, func() { l.damage(w, st, s) }, l.want)
}

func (b broken) repairs(t *testing.T) {
	t.Helper()
	t.Parallel()
	clock := storetest.NewClock()
	st := NewWith(Config{Clock: clock, Partitions: 3})
	w := repairtest.New(t, st, clock)
	s := b.scene(w)
	w.Repairs(s, func() {
		p := st.partitionOf(s.Run)
		p.mu.Lock()
		defer p.mu.Unlock()
		b.damage(p, p.runs[s.Run], s)
	}, b.want)
}

func created(w *repairtest.World) *repairtest.Scene  { return w.Created() }
func sleeps(w *repairtest.World) *repairtest.Scene   { return w.Sleeping() }
func waits(w *repairtest.World) *repairtest.Scene    { return w.Waiting() }
func unread(w *repairtest.World) *repairtest.Scene   { return w.Unread() }
func owned(w *repairtest.World) *repairtest.Scene    { return w.Owned(w.Sleeping()) }
func complete(w *repairtest.World) *repairtest.Scene { return w.Completed(workflow.WithID("a")) }
func lined(w *repairtest.World) *repairtest.Scene    { return w.Lined("a") }

// lostTimer takes the timer of a run away, and lets its time pass.
func lostTimer(p *partition, r *run, _ *repairtest.Scene) { p.timers.expel(r) }

// revived puts a run that has ended back to where it was before.
func revived(p *partition, r *run, _ *repairtest.Scene) {
	p.purges.expel(r)
	r.place, r.ended, r.status = store.StateParked, 0, event.StatusRunning
	p.seenOf(r.chain)
}

func TestREC3_Timeout(t *testing.T) {
	broken{func(w *repairtest.World) *repairtest.Scene {
		s := w.Sleeping()
		w.Clock.Advance(2 * time.Hour)
		return s
	}, lostTimer, repairtest.Want{Invariants: []int{7}, Reason: store.ReasonTimeout}}.repairs(t)
}

func TestREC3_TimeoutOfTheRun(t *testing.T) {
	broken{func(w *repairtest.World) *repairtest.Scene {
		s := w.Sleeping(workflow.WithRunTimeout(30 * time.Minute))
		s.Want = "failed"
		w.Clock.Advance(2 * time.Hour)
		return s
	}, func(p *partition, r *run, _ *repairtest.Scene) {
		p.timers.expel(r)
		r.due = 0
	}, repairtest.Want{Invariants: []int{7}, Reason: store.ReasonTimeout}}.repairs(t)
}

func TestREC3_StuckCreated(t *testing.T) {
	broken{created, func(_ *partition, r *run, _ *repairtest.Scene) { r.route.remove(r) },
		repairtest.Want{Invariants: []int{5}, Reason: store.ReasonStuckCreated}}.repairs(t)
}

func TestREC3_StuckCompleted(t *testing.T) {
	broken{complete, revived, repairtest.Want{Invariants: []int{4, 9}, Reason: store.ReasonStuckCompleted}}.repairs(t)
}

func TestREC3_StuckFailed(t *testing.T) {
	broken{(*repairtest.World).Failed, revived, repairtest.Want{Invariants: []int{4}, Reason: store.ReasonStuckFailed}}.repairs(t)
}

func TestREC3_StuckTerminal(t *testing.T) {
	broken{(*repairtest.World).Canceled, revived, repairtest.Want{Invariants: []int{4}, Reason: store.ReasonStuckTerminal}}.repairs(t)
	t.Run("among the ready", func(t *testing.T) {
		broken{complete, func(_ *partition, r *run, _ *repairtest.Scene) { r.route.push(r) },
			repairtest.Want{Invariants: []int{8, 15}, Reason: store.ReasonStuckTerminal}}.repairs(t)
	})
}

func TestREC3_NoClaim(t *testing.T) {
	broken{owned, func(p *partition, r *run, s *repairtest.Scene) { delete(p.sessions, s.Session) },
		repairtest.Want{Invariants: []int{5, 6}, Reason: store.ReasonNoClaim}}.repairs(t)
}

func TestREC3_StuckRunning(t *testing.T) {
	broken{unread, func(p *partition, r *run, _ *repairtest.Scene) {
		r.route.remove(r)
		r.place = store.StateParked
	}, repairtest.Want{Invariants: []int{7}, Reason: store.ReasonStuckRunning}}.repairs(t)
}

func TestREC3_RetryAfterFailure(t *testing.T) {
	broken{(*repairtest.World).Retrying, lostTimer, repairtest.Want{Invariants: []int{7}, Reason: store.ReasonRetryAfterFailure}}.repairs(t)
}

func TestREC8_RepairsWhatIsKeptOfARun(t *testing.T) {
	repairtest.Each(t, map[string]broken{
		"1 the sequence is wrong": {sleeps, func(_ *partition, r *run, _ *repairtest.Scene) { r.seq++; r.last = event.NewCommitID() },
			repairtest.Want{Invariants: []int{1}, Remaining: []int{1}, Reason: store.ReasonDamagedLog, Stays: true}},
		"1 the log is ahead": {sleeps, func(_ *partition, r *run, _ *repairtest.Scene) { r.seq--; r.last = event.NewCommitID() },
			repairtest.Want{Invariants: []int{1}, Reason: store.ReasonStuckRunning}},
		"2 the epoch was given before": {sleeps, func(_ *partition, r *run, _ *repairtest.Scene) { r.epoch = 0 },
			repairtest.Want{Invariants: []int{2}, Reason: store.ReasonStuckRunning}},
		"4 it has ended before its log": {sleeps, func(p *partition, r *run, _ *repairtest.Scene) {
			p.leave(r)
			r.place, r.status, r.ended = store.StateEnded, event.StatusCompleted, p.now()
			p.purges.add(r, r.ended+store.DefaultRetention.Milliseconds())
		}, repairtest.Want{Invariants: []int{4}, Reason: store.ReasonStuckRunning}},
		"4 the tags of an owned run": {owned, func(_ *partition, r *run, _ *repairtest.Scene) {
			r.rare().tags = map[string]string{"who": "knows"}
		}, repairtest.Want{Invariants: []int{4}, Reason: store.ReasonWrongRecord, Stays: true}},
		"4 the status": {sleeps, func(_ *partition, r *run, _ *repairtest.Scene) { r.status = event.StatusFailed },
			repairtest.Want{Invariants: []int{4}, Reason: store.ReasonWrongRecord}},
		"4 the route of a ready run": {created, func(p *partition, r *run, _ *repairtest.Scene) {
			r.route.remove(r)
			r.route.runs--
			r.route = p.route(store.Route{Queue: "another"})
			r.route.push(r)
			r.route.runs++
		}, repairtest.Want{Invariants: []int{4, 15}, Reason: store.ReasonStuckCreated}},
		"5 a place that does not exist": {sleeps, func(p *partition, r *run, _ *repairtest.Scene) { p.leave(r); r.place = 9 },
			repairtest.Want{Invariants: []int{5}, Reason: store.ReasonStuckRunning}},
		"5 a token without an owner": {waits, func(_ *partition, r *run, _ *repairtest.Scene) { r.token = event.NewToken() },
			repairtest.Want{Invariants: []int{5}, Reason: store.ReasonWrongRecord}},
		"5 a parked run among the ready": {waits, func(_ *partition, r *run, _ *repairtest.Scene) { r.route.push(r) },
			repairtest.Want{Invariants: []int{5, 15}, Reason: store.ReasonWrongRecord}},
		"6 its mail is forgotten": {func(w *repairtest.World) *repairtest.Scene { return w.Owned(w.Unread()) },
			func(_ *partition, r *run, _ *repairtest.Scene) { r.owner.read(r) },
			repairtest.Want{Invariants: []int{6}, Reason: store.ReasonWrongRecord}},
		"7 a due time is forgotten": {sleeps, func(p *partition, r *run, _ *repairtest.Scene) { p.timers.expel(r); r.due = 0 },
			repairtest.Want{Invariants: []int{7}, Reason: store.ReasonStuckRunning}},
		"7 the start is forgotten": {(*repairtest.World).Delayed, lostTimer,
			repairtest.Want{Invariants: []int{7}, Reason: store.ReasonStuckCreated}},
		"8 it is never purged": {complete, func(p *partition, r *run, _ *repairtest.Scene) { p.purges.expel(r) },
			repairtest.Want{Invariants: []int{8}, Reason: store.ReasonStuckTerminal}},
		"8 a living run is deleted": {sleeps, func(_ *partition, r *run, _ *repairtest.Scene) { r.hidden = true },
			repairtest.Want{Invariants: []int{8}, Reason: store.ReasonWrongRecord}},
		"10 an item was not accepted": {unread, func(p *partition, r *run, _ *repairtest.Scene) { delete(p.seen, r.chain) },
			repairtest.Want{Invariants: []int{10}, Reason: store.ReasonWrongRecord}},
		"10 an item is unread twice": {unread, func(_ *partition, r *run, _ *repairtest.Scene) { r.inbox = append(slices.Clone(r.inbox), r.inbox[0]) },
			repairtest.Want{Invariants: []int{10}, Reason: store.ReasonWrongRecord}},
		"15 it is not announced": {created, func(_ *partition, r *run, _ *repairtest.Scene) { r.route.wake = false },
			repairtest.Want{Invariants: []int{15}, Reason: store.ReasonStuckCreated}},
		"17 recoveries that nobody made": {sleeps, func(_ *partition, r *run, _ *repairtest.Scene) { r.recoveries = 4 },
			repairtest.Want{Invariants: []int{17}, Reason: store.ReasonWrongRecord}},
	}, func(t *testing.T, b broken) { b.repairs(t) })
}

func TestREC8_RepairsWhatLeadsToARun(t *testing.T) {
	ofOther := func(w *repairtest.World) *repairtest.Scene {
		s := lined(w)
		return s
	}
	repairtest.Each(t, map[string]broken{
		"9 the active run is forgotten": {func(w *repairtest.World) *repairtest.Scene { return w.Sleeping(workflow.WithID("a")) },
			func(p *partition, _ *run, _ *repairtest.Scene) { delete(p.names, "a") },
			repairtest.Want{Invariants: []int{9}, Reason: store.ReasonWrongRecord}},
		"9 a line is forgotten": {ofOther, func(p *partition, _ *run, _ *repairtest.Scene) { p.names["a"].line = nil },
			repairtest.Want{Invariants: []int{9}, Reason: store.ReasonWrongRecord}},
		"9 a line has no active run": {ofOther, func(p *partition, _ *run, _ *repairtest.Scene) { p.names["a"].active = nil },
			repairtest.Want{Invariants: []int{9}, Reason: store.ReasonWrongRecord}},
		"9 a run has left the line": {ofOther, func(p *partition, _ *run, s *repairtest.Scene) { p.makeReady(p.runs[s.Other]) },
			repairtest.Want{Invariants: []int{9}}},
		"9 an ended run is active": {complete, func(p *partition, r *run, _ *repairtest.Scene) { p.names["a"].active = r },
			repairtest.Want{Invariants: []int{9}, Reason: store.ReasonWrongRecord}},
		"16 a stranger is active and has a timer": {complete, func(p *partition, r *run, _ *repairtest.Scene) {
			stranger := &run{id: "wrun_x", route: r.route}
			p.names["a"].active = stranger
			p.timers.add(stranger, 1)
		}, repairtest.Want{Invariants: []int{16}}},
		"16 streams of a chain without runs": {complete, func(p *partition, _ *run, _ *repairtest.Scene) {
			p.streams["wrun_x"] = map[string]*stream{"a": {chunks: [][]byte{[]byte("1")}, last: 1}}
		}, repairtest.Want{Invariants: []int{16}}},
		"16 a chain without runs": {complete, func(p *partition, _ *run, _ *repairtest.Scene) { p.seenOf("wrun_x").add("item", p.now()) },
			repairtest.Want{Invariants: []int{16}}},
		"16 a route and a chain are miscounted": {complete, func(p *partition, r *run, _ *repairtest.Scene) {
			r.route.runs = 7
			p.chains[r.id] = &chain{later: 3}
		}, repairtest.Want{Invariants: []int{8, 16}}},
	}, func(t *testing.T, b broken) { b.repairs(t) })
}

func parent(w *repairtest.World) *repairtest.Scene    { return w.Parent() }
func settled(w *repairtest.World) *repairtest.Scene   { return w.Settled() }
func continued(w *repairtest.World) *repairtest.Scene { return w.Continued() }

// records changes the records of a run.
func records(change func(o *outbox, r *record)) func(p *partition, r *run, _ *repairtest.Scene) {
	return func(p *partition, r *run, _ *repairtest.Scene) {
		for _, o := range p.outbox.sorted() {
			if o.from == r {
				change(&p.outbox, o)
			}
		}
	}
}

func TestREC8_RepairsChains(t *testing.T) {
	repairtest.Each(t, map[string]broken{
		"11 a continuation is forgotten": {continued, func(_ *partition, r *run, _ *repairtest.Scene) { r.links.next = "" },
			repairtest.Want{Invariants: []int{11}, Reason: store.ReasonStuckTerminal}},
		"11 the last run is forgotten": {continued, func(p *partition, r *run, _ *repairtest.Scene) { p.chains[r.id].tip = r },
			repairtest.Want{Invariants: []int{11}}},
		"16 the later runs are forgotten": {continued, func(p *partition, r *run, _ *repairtest.Scene) { delete(p.chains, r.id) },
			repairtest.Want{Invariants: []int{8, 16}}},
		"11 a run has left its chain": {continued, func(p *partition, r *run, s *repairtest.Scene) { p.runs[s.Other].chain = s.Other },
			repairtest.Want{Invariants: []int{8, 11, 16}, Run: "other", Reason: store.ReasonWrongRecord}},
		"8 it is purged too early": {continued, func(p *partition, r *run, _ *repairtest.Scene) {
			p.purges.add(r, r.ended+store.DefaultRetention.Milliseconds())
		},
			repairtest.Want{Invariants: []int{8}, Reason: store.ReasonStuckTerminal}},
	}, func(t *testing.T, b broken) { b.repairs(t) })
}

func TestREC8_RepairsOutboxes(t *testing.T) {
	wrong := repairtest.Want{Invariants: []int{12}, Reason: store.ReasonWrongRecord}
	repairtest.Each(t, map[string]broken{
		"12 a record is lost":           {parent, records(func(o *outbox, r *record) { o.remove(r) }), wrong},
		"12 a record is in no phase":    {parent, records(func(_ *outbox, r *record) { r.phase = 9 }), wrong},
		"12 a record says nothing":      {parent, records(func(_ *outbox, r *record) { r.Body = nil }), wrong},
		"12 a record without its cause": {parent, records(func(o *outbox, r *record) { o.write(r.from, &store.Send{ID: "x", To: r.To, Body: r.Body}, r.since) }), wrong},
	}, func(t *testing.T, b broken) { b.repairs(t) })
}

// The log of the sender is damaged, too, and the repair blocks the run. What was sent
// is delivered if anything still says what it was.
func TestREC8_EndsEveryRecordWhoseSenderHasADamagedLog(t *testing.T) {
	damaged := func(log func(r *run), do func(r *record)) func(p *partition, r *run, _ *repairtest.Scene) {
		return func(p *partition, r *run, s *repairtest.Scene) {
			log(r)
			records(func(_ *outbox, o *record) { do(o) })(p, r, s)
		}
	}
	cut := func(r *run) { r.frames = r.frames[:1] }
	torn := func(r *run) {
		for i := range r.frames[1:] {
			r.frames[1+i] = []byte("torn")
		}
	}
	after := func(r *run) { r.frames = append(r.frames, []byte("torn")) }
	empty := func(r *record) { r.Body = nil }
	nowhere := func(r *record) { r.To, r.phase = "", 9 }
	frameless := func(r *record) { r.Body = []byte(`{"start":{"frame":"AAAA"},"key":"k"}`) }
	unphased := func(r *record) { r.phase = 9 }
	ends := func(then store.Reason) repairtest.Want {
		return repairtest.Want{Invariants: []int{1, 12}, Remaining: []int{1}, Reason: store.ReasonDamagedLog, Then: then, Stays: true}
	}
	kept := repairtest.Want{Invariants: []int{1}, Remaining: []int{1}, Reason: store.ReasonDamagedLog, Stays: true}
	newer := ends("")
	newer.Remaining = []int{1, 12}
	repairtest.Each(t, map[string]broken{
		"it says nothing, and the log is torn":                 {parent, damaged(torn, empty), ends(store.ReasonLostRecord)},
		"it says nothing, and the log is cut":                  {parent, damaged(cut, empty), ends(store.ReasonLostRecord)},
		"its start cannot be read, and the log is torn":        {parent, damaged(torn, frameless), ends(store.ReasonLostRecord)},
		"it is for nobody, and the log is torn":                {parent, damaged(torn, nowhere), ends(store.ReasonLostRecord)},
		"it says nothing, and the log is torn after its cause": {parent, damaged(after, empty), ends(store.ReasonWrongRecord)},
		"it is in no phase, and the log is cut":                {parent, damaged(cut, unphased), ends(store.ReasonWrongRecord)},
		"it is sound, and the log is cut":                      {parent, damaged(cut, func(*record) {}), kept},
		"it is a note that says nothing":                       {parent, damaged(cut, func(r *record) { r.Body, r.phase = nil, store.PhaseNote }), kept},
		"a newer release wrote it":                             {parent, damaged(torn, func(r *record) { r.Body = []byte(`{"query":{}}`) }), newer},
	}, func(t *testing.T, b broken) { b.repairs(t) })
}

func TestREC8_RepairsWhatRunsHaveToDoWithOneAnother(t *testing.T) {
	of := func(st *Store, id event.RunID, do func(p *partition, r *run)) {
		p := st.partitionOf(id)
		p.mu.Lock()
		defer p.mu.Unlock()
		do(p, p.runs[id])
	}
	repairtest.Each(t, map[string]linked{
		"13 a child does not exist": {settled, func(_ *repairtest.World, st *Store, s *repairtest.Scene) {
			of(st, s.Other, func(p *partition, r *run) {
				p.leave(r)
				r.place = store.StateEnded
				r.timer = unpurged
				p.setPurge(r, 1)
				_, _ = p.op.Purge(1, nil)
			})
		}, repairtest.Want{Invariants: []int{13}, Reason: store.ReasonWrongRecord}},
		"13 the end of a child is not told": {settled, func(w *repairtest.World, _ *Store, s *repairtest.Scene) { w.EndsUnheard(s) },
			repairtest.Want{Invariants: []int{13}, Run: "other", Reason: store.ReasonWrongRecord}},
		"14 a creation that nobody confirms": {settled, func(_ *repairtest.World, st *Store, s *repairtest.Scene) {
			of(st, s.Other, func(_ *partition, r *run) { r.linked().createdBy = "x" })
		}, repairtest.Want{Invariants: []int{14}, Run: "other", Reason: store.ReasonWrongRecord}},
		"14 an item that nobody confirms": {settled, func(_ *repairtest.World, st *Store, s *repairtest.Scene) {
			of(st, s.Run, func(p *partition, r *run) { p.kept[r.id] = map[event.ItemID]int64{"x": r.created} })
		}, repairtest.Want{Invariants: []int{14}, Reason: store.ReasonWrongRecord}},
	}, func(t *testing.T, l linked) { l.repairs(t) })
}

func TestREC8_LeavesAStoreAloneThatIsAtWork(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	repairtest.New(t, NewWith(Config{Clock: clock, Partitions: 3}), clock).Lives(20)
}

func TestREC8_ActsOnNothingThatHasMovedOn(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	repairtest.New(t, NewWith(Config{Clock: clock}), clock).Refuses()
}
