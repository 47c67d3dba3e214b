package redisstore

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

// collectScene is a partition with starts that share runs.
type collectScene struct {
	*partition

	t      *testing.T
	ctx    context.Context
	st     *Store
	client redis.UniversalClient
	clock  *storetest.Clock
	ids    storetest.IDs
}

func newCollectScene(t *testing.T) *collectScene {
	t.Helper()
	client := redistest.Shared(t).Client(t)
	s := &collectScene{t: t, ctx: t.Context(), client: client, clock: storetest.NewClock()}
	var err error
	s.st, err = New(client, Config{Clock: s.clock, Prefix: redistest.Prefix(), Partitions: 1})
	s.check(err)
	sweep(t, client, s.st)
	s.partition = s.st.parts[0]
	return s
}

func (s *collectScene) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// start creates a run with an item, which may join a collecting run. It returns the log of the
// proposed run and the ID of the run that received the item.
func (s *collectScene) start() (*storetest.Log, event.RunID) {
	s.t.Helper()
	l := storetest.NewLog(&s.ids, s.clock, s.ids.Run(s.clock.Now(), 0), event.Spec{Workflow: "w", Queue: "q"})
	c := l.Create()
	c.Collect, c.Items = &store.Collect{Key: "doc", Quiet: time.Second}, []store.Item{{ID: s.ids.Item(), Body: []byte(`1`)}}
	got, err := s.st.Create(s.ctx, []store.Create{c})
	s.check(err)
	s.check(got[0].Err)
	return l, got[0].Run
}

func (s *collectScene) left() map[string]string {
	s.t.Helper()
	left, err := s.client.HGetAll(s.ctx, s.collecting()).Result()
	s.check(err)
	return left
}

// TestGather_LeavesNothingOfAKeyOnceItsRunHasEnded proves that the entry of a collection key is
// removed when its run ends, and that the record of each joined start expires. Otherwise the memory
// would grow with every new key.
func TestGather_LeavesNothingOfAKeyOnceItsRunHasEnded(t *testing.T) {
	s := newCollectScene(t)
	l, _ := s.start()
	other, _ := s.start()
	if ttl := s.client.PTTL(s.ctx, s.joined(short(other.Run))).Val(); ttl <= 0 || ttl > store.Horizon {
		t.Errorf("that a start has joined is remembered for %v, want %v at most", ttl, store.Horizon)
	}
	s.clock.Advance(time.Second)
	route := []store.Route{{Queue: "q", Workflow: "w"}}
	s.check(s.st.OpenSession(s.ctx, store.Session{ID: "s", TTL: time.Hour, Routes: route}))
	claimed, err := s.st.Claim(s.ctx, store.Claim{Session: "s", Token: s.ids.Token(), Routes: route, Max: 1})
	s.check(err)
	inbox, err := s.st.Load(s.ctx, []store.Load{{Run: l.Run, Inbox: true}})
	s.check(err)
	items := inbox[0].Inbox
	c := l.Commit(claimed.Runs[0].Fence, append(l.Receive(items...), l.End(event.StatusCompleted)...)...)
	c.Effect, c.Status, c.Consume, c.ConsumeLast = store.EffectFinish, event.StatusCompleted, len(items), items[len(items)-1].ID
	done, err := s.st.Commit(s.ctx, []store.Commit{c})
	s.check(err)
	s.check(done[0].Err)
	if left := s.left(); len(left) > 0 {
		t.Errorf("left of its key: %v", left)
	}
}

// TestGather_RepairsWhatLeadsToARun proves that the repair corrects a collection key that names a
// wrong or missing run, and that no start is lost before the repair.
func TestGather_RepairsWhatLeadsToARun(t *testing.T) {
	for name, damage := range map[string]func(s *collectScene, run event.RunID){
		"no run": func(s *collectScene, run event.RunID) {
			s.check(s.client.HSet(s.ctx, s.collecting(), "other", "01Q3G996480000000000000000").Err())
		},
		"another key": func(s *collectScene, run event.RunID) {
			s.check(s.client.HSet(s.ctx, s.collecting(), "other", short(run)).Err())
		},
		"nothing": func(s *collectScene, _ event.RunID) { s.check(s.client.Del(s.ctx, s.collecting()).Err()) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newCollectScene(t)
			_, run := s.start()
			damage(s, run)
			report, err := fsck.Repair(s.ctx, s.st, fsck.Options{})
			s.check(err)
			if !slices.ContainsFunc(report.Fixes, func(f fsck.Fix) bool { return f.Action != "" }) || len(report.Remaining) > 0 {
				t.Errorf("repair: %+v", report)
			}
			if left := s.left(); len(left) != 1 || left["doc"] != short(run) {
				t.Errorf("after the repair: %v, want run %s", left, run)
			}
			if _, joined := s.start(); joined != run {
				t.Errorf("a start joins run %s, want %s", joined, run)
			}
		})
	}
}

// TestGather_RepairsAnOverwrittenKey proves that starts succeed after the repair of an overwritten
// key, whatever value was written to the key.
func TestGather_RepairsAnOverwrittenKey(t *testing.T) {
	s := newCollectScene(t)
	_, run := s.start()
	s.check(s.client.Set(s.ctx, s.collecting(), "x", 0).Err())
	report, err := fsck.Repair(s.ctx, s.st, fsck.Options{})
	s.check(err)
	if len(report.Remaining) > 0 {
		report, err = fsck.Repair(s.ctx, s.st, fsck.Options{})
		s.check(err)
	}
	if len(report.Remaining) > 0 {
		t.Errorf("repair: %+v", report)
	}
	if _, joined := s.start(); joined != run {
		t.Errorf("a start joins run %s, want %s", joined, run)
	}
}
