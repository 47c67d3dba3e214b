package sqlitestore_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/sqlitestore"
)

func init() {
	roles["relay"] = playRelay
	roles["continue"] = playContinuer
}

// playRelay delivers the records of the outbox until no fresh record is left.
func playRelay(args []string) error {
	return withStore(args, func(ctx context.Context, s *sqlitestore.Store) error {
		for {
			records, _, err := s.Outbox(ctx, 0, 7)
			if err != nil || len(records) == 0 {
				return err
			}
			var marks []store.Mark
			for _, o := range records {
				_, err := s.Deliver(ctx, store.Deliver{Run: o.To, Item: store.Item{ID: o.ID, Body: o.Body}, Deadline: o.Deadline, Keep: true})
				if err != nil {
					return err
				}
				marks = append(marks, store.Mark{From: o.From, ID: o.ID, Phase: o.Phase})
			}
			if err := s.Mark(ctx, 0, marks); err != nil {
				return err
			}
		}
	})
}

func TestOutbox_TwoProcessesCarryEachRecordOverOnceAndInOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s := openStore(t, path, nil)
	logs := start(t, s, 3)
	sender, receivers := logs[0], logs[1:]
	openSession(t, s, "a")
	claimed, err := s.ClaimRun(testContext(t), 0, "a", event.NewToken(), sender.Run)
	check(t, err)
	c := sender.Commit(claimed.Fence, sender.Work()...)
	want := map[event.RunID][]event.ItemID{}
	for n := range 600 {
		to := receivers[n%2].Run
		id := event.DerivedItemID(sender.Run, fmt.Sprint("operation ", n))
		c.Send = append(c.Send, store.Send{ID: id, To: to, Body: []byte("hello")})
		want[to] = append(want[to], id)
	}
	got, err := s.Commit(testContext(t), []store.Commit{c})
	check(t, err)
	check(t, got[0].Err)
	relays := []*child{startChild(t, "relay", path), startChild(t, "relay", path)}
	for _, r := range relays {
		r.wait()
	}
	arrived := map[event.RunID][]event.ItemID{}
	snap := verify(t, s)
	for _, l := range receivers {
		for _, i := range snap.Runs[l.Run].Inbox {
			arrived[l.Run] = append(arrived[l.Run], i.ID)
		}
	}
	if diff := cmp.Diff(want, arrived); diff != "" {
		t.Errorf("items that arrived (-want +got)\n%s", diff)
	}
	for _, o := range snap.Outbox {
		if o.Phase != store.PhaseAnswered {
			t.Errorf("record %s is %s, want it answered", o.ID, o.Phase)
		}
	}
}

// playContinuer starts chains of runs that continue without end. Each run sends a record with its
// last commit, and passes on its items. playContinuer prints each acknowledged continuation.
func playContinuer(args []string) error {
	return withStore(args, func(ctx context.Context, s *sqlitestore.Store) error {
		const session = "continuer"
		if err := s.OpenSession(ctx, store.Session{ID: session, TTL: ttl, Routes: routes}); err != nil {
			return err
		}
		ids := &storetest.IDs{}
		var g errgroup.Group
		for n := range 5 {
			spec := event.Spec{Workflow: orders.Workflow, Queue: orders.Queue, WorkflowID: fmt.Sprint("order-", n)}
			l := storetest.NewLog(ids, s.Clock(), ids.Run(s.Clock().Now(), 0), spec)
			if _, err := s.Create(ctx, []store.Create{l.Create()}); err != nil {
				return err
			}
			g.Go(func() error { return continueForEver(ctx, s, session, ids, l) })
		}
		return g.Wait()
	})
}

func continueForEver(ctx context.Context, s *sqlitestore.Store, session store.SessionID, ids *storetest.IDs, l *storetest.Log) error {
	first := l.Run
	for {
		claimed, err := s.ClaimRun(ctx, 0, session, event.NewToken(), l.Run)
		if err != nil {
			return err
		}
		if _, err := s.Deliver(ctx, store.Deliver{Run: first, Item: store.Item{ID: ids.Item(), Body: []byte(`1`)}}); err != nil {
			return err
		}
		c, next := l.Continue(claimed.Fence, nil)
		c.Send = []store.Send{{ID: ids.Item(), To: first, Body: []byte("hello")}}
		got, err := s.Commit(ctx, []store.Commit{c})
		if err == nil {
			err = got[0].Err
		}
		if err != nil {
			return err
		}
		l = next
		// The line must be a single write, so that a kill cannot truncate it.
		fmt.Printf("%s %s\n", first, next.Run)
	}
}

func TestContinue_EveryAcknowledgedOneSurvivesKillAsAWhole(t *testing.T) {
	for _, lines := range []int{1, 50, 400} {
		t.Run(fmt.Sprint(lines), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "runs.db")
			c := startChild(t, "continue", path)
			var printed []string
			for range lines {
				printed = append(printed, c.line())
			}
			check(t, c.cmd.Process.Kill())
			printed = append(printed, c.rest()...)
			c.kill()
			s := openStore(t, path, nil)
			snap := verify(t, s)
			for _, line := range printed {
				first, next, _ := strings.Cut(line, " ")
				if r := snap.Runs[event.RunID(next)]; r == nil || r.Chain != event.RunID(first) {
					t.Errorf("run %s: got %+v, want that it continues %s", next, r, first)
				}
			}
			verifyChains(t, s, snap)
		})
	}
}

// verifyChains fails the test unless each chain has one open run with all items, and every other
// run has sent a record.
func verifyChains(t *testing.T, s *sqlitestore.Store, snap *store.Snapshot) {
	t.Helper()
	sent := map[event.RunID]int{}
	for _, o := range snap.Outbox {
		sent[o.From]++
	}
	items := map[event.RunID]int{}
	for _, r := range snap.Runs {
		if r.QueueState == store.StateEnded {
			if sent[r.Run] != 1 {
				t.Errorf("run %s has continued and %d records in the outbox, want 1", r.Run, sent[r.Run])
			}
			continue
		}
		items[r.Chain] += len(r.Inbox)
		got, err := s.Deliver(testContext(t), store.Deliver{Run: r.Chain, Item: store.Item{ID: event.NewItemID()}})
		check(t, err)
		if got != r.Run {
			t.Errorf("an item for the chain %s was accepted by %s, want %s", r.Chain, got, r.Run)
		}
	}
	for chain, n := range items {
		if n != len(snap.Seen[chain]) {
			t.Errorf("chain %s has %d items in its inbox, and has accepted %d", chain, n, len(snap.Seen[chain]))
		}
	}
}
