package workflow

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/cron"
	"github.com/flowgen/flowgen/runtime/schedule"
)

// decided accumulates the decisions of several plans.
type decided struct {
	start        []time.Time
	late, passed int
}

// decide calls plan until no tick is due at the time until. It returns the next tick.
func (d *decided) decide(s *timing, name string, next, until time.Time) time.Time {
	for !next.IsZero() && !s.due(name, next).After(until) {
		p := s.plan(name, next, until)
		d.start = append(d.start, p.Start...)
		d.late += p.Late
		d.passed += p.Passed
		next = p.Next
	}
	return next
}

var planAsks = flag.Int("plan.asks", 3, "how often TestPlan_DecidesAboutEachTickOnce asks each of its schedules")

func TestPlan_DecidesAboutEachTickOnceWheneverItIsAsked(t *testing.T) {
	begin := time.Date(2027, 3, 27, 0, 0, 0, 0, time.UTC)
	for seed := range uint64(150) {
		random := rand.New(rand.NewPCG(seed, 1))
		overlaps := []schedule.Overlap{schedule.Skip, schedule.Replace, schedule.Queue, schedule.Latest, schedule.Allow}
		pick := func(of ...time.Duration) time.Duration { return of[random.IntN(len(of))] }
		s := &timing{schedule.Spec{
			When:    []string{"every 10s", "* * * * *", "*/20 2 * * * Europe/Zurich", "15 * * * * Europe/Zurich"}[random.IntN(4)],
			Overlap: overlaps[random.IntN(len(overlaps))], CatchUp: pick(0, 10*time.Second, time.Hour), Jitter: pick(0, 30*time.Second, 2*time.Hour),
		}}
		t.Run(fmt.Sprintf("%d %+v", seed, *s), func(t *testing.T) {
			ticks, err := cron.Parse(s.When)
			if err != nil {
				t.Fatal(err)
			}
			next, until := ticks.Next(begin), begin
			oracle := next
			for range *planAsks {
				until = until.Add(pick(time.Second, time.Minute, time.Hour, 20*time.Hour) * time.Duration(1+random.IntN(3)))
				var got, want decided
				next = got.decide(s, "n", next, until)
				for ; ; oracle = ticks.Next(oracle) { // consider one tick at a time while it is due
					if s.due("n", oracle).After(until) {
						break
					}
					oldest := until.Add(-s.catchUp())
					late := s.due("n", oracle).Before(oldest)
					for before := oracle.Add(-s.Jitter); late && oracle.Add(s.Jitter).After(oldest); {
						if before = ticks.Next(before); !before.Before(oracle) {
							break
						}
						late = s.due("n", before).Before(oldest) // otherwise the tick is in time, because it waits for the earlier tick
					}
					switch {
					case late:
						want.late++
					case !s.each() && len(want.start) > 0:
						want.passed++
						want.start[0] = oracle
					default:
						want.start = append(want.start, oracle)
					}
				}
				if !next.Equal(oracle) || got.late != want.late || got.passed != want.passed || !slices.EqualFunc(got.start, want.start, time.Time.Equal) {
					t.Fatalf("until %v: got %+v and then %v, want %+v and then %v", until, got, next, want, oracle)
				}
			}
		})
	}
}

func TestPlan_OfTheNewestTickLooksAtNoMoreThanItMay(t *testing.T) {
	s := &timing{schedule.Spec{When: "every 1s"}}
	next := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	until := next.Add(7 * time.Hour)
	p := s.plan("n", next, until)
	if len(p.Start) != 0 || p.Passed != ticksAtOnce {
		t.Errorf("a plan that does not come to the newest tick: got %d starts and %d passed over", len(p.Start), p.Passed)
	}
	var got decided
	got.decide(s, "n", next, until)
	if len(got.start) != 1 || !got.start[0].Equal(until) || got.passed != 7*3600 {
		t.Errorf("got %v, and %d passed over", got.start, got.passed)
	}
}

func TestBackfill_GivesEachTickOfARangeOnce(t *testing.T) {
	s := &timing{schedule.Spec{When: "every 1m"}}
	from := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	to := from.Add(121 * time.Minute)
	var all []time.Time
	for at := from; !at.IsZero(); {
		p := s.backfill(at, to)
		all = append(all, p.Start...)
		at = p.Next
	}
	if len(all) != 121 || !all[0].Equal(from) || !all[120].Equal(to.Add(-time.Minute)) {
		t.Errorf("got %d ticks: %v", len(all), all)
	}
}
