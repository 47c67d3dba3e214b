package runloop

import (
	"github.com/flowgen/flowgen/runtime/event"
	at "github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/store"
)

// InputKind is the kind of an [Input]. The comments name the fields that are set.
type InputKind uint8

const (
	Claimed  InputKind = iota // the run was claimed, or must be created under a claim (Claim)
	Loaded                    // the run's log and inbox, or only its inbox, were read (Load)
	Unread                    // the run's inbox may have new items
	Ended                     // an attempt has ended (Ref, Attempt, Outcome)
	Opened                    // an attempt opens a hook (Opening)
	Answered                  // a commit was answered (Commit; Seq if it has created the run)
	Due                       // an operation of the run is due, or a slot for an attempt may be free
	Lost                      // the session has ended, and all claims before this input with it
	Owned                     // the store has reported the runs of the session (Fence, Seq)
	Stop                      // the worker has reached the next stage of its shutdown
	Evict                     // the run's memory is needed for other runs
	Drop                      // the worker was killed: the run's memory must be freed
	GiveWay                   // a quarantined run must be executed alone
	TurnOver                  // the time of the run's turn has passed (Turn)
)

// Input is an input of a State, with the data of its kind.
type Input struct {
	Kind    InputKind
	Claim   *Claim
	Load    *Load
	Commit  *Commit
	Outcome *Outcome
	Opening *Opening
	Ref     uint64      // step of an attempt
	Attempt uint64      // ID of an attempt, see Action
	Fence   store.Fence // fence under which the session owns the run; zero if it does not
	Seq     uint64      // number of the last claim before the request, or of the claim of a created run
	Turn    int
}

// Claim is a claim of a run under a session of the worker.
type Claim struct {
	store.ClaimedRun
	Partition int
	Session   store.SessionID
	Lease     Lease
	Number    uint64 // number of the claim, in the order of the claims of the worker
	// Create is the event that creates the run, or nil if the run exists. A run that does not exist
	// is created by its first commit, which also makes the claim: create, claim and commit are one
	// atomic action. If the answer is lost, the run may exist and be owned by a worker that does not
	// execute it. This state is the same as after a claim whose answer was lost: the next
	// reconciliation gives the run back.
	Create *event.Event
}

// Lease is the lease of a partition.
type Lease interface {
	// Alive reports whether the session is certain to own its runs.
	Alive(store.SessionID) bool
}

// Load is a read of a run: its log and inbox, or only its inbox.
type Load struct {
	Fence store.Fence // fence of the claim that requests the read
	Inbox bool        // whether only the inbox is read
	Got   store.Loaded
}

// Opening is a request of an attempt to open its hook. The attempt reads Token and Err only after
// Done was closed.
type Opening struct {
	Ref, Attempt uint64
	Hook         at.Hook
	Token        string
	Err          error         // why the hook cannot become durable
	Done         chan struct{} // closed by the caller of the State when it performs Reveal
}
