// Package limit declares what may be under way at once, or begin in a time, over all workers
// of a store.
//
// A limit is a variable, which directives name:
//
//	var GPU = limit.New("gpu", limit.Config{AtOnce: 4})
//
//	//flow:step uses=GPU:2
//	func render(ctx context.Context, scene Scene) (Image, error)
//
// At most two attempts of render are under way then, on however many workers: each takes two
// of the four weights. What must wait waits in the store, in order: it holds no worker, and
// is pushed to one when its turn has come. When a worker dies its runs go to others once its
// lease has ended, and what they hold with them.
//
// A limit with keys has a part for each of them. Here each customer has one run at a time:
//
//	var PerCustomer = limit.NewKeyed[string]("customer", limit.Config{AtOnce: 1})
//
//	//flow:workflow uses=PerCustomer(order.Customer)
//	func Fulfil(ctx workflow.Context, order Order) (Receipt, error)
//
// A step holds its permits while an attempt of it runs, not while it waits for the next one.
// A workflow holds them from its first claim to its end, with all that it continues as.
//
// What a limit does not promise: code that ignores its context goes on after its worker has
// lost the run, beside the one that has it now. A request that is on its way cannot be called
// back either.
package limit

import (
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/store"
)

// Config bounds a limit. Zero bounds nothing. What is set at run time, with
// workflow.Client.Limits, goes before what is declared.
type Config struct {
	// AtOnce is how many weights may be held at once.
	AtOnce int
	// Rate is how many weights may begin in each Per, evenly. In any span of Per at most
	// Rate+Burst-1 begin.
	Rate int
	// Burst is how many weights may begin at once by the rate; 0: what 50 ms of the rate
	// are, at least 1. Too small a burst loses some of the rate.
	Burst int
	// Per is the time of Rate; 0: a second.
	Per time.Duration
	// Refuse says that a start is refused that would have to wait, with a *StartRefusedError.
	Refuse bool
	// Waiting is how many weights may wait: starts beyond are refused, with a
	// *StartRefusedError; 0: any number.
	Waiting int
	// Spread lets each key be kept in a partition of its own, so that one limit can be as
	// fast as the whole store. What uses such a part cannot use another limit.
	Spread bool
}

func (c Config) stored() store.LimitConfig {
	return store.LimitConfig{AtOnce: c.AtOnce, Rate: c.Rate, Burst: c.Burst, Per: c.Per, Refuse: c.Refuse, Waiting: c.Waiting}
}

// LimitError says that something can never have its permits, because it uses more of a limit
// than that has at once.
type LimitError = store.LimitError //nolint:revive // errors.As of it reads as in package store

// StartRefusedError says that a limit refuses a start that would have to wait.
type StartRefusedError = store.StartRefusedError

// Limit is a limit, or one part of a limit with keys.
type Limit struct {
	d   *permits.Declared
	key string
}

// New declares a limit. It panics if the name is not a good one, if a number is negative, or
// if another limit has the name.
func New(name string, c Config) Limit {
	if c.Spread {
		panic(fmt.Sprintf("limit: %q is spread, and has no keys: use NewKeyed", name))
	}
	return Limit{d: permits.Declare(permits.Declared{Name: name, Config: c.stored()})}
}

// NewLocal declares a limit that is each worker's own, such as its memory: a worker has as much of
// it as worker.Config.Capacity says, and is not bounded by it if that does not name it. A run is
// given to a worker only where there is room for it. A workflow that uses it
// holds it while a worker works on it, and not while it sleeps or waits. It panics as New does.
func NewLocal(name string) Limit {
	return Limit{d: permits.Declare(permits.Declared{Name: name, Local: true})}
}

// Name returns the name of the limit.
func (l Limit) Name() string { return l.declared().Name }

// Key returns the key of the part; it is empty if the limit has no keys.
func (l Limit) Key() string { return l.key }

// String returns name, or name/key.
func (l Limit) String() string { return store.LimitID{Name: l.Name(), Key: l.key}.String() }

func (l Limit) declared() *permits.Declared {
	if l.d == nil {
		panic("limit: zero Limit: declare it with limit.New or limit.NewKeyed")
	}
	return l.d
}

// Use is so much of a limit.
type Use = permits.Use

// Use returns a use of the limit with this weight, which is at least 1. Generated code calls
// it for uses= of a directive.
func (l Limit) Use(weight int) Use {
	d := l.declared()
	return Use{Use: event.Use{Limit: d.Name, Key: l.key, Weight: weight, Local: d.Local}, Slot: d.Slot(l.key), Spread: d.Spread}
}

// Keyed is a limit that has a part for each key.
type Keyed[K ~string | ~int | ~int64] struct{ d *permits.Declared }

// NewKeyed is New for a limit that has a part for each key.
func NewKeyed[K ~string | ~int | ~int64](name string, c Config) Keyed[K] {
	return Keyed[K]{permits.Declare(permits.Declared{Name: name, Config: c.stored(), Spread: c.Spread, Keyed: true})}
}

// For returns the part of a key.
func (k Keyed[K]) For(key K) Limit { return Limit{d: k.d, key: fmt.Sprint(key)} }

// All returns what stands for all parts: a configuration of it holds for those that have none
// of their own.
func (k Keyed[K]) All() Limit { return Limit{d: k.d} }
