package outbox

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

// office is a store in which several runs send to one run, and a relay of this store.
type office struct {
	*testing.T
	store.Store

	relay    *Relay
	clock    *storetest.Clock
	ids      *storetest.IDs
	session  store.SessionID
	route    store.Route
	receiver event.RunID
	reads    int
	sent     []store.Outgoing // records in the answer to the last commit

	mu      sync.Mutex
	failing error // error that Deliver returns; nil if it succeeds
	carried map[event.ItemID]int
	created []int // number of runs in each Create request
}

func newOffice(t *testing.T) *office {
	clock := storetest.NewClock()
	o := &office{
		T: t, Store: memstore.NewWith(memstore.Config{Clock: clock}), clock: clock, ids: &storetest.IDs{}, session: "wses_1",
		route: store.Route{Queue: "default", Workflow: "orders.fulfil"}, carried: map[event.ItemID]int{},
	}
	t.Cleanup(func() { o.check(o.Close()) })
	o.check(o.OpenSession(t.Context(), store.Session{ID: o.session, TTL: 10_000 * time.Hour, Routes: []store.Route{o.route}}))
	o.receiver = o.start().Run
	o.relay = New(Params{
		Store: o, Clock: clock, Log: slog.New(slog.DiscardHandler), Name: "w", Heartbeat: time.Second, Silent: func(int) bool { return false },
	})
	return o
}

func (o *office) check(err error) {
	o.Helper()
	if err != nil {
		o.Fatal(err)
	}
}

func (o *office) start() *storetest.Log {
	o.Helper()
	l := storetest.NewLog(o.ids, o.clock, o.ids.Run(o.clock.Now(), 0), event.Spec{Workflow: o.route.Workflow, Queue: o.route.Queue})
	answers, err := o.Store.Create(o.Context(), []store.Create{l.Create()})
	o.check(err)
	o.check(answers[0].Err)
	return l
}

// send writes a record of a new run.
func (o *office) send() (sender event.RunID, record event.ItemID) {
	o.Helper()
	l := o.start()
	got, err := o.ClaimRun(o.Context(), 0, o.session, o.ids.Token(), l.Run)
	o.check(err)
	body, err := event.AppendItem(nil, &event.Event{Type: event.MessageReceived, Name: "topic", Payload: []byte("1")})
	o.check(err)
	message, err := (&effects.OutboxMessage{Item: &effects.Item{Scope: store.ScopeRun, Body: body}}).Encode()
	o.check(err)
	c := l.Commit(got.Fence, l.Work()...)
	c.Send = []store.Send{{ID: o.ids.Item(), To: o.receiver, Body: message}}
	answers, err := o.Commit(o.Context(), []store.Commit{c})
	o.check(err)
	o.check(answers[0].Err)
	o.sent = answers[0].Sent
	return l.Run, c.Send[0].ID
}

func (o *office) Outbox(ctx context.Context, partition, limit int) ([]store.Outgoing, time.Time, error) {
	o.reads++
	return o.Store.Outbox(ctx, partition, limit)
}

func (o *office) Deliver(ctx context.Context, d store.Deliver) (event.RunID, error) {
	o.mu.Lock()
	failing := o.failing
	o.carried[d.Item.ID]++
	o.mu.Unlock()
	if failing != nil {
		return "", failing
	}
	return o.Store.Deliver(ctx, d)
}

func (o *office) Create(ctx context.Context, runs []store.Create) ([]store.Created, error) {
	o.mu.Lock()
	o.created = append(o.created, len(runs))
	o.mu.Unlock()
	return o.Store.Create(ctx, runs)
}

// pass runs one pass of the relay and checks how often the pass reads the outbox.
func (o *office) pass(reads int) (next time.Time) {
	o.Helper()
	o.reads = 0
	next, err := o.relay.pass(o.Context())
	if o.check(err); o.reads != reads {
		o.Errorf("the outbox was read %d times, want %d", o.reads, reads)
	}
	return next
}

func (o *office) want(record event.ItemID, times int) {
	o.Helper()
	if got := o.carried[record]; got != times {
		o.Errorf("record %s was delivered %d times, want %d", record, got, times)
	}
}

// TestRelay_DeliversWhatItsOwnRunsHaveSent proves that a pass delivers only the records of the
// worker's own runs, so that several workers do not deliver the same records. A pass over all
// senders delivers the records that another worker has left.
func TestRelay_DeliversWhatItsOwnRunsHaveSent(t *testing.T) {
	o := newOffice(t)
	own, first := o.send()
	_, others := o.send()
	o.relay.Sent(own, nil, false)
	next := o.pass(1)
	o.want(first, 1)
	o.want(others, 0)
	if at := o.clock.Now().Add(store.Horizon); !next.Equal(at) {
		t.Errorf("the relay looks again at %v, want %v, to settle the record", next, at)
	}
	o.relay.Notify()
	o.pass(1)
	o.want(first, 1)
	o.want(others, 1)
}

// TestRelay_HelpsWithWhatStandsBeforeItsOwn proves that records of the worker's own runs do not
// wait behind records of other workers, however many there are.
func TestRelay_HelpsWithWhatStandsBeforeItsOwn(t *testing.T) {
	o := newOffice(t)
	var left []event.ItemID
	for range relayBatch {
		_, record := o.send()
		left = append(left, record)
	}
	own, record := o.send()
	o.relay.Sent(own, nil, false)
	o.pass(2)
	o.want(record, 1)
	for _, r := range left {
		o.want(r, 1)
	}
}

// TestRelay_KeepsTheTimeOfWhatIsDueLater proves that a pass without marks returns the due time of
// another record as the time of the next pass.
func TestRelay_KeepsTheTimeOfWhatIsDueLater(t *testing.T) {
	o := newOffice(t)
	own, record := o.send()
	o.relay.Sent(own, nil, false)
	o.pass(1)
	due := o.clock.Now().Add(store.Horizon)
	o.clock.Advance(store.Horizon / 2)
	other, second := o.send()
	o.relay.Sent(other, nil, false)
	if next := o.pass(1); !next.Equal(due) {
		t.Errorf("after the second record it looks again at %v, want %v for the first", next, due)
	}
	o.want(second, 1)
	o.relay.Sent(other, nil, false)
	if next := o.pass(1); !next.Equal(due) {
		t.Errorf("after nothing it looks again at %v, want %v", next, due)
	}
	o.want(record, 1)
}

// TestRelay_DeliversWhatACommitAnswersWithoutReadingIt proves that records in the answer to a
// commit are delivered without a read. They are settled when due, and the outbox is read no later
// than scheduled.
func TestRelay_DeliversWhatACommitAnswersWithoutReadingIt(t *testing.T) {
	o := newOffice(t)
	own, first := o.send()
	o.relay.Sent(own, o.sent, true)
	next := o.pass(0)
	o.want(first, 1)
	due := o.clock.Now().Add(store.Horizon)
	if !next.Equal(due) {
		t.Errorf("the relay looks again at %v, want %v, to settle the record", next, due)
	}
	o.relay.setAlarm(next)
	o.clock.Advance(store.Horizon / 2)
	other, second := o.send()
	o.relay.Sent(other, o.sent, true)
	if next := o.pass(0); !next.Equal(due) {
		t.Errorf("after the second record it looks again at %v, want %v for the first", next, due)
	}
	o.want(second, 1)
	o.relay.Notify()
	o.pass(1)
	o.want(first, 1)
	o.want(second, 1)
}

// TestRelay_ReadsWhatACommitDoesNotAnswer proves that the relay reads the remaining records if the
// answer to a commit contains only some of them.
func TestRelay_ReadsWhatACommitDoesNotAnswer(t *testing.T) {
	o := newOffice(t)
	own, record := o.send()
	known, first := o.send()
	o.relay.Sent(known, o.sent, true)
	o.relay.Sent(own, nil, false)
	o.pass(1)
	o.want(first, 1)
	o.want(record, 1)
}

// TestRelay_ReadsAgainWhatDidNotGetThrough proves that a record that was not delivered stays in the
// outbox and is read like all due records.
func TestRelay_ReadsAgainWhatDidNotGetThrough(t *testing.T) {
	for name, failure := range map[string]error{"the receiver wants to be asked later": store.ErrLater, "the store fails": errors.New("no connection")} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t)
			own, record := o.send()
			o.failing = failure
			o.relay.Sent(own, o.sent, true)
			next := o.pass(0)
			o.want(record, 1)
			if wait := next.Sub(o.clock.Now()); wait <= 0 || wait > 10*time.Second {
				t.Errorf("it is tried again in %v, want soon", wait)
			}
			o.failing = nil
			o.clock.Advance(next.Sub(o.clock.Now()))
			o.relay.Notify()
			o.pass(1)
			o.want(record, 2)
			o.relay.Notify()
			o.pass(1)
			o.want(record, 2)
		})
	}
}

// TestRelay_CreatesNoMoreRunsAtOnceThanItReads proves that the relay creates at most relayBatch
// runs per request, even if a run starts more runs at once.
func TestRelay_CreatesNoMoreRunsAtOnceThanItReads(t *testing.T) {
	o := newOffice(t)
	l := o.start()
	got, err := o.ClaimRun(o.Context(), 0, o.session, o.ids.Token(), l.Run)
	o.check(err)
	c := l.Commit(got.Fence, l.Work()...)
	for range relayBatch + 1 {
		child := o.ids.Run(o.clock.Now(), 0)
		frame := storetest.NewLog(o.ids, o.clock, child, event.Spec{Workflow: o.route.Workflow, Queue: o.route.Queue, Parent: l.Run}).Create().Frame
		message, err := (&effects.OutboxMessage{Start: &effects.Start{Frame: frame}}).Encode()
		o.check(err)
		c.Send = append(c.Send, store.Send{ID: o.ids.Item(), To: child, Body: message, First: true})
	}
	answers, err := o.Commit(o.Context(), []store.Commit{c})
	o.check(err)
	o.created = nil
	o.relay.Sent(l.Run, answers[0].Sent, true)
	o.pass(0)
	if diff := cmp.Diff([]int{relayBatch, 1}, o.created); diff != "" {
		t.Errorf("runs created by each request (-want +got):\n%s", diff)
	}
}

// TestRelay_SendsARefusedStartOnlyOnce proves that the sender of a refused start gets one refusal,
// and that the start is not sent again when the workflow ID becomes free.
func TestRelay_SendsARefusedStartOnlyOnce(t *testing.T) {
	o := newOffice(t)
	named := event.Spec{Workflow: o.route.Workflow, Queue: o.route.Queue, WorkflowID: "order"}
	active := storetest.NewLog(o.ids, o.clock, o.ids.Run(o.clock.Now(), event.SlotOf("order")), named)
	created, err := o.Store.Create(o.Context(), []store.Create{active.Create()})
	o.check(err)
	o.check(created[0].Err)
	sender := o.start()
	got, err := o.ClaimRun(o.Context(), 0, o.session, o.ids.Token(), sender.Run)
	o.check(err)
	child := storetest.NewLog(o.ids, o.clock, o.ids.Run(o.clock.Now(), event.SlotOf("order")), named)
	message, err := (&effects.OutboxMessage{Start: &effects.Start{Frame: child.Create().Frame, Active: store.ActiveFail}, Answer: effects.OnRefusal, Key: "k"}).Encode()
	o.check(err)
	c := sender.Commit(got.Fence, sender.Work()...)
	c.Send = []store.Send{{ID: o.ids.Item(), To: child.Run, Body: message, First: true}}
	answers, err := o.Commit(o.Context(), []store.Commit{c})
	o.check(err)
	o.check(answers[0].Err)
	o.relay.Sent(sender.Run, answers[0].Sent, true)
	o.pass(0)
	own, err := o.ClaimRun(o.Context(), 0, o.session, o.ids.Token(), active.Run)
	o.check(err)
	end := active.Commit(own.Fence, active.End(event.StatusCompleted)...)
	end.Effect, end.Status = store.EffectFinish, event.StatusCompleted
	ended, err := o.Commit(o.Context(), []store.Commit{end})
	o.check(err)
	o.check(ended[0].Err)
	for range 3 {
		o.clock.Advance(store.Horizon + time.Second)
		o.relay.Notify()
		o.pass(1)
	}
	loaded, err := o.Load(o.Context(), []store.Load{{Run: child.Run}})
	if err == nil {
		err = loaded[0].Err
	}
	if !errors.Is(err, store.ErrRunNotFound) {
		t.Errorf("the refused run: got %v, want that there is none", err)
	}
	inbox, err := o.Load(o.Context(), []store.Load{{Run: sender.Run, Inbox: true}})
	if o.check(err); len(inbox[0].Inbox) != 1 {
		t.Errorf("the sender has %d items, want the refusal", len(inbox[0].Inbox))
	}
}
