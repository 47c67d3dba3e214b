package redisstore

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// TestREC10_AHeartbeatPutsBackRunsWhoseKeysWereLost proves that the heartbeats of a live session
// restore lost entries of runs without fsck. It deletes each key that sessions use to find runs.
func TestREC10_AHeartbeatPutsBackRunsWhoseKeysWereLost(t *testing.T) {
	route := routeCode(guardedRoute)
	for what, sc := range map[string]struct {
		arrange func(g *guarded, s store.SessionID) event.RunID
		lose    string
		wait    time.Duration // time until the run can be claimed
		reason  store.Reason
	}{
		"a ready run": {
			arrange: func(g *guarded, _ store.SessionID) event.RunID { return g.start("").Run },
			lose:    "r:" + route, reason: store.ReasonStuckCreated,
		},
		"a ready run with a fairness key": {
			arrange: func(g *guarded, _ store.SessionID) event.RunID {
				return g.start("", func(c *store.Create) { c.Fair, c.Share = "tenant", 1 }).Run
			},
			lose: "r:" + route, reason: store.ReasonStuckCreated,
		},
		"a delayed run": {
			arrange: func(g *guarded, _ store.SessionID) event.RunID {
				return g.start("", func(c *store.Create) { c.Delay = time.Hour }).Run
			},
			lose: "t", wait: time.Hour, reason: store.ReasonStuckCreated,
		},
		"an owned run that its session has lost": {
			arrange: func(g *guarded, s store.SessionID) event.RunID {
				l, _ := g.own(s, "")
				return l.Run
			},
			lose: "o:", reason: store.ReasonNoClaim,
		},
		"an owned run whose session is lost": {
			arrange: func(g *guarded, _ store.SessionID) event.RunID {
				l, _ := g.own(g.session(), "")
				return l.Run
			},
			lose: "z:", reason: store.ReasonNoClaim,
		},
	} {
		t.Run(what, func(t *testing.T) {
			g := openGuarded(t)
			alive := g.session()
			run := sc.arrange(g, alive)
			if beat := g.beat(alive); len(beat.Restored) > 0 {
				t.Fatalf("before anything is lost: restored %v", beat.Restored)
			}
			key := sc.lose
			if key == "o:" || key == "z:" {
				key += g.client.HGet(g.ctx, g.parts[0].meta(short(run)), "p").Val()
			}
			g.loser(key)()
			if claimed := g.claim(alive); len(claimed) > 0 {
				t.Fatalf("claimed %v though its key was lost: the test loses too little", claimed)
			}
			if beat := g.beat(alive); len(beat.Restored) > 0 {
				t.Errorf("restored %v within 5 s of the last look, want the look to wait", beat.Restored)
			}
			g.clock.Advance(5 * time.Second)
			if got := g.beat(alive).Restored; !slices.Equal(got, []event.RunID{run}) {
				t.Fatalf("restored %v, want %v", got, run)
			}
			if sc.wait > 0 {
				if claimed := g.claim(alive); len(claimed) > 0 {
					t.Errorf("claimed %v before its time", claimed)
				}
				for range int(sc.wait / (30 * time.Second)) {
					g.clock.Advance(30 * time.Second)
					g.beat(alive)
				}
			}
			if claimed := g.claim(alive); !slices.Equal(claimed, []event.RunID{run}) {
				t.Errorf("claimed %v, want %v", claimed, run)
			}
			trail, err := g.Audit(g.ctx, run)
			g.check(err)
			var reasons []store.Reason
			for _, e := range trail {
				reasons = append(reasons, e.Reason)
			}
			if diff := cmp.Diff([]store.Reason{sc.reason}, reasons); diff != "" {
				t.Errorf("audit trail (-want +got):\n%s", diff)
			}
			g.clock.Advance(5 * time.Second)
			if got := g.beat(alive).Restored; len(got) > 0 {
				t.Errorf("restored %v again", got)
			}
		})
	}
}

// TestREC10_HeartbeatsExamineEveryOpenRunInTurn proves that heartbeats examine 500 open runs every
// 5 s, and continue after the last examined run even if it has ended.
func TestREC10_HeartbeatsExamineEveryOpenRunInTurn(t *testing.T) {
	g := openGuarded(t)
	alive := g.session()
	const runs = 3*examined + 7
	var all []event.RunID
	for range runs {
		all = append(all, g.start("", func(c *store.Create) { c.Delay = 24 * time.Hour }).Run)
	}
	g.loser("t")()
	restored := map[event.RunID]int{}
	for i := range 4 {
		g.clock.Advance(5 * time.Second)
		got := g.beat(alive).Restored
		if want := min(examined, runs-i*examined); len(got) != want {
			t.Errorf("look %d restored %d runs, want %d", i, len(got), want)
		}
		for _, run := range got {
			restored[run]++
		}
	}
	for _, run := range all {
		if restored[run] != 1 {
			t.Fatalf("run %s was restored %d times, want once", run, restored[run])
		}
	}
}

func (g *guarded) beat(s store.SessionID) store.Heartbeat {
	g.t.Helper()
	beat, err := g.Heartbeat(g.ctx, 0, s)
	g.check(err)
	return beat
}

func (g *guarded) claim(s store.SessionID) []event.RunID {
	g.t.Helper()
	claimed, err := g.Claim(g.ctx, store.Claim{Session: s, Token: event.NewToken(), Routes: []store.Route{guardedRoute}, Max: 10})
	g.check(err)
	var runs []event.RunID
	for _, r := range claimed.Runs {
		runs = append(runs, r.Run)
	}
	return runs
}
