// Package limit declares limits for steps and workflows. A limit bounds how much may run at once,
// or begin per time, across all workers of a store.
//
// A limit is a variable that directives name:
//
//	var GPU = limit.New("gpu", limit.Config{AtOnce: 4})
//
//	//flow:step uses=GPU:2
//	func render(ctx context.Context, scene Scene) (Image, error)
//
// At most two attempts of render run at the same time, on any number of workers, because each
// attempt takes two of four permits. Waiting runs are queued in the store, in order. They occupy no
// worker, and a worker claims them when they are admitted. If a worker crashes, its runs move to
// other workers after its lease has expired. They keep their permits.
//
// A limit with keys applies to each key separately. In this example each customer has one run at a
// time:
//
//	var PerCustomer = limit.NewKeyed[string]("customer", limit.Config{AtOnce: 1})
//
//	//flow:workflow uses=PerCustomer(order.Customer)
//	func Fulfil(ctx workflow.Context, order Order) (Receipt, error)
//
// A step holds its permits while an attempt runs, and releases them while it waits for the next
// attempt. A workflow holds its permits from the first claim of a run to its end, including its
// continuations.
//
// A limit does not stop code that ignores its context. If a worker loses a run, such code continues
// beside the code of the new owner. A limit cannot recall a request that was already sent.
package limit

import (
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/store"
)

// Config contains the bounds of a limit. A zero field sets no bound. A configuration set at run
// time, with ops.Client.Limits, takes precedence over the declared configuration.
type Config struct {
	// AtOnce is the number of permits that may be held at once.
	AtOnce int
	// Rate is the number of permits whose use may begin per Per, spread evenly. In any interval of
	// length Per, at most Rate+Burst-1 begin.
	Rate int
	// Burst is the number of permits whose use the rate allows to begin at once. 0 means the number
	// for 50 ms of the rate, but at least 1. If Burst is too small, the actual rate is lower than
	// Rate.
	Burst int
	// Per is the unit of Rate. 0 means a second.
	Per time.Duration
	// Refuse makes starts that would have to wait fail with a *StartRefusedError.
	Refuse bool
	// Waiting is the number of permits for which runs may wait. If it is exceeded, further starts
	// fail with a *StartRefusedError. 0 means that there is no maximum.
	Waiting int
	// Spread keeps each key in its own partition, so that the throughput of one limit is not
	// bounded by a single partition. A step or workflow that uses such a key cannot use another
	// limit.
	Spread bool
}

func (c Config) stored() store.LimitConfig {
	return store.LimitConfig{AtOnce: c.AtOnce, Rate: c.Rate, Burst: c.Burst, Per: c.Per, Refuse: c.Refuse, Waiting: c.Waiting}
}

// LimitError reports that permits can never be granted, because the requested number exceeds
// AtOnce.
type LimitError = store.LimitError //nolint:revive // for errors.As it has the same name as in package store

// StartRefusedError reports that a limit refuses a start that would have to wait.
type StartRefusedError = store.StartRefusedError

// Limit is a limit, or one key of a limit. Directives refer to it.
type Limit struct {
	d   *permits.Declared
	key string
}

// New declares a limit. It panics if the name is not valid, if a number is negative, or if another
// limit has the same name.
func New(name string, c Config) Limit {
	if c.Spread {
		panic(fmt.Sprintf("limit: %q is spread, and has no keys: use NewKeyed", name))
	}
	return Limit{d: permits.Declare(permits.Declared{Name: name, Config: c.stored()})}
}

// NewLocal declares a limit that applies to each worker separately, for example memory.
// worker.Config.Capacity sets the size of the limit for a worker. Without an entry in Capacity, the
// limit does not bound the worker. A worker claims a run only if it has enough free capacity. A run
// of a workflow holds the permits while a worker executes it, but not while it sleeps or waits.
// NewLocal panics like New.
func NewLocal(name string) Limit {
	return Limit{d: permits.Declare(permits.Declared{Name: name, Local: true})}
}

// Name returns the name of the limit.
func (l Limit) Name() string { return l.declared().Name }

// Key returns the key. It is empty for a limit without keys and for a limit as a whole.
func (l Limit) Key() string { return l.key }

// String returns the name of the limit, or name/key.
func (l Limit) String() string { return store.LimitID{Name: l.Name(), Key: l.key}.String() }

func (l Limit) declared() *permits.Declared {
	if l.d == nil {
		panic("limit: zero Limit: declare it with limit.New or limit.NewKeyed")
	}
	return l.d
}

// Use is a number of permits of one limit.
type Use = permits.Use

// Use returns a use of weight permits of the limit. weight must be at least 1. Generated code calls
// it for uses= of a directive.
func (l Limit) Use(weight int) Use {
	d := l.declared()
	return Use{Use: event.Use{Limit: d.Name, Key: l.key, Weight: weight, Local: d.Local}, Slot: d.Slot(l.key), Spread: d.Spread}
}

// Keyed is a limit that applies to each key separately.
type Keyed[K ~string | ~int | ~int64] struct{ d *permits.Declared }

// NewKeyed declares a limit that applies to each key separately. It panics like New.
func NewKeyed[K ~string | ~int | ~int64](name string, c Config) Keyed[K] {
	return Keyed[K]{permits.Declare(permits.Declared{Name: name, Config: c.stored(), Spread: c.Spread, Keyed: true})}
}

// For returns the limit of one key.
func (k Keyed[K]) For(key K) Limit { return Limit{d: k.d, key: fmt.Sprint(key)} }

// All returns the limit as a whole. Its configuration applies to all keys without their own.
func (k Keyed[K]) All() Limit { return Limit{d: k.d} }
