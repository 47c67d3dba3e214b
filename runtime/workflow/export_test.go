package workflow

import (
	"log/slog"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// ScheduleRuns are the runs of schedules, for tests that break their workers.
var ScheduleRuns = schedules

// WantStarts lets the code of schedules want another number of starts for each of their runs, and returns what it was.
func WantStarts(n int) (before int) {
	before, startsWanted = startsWanted, n
	return before
}

// ReplaySchedule replays the log of a run of a schedule.
func ReplaySchedule(c *Client, run RunID, events []event.Event) error {
	program, short, _ := new(registry).Program(event.ScheduleRun, engineClient{c}, slog.Default())
	r := replay.New(run, short, program, nil)
	defer r.Close()
	return r.Replay(events)
}

// ScheduleInput returns the input of the run of a schedule.
func ScheduleInput[In, Out any](c *Client, d Definition[In, Out], name string, s Schedule, in In) (scheduleState, error) {
	does, err := d.def().scheduled(c, name, s, in, nil)
	return scheduleState{Name: name, Does: does}, err
}

// Missed lets nobody have decided about the ticks of a schedule from one on.
func Missed(s scheduleState, next time.Time) scheduleState {
	s.Begun, s.Next = true, next
	return s
}

// PausedFrom starts the run of a schedule with a pause from a time on.
func PausedFrom(at time.Time) StartOption {
	return WithMessage(scheduleOrders, scheduleOrder{At: at, Pause: true})
}

// Unread makes the expression of a schedule one that this machine cannot read.
func Unread(s scheduleState, when string) scheduleState {
	does := *s.Does
	does.When = when
	s.Does = &does
	return s
}

// OpenHooks are those of a run with a log.
func OpenHooks(run RunID, events []event.Event) ([]HookInfo, error) {
	var l followedLog
	if !l.apply(events) {
		return nil, &EventError{Run: run, Frame: 1, Err: event.ErrCorrupt}
	}
	all, _, err := l.openHooks(run)
	return all, err
}
