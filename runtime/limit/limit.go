// Package limit declares how much may run at once, or begin per time, across all workers of a
// store.
//
// A limit is a variable that directives name:
//
//	var GPU = limit.New("gpu", limit.Config{AtOnce: 4})
//
//	//flow:step uses=GPU:2
//	func render(ctx context.Context, scene Scene) (Image, error)
//
// At most two attempts of render run at the same time, on any number of workers: each takes a
// weight of two out of four. Waiting runs are queued in the store, in order: they occupy no worker,
// and are assigned to one when they are admitted. When a worker dies, its runs move to other
// workers after its lease has expired, together with the permits that they hold.
//
// A limit with keys has a separate part for each key. Here each customer has one run at a time:
//
//	var PerCustomer = limit.NewKeyed[string]("customer", limit.Config{AtOnce: 1})
//
//	//flow:workflow uses=PerCustomer(order.Customer)
//	func Fulfil(ctx workflow.Context, order Order) (Receipt, error)
//
// A step holds its permits while an attempt of it runs, not while it waits for the next attempt. A
// workflow holds them from its first claim to its end, including its continuations.
//
// A limit does not stop code that ignores its context: such code continues after its worker has
// lost the run, concurrently with the new owner. Nor can a limit recall a request that was already
// sent.
package limit

import (
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/store"
)

// Config bounds a limit. Zero values bound nothing. A configuration set at run time, with
// ops.Client.Limits, takes precedence over the declared one.
type Config struct {
	// AtOnce is the total weight that may be held at once.
	AtOnce int
	// Rate is the total weight that may begin per Per, spread evenly. In any interval of length Per
	// at most Rate+Burst-1 begins.
	Rate int
	// Burst is the weight that the rate allows to begin at once; 0 means the weight of 50 ms of the
	// rate, but at least 1. If the burst is too small, the actual rate is lower.
	Burst int
	// Per is the unit of Rate; 0 means a second.
	Per time.Duration
	// Refuse makes starts that would have to wait fail with a *StartRefusedError.
	Refuse bool
	// Waiting is the total weight that may wait; further starts fail with a *StartRefusedError. 0
	// means no bound.
	Waiting int
	// Spread keeps each key in its own partition, so that the throughput of one limit can reach
	// that of the whole store. A user of such a key cannot use another limit.
	Spread bool
}

func (c Config) stored() store.LimitConfig {
	return store.LimitConfig{AtOnce: c.AtOnce, Rate: c.Rate, Burst: c.Burst, Per: c.Per, Refuse: c.Refuse, Waiting: c.Waiting}
}

// LimitError reports that permits can never be granted because the requested weight exceeds AtOnce.
type LimitError = store.LimitError //nolint:revive // for errors.As it has the same name as in package store

// StartRefusedError reports that a limit refuses a start that would have to wait.
type StartRefusedError = store.StartRefusedError

// Limit is a limit, or one key of a limit.
type Limit struct {
	d   *permits.Declared
	key string
}

// New declares a limit. It panics if the name is not valid, if a number is negative, or if another
// limit has the name.
func New(name string, c Config) Limit {
	if c.Spread {
		panic(fmt.Sprintf("limit: %q is spread, and has no keys: use NewKeyed", name))
	}
	return Limit{d: permits.Declare(permits.Declared{Name: name, Config: c.stored()})}
}

// NewLocal declares a limit that applies to each worker separately, such as memory.
// worker.Config.Capacity sets the size for a worker; without an entry there, the limit does not
// bound the worker. A run is assigned only to a worker with enough free capacity. A workflow holds
// the permits while a worker processes it, but not while it sleeps or waits. NewLocal panics like
// New.
func NewLocal(name string) Limit {
	return Limit{d: permits.Declare(permits.Declared{Name: name, Local: true})}
}

// Name returns the name of the limit.
func (l Limit) Name() string { return l.declared().Name }

// Key returns the key; it is empty if the limit has no keys.
func (l Limit) Key() string { return l.key }

// String returns name, or name/key.
func (l Limit) String() string { return store.LimitID{Name: l.Name(), Key: l.key}.String() }

func (l Limit) declared() *permits.Declared {
	if l.d == nil {
		panic("limit: zero Limit: declare it with limit.New or limit.NewKeyed")
	}
	return l.d
}

// Use is a weight used of a limit.
type Use = permits.Use

// Use returns a use of the limit with this weight, which is at least 1. Generated code calls it for
// uses= of a directive.
func (l Limit) Use(weight int) Use {
	d := l.declared()
	return Use{Use: event.Use{Limit: d.Name, Key: l.key, Weight: weight, Local: d.Local}, Slot: d.Slot(l.key), Spread: d.Spread}
}

// Keyed is a limit with a separate part for each key.
type Keyed[K ~string | ~int | ~int64] struct{ d *permits.Declared }

// NewKeyed is like New, for a limit with a separate part for each key.
func NewKeyed[K ~string | ~int | ~int64](name string, c Config) Keyed[K] {
	return Keyed[K]{permits.Declare(permits.Declared{Name: name, Config: c.stored(), Spread: c.Spread, Keyed: true})}
}

// For returns the limit for a key.
func (k Keyed[K]) For(key K) Limit { return Limit{d: k.d, key: fmt.Sprint(key)} }

// All returns the limit as a whole: its configuration applies to all keys without their own.
func (k Keyed[K]) All() Limit { return Limit{d: k.d} }
