package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

// carrier lets runs send items to each other and continue, over a connection that loses requests
// and answers. It repeats each request until it is answered.
type carrier struct {
	t         *testing.T
	ctx       context.Context
	good, bad *redisstore.Store
	clock     *storetest.Clock
	ids       *storetest.IDs
	senders   []*sender
	again     atomic.Int64 // number of requests without an answer
}

// sender is a chain of runs and everything that was written to it.
type sender struct {
	log    *storetest.Log
	fence  store.Fence
	chain  []event.RunID
	frames map[event.RunID][][]byte
	sent   []event.ItemID
}

const sendersContinue = 2 // every third sender continues

func newCarrier(t *testing.T, good, bad *redisstore.Store, clock *storetest.Clock, chains int) *carrier {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	t.Cleanup(cancel)
	c := &carrier{t: t, ctx: ctx, good: good, bad: bad, clock: clock, ids: &storetest.IDs{}}
	for range chains {
		l := storetest.NewLog(c.ids, clock, event.NewRunID(clock.Now(), event.RandomSlot()), event.Spec{Workflow: orders.Workflow, Queue: orders.Queue})
		create := l.Create()
		c.insist("create", func() error { _, err := bad.Create(ctx, []store.Create{create}); return err })
		s := &sender{log: l, chain: []event.RunID{l.Run}, frames: map[event.RunID][][]byte{l.Run: {create.Frame}}}
		c.senders = append(c.senders, s)
	}
	for p := range good.Partitions() {
		id := c.session(p)
		session := store.Session{Partition: p, ID: id, TTL: 1000 * time.Hour, Routes: []store.Route{orders}}
		if err := good.OpenSession(ctx, session); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range c.senders {
		c.claim(s)
	}
	return c
}

func (c *carrier) session(partition int) store.SessionID {
	return store.SessionID(fmt.Sprintf("session-of-%d", partition))
}

func (c *carrier) claim(s *sender) {
	c.t.Helper()
	p := int(s.log.Run.Slot()) % c.good.Partitions()
	got, err := c.good.ClaimRun(c.ctx, p, c.session(p), event.NewToken(), s.log.Run)
	if err != nil {
		c.t.Fatal(err)
	}
	s.fence = got.Fence
}

// insist repeats an operation until it has an answer.
func (c *carrier) insist(what string, op func() error) {
	c.t.Helper()
	for {
		err := op()
		if err == nil {
			return
		}
		if c.ctx.Err() != nil {
			c.t.Errorf("%s: %v", what, err)
			return
		}
		c.again.Add(1)
	}
}

func (c *carrier) commit(s *sender, commit store.Commit) {
	var answers []store.Committed
	c.insist("commit", func() (err error) {
		answers, err = c.bad.Commit(c.ctx, []store.Commit{commit})
		return err
	})
	run := s.log.Run
	s.frames[run] = append(s.frames[run], commit.Frame)
	want := []store.Committed{{N: uint64(len(s.frames[run])), Unread: answers[0].Unread, Sent: answers[0].Sent}}
	if diff := cmp.Diff(want, answers); diff != "" {
		c.t.Errorf("commit to run %s (-want +got):\n%s", run, diff)
	}
	s.log.Accept(commit)
}

// write makes sender i commit one frame with two outbox records in each round, and then continue if
// it is one of the senders that do.
func (c *carrier) write(i, rounds int) {
	s, to := c.senders[i], c.senders[(i+1)%len(c.senders)].chain[0]
	for round := range rounds {
		commit := s.log.Commit(s.fence, s.log.Work()...)
		for n := range 2 {
			id := event.DerivedItemID(s.log.Run, fmt.Sprintf("send#%d", 2*round+n))
			commit.Send = append(commit.Send, store.Send{ID: id, To: to, Body: []byte(`"hello"`)})
			s.sent = append(s.sent, id)
		}
		c.commit(s, commit)
	}
	if i%sendersContinue == 0 {
		commit, next := s.log.Continue(s.fence, nil)
		c.commit(s, commit)
		s.log, s.chain = next, append(s.chain, next.Run)
		s.frames[next.Run] = [][]byte{commit.Continue.Frame}
		c.claim(s)
	}
}

// carry relays the outbox records of a partition until none are left.
func (c *carrier) carry(p int) {
	for {
		var records []store.Outgoing
		var next time.Time
		c.insist("outbox", func() (err error) {
			records, next, err = c.bad.Outbox(c.ctx, p, 7)
			return err
		})
		if len(records) == 0 {
			if next.IsZero() {
				return
			}
			c.clock.Advance(store.Horizon / 4)
			continue
		}
		var marks []store.Mark
		for _, r := range records {
			marks = append(marks, c.answer(r))
		}
		c.insist("mark", func() error { return c.bad.Mark(c.ctx, p, marks) })
	}
}

// answer delivers a record and returns its new phase. Every third record is refused by its
// receiver.
func (c *carrier) answer(r store.Outgoing) store.Mark {
	m := store.Mark{From: r.From, ID: r.ID, Phase: r.Phase}
	if r.Phase == store.PhaseSettled {
		c.insist("confirm", func() error { return c.bad.Confirm(c.ctx, r.To, r.ID) })
		return m
	}
	item := store.Item{ID: r.ID, Body: r.Body}
	c.insist("deliver", func() error {
		_, err := c.bad.Deliver(c.ctx, store.Deliver{Run: r.To, Item: item, Keep: true})
		return err
	})
	if r.Phase == store.PhaseFresh && r.ID[0]%3 == 0 {
		m.Refusal = &store.Item{ID: event.DerivedItemID(r.From, "refusal of "+string(r.ID)), Body: []byte(`"no"`)}
	}
	return m
}

// verify fails the test unless each frame and each item was stored exactly once.
func (c *carrier) verify() {
	c.t.Helper()
	snap, err := c.good.Inspect(c.ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	if len(snap.Outbox) > 0 || len(snap.Kept) > 0 {
		c.t.Errorf("left behind: %d records, items kept by %d chains", len(snap.Outbox), len(snap.Kept))
	}
	runs := 0
	for i, s := range c.senders {
		for n, run := range s.chain {
			got := snap.Runs[run]
			if got == nil {
				c.t.Fatalf("run %s is gone", run)
			}
			if diff := cmp.Diff(s.frames[run], got.Frames); diff != "" {
				c.t.Errorf("log of run %s (-written +stored):\n%s", run, diff)
			}
			if n > 0 && (snap.Runs[s.chain[n-1]].Next != run || got.Chain != s.chain[0]) {
				c.t.Errorf("run %s of chain %s does not follow run %s", run, got.Chain, s.chain[n-1])
			}
			runs++
		}
		want := map[event.ItemID]int{}
		for _, id := range c.senders[(i+len(c.senders)-1)%len(c.senders)].sent {
			want[id] = 1
		}
		for _, id := range s.sent {
			if id[0]%3 == 0 && len(s.chain) == 1 {
				want[event.DerivedItemID(s.chain[0], "refusal of "+string(id))] = 1
			}
		}
		got := map[event.ItemID]int{}
		for _, item := range snap.Runs[s.log.Run].Inbox {
			got[item.ID]++
		}
		if diff := cmp.Diff(want, got); diff != "" {
			c.t.Errorf("inbox of chain %s (-want +got):\n%s", s.chain[0], diff)
		}
	}
	if len(snap.Runs) != runs {
		c.t.Errorf("runs: got %d, want %d", len(snap.Runs), runs)
	}
}

func TestSTORE3_LostAnswersDoubleNoRecordAndNoContinuation(t *testing.T) {
	eachServer(t, func(t *testing.T, _ string, _ []string, dial func(redistest.Harm) redis.UniversalClient) {
		clock := storetest.NewClock()
		open := func(client redis.UniversalClient, prefix string) *redisstore.Store {
			st, err := redisstore.New(client, redisstore.Config{Prefix: prefix, Partitions: 4, Clock: clock})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = st.Close() })
			return st
		}
		prefix := redistest.Prefix()
		c := newCarrier(t, open(dial(nil), prefix), open(dial(faulty(11, 15)), prefix), clock, 24)
		var all sync.WaitGroup
		for i := range c.senders {
			all.Go(func() { c.write(i, 6) })
		}
		all.Wait()
		for p := range c.good.Partitions() {
			all.Go(func() { c.carry(p) })
		}
		all.Wait()
		c.verify()
		sound(t, c.good)
		t.Logf("%d operations without an answer", c.again.Load())
		if c.again.Load() < 10 {
			t.Errorf("%d operations had no answer: the proxy did no harm", c.again.Load())
		}
	})
}
