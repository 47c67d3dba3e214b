package pairs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/ops"
)

// part is the state of a limit, or of its key "a", that rule R22 determines. A pause is independent
// of the configuration.
type part struct {
	AtOnce int // the configured value; 0 if there is none
	Paused bool
}

// limitModel is the expected state of a limit and of its key "a". Other keys have no state of their
// own.
type limitModel struct{ Whole, Key part }

// act applies an action to the limit or to the key.
func (m *limitModel) act(a admin.PoolAction) error {
	p := &m.Whole
	if a.Key != "" {
		p = &m.Key
	}
	switch a.Verb {
	case "set":
		p.AtOnce = a.Config.AtOnce
	case "reset":
		p.AtOnce = 0
	case "pause":
		p.Paused = true
	case "resume":
		p.Paused = false
	default:
		return fmt.Errorf("no row for %s: say what it does", a.Verb)
	}
	return nil
}

// limitCell is the observable state of a limit.
type limitCell struct {
	Whole    part
	ABegins  bool // whether a run with the key "a" begins
	BBegins  bool // whether a run with another key begins
	KeyShown bool // whether the key "a" is listed
}

// poolActions returns each action, on the limit and on the key "a".
func poolActions() (all []admin.PoolAction) {
	for _, verb := range admin.PoolActions() {
		for _, key := range []string{"", "a"} {
			a := admin.PoolAction{Verb: verb, Key: key}
			if verb == "set" {
				a.Config = &admin.PoolConfig{AtOnce: 7}
				if key != "" {
					a.Config.AtOnce = 5
				}
			}
			all = append(all, a)
		}
	}
	return all
}

func TestPairs_ThePauseOfALimitStandsBesideItsConfiguration(t *testing.T) {
	cells, broken := 0, 0
	for _, first := range poolActions() {
		if !*long && in(first.Verb, "reset", "resume") {
			continue // without effect on a limit that only has its declaration
		}
		for _, second := range poolActions() {
			name := fmt.Sprintf("%s %s, %s %s", first.Verb, first.Key, second.Verb, second.Key)
			cells++
			s := onMemory(t, false, byWorkers)
			var model limitModel
			if !s.until(most, func() bool {
				_, err := ops.New(s.Client).Limits().Named(s.Ctx, perKey.All().Name(), "")
				return err == nil
			}) {
				t.Fatalf("%s: the worker has not declared the limit", name)
			}
			for _, a := range []admin.PoolAction{first, second} {
				if _, err := s.service.ActOnPool(s.Ctx, perKey.All().Name(), a); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if err := model.act(a); err != nil {
					t.Fatal(err)
				}
			}
			want := limitCell{
				Whole: model.Whole, ABegins: !model.Whole.Paused && !model.Key.Paused, BBegins: !model.Whole.Paused, KeyShown: model.Key != part{},
			}
			if diff := cmp.Diff(want, s.limitCell(want)); diff != "" {
				t.Errorf("%s: R22 (-want +got):\n%s", name, diff)
				broken++
			}
			s.StopWorkers()
		}
	}
	t.Logf("%d cells: %d do not follow the rules", cells, broken)
}

// limitCell returns the observed state of the limit. want determines how long it waits for runs to
// begin.
func (s *stage) limitCell(want limitCell) (got limitCell) {
	s.T.Helper()
	page, err := s.service.Pools(s.Ctx, admin.PoolFilter{Name: perKey.All().Name()})
	if err != nil {
		s.T.Fatal(err)
	}
	for _, p := range page.Pools {
		if p.Key == "a" {
			got.KeyShown = true
		} else if p.Key == "" {
			got.Whole.Paused = p.Paused
			if p.Set && p.AtOnce != 1 {
				got.Whole.AtOnce = p.AtOnce
			}
		}
	}
	begins := func(key string, want bool) bool {
		run := s.start(pooled, work{Do: "complete", Key: key})
		most := most
		if !want {
			most = 20 * time.Millisecond // a run that must not begin is observed for a short time only
		}
		return s.until(most, func() bool { o, _ := observe(s.World, run.ID()); return o.Status == event.StatusCompleted })
	}
	got.BBegins = begins("b", want.BBegins)
	got.ABegins = begins("a", want.ABegins)
	return got
}
