package memstore

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// run is a run. Many runs are stored without activity, so fields that few runs use are in extra.
type run struct {
	id       event.RunID
	chain    event.RunID
	wid      string
	route    *route
	extra    *extra
	links    *links
	*limited // set for a run that uses limits

	frames [][]byte
	inbox  []store.Item
	seq    uint64
	last   event.CommitID
	epoch  uint64
	token  event.Token
	owner  *session
	status event.Status

	node[*run] // links in the list of the queue state; the order increases each time the run becomes ready
	due        int64
	created    int64
	ended      int64
	priority   int
	recoveries int32
	timer      int32 // index in the due times or, once the run has ended, in the purge times; unpurged if in neither
	queueState store.QueueState
	closing    bool
	exempt     bool // the loss of the owner does not count as a recovery
	hidden     bool // the run was deleted and is not purged
}

// extra contains the fields that few runs use.
type extra struct {
	tags     map[string]string
	parent   event.RunID
	root     event.RunID
	stepData map[string][]byte
	audit    []store.AuditEntry
	// blockers are the sessions whose code could not replay the run. Some may be over; see
	// partition.blockers.
	blockers []*session
	// retention is 0 if the run has the default retention.
	retention time.Duration
	collect   string // key whose starts the run collects
	group     string // failure group of the run
	rerun     event.RunID
}

func (r *run) rare() *extra {
	if r.extra == nil {
		r.extra = &extra{}
	}
	return r.extra
}

// links contains the relations of a run to other runs. Few runs have any.
type links struct {
	next      event.RunID  // continuation of the run
	createdBy event.ItemID // record that created the run, until the record is confirmed
	records   int          // number of records in the outbox
}

func (r *run) linked() *links {
	if r.links == nil {
		r.links = &links{}
	}
	return r.links
}

// claimed returns the data that a session receives with a run.
func (r *run) claimed() store.ClaimedRun {
	c := store.ClaimedRun{
		Run: r.id, WorkflowID: r.wid, Route: r.route.Route, Fence: r.fence(), Recoveries: int(r.recoveries),
		N: uint64(len(r.frames)), Seq: r.seq, Last: r.last, Unread: len(r.inbox) > 0, Group: r.group(),
	}
	if r.limited != nil {
		if c.LeftQueue = r.leftQueue; r.permits {
			c.Waited = timeOf(r.since)
		}
		c.Uses = store.LocalOf(r.uses)
	}
	return c
}

func (r *run) fence() store.Fence { return store.Fence{Epoch: r.epoch, Token: r.token} }

// record returns the record of the run, which contains everything except its log and inbox.
func (r *run) record() store.Record {
	rec := store.Record{
		Run: r.id, Chain: r.chain, WorkflowID: r.wid, Route: r.route.Route, Priority: r.priority,
		QueueState: r.queueState, Status: r.status, N: uint64(len(r.frames)), Seq: r.seq, Last: r.last, Fence: r.fence(),
		Due: timeOf(r.due), Recoveries: int(r.recoveries), Closing: r.closing, Exempt: r.exempt,
		CreatedAt: timeOf(r.created), EndedAt: timeOf(r.ended), Retention: r.retention(),
	}
	if r.owner != nil {
		rec.Owner = r.owner.id
	}
	if r.extra != nil {
		rec.Tags, rec.Parent, rec.Root, rec.Group, rec.Rerun = r.extra.tags, r.extra.parent, r.extra.root, r.extra.group, r.extra.rerun
	}
	if r.links != nil {
		rec.Next, rec.CreatedBy = r.links.next, r.links.createdBy
	}
	if r.limited != nil {
		rec.Uses, rec.Whole, rec.Permits, rec.LeftQueue = r.uses, r.whole, r.permits, r.leftQueue
		rec.WaitsSince = timeOf(r.since)
		rec.Fair, rec.Share = r.fair, r.share
	}
	return rec
}

// chain describes a run that has continued, together with its continuations.
type chain struct {
	later  int  // number of retained runs except the first
	latest *run // last run of the chain; nil if it was purged
}

// chained returns the chain of more than one run that begins with first.
func (p *partition) chained(first event.RunID) *chain {
	if p.chains[first] == nil {
		p.chains[first] = &chain{}
	}
	return p.chains[first]
}
