package worker

import (
	"time"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/lease"
)

// tenure is the claim under which the run is worked on.
type tenure struct {
	route      store.Route
	workflowID string
	partition  int
	lease      *lease.Lease    // of the partition
	session    store.SessionID // under which it was claimed, or created
	fence      store.Fence
	recoveries int
	group      string    // of the trouble that the store has the run in; empty: it is in none
	calledOff  bool      // it was given without permits, only to end
	attempted  bool      // an attempt was begun under it
	waited     time.Time // since when it had waited for its permits; zero: it had not, or that is in the log
	since      time.Time // of the claim
	claimSeq   uint64    // number of the claim; see inputOwned
	lingering
}

// alive reports whether the run is certainly still this worker's.
func (c *tenure) alive() bool { return c.lease.Alive(c.session) }
