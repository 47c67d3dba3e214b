package cron

import (
	"cmp"
	"slices"
	"time"
)

// horizon is the number of days that are searched for the next tick. A combination of date and
// weekday recurs within 28 years, or within 40 years around a century year without a leap day.
const horizon = 41 * 366

// Next returns the first tick after a time in the zone of the schedule. It returns the zero time if
// there is none.
func (t *Ticks) Next(after time.Time) time.Time {
	if t.every > 0 {
		d := t.every.Milliseconds()
		ms := after.UnixMilli()
		n := ms / d
		if ms%d < 0 {
			n--
		}
		return time.UnixMilli((n + 1) * d).UTC()
	}
	if t.zone == nil {
		return time.Time{}
	}
	local := after.In(t.zone)
	// Wall clock times are represented as times in UTC, where each of them exists exactly once.
	day := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, time.UTC)
	day = day.AddDate(0, 0, -1) // The day may occur twice.
	for range horizon {
		if first, found := t.nextOn(day, after); found {
			// The next day may begin before this day ends, if the clock is set back across
			// midnight.
			if second, found := t.nextOn(day.AddDate(0, 0, 1), after); found {
				first = min(first, second)
			}
			return time.Unix(first, 0).In(t.zone)
		}
		day = day.AddDate(0, 0, 1)
	}
	return time.Time{}
}

// ever reports whether a matching day exists in any year.
func (t *Ticks) ever() bool {
	for d := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC); d.Year() < 2028; d = d.AddDate(0, 0, 1) {
		if t.dayFits(d) {
			return true
		}
	}
	return false
}

func (t *Ticks) dayFits(d time.Time) bool {
	if t.month>>int(d.Month())&1 == 0 {
		return false
	}
	day, weekday := t.day>>d.Day()&1 == 1, t.weekday>>int(d.Weekday())&1 == 1
	if t.dayAny || t.weekdayAny {
		return day && weekday
	}
	return day || weekday
}

// nextOn returns the first tick of a day after a time, in seconds since 1970. found is false if
// there is none.
func (t *Ticks) nextOn(day, after time.Time) (first int64, found bool) {
	if !t.dayFits(day) {
		return 0, false
	}
	periods := t.periods(day)
	last := after.Unix() // Ticks are whole seconds, so a tick after last is also after the given time.
	// Skip all wall clock times up to the latest time that the clock shows at this moment under any
	// offset of the day. This also skips times that the clock change omits, because the clock
	// showed an earlier time before the change.
	shown := last - day.Unix() + slices.MinFunc(periods, func(a, b period) int { return cmp.Compare(a.offset, b.offset) }).offset
	for h := int(max(0, shown/3600)); h < 24; h++ {
		if t.hour>>h&1 == 0 {
			continue
		}
		for m := range 60 {
			if t.minute>>m&1 == 0 {
				continue
			}
			for _, at := range t.met(day.Unix()+int64(h)*3600+int64(m)*60, periods) {
				if at > last && (!found || at < first) {
					first, found = at, true
				}
			}
			if found && len(periods) == 1 {
				return first, true // The offset is constant within a period, so all further ticks are later.
			}
		}
	}
	return first, found
}

// period is an interval in seconds since 1970 in which the zone has one offset from UTC.
type period struct{ begin, end, offset int64 }

// periods returns the intervals in which the clock may show a time of the day.
func (t *Ticks) periods(day time.Time) (all []period) {
	const most = 26 * time.Hour // upper bound of zone offsets and of clock changes
	from, until := day.Add(-most), day.Add(24*time.Hour+most)
	for at := from; ; {
		begin, end := at.In(t.zone).ZoneBounds()
		_, offset := at.In(t.zone).Zone()
		p := period{begin: from.Unix(), end: until.Unix(), offset: int64(offset)}
		if !begin.IsZero() {
			p.begin = begin.Unix()
		}
		if !end.IsZero() {
			p.end = end.Unix()
		}
		all = append(all, p)
		if end.IsZero() || !end.Before(until) {
			return all
		}
		at = end
	}
}

// met returns the times at which the clock shows wall, in seconds since 1970.
func (t *Ticks) met(wall int64, periods []period) []int64 {
	at := make([]int64, 0, 2)
	for _, p := range periods {
		if c := wall - p.offset; p.begin <= c && c < p.end {
			at = append(at, c)
		}
	}
	switch {
	case t.everyHour:
	case len(at) > 1:
		return at[:1]
	case len(at) == 0:
		for i := 1; i < len(periods); i++ {
			change, before, after := periods[i].begin, periods[i-1].offset, periods[i].offset
			if change+before <= wall && wall < change+after {
				return append(at, change)
			}
		}
	}
	return at
}
