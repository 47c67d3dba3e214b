package fsck_test

import (
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
)

var gpu, disk = store.LimitID{Name: "gpu"}, store.LimitID{Name: "disk"}

func use(ids ...store.LimitID) (uses []store.Use) {
	for _, id := range ids {
		uses = append(uses, store.Use{LimitID: id, Weight: 1})
	}
	return uses
}

// limits is a store with the limits gpu and disk. One run holds the only permit of gpu, and two
// runs wait for it in one limiter queue. A later run waits in another queue for gpu and disk.
type limits struct {
	*state

	holder, first, second, both *store.RunState
}

func withLimits(s *state) *limits {
	x := &limits{state: s}
	_, x.holder = s.add(store.StateOwned, event.Spec{})
	x.holder.Uses, x.holder.Permits = use(gpu), true
	x.holder.Fence, x.holder.Owner = store.Fence{Epoch: 1, Token: s.token}, s.owner
	s.Owned[s.owner] = append(s.Owned[s.owner], x.holder.Run)
	for _, r := range []**store.RunState{&x.first, &x.second, &x.both} {
		_, *r = s.add(store.StateReady, event.Spec{})
		(*r).Uses = use(gpu)
	}
	x.both.Uses = use(disk, gpu)
	s.Limits = map[store.LimitID]store.LimitState{
		gpu:  {LimitID: gpu, Config: store.LimitConfig{AtOnce: 1}, Held: 1, Waits: 3},
		disk: {LimitID: disk, Waits: 1},
	}
	s.Waiting = []store.WaitingQueue{
		{Route: route, Uses: use(gpu), Runs: []event.RunID{x.first.Run, x.second.Run}, Closed: true, Stands: 1},
		{Route: route, Uses: use(disk, gpu), Runs: []event.RunID{x.both.Run}, Closed: true, Stands: 3},
	}
	return x
}

// of changes the state of a limit or key.
func (x *limits) of(id store.LimitID, change func(*store.LimitState)) {
	l := x.Limits[id]
	change(&l)
	x.Limits[id] = l
}

func breaks(do func(x *limits), want ...int) damage {
	return damage{want, func(s *state) { do(withLimits(s)) }}
}

var limitDamage = map[string]damage{
	"19 a permit too many is counted":       breaks(func(x *limits) { x.of(gpu, func(l *store.LimitState) { l.Held++ }) }, 19),
	"19 a permit is not counted":            breaks(func(x *limits) { x.of(gpu, func(l *store.LimitState) { l.Held-- }) }, 19, 20),
	"19 who waits is not counted":           breaks(func(x *limits) { x.of(gpu, func(l *store.LimitState) { l.Waits-- }) }, 19),
	"19 a limit is counted that nobody has": breaks(func(x *limits) { x.Limits[store.LimitID{Name: "other"}] = store.LimitState{Held: 1} }, 19),
	"19 an owner has no permits":            breaks(func(x *limits) { x.holder.Permits = false }, 19),
	"19 a parked run has permits": breaks(func(x *limits) {
		r := x.Runs[x.parked]
		r.Uses, r.Permits = use(disk), true
		x.of(disk, func(l *store.LimitState) { l.Held++ })
	}, 19),
	"19 a run that has ended has permits": breaks(func(x *limits) {
		r := x.Runs[x.ended]
		r.Uses, r.Permits, r.Whole = use(disk), true, true
		x.of(disk, func(l *store.LimitState) { l.Held++ })
	}, 19),
	"19 a run has permits of no limit":                    breaks(func(x *limits) { x.Runs[x.ready].Permits = true }, 19),
	"19 a run is called off from no line":                 breaks(func(x *limits) { x.Runs[x.ready].LeftQueue = true }, 19),
	"19 who waits for another limit first is not counted": breaks(func(x *limits) { x.of(gpu, func(l *store.LimitState) { l.Away++ }) }, 19),
	"20 a line counts at no limit":                        breaks(func(x *limits) { x.Waiting[0].Stands = 0 }, 19, 20),
	"20 who waits is in no line":                          breaks(func(x *limits) { x.Waiting[0].Runs = x.Waiting[0].Runs[:1] }, 20),
	"20 who waits is in its line twice":                   breaks(func(x *limits) { x.Waiting[0].Runs = append(x.Waiting[0].Runs, x.first.Run) }, 20),
	"20 who waits is in another line":                     breaks(func(x *limits) { x.Waiting[1].Runs = append(x.Waiting[1].Runs, x.second.Run) }, 20),
	"20 who does not wait is in a line":                   breaks(func(x *limits) { x.Waiting[0].Runs = append(x.Waiting[0].Runs, x.holder.Run) }, 20),
	"20 a line is that of another route":                  breaks(func(x *limits) { x.Waiting[0].Route.Queue += "-not" }, 20),
	"20 a line is for other uses":                         breaks(func(x *limits) { x.Waiting[0].Uses = use(disk) }, 20),
	"20 more room is told to nobody":                      breaks(func(x *limits) { x.of(gpu, func(l *store.LimitState) { l.Config.AtOnce = 2 }) }, 20),
	"20 no limit is told to nobody":                       breaks(func(x *limits) { x.of(gpu, func(l *store.LimitState) { l.Config = store.LimitConfig{} }) }, 20),
	"20 who is kept back by an open line is told nothing": breaks(func(x *limits) {
		x.Waiting[0].Closed = false
		x.of(gpu, func(l *store.LimitState) { l.Config.AtOnce = 2 })
	}, 20),
	"20 a nested run is kept back by who waits for more": breaks(func(x *limits) {
		x.Waiting = []store.WaitingQueue{x.Waiting[1], x.Waiting[0]}
		x.Waiting[1].Uses = []store.Use{{LimitID: disk, Weight: 1, Nested: true}}
		for _, r := range []*store.RunState{x.first, x.second} {
			r.Uses = x.Waiting[1].Uses
		}
		x.of(gpu, func(l *store.LimitState) { l.Waits = 1 })
		x.of(disk, func(l *store.LimitState) { l.Waits = 3 })
	}, 20),
}

// TestCheck_KnowsWhatAShutLineWaitsFor proves that Check accepts a closed queue that waits for a
// permit, a pause, a rate or a time.
func TestCheck_KnowsWhatAShutLineWaitsFor(t *testing.T) {
	for name, change := range map[string]func(x *limits){
		"a permit": func(*limits) {},
		"a pause": func(x *limits) {
			x.of(gpu, func(l *store.LimitState) { l.Config = store.LimitConfig{Paused: true} })
			x.of(disk, func(l *store.LimitState) { l.Away++ })
			x.Waiting[1].Stands = 1 << 1 // the queue counts only at the paused limit
		},
		"a rate": func(x *limits) {
			x.of(gpu, func(l *store.LimitState) { l.Config, l.Next = store.LimitConfig{Rate: 1}, x.Now.Add(time.Second) })
		},
		"a time": func(x *limits) {
			x.of(gpu, func(l *store.LimitState) { l.Config.AtOnce = 2 })
			x.Waiting[0].Until = x.Now.Add(time.Second)
		},
		"a called line before it": func(x *limits) {
			x.of(gpu, func(l *store.LimitState) { l.Config.AtOnce = 2 })
			x.Waiting[0].Closed, x.Waiting[0].Admitted, x.Waiting[0].Until = false, true, x.Now.Add(time.Second)
		},
		"a line before it that waits for nothing else": func(x *limits) {
			x.Waiting[1].Uses = []store.Use{{LimitID: disk, Weight: 1, Nested: true}, {LimitID: gpu, Weight: 1, Nested: true}}
			x.both.Uses = x.Waiting[1].Uses
			x.of(gpu, func(l *store.LimitState) { l.Config.AtOnce = 2 })
			x.Waiting[0].Uses = []store.Use{{LimitID: gpu, Weight: 2}}
			x.first.Uses, x.second.Uses = x.Waiting[0].Uses, x.Waiting[0].Uses
			x.of(gpu, func(l *store.LimitState) { l.Waits = 5 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := withLimits(intact(t))
			change(x)
			for _, f := range fsck.Check(x.Snapshot) {
				t.Errorf("finding: %v", f)
			}
		})
	}
}
