package otelflow

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/observe"
	"github.com/flowgen/flowgen/runtime/store"
)

// unreadRuns are runs of this process that have ended and whose logs could not be read to export
// the spans of the events that others have committed. Each renewal tries again.
type unreadRuns struct {
	mu   sync.Mutex
	runs map[event.RunID]unreadRun
}

type unreadRun struct {
	events int       // number of events that others have committed
	ended  time.Time // when the run has ended
	tries  int
}

// add adds a run. It returns false if there are too many.
func (u *unreadRuns) add(id event.RunID, r unreadRun) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.runs) >= maxUnread {
		return false
	}
	if u.runs == nil {
		u.runs = map[event.RunID]unreadRun{}
	}
	u.runs[id] = r
	return true
}

// take removes and returns the runs.
func (u *unreadRuns) take() map[event.RunID]unreadRun {
	u.mu.Lock()
	defer u.mu.Unlock()
	runs := u.runs
	u.runs = nil
	return runs
}

func (u *unreadRuns) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.runs)
}

// oldest returns the end of the run that has ended first, or now if there is none.
func (u *unreadRuns) oldest(now time.Time) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, r := range u.runs {
		if r.ended.Before(now) {
			now = r.ended
		}
	}
	return now
}

// exportInherited exports the spans of the events of an ended run that others have committed.
func (t *Telemetry) exportInherited(id event.RunID, r unreadRun) {
	err := t.exportAgain(id, r.events)
	if err == nil {
		return
	}
	if r.tries++; r.tries >= maxTries || !t.unread.add(id, r) {
		t.failed("the spans of a run are lost, because its log cannot be read", err)
	} else if r.tries == 1 {
		t.failed("read the log of a run to export its spans: trying again", err)
	}
}

// exportUnread tries again to export the runs whose logs could not be read.
func (t *Telemetry) exportUnread() {
	for id, r := range t.unread.take() {
		t.exportInherited(id, r)
	}
}

// exportAgain exports the spans that the first events of the log of a run end. A run that was removed
// has no spans.
func (t *Telemetry) exportAgain(id event.RunID, events int) error {
	record, log, err := t.read(id)
	if errors.Is(err, store.ErrRunNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	queue, _ := event.SplitQueue(record.Route.Queue)
	r := t.run(&observe.Run{ID: id, WorkflowID: record.WorkflowID, Workflow: record.Route.Workflow, Queue: queue})
	if r.spans == nil {
		return nil
	}
	for i := range log[:min(events, len(log))] {
		if !r.follow(&log[i], false) {
			break
		}
	}
	return nil
}

// read returns the record and the log of a run.
func (t *Telemetry) read(id event.RunID) (*store.Record, []event.Event, error) {
	t.mu.Lock()
	s := t.store
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	got, err := s.Load(ctx, []store.Load{{Run: id}})
	if err == nil {
		err = got[0].Err
	}
	if err != nil {
		return nil, nil, fmt.Errorf("run %s: %w", id, err)
	}
	var log []event.Event
	for _, frame := range got[0].Frames {
		f, err := event.DecodeFrame(frame)
		if err != nil {
			return nil, nil, fmt.Errorf("run %s: %w", id, err)
		}
		log = append(log, f.Events...)
	}
	return &got[0].Record, log, nil
}
