package runloop

import (
	"errors"
	"log/slog"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/localstart"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/observe"
	"github.com/flowgen/flowgen/runtime/store"
)

// Params are the parameters that all runs of a worker share.
type Params struct {
	Worker string // name of the worker
	Build  string // the build named in events; empty if it does not identify the program

	Recoveries      int           // number of recoveries that poison a run
	QuarantineAfter int           // number of recoveries at which a run is quarantined
	RunBudget       time.Duration // how long a run may begin steps while other runs wait for its place
	// Within is the budget of an invocation: no attempt takes longer, and none begins that would lack
	// the time; see [State.lacksTime]. 0 means that the worker executes runs without such a bound.
	Within       time.Duration
	MaxLogEvents int // number of events at which a log has reached its bound
	MaxLogBytes  int

	Code   *flow.Registry
	Around *flow.Around // calls the code of users' workflows; nil: directly
	Client flow.Engine
	Log    *slog.Logger           // logger of the code
	Serves func(store.Route) bool // reports whether the worker has the code of a route
	// Pin returns the builds of the runs that runs of this worker start or continue as, see
	// replay.Run.Pin. It is nil if the worker pins no runs.
	Pin       func(run event.RunID, spec *event.Spec, inherit, declared bool) string
	Chance    func() float64 // returns a number in [0, 1)
	Unbounded func(limit string) bool
	Observed  bool // whether observers receive the runs and their commits
	// Private is set if the store keeps user data encrypted. User data are then neither in log lines
	// nor in the descriptions that operators read without a key.
	Private bool

	// Alerts returns the alerts about a run that end ends as failed. state includes the end. Alerts
	// is nil if the worker has no rules.
	Alerts func(run event.RunID, state *event.LogState, end *event.Event) []effects.Alert
}

// A Driver answers the questions of a State. Its methods are called only inside of [State.React] and
// [State.Proceed].
type Driver interface {
	// Moment returns the time, and what the worker permits at that time. claim is the claim of the
	// run; it is nil before the first claim.
	Moment(claim *Claim) Moment
	// Enter and Leave are called before and after user code. Leave returns the moment, because user
	// code takes time.
	Enter()
	Leave(claim *Claim) Moment
	// Memory returns the memory that is used during this call.
	Memory() *Memory
	// TakeSlot takes a slot for an attempt. If none is free, it returns false, and the caller of the
	// State posts Due when one may be free. A slot must be taken before its attempt is recorded, and
	// two runs must not take the same one. So this is a question and not an action.
	TakeSlot() bool
	// Full reports whether no further run fits on the worker.
	Full() bool
	// Roomy reports whether a waiting run may stay on the worker.
	Roomy() bool
	// Turn returns the number of the current turn of a quarantined run, and whether no other run has
	// work in flight. begun reports whether the turn is this run's and its code may begin.
	Turn() (number int, alone, begun bool)
	// ClosedStreams returns the streams that the code of a running attempt has closed.
	ClosedStreams(attempt uint64) []string
	// CommitID returns a new commit ID.
	CommitID() event.CommitID
}

// Memory is memory that the states which are called on one goroutine share. Its zero value is ready
// to use.
type Memory struct {
	replay.Pool // coroutines on which the code is executed
	actions     []Action
	commits     []*Commit     // answered commits of runs that have left
	folds       []consequence // buffer of [State.consequences]

	// What observers receive, until the next call: a run, a commit, and the buffer of their events.
	seen     observe.Run
	reported observe.Commit
	observed []event.Event
}

// keptCommits bounds the commits of a Memory. A goroutine has more than one only while commits of
// several runs are in flight.
const keptCommits = 256

// Moment is what a State reads at one time. A State reads it before each reaction and after user
// code, because user code takes time. Values that have become wrong since do no harm: the store
// fences each commit, an attempt waits for a live lease before its code is called, and each change
// of Stage or Closed is also posted.
type Moment struct {
	Now    time.Time
	Stage  Stage
	Alive  bool // whether this worker is certain to own the run
	Closed bool // whether it is the turn of another run, so that this run must not begin work
}

// Stage is the stage of a worker's shutdown.
type Stage uint8

const (
	Working  Stage = iota
	Stopping       // nothing new begins, and runs are given back
	Ending         // the grace period is over: attempts are canceled
	Hard           // attempts are given back and abandoned
)

// State is the state of one run on a worker. Create one with [New].
//
// A State is in one of five phases. New: no claim was handled. Loading: the run was claimed and its
// log is being read. Live: the code is in memory and matches the log, or the run is about to be
// created with the events of its code. Waiting: the run is quarantined and waits for its turn. Away:
// the run was given back; its code may be kept in memory for the next claim.
type State struct {
	*Params
	id    event.RunID
	stray func(*replay.StrayError)

	driver  Driver  // of the current call
	memory  *Memory // of the current call
	moment  Moment
	actions []Action

	phase   phase
	run     *replay.Run // nil if the run is not in memory
	blocked error       // why the run cannot continue on this worker; nil if it can

	heldClaim // claim under which the worker owns the run
	logEnd    // end of the durable log of the run
	read      portions
	inbox
	underWay
	draft
	reports []report // log lines about events that are not durable
	turn    turn

	wake        time.Time // due time of the last Wake; zero if there is none
	left        time.Time // when the commit that gave the run back was built
	inflight    *Commit
	spareCommit *Commit         // an answered commit
	next        *Claim          // a claim that arrived while a commit was in flight
	ended       *localstart.End // the end of the run; set when the run leaves the worker
}

type phase uint8

const (
	phaseNew phase = iota
	phaseLoading
	phaseWaiting
	phaseLive
	phaseAway
)

// New returns the state of a run that has no claim. stray is called, on another goroutine, when user
// code calls a durable operation on a goroutine of its own.
func New(p *Params, run event.RunID, stray func(*replay.StrayError)) State {
	return State{Params: p, id: run, stray: stray}
}

// Away reports whether the run was given back.
func (s *State) Away() bool { return s.phase == phaseAway }

// act adds an action to the result of the current call.
func (s *State) act(a Action) { s.actions = append(s.actions, a) }

// block stops the work on a run whose log does not match this worker's code or is damaged. When the
// running steps have ended, the run is given back as blocked, and the store records that this
// session could not replay it. The store then offers the run to live sessions with other code at
// once. It offers the run to a session with the same code only after this session has ended. So a
// run that no code matches, such as one with a damaged log, is read and reported once per build and
// incarnation of a worker. block does nothing if err is nil.
func (s *State) block(err error) {
	if err == nil || s.blocked != nil {
		return
	}
	if mismatch, ok := errors.AsType[*replay.MismatchError](err); ok {
		mismatch.Here = s.Build
	}
	s.blocked = err
	s.interrupted = nil
	if s.attempts.Len() > 0 { // the outcomes of these attempts may end the run
		s.warn("run cannot continue on this worker: it will be blocked when its steps have ended", "run", s.id, "workflow", s.route.Workflow, "error", s.why(err))
	}
}

// leaving reports whether a commit that gives the run back is in flight. During this time nothing
// begins, because another worker may own the run.
func (s *State) leaving() bool {
	return s.inflight != nil && s.inflight.Req.Effect != store.EffectNone
}

// forget drops the run's state in memory. All effects that were visible outside are in the log.
func (s *State) forget() {
	if s.isNew {
		s.isNew = false
		s.act(Action{Op: Decline})
	}
	s.dropAttempts(ErrLost)
	s.close()
	s.wakeAt(time.Time{}, time.Time{})
	s.forgetInbox()
	s.underWay = underWay{gaveWay: s.gaveWay, attemptIDs: s.attemptIDs}
	s.draft, s.read = draft{}, portions{}
	s.reports, s.logBytes, s.limited = nil, 0, 0
}

func (s *State) close() {
	s.blocked = nil
	if run := s.run; run != nil {
		s.run = nil
		s.enter()
		defer s.leave()
		run.Close()
	}
}

// lose drops the run, because another worker owns it or because its state in memory is wrong. If
// give is not nil, the run is given back under that fence.
func (s *State) lose(give *store.Fence) {
	if s.phase == phaseAway {
		return
	}
	s.forget()
	s.inflight = nil
	if give != nil {
		s.act(Action{Op: Release, Fence: *give})
	}
	s.giveUp(false)
}

// giveUp ends the ownership of the run. If keep is true and there is space, the run stays in memory
// until its next claim.
func (s *State) giveUp(keep bool) {
	s.phase = phaseAway
	s.wakeAt(time.Time{}, time.Time{})
	if s.run != nil {
		s.run.Reuse(nil)
	}
	branches := 0
	if keep {
		branches = 1
		if s.run != nil {
			branches = max(s.run.Branches(), 1)
		}
	}
	end := s.ended
	s.ended = nil
	s.act(Action{Op: Leave, N: branches, Claimed: s.next != nil, End: end})
}

// wakeAt makes the caller post Due at the time due, or not at all if due is zero. Everything that
// was due at looked is done.
func (s *State) wakeAt(due, looked time.Time) {
	if due.Equal(s.wake) {
		return
	}
	s.wake = due
	s.act(Action{Op: Wake, Due: due, Looked: looked})
}
