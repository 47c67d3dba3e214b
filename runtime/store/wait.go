package store

import (
	"math"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Wait is a request to block until there is something to do.
type Wait struct {
	Sessions []WaitSession
	// Routes are the routes for which the worker has capacity. If there are none, Wait leaves wakes
	// to other sessions.
	Routes []Route
	// Until is the time by the store's clock at which the wait ends; zero for no limit. If it is in
	// the past, Wait checks once and returns.
	Until time.Time
	// Hinted requests that wakes are reported in Woken.Hinted without being taken. The claim then
	// takes them, which saves one request. A store may nevertheless take them.
	Hinted bool
}

// WaitSession identifies a session to wait for.
type WaitSession struct {
	Partition int
	Session   SessionID
}

// Woken is the reason why a wait ended. A caller that receives Claim has taken the wake and must
// call Claim next. A caller that receives Hinted must call Claim with [Claim.Hinted].
type Woken struct {
	Claim  []int         // partitions with ready runs of the routes, or newly blocked ones
	Sooner []int         // partitions with a due time before Until; a Claim there returns it
	Unread []event.RunID // owned runs with new items, each reported once
	Due    bool          // Until is reached
	// Hinted contains partitions in which there was a wake of the routes, which another session may
	// take as well. Each is reported once: a caller that cannot claim there at once must claim
	// later without [Claim.Hinted].
	Hinted []int
}

// UntilEnd is the value of n for a Watch that waits for the end of the run only.
const UntilEnd uint64 = math.MaxUint64

// Watched reports whether a Watch for n returns when the log has that many frames and the run has
// ended or not.
func Watched(n, frames uint64, ended bool) bool { return frames > n || ended && n == UntilEnd }
