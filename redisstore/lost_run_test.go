package redisstore

import (
	"errors"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
)

// TestREC10_WhatIsMeantForARunThatIsLostWaitsForItsRepair proves that a run without metadata is
// reported as damaged and not as unknown while its log exists. Otherwise a sender would give up,
// although a repair restores the run. The repair of an overwritten key temporarily causes the same
// state.
func TestREC10_WhatIsMeantForARunThatIsLostWaitsForItsRepair(t *testing.T) {
	for what, sc := range map[string]func(g *guarded) (lose func(), lost event.RunID, send func() error, arrived event.RunID){
		"a message": func(g *guarded) (func(), event.RunID, func() error, event.RunID) {
			run := g.start("").Run
			return g.loser("m:" + short(run)), run, g.sender(run), run
		},
		"a message for the latest run of a chain": func(g *guarded) (func(), event.RunID, func() error, event.RunID) {
			first, next := g.continued()
			return g.loser("m:" + short(next)), next, g.sender(first), next
		},
		"a message for a chain whose latest run nobody knows": func(g *guarded) (func(), event.RunID, func() error, event.RunID) {
			first, next := g.continued()
			return g.loser("T"), first, g.sender(first), next
		},
		"the start that has created it, with its message": func(g *guarded) (func(), event.RunID, func() error, event.RunID) {
			var create store.Create
			run := g.start("", func(c *store.Create) {
				c.Items = []store.Item{{ID: g.ids.Item(), Body: []byte(`"first"`)}}
				create = *c
			}).Run
			return g.loser("m:" + short(run)), run, func() error {
				answers, err := g.Create(g.ctx, []store.Create{create})
				g.check(err)
				return answers[0].Err
			}, run
		},
	} {
		t.Run(what, func(t *testing.T) {
			g := openGuarded(t)
			lose, lost, send, arrived := sc(g)
			lose()
			var damaged *store.DamagedError
			if err := send(); !errors.As(err, &damaged) || damaged.Run != lost {
				t.Errorf("before the repair: got %v, want a DamagedError of run %s", err, lost)
			}
			if _, err := fsck.Repair(g.ctx, g.Store, fsck.Options{}); err != nil {
				t.Fatal(err)
			}
			if err := send(); err != nil {
				t.Errorf("after the repair: %v", err)
			}
			if inbox := g.loaded(arrived).Inbox; len(inbox) != 1 {
				t.Errorf("run %s: got inbox %+v, want one item", arrived, inbox)
			}
		})
	}
}

// TestREC10_ARefusalForARunThatIsLostWaitsForItsRepair proves that an outbox record stays fresh if
// its sender is damaged and cannot be notified of the refusal.
func TestREC10_ARefusalForARunThatIsLostWaitsForItsRepair(t *testing.T) {
	g := openGuarded(t)
	l, fence := g.own(g.session(), "")
	c := l.Commit(fence, l.Work()...)
	c.Send = []store.Send{{ID: g.ids.Item(), To: g.ids.Run(g.clock.Now(), 0), Body: []byte(`"hello"`)}}
	g.check(g.answer(c).Err)
	mark := store.Mark{From: l.Run, ID: c.Send[0].ID, Phase: store.PhaseFresh, Refusal: &store.Item{ID: g.ids.Item(), Body: []byte(`"no"`)}}
	meta, aside := g.parts[0].meta(short(l.Run)), g.parts[0].tag+"aside"
	g.check(g.client.Rename(g.ctx, meta, aside).Err())
	var damaged *store.DamagedError
	if err := g.Mark(g.ctx, 0, []store.Mark{mark}); !errors.As(err, &damaged) || damaged.Run != l.Run {
		t.Errorf("before the repair: got %v, want a DamagedError of run %s", err, l.Run)
	}
	g.check(g.client.Rename(g.ctx, aside, meta).Err())
	records, _, err := g.Outbox(g.ctx, 0, 10)
	g.check(err)
	if len(records) != 1 || records[0].Phase != store.PhaseFresh {
		t.Errorf("in the outbox: %+v, want the record as it was", records)
	}
	g.check(g.Mark(g.ctx, 0, []store.Mark{mark}))
	if inbox := g.loaded(l.Run).Inbox; len(inbox) != 1 || inbox[0].ID != mark.Refusal.ID {
		t.Errorf("got inbox %+v, want the refusal", inbox)
	}
}

// loser returns a function that deletes a key of the partition.
func (g *guarded) loser(key string) func() {
	return func() {
		g.t.Helper()
		if n := g.client.Del(g.ctx, g.parts[0].tag+key).Val(); n != 1 {
			g.t.Fatalf("removed %d keys %s, want 1", n, key)
		}
	}
}

// sender returns a function that sends a message to a run.
func (g *guarded) sender(run event.RunID) func() error {
	item := store.Item{ID: g.ids.Item(), Body: []byte(`"hello"`)}
	return func() error {
		_, err := g.Deliver(g.ctx, store.Deliver{Run: run, Item: item})
		return err
	}
}

// continued creates a chain of two runs.
func (g *guarded) continued() (first, next event.RunID) {
	g.t.Helper()
	l, fence := g.own(g.session(), "")
	c, following := l.Continue(fence, nil, l.Work()...)
	g.check(g.answer(c).Err)
	return l.Run, following.Run
}
