package workflow

import "github.com/flowgen/flowgen/runtime/event"

// ScheduleRuns are the runs of schedules, for tests that break their workers.
var ScheduleRuns = schedules

// ScheduleInput returns the input of the run of a schedule.
func ScheduleInput[In, Out any](c *Client, d Definition[In, Out], name string, s Schedule, in In) (scheduleState, error) {
	does, err := d.def().scheduled(c, name, s, in, nil)
	return scheduleState{Name: name, Does: does}, err
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
