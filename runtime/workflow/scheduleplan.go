package workflow

import (
	"cmp"
	"hash/fnv"
	"time"

	"github.com/flowgen/flowgen/internal/cron"
)

// tickPlan is the decision about the ticks up to a time.
type tickPlan struct {
	Start  []time.Time `json:"start,omitempty"`
	Late   int         `json:"late,omitempty"`   // number of ticks that were too late
	Passed int         `json:"passed,omitempty"` // number of ticks skipped for a newer one
	Next   time.Time   `json:"next"`             // first tick without a decision; zero: there is none
	// Problem is the reason why no tick is known.
	Problem string `json:"problem,omitempty"`
}

const (
	// ticksAtOnce is the number of ticks that one plan examines.
	ticksAtOnce = 10_000
	// startsAtOnce is the number of ticks that one plan starts.
	startsAtOnce = 50
)

// plan decides about the ticks from next on that are due until a time. If there are many, it covers
// only the first of them, and the caller repeats the call.
//
// The result is recorded: the rules of a time zone differ between machines and releases, so a
// replay must not compute ticks again.
func (s *Schedule) plan(name string, next, until time.Time) tickPlan {
	ticks, err := cron.Parse(s.When)
	if err != nil {
		return tickPlan{Next: next, Problem: err.Error()}
	}
	var p tickPlan
	late := s.late(name, ticks, until.Add(-s.catchUp()))
	isDue := func() bool { return !next.IsZero() && !s.due(name, next).After(until) }
	for looked := 0; isDue() && looked < ticksAtOnce && len(p.Start) < startsAtOnce; looked++ {
		switch {
		case late(next):
			p.Late++
		case s.Overlap.each():
			p.Start = append(p.Start, next)
		default:
			p.Passed += len(p.Start)
			p.Start = []time.Time{next}
		}
		next = ticks.Next(next)
	}
	if p.Next = next; isDue() && !s.Overlap.each() {
		p.Passed += len(p.Start)
		p.Start = nil
	}
	return p
}

// late returns a function that must be called for consecutive ticks, and reports whether a tick
// should have started before oldest. A tick starts when it and all earlier ticks are due; an
// earlier tick may have a longer jitter delay. Ticks older than the jitter are due before any later
// tick.
func (s *Schedule) late(name string, ticks *cron.Ticks, oldest time.Time) func(tick time.Time) bool {
	inTime := false // one of the earlier ticks is in time
	looked := false // the ticks before the first one were examined
	return func(tick time.Time) bool {
		inTime = inTime || !s.due(name, tick).Before(oldest)
		if !inTime && !looked && tick.Add(s.Jitter).After(oldest) {
			before := ticks.Next(tick.Add(-s.Jitter))
			for !before.IsZero() && before.Before(tick) && !inTime { // the loop may find none if another machine has other rules for the zone
				inTime = !s.due(name, before).Before(oldest)
				before = ticks.Next(before)
			}
			looked = true
		}
		return !inTime
	}
}

func (s *Schedule) catchUp() time.Duration { return cmp.Or(s.CatchUp, MaxCatchUp) }

// due returns when a tick is started. The logs of schedules contain it as the due time of a timer,
// so it must not change for a tick for which a schedule waits.
func (s *Schedule) due(name string, tick time.Time) time.Time {
	if s.Jitter <= 0 {
		return tick
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(tickID(tick) + " " + name))
	// The low bits of this hash have no better distribution than those of its input.
	return tick.Add(time.Duration((h.Sum64() * 0x9e3779b97f4a7c15 >> 1) % uint64(s.Jitter)).Truncate(time.Millisecond))
}

// first returns the first tick after a time.
func (s *Schedule) first(after time.Time) tickPlan {
	ticks, err := cron.Parse(s.When)
	if err != nil {
		return tickPlan{Problem: err.Error()}
	}
	return tickPlan{Next: ticks.Next(after)}
}

// dueAfter returns the first tick from next on that is due after a time.
func (s *Schedule) dueAfter(name string, next, after time.Time) tickPlan {
	if oldest := after.Add(-s.Jitter); next.IsZero() || !next.After(oldest) {
		next = oldest // all ticks up to oldest are due earlier
	} else {
		next = next.Add(-time.Millisecond)
	}
	p := s.first(next)
	for !p.Next.IsZero() && !s.due(name, p.Next).After(after) {
		p = s.first(p.Next)
	}
	return p
}

// backfill returns the first ticks of a range.
func (s *Schedule) backfill(from, to time.Time) tickPlan {
	ticks, err := cron.Parse(s.When)
	if err != nil {
		return tickPlan{Problem: err.Error()}
	}
	p := tickPlan{Next: ticks.Next(from.Add(-time.Millisecond))}
	for ; !p.Next.IsZero() && p.Next.Before(to) && len(p.Start) < startsAtOnce; p.Next = ticks.Next(p.Next) {
		p.Start = append(p.Start, p.Next)
	}
	if !p.Next.Before(to) {
		p.Next = time.Time{}
	}
	return p
}

// tickID identifies a tick, independent of the time zone in which it is given.
func tickID(tick time.Time) string { return tick.UTC().Format(time.RFC3339Nano) }
