package cron

import (
	"cmp"
	"slices"
	"time"
)

// horizon is how many days are looked through for the next tick. A date comes again within
// 28 years, or 40 around a year that would be a leap year but for its century.
const horizon = 41 * 366

// Next returns the first tick after a time, in the zone of the schedule; the zero time if
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
	// A wall clock is a time in UTC here: each of them exists once.
	day := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, time.UTC)
	day = day.AddDate(0, 0, -1) // which may come again
	for range horizon {
		if first, found := t.nextOn(day, after); found {
			// The day after may begin before this one ends, where the clock is set back
			// over midnight.
			if second, found := t.nextOn(day.AddDate(0, 0, 1), after); found {
				first = min(first, second)
			}
			return time.Unix(first, 0).In(t.zone)
		}
		day = day.AddDate(0, 0, 1)
	}
	return time.Time{}
}

// ever reports whether a year has a day that fits.
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

// nextOn returns the first tick of a day that is after a time, in seconds since 1970, and
// whether there is one.
func (t *Ticks) nextOn(day, after time.Time) (first int64, found bool) {
	if !t.dayFits(day) {
		return 0, false
	}
	periods := t.periods(day)
	last := after.Unix() // ticks are whole seconds: one is after this if it is after the time
	// What the clock has shown by then, wherever it was set, is met no more: not even a time that
	// it leaves out, for it showed less than that before the change.
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
				return first, true // the clock goes on evenly: what follows is later
			}
		}
	}
	return first, found
}

// period is a time in which the zone has one offset from UTC, in seconds since 1970.
type period struct{ begin, end, offset int64 }

// periods returns those in which the clock may show a time of a day.
func (t *Ticks) periods(day time.Time) (all []period) {
	const most = 26 * time.Hour // that zones are away from UTC, or clocks set forth or back
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

// met returns when a wall clock is met, in seconds since 1970.
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
