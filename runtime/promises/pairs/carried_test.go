package pairs_test

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// The attributes of the runs and items of a cell.
const (
	attrCell    = "cell"    // key of the cell, set by the starts of the scene
	attrCommand = "command" // key of the cell, set by its commands
	attrSeen    = "seen"    // operation, set by the interceptor of the client
)

// start starts a run that carries the key of its input.
func (s *stage) start(d workflow.Definition[work, string], in work, opts ...workflow.StartOption) *workflow.Run[string] {
	s.T.Helper()
	run, err := d.Start(s.carrying(in.Key), s.Client, in, opts...)
	flowtest.Order(s.T, err)
	return run
}

func (s *stage) carrying(key string) context.Context {
	return workflow.WithAttribute(s.Ctx, attrCell, key)
}

// carried returns an error unless the attributes of a run are those with which its first ancestor
// was started. name is the name of its work.
func (s *stage) carried(got map[string]string, name string) error {
	key := attrCell
	if strings.HasSuffix(name, "/started") {
		key = attrCommand
	}
	for _, by := range []string{"/started", "/other", "/child", "/next"} {
		name = strings.TrimSuffix(name, by)
	}
	return s.carriesOnly(got, map[string]string{key: name}, workflow.OperationStart)
}

// carriesOnly returns an error unless got contains want and the attribute of the client's
// interceptor, if there is one, and no other attribute of a program.
func (s *stage) carriesOnly(got, want map[string]string, op workflow.Operation) error {
	got, want = maps.Clone(got), maps.Clone(want)
	delete(got, "build")
	if s.watch != nil {
		want[attrSeen] = string(op)
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("attributes: got %v, want %v", got, want)
	}
	return nil
}

// attributesFit fails cells with a run whose attributes are not those of the run from which it
// comes, or with an item that does not carry those of its command.
func attributesFit(s *stage, cells []*cell) {
	s.T.Helper()
	byTag := map[string]*cell{}
	for _, c := range cells {
		byTag[c.key], byTag[c.key+"/started"] = c, c
	}
	snap := s.snapshot()
	for id, r := range snap.Runs {
		state := stateOf(r.Frames)
		if state.Spec == nil {
			continue
		}
		tag := r.Tags[tagCell]
		if parent := snap.Runs[state.Spec.Parent]; tag == "" && parent != nil { // runs of the runtime have no tags
			tag = parent.Tags[tagCell]
		}
		c := byTag[tag]
		if c == nil {
			continue
		}
		var err error
		switch name := r.Route.Workflow; {
		case !event.Internal(name), event.IsStepRun(name):
			err = s.carried(state.Spec.Attributes, tag)
		case len(state.Spec.Attributes) > 0 && in(name, event.HookRun, event.PermitRun, event.AlertRun):
			err = fmt.Errorf("a run of the runtime carries %v", state.Spec.Attributes)
		}
		if err != nil {
			c.breaks("EV11", "run %s of %s: %v", id, r.Route.Workflow, err)
		}
		for _, e := range eventsOf(r.Frames) {
			if op := sentBy(&e); op != "" {
				if err := s.carriesOnly(e.Attributes, map[string]string{attrCommand: c.key}, op); err != nil {
					c.breaks("EV11", "event %d of run %s, %s: %v", e.Seq, id, e.Type, err)
				}
			}
		}
	}
}

// sentBy returns the operation by which a command of a cell has sent the item that an event
// records. It returns "" for all other events.
func sentBy(e *event.Event) workflow.Operation {
	switch {
	case e.Type == event.MessageReceived && string(e.Payload) == `"sent"`:
		return workflow.OperationSend
	case e.Type == event.HookReceived && string(e.Payload) == `"sent"`:
		return workflow.OperationHook
	case e.Type == event.AskReceived:
		return workflow.OperationAsk
	}
	return ""
}
