package cron_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/internal/cron"
)

func parse(t *testing.T, text string) *cron.Ticks {
	t.Helper()
	ticks, err := cron.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return ticks
}

func TestNext_OnDaysWhenTheClockIsChanged(t *testing.T) {
	tests := []struct {
		text, from string
		want       []string
	}{
		{"30 2 * * * Europe/Zurich", "2027-03-27T12:00:00Z", []string{"2027-03-28 03:00 +02", "2027-03-29 02:30 +02"}},
		{"30 2 * * * Europe/Zurich", "2027-10-30T12:00:00Z", []string{"2027-10-31 02:30 +02", "2027-11-01 02:30 +01"}},
		{"*/20 2 * * * Europe/Zurich", "2027-03-27T12:00:00Z", []string{"2027-03-28 03:00 +02", "2027-03-29 02:00 +02", "2027-03-29 02:20 +02", "2027-03-29 02:40 +02"}},
		{"15 * * * * Europe/Zurich", "2027-03-28T00:00:00Z", []string{"2027-03-28 01:15 +01", "2027-03-28 03:15 +02"}},
		{"15 * * * * Europe/Zurich", "2027-10-31T00:00:00Z", []string{"2027-10-31 02:15 +02", "2027-10-31 02:15 +01", "2027-10-31 03:15 +01"}},
		{"0 0 * * * America/Santiago", "2027-09-04T12:00:00Z", []string{"2027-09-05 01:00 -03", "2027-09-06 00:00 -03"}},
		{"15 2 * * * Australia/Lord_Howe", "2027-10-02T12:00:00Z", []string{"2027-10-03 02:30 +11", "2027-10-04 02:15 +11"}},
		{"0 9 * * * Pacific/Apia", "2011-12-29T12:00:00Z", []string{"2011-12-29 09:00 -10", "2011-12-31 00:00 +14", "2011-12-31 09:00 +14"}},
		{"59 23,0 * * * America/St_Johns", "2006-10-29T02:00:00Z", []string{"2006-10-28 23:59 -0230", "2006-10-29 00:59 -0330"}},
	}
	for _, tt := range tests {
		t.Run(tt.text+" "+tt.from[:10], func(t *testing.T) {
			ticks := parse(t, tt.text)
			at, err := time.Parse(time.RFC3339, tt.from)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for range tt.want {
				at = ticks.Next(at)
				_, offset := at.Zone()
				layout := "2006-01-02 15:04 -07"
				if offset%3600 != 0 {
					layout += "00"
				}
				got = append(got, at.Format(layout))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("ticks (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNext_TakesEitherOfTwoDays(t *testing.T) {
	ticks := parse(t, "0 12 13 * fri")
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	var got []string
	for range 4 {
		at = ticks.Next(at)
		got = append(got, at.Format("Mon 2 Jan"))
	}
	if diff := cmp.Diff([]string{"Fri 6 Nov", "Fri 13 Nov", "Fri 20 Nov", "Fri 27 Nov"}, got); diff != "" {
		t.Errorf("ticks (-want +got):\n%s", diff)
	}
}

func TestNext_OfAnIntervalDoesNotDependOnTheBeginning(t *testing.T) {
	ticks := parse(t, "every  10m")
	for from, want := range map[string]string{
		"2027-01-01T00:00:00Z":     "2027-01-01T00:10:00Z",
		"2027-01-01T00:09:59.999Z": "2027-01-01T00:10:00Z",
		"1969-12-31T23:55:00Z":     "1970-01-01T00:00:00Z",
	} {
		at, err := time.Parse(time.RFC3339, from)
		if err != nil {
			t.Fatal(err)
		}
		if got := ticks.Next(at).Format(time.RFC3339); got != want {
			t.Errorf("after %s: got %s, want %s", from, got, want)
		}
	}
	if got := ticks.String(); got != "every 10m" {
		t.Errorf("String: got %q", got)
	}
}

func TestNext_FindsTheRarestDay(t *testing.T) {
	got := parse(t, "0 0 29 2 *").Next(time.Date(2096, 3, 1, 0, 0, 0, 0, time.UTC))
	if want := time.Date(2104, 2, 29, 0, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestParse_NamesTheFix(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "0 fields: want 5",
		"@daily":                       "1 field: want 5",
		"30 2 * *":                     "4 fields: want 5",
		"0 30 2 * * * UTC":             "7 fields: want 5",
		"0 30 2 * * *":                 `"*" is not a time zone: after the 5 fields minute hour day month weekday (no seconds)`,
		"30 2 * * * Zurich":            `"Zurich" is not a time zone`,
		"30 2 * * * Local":             "name one",
		"TZ=0":                         "1 field: want 5",
		"60 * * * *":                   `minute: "60" is not between 0 and 59`,
		"* 24 * * *":                   `hour: "24" is not between 0 and 23`,
		"* * 0 * *":                    `day: "0" is not between 1 and 31`,
		"* * * foo *":                  `month: "foo" is neither between 1 and 12 nor a name as feb`,
		"* * * * 8":                    `weekday: "8" is neither between 0 and 7 nor a name as mon`,
		"5-1 * * * *":                  `"5-1" ends before it begins: write the lower number first`,
		"*/0 * * * *":                  `"0" is not a step: want a number from 1 to 59`,
		"+5 * * * *":                   `"+5" is not between`,
		"1, * * * *":                   `"" is not between`,
		"0 0 31 2 *":                   "no year has such a day: change the day or the month",
		"0 0 31 4,6,9,11 *":            "no year has such a day",
		"every":                        `want one duration and no time zone`,
		"every 10m Europe/Zurich":      `want one duration and no time zone`,
		"every ten":                    `"ten" is not a duration: write for example "every 10m"`,
		"every 1ms":                    "1ms is too short: want at least 1s",
		"every 1000000001ns":           "leave them out",
		"18446744073709551616 * * * *": "is not between",
	} {
		_, err := cron.Parse(text)
		var bad *cron.Error
		if !errors.As(err, &bad) || bad.Text != text || !strings.Contains(bad.Problem, want) {
			t.Errorf("Parse(%q): got error %v, want a *cron.Error with %q", text, err, want)
		}
	}
}

// minutes finds the ticks of a period by comparing each minute with the numbers of the fields.
type minutes struct {
	minute, hour []int
	day          func(time.Time) bool
	everyHour    bool
}

// wall is the time that the wall clock of a zone shows at a certain minute.
type wall struct {
	at, shows time.Time
	again     bool // the wall clock time occurred before
}

// look returns the wall clock of a zone for each minute of a period.
func look(from, to time.Time, zone *time.Location) (all []wall) {
	var highest time.Time
	for t := from; t.Before(to); t = t.Add(time.Minute) {
		_, offset := t.In(zone).Zone()
		shows := t.Add(time.Duration(offset) * time.Second)
		all = append(all, wall{at: t, shows: shows, again: !shows.After(highest)})
		if shows.After(highest) {
			highest = shows
		}
	}
	return all
}

func (s minutes) meets(shows time.Time) bool {
	return slices.Contains(s.minute, shows.Minute()) && slices.Contains(s.hour, shows.Hour()) && s.day(shows)
}

// in returns the minutes of all that are ticks.
func (s minutes) in(all []wall) (ticks []time.Time) {
	for i, w := range all {
		tick := s.meets(w.shows) && (s.everyHour || !w.again)
		if i > 0 && !s.everyHour {
			for left := all[i-1].shows.Add(time.Minute); left.Before(w.shows) && !tick; left = left.Add(time.Minute) {
				tick = s.meets(left)
			}
		}
		if tick {
			ticks = append(ticks, w.at)
		}
	}
	return ticks
}

// spans returns a whole year for Zurich. For other zones it returns ten days around each clock
// change and around the end of the year.
func spans(year int, zone *time.Location) (all [][2]time.Time) {
	t := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
	end := t.AddDate(1, 0, 0)
	if zone.String() == "Europe/Zurich" {
		return [][2]time.Time{{t, end}}
	}
	for {
		_, t = t.In(zone).ZoneBounds()
		if t.IsZero() || !t.Before(end) {
			return append(all, [2]time.Time{end.AddDate(0, 0, -5), end.AddDate(0, 0, 5)})
		}
		all = append(all, [2]time.Time{t.UTC().AddDate(0, 0, -5), t.UTC().AddDate(0, 0, 5)})
	}
}

func TestNext_AgreesWithALookAtEveryMinute(t *testing.T) {
	always := func(time.Time) bool { return true }
	numbers := func(from, to, step int) (l []int) {
		for ; from <= to; from += step {
			l = append(l, from)
		}
		return l
	}
	specs := map[string]minutes{
		"30 2 * * *":         {minute: []int{30}, hour: []int{2}, day: always},
		"0 0 * * *":          {minute: []int{0}, hour: []int{0}, day: always},
		"30 1 * * *":         {minute: []int{30}, hour: []int{1}, day: always},
		"*/20 2 * * *":       {minute: []int{0, 20, 40}, hour: []int{2}, day: always},
		"15 * * * *":         {minute: []int{15}, hour: numbers(0, 23, 1), day: always, everyHour: true},
		"*/30 */2 * * *":     {minute: []int{0, 30}, hour: numbers(0, 22, 2), day: always, everyHour: true},
		"* 23,0,1,2,3 * * *": {minute: numbers(0, 59, 1), hour: []int{23, 0, 1, 2, 3}, day: always},
		"0 0 1 * *":          {minute: []int{0}, hour: []int{0}, day: func(d time.Time) bool { return d.Day() == 1 }},
		"30 2 * * sun":       {minute: []int{30}, hour: []int{2}, day: func(d time.Time) bool { return d.Weekday() == time.Sunday }},
		"0 12 13 * fri":      {minute: []int{0}, hour: []int{12}, day: func(d time.Time) bool { return d.Day() == 13 || d.Weekday() == time.Friday }},
		"59 23 31 12 *":      {minute: []int{59}, hour: []int{23}, day: func(d time.Time) bool { return d.Day() == 31 && d.Month() == 12 }},
		"45 23,0-1 * * 1-5":  {minute: []int{45}, hour: []int{23, 0, 1}, day: func(d time.Time) bool { return d.Weekday() >= 1 && d.Weekday() <= 5 }},
	}
	years := map[string]int{
		"Europe/Zurich": 2027, "America/New_York": 2027, "Australia/Lord_Howe": 2027, "America/Santiago": 2027, "Africa/Cairo": 2027,
		"America/St_Johns": 2006, "Pacific/Apia": 2011, "UTC": 2028, "Asia/Kathmandu": 2027,
	}
	for name, year := range years {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, span := range spans(year, zone) {
			all := look(span[0], span[1], zone)
			for text, fields := range specs {
				ticks, at := parse(t, text+" "+name), span[0].Add(-time.Minute)
				for _, want := range fields.in(all) {
					if at = ticks.Next(at); !at.Equal(want) {
						t.Errorf("%s %s: got %v, want %v", text, name, at, want.In(zone))
						break
					}
				}
			}
		}
	}
}

// TestNext_IsTheSameFromWhereverOneLooks proves that Next returns the earliest tick after any start
// time, regardless of how far away the tick is.
func TestNext_IsTheSameFromWhereverOneLooks(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, text := range []string{"*/20 2 * * * Europe/Zurich", "7 * * * * America/St_Johns", "0 0 * * * America/Santiago"} {
		ticks := parse(t, text)
		for range 2000 {
			from := time.Unix(1_000_000_000+random.Int64N(1_000_000_000), 0)
			next := ticks.Next(from)
			between := from.Add(time.Duration(random.Int64N(int64(next.Sub(from)))))
			if got := ticks.Next(between); !got.Equal(next) || !next.After(from) {
				t.Fatalf("%s: after %v comes %v, after %v comes %v", text, from, next, between, got)
			}
		}
	}
}

func FuzzParse_NextComesAfter(f *testing.F) {
	for _, text := range []string{"30 2 * * * Europe/Zurich", "*/20 2 * * *", "every 10m", "0 0 31 2 *", "0 12 13 jan-mar/2 fri,sun", "* * * * * Pacific/Apia"} {
		f.Add(text, int64(1_800_000_000))
	}
	f.Fuzz(func(t *testing.T, text string, unix int64) {
		ticks, err := cron.Parse(text)
		if err != nil {
			return
		}
		from := time.Unix(unix%10_000_000_000, 0)
		next := ticks.Next(from)
		if !next.After(from) {
			t.Fatalf("Parse(%q).Next(%v): got %v", text, from, next)
		}
		again, err := cron.Parse(ticks.String())
		if err != nil || !again.Next(from).Equal(next) {
			t.Fatalf("Parse(%q) differs from Parse(%q): %v", ticks.String(), text, err)
		}
	})
}
