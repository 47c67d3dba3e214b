package archive

import (
	"context"
	"errors"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// links returns the records of runs with the given parents and continuations.
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

// A reader of a file with a cycle would not terminate, or would exhaust its stack.
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

// Of a cycle of runs the last one that an import adds is refused.
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
