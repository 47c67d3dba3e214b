package protocol

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// QueueMode determines whether claims examine a limiter queue.
type QueueMode uint8

// The modes of limiter queues.
const (
	QueueOpen     QueueMode = 0 // claims examine it
	QueueClosed   QueueMode = 1 // claims have examined it in vain, and skip it until it is admitted
	QueueAdmitted QueueMode = 2 // claims examine it, and it holds back later queues until Until
)

// LimiterQueue is the state of a limiter queue. Priority and Place of its first run are its
// position among the queues.
type LimiterQueue struct {
	ID       string
	First    event.RunID
	Priority int
	Place    int64
	Mode     QueueMode
	// Until has two meanings, in milliseconds. An admitted queue holds back others until then. A
	// closed queue is rechecked then, because its rates may admit it. It is 0 if the queue has no
	// such time.
	Until int64
	// Stands has a bit for each use at whose limit the queue counts, and so holds back the queues
	// after it. An open queue counts nowhere. An admitted queue counts at all its uses that are not
	// local.
	Stands uint16
	// Owed is set for a closed queue that a nested run has skipped; see owe.
	Owed bool
}

func (l *LimiterQueue) before(other *LimiterQueue) bool {
	if l.Priority != other.Priority {
		return l.Priority > other.Priority
	}
	return l.Place < other.Place
}

// recheck returns when a queue that is not admitted must be rechecked. That is when its rates admit
// it, and for a nested queue after AdmitTime at the latest. 0 means that no time is set.
//
// A nested queue also becomes free when the queue before it lacks a second limit. No event occurs
// at the nested queue's own limits then. The nested queue was not rechecked earlier, when there was
// free capacity for it, because call stops at the queue before it if that queue waits for no other
// limit. The alternative is to recheck such queues whenever a limit loses capacity. It would slow
// down every grant for which other runs wait.
func (o *Op[R, S]) recheck(uses []store.Use, until int64) int64 {
	if !uses[0].Nested {
		return until
	}
	latest := o.Tx.Now().Add(AdmitTime).UnixMilli()
	if until == 0 {
		return latest
	}
	return min(until, latest)
}

// keptBack reports whether an earlier queue that waits for no other limit holds back a nested queue
// at a limit.
//
// If the earlier queue waits for another limit as well, a run above the nested run may hold that
// limit until its end. That end follows the end of the nested run. If the nested run were held
// back, neither run could continue. A queue that waits for this limit only waits for the runs that
// hold it. So a cycle of waits needs runs that hold permits while they wait, and a nested run skips
// only queues that could not have continued in its place. Other runs skip no queue. So the first
// queue at the limit that is held above eventually waits for no other limit. [L5]
func (o *Op[R, S]) keptBack(line *LimiterQueue, id store.LimitID) (bool, error) {
	kept, err := o.Tx.Limits().KeptQueues(id, VainTries)
	if err != nil {
		return false, err
	}
	for i := range kept {
		if kept[i].ID == line.ID || !kept[i].before(line) {
			break
		}
		_, uses, err := o.first(&kept[i])
		if err != nil {
			return false, err
		}
		limits, err := o.limitsOf(uses)
		k := lackOf(o.Tx.Now(), uses, limits)
		if err != nil || k.only(id) || k.limits == 0 && kept[i].Mode == QueueAdmitted {
			return true, err
		}
	}
	return false, nil
}

// closed closes a queue whose first run was examined in vain.
func (o *Op[R, S]) closed(line LimiterQueue, now standing, uses []store.Use, r R, s *Run[S]) error {
	if s.WaitsSince == 0 {
		s.WaitsSince = o.Tx.Now().UnixMilli()
		if err := o.Tx.Save(r, *s); err != nil {
			return err
		}
	}
	was := line.Stands
	line.Mode, line.Until, line.Stands = QueueClosed, now.until, now.at
	if err := o.saveTurn(line, r); err != nil {
		return err
	}
	return o.look(changedAt(uses, was, line.Stands))
}

// first returns the first run of a queue, and the uses of that run.
func (o *Op[R, S]) first(line *LimiterQueue) (r R, uses []store.Use, err error) {
	if r, err = o.Tx.Run(line.First); err != nil {
		return r, nil, err
	}
	uses, err = o.Tx.Limits().Uses(r)
	return r, uses, err
}

// saveTurn stores a queue. If the queue must be rechecked before all others, saveTurn adds that
// time to Changes. [K3]
func (o *Op[R, S]) saveTurn(line LimiterQueue, first R) error {
	if line.Until != 0 {
		earliest, err := o.Tx.NextDue()
		if err != nil {
			return err
		}
		if earliest == 0 || line.Until < earliest {
			o.Changes.Turns = append(o.Changes.Turns, Turn[R]{first, line.Until})
		}
	}
	return o.Tx.Limits().SaveQueue(line)
}

// Turn handles a queue whose time Until has come. An admitted queue from which no run was claimed
// is opened, and its runs keep their places. A closed queue is rechecked, because a rate may have
// free capacity. [L7]
func (o *Op[R, S]) Turn(id string) error {
	line, err := o.Tx.Limits().LimiterQueue(id)
	if err != nil || line.First == "" || line.Until == 0 || line.Until > o.Tx.Now().UnixMilli() {
		return err
	}
	if line.Mode == QueueAdmitted {
		line.Mode, line.Stands = QueueOpen, 0
	}
	line.Until = 0
	if err := o.Tx.Limits().SaveQueue(line); err != nil {
		return err
	}
	first, uses, err := o.first(&line)
	if err != nil {
		return err
	}
	if line.Mode == QueueClosed { // it may not be the first closed queue at all its limits
		_, changed, err := o.admitQueue(line, first, uses)
		if err != nil {
			return err
		}
		if err := o.look(changed); err != nil {
			return err
		}
	}
	return o.call(uses)
}
