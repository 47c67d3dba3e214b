package store

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Outbox delivers the changes that runs make to other runs: a commit writes records, and any
// worker of the sender's partition delivers them with Create and Deliver,
// which it may do any number of times. A record passes through three phases, so
// that neither a failover of the sender's partition nor one of the receiver's
// loses it or lets it come into effect twice:
//
//	fresh     not known to have arrived: must be sent, in order per pair of sender
//	          and receiver
//	answered  the receiver has answered; Horizon later it is sent once more, in
//	          case that a failover of the receiver has lost what it had accepted
//	settled   the receiver still had it; Horizon later it is told, by Confirm,
//	          that it may forget that it has seen it
type Outbox interface {
	// Outbox returns up to limit records of a partition that are due now, in the
	// order in which they were written, and when the next record will be due: zero
	// if there is none, a time that is past if some were left out. It may leave some
	// out before the limit, but not all; which ones is its choice as far as the order
	// of pairs allows.
	//
	// A fresh record is due at once, an answered one and a settled one Horizon after they
	// got into their phase. Records of one sender and
	// receiver are delivered in order: no fresh record is returned before an
	// earlier fresh one of its pair, and an answered one only if all earlier ones of
	// its pair are settled, or are returned, too.
	Outbox(ctx context.Context, partition, limit int) (records []Outgoing, next time.Time, err error)
	// Mark moves records to their next phase. Each mark is judged separately. It has no effect on a
	// record that is missing or not in the phase in which it was read: another worker was faster,
	// or has reset it.
	Mark(ctx context.Context, partition int, marks []Mark) error
	// Confirm removes the memory of a record from a run, its chain, or the run that the record has
	// created, because the record will not be sent again. It applies to deleted runs as well, and
	// has no effect if there is no such memory or run.
	Confirm(ctx context.Context, run event.RunID, record event.ItemID) error
}

// Send is a record as written by a commit.
type Send struct {
	// ID is derived from the sender and its operation, so that an operation that is executed again
	// after lost writes has the same ID. It is the ID of the delivered item and the CreatedBy of
	// the created run. A record that is already in the sender's outbox, in any phase, stays as it
	// is.
	ID event.ItemID
	// To is the run that is created, or to which an item is delivered.
	To event.RunID
	// Body describes the operation; a store does not interpret it.
	Body []byte
	// First reports that the sender has sent nothing to the receiver before, because this record
	// creates the receiver. A store may use it for Committed.Sent and does not store it.
	First bool
}

// Outgoing is a record in the outbox.
type Outgoing struct {
	Send
	From  event.RunID
	Phase Phase
	// Since is the time at which the record entered its phase.
	Since time.Time
	// Deadline is half a Horizon after it was read: a worker that delivers it puts it
	// into the Deliver or the Create, so that it cannot arrive long after another
	// worker has delivered, settled and confirmed it.
	Deadline time.Time
}

// Outgoing returns a record as it is in the outbox of a run that has sent it now.
func (s *Send) Outgoing(from event.RunID, now time.Time) Outgoing {
	return Outgoing{
		Send: Send{ID: s.ID, To: s.To, Body: s.Body}, From: from, Phase: PhaseFresh, Since: time.UnixMilli(now.UnixMilli()).UTC(), Deadline: now.Add(Horizon / 2),
	}
}

// Phase is the progress of a record of an outbox.
type Phase uint8

// The phases.
const (
	PhaseFresh    Phase = 1
	PhaseAnswered Phase = 2
	PhaseSettled  Phase = 3
)

// String returns the phase's name.
func (p Phase) String() string {
	switch p {
	case PhaseFresh:
		return "fresh"
	case PhaseAnswered:
		return "answered"
	case PhaseSettled:
		return "settled"
	}
	return "gone"
}

// Mark advances one record of an outbox: a fresh record becomes answered, an answered one becomes
// settled, and a settled one is removed.
type Mark struct {
	From  event.RunID
	ID    event.ItemID
	Phase Phase // the phase in which the record was read
	// Refusal is an item that is pushed into the sender's inbox in the same action, because the
	// receiver has refused the record and the sender must learn of it; nil if not needed. A sender
	// that has ended gets none, nor does one whose chain has accepted that ID before; a closing one
	// does. The item goes to the sender alone, not to a run that continues it.
	Refusal *Item
	// Unknown says that the receiver does not exist. While there is an earlier record
	// of the same sender and receiver, in whatever phase, the record that this mark is
	// about, and all earlier ones of the pair that are answered, become fresh
	// again, and the Refusal is not pushed: a failover has lost the receiver, and
	// what created it goes first again. What is fresh stays as it is. About a settled record
	// it says nothing: that is removed.
	//
	// A worker must not set it again for a pair for which it has just set it: a
	// receiver that never existed, or was purged, stays unknown
	// however often the earlier ones are sent, and the two would take turns for ever.
	Unknown bool
	// Deadline is that of the record as it was read. Past it a Refusal, or Unknown, is
	// ignored: it may be older than what has happened to the pair since, and the record is
	// sent again. Zero: none.
	Deadline time.Time
}
