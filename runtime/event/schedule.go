package event

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/oklog/ulid/v2"
)

// ScheduleRun is the workflow name of runs that implement schedules.
const ScheduleRun = "flowgen.schedule"

// ScheduleRunID returns the workflow ID of a schedule's run.
func ScheduleRunID(schedule string) string { return "schedule:" + schedule }

// TicksRunID returns the workflow ID shared by the runs of a schedule that may not overlap.
func TicksRunID(schedule string) string { return ScheduleRunID(schedule) + "/run" }

// TickRunID returns the ID of the run that a schedule starts for one of its ticks, with the nominal
// time at.
//
// Unlike [DerivedRunID], it is derived from the name of the schedule and the tick, and not from the
// run that starts it: a schedule is a chain of runs, and each of them must find the existing run of
// a tick. All runs of a schedule have the slot of the workflow ID that they may share, regardless
// of the overlap policy, because an update may change the policy.
func TickRunID(schedule, tick string, at time.Time) RunID {
	var u ulid.ULID
	sum := sha256.Sum256([]byte("schedule\x00" + schedule + "\x00" + tick))
	copy(u[6:14], sum[:])
	ms := min(max(at.UnixMilli(), 0), int64(ulid.MaxTime()))
	if err := u.SetTime(uint64(ms)); err != nil {
		panic("event: " + err.Error()) // cannot happen: the time was clamped
	}
	binary.BigEndian.PutUint16(u[14:], SlotOf(TicksRunID(schedule)))
	return RunID(PrefixRun + "_" + u.String())
}
