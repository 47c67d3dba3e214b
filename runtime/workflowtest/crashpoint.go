package workflowtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
)

// when determines whether the worker is killed before or after a request.
type when string

const (
	before when = "lost"       // the request does not arrive
	after  when = "unanswered" // the request is executed, but its response does not arrive
)

// point is a crash point: a point at which the worker can be killed.
type point struct {
	id     string // name of the point in the flag, for example commit:3:lost
	what   string // kind of the request; empty: everything waits
	n      int    // number of the request among those of its kind, from 1
	when   when
	writes bool
	frames [][]byte // frames that the request appends
	last   string   // last event of the log
}

// String describes the point.
func (p *point) String() string {
	switch {
	case p.what == "" && p.last == "":
		return fmt.Sprintf("everything waited, for the time number %d", p.n)
	case p.what == "":
		return fmt.Sprintf("everything waited, for the time number %d; the log ended with event %s", p.n, p.last)
	case p.when == before:
		return fmt.Sprintf("%s %d%s was sent, and did not arrive", p.what, p.n, holding(p.frames))
	case p.writes:
		return fmt.Sprintf("%s %d%s was carried out, and its answer did not arrive", p.what, p.n, holding(p.frames))
	}
	return fmt.Sprintf("%s %d was answered, and nothing was done with the answer", p.what, p.n)
}

// crashPlan contains the points at which to kill the worker, and the points that the worker has
// reached. Env.mu guards it.
type crashPlan struct {
	kills   []string       // remaining points; the first is the next one
	counts  map[string]int // number of requests of each kind, and of moments in which everything waited
	reached []point
	killed  []int // indices into reached
}

// reach records that the worker has reached a point. It kills the worker if the plan contains the
// point, and reports whether it did.
func (e *Env) reach(l *incarnation, r request, w when) bool {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return false
	}
	plan := &e.crash
	if plan.counts == nil {
		plan.counts = map[string]int{}
	}
	if w == before || !r.writes {
		plan.counts[r.what]++
	}
	n := plan.counts[r.what]
	p := point{id: fmt.Sprintf("%s:%d:%s", r.what, n, w), what: r.what, n: n, when: w, writes: r.writes, frames: r.frames}
	dies := plan.visit(p)
	revives := dies && !e.virtual()
	if revives {
		e.background.Add(1) // while the Env is open: close waits for goroutines added before
	}
	e.mu.Unlock()
	if dies {
		l.kill()
	}
	if revives {
		go func() {
			defer e.background.Done()
			_ = e.revive() // revive reports an error to the test
		}()
	}
	return dies
}

// visit records a point. It reports whether the worker must be killed there.
func (p *crashPlan) visit(at point) bool {
	p.reached = append(p.reached, at)
	if len(p.kills) == 0 || p.kills[0] != at.id {
		return false
	}
	p.kills = p.kills[1:]
	p.killed = append(p.killed, len(p.reached)-1)
	return true
}

// reachQuiet records that everything waits. It kills the worker if the plan contains this point,
// and reports whether it did.
func (e *Env) reachQuiet() bool {
	l := e.current()
	if l == nil {
		return false
	}
	e.mu.Lock()
	plan := &e.crash
	if plan.counts == nil {
		plan.counts = map[string]int{}
	}
	plan.counts["quiet"]++
	n := plan.counts["quiet"]
	dies := plan.visit(point{id: fmt.Sprintf("quiet:%d", n), n: n, last: e.lastEvent})
	e.mu.Unlock()
	if dies {
		l.kill()
	}
	return dies
}

// holding describes the events in frames, for the description of a point.
func holding(frames [][]byte) string {
	var names []string
	for _, b := range frames {
		if b == nil {
			continue
		}
		f, err := event.DecodeFrame(b)
		if err != nil {
			continue
		}
		for i := range f.Events {
			names = append(names, short(&f.Events[i]))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return " (" + strings.Join(names, ", ") + ")"
}

func short(ev *event.Event) string {
	s := fmt.Sprintf("%d %s", ev.Seq, ev.Type)
	if ev.Key != "" {
		s += " " + ev.Key
	}
	return s
}

// committed records the events of a frame that is durable.
func (e *Env) committed(run event.RunID, frame []byte) {
	if frame == nil {
		return
	}
	f, err := event.DecodeFrame(frame)
	if err != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.keys == nil {
		e.keys = map[event.RunID]map[uint64]string{}
	}
	if e.keys[run] == nil {
		e.keys[run] = map[uint64]string{}
	}
	for i := range f.Events {
		ev := &f.Events[i]
		e.lastEvent = short(ev)
		switch ev.Type {
		case event.StepCreated:
			e.keys[run][ev.Seq] = ev.Key
		case event.StepStarted:
			e.attempts[string(run)+" "+e.keys[run][ev.Ref]] = ev.Attempt
		case event.StepCompleted:
			e.completed[string(run)+" "+e.keys[run][ev.Ref]] = true
		case event.HookCreated, event.StepHookCreated:
			e.opened(run, ev)
		}
	}
}

// effect is one execution of a step.
type effect struct {
	Run         event.RunID
	Step        string
	Key         string
	incarnation int
	// again reports that the step had completed before the execution began.
	again bool
	once  bool // the step is not idempotent
}

// launched fails the test if an attempt was launched before its start was durable.
func (e *Env) launched(x *execution) {
	e.mu.Lock()
	durable := e.attempts[e.entry(x)]
	ours := slices.Contains(e.runs, x.info.Log) // the durable events of other runs are unknown
	e.mu.Unlock()
	if ours && durable < x.info.Number {
		e.fail(fmt.Sprintf("workflowtest: attempt %d of step %s (%s) was launched before its start was recorded: that is a defect of the engine",
			x.info.Number, x.info.Step, x.info.Key))
	}
}

// begun records that the code of a step is about to run. It returns false if the worker was killed.
func (e *Env) begun(x *execution) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x.incarnation.dead.Load() {
		return false
	}
	e.effects = append(e.effects, effect{
		Run: x.info.Log, Step: x.info.Step, Key: x.info.LogKey, incarnation: x.incarnation.number,
		again: e.completed[e.entry(x)], once: x.once,
	})
	return true
}

// entry returns the key of the execution's step in the maps attempts and completed.
func (e *Env) entry(x *execution) string {
	return string(x.info.Log) + " " + x.info.LogKey
}
