package redisstore

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// showSent adds the records of the outbox, in the order in which they were written.
// One of which nobody knows how far it is has no phase, and comes last.
func (e *partitionState) showSent() {
	type placed struct {
		order  string
		record store.Outgoing
	}
	var all []placed
	for _, run := range e.judged(sortedKeys(e.sent)) {
		ids := map[string]bool{}
		for _, of := range []map[string]string{e.sent[run].Val(), e.bodies[run].Val()} {
			for id := range of {
				ids[id] = true
			}
		}
		for _, id := range sortedKeys(ids) {
			order, record, ok := unpackSent(e.sent[run].Val()[id])
			if !ok {
				order = unplaced
			}
			record.From, record.ID, record.Body = long(run), event.ItemID(id), []byte(e.bodies[run].Val()[id])
			all = append(all, placed{order, record})
		}
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(a.order, b.order) })
	for _, one := range all {
		e.snap.Outbox = append(e.snap.Outbox, one.record)
	}
}

// unplaced sorts after all orders.
const unplaced = "~"

// heldBack reports whether a run that has ended may not be purged, whatever the
// time: as the script of that does.
func (e *partitionState) heldBack(run string) bool {
	return e.metaOf(run)["B"] != "" || len(e.sent[run].Val()) > 0 || e.chains.Val()[run] != "" || e.remembers(run)
}

// remembers reports whether an item is remembered under the id of a run until Confirm.
func (e *partitionState) remembers(run string) bool {
	seen := e.seen[run]
	return seen != nil && slices.ContainsFunc(seen.Val(), func(z redis.Z) bool { return z.Score >= kept })
}

// lastSent returns the greatest place of a record.
func (e *partitionState) lastSent() int64 {
	greatest := int64(0)
	for _, sent := range e.sent {
		for _, packed := range sent.Val() {
			if order, _, ok := unpackSent(packed); ok {
				n, err := strconv.ParseInt(order, 16, 64)
				if err == nil {
					greatest = max(greatest, n)
				}
			}
		}
	}
	return greatest
}

// lookAtOutbox compares the due time of each record with its phase.
func (e *partitionState) lookAtOutbox() {
	due := map[string]string{} // by the member of the set
	for _, run := range e.judged(sortedKeys(e.sent)) {
		for id, packed := range e.sent[run].Val() {
			order, o, ok := unpackSent(packed)
			if !ok {
				continue
			}
			at := "1"
			if o.Phase != store.PhaseFresh {
				at = number(millis(o.Since) + store.Horizon.Milliseconds())
			}
			due[order+run+id] = at
		}
	}
	seen := map[string]string{}
	for _, z := range e.outbox.Val() {
		member, _ := z.Member.(string)
		if len(member) < orderDigits+runDigits || !e.unread[member[orderDigits:orderDigits+runDigits]] {
			seen[member] = strconv.FormatFloat(z.Score, 'f', -1, 64)
		}
	}
	for _, member := range slices.Compact(sorted(slices.Concat(sortedKeys(due), sortedKeys(seen)))) {
		if due[member] == seen[member] {
			continue
		}
		f := store.Defect{Invariant: 12, What: fmt.Sprintf("something is to be done for record %q at %q, and that is at %q", member, due[member], seen[member]),
			Explain: "what a run has begun is done at the wrong time, or never"}
		e.repairable(f, "write it again", swap{key: e.p.outbox(), kind: inZSet, field: member, seen: seen[member], value: due[member]})
	}
}
