package pairs_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
)

// sampled is the number of scenes that are executed on every store if no flag is set.
const sampled = 4

// TestPairs_EveryStoreDoesWhatTheRulesDecide proves that every store follows the rules. By default
// it judges one cell for each rule and outcome, in a few scenes that the seed selects. With
// -pairs.stores it judges all scenes that are marked for every store. With -pairs.long it judges
// all cells, also on a Redis Cluster, and sends a second command to each cell.
func TestPairs_EveryStoreDoesWhatTheRulesDecide(t *testing.T) {
	for _, sc := range scenesOnStores() {
		if !strings.Contains(sc.name, *onlyScene) {
			continue
		}
		t.Run(sc.name, func(t *testing.T) {
			test := func(t *testing.T, w *flowtest.World) {
				cells := cellsOf(t, sc, hostingOf(sc))
				if *long {
					turns(cells)
				} else {
					cells = onePerRule(cells)
				}
				judge(newStage(w, nil, hostingOf(sc)), cells)
				for _, c := range cells {
					compare(t, c, map[[2]string][]string{})
				}
			}
			flowtest.OnVirtualTimeInPartitions(t, inPartitions, test)
			if *long {
				flowtest.OnVirtualTimeOnCluster(t, inPartitions, test)
			}
		})
	}
}

// TestPairs_ACommandHoldsIfOneOfTwoWorkersIsKilled proves that commands have their effects if one
// of two workers is killed while it processes them. The test needs -pairs.long and judges all cells
// of all scenes.
func TestPairs_ACommandHoldsIfOneOfTwoWorkersIsKilled(t *testing.T) {
	if !*long {
		t.Skip("it needs minutes: make pairs")
	}
	for _, sc := range scenesOnStores() {
		if !strings.Contains(sc.name, *onlyScene) {
			continue
		}
		t.Run(sc.name, func(t *testing.T) {
			flowtest.OnVirtualTimeInPartitions(t, inPartitions, func(t *testing.T, w *flowtest.World) {
				s, cells := newStage(w, nil, byWorkers), cellsOf(t, sc, byWorkers)
				s.withMortal()
				judge(s, cells)
				for _, c := range cells {
					compare(t, c, map[[2]string][]string{})
				}
				if n := s.fleet.Deaths.Load(); n != 1 {
					t.Errorf("%d workers were killed, want 1", n)
				}
			})
		})
	}
}

// scenesOnStores returns the scenes that are executed on every store. They are also executed with
// flowctl.
func scenesOnStores() (some []*scene) {
	for i := range scenes {
		if *long || scenes[i].everywhere {
			some = append(some, &scenes[i])
		}
	}
	if *long || *stores || *onlyScene != "" {
		return some
	}
	chance := rand.New(rand.NewPCG(uint64(*seed), 53))
	chance.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	return some[:sampled]
}

// onePerRule returns the first cell for each rule and outcome, and all cells that owed lists by
// scene and command.
func onePerRule(cells []*cell) (some []*cell) {
	seen := map[string]bool{}
	for _, c := range cells {
		what := fmt.Sprint(c.by, c.want)
		if seen[what] && owed[[2]string{c.scene.name, c.cmd.name}] == nil {
			continue
		}
		seen[what] = true
		some = append(some, c)
	}
	return some
}

// turns selects a second command for each cell. The seed determines the selection.
func turns(cells []*cell) {
	chance := rand.New(rand.NewPCG(uint64(*seed), 35))
	all := commands()
	for _, c := range cells {
		of := all
		if c.id == "" || c.noStarts || c.alone || in(string(c.want.Effect), string(reran), string(started), string(deleted)) {
			of = bare(all) // another start or bulk action may apply to another run or to no run
		}
		for c.second == nil ||
			c.want.Effect == deleted && c.second.name == "cancel many" || // this command would repeat the first cancel and get its remembered answer
			c.facts.OfStep && in(string(c.want.Effect), string(canceled), string(terminated)) && in(c.second.verb, verbHook, verbFailing) { // the step run accepts an outcome until the end of the first run reaches it
			c.second = &of[chance.IntN(len(of))]
		}
	}
}

// bare returns the commands without the starts and the bulk actions. In all, they precede these.
func bare(all []command) []command {
	for i := range all {
		if all[i].verb == verbUse {
			return all[:i]
		}
	}
	return all
}

// next returns the facts of a run after a command had its effect: the observed facts, and the facts
// that the command has changed.
func (c *cell) next(s *stage) facts {
	f := c.facts
	o, there := observe(s.World, c.run)
	f.Observed, f.Gone = o, !there
	f.Last, _ = observe(s.World, c.takes())
	if there {
		s.notes(c)
	}
	f.Step = c.step != ""
	f.Terminated = f.Terminated || c.want.Answer == done && c.cmd.verb == "terminate"
	if again := s.lastRerun(c.run); again != c.run {
		made, _ := observe(s.World, again)
		f.Rerun = made.Status
	}
	if state := stateOf(s.load(c.run).Frames); state.Failure != nil {
		f.Undone = len(state.Failure.Undone) > 0
	}
	if c.id != "" {
		active, err := s.Client.RunByID(c.id).Info(s.Ctx)
		f.Taken = err == nil && active.ID != c.run && active.ID != c.takes() && active.EndedAt.IsZero()
	}
	return f
}

// lastRerun returns the last run in the chain of reruns of a run. It returns the run itself if
// there is no rerun.
func (s *stage) lastRerun(run event.RunID) event.RunID {
	s.T.Helper()
	for {
		next := s.load(run).Record.Rerun
		if _, there := observe(s.World, next); next == "" || !there {
			return run
		}
		run = next
	}
}
