package workflow

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/store"
)

// Limits configures limits at run time and lists their state. A configuration set here takes
// precedence over the declaration in code, for all workers at once: additional capacity is
// available immediately; reduced capacity takes effect as runs release their permits.
type Limits struct{ c *Client }

// Limits returns the interface to the limits of the store.
func (c *Client) Limits() Limits { return Limits{c} }

// LimitInfo describes the current state of one part of a limit.
type LimitInfo struct {
	Name   string
	Key    string // empty: the limit has no keys, or this part applies to keys without a configuration
	Config limit.Config
	Set    bool // set at run time; false: as declared, or not configured
	Paused bool
	Held   int // total weight of the permits in use
	Waits  int // total weight of the waiting requests
	// Next is when the rate allows the next begin; zero: now, or there is no rate.
	Next time.Time
}

// Set configures a limit, or one key of a limit. If the rate changes, past begins count as if the
// new rate had applied to them: the next begin waits at most one interval of the new rate, unless
// step.HoldBack has closed the limit. Config.Spread has no effect, it stays as declared. A paused
// limit stays paused. The error is an *store.InvalidError for an invalid configuration, and for a
// limit per worker, whose size is set in worker.Config.Capacity; or store.ErrNoLimits.
func (l Limits) Set(ctx context.Context, which limit.Limit, c limit.Config) error {
	return l.set(ctx, l.part(which), settingTo(c))
}

// settingTo returns the change that Set makes. resetting, pausing and resuming are the changes of
// the other methods.
func settingTo(c limit.Config) store.SetLimit {
	return store.SetLimit{
		Config:    store.LimitConfig{AtOnce: c.AtOnce, Rate: c.Rate, Burst: c.Burst, Per: c.Per, Refuse: c.Refuse, Waiting: c.Waiting},
		KeepPause: true,
	}
}

var (
	resetting = store.SetLimit{Reset: true, KeepPause: true}
	pausing   = store.SetLimit{Config: store.LimitConfig{Paused: true}, PauseOnly: true}
	resuming  = store.SetLimit{PauseOnly: true}
)

// Reset removes what was set: the limit has its declared configuration again. The errors of Reset,
// Pause and Resume are those of Set.
func (l Limits) Reset(ctx context.Context, which limit.Limit) error {
	return l.set(ctx, l.part(which), resetting)
}

// Pause prevents everything that uses the limit from beginning, until Resume. Holders of permits
// continue. Only Resume ends the pause: neither Set nor Reset does, nor a deployment that declares
// the limit.
func (l Limits) Pause(ctx context.Context, which limit.Limit) error {
	return l.set(ctx, l.part(which), pausing)
}

// Resume ends a pause: the configuration set before, or the declared one, applies again. A key is
// paused if it is paused itself or if the limit as a whole is.
func (l Limits) Resume(ctx context.Context, which limit.Limit) error {
	return l.set(ctx, l.part(which), resuming)
}

// List returns all parts of limits that are configured, in use or waited for, sorted by name and
// key.
func (l Limits) List(ctx context.Context) ([]LimitInfo, error) {
	states, err := l.list(ctx, l.all())
	if err != nil {
		return nil, err
	}
	infos := make([]LimitInfo, len(states))
	for i, s := range states {
		infos[i] = LimitInfo{
			Name: s.Name, Key: s.Key, Set: s.Set, Paused: s.Config.Paused, Held: s.Held, Waits: s.Waits, Next: s.Next,
			Config: limit.Config{
				AtOnce: s.Config.AtOnce, Rate: s.Config.Rate, Burst: s.Config.Burst, Per: s.Config.Per,
				Refuse: s.Config.Refuse, Waiting: s.Config.Waiting,
			},
		}
	}
	return infos, nil
}

// list merges the states of several partitions. A spread limit has its configuration in each of
// them.
func (l Limits) list(ctx context.Context, partitions []int) ([]store.LimitState, error) {
	limiter, err := l.limiter()
	if err != nil {
		return nil, err
	}
	merged := map[store.LimitID]store.LimitState{}
	for _, p := range partitions {
		var after store.LimitID
		for {
			page, err := limiter.Limits(ctx, p, after, limitPage)
			if err != nil {
				return nil, fmt.Errorf("list limits: %w", err)
			}
			for _, s := range page {
				if was, ok := merged[s.LimitID]; ok {
					s.Held, s.Waits = s.Held+was.Held, s.Waits+was.Waits
				}
				merged[s.LimitID] = s
			}
			if len(page) < limitPage {
				break
			}
			after = page[len(page)-1].LimitID
		}
	}
	return sortedLimits(merged), nil
}

// limitPage is the number of limits read per request. A store may read all limits of a partition
// for each page.
const limitPage = 5000

func sortedLimits(all map[store.LimitID]store.LimitState) []store.LimitState {
	sorted := slices.Collect(maps.Values(all))
	slices.SortFunc(sorted, func(a, b store.LimitState) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
	})
	return sorted
}

func (l Limits) limiter() (store.Limiter, error) {
	if err := l.c.check(); err != nil {
		return nil, err
	}
	limiter, ok := store.As[store.Limiter](l.c.store)
	if !ok {
		return nil, store.ErrNoLimits
	}
	return limiter, nil
}

func (l Limits) set(ctx context.Context, which limitPart, s store.SetLimit) error {
	if which.local {
		return fmt.Errorf("set limit %s: %w", which.id, &store.InvalidError{
			What: "limit", Value: which.id.Name, Reason: "is each worker's own: say how much one has in worker.Config.Capacity",
		})
	}
	limiter, err := l.limiter()
	if err != nil {
		return fmt.Errorf("set limit %s: %w", which.id, err)
	}
	s.LimitID = which.id
	for _, p := range which.partitions {
		if err := limiter.SetLimits(ctx, p, []store.SetLimit{s}); err != nil {
			return fmt.Errorf("set limit %s: %w", which.id, err)
		}
	}
	return nil
}

// limitPart is a part of a limit and the partitions that keep it.
type limitPart struct {
	id         store.LimitID
	local      bool
	partitions []int
}

// part returns the part for a limit declared in this code.
func (l Limits) part(which limit.Limit) limitPart {
	u := which.Use(1)
	part := limitPart{id: store.LimitID{Name: which.Name(), Key: which.Key()}, local: u.Local}
	if u.Spread && which.Key() == "" {
		part.partitions = l.all()
	} else {
		part.partitions = []int{int(u.Slot) % l.c.store.Partitions()}
	}
	return part
}

// all returns the numbers of all partitions.
func (l Limits) all() []int {
	all := make([]int, l.c.store.Partitions())
	for p := range all {
		all[p] = p
	}
	return all
}

// overweight returns a [store.LimitError] if a run to start uses more of a limit than its AtOnce
// and the store would not refuse it: before a worker has declared the limit, and if another run
// takes the permits because the workflow ID places the run in another partition. It reads the store
// only if the declaration in this process is exceeded; a configuration in the store takes
// precedence.
func (c *Client) overweight(ctx context.Context, uses []event.Use, slot uint16, permitSlot int) error {
	for _, u := range permits.Stored(permits.Fleet(uses)) {
		most := permits.Default(u.Name).AtOnce
		if most == 0 || u.Weight <= most {
			continue
		}
		if permitSlot != 0 {
			slot = uint16(permitSlot - 1)
		}
		states, err := c.Limits().list(ctx, []int{int(slot) % c.store.Partitions()})
		if err != nil {
			return err
		}
		whole := true // most is the value of the limit as a whole
		for _, s := range states {
			switch known := s.Name == u.Name && (s.Set || s.Default); {
			case known && s.Key == u.Key:
				most, whole = s.Config.AtOnce, false
			case known && s.Key == "" && whole:
				most = s.Config.AtOnce
			}
		}
		if most > 0 && u.Weight > most {
			return &store.LimitError{Limit: u.LimitID, Weight: u.Weight, AtOnce: most}
		}
	}
	return nil
}
