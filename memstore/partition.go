package memstore

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// partition is everything that one mutex guards.
type partition struct {
	number int
	clock  store.Clock

	mu       sync.Mutex
	runs     map[event.RunID]*run
	ids      []*run // all runs by rising id, for List
	names    map[string]*name
	seen     map[event.RunID]*seen // by chain
	classes  map[store.Class]*class
	timers   timers
	sessions map[store.SessionID]*session
	expiry   int64  // no lease ends before
	order    uint64 // of the last run that was made ready
	audit    []store.AuditEntry

	waits     map[*waiting]struct{}
	listeners map[store.SessionID][]*waiting // the same, by session
	watches   map[*run]*watch
}

func newPartition(number int, clock store.Clock) *partition {
	return &partition{
		number:    number,
		clock:     clock,
		runs:      map[event.RunID]*run{},
		names:     map[string]*name{},
		seen:      map[event.RunID]*seen{},
		classes:   map[store.Class]*class{},
		sessions:  map[store.SessionID]*session{},
		waits:     map[*waiting]struct{}{},
		listeners: map[store.SessionID][]*waiting{},
		watches:   map[*run]*watch{},
	}
}

// name is what is known about a workflow id.
type name struct {
	active *run
	last   *run   // the last that ended
	line   []*run // run after run, once the active one has ended
}

// now returns the time in milliseconds.
func (p *partition) now() int64 { return p.clock.Now().UnixMilli() }

// millis returns t in milliseconds, rounded up; 0 for the zero time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		ms++
	}
	return ms
}

// timeOf is the opposite of millis.
func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// add makes a run known.
func (p *partition) add(r *run) {
	p.runs[r.id] = r
	// Ids rise with time: the place is at the end or close to it.
	at := len(p.ids)
	for at > 0 && p.ids[at-1].id > r.id {
		if len(p.ids)-at == 64 {
			at, _ = slices.BinarySearchFunc(p.ids, r.id, func(o *run, id event.RunID) int {
				return strings.Compare(string(o.id), string(id))
			})
			break
		}
		at--
	}
	p.ids = slices.Insert(p.ids, at, r)
}

func (p *partition) class(c store.Class) *class {
	known := p.classes[c]
	if known == nil {
		known = &class{Class: c}
		p.classes[c] = known
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
