package ops

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/store"
)

// Limits configures limits at run time and lists their state. A configuration set with this type
// takes precedence over the declaration in code, for all workers at once. Additional capacity is
// available immediately. Reduced capacity takes effect as runs release their permits.
type Limits struct{ c *Client }

// Limits returns an object that configures and lists the limits of the store.
func (c *Client) Limits() Limits { return Limits{c} }

// LimitInfo describes the current state of a limit, or of one key of a limit.
type LimitInfo struct {
	Name   string
	Key    string // empty: the limit has no keys, or the entry applies to keys without a configuration
	Config limit.Config
	Set    bool // the configuration was set at run time; false: it is the declared one, or there is none
	Paused bool
	Held   int // total weight of the permits in use
	Waits  int // total weight of the waiting requests
	// Next is the time at which the rate allows the next use to begin. It is zero if the rate
	// allows it now, or if there is no rate.
	Next time.Time
}

// Set configures a limit, or one key of a limit. If the rate changes, past uses count as if the new
// rate had applied to them. The next use then waits at most one interval of the new rate, unless
// step.HoldBack has closed the limit. Config.Spread has no effect: the declared value applies. A
// paused limit stays paused.
//
// Errors: a *store.InvalidError for an invalid configuration, or for a limit per worker, whose size
// is set in worker.Config.Capacity; or store.ErrNoLimits if the store has no limits.
func (l Limits) Set(ctx context.Context, which limit.Limit, c limit.Config) error {
	return l.set(ctx, l.part(which), settingTo(c))
}

// settingTo returns the change that Set makes. resetting, pausing and resuming are the changes that
// Reset, Pause and Resume make.
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

// Reset removes the configuration that was set, so that the declared configuration applies. Reset,
// Pause and Resume return the errors of Set.
func (l Limits) Reset(ctx context.Context, which limit.Limit) error {
	return l.set(ctx, l.part(which), resetting)
}

// Pause prevents steps and runs that use the limit from beginning until Resume is called. Holders
// of permits continue. Set, Reset and a new deployment do not end the pause.
func (l Limits) Pause(ctx context.Context, which limit.Limit) error {
	return l.set(ctx, l.part(which), pausing)
}

// Resume ends a pause. The configuration that was set, or the declared one, applies again. A key
// stays paused while the limit as a whole is paused.
func (l Limits) Resume(ctx context.Context, which limit.Limit) error {
	return l.set(ctx, l.part(which), resuming)
}

// List returns all limits and keys that are configured, in use or waited for, sorted by name and
// key.
func (l Limits) List(ctx context.Context) ([]LimitInfo, error) {
	limiter, err := l.limiter()
	if err != nil {
		return nil, err
	}
	states, err := permits.States(ctx, limiter, l.all())
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

func (l Limits) limiter() (store.Limiter, error) {
	if err := l.c.inner.Check(); err != nil {
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
			What: "limit", Value: which.id.Name, Reason: "is local to each worker: set its capacity in worker.Config.Capacity",
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

// limitPart is a limit, or one key of a limit, and the partitions that keep it.
type limitPart struct {
	id         store.LimitID
	local      bool
	partitions []int
}

// part returns the limitPart of a limit that this program declares.
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

// ErrLimitNotFound means that no worker has declared a limit with that name to the store. Workers
// do not declare limits per worker to the store.
var ErrLimitNotFound = errors.New("ops: limit not found")

// NamedLimit is a limit, or one key of a limit, identified by name. Programs that do not contain
// the declaration of the limit use it.
type NamedLimit struct {
	l    Limits
	part limitPart
}

// Named returns a limit by name and key. If key is empty, it returns the limit as a whole, whose
// configuration applies to all keys without their own. Named reads from the store in which
// partitions the limit is kept. Errors: [ErrLimitNotFound] and store.ErrNoLimits.
//
// A limit that is spread by its keys is declared in every partition. Any other limit is declared in
// a single partition, see limit.Config.Spread. A worker declares a limit in each partition when it
// begins to serve the partition. Until a spread limit is declared in a second partition, Named
// treats it as a limit that is not spread.
func (l Limits) Named(ctx context.Context, name, key string) (NamedLimit, error) {
	limiter, err := l.limiter()
	if err != nil {
		return NamedLimit{}, err
	}
	n := NamedLimit{l: l, part: limitPart{id: store.LimitID{Name: name, Key: key}}}
	if err := n.part.id.Check(); err != nil {
		return n, fmt.Errorf("find limit: %w", err)
	}
	d := permits.Declared{Name: name}
	home := int(d.Slot("")) % l.c.store.Partitions()
	found := false
	for _, p := range l.all() {
		there, err := declaredIn(ctx, limiter, p, name)
		if err != nil {
			return n, fmt.Errorf("find limit %s: %w", n.part.id, err)
		}
		found = found || there
		d.Spread = d.Spread || there && p != home
	}
	if !found {
		return n, fmt.Errorf("limit %q: %w", name, ErrLimitNotFound)
	}
	if d.Spread && key == "" {
		n.part.partitions = l.all()
	} else {
		n.part.partitions = []int{int(d.Slot(key)) % l.c.store.Partitions()}
	}
	return n, nil
}

// declaredIn reports whether a partition has a configuration for the limit as a whole.
func declaredIn(ctx context.Context, limiter store.Limiter, partition int, name string) (bool, error) {
	// The empty key of the limit as a whole sorts first among the keys of the limit.
	_, last := utf8.DecodeLastRuneInString(name)
	page, err := limiter.Limits(ctx, partition, store.LimitID{Name: name[:len(name)-last]}, permits.StatesPage)
	for err == nil && len(page) > 0 {
		for _, s := range page {
			if s.Name == name && s.Key == "" {
				return s.Default || s.Set, nil
			}
			if s.Name > name {
				return false, nil
			}
		}
		page, err = limiter.Limits(ctx, partition, page[len(page)-1].LimitID, permits.StatesPage)
	}
	return false, err
}

// Set is like [Limits.Set].
func (n NamedLimit) Set(ctx context.Context, c limit.Config) error {
	return n.l.set(ctx, n.part, settingTo(c))
}

// Reset is like [Limits.Reset].
func (n NamedLimit) Reset(ctx context.Context) error {
	return n.l.set(ctx, n.part, resetting)
}

// Pause is like [Limits.Pause].
func (n NamedLimit) Pause(ctx context.Context) error { return n.l.set(ctx, n.part, pausing) }

// Resume is like [Limits.Resume].
func (n NamedLimit) Resume(ctx context.Context) error { return n.l.set(ctx, n.part, resuming) }
