package pairs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
)

// part is a limit as a whole, or its key "a", as described by rule R22. A pause is independent of
// the configuration.
type part struct {
	AtOnce int // the configured value; 0: none
	Paused bool
}

// limitModel is a limit with the key "a", and any other key.
type limitModel struct{ Whole, Key part }

// act applies an action to a part.
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
	ABegins  bool // a run with the key "a" begins
	BBegins  bool // a run with another key begins
	KeyShown bool // an unpaused row of the key without a configuration is only a trace
}

// poolActions returns each action on each part.
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
			continue // these have no effect on a limit as declared
		}
		for _, second := range poolActions() {
			name := fmt.Sprintf("%s %s, %s %s", first.Verb, first.Key, second.Verb, second.Key)
			cells++
			s := onMemory(t)
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

// limitCell returns the observable state of the limit.
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
		run := flowtest.Start(s.World, pooled, work{Do: "complete", Key: key})
		most := most
		if !want {
			most = 20 * time.Millisecond // the rows above show a run that does not begin by then
		}
		return s.until(most, func() bool { o, _ := observe(s.World, run.ID()); return o.Status == event.StatusCompleted })
	}
	got.BBegins = begins("b", want.BBegins)
	got.ABegins = begins("a", want.ABegins)
	return got
}
