package worker

import (
	"time"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/lease"
)

// tenure is the claim under which the worker works on the run.
type tenure struct {
	route      store.Route
	workflowID string
	partition  int
	lease      *lease.Lease    // lease on the partition
	session    store.SessionID // session under which the run was claimed, or created
	fence      store.Fence
	recoveries int
	group      string    // failure group that the store has recorded for the run; empty for none
	calledOff  bool      // the run was claimed without permits, only to end it
	attempted  bool      // an attempt was begun under this claim
	waited     time.Time // since when the run had waited for its permits; zero if it had not, or if the log contains it
	since      time.Time // when the run was claimed
	claimSeq   uint64    // sequence number of the claim; see inputOwned
	lingering
}

// alive reports whether this worker certainly still owns the run.
func (c *tenure) alive() bool { return c.lease.Alive(c.session) }
