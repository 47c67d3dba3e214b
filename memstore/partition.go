package memstore

import (
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/notify"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// partition is the state protected by one mutex.
type partition struct {
	number int
	clock  store.Clock

	mu            sync.Mutex
	runs          map[event.RunID]*run
	ids           index // all runs, sorted for List
	names         map[string]*name
	seen          map[event.RunID]*seen                  // accepted items, by chain
	kept          map[event.RunID]map[event.ItemID]int64 // accepted items that are remembered until Confirm, by chain
	chains        map[event.RunID]*chain                 // chains with more than one run
	streams       map[event.RunID]map[string]*stream     // by chain and name
	outbox        outbox
	routes        map[store.Route]*route
	timers        timers
	limits        limits
	collectors    collectors
	failureGroups failureGroups
	fairKeys      map[store.FairID]*fairKey
	purges        timers // purge times of ended runs
	sessions      map[store.SessionID]*session
	expiry        int64 // no lease ends before this time
	up            int64 // total time during which any session renewed its lease; package store describes how a session is found dead
	heard         int64 // time of the last heartbeat
	looked        int64 // time of the last search for runs without a worker
	turn          store.UnservedTurn
	order         uint64 // order of the last run that was made ready
	most          int    // maximum number of runs since the maps were last copied

	op protocol.Op[*run, *session] // executes operations of the protocol on this partition

	waiters *notify.Waiters
	frames  *notify.Notifier[event.RunID, uint64]   // notifies Watch calls, by run
	chunks  *notify.Notifier[event.RunID, struct{}] // notifies AwaitStream calls, by chain
}

func newPartition(number int, clock store.Clock, done <-chan struct{}) *partition {
	p := &partition{
		number:        number,
		clock:         clock,
		runs:          map[event.RunID]*run{},
		names:         map[string]*name{},
		seen:          map[event.RunID]*seen{},
		kept:          map[event.RunID]map[event.ItemID]int64{},
		chains:        map[event.RunID]*chain{},
		streams:       map[event.RunID]map[string]*stream{},
		routes:        map[store.Route]*route{},
		sessions:      map[store.SessionID]*session{},
		limits:        newLimits(),
		collectors:    newCollectors(),
		failureGroups: failureGroups{groups: map[string]*failureGroup{}},
		fairKeys:      map[store.FairID]*fairKey{},
		waiters:       notify.NewWaiters(),
		frames:        notify.New[event.RunID, uint64](done),
		chunks:        notify.New[event.RunID, struct{}](done),
	}
	p.op.Tx = p
	return p
}

// name is the state of a workflow ID.
type name struct {
	active *run
	last   *run   // last ended run, if it is retained
	line   []*run // runs that wait for the end of the active run
}

func millis(t time.Time) int64 { return protocol.Millis(t) }

func timeOf(ms int64) time.Time { return protocol.Time(ms) }

func (p *partition) route(c store.Route) *route {
	known := p.routes[c]
	if known == nil {
		known = &route{Route: c}
		p.routes[c] = known
	}
	return known
}

func (p *partition) name(workflowID string) *name {
	n := p.names[workflowID]
	if n == nil {
		n = &name{}
		p.names[workflowID] = n
	}
	return n
}

func (p *partition) seenOf(chain event.RunID) *seen {
	s := p.seen[chain]
	if s == nil {
		s = &seen{}
		p.seen[chain] = s
	}
	return s
}
