package runloop_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/store"
)

// book is one run as a store keeps it. It implements the rules of package store that concern one
// run.
type book struct {
	program *program
	run     event.RunID
	start   *event.Event // the event that creates the run, whether a host or a client stores it

	frames   [][]byte
	ids      []event.CommitID
	events   []event.Event
	bytes    int
	inbox    []store.Item
	accepted []event.ItemID // all items in the order of acceptance

	place      store.QueueState // 0: the run does not exist
	fence      store.Fence
	owner      *session
	due        time.Time
	chunks     []string // bodies of the chunks that the run has published
	answered   map[event.ItemID][]*effects.Answer
	closing    bool
	exempt     bool
	canceled   bool // whether a cancel was accepted
	overLimit  bool // whether the run uses more of its limit than the limit allows
	recoveries int

	startWithin time.Duration // start deadline of the run; 0: none
	mostEvents  int           // bound of the log
	reached     reached
	blockers    map[bool]bool // versions of the code that could not replay the run
	epochs      uint64
}

// session is a session of a host.
type session struct {
	id   store.SessionID
	over bool
}

func (b *book) clone() *book {
	c := *b
	c.frames, c.ids, c.events, c.chunks = slices.Clip(b.frames), slices.Clip(b.ids), slices.Clip(b.events), slices.Clip(b.chunks)
	c.inbox, c.accepted, c.answered, c.blockers = slices.Clone(b.inbox), slices.Clone(b.accepted), maps.Clone(b.answered), nil
	if c.place == store.StateOwned { // its worker dies
		c.newFence()
		c.place = store.StateReady
	}
	return &c
}

func (b *book) seq() uint64 { return uint64(len(b.events)) }

func (b *book) last() event.CommitID {
	if len(b.ids) == 0 {
		return event.CommitID{}
	}
	return b.ids[len(b.ids)-1]
}

func (b *book) ended() bool { return b.place == store.StateEnded }

// created returns the event that creates the run.
func (b *book) created(now time.Time) *event.Event {
	if p := b.program; b.start == nil {
		b.start = &event.Event{Seq: 1, Type: event.RunCreated, Time: event.Instant(now), Payload: fmt.Appendf(nil, `{"in":%d}`, p.input),
			Spec: &event.Spec{Workflow: p.workflow, Queue: "default", Uses: p.uses, Whole: p.whole, StartWithin: b.startWithin}}
	}
	return b.start
}

// create creates the run as a client does.
func (b *book) create(now time.Time) {
	e := b.created(now)
	id := event.CommitID{0xc}
	frame, err := event.AppendFrame(nil, &event.Frame{CommitID: id, Time: e.Time, Events: []event.Event{*e}})
	if err != nil {
		panic(err)
	}
	b.append(frame, id)
	b.place = store.StateReady
}

func (b *book) append(frame []byte, id event.CommitID) {
	f, err := event.DecodeFrame(frame)
	if err != nil {
		panic(fmt.Sprintf("a commit contains a frame that cannot be decoded: %v", err))
	}
	b.frames, b.ids, b.events = append(b.frames, frame), append(b.ids, id), append(b.events, f.Events...)
	b.reached.log(b.events, len(f.Events))
	b.bytes += len(frame)
}

// newFence gives the run a new fence.
func (b *book) newFence() {
	b.epochs++
	b.fence = store.Fence{Epoch: b.fence.Epoch + 1, Token: event.Token{1, byte(b.epochs >> 8), byte(b.epochs)}}
	b.owner, b.exempt, b.closing = nil, false, false
}

// claimable reports whether a session whose code is of the given version may claim the run.
func (b *book) claimable(now time.Time, other bool) bool {
	switch b.place {
	case store.StateReady:
		return true
	case store.StateParked:
		return !b.due.IsZero() && !now.Before(b.due)
	case store.StateBlocked:
		return !b.blockers[other]
	}
	return false
}

// claim makes the session the owner of the run. waited is the time at which the run began to wait
// for its permits.
func (b *book) claim(s *session, exemptFrom int, waited time.Time) store.ClaimedRun {
	b.newFence()
	b.place, b.owner = store.StateOwned, s
	b.exempt = b.recoveries >= exemptFrom
	c := store.ClaimedRun{
		Run: b.run, Route: b.route(), Fence: b.fence, Recoveries: b.recoveries, N: uint64(len(b.frames)), Seq: b.seq(), Last: b.last(),
		Bytes: b.bytes, Unread: len(b.inbox) > 0,
	}
	if len(b.program.uses) > 0 {
		if c.LeftQueue = b.overLimit; !c.LeftQueue {
			c.Waited = waited
		}
	}
	return c
}

func (b *book) route() store.Route {
	return store.Route{Workflow: b.program.workflow, Queue: "default"}
}

// end ends a session and recovers the run that it owns.
func (b *book) end(s *session) {
	s.over = true
	if b.owner == s {
		if !b.exempt {
			b.recoveries++
		}
		b.newFence()
		b.place = store.StateReady
	}
}

func (b *book) release(f store.Fence) {
	if b.place == store.StateOwned && b.fence == f {
		b.newFence()
		b.place = store.StateReady
	}
}

// deliver delivers an item, and reports whether it was accepted now.
func (b *book) deliver(e event.Event, id event.ItemID, scope store.Scope) bool {
	if b.place == 0 || b.ended() || b.closing || slices.Contains(b.accepted, id) {
		return false
	}
	body, err := event.AppendItem(nil, &e)
	if err != nil {
		panic(err)
	}
	b.inbox, b.accepted = append(b.inbox, store.Item{ID: id, Scope: scope, Body: body}), append(b.accepted, id)
	if b.place == store.StateParked {
		b.place = store.StateReady
	}
	return true
}

// forget forgets an item that was consumed without an event, as a store does after a day. It reports
// whether the item may be sent again.
func (b *book) forget(id event.ItemID) bool {
	if slices.ContainsFunc(b.inbox, func(i store.Item) bool { return i.ID == id }) || b.has(b.seq(), func(e *event.Event) bool { return e.Item == id }) {
		return false
	}
	b.accepted = slices.DeleteFunc(b.accepted, func(known event.ItemID) bool { return known == id })
	return true
}

// load reads the run.
func (b *book) load(inboxOnly bool) store.Loaded {
	l := store.Loaded{Record: store.Record{N: uint64(len(b.frames))}, Inbox: slices.Clone(b.inbox)}
	if !inboxOnly {
		l.Frames = slices.Clone(b.frames)
	}
	return l
}

// commit carries out a commit.
func (b *book) commit(c *store.Commit, by *session) store.Committed {
	switch {
	case b.place == 0:
		return store.Committed{Err: store.ErrFenced}
	case c.Frame != nil && c.CommitID == b.last():
		owned := b.place == store.StateOwned && b.fence == c.Fence
		return store.Committed{N: uint64(len(b.frames)), Unread: owned && len(b.inbox) > 0}
	case b.place != store.StateOwned || b.fence != c.Fence:
		return store.Committed{Err: store.ErrFenced}
	case c.Frame != nil && (c.Prev != b.last() || c.First != b.seq()+1):
		return store.Committed{Err: &store.ConflictError{Run: b.run, Seq: c.First, StoredSeq: b.seq(), Prev: c.Prev, Stored: b.last(), Reason: "not the end of the log"}}
	case c.Consume > len(b.inbox) || c.Consume > 0 && b.inbox[c.Consume-1].ID != c.ConsumeLast:
		return store.Committed{Err: &store.ConflictError{Run: b.run, Reason: "consumes other items"}}
	case c.Consume < len(b.inbox) && (c.Effect == store.EffectPark || c.Effect == store.EffectFinish):
		return store.Committed{Err: store.ErrUnread}
	}
	b.inbox = b.inbox[c.Consume:]
	if c.Frame != nil {
		b.append(c.Frame, c.CommitID)
	}
	b.publish(c.Publish)
	if c.Closing {
		b.reached.count("the inbox was closed")
	}
	b.closing = c.Closing
	if c.Progress {
		b.recoveries = 0
	}
	b.exempt = c.Exempt.After(b.exempt, c.Progress)
	b.apply(c, by)
	return store.Committed{N: uint64(len(b.frames)), Unread: b.place == store.StateOwned && len(b.inbox) > 0}
}

// publish takes the chunks of the run's stream, and the answers to asks.
func (b *book) publish(all []store.Publication) {
	for _, p := range all {
		switch {
		case p.Close:
		case p.Stream == effects.UserStream(stream.Name()):
			chunk, err := effects.DecodeChunk(p.Body)
			if err != nil {
				panic(err)
			}
			b.chunks = append(b.chunks, string(chunk.Value))
		case strings.HasPrefix(p.Stream, "a:"):
			a, err := effects.DecodeAnswer(p.Body)
			if err != nil {
				panic(err)
			}
			b.answered[a.ID] = append(slices.Clip(b.answered[a.ID]), a)
			if a.Refused {
				b.reached.count("an ask was refused")
			} else {
				b.reached.count("an ask was answered")
			}
		}
	}
}

// apply carries out the effect of a commit.
func (b *book) apply(c *store.Commit, by *session) {
	switch c.Effect {
	case store.EffectNone:
		return
	case store.EffectPark:
		b.place, b.due = store.StateParked, c.Due
	case store.EffectYield:
		b.place = store.StateReady
	case store.EffectBlock:
		b.place = store.StateBlocked
	case store.EffectFinish, store.EffectContinue:
		b.place = store.StateEnded
	}
	b.newFence()
}

// has reports whether one of the first n events satisfies f.
func (b *book) has(n uint64, f func(*event.Event) bool) bool {
	for i := range b.events[:min(n, b.seq())] {
		if f(&b.events[i]) {
			return true
		}
	}
	return false
}

// answers returns what others send to the run because of the events of its log: the results of
// children, and payloads for hooks. Each has its own item ID.
func (b *book) answers() (all []event.Event, ids []event.ItemID) {
	add := func(e event.Event, id string) {
		if item := event.ItemID(id); !slices.Contains(b.accepted, item) {
			all, ids = append(all, e), append(ids, item)
		}
	}
	for i := range b.events {
		switch e := &b.events[i]; {
		case e.Type == event.ChildCreated:
			add(event.Event{Type: event.ChildCompleted, Key: e.Key, Payload: childResult(e)}, fmt.Sprint("child", e.Seq))
		case e.Type == event.StepHookCreated && b.program.answers:
			sent := event.Event{Type: event.HookReceived, Token: e.Token, Payload: []byte("1")}
			if e.Seq%2 == 0 {
				sent.Payload, sent.Failure = nil, &event.Failure{Message: "refused", Code: event.CodeError}
			}
			add(sent, "hook"+e.Token)
		}
	}
	return all, ids
}

// childResult is the result of a child, which is its input.
func childResult(e *event.Event) []byte {
	var in map[string]json.RawMessage
	if err := json.Unmarshal(e.Payload, &in); err != nil {
		panic(err)
	}
	return in["in"]
}

// message returns the next message to the run.
func (b *book) message() (e event.Event, id event.ItemID, ok bool) {
	n := b.sent('m')
	return event.Event{Type: event.MessageReceived, Name: topic.Name(), Payload: []byte(strconv.Itoa(n + 1))}, event.ItemID(fmt.Sprint("m", n+1)), n < b.program.messages
}

// ask returns the next ask of the run.
func (b *book) ask() (e event.Event, id event.ItemID, ok bool) {
	n := b.sent('q')
	return event.Event{Type: event.AskReceived, Name: question.Name(), Payload: []byte(strconv.Itoa(n + 1))}, event.ItemID(fmt.Sprint("q", n+1)), n < b.program.asks
}

// sent returns the number of accepted items of a kind.
func (b *book) sent(kind byte) (n int) {
	for _, item := range b.accepted {
		if item[0] == kind {
			n++
		}
	}
	return n
}

// verify checks the log of a run that has ended: its result, its sequence numbers, and that each
// accepted item was received in order, exactly once.
func (b *book) verify() error {
	last := &b.events[len(b.events)-1]
	if !b.mayEnd(last) {
		return fmt.Errorf("the run of %s ended with %s %s %v, want completed with %s", b.program.workflow, last.Type, last.Payload, last.Failure, b.program.result)
	}
	if n := b.mostEvents + b.mostEvents/5 + 40; len(b.events) > n {
		return fmt.Errorf("the log has %d events, its bound is %d", len(b.events), b.mostEvents)
	}
	return errors.Join(b.dense(), b.itemsInOrder(), b.chunksInOrder(), b.asksAnswered())
}

// mayEnd reports whether the run may end with the given event.
func (b *book) mayEnd(last *event.Event) bool {
	switch last.Type {
	case event.RunCompleted:
		return string(last.Payload) == b.program.result
	case event.RunCanceled:
		return b.canceled
	case event.RunFailed:
		switch last.Failure.Code {
		case event.CodePoisoned:
			return true
		case event.CodeOverLimit:
			return b.overLimit
		case event.CodeLogLimit:
			return b.has(b.seq(), func(e *event.Event) bool { return e.Type == event.CancelRequested && e.Failure != nil })
		case event.CodeNotStarted:
			return b.startWithin > 0 && !b.has(b.seq(), func(e *event.Event) bool { return e.Type == event.RunStarted })
		}
	}
	return false
}

// asksAnswered checks that each ask was answered at most once, and that a completed run has answered
// each ask that it has received.
func (b *book) asksAnswered() error {
	last := &b.events[len(b.events)-1]
	for _, item := range b.accepted {
		if item[0] != 'q' {
			continue
		}
		all, odd := b.answered[item], item[1]%2 == 1
		switch {
		case len(all) == 0 && last.Type == event.RunCompleted && !slices.Contains(last.Unread, item):
			return fmt.Errorf("ask %s has no answer and is not listed as unread", item)
		case len(all) == 0:
		case len(all) > 1, all[0].Refused != odd, !odd && all[0].Failure == nil && string(all[0].Payload) != string(item[1:]):
			return fmt.Errorf("ask %s has %d answers, the first is %+v", item, len(all), all[0])
		}
	}
	return nil
}

// chunksInOrder checks that each chunk was published once, in order.
func (b *book) chunksInOrder() error {
	for i, body := range b.chunks {
		if body != strconv.Itoa(i+1) {
			return fmt.Errorf("chunk %d is %s", i+1, body)
		}
	}
	if len(b.chunks) != b.program.chunks && b.events[len(b.events)-1].Type == event.RunCompleted {
		return fmt.Errorf("the run has published %d chunks, want %d", len(b.chunks), b.program.chunks)
	}
	return nil
}

// dense checks the sequence numbers of the log.
func (b *book) dense() error {
	for i := range b.events {
		if b.events[i].Seq != uint64(i+1) {
			return fmt.Errorf("event %d of the log has the sequence number %d", i+1, b.events[i].Seq)
		}
	}
	return nil
}

// itemsInOrder checks the items of the log.
func (b *book) itemsInOrder() error {
	next, seen := 0, map[event.ItemID]bool{}
	for i := range b.events {
		item := b.events[i].Item
		if item == "" {
			continue
		}
		at := slices.Index(b.accepted, item)
		if at < next {
			return fmt.Errorf("event %d is item %s, which is received twice, before an earlier one, or without being accepted: accepted %v", i+1, item, b.accepted)
		}
		next = at + 1
		seen[item] = true
	}
	for _, item := range b.events[len(b.events)-1].Unread {
		seen[item] = true
	}
	for _, item := range b.accepted {
		if (item[0] == 'm' || item[0] == 'h' || item[0] == 'q' && len(b.answered[item]) == 0) && !seen[item] {
			return fmt.Errorf("item %s was accepted, but it is neither in the log nor listed as unread", item)
		}
	}
	return nil
}
