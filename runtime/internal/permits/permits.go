// Package permits contains the limits that the code declares, and the slots of partitions in which
// the limits are stored.
package permits

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Use is a share of a limit that a run takes, with the slot in which the limit is stored. The run
// is created in the same slot, because it takes its permits in the action that grants it to a
// worker.
type Use struct {
	event.Use
	Slot   uint16
	Spread bool // whether each key of the limit has its own slot
}

// Declared is a limit that the code declares.
type Declared struct {
	Name   string
	Config store.LimitConfig
	Spread bool // whether each key has its own slot
	Keyed  bool
	Local  bool // whether each worker has its own limit, whose size is in worker.Config.Capacity
}

// home is the slot of all limits that are not spread over slots.
var home = event.SlotOf("flowgen.limits")

// Slot returns the slot in which the limit, or the given key of a spread limit, is stored.
func (d *Declared) Slot(key string) uint16 {
	if d.Spread {
		return event.SlotOf(d.Name + "/" + key)
	}
	return home
}

var (
	mu       sync.Mutex
	declared = map[string]*Declared{}
)

// Declare makes the workers of the process configure a limit that was not configured at run time.
// It panics if the name is taken by a different limit or if the limit is invalid. A panic is
// appropriate because limits are declared as package variables.
func Declare(d Declared) *Declared {
	set := store.SetLimit{LimitID: store.LimitID{Name: d.Name}, Config: d.Config, Default: true}
	if err := set.Check(); err != nil {
		panic("limit: " + err.Error())
	}
	mu.Lock()
	defer mu.Unlock()
	if old := declared[d.Name]; old != nil && *old != d {
		panic(fmt.Sprintf("limit: %q is declared twice, as %+v and as %+v: give one of them another name", d.Name, *old, d))
	}
	declared[d.Name] = &d
	return &d
}

// Defaults returns the limits that a worker configures in a partition of a store with the given
// number of partitions.
func Defaults(partition, partitions int) []store.SetLimit {
	mu.Lock()
	defer mu.Unlock()
	var all []store.SetLimit
	for _, d := range declared {
		if !d.Local && (d.Spread || int(home)%partitions == partition) {
			all = append(all, store.SetLimit{LimitID: store.LimitID{Name: d.Name}, Config: d.Config, Default: true})
		}
	}
	slices.SortFunc(all, func(a, b store.SetLimit) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Unconfigured returns the limits without keys that the code of this process declares without a
// bound. It also returns the partition in which they are stored, in a store with the given number
// of partitions.
func Unconfigured(partitions int) (names []store.LimitID, partition int) {
	mu.Lock()
	defer mu.Unlock()
	for _, d := range declared {
		if !d.Local && !d.Keyed && d.Config == (store.LimitConfig{}) {
			names = append(names, store.LimitID{Name: d.Name})
		}
	}
	return names, int(home) % partitions
}

// Default returns the configuration that the code of this process declares for a limit.
func Default(name string) store.LimitConfig {
	mu.Lock()
	defer mu.Unlock()
	if d := declared[name]; d != nil {
		return d.Config
	}
	return store.LimitConfig{}
}

// Error is the error of uses that cannot be combined.
type Error struct{ Reason string }

// Error returns the reason.
func (e *Error) Error() string { return "limits: " + e.Reason }

// Merge returns the uses of a run in the form of its log, and the slot in which the run must be
// created. Equal uses are merged; the larger weight counts. If all uses are local, the slot has no
// meaning; see Fleet.
func Merge(uses []Use) ([]event.Use, uint16, error) {
	if len(uses) == 0 {
		return nil, 0, nil
	}
	merged := make([]event.Use, 0, len(uses))
	var fleet *Use // the first use that is not local
	for i, u := range uses {
		merged = append(merged, u.Use)
		switch {
		case u.Local:
		case fleet == nil:
			fleet = &uses[i]
		case u.Slot != fleet.Slot:
			return nil, 0, &Error{fmt.Sprintf("a run cannot use %s and %s: limits that are spread by their keys are in different partitions: declare them without Spread", name(*fleet), name(u))}
		}
	}
	if fleet == nil {
		fleet = &Use{}
	}
	slices.SortFunc(merged, func(a, b event.Use) int {
		return cmp.Or(strings.Compare(a.Limit, b.Limit), strings.Compare(a.Key, b.Key), cmp.Compare(b.Weight, a.Weight))
	})
	merged = slices.CompactFunc(merged, func(a, b event.Use) bool { return a.Limit == b.Limit && a.Key == b.Key })
	return merged, fleet.Slot, store.CheckUses(Stored(merged))
}

// Take sets the fields of c that follow from the limits in s: the permits of the run, whether the
// run keeps them to its end, and its fairness key.
func Take(c *store.Create, s *event.Spec) {
	c.Fair, c.Share = s.Fair, s.Share
	if s.PermitSlot != 0 {
		c.Uses = Stored(slices.DeleteFunc(slices.Clone(s.Uses), func(u event.Use) bool { return !u.Local }))
		return
	}
	c.Uses, c.Whole = Stored(s.Uses), s.Whole
	nested := len(missing(s.Held, s.Uses)) > 0 // whether a permit run takes limits that its Spec lists as held by runs above it
	for i := range c.Uses {
		c.Uses[i].Nested = nested
	}
}

// Held returns the permits that a run and the runs above it keep until their ends.
func Held(s *event.Spec) []event.Use {
	if !s.Whole {
		return s.Held
	}
	return slices.Concat(s.Held, Fleet(s.Uses))
}

// Fleet returns the uses whose limits are in the store and not local to each worker. A run of a
// workflow with such uses keeps its permits until its end and is in the slot of the limits.
func Fleet(uses []event.Use) []event.Use {
	return slices.DeleteFunc(slices.Clone(uses), func(u event.Use) bool { return u.Local })
}

// Missing returns the uses for which a run needs its own permits if the run is started by the run
// by or by one of its steps. Uses of limits that a run above it holds are not taken again, whatever
// their weights. So a chain of runs never waits for itself.
func Missing(uses []event.Use, by *event.Spec) []event.Use {
	return missing(uses, Held(by))
}

// missing returns the uses whose limits are not among held.
func missing(uses, held []event.Use) []event.Use {
	var all []event.Use
	for _, u := range uses {
		if !slices.ContainsFunc(held, func(h event.Use) bool { return h.Limit == u.Limit && h.Key == u.Key }) {
			all = append(all, u)
		}
	}
	return all
}

func name(u Use) store.LimitID { return store.LimitID{Name: u.Limit, Key: u.Key} }

// Stored converts uses from the form of a log to the form of a store.
func Stored(uses []event.Use) []store.Use {
	if len(uses) == 0 {
		return nil
	}
	all := make([]store.Use, len(uses))
	for i, u := range uses {
		all[i] = store.Use{LimitID: store.LimitID{Name: u.Limit, Key: u.Key}, Weight: u.Weight, Local: u.Local}
	}
	return all
}
