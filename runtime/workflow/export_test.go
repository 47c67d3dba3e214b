package workflow

import (
	"log/slog"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/schedule"
)

// ScheduleRuns is the definition of the runs of schedules. Tests use it in workers that they stop.
var ScheduleRuns = schedules

// WantStarts sets the number of starts after which a run of a schedule continues as new, and
// returns the previous number.
func WantStarts(n int) (before int) {
	before, startsWanted = startsWanted, n
	return before
}

// ReplaySchedule replays the log of a schedule's run.
func ReplaySchedule(c *Client, run RunID, events []event.Event) error {
	program, short, _ := new(flow.Registry).Program(event.ScheduleRun, c.inner(), slog.Default(), nil)
	r := replay.New(run, short, program, nil)
	defer r.Close()
	return r.Replay(events)
}

// ScheduleInput returns the input of a schedule's run.
func ScheduleInput[In, Out any](c *Client, d Definition[In, Out], name string, s schedule.Spec, in In) (scheduleState, error) {
	does, err := d.def().scheduled(c.inner(), name, s, in, nil)
	return scheduleState{Name: name, Does: does}, err
}

// Missed returns the state s with no decision about the ticks from next on.
func Missed(s scheduleState, next time.Time) scheduleState {
	s.Begun, s.Next = true, next
	return s
}

// PausedFrom is an option that starts the run of a schedule with a pause that begins at the given
// time.
func PausedFrom(at time.Time) StartOption {
	return WithMessage(scheduleOrders, scheduleOrder{ScheduleOrder: flow.ScheduleOrder[schedule.Spec, schedule.Backfill]{At: at, Pause: true}})
}

// Unread replaces the expression of a schedule with an expression that this machine cannot parse.
func Unread(s scheduleState, when string) scheduleState {
	does := *s.Does
	does.When = when
	s.Does = &does
	return s
}

// OpenHooks returns the open hooks of a run with the given log.
func OpenHooks(run RunID, events []event.Event) ([]HookInfo, error) {
	var l followedLog
	if !l.apply(events) {
		return nil, &EventError{Run: run, Frame: 1, Err: event.ErrCorrupt}
	}
	all, _, err := l.openHooks(run)
	return all, err
}
