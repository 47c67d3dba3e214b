package event

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/oklog/ulid/v2"
)

// ScheduleRun is the workflow name of the runs that start others by the clock.
const ScheduleRun = "flowgen.schedule"

// ScheduleRunID is the workflow id of the run of a schedule.
func ScheduleRunID(schedule string) string { return "schedule:" + schedule }

// TicksRunID is the workflow id that the runs of a schedule share whose overlap is limited.
func TicksRunID(schedule string) string { return ScheduleRunID(schedule) + "/run" }

// TickRunID returns the id of the run that a schedule starts for one of its ticks, which
// begins at a time.
//
// It is derived from the name of the schedule and the tick, and not from the run that starts
// it, as [DerivedRunID] is: a schedule goes on as one run after the other, and each of them,
// asked for the same tick again, must meet the run that exists. All runs of a schedule have
// the slot of the workflow id that they may share, whatever they do about overlap, for an
// update may change that.
func TickRunID(schedule, tick string, at time.Time) RunID {
	var u ulid.ULID
	sum := sha256.Sum256([]byte("schedule\x00" + schedule + "\x00" + tick))
	copy(u[6:14], sum[:])
	ms := min(max(at.UnixMilli(), 0), int64(ulid.MaxTime()))
	if err := u.SetTime(uint64(ms)); err != nil {
		panic("event: " + err.Error()) // the time was clamped
	}
	binary.BigEndian.PutUint16(u[14:], SlotOf(TicksRunID(schedule)))
	return RunID(PrefixRun + "_" + u.String())
}
