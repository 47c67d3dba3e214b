package pairs_test

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/alert"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// reporting is the queue of the runs whose failures are reported.
const reporting = "reporting"

// alerts are the states of runs that deliver alerts.
var alerts = []scene{
	{
		name: "alert, unserved", facts: facts{Kind: kindAlert, Unserved: true, Observed: Observed{Place: store.StateReady, Status: event.StatusPending}},
		alone: true, noID: true, end: event.StatusCompleted, prepare: reports("nobody"), play: alerted,
	},
	{
		name: "alert, backoff", everywhere: true, facts: facts{Kind: kindAlert, Observed: parked(event.StatusSleeping, true)},
		alone: true, noID: true, end: event.StatusCompleted, prepare: reports("door"), play: alerted,
	},
	{
		name: "alert, delivered", facts: facts{Kind: kindAlert, Observed: ended(event.StatusCompleted)},
		alone: true, noID: true, end: event.StatusCompleted, prepare: reports("open"), play: alerted,
	},
}

// reports returns a function that starts a worker which reports failed runs to a target.
func reports(target string) func(s *stage, _ []*cell) {
	return func(s *stage, _ []*cell) {
		s.Work(worker.Config{Queues: []string{reporting}, Alerts: alert.Config{
			Rules:   []alert.Rule{{Name: "pairs", Conditions: []alert.Condition{alert.Failed}, Filter: alert.Filter{Queues: []string{reporting}}, Window: alert.MaxWindow, Target: target}},
			Targets: map[string]alert.Target{"door": behindDoor{s}, "open": accepting{}},
		}}, s.bindings()...)
	}
}

// alerted starts a run that fails. The run that delivers the alert about it becomes the run of the
// cell.
func alerted(s *stage, c *cell) {
	s.T.Helper()
	s.mu.Lock()
	s.reported[reported(c.key).Error()] = c.key
	s.mu.Unlock()
	c.other(s, plain, "report", workflow.WithQueue(reporting))
	s.needs(c, "there is an alert", func() bool {
		for r, err := range s.Client.List(s.Ctx, workflow.Filter{Workflow: event.AlertRun, Tags: map[string]string{tagCell: c.key}}) {
			if err != nil {
				s.T.Fatal(err)
			}
			c.run = r.ID
		}
		return c.run != ""
	})
	c.unblock = func() {
		s.serve()
		s.needs(c, "the alert is delivered", func() bool { // before days pass, because a delivery is tried for a day
			o, there := observe(s.World, c.run)
			if o.Status == event.StatusSleeping {
				s.pass(time.Second)
			}
			return !there || isEnded(o)
		})
	}
}

// reported is the failure of a run that is reported. Its text has a letter for each digit of the
// key, because runs whose texts differ only in digits are in one failure group.
func reported(key string) error {
	return errors.New("reports " + strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return r - '0' + 'a'
		}
		return r
	}, key))
}

// behindDoor is a target that refuses an alert until the door of its cell is open.
type behindDoor struct{ s *stage }

// Deliver implements alert.Target.
func (b behindDoor) Deliver(_ context.Context, a *alert.Alert) error {
	b.s.mu.Lock()
	key := b.s.reported[a.Message]
	b.s.mu.Unlock()
	select {
	case <-b.s.door(key):
		return nil
	default:
		return errors.New("the door is shut")
	}
}

// accepting is a target that accepts all alerts.
type accepting struct{}

// Deliver implements alert.Target.
func (accepting) Deliver(context.Context, *alert.Alert) error { return nil }
