package store

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Outbox delivers the effects of runs on other runs. A commit writes outbox records. Any worker of
// the partition of the sender delivers them with Create and Deliver, possibly several times. A
// record has three phases. They ensure that a failover of the partition of the sender or of the
// receiver neither loses the record nor makes it take effect twice:
//
//	fresh     not known to have arrived: must be sent, in order per pair of sender
//	          and receiver
//	answered  the receiver has answered; Horizon later it is sent once more, in
//	          case a failover of the receiver has lost it
//	settled   the receiver still had it; Horizon later Confirm permits the receiver
//	          to remove its trace
type Outbox interface {
	// Outbox returns at most limit due records of a partition, in the order in which they were
	// written. next is the time at which another record will be due. It is zero if there is none,
	// and in the past if due records were omitted. A store may omit due records before limit is
	// reached, but it returns at least one. It chooses them freely within the order of pairs.
	//
	// A fresh record is due at once. An answered or settled record is due Horizon after it entered
	// its phase. The records of a pair of sender and receiver are delivered in order. A fresh
	// record is not returned before an earlier fresh record of its pair. An answered record is
	// returned only if all earlier records of its pair are settled or also returned.
	Outbox(ctx context.Context, partition, limit int) (records []Outgoing, next time.Time, err error)
	// Mark moves records to their next phases. Each mark is independent of the others. It has no
	// effect if the record is missing or is not in the phase in which it was read, because another
	// worker has changed it.
	Mark(ctx context.Context, partition int, marks []Mark) error
	// Confirm removes the trace of a record from its receiver, because the record will not be sent
	// again. The trace is at the run, at its chain, or at the run that the record has created.
	// Confirm also applies to deleted runs. It has no effect if the trace or the run does not
	// exist.
	Confirm(ctx context.Context, run event.RunID, record event.ItemID) error
}

// Send is an outbox record in a commit.
type Send struct {
	// ID is derived from the sender and its operation. Therefore an operation that is executed
	// again after a loss of writes has the same ID. It is the ID of the delivered item, and
	// CreatedBy of the created run. If the outbox of the sender already contains a record with this
	// ID, in any phase, that record is unchanged.
	ID event.ItemID
	// To is the run that is created or that receives the item.
	To event.RunID
	// Body describes the operation. A store does not interpret it.
	Body []byte
	// First reports that this record creates the receiver, so the sender has sent nothing to the
	// receiver before. A store may use it for Committed.Sent, and does not store it.
	First bool
}

// Outgoing is a record in an outbox.
type Outgoing struct {
	Send
	From  event.RunID
	Phase Phase
	// Since is the time at which the record entered its phase.
	Since time.Time
	// Deadline is half a Horizon after the record was read. A worker that delivers the record
	// copies it to Deliver or Create. Without the deadline, a late delivery could arrive after
	// another worker has delivered, settled and confirmed the record.
	Deadline time.Time
}

// Outgoing returns the record as it is stored in the outbox of the run from. now is the time of the
// commit.
func (s *Send) Outgoing(from event.RunID, now time.Time) Outgoing {
	return Outgoing{
		Send: Send{ID: s.ID, To: s.To, Body: s.Body}, From: from, Phase: PhaseFresh, Since: time.UnixMilli(now.UnixMilli()).UTC(), Deadline: now.Add(Horizon / 2),
	}
}

// Phase is the delivery state of an outbox record.
type Phase uint8

// Phases of an outbox record, in order.
const (
	PhaseFresh    Phase = 1
	PhaseAnswered Phase = 2
	PhaseSettled  Phase = 3
)

// String returns the name of the phase.
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

// Mark moves one outbox record to its next phase. A fresh record becomes answered, an answered
// record becomes settled, and a settled record is removed.
type Mark struct {
	From  event.RunID
	ID    event.ItemID
	Phase Phase // phase in which the record was read
	// Refusal is an item for the inbox of the sender, which is added in the same action. It is set
	// if the receiver has refused the record and the sender must be notified, and is nil otherwise.
	// It is not added if the sender has ended or if its chain has accepted an item with this ID
	// before. It is added if the sender is closing. The item is for the sender alone, and not for a
	// run that continues the sender.
	Refusal *Item
	// Unknown reports that the receiver does not exist. If there is an earlier record of the pair
	// in any phase, a failover has lost the receiver, and the earlier record creates it. Then the
	// record of this mark and all earlier answered records of the pair become fresh, and the
	// Refusal is not added. Fresh records do not change. A settled record is removed even if
	// Unknown is set.
	//
	// A worker must not set Unknown twice in succession for the same pair. A receiver that never
	// existed or was purged stays unknown even if the earlier records are sent again, so the
	// records would be sent forever.
	Unknown bool
	// Deadline is the deadline of the record when it was read. After the deadline, Refusal and
	// Unknown are ignored, because they may be older than later events of the pair, and the record
	// is sent again. The zero time means no deadline.
	Deadline time.Time
}
