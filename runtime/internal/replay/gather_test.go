package replay

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	firstToEnd  = func(int, any) bool { return true }
	firstToFail = func(_ int, v any) bool { return v.(string) == "bad" }
	firstToWin  = func(_ int, v any) bool { return v.(string) == "good" }
)

// race returns a program with a Gather of three branches. Each branch ends with the result of its
// step. The result of the program is the result of the Gather.
func race(stop func(int, any) bool) Program {
	return func(b *Branch, s *Scope, _ []byte) Ending {
		var ps []*Promise
		for range 3 {
			ps = append(ps, spawn(b, s, func(b *Branch) any { return string(doStep(b, s, "p.s", "1").Payload) }))
		}
		g := NewGather(ps, stop)
		v, err := b.Await(s, &g.Promise, "3 branches")
		return done(fmt.Sprint(v, err))
	}
}

func TestGather_WinnerIsTheFirstOfTheLogAndTheSameInReplay(t *testing.T) {
	tests := map[string]struct {
		stop  func(int, any) bool
		order []int
		ends  []string
		want  string
	}{
		"first":                   {firstToEnd, []int{2, 0, 1}, []string{"good", "good", "bad"}, "2 <nil>"},
		"all succeed":             {firstToFail, []int{2, 0, 1}, []string{"good", "good", "good"}, "-1 <nil>"},
		"all, one fails":          {firstToFail, []int{1, 2, 0}, []string{"bad", "good", "bad"}, "2 <nil>"},
		"any, the second to end":  {firstToWin, []int{1, 2, 0}, []string{"good", "bad", "good"}, "2 <nil>"},
		"any, all fail":           {firstToWin, []int{1, 2, 0}, []string{"bad", "bad", "bad"}, "-1 <nil>"},
		"settled, whatever comes": {nil, []int{0, 2, 1}, []string{"bad", "good", "bad"}, "-1 <nil>"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := begin(t, race(tt.stop))
			refs := []uint64{h.start(), h.start(), h.start()}
			for _, i := range tt.order {
				if !h.run.Ended() {
					h.complete(refs[i], tt.ends[i])
				}
			}
			if got := string(h.log[len(h.log)-1].Payload); got != tt.want {
				t.Errorf("the gather gives %s, want %s", got, tt.want)
			}
			for range 20 {
				h.replay(race(tt.stop))
			}
		})
	}
}

func TestGather_AsksThoseThatHaveEndedInTheOrderOfTheList(t *testing.T) {
	var got []string
	begin(t, func(b *Branch, s *Scope, _ []byte) Ending {
		ps := []*Promise{NewPromise(s), NewPromise(s), NewPromise(s)}
		ps[2].Resolve("bad")
		ps[1].Resolve("bad")
		see := func(g *Gather) {
			v, err := b.Await(s, &g.Promise, "branches")
			got = append(got, fmt.Sprint(v, err))
		}
		see(NewGather(ps, firstToEnd))
		see(NewGather(nil, firstToEnd))
		see(NewGather([]*Promise{ps[1], ps[1]}, firstToWin))
		see(NewGather([]*Promise{ps[1], ps[2]}, nil))
		if n := ps[0].list.n; n != 0 {
			t.Errorf("%d are still interested in a loser", n)
		}
		return done("")
	})
	if diff := cmp.Diff([]string{"1 <nil>", "-1 <nil>", "-1 <nil>", "-1 <nil>"}, got); diff != "" {
		t.Errorf("gathers (-want +got):\n%s", diff)
	}
}

func TestGather_LeavesNobodyInterestedOnceItIsOver(t *testing.T) {
	begin(t, func(b *Branch, s *Scope, _ []byte) Ending {
		long, twice := NewPromise(b.NewScope(nil)), NewPromise(s)
		g := NewGather([]*Promise{long, twice, twice}, firstToEnd)
		if long.list.n != 1 || twice.list.n != 2 {
			t.Errorf("%d and %d subscriptions, want 1 and 2", long.list.n, twice.list.n)
		}
		twice.Resolve("good")
		if g.Value() != 1 || long.list.n != 0 {
			t.Errorf("gather gave %v and %d are interested in the loser", g.Value(), long.list.n)
		}
		sub := b.NewScope(s)
		abandoned := NewGather([]*Promise{long}, nil)
		sub.Cancel()
		if _, err := b.Await(sub, &abandoned.Promise, "branches"); err != ErrCanceled || long.list.n != 0 {
			t.Errorf("await gives %v and %d are interested", err, long.list.n)
		}
		return done("")
	})
}

func TestGather_OfWhatIsBeingCanceledIsWaitedFor(t *testing.T) {
	h := begin(t, func(b *Branch, s *Scope, _ []byte) Ending {
		var ps []*Promise
		for range 2 {
			ps = append(ps, spawn(b, s, func(b *Branch) any {
				_ = b.Sleep(s, t0.Add(time.Hour))
				doStep(b, b.NewScope(nil), "p.clean", "1")
				return "good"
			}))
		}
		g := NewGather(ps, nil)
		v, err := b.Await(s, &g.Promise, "2 branches")
		return done(fmt.Sprint(v, err))
	})
	h.cancel()
	h.complete(h.start(), "1")
	if h.run.Ended() {
		t.Fatal("the run did not wait for the second branch")
	}
	h.complete(h.start(), "1")
	if got := string(h.log[len(h.log)-1].Payload); got != "-1 <nil>" {
		t.Errorf("the gather gives %s", got)
	}
}
