package flowtest

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	at "github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/sealed"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
)

// A ledger checks the workers of one client against the answers that they got from the store:
//
//   - P1: no attempt begins, no attempt gets the token of a hook, and no line about a failure is
//     logged before the event that causes it is confirmed.
//   - P2: a run has at most one commit in flight.
//   - P3: sequence numbers are dense, Prev is the last confirmed commit, and no commit ID is used
//     twice. A worker that gets no answer repeats the same commit.
//   - P4: a worker that has stopped has freed all slots for steps.
//   - P5: items are applied and consumed in the order of the inbox, and once.
//
// It observes the outermost store of each worker, so lost and forged answers count as the worker
// got them. A nil ledger checks nothing.
type ledger struct {
	mu      sync.Mutex
	held    map[grant]*holding
	current map[event.RunID]*holding // the latest claim of each run
	ids     map[event.CommitID]bool
	durable map[fact]int
	shown   map[fact]int // log lines
	running int          // attempts of steps of StepOf that have not returned
	found   *Seen[string]
}

// grant identifies a claim of a run.
type grant struct {
	run   event.RunID
	fence store.Fence
}

// fact is an event that permits an effect. Fields that do not matter for the effect are zero.
type fact struct {
	run     event.RunID
	typ     event.Type
	ref     uint64
	attempt int
	token   string
	blocked bool // the run was given back as blocked
}

// holding is the state of a run under one claim, as the answers of the store imply it.
type holding struct {
	known    bool // whether the answer that granted the claim is known
	epoch    uint64
	seq      uint64
	last     event.CommitID
	sent     *store.Commit // the commit without an answer; nil if there is none
	asking   bool          // whether sent is being requested
	items    []event.ItemID
	position map[event.ItemID]int
	consumed int    // number of entries of items that are consumed
	n        uint64 // number of frames at the claim
	gone     []int  // values of consumed after each later frame
	applied  int    // number of entries of items up to the last one with an event in the log
}

// newLedger returns a ledger that adds violations to found.
func newLedger(found *Seen[string]) *ledger {
	return &ledger{
		held: map[grant]*holding{}, current: map[event.RunID]*holding{}, ids: map[event.CommitID]bool{},
		durable: map[fact]int{}, shown: map[fact]int{}, found: found,
	}
}

// another returns a ledger for another client of the same test.
func (l *ledger) another() *ledger {
	if l == nil {
		return nil
	}
	return newLedger(l.found)
}

func (l *ledger) complain(format string, args ...any) { l.found.Add(fmt.Sprintf(format, args...)) }

// claims records runs that a claim has returned.
func (l *ledger) claims(c store.Claimed) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.granted(c)
}

// granted does the work of claims. The caller must hold the lock.
func (l *ledger) granted(c store.Claimed) {
	for _, r := range c.Runs {
		h := &holding{known: true, epoch: r.Fence.Epoch, n: r.N, seq: r.Seq, last: r.Last}
		l.held[grant{r.Run, r.Fence}] = h
		if before := l.current[r.Run]; before == nil || before.epoch <= h.epoch { // answers may arrive in another order
			l.current[r.Run] = h
		}
		if r.Loaded != nil && r.Loaded.Err == nil {
			h.read(r.Loaded)
		}
	}
}

// read records the items that a read of the inbox has returned. It ignores items that are known,
// because a read may have been executed before an earlier commit. An item with a fixed ID, such as the
// release of a held run, is new if a frame that the read has seen consumes the known one: it was sent
// again.
func (h *holding) read(l *store.Loaded) {
	gone := h.goneBy(l.Record.N)
	for _, i := range l.Inbox {
		if p, known := h.position[i.ID]; known && p >= gone {
			continue
		}
		if h.position == nil {
			h.position = map[event.ItemID]int{}
		}
		h.position[i.ID] = len(h.items)
		h.items = append(h.items, i.ID)
	}
}

// goneBy returns the number of entries of items that the first n frames of the log consume. The last
// of these frames may be the one of the commit without an answer.
func (h *holding) goneBy(n uint64) int {
	switch later := int(n) - int(h.n); {
	case later <= 0:
		return 0
	case later <= len(h.gone):
		return h.gone[later-1]
	case h.sent != nil && h.sent.Frame != nil:
		return h.consumed + h.sent.Consume
	}
	return h.consumed
}

// reads returns a function that records the answer of a read. An answer that arrives under a later
// claim belongs to the claim under which the read began.
func (l *ledger) reads(loads []store.Load) func([]store.Loaded, error) {
	if l == nil {
		return func([]store.Loaded, error) {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	holders := make([]*holding, len(loads))
	for i, r := range loads {
		holders[i] = l.current[r.Run]
	}
	return func(got []store.Loaded, err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i, h := range holders {
			if err == nil && h != nil && loads[i].Inbox && got[i].Err == nil {
				h.read(&got[i])
			}
		}
	}
}

// creates checks requests of workers that create runs, and returns a function that records the
// answer.
func (l *ledger) creates(runs []store.Create) func([]store.Created, error) {
	if l == nil {
		return func([]store.Created, error) {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range runs {
		if c := &runs[i]; c.Owner != nil {
			g := grant{c.Run, c.Owner.Fence()}
			l.held[g] = &holding{known: true}
			l.current[c.Run] = l.held[g]
			l.sends(g, creation(c))
		}
	}
	return func(got []store.Created, err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i := range runs {
			c := &runs[i]
			if c.Owner != nil && err == nil && got[i].Err == nil && got[i].New && got[i].Fence == c.Owner.Fence() {
				l.confirm(l.held[grant{c.Run, c.Owner.Fence()}], creation(c))
			}
		}
	}
}

// creation returns the commit that corresponds to a request that creates a run.
func creation(c *store.Create) *store.Commit {
	return &store.Commit{Run: c.Run, Fence: c.Owner.Fence(), Frame: c.Frame, CommitID: c.CommitID, First: 1, Last: c.Seq}
}

// commits checks commits that are being sent, and returns a function that records the answer.
func (l *ledger) commits(commits []store.Commit) func([]store.Committed, error) {
	if l == nil {
		return func([]store.Committed, error) {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range commits {
		if c := &commits[i]; !onlyStatus(c) {
			l.sends(grant{c.Run, c.Fence}, c)
		}
	}
	return func(got []store.Committed, err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i := range commits {
			answer := store.Committed{Err: err}
			if err == nil {
				answer = got[i]
			}
			c := &commits[i]
			if onlyStatus(c) {
				continue
			}
			h := l.held[grant{c.Run, c.Fence}]
			if h.asking = false; store.Unknown(answer.Err) {
				continue
			}
			h.sent = nil
			if answer.Err == nil {
				l.confirm(h, c)
				l.granted(answer.Next)
			}
		}
	}
}

// onlyStatus reports whether a commit changes nothing except the status. The watchdog of a worker
// sends such a commit beside those of the run loop.
func onlyStatus(c *store.Commit) bool {
	return c.Frame == nil && c.Effect == store.EffectNone && c.Exempt == store.ExemptUnchanged && !c.Closing && c.Consume == 0 && len(c.Publish) == 0
}

// sends checks a commit that is being sent.
func (l *ledger) sends(g grant, c *store.Commit) {
	h := l.held[g]
	if h == nil { // a client has seized the run
		h = &holding{}
		l.held[g] = h
	}
	switch {
	case h.sent != nil && (h.asking || !reflect.DeepEqual(h.sent, c)):
		l.complain("P2: run %s: commit %s was sent while commit %s was in flight", c.Run, c.CommitID, h.sent.CommitID)
	case h.sent == nil:
		l.checkFrame(h, c)
		l.checkItems(h, c)
	}
	sent := *c
	h.sent, h.asking = &sent, true
}

// checkFrame checks P3.
func (l *ledger) checkFrame(h *holding, c *store.Commit) {
	if h.known && c.Prev != h.last {
		l.complain("P3: run %s: a commit follows %s, and the last confirmed one is %s", c.Run, c.Prev, h.last)
	}
	if c.Frame == nil {
		return
	}
	f, err := event.DecodeFrame(c.Frame)
	if err != nil {
		l.complain("P3: run %s: %v", c.Run, err)
		return
	}
	first := c.First
	if h.known {
		first = h.seq + 1
	}
	for i := range f.Events {
		if seq := f.Events[i].Seq; seq != first+uint64(i) {
			l.complain("P3: run %s: event %d of commit %s has number %d, want %d", c.Run, i, c.CommitID, seq, first+uint64(i))
			break
		}
	}
	if c.First != first || c.Last != first+uint64(len(f.Events))-1 || f.CommitID != c.CommitID || f.Prev != c.Prev {
		l.complain("P3: run %s: commit %s after %s of events %d to %d has the frame %s after %s of %d events, want the first event to be %d",
			c.Run, c.CommitID, c.Prev, c.First, c.Last, f.CommitID, f.Prev, len(f.Events), first)
	}
	ids := []event.CommitID{c.CommitID}
	if c.Continue != nil {
		ids = append(ids, c.Continue.CommitID)
	}
	for _, id := range ids {
		if l.ids[id] {
			l.complain("P3: run %s: the ID %s was used before", c.Run, id)
		}
		l.ids[id] = true
	}
}

// checkItems checks P5.
func (l *ledger) checkItems(h *holding, c *store.Commit) {
	if !h.known {
		return
	}
	if n := h.consumed + c.Consume; c.Consume > 0 && (n > len(h.items) || h.items[n-1] != c.ConsumeLast) {
		l.complain("P5: run %s: commit %s consumes %d items up to %s, after %d consumed ones of %q", c.Run, c.CommitID, c.Consume, c.ConsumeLast, h.consumed, h.items)
	}
	next := h.applied
	for _, item := range itemsOf(c) {
		switch p, read := h.position[item]; {
		case !read:
			l.complain("P5: run %s: item %s was applied and not read", c.Run, item)
		case p < next:
			l.complain("P5: run %s: item %s was applied again or out of order", c.Run, item)
		default:
			next = p + 1
		}
	}
}

// itemsOf returns the items of the inbox that a commit adds to the log. The first frame of a run
// contains none.
func itemsOf(c *store.Commit) (items []event.ItemID) {
	if c.Frame == nil || c.First == 1 {
		return nil
	}
	f, _ := event.DecodeFrame(c.Frame)
	for i := range f.Events {
		if e := &f.Events[i]; e.Item != "" && e.Type != event.MessageSent {
			items = append(items, e.Item)
		}
	}
	return items
}

// confirm records that a commit is durable.
func (l *ledger) confirm(h *holding, c *store.Commit) {
	h.sent = nil
	h.consumed += c.Consume
	for _, item := range itemsOf(c) {
		h.applied = max(h.applied, h.position[item]+1)
	}
	if c.Effect == store.EffectBlock {
		l.durable[fact{run: c.Run, blocked: true}]++
	}
	if c.Frame == nil {
		return
	}
	h.seq, h.last, h.gone = c.Last, c.CommitID, append(h.gone, h.consumed)
	f, _ := event.DecodeFrame(c.Frame)
	for i := range f.Events {
		switch e := &f.Events[i]; e.Type {
		case event.StepStarted:
			l.durable[fact{run: c.Run, typ: e.Type, ref: e.Ref, attempt: e.Attempt}]++
		case event.StepHookCreated:
			l.durable[fact{run: c.Run, typ: e.Type, token: e.Token}]++
		case event.StepFailed, event.StepRetrying:
			l.durable[fact{run: c.Run, typ: e.Type, attempt: e.Attempt}]++
		case event.RunFailed:
			l.durable[fact{run: c.Run, typ: e.Type}]++
		}
	}
}

// caused checks P1 for an effect.
func (l *ledger) caused(by fact, effect string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.durable[by] == 0 {
		l.complain("P1: run %s: %s before its cause was confirmed: %+v", by.run, effect, by)
	}
}

// begins checks that the attempt of ctx may begin, and observes its hook. The caller must call
// returned when the code of the attempt has returned.
func begins(ctx context.Context) (returned func()) {
	a := at.From(ctx)
	if a == nil || a.Client == nil {
		return func() {}
	}
	outer, ok := sealed.Raw(a.Client.(flow.Engine).Store()).(*Between)
	if !ok || outer.ledger == nil {
		return func() {}
	}
	l := outer.ledger
	l.caused(fact{run: a.Log, typ: event.StepStarted, ref: a.Ref, attempt: a.Number}, "an attempt began")
	a.Hooks = watchedHooks{a.Hooks, l, a.Log}
	l.add(1)
	return func() { l.add(-1) }
}

func (l *ledger) add(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running += n
}

// checkSlots checks P4 for a worker that has stopped.
func (l *ledger) checkSlots(w *worker.Worker) {
	if l == nil {
		return
	}
	for begun := time.Now(); kitOf(w).Slots() != 0; runtime.Gosched() { // a slot is freed soon after the attempt has ended
		l.mu.Lock()
		over := time.Since(begun) > Patience/10 || l.running > 0 // the worker leaves code behind that ignores its context
		if over && l.running == 0 {
			l.complain("P4: %d slots are taken by a worker that has stopped", kitOf(w).Slots())
		}
		l.mu.Unlock()
		if over {
			return
		}
	}
}

// watchedHooks checks P1 for the tokens of hooks that attempts open.
type watchedHooks struct {
	at.HookOpener
	l   *ledger
	run event.RunID
}

// OpenHook returns the token of the hook.
func (h watchedHooks) OpenHook(ctx context.Context, hook at.Hook) (string, error) {
	token, err := h.HookOpener.OpenHook(ctx, hook)
	if err == nil {
		h.l.caused(fact{run: h.run, typ: event.StepHookCreated, token: token}, "an attempt got a token")
	}
	return token, err
}

// watchedLog checks P1 for the lines that a worker logs about failures.
type watchedLog struct {
	slog.Handler
	l *ledger
}

// Handle checks and logs a line.
func (w watchedLog) Handle(ctx context.Context, r slog.Record) error {
	var by fact
	switch r.Message {
	case "step failed":
		by.typ = event.StepFailed
	case "attempt of a step failed":
		by.typ = event.StepRetrying
	case "run failed":
		by.typ = event.RunFailed
	case "run is blocked":
		by.blocked = true
	}
	local := false // a line about a step that is executed for another run names the other run
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "run":
			by.run = event.RunID(a.Value.String())
		case "attempt":
			by.attempt = int(a.Value.Int64())
		case "workflow":
			local = true
		}
		return true
	})
	if w.l != nil && (by.typ != 0 || by.blocked) {
		w.l.logs(by, local)
	}
	return w.Handler.Handle(ctx, r)
}

func (l *ledger) logs(by fact, local bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown[by]++; local && l.shown[by] > l.durable[by] {
		l.complain("P1: run %s: a line was logged before its cause was confirmed: %+v", by.run, by)
	}
}
