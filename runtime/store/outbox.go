package store

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Outbox delivers the changes that runs make to other runs: a commit writes records, and any worker
// of the sender's partition delivers them with Create and Deliver, any number of times. A record
// passes through three phases, so that a failover of the sender's or the receiver's partition
// neither loses it nor makes it take effect twice:
//
//	fresh     not known to have arrived: must be sent, in order per pair of sender
//	          and receiver
//	answered  the receiver has answered; Horizon later it is sent once more, in
//	          case a failover of the receiver has lost it
//	settled   the receiver still had it; Horizon later Confirm permits the receiver
//	          to remove its trace
type Outbox interface {
	// Outbox returns up to limit due records of a partition, in the order in which they were
	// written, and the time at which the next record will be due: zero if there is none, a past
	// time if some were left out. It may leave some out before the limit, but not all; the choice
	// is free as far as the order of pairs allows.
	//
	// A fresh record is due at once, an answered and a settled one Horizon after they entered their
	// phase. Records of one sender and receiver are delivered in order: no fresh record is returned
	// before an earlier fresh one of its pair, and an answered one only if all earlier ones of its
	// pair are settled or also returned.
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
	// Deadline is half a Horizon after the record was read: a worker that delivers it copies it to
	// the Deliver or the Create, so that the delivery cannot arrive long after another worker has
	// delivered, settled and confirmed the record.
	Deadline time.Time
}

// Outgoing returns the record as stored in the outbox of a run that sends it now.
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
	// Refusal is an item that is added to the sender's inbox in the same action, because the
	// receiver has refused the record and the sender must be notified; nil if not needed. An ended
	// sender gets none, nor does one whose chain has accepted that ID before; a closing one does.
	// The item is for the sender alone, not for a run that continues it.
	Refusal *Item
	// Unknown reports that the receiver does not exist. If there is an earlier record of the same
	// sender and receiver in any phase, the record of this mark and all earlier answered ones of
	// the pair become fresh again, and the Refusal is not added: a failover has lost the receiver,
	// and the record that creates it is sent again first. Fresh records are unchanged. A settled
	// record is removed regardless of Unknown.
	//
	// A worker must not set it again for a pair for which it has just set it: a receiver that never
	// existed, or was purged, stays unknown however often the earlier records are sent, and the two
	// cases would alternate forever.
	Unknown bool
	// Deadline is the deadline of the record when it was read. After it a Refusal, or Unknown, is
	// ignored, because it may be older than later events of the pair, and the record is sent again.
	// Zero means none.
	Deadline time.Time
}
