package memstore

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// Deliver adds an item to the inbox of a run. The store keeps the body of the item.
func (s *Store) Deliver(ctx context.Context, d store.Deliver) (event.RunID, error) {
	if err := s.enter(ctx); err != nil {
		return "", err
	}
	p := s.partitionOf(d.Run)
	p.mu.Lock()
	defer p.mu.Unlock()
	run, err := p.op.Deliver(&d)
	p.announce()
	if err != nil {
		return "", fmt.Errorf("deliver to run %s: %w", d.Run, err)
	}
	return run, nil
}

// Outbox returns the due records in the order in which they were written. Their bodies share memory
// with the store.
func (s *Store) Outbox(ctx context.Context, partition, limit int) ([]store.Outgoing, time.Time, error) {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read outbox: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	due, next := p.outbox.due(p.now(), limit)
	records := make([]store.Outgoing, 0, len(due))
	deadline := p.clock.Now().Add(store.Horizon / 2)
	for _, r := range due {
		o := r.outgoing()
		o.Deadline = deadline
		records = append(records, o)
	}
	return records, timeOf(next), nil
}

// Mark changes the phases of records. The store keeps the refusals.
func (s *Store) Mark(ctx context.Context, partition int, marks []store.Mark) error {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return fmt.Errorf("mark records: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range marks {
		_ = p.op.Mark(&marks[i]) // a Tx in memory does not fail
		p.announce()
	}
	return nil
}

// Confirm removes the data that a record has left at a run and its chain.
func (s *Store) Confirm(ctx context.Context, run event.RunID, record event.ItemID) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	p := s.partitionOf(run)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.op.Confirm(run, record)
}

// outbox contains the records of a partition.
type outbox struct {
	records map[recordKey]*record
	pairs   map[pairKey]*pair
	now     recordHeap // due records, in the order in which they were written
	later   recordHeap // records that are due later, by due time
	written uint64     // number of all records written
	reads   uint64
}

type recordKey struct {
	from event.RunID
	id   event.ItemID
}

type pairKey struct {
	from *run
	to   event.RunID
}

// pair contains the open and the settled records of one sender for one receiver.
type pair struct{ open, settled list[*record] }

// record is an outbox record.
type record struct {
	store.Send

	from  *run
	phase store.Phase
	since int64

	pair          *pair
	in            *list[*record] // list of the pair that contains the record
	node[*record]                // links in the list, in the order in which records were written
	at            int            // index in the heap
	due           int64          // due time, while the record is in outbox.later
	closed        uint64         // number of the last read that returned this record and all earlier ones of the pair
}

func (r *record) outgoing() store.Outgoing {
	return store.Outgoing{Send: r.Send, From: r.from.id, Phase: r.phase, Since: timeOf(r.since)}
}

func (r *record) key() pairKey { return pairKey{r.from, r.To} }

// write adds a record and returns it. If the sender already has a record with this ID, write
// returns nil.
func (o *outbox) write(from *run, s *store.Send, now int64) *record {
	key := recordKey{from.id, s.ID}
	if o.records[key] != nil {
		return nil
	}
	if o.records == nil {
		o.records, o.pairs = map[recordKey]*record{}, map[pairKey]*pair{}
	}
	o.written++
	r := &record{Send: *s, from: from, node: node[*record]{order: o.written}, phase: store.PhaseFresh, since: now}
	r.First = false
	o.records[key] = r
	if r.pair = o.pairs[r.key()]; r.pair == nil {
		r.pair = &pair{}
		o.pairs[r.key()] = r.pair
	}
	r.in = &r.pair.open
	r.in.insert(r)
	from.linked().records++
	heap.Push(&o.now, r)
	return r
}

// move changes the phase of a record.
func (o *outbox) move(r *record, to store.Phase, now int64) {
	o.drop(r)
	r.phase, r.since = to, now
	if to == store.PhaseFresh {
		heap.Push(&o.now, r)
		return
	}
	if to == store.PhaseSettled {
		r.in.remove(r)
		r.in = &r.pair.settled
		r.in.insert(r)
	}
	r.due = now + store.Horizon.Milliseconds()
	heap.Push(&o.later, r)
}

// Record returns a record of a sender.
func (p *partition) Record(from *run, id event.ItemID) (protocol.Record, error) {
	if r := p.record(from, id); r != nil {
		return protocol.Record{ID: id, To: r.To, Phase: r.phase}, nil
	}
	return protocol.Record{}, nil
}

func (p *partition) record(from *run, id event.ItemID) *record {
	return p.outbox.records[recordKey{from.id, id}]
}

// AddRecord writes a record.
func (p *partition) AddRecord(from *run, s *store.Send, now int64) (protocol.Record, error) {
	if r := p.outbox.write(from, s, now); r != nil {
		return protocol.Record{ID: s.ID, To: s.To, Phase: r.phase}, nil
	}
	return protocol.Record{}, nil
}

// SetPhase changes the phase of a record.
func (p *partition) SetPhase(from *run, rec protocol.Record, phase store.Phase, now int64) error {
	p.outbox.move(p.record(from, rec.ID), phase, now)
	return nil
}

// RemoveRecord removes a settled record.
func (p *partition) RemoveRecord(from *run, rec protocol.Record) error {
	p.outbox.remove(p.record(from, rec.ID))
	return nil
}

// HasBefore reports whether there is an earlier record of the same sender and receiver.
func (p *partition) HasBefore(from *run, rec protocol.Record) (bool, error) {
	r := p.record(from, rec.ID)
	settled := r.pair.settled.first
	return r.before != nil || settled != nil && settled.order < r.order, nil
}

// Refresh makes the answered records before an open record of the same sender and receiver fresh.
func (p *partition) Refresh(from *run, rec protocol.Record, now int64) error {
	for b := p.record(from, rec.ID).before; b != nil; b = b.before {
		if b.phase == store.PhaseAnswered {
			p.outbox.move(b, store.PhaseFresh, now)
		}
	}
	return nil
}

// remove removes a record.
func (o *outbox) remove(r *record) {
	o.drop(r)
	r.in.remove(r)
	if *r.pair == (pair{}) {
		delete(o.pairs, r.key())
	}
	delete(o.records, recordKey{r.from.id, r.ID})
	r.from.links.records--
	if len(o.records) == 0 { // maps do not shrink by themselves
		o.records, o.pairs, o.now, o.later = nil, nil, recordHeap{}, recordHeap{}
	}
}

// drop removes a record from its heap.
func (o *outbox) drop(r *record) {
	if r.due == 0 {
		heap.Remove(&o.now, r.at)
		return
	}
	heap.Remove(&o.later, r.at)
	r.due = 0
}

// due returns up to limit due records, and the time at which the next one is due.
func (o *outbox) due(now int64, limit int) (due []*record, next int64) {
	for len(o.later) > 0 && o.later[0].due <= now {
		r := o.later[0]
		o.drop(r)
		heap.Push(&o.now, r)
	}
	o.reads++
	var looked []*record
	for len(o.now) > 0 && next == 0 {
		r := o.now[0]
		behind := r.before == nil || r.before.closed == o.reads
		switch {
		case r.phase == store.PhaseAnswered && !behind:
		case len(due) >= limit:
			next = now
			continue
		default:
			due = append(due, r)
			if behind {
				r.closed = o.reads
			}
		}
		looked = append(looked, heap.Pop(&o.now).(*record))
	}
	for _, r := range looked {
		heap.Push(&o.now, r)
	}
	if next == 0 && len(o.later) > 0 {
		next = o.later[0].due
	}
	return due, next
}

// next returns the time at which the next record is due, or 0 if there is none.
func (o *outbox) next(now int64) int64 {
	switch {
	case len(o.now) > 0:
		return now
	case len(o.later) > 0:
		return o.later[0].due
	}
	return 0
}

// sorted returns all records in the order in which they were written.
func (o *outbox) sorted() []*record {
	return slices.SortedFunc(func(yield func(*record) bool) {
		for _, r := range o.records {
			if !yield(r) {
				return
			}
		}
	}, func(a, b *record) int { return cmp.Compare(a.order, b.order) })
}

// recordHeap is a heap of records. Due records are sorted by the order in which they were written,
// and other records by due time. Each record contains its index.
type recordHeap []*record

var _ heap.Interface = (*recordHeap)(nil)

func (h recordHeap) Len() int { return len(h) }

func (h recordHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].due, h[j].due), cmp.Compare(h[i].order, h[j].order)) < 0
}

func (h recordHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *recordHeap) Push(x any) {
	r := x.(*record)
	r.at = len(*h)
	*h = append(*h, r)
}

func (h *recordHeap) Pop() any {
	last := len(*h) - 1
	r := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return r
}
