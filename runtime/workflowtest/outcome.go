package workflowtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// kin contains a name for each run of an execution. The name describes the relation of the run to
// the run under test. It does not depend on IDs, so that two executions can be compared. The name
// of the run under test is empty. The names of its continuations are "turn 2/" and so on. The name
// of a child is the name of its parent, followed by the key of the call that started the child.
type kin map[event.RunID]string

func (k kin) name(run event.RunID) string { return k[run] }

// add names a run by the first event of its log. It first names the run that created it, because
// the Env may record a continuation after the children that the continuation has created.
func (k kin) add(run event.RunID, specs map[event.RunID]*event.Spec) {
	spec := specs[run]
	if _, named := k[run]; named || spec == nil {
		return
	}
	switch {
	case spec.ContinuedOf != "":
		k.add(spec.ContinuedOf, specs)
		before := strings.SplitAfter(k[spec.ContinuedOf], "/") // the last part is empty, because names end with a slash
		first, turn := len(before)-1, 1
		if _, err := fmt.Sscanf(before[max(first-1, 0)], "turn %d/", &turn); err == nil {
			first--
		}
		k[run] = fmt.Sprintf("%sturn %d/", strings.Join(before[:first], ""), turn+1)
	case spec.Parent != "":
		k.add(spec.Parent, specs)
		k[run] = k[spec.Parent] + spec.ParentKey + "/"
	default:
		k[run] = ""
	}
}

// read reads the outcomes of the run under test and of its continuations and descendants.
func (e *Env) read(tr *trial) {
	tr.kin, tr.steps = kin{}, map[string]stepEnd{}
	e.told.Lock()
	e.mu.Lock()
	runs := slices.Clone(e.runs)
	tr.asides = maps.Clone(e.asides)
	e.mu.Unlock()
	e.told.Unlock()
	logs, records, specs := map[event.RunID][]event.Event{}, map[event.RunID]*store.Record{}, map[event.RunID]*event.Spec{}
	following := map[event.RunID]event.RunID{} // continuation of each run
	for _, id := range runs {
		events, record, err := e.readRun(id)
		if err != nil {
			e.fail("workflowtest: read the run: " + err.Error())
			return
		}
		logs[id], records[id], specs[id] = events, record, events[0].Spec
		if of := specs[id].ContinuedOf; of != "" {
			following[of] = id
		}
	}
	for _, id := range runs {
		tr.kin.add(id, specs)
		stepEnds(logs[id], tr.kin.name(id), tr.steps)
		tr.blocked = tr.blocked || records[id].QueueState == store.StateBlocked
	}
	tr.events = logs[tr.Run.ID()]
	for id := tr.Run.ID(); logs[id] != nil; id = following[id] { // follow the chain, because e.runs may have another order
		if id != tr.Run.ID() {
			tr.Log = append(tr.Log, "continued as:")
		}
		tr.Log = append(tr.Log, textOf(logs[id])...)
		tr.last, tr.Status = logs[id], records[id].Status
		if end := logs[id][len(logs[id])-1]; end.Type.Terminal() {
			tr.Result, tr.Failure = end.Payload, end.Failure
		}
	}
}

func (e *Env) readRun(id event.RunID) ([]event.Event, *store.Record, error) {
	loaded, err := e.store.Load(e.ctx, []store.Load{{Run: id}})
	if err == nil {
		err = loaded[0].Err
	}
	if err != nil {
		return nil, nil, err
	}
	events, err := decode(loaded[0].Frames)
	return events, &loaded[0].Record, err
}

// stepEnds adds the outcome of each step of a run to ends. The keys of ends are the name of the run
// followed by the key of the step.
func stepEnds(events []event.Event, run string, ends map[string]stepEnd) {
	created := map[uint64]*event.Event{}
	for i := range events {
		ev := &events[i]
		switch ev.Type {
		case event.StepCreated:
			created[ev.Seq] = ev
		case event.StepCompleted, event.StepFailed:
			c := created[ev.Ref]
			if c.Name == event.ReadStep { // its result depends on the time at which it reads
				break
			}
			end := stepEnd{Step: c.Name, Args: string(c.Payload), Result: string(ev.Payload)}
			if ev.Failure != nil {
				end.Code = ev.Failure.Code
			}
			ends[run+c.Key] = end
		}
	}
}

// received describes an event that was sent from outside of the run.
func received(ev *event.Event) string {
	switch ev.Type {
	case event.HookReceived:
		return "a payload of a hook"
	case event.HookMissed:
		return "a payload of a hook that was closed"
	case event.AskReceived, event.AskAccepted:
		return "a question of ask " + ev.Name
	}
	return "a message of topic " + ev.Name
}

// unread describes the messages that the run has accepted but not read.
func (o *Outcome) unread() []string {
	if len(o.last) == 0 {
		return nil
	}
	end := &o.last[len(o.last)-1]
	var lines []string
	for _, id := range end.Unread {
		if _, notice := event.NoticeFor(id); notice || o.asides[id] {
			continue
		}
		line := "a message that came when the code had ended"
		for i := range o.last {
			if ev := &o.last[i]; ev.Item == id {
				line = fmt.Sprintf("event %d, %s: %s", ev.Seq, received(ev), ev.Payload)
			}
		}
		lines = append(lines, line)
	}
	return lines
}
