package store

import (
	"math"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Wait is a request to block until there is something to do.
type Wait struct {
	Sessions []WaitSession
	// Routes contains the routes for which the worker has free capacity. If it is empty, Wait takes
	// no wakes.
	Routes []Route
	// Until is the time of the clock of the store at which Wait returns. The zero time means no
	// limit. If Until is in the past, Wait checks once and returns.
	Until time.Time
	// Hinted makes Wait report wakes in Woken.Hinted without taking them. The claim then takes the
	// wake, which saves one request. A store may take wakes in spite of Hinted.
	Hinted bool
}

// WaitSession is a session for which Wait waits.
type WaitSession struct {
	Partition int
	Session   SessionID
}

// Woken contains the reasons why Wait returned. If Claim is not empty, Wait has taken the wakes,
// and the caller must call Claim next. If Hinted is not empty, the caller must call Claim with
// [Claim.Hinted].
type Woken struct {
	Claim  []int         // partitions with ready or newly blocked runs of the routes
	Sooner []int         // partitions with a due time before Until, which a Claim returns
	Unread []event.RunID // owned runs with new items; each item is reported once
	Due    bool          // Until was reached
	// Hinted contains partitions with a wake of the routes, which another session may take. Each
	// wake is reported once. A caller that cannot claim there at once must claim later without
	// [Claim.Hinted].
	Hinted []int
}

// UntilEnd is the value of n with which Watch waits only for the end of the run.
const UntilEnd uint64 = math.MaxUint64

// Watched reports whether a Watch for n returns if the log has the given number of frames. ended
// reports whether the run has ended.
func Watched(n, frames uint64, ended bool) bool { return frames > n || ended && n == UntilEnd }
