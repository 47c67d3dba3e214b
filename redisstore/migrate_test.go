package redisstore

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

// asFormat2 gives the keys of a store the names that they had in format 2, and puts its runs into the sets of that.
func asFormat2(t *testing.T, g *guarded) {
	t.Helper()
	for _, p := range g.parts {
		for _, route := range g.client.HKeys(g.ctx, p.routes()).Val() {
			for _, key := range p.listed(route) {
				for _, z := range g.client.ZRangeWithScores(g.ctx, key, 0, -1).Val() {
					g.check(g.client.ZAdd(g.ctx, p.tagBefore()+key[len(p.tag):len(p.tag)+1], z).Err())
				}
				g.check(g.client.Del(g.ctx, key).Err())
			}
		}
		for _, key := range g.client.Keys(g.ctx, escaped(p.tag)+"*").Val() {
			g.check(g.client.Rename(g.ctx, key, p.tagBefore()+key[len(p.tag):]).Err())
		}
	}
	g.check(g.client.Set(g.ctx, g.parts[0].format(), g.markOf(migratable), 0).Err())
}

func TestMigrate_BringsFormat2UpToDate(t *testing.T) {
	g := openGuarded(t)
	session := g.session()
	end := func(status event.Status, parent event.RunID) {
		l := storetest.NewLog(g.ids, g.clock, g.ids.Run(g.clock.Now(), 0), event.Spec{
			Workflow: guardedRoute.Workflow, Queue: guardedRoute.Queue, Parent: parent, Root: parent,
		})
		answers, err := g.Create(g.ctx, []store.Create{l.Create()})
		g.check(errors.Join(err, answers[0].Err))
		claimed, err := g.ClaimRun(g.ctx, 0, session, event.NewToken(), l.Run)
		g.check(err)
		c := l.Commit(claimed.Fence, l.End(status)...)
		c.Effect, c.Status, c.Progress = store.EffectFinish, status, true
		g.check(g.answer(c).Err)
	}
	top := g.start("")
	for range 600 { // more than one script moves
		g.start("")
	}
	for _, status := range []event.Status{event.StatusCompleted, event.StatusFailed, event.StatusCanceled} {
		end(status, "")
		end(status, top.Run)
	}
	listed := func(s *Store) (runs []event.RunID) {
		for q := (store.Query{Limit: 500}); ; {
			page, err := s.List(g.ctx, q)
			g.check(err)
			for _, r := range page.Runs {
				runs = append(runs, r.Run)
			}
			if q.Cursor = page.Cursor; q.Cursor == "" {
				return runs
			}
		}
	}
	counted := func(s *Store) map[event.Status]int {
		counts, err := s.Count(g.ctx, store.Query{Roots: true})
		g.check(err)
		return counts.ByStatus()
	}
	runs, counts := listed(g.Store), counted(g.Store)
	if len(runs) != 607 || counts[event.StatusPending] != 601 || counts[event.StatusFailed] != 1 {
		t.Fatalf("before: %d runs, %v", len(runs), counts)
	}
	asFormat2(t, g)
	cfg := g.cfg
	reopened := func() *Store {
		s, err := New(g.client, cfg)
		g.check(err)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	if _, err := reopened().List(g.ctx, store.Query{}); !errors.As(err, new(*store.OldFormatError)) {
		t.Errorf("list before the migration: got %v, want an OldFormatError", err)
	}
	var fleet *store.FleetError
	if err := Migrate(g.ctx, g.client, cfg); !errors.As(err, &fleet) || len(fleet.Sessions) != 1 || fleet.Sessions[0] != session {
		t.Errorf("migrate while a session may be at work: got %v, want a FleetError with that", err)
	}
	if got := g.client.Get(g.ctx, g.parts[0].format()).Val(); got != g.markOf(migratable) {
		t.Errorf("the mark is %q then", got)
	}
	g.clock.Advance(2 * time.Minute) // its lease is past
	for range 2 {                    // it may be repeated
		g.check(Migrate(g.ctx, g.client, cfg))
		s := reopened()
		if diff := cmp.Diff(runs, listed(s)); diff != "" {
			t.Errorf("list after the migration (-before +after):\n%s", diff)
		}
		if got := counted(s); !maps.Equal(got, counts) {
			t.Errorf("counted %v, want %v", got, counts)
		}
		g.sound()
	}
	for _, key := range g.client.Keys(g.ctx, escaped(g.parts[0].tagBefore())+"*").Val() {
		if name := key[len(g.parts[0].tagBefore()):]; len(name) > 1 && name != "format" {
			t.Errorf("key %s of format 2 is left", key)
		}
	}
}

func TestMigrate_RefusesWhatItDoesNotKnow(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	for mark, want := range map[string]any{
		"flowgen 1 16": new(*store.OldFormatError), "flowgen 5 16": new(*store.VersionError), "flowgen 3 4": new(*PartitionsError),
	} {
		cfg := Config{Prefix: redistest.Prefix()}
		key := newPartition(cfg.Prefix, 0).format()
		if err := client.Set(t.Context(), key, mark, time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		if err := Migrate(t.Context(), client, cfg); !errors.As(err, want) {
			t.Errorf("migrate %q: got %v, want %T", mark, err, want)
		}
		if got := client.Get(t.Context(), key).Val(); got != mark {
			t.Errorf("the mark is %q now, and was %q", got, mark)
		}
	}
}
