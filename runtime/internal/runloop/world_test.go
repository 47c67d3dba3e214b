package runloop_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/depth"
	"github.com/flowgen/flowgen/runtime/event"
	at "github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/runloop"
	"github.com/flowgen/flowgen/runtime/store"
)

// world is a run, its book, and the hosts that execute it. All random decisions come from one seed.
type world struct {
	rng                    *rand.Rand
	now                    time.Time
	book                   *book
	hosts                  []*host
	commits                int
	commitIDs              map[event.CommitID]bool
	quarantine, recoveries int
	deadly                 int            // how many more of 100 operations are faults
	unserved               bool           // whether hosts serve the route of the run only after the faults
	memory, mirrorMemory   runloop.Memory // of all hosts, which share a goroutine
	mirrored               bool
	calm                   bool // whether no further faults occur
	declined               bool // whether a host has withdrawn the creation of the run
	names                  int
	tracing                bool
	trace                  []string
	prefixes               []*book // the book after some of the commits
}

const runID event.RunID = "wrun_01ARZ3NDEKTSV4RRFFQ69G5FAV"

func newWorld(seed uint64, p *program) *world {
	w := &world{
		rng: rand.New(rand.NewPCG(seed, 0)), now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), commitIDs: map[event.CommitID]bool{},
		recoveries: 1000, quarantine: 998, mirrored: seed%4 == 0,
	}
	w.book = &book{program: p, run: runID, blockers: map[bool]bool{}, answered: map[event.ItemID][]*effects.Answer{}, reached: reached{}, mostEvents: 50_000}
	switch w.rng.IntN(16) {
	case 0, 1, 2, 3:
		w.recoveries, w.quarantine, w.deadly = 4, 2, 5
	case 4:
		w.book.mostEvents = 5 + w.rng.IntN(40)
	case 5:
		w.book.startWithin = 50 * time.Millisecond
	case 6:
		w.unserved = true
	}
	for range 2 {
		w.hosts = append(w.hosts, w.newHost(p.other != nil && w.chance(2)))
	}
	return w
}

// chance reports true once in n times.
func (w *world) chance(n int) bool { return w.rng.IntN(n) == 0 }

func (w *world) tracef(format string, args ...any) {
	if w.tracing {
		w.trace = append(w.trace, fmt.Sprintf(format, args...))
	}
}

func (w *world) newHost(other bool) *host {
	w.names++
	h := &host{world: w, name: fmt.Sprint("host", w.names), other: other, serves: w.calm || !w.unserved && !w.chance(20), alive: true, capacity: 1 + w.rng.IntN(4), outcomes: map[*runloop.Outcome]ending{}}
	h.openSession()
	h.params = w.params(h, h.roll)
	h.state = runloop.New(&h.params, w.book.run, nil)
	if w.mirrored {
		m := &mirror{memory: &w.mirrorMemory, commits: map[*runloop.Commit]*runloop.Commit{}, openings: map[*runloop.Opening]*runloop.Opening{}}
		m.params = w.params(h, m.roll)
		m.state, h.mirror = runloop.New(&m.params, w.book.run, nil), m
	}
	return h
}

// codes contains the registries, which all worlds share.
var codes = map[string]*flow.Registry{}

// params returns the parameters of a host.
func (w *world) params(h *host, chance func() float64) runloop.Params {
	key := fmt.Sprint(w.book.program.workflow, h.other)
	if codes[key] == nil {
		codes[key] = w.book.program.code(h.other)
	}
	return runloop.Params{
		Worker: h.name, Build: fmt.Sprint("build", h.other), Chance: chance, Recoveries: w.recoveries, QuarantineAfter: w.quarantine,
		RunBudget: 200 * time.Millisecond, MaxLogEvents: w.book.mostEvents, MaxLogBytes: 64 << 20, Code: codes[key], Client: &client{}, Log: (&client{}).Logger(),
		Serves: func(r store.Route) bool { return h.serves && r == w.book.route() }, Unbounded: func(string) bool { return false }, Observed: true,
	}
}

func (h *host) openSession() {
	h.names++
	h.session = &session{id: store.SessionID(fmt.Sprint("session", h.names))}
}

// play carries out n random operations.
func (w *world) play(n int) {
	if w.hosts[0].serves && w.chance(3) {
		w.startLocally(w.hosts[0])
	} else {
		w.book.create(w.now)
	}
	if w.book.program.chunks > 0 {
		w.deliverMany()
	}
	for range n {
		if w.book.ended() && w.chance(4) {
			return
		}
		h := w.hosts[w.rng.IntN(len(w.hosts))]
		switch k := w.rng.IntN(100); {
		case k < 76:
			h.work()
		case k < 82:
			w.advance(time.Duration(w.rng.IntN(30)) * time.Millisecond)
		case k < 90:
			w.deliver()
		case k < 97-w.deadly:
			h.minor()
		default:
			h.fault()
		}
	}
}

// work does a random part of what is outstanding.
func (h *host) work() {
	var all []func()
	if len(h.inputs) > 0 {
		all = append(all, func() { h.drain(1 + h.rng.IntN(len(h.inputs))) })
	}
	if len(h.sending) > 0 {
		all = append(all, func() { h.serve(rand1(h.world, h.sending)) })
	}
	if len(h.reads) > 0 {
		all = append(all, func() { h.read(rand1(h.world, h.reads)) })
	}
	if len(h.attempts) > 0 {
		all = append(all, func() { h.attemptActs(rand1(h.world, h.attempts)) })
	}
	if len(all) == 0 || h.chance(8) {
		h.world.claim(h)
		return
	}
	rand1(h.world, all)()
}

// rand1 returns a random element, or the zero value if there is none.
func rand1[T any](w *world, all []T) (one T) {
	if len(all) == 0 {
		return one
	}
	return all[w.rng.IntN(len(all))]
}

// startLocally makes a host create the run.
func (w *world) startLocally(h *host) {
	w.book.newFence()
	h.claims++
	c := &runloop.Claim{Session: h.session.id, Lease: lease{h, h.session}, Number: h.claims, Create: w.book.created(w.now)}
	c.ClaimedRun = store.ClaimedRun{Run: w.book.run, Route: w.book.route(), Fence: w.book.fence}
	h.post(runloop.Input{Kind: runloop.Claimed, Claim: c})
}

// serve carries out the request of a commit, answers it, or loses its answer.
func (h *host) serve(s *sending) {
	switch {
	case s == nil:
	case s.answered:
		h.sending = slices.DeleteFunc(h.sending, func(o *sending) bool { return o == s })
		s.commit.Answer = s.answer
		in := runloop.Input{Kind: runloop.Answered, Commit: s.commit}
		if s.create {
			h.claims++
			in.Seq = h.claims
		}
		h.post(in)
	case s.create:
		h.serveCreation(s)
	case !h.calm && !s.lost && h.chance(25):
		s.answered, s.answer = true, store.Committed{Err: &store.TooLargeError{Run: h.book.run, Bytes: len(s.req.Frame)}}
	case !h.calm && !s.lost && h.chance(40):
		s.answered, s.answer = true, store.Committed{Err: errors.New("refused for an unknown reason")}
	default:
		h.carryOut(s)
		s.lost = s.lost || s.answer.Err == nil
		s.answered = h.calm || !h.chance(4)
	}
}

func (h *host) carryOut(s *sending) {
	if h.book.program.floods && s.req.Effect == store.EffectFinish {
		h.flood()
	}
	before := len(h.book.frames)
	s.answer = h.book.commit(&s.req, s.session)
	var conflict *store.ConflictError
	if again := s.lost && s.req.Frame == nil; errors.As(s.answer.Err, &conflict) && !again { // the store does not recognize a repeated commit without a frame
		h.failf("P3: a commit under the fence of the run conflicts with it: %v", conflict)
	}
	if s.answer.Err == nil && s.req.Effect == store.EffectBlock {
		h.book.blockers = map[bool]bool{h.other: true}
	}
	h.tracef("store: commit %s of %s: %v", s.req.CommitID, h.name, s.answer.Err)
	if len(h.book.frames) > before && h.book.ended() && !h.serves {
		h.book.reached.count("an unserved run was ended")
	}
	if len(h.book.frames) > before && !h.book.ended() && h.chance(depth.Stride(4)) {
		h.prefixes = append(h.prefixes, h.book.clone())
	}
}

// serveCreation carries out the request that creates the run.
func (h *host) serveCreation(s *sending) {
	s.answered = true
	if h.calm || h.chance(2) {
		h.book.append(s.req.Frame, s.req.CommitID)
		h.book.place, h.book.owner = store.StateOwned, s.session
		if s.session.over {
			h.book.end(s.session)
		}
		s.answer = store.Committed{N: 1}
		if !h.calm && h.chance(3) {
			s.answer.Err = runloop.ErrNotKnown
		}
		return
	}
	s.answer.Err = rand1(h.world, []error{runloop.ErrNotKnown, runloop.ErrWithdrawn, errors.New("refused")})
	h.book.create(h.now) // the client starts the run itself
}

// read answers a read.
func (h *host) read(r *reading) {
	if r == nil {
		return
	}
	h.reads = slices.DeleteFunc(h.reads, func(o *reading) bool { return o == r })
	if h.book.program.floods && !h.calm && h.chance(3) {
		defer h.flood()
	}
	l := &runloop.Load{Fence: r.claim.Fence, Inbox: r.inbox, Got: h.book.load(r.inbox)}
	h.divide(&l.Got, r)
	switch {
	case h.calm:
	case h.chance(20):
		l.Got = store.Loaded{Err: errors.New("no connection")}
	case h.chance(30):
		l.Got = store.Loaded{Err: &store.DamagedError{Run: h.book.run, Err: event.ErrCorrupt}}
	}
	h.post(runloop.Input{Kind: runloop.Loaded, Load: l})
}

// ending is how an attempt ends.
type ending struct {
	value   string
	err     error
	code    string // of a failure that the runtime reports
	stopped bool
	pending bool
}

// build returns a new outcome, because a State changes the outcome that it receives.
func (e ending) build() *runloop.Outcome {
	var out runloop.Outcome
	switch {
	case e.pending:
		out.Pending = true
	case e.code != "":
		out = runloop.Failed(e.err, e.code)
	case e.err != nil:
		out = runloop.Judge(e.err, nil)
		out.Stopped = e.stopped
	default:
		out.Payload = []byte(e.value)
	}
	return &out
}

var errAttempt = errors.New("the attempt has failed")

// attemptActs lets the code of an attempt open a hook or end.
func (h *host) attemptActs(t *attempt) {
	if t == nil {
		return
	}
	if h.book.program.hooks && t.opening == nil && !h.chance(4) && !h.calm {
		t.opening = &runloop.Opening{Ref: t.begin.Ref, Attempt: t.id, Hook: at.Hook{Name: "approval"}, Done: make(chan struct{})}
		if h.mirror != nil {
			o := *t.opening
			h.mirror.openings[t.opening] = &o
		}
		h.post(runloop.Input{Kind: runloop.Opened, Opening: t.opening})
		return
	}
	if t.opening != nil && !h.calm && !h.chance(4) {
		return // the code goes on
	}
	var args struct {
		In json.RawMessage `json:"in"`
	}
	if err := json.Unmarshal(t.begin.Step.Input, &args); err != nil {
		panic(err)
	}
	e := ending{value: string(args.In)}
	switch {
	case h.calm && t.cause == nil:
	case t.cause != nil:
		if !h.chance(3) {
			e = ending{err: t.cause, stopped: errors.Is(t.cause, runloop.ErrStopping)}
		}
	case h.open(t) && h.chance(2):
		e = ending{pending: true}
	case !h.now.Before(t.begin.Deadline):
		if h.open(t) {
			h.book.reached.count("an attempt with an open hook has timed out")
		}
		e = ending{err: &runloop.TimeoutError{After: time.Second}, code: event.CodeTimeout}
	case h.chance(4):
		e = ending{err: errAttempt}
	case h.chance(10):
		e = ending{err: &at.RetryAfterError{Err: errAttempt, Delay: 10 * time.Millisecond}}
	}
	h.end(t, e)
}

// open reports whether an attempt has received the token of its hook.
func (h *host) open(t *attempt) bool {
	if t.opening == nil {
		return false
	}
	select {
	case <-t.opening.Done:
		return t.opening.Err == nil
	default:
		return false
	}
}

// end ends the code of an attempt.
func (h *host) end(t *attempt, e ending) {
	h.attempts = slices.DeleteFunc(h.attempts, func(o *attempt) bool { return o == t })
	h.finished++
	h.postEnd(t, e)
	if !h.calm && h.chance(5) {
		h.postEnd(t, ending{value: "-1"}) // a second outcome of the same attempt
	}
	h.freed()
}

func (h *host) postEnd(t *attempt, e ending) {
	out := e.build()
	h.outcomes[out] = e
	h.post(runloop.Input{Kind: runloop.Ended, Ref: t.begin.Ref, Attempt: t.id, Outcome: out})
}

// advance lets time pass.
func (w *world) advance(d time.Duration) {
	w.now = w.now.Add(d)
	for _, h := range w.hosts {
		if !h.wake.IsZero() && !w.now.Before(h.wake) {
			h.wake = time.Time{}
			h.post(runloop.Input{Kind: runloop.Due})
		}
	}
}

// deliver sends the run a message or an answer, or a command before it.
func (w *world) deliver() {
	if !w.calm && w.chance(4) {
		w.sendAgain()
	}
	events, ids := w.book.answers()
	if e, id, ok := w.book.message(); ok && (len(ids) == 0 || w.chance(2)) {
		events, ids = []event.Event{e}, []event.ItemID{id}
	}
	if e, id, ok := w.book.ask(); ok && w.chance(2) {
		events, ids = []event.Event{e}, []event.ItemID{id}
	}
	if len(ids) == 0 {
		return
	}
	i := w.rng.IntN(len(ids))
	if w.book.deliver(events[i], ids[i], store.ScopeChain) {
		w.tracef("store: item %s", ids[i])
		w.announce()
	}
}

// deliverMany sends the run most of its messages.
func (w *world) deliverMany() {
	for range max(1, w.book.program.messages*9/10) {
		if e, id, ok := w.book.message(); ok {
			w.book.deliver(e, id, store.ScopeChain)
		}
	}
	w.announce()
}

// flood sends the run a message that its code does not receive.
func (w *world) flood() {
	if w.book.sent('m') > 100 {
		panic(violation("P8: the run does not end while messages arrive"))
	}
	if e, id, _ := w.book.message(); w.book.deliver(e, id, store.ScopeChain) {
		w.tracef("store: item %s", id)
		w.announce()
	}
}

// announce notifies the owner of the run of new items.
func (w *world) announce() {
	for _, h := range w.hosts {
		if w.book.owner == h.session && (w.calm || !w.chance(5)) {
			h.post(runloop.Input{Kind: runloop.Unread})
		}
	}
}

// claim claims the run for a host, if it waits for a worker.
func (w *world) claim(h *host) {
	if !w.book.claimable(w.now, h.other) || h.session.over || h.stage > runloop.Working && !w.chance(10) {
		return
	}
	var waited time.Time
	if w.chance(2) {
		waited = w.now.Add(-5 * time.Millisecond)
	}
	claimed := w.book.claim(h.session, w.quarantine, waited)
	w.tracef("store: %s claims the run, epoch %d", h.name, claimed.Fence.Epoch)
	if !w.calm && w.chance(20) {
		return // the answer is lost
	}
	h.claims++
	c := &runloop.Claim{ClaimedRun: claimed, Session: h.session.id, Lease: lease{h, h.session}, Number: h.claims}
	if w.chance(2) {
		l := w.book.load(false)
		c.Loaded = &l
	}
	h.post(runloop.Input{Kind: runloop.Claimed, Claim: c})
}

// minor carries out an event that changes no guarantee: a report, an alarm, a turn, or slots that
// others take.
func (h *host) minor() {
	switch h.rng.IntN(13) {
	case 12:
		h.book.overLimit = h.book.overLimit || h.chance(8)
	case 10:
		h.command(event.RunPaused, 'p')
	case 11:
		h.command(rand1(h.world, []event.Type{event.RunResumed, event.RunResumed, event.CancelRequested}), 'c')
	case 0:
		h.post(runloop.Input{Kind: runloop.Due})
	case 1:
		h.post(runloop.Input{Kind: runloop.Unread})
	case 3:
		if h.stage > runloop.Working && h.state.Away() {
			h.replace(h.other)
			return
		}
		fallthrough
	case 2:
		h.reconcile()
	case 4:
		h.elsewhere = h.rng.IntN(h.capacity + 1)
		h.freed()
	case 5:
		if h.kept {
			h.kept = false
			h.post(runloop.Input{Kind: runloop.Evict})
		}
	case 6:
		h.giveTurn()
		fallthrough
	case 7:
		if len(h.turns) > 0 {
			h.post(runloop.Input{Kind: runloop.TurnOver, Turn: h.turns[0]})
			h.turns = h.turns[1:]
		}
	case 8:
		if h.closed = !h.closed && h.chance(2); h.closed {
			h.post(runloop.Input{Kind: runloop.GiveWay})
		}
	case 9:
		if h.alive = !h.alive || !h.chance(3); h.alive {
			h.post(runloop.Input{Kind: runloop.Due})
		}
	}
}

// command sends a command of an operator to the run.
func (w *world) command(t event.Type, kind byte) {
	if t == event.CancelRequested && !w.chance(3) {
		return
	}
	w.names++
	e := event.Event{Type: t}
	if t == event.CancelRequested && w.chance(4) {
		e.Name = event.Terminate
	}
	if id := event.ItemID(fmt.Sprintf("%c%d", kind, w.names)); w.book.deliver(e, id, store.ScopeChain) {
		w.tracef("store: item %s: %s", id, t)
		w.book.canceled = w.book.canceled || t == event.CancelRequested
		w.announce()
	}
}

// sendAgain sends the run a command without an effect, or an ask that its code refuses, under the ID of
// an earlier one. Neither is recorded in the log.
func (w *world) sendAgain() {
	id, e := event.ItemID("r"), event.Event{Type: event.RunReleased}
	if w.book.program.asks > 0 && w.chance(2) {
		id, e = "refused", event.Event{Type: event.AskReceived, Name: question.Name(), Payload: []byte("1")}
	}
	if w.book.forget(id) && w.book.deliver(e, id, store.ScopeChain) {
		w.tracef("store: item %s again", id)
		w.announce()
	}
}

// giveTurn gives a quarantined run its turn.
func (h *host) giveTurn() {
	if h.lined && !h.begun {
		h.lined, h.begun, h.alone = false, true, h.chance(2)
		h.turn++
		h.post(runloop.Input{Kind: runloop.Due})
	}
}

// reconcile reports to the State whether the store has it as the owner, and gives back a run that
// the host owns without knowing it.
func (h *host) reconcile() {
	var fence store.Fence
	known := h.owned
	for i := range h.inputs {
		known = known || h.inputs[i].Kind == runloop.Claimed
	}
	if h.book.place == store.StateOwned && h.book.owner == h.session {
		if fence = h.book.fence; !known {
			h.book.release(fence)
			return
		}
	}
	h.post(runloop.Input{Kind: runloop.Owned, Fence: fence, Seq: h.claims})
}

// fault ends a session, stops a host, or kills it.
func (h *host) fault() {
	switch h.rng.IntN(7) {
	case 6: // an operator or a repair takes the run from its owner
		if h.book.place == store.StateOwned {
			h.book.newFence()
			h.book.place = store.StateReady
		}
	case 0, 1:
		h.book.end(h.session)
		h.openSession()
		h.post(runloop.Input{Kind: runloop.Lost})
	case 2, 3:
		if h.stage < runloop.Hard {
			h.stage++
			h.post(runloop.Input{Kind: runloop.Stop})
		}
	case 4, 5:
		h.replace(h.other)
	}
}

// replace kills the host and starts another one in its place.
func (h *host) replace(other bool) {
	h.tracef("%s is killed", h.name)
	for _, s := range h.sending { // requests that are on their way may arrive
		switch {
		case s.create && !s.answered:
			h.serveCreation(s)
		case !s.create && (s.lost || !s.answered) && h.chance(2):
			h.carryOut(s)
		}
	}
	h.perform(h.mirror.react(h, &runloop.Input{Kind: runloop.Drop}, h.state.React(h, runloop.Input{Kind: runloop.Drop})))
	h.book.end(h.session)
	h.hosts[slices.Index(h.hosts, h)] = h.newHost(other)
}
