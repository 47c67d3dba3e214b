package cron

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // Embed the zone database, so that all machines have the same zones.
)

// Ticks contains the times of a schedule. The zero value has no ticks. Create Ticks with [Parse].
type Ticks struct {
	text  string
	every time.Duration // 0 for a cron expression
	zone  *time.Location

	minute, hour, day, month, weekday uint64 // bit n is set if n is in the field
	dayAny, weekdayAny                bool   // the field begins with *
	everyHour                         bool   // the hour is * or */n
}

// Error describes why a text is not a valid schedule.
type Error struct {
	Text    string // the input text
	Problem string // the problem and its fix
}

// Error returns the text and the problem.
func (e *Error) Error() string { return fmt.Sprintf("schedule %q: %s", e.Text, e.Problem) }

// MinEvery is the shortest permitted interval of a schedule.
const MinEvery = time.Second

// example is appended to problems with the form of the whole text.
const example = `for example "30 2 * * * Europe/Zurich"`

var (
	monthNames = []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}
	dayNames   = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
)

// Parse parses a cron expression or an interval. The error is an *[Error].
func Parse(text string) (*Ticks, error) {
	t := &Ticks{text: strings.Join(strings.Fields(text), " "), zone: time.UTC}
	problem := t.parse(strings.Fields(text))
	if problem != "" {
		return nil, &Error{Text: text, Problem: problem}
	}
	return t, nil
}

// String returns the text, with one space between its fields.
func (t *Ticks) String() string { return t.text }

// Zone returns the time zone of the fields.
func (t *Ticks) Zone() *time.Location { return t.zone }

func (t *Ticks) parse(f []string) (problem string) {
	if len(f) > 0 && f[0] == "every" {
		return t.parseEvery(f[1:])
	}
	switch {
	case len(f) == 1:
		return "1 field: want 5 (minute hour day month weekday) and a time zone, " + example
	case len(f) < 5:
		return fmt.Sprintf("%d fields: want 5 (minute hour day month weekday) and a time zone, %s", len(f), example)
	case len(f) > 6:
		return fmt.Sprintf("%d fields: want 5 (minute hour day month weekday) and a time zone, without seconds, %s", len(f), example)
	case len(f) == 6:
		if problem := t.parseZone(f[5]); problem != "" {
			return problem
		}
	}
	for i, field := range []struct {
		what      string
		into      *uint64
		low, high int
		names     []string
	}{
		{"minute", &t.minute, 0, 59, nil},
		{"hour", &t.hour, 0, 23, nil},
		{"day", &t.day, 1, 31, nil},
		{"month", &t.month, 1, 12, monthNames},
		{"weekday", &t.weekday, 0, 7, dayNames},
	} {
		bits, problem := span{field.low, field.high, field.names}.list(f[i])
		if problem != "" {
			return field.what + ": " + problem
		}
		*field.into = bits
	}
	t.weekday |= t.weekday >> 7 & 1 // Both 0 and 7 represent Sunday.
	t.dayAny, t.weekdayAny = f[2][0] == '*', f[4][0] == '*'
	t.everyHour = f[1][0] == '*' && !strings.Contains(f[1], ",")
	if !t.ever() {
		return "no year has such a day: change the day or the month"
	}
	return ""
}

func (t *Ticks) parseEvery(f []string) (problem string) {
	if len(f) != 1 {
		return `want one duration and no time zone, for example "every 10m"`
	}
	d, err := time.ParseDuration(f[0])
	switch {
	case err != nil:
		return fmt.Sprintf(`%q is not a duration: write for example "every 10m"`, f[0])
	case d < MinEvery:
		return fmt.Sprintf("%v is too short: want at least %v", d, MinEvery)
	case d%time.Millisecond != 0:
		return fmt.Sprintf("%v has parts of a millisecond: leave them out", d)
	}
	t.every = d
	return ""
}

func (t *Ticks) parseZone(name string) (problem string) {
	zone, err := time.LoadLocation(name)
	switch {
	case name == "Local":
		return "Local is another time zone on each machine: name one, for example Europe/Zurich"
	case err != nil:
		return fmt.Sprintf("%q is not a time zone: after the 5 fields minute hour day month weekday (no seconds) comes a name as Europe/Zurich", name)
	}
	t.zone = zone
	return ""
}

// span describes the numbers that a field may contain.
type span struct {
	low, high int
	names     []string // names of the numbers from low on
}

// list parses a comma-separated field. Bit n of the result is set if the field contains n.
func (s span) list(text string) (bits uint64, problem string) {
	for part := range strings.SplitSeq(text, ",") {
		b, problem := s.part(part)
		if problem != "" {
			return 0, problem
		}
		bits |= b
	}
	return bits, ""
}

// part parses an element of a comma-separated list.
func (s span) part(text string) (bits uint64, problem string) {
	numbers, by, stepped := strings.Cut(text, "/")
	step := 1
	if stepped {
		n, ok := digits(by)
		if !ok || n < 1 || n > s.high {
			return 0, fmt.Sprintf("%q is not a step: want a number from 1 to %d", by, s.high)
		}
		step = n
	}
	first, last := s.low, s.high
	if numbers != "*" {
		from, to, ranged := strings.Cut(numbers, "-")
		if first, problem = s.number(from); problem != "" {
			return 0, problem
		}
		switch {
		case ranged:
			if last, problem = s.number(to); problem != "" {
				return 0, problem
			}
		case !stepped:
			last = first
		}
	}
	if first > last {
		return 0, fmt.Sprintf("%q ends before it begins: write the lower number first", numbers)
	}
	for i := first; i <= last; i += step {
		bits |= 1 << i
	}
	return bits, ""
}

func (s span) number(text string) (n int, problem string) {
	if i := slices.Index(s.names, strings.ToLower(text)); i >= 0 {
		return i + s.low, ""
	}
	n, ok := digits(text)
	if !ok || n < s.low || n > s.high {
		if s.names != nil {
			return 0, fmt.Sprintf("%q is neither between %d and %d nor a name as %s", text, s.low, s.high, s.names[1])
		}
		return 0, fmt.Sprintf("%q is not between %d and %d", text, s.low, s.high)
	}
	return n, ""
}

// digits parses a number without a sign.
func digits(text string) (int, bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	return int(n), err == nil
}
