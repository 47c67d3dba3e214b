package speed

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// checkBatch is the number of logs per read.
const checkBatch = 200

// want lists the events that the log of a run must hold.
type want struct {
	result   any // required result of the run
	steps    int // number of completed steps
	waits    int // number of completed waits; negative if any number is right
	children int // number of completed children
}

// check reads the whole log of each run and compares it with the required contents. The function of
// returns the required contents for run i.
func (s *stage) check(ctx context.Context, runs []event.RunID, of func(i int) want) error {
	for from := 0; from < len(runs); from += checkBatch {
		part := runs[from:min(from+checkBatch, len(runs))]
		loads := make([]store.Load, len(part))
		for i, run := range part {
			loads[i].Run = run
		}
		loaded, err := s.client.Store().Load(ctx, loads) // opens sealed data
		if err != nil {
			return err
		}
		for i, l := range loaded {
			if l.Err != nil {
				return fmt.Errorf("run %s: %w", part[i], l.Err)
			}
			if err := checkLog(l.Frames, of(from+i)); err != nil {
				return fmt.Errorf("run %s: %w", part[i], err)
			}
		}
	}
	return nil
}

func checkLog(frames [][]byte, w want) error {
	var last *event.Event
	steps, waits, children := 0, 0, 0
	for _, b := range frames {
		f, err := event.DecodeFrame(b)
		if err != nil {
			return err
		}
		for i := range f.Events {
			last = &f.Events[i]
			switch last.Type {
			case event.StepCompleted:
				steps++
			case event.WaitCompleted:
				waits++
			case event.ChildCompleted:
				children++
			}
		}
	}
	if last == nil || last.Type != event.RunCompleted {
		return fmt.Errorf("it has not completed: %d steps, %d waits, %+v", steps, waits, last)
	}
	if steps != w.steps || w.waits >= 0 && waits != w.waits {
		return fmt.Errorf("its log has %d steps and %d waits, want %d and %d", steps, waits, w.steps, w.waits)
	}
	if children != w.children {
		return fmt.Errorf("its log has %d children, want %d", children, w.children)
	}
	got := reflect.New(reflect.TypeOf(w.result))
	if err := json.Unmarshal(last.Payload, got.Interface()); err != nil {
		return fmt.Errorf("read its result: %w", err)
	}
	if v := got.Elem().Interface(); v != w.result {
		return fmt.Errorf("its result is %v, want %v", v, w.result)
	}
	return nil
}
