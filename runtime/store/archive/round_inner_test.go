package archive

import (
	"context"
	"errors"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// links returns a Store with the records of runs that have the given parents and continuations.
func links(parents, next map[string]string) (*Store, map[string]event.RunID) {
	ids := map[string]event.RunID{}
	id := func(name string) event.RunID {
		if name == "" {
			return ""
		}
		if ids[name] == "" {
			ids[name] = event.NewRunID(store.SystemClock.Now(), 0)
		}
		return ids[name]
	}
	s := &Store{runs: map[event.RunID]*kept{}, closed: make(chan struct{})}
	for name := range parents {
		r := &kept{rec: store.Record{Run: id(name), Parent: id(parents[name]), Next: id(next[name])}}
		s.runs[r.rec.Run], s.order = r, append(s.order, r)
	}
	return s, ids
}

// TestOPS1_AFileWhoseRunsGoRoundIsRefused proves that a file with a cycle of runs is refused. A
// reader of such a file would not terminate or would exhaust its stack.
func TestOPS1_AFileWhoseRunsGoRoundIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		parents, next map[string]string
		round         bool
	}{
		"a tree and a chain":        {map[string]string{"a": "", "b": "a", "c": "a", "d": "b", "e": "gone"}, map[string]string{"a": "e", "e": "later"}, false},
		"its own parent":            {map[string]string{"a": "a", "b": ""}, nil, true},
		"its own grandparent":       {map[string]string{"a": "b", "b": "a"}, nil, true},
		"continues as itself":       {map[string]string{"a": ""}, map[string]string{"a": "a"}, true},
		"continues as one before":   {map[string]string{"a": "", "b": "", "c": "", "d": ""}, map[string]string{"a": "b", "b": "c", "c": "b", "d": "a"}, true},
		"below one that goes round": {map[string]string{"a": "b", "b": "c", "c": "b"}, nil, true},
	} {
		s, _ := links(c.parents, c.next)
		var refused *store.ImportError
		if err := s.straight(); (err != nil) != c.round || err != nil && (!errors.As(err, &refused) || refused.Why != store.ImportRound) {
			t.Errorf("%s: got %v, want it refused: %v", name, err, c.round)
		}
	}
}

// TestOPS1_ARunThatClosesACircleIsNotImported proves that an import refuses the run that would
// complete a cycle of runs.
func TestOPS1_ARunThatClosesACircleIsNotImported(t *testing.T) {
	s, ids := links(map[string]string{"a": "b", "b": "c"}, nil)
	parent := func(r *store.Record) event.RunID { return r.Parent }
	for name, want := range map[string]bool{"c": true, "b": true, "d": false} {
		if ids[name] == "" {
			ids[name] = event.NewRunID(store.SystemClock.Now(), 0)
		}
		got, err := leadsTo(context.Background(), s, ids["a"], ids[name], parent)
		if got != want || err != nil {
			t.Errorf("a below %s: got %v, %v, want %v", name, got, err, want)
		}
	}
}
