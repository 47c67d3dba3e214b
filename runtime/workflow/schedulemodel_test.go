package workflow

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/schedule"
)

// This model explores all interleavings of three processes: a schedule S, the store P that keeps
// the log of S, and the run of each tick. Any worker may execute S, and commits of S are atomic. P
// may fail over and lose the end of the log of S. It does not lose the runs that S has started in
// other partitions. The real code computes plans and IDs.

const modelTicks = 3

// modelLog is the part of the state of S that P keeps.
type modelLog struct {
	next    uint8 // first tick without a decision
	pending uint8 // tick that was recorded and not sent, counted from 1; only with the bug advanceFirst
	records [modelTicks]uint8
	passed  [modelTicks]bool // ticks that were recorded as skipped or too late
	life    uint8            // number of the continuation of S; never used twice
}

// The states of a record that starts a run. The record may be sent again after it was answered.
const (
	unwritten uint8 = iota
	fresh
	answered
	settled
)

type scheduleModel struct {
	p, snap modelLog
	snapped bool
	now     uint8 // number of ticks that are due
	started [modelTicks]uint8
	by      [modelTicks]uint8 // continuation of S that started the run of the tick
	refused [modelTicks]bool  // ticks that were refused because another run was active
	active  uint8             // tick of the active run, counted from 1; 0: none
	two     bool              // two runs were active at the same time
	fails   uint8             // number of failovers that may still happen
	crashes uint8
	lives   uint8
}

// modelBugs are mistakes that rule L13 of the design excludes.
type modelBugs struct {
	idOfRun      bool // the ID of a tick's run depends on the run of S
	advanceFirst bool // a tick is recorded in one commit and started in another one
	lookAtLog    bool // S decides about overlap from its own log
	ownClock     bool // ticks are due by the clock of a worker, which is fast
}

var modelBegin = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)

// modelLives are the run IDs of the continuations of S.
var modelLives = func() (all [100]RunID) {
	for i := range all {
		all[i] = event.NewRunID(modelBegin, 0)
	}
	return all
}()

// modelTick returns the due time of tick k.
func modelTick(k uint8) time.Time { return modelBegin.Add(time.Duration(k+1) * time.Minute) }

// modelID returns the ID of the run that a continuation of S starts for tick k.
func modelID(b modelBugs, k, life uint8) RunID {
	if b.idOfRun {
		return event.DerivedRunID(modelLives[life], fmt.Sprint(k), 0)
	}
	return event.TickRunID("s", tickID(modelTick(k)), modelTick(k))
}

// broken returns a description of the violated promise, or "" if no promise is violated.
func (s *scheduleModel) broken() string {
	for k := range modelTicks {
		decided := s.p.records[k] != unwritten || s.p.passed[k] || s.p.pending == uint8(k+1) || s.snapped
		switch {
		case s.started[k] > 1:
			return fmt.Sprintf("tick %d has two runs", k)
		case s.p.next > uint8(k) && !decided:
			return fmt.Sprintf("tick %d was passed, and is neither started nor recorded as passed over", k)
		}
	}
	switch {
	case s.two:
		return "two runs are active at once"
	case s.p.next > s.now:
		return "a tick was taken before its time"
	}
	return ""
}

// over reports whether all ticks have been decided and all runs have ended.
func (s *scheduleModel) over() bool {
	for k := range modelTicks {
		if s.started[k] == 0 && !s.refused[k] && !s.p.passed[k] || s.p.records[k] == fresh {
			return false
		}
	}
	return s.p.next == modelTicks && s.active == 0 && !s.snapped
}

// steps calls do for each possible next step.
func (s scheduleModel) steps(c *timing, b modelBugs, do func(label string, fault bool, next scheduleModel)) {
	try := func(label string, fault bool, f func(n *scheduleModel)) {
		n := s
		f(&n)
		do(label, fault, n)
	}
	if s.now < modelTicks {
		try("time passes", false, func(n *scheduleModel) { n.now++ })
	}
	s.decide(c, b, try)
	if k := s.p.pending; k != 0 {
		try("S sends what it has taken", false, func(n *scheduleModel) { n.p.records[k-1], n.p.pending = fresh, 0 })
		if s.crashes > 0 {
			try("a worker dies", true, func(n *scheduleModel) { n.crashes--; n.p.pending = 0 })
		}
	}
	for k := range uint8(modelTicks) {
		if r := s.p.records[k]; r != fresh && r != answered {
			continue
		}
		arrive := func(n *scheduleModel) {
			known := n.started[k] > 0 && modelID(b, k, n.p.life) == modelID(b, k, n.by[k])
			switch {
			case known || n.refused[k]:
			case c.Overlap != schedule.Allow && n.active != 0 && !b.lookAtLog:
				n.refused[k] = true
			default:
				n.started[k]++
				n.by[k] = n.p.life
				n.two = n.two || c.Overlap != schedule.Allow && n.active != 0
				n.active = k + 1
			}
		}
		try(fmt.Sprintf("the start of tick %d arrives, the answer is lost", k), true, arrive)
		try(fmt.Sprintf("the start of tick %d is carried over", k), false, func(n *scheduleModel) { arrive(n); n.p.records[k]++ })
	}
	if s.active != 0 {
		try("the run of a tick ends", false, func(n *scheduleModel) { n.active = 0 })
	}
	switch {
	case s.snapped:
		try("P fails over", true, func(n *scheduleModel) { n.p, n.snap, n.snapped = n.snap, modelLog{}, false })
		try("replication catches up", false, func(n *scheduleModel) { n.snap, n.snapped = modelLog{}, false })
	case s.fails > 0:
		try("replication stops", true, func(n *scheduleModel) { n.fails--; n.snap, n.snapped = n.p, true })
	}
}

// decide applies the plan that S computes.
func (s *scheduleModel) decide(c *timing, b modelBugs, try func(string, bool, func(*scheduleModel))) {
	until := modelBegin.Add(time.Duration(s.now) * time.Minute)
	if b.ownClock {
		until = until.Add(time.Minute)
	}
	if s.p.next == modelTicks || s.p.pending != 0 || modelTick(s.p.next).After(until) {
		return
	}
	if k := s.p.next; b.advanceFirst {
		try(fmt.Sprintf("S takes tick %d", k), false, func(n *scheduleModel) { n.p.next++; n.p.pending = k + 1 })
		return
	}
	p := c.plan("s", modelTick(s.p.next), until)
	try(fmt.Sprintf("S starts %d ticks from %d on and continues", len(p.Start), s.p.next), false, func(n *scheduleModel) {
		for k := s.p.next; k < modelTicks && modelTick(k).Before(p.Next); k++ {
			n.p.passed[k] = true
		}
		for _, tick := range p.Start {
			k := uint8(tick.Sub(modelBegin)/time.Minute) - 1
			if k >= modelTicks || b.lookAtLog && s.active != 0 && s.p.records[s.active-1] != unwritten {
				continue
			}
			n.p.passed[k], n.p.records[k] = false, fresh
		}
		n.p.next = min(uint8(p.Next.Sub(modelBegin)/time.Minute)-1, modelTicks)
		n.lives++
		n.p.life = n.lives
	})
}

// exploreSchedules visits all states, breadth first. It returns the number of states. found is the
// shortest path to a state that violates a promise, or from which the end cannot be reached without
// faults. It is empty if there is no such state.
func exploreSchedules(c *timing, b modelBugs) (states int, found string) {
	type edge struct {
		from  int
		label string
	}
	first := scheduleModel{fails: 1, crashes: 1}
	ids, all, via := map[scheduleModel]int{first: 0}, []scheduleModel{first}, []edge{{}}
	way := func(i int) string {
		var labels []string
		for ; i != 0; i = via[i].from {
			labels = append([]string{via[i].label}, labels...)
		}
		return strings.Join(labels, "; ")
	}
	before := [][]int{nil} // predecessors of each state, without steps that are faults
	for i := 0; i < len(all) && found == ""; i++ {
		all[i].steps(c, b, func(label string, fault bool, next scheduleModel) {
			id, known := ids[next]
			if !known {
				id = len(all)
				ids[next], all, via, before = id, append(all, next), append(via, edge{i, label}), append(before, nil)
				if why := next.broken(); why != "" && found == "" {
					found = why + ": " + way(id)
				}
			}
			if !fault {
				before[id] = append(before[id], i)
			}
		})
	}
	if found != "" {
		return len(all), found
	}
	ends, queue := make([]bool, len(all)), []int{}
	for i := range all {
		if all[i].over() {
			ends[i], queue = true, append(queue, i)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, i := range before[queue[0]] {
			if !ends[i] {
				ends[i], queue = true, append(queue, i)
			}
		}
	}
	for i := range all {
		if !ends[i] {
			return len(all), "no way to the end: " + way(i)
		}
	}
	return len(all), ""
}

func TestModel_OfSchedulesKeepsItsPromisesInEveryState(t *testing.T) {
	for _, c := range []*timing{
		{schedule.Spec{When: "every 1m", Overlap: schedule.Allow}},
		{schedule.Spec{When: "every 1m", Overlap: schedule.Skip}},
		{schedule.Spec{When: "every 1m", Overlap: schedule.Allow, CatchUp: 90 * time.Second}},
	} {
		states, found := exploreSchedules(c, modelBugs{})
		if found != "" {
			t.Errorf("%+v: %s", *c, found)
		}
		if states < 1000 {
			t.Errorf("%+v: only %d states", *c, states)
		}
		t.Logf("%+v: %d states", *c, states)
	}
}

func TestModel_OfSchedulesFindsEachMistake(t *testing.T) {
	for name, tt := range map[string]struct {
		overlap schedule.Overlap
		b       modelBugs
		want    string
	}{
		"the id of a tick is one of the run": {schedule.Allow, modelBugs{idOfRun: true}, "has two runs"},
		"a tick is taken before it is sent":  {schedule.Allow, modelBugs{advanceFirst: true}, "was passed"},
		"a worker has a clock of its own":    {schedule.Allow, modelBugs{ownClock: true}, "before its time"},
		"overlap is decided by the log":      {schedule.Skip, modelBugs{lookAtLog: true}, "two runs are active at once"},
	} {
		if _, found := exploreSchedules(&timing{schedule.Spec{When: "every 1m", Overlap: tt.overlap}}, tt.b); !strings.Contains(found, tt.want) {
			t.Errorf("%s: found %q, want %q", name, found, tt.want)
		}
	}
}
