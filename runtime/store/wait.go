package store

import (
	"math"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Wait asks to block until there is something to do.
type Wait struct {
	Sessions []WaitSession
	// Routes are those for which the worker has capacity; empty: none, then
	// wakes are left to others.
	Routes []Route
	// Until ends the wait by the store's clock; zero: no such end. A time that is
	// past makes Wait look and return at once.
	Until time.Time
	// Hinted asks to be told of wakes that are not taken yet, in Woken.Hinted: the claim takes them, in
	// one request instead of two. A store may take them all the same.
	Hinted bool
}

// WaitSession names a session to wait for.
type WaitSession struct {
	Partition int
	Session   SessionID
}

// Woken says why a wait ended. A caller that gets Claim has taken the wake and
// must call Claim next; so must one that gets Hinted, with [Claim.Hinted].
type Woken struct {
	Claim  []int         // partitions with ready runs of the routes, or newly blocked ones
	Sooner []int         // partitions with a due time before Until: a Claim there answers it
	Unread []event.RunID // owned runs with new items, each told once
	Due    bool          // Until is reached
	// Hinted has partitions where there was a wake of the routes, which another session may take as well. It
	// is told once: whoever cannot claim there now claims later, and not [Claim.Hinted].
	Hinted []int
}

// UntilEnd is the n of a Watch that waits for the end of the run and for no other frame.
const UntilEnd uint64 = math.MaxUint64

// Watched reports whether a Watch for n returns when the log has so many frames.
func Watched(n, frames uint64, ended bool) bool { return frames > n || ended && n == UntilEnd }
