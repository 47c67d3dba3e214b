package replay

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// AskNotice asks another run, under a scope that has not ended, for a notice that a value of it
// should be read again; see [event.Notice]. The operation ends with that notice, or with a failure
// if the run cannot be asked.
func (b *Branch) AskNotice(s *Scope, key string, to event.RunID, payload []byte) *Op {
	b.enter()
	asked := event.Event{
		Type: event.MessageSent, Name: event.NoticeTopic, Key: key, Next: to, Item: event.NoticeItem(b.run.id, key), Payload: payload,
	}
	return b.run.newOp(s, b.run.command(&asked, func(rec *event.Event) string { return sameJSON(rec.Payload, payload) }))
}

// AwaitNotice blocks until the operation has ended. It returns the error of the scope if the scope
// ends first, or ErrNotInTime when due is reached. A zero due means no limit.
func (b *Branch) AwaitNotice(s *Scope, op *Op, what string, due time.Time) error {
	b.enter()
	switch {
	case op.done:
		return nil
	case s.err != nil:
		return s.err
	case due.IsZero():
		if won, _ := b.wait(what, "", op, &s.ended); won == 1 {
			return s.err
		}
		return nil
	case !due.After(b.run.now):
		return ErrNotInTime
	}
	timer := b.newWait(s, event.WaitSleep, b.Key("after"), "", due)
	won, _ := b.wait(what, "", op, &s.ended, timer)
	switch {
	case won != 0 && s.err != nil:
		return s.err
	case won == 2:
		return ErrNotInTime
	}
	b.endWait(timer, event.OutcomeCanceled)
	return nil
}
