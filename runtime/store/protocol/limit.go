package protocol

import (
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// The work goes to the limit, not the permit to the work: a run that uses limits is in the
// partition that has them, and takes its permits in the action that gives it an owner. So no
// permit has a lease of its own, and none is lost with an answer: permits share fence,
// recovery and failover with their run.

// CallTime is how long a called line keeps its turn. [L7]
const CallTime = 5 * time.Second

// VainTries is at how many runs and lines a claim looks in vain at most: a line that may not go is shut, and the next one is looked at. If there are more
// the claim sets the wake of their routes, and the next one goes on.
const VainTries = 100

// LimitTx is the limits of a partition, and the lines of the runs that wait for permits. Such
// a run is ready, but claims find it through its line: all that wait with the same route and
// the same uses. In a line the higher priority comes first, then the lower Place.
//
// Save puts a run for which Waits is true into its line, and takes it out if it is false
// again. If its Place is 0 the run gets one that is after all others, and keeps it.
type LimitTx[R comparable] interface {
	// Uses returns what a run uses, as it was created with.
	Uses(r R) ([]store.Use, error)
	// Limit returns how a part of a limit stands. One that nobody has configured bounds nothing.
	Limit(id store.LimitID) (Limit, error)
	// SaveLimit stores Held, Waits and TAT.
	SaveLimit(id store.LimitID, l Limit) error
	// Configure stores a configuration, or removes one.
	Configure(set *store.SetLimit) error
	// Waiting returns the parts of a limit for which there are lines.
	Waiting(name string) ([]store.LimitID, error)
	// LineOf returns the line in which a run waits.
	LineOf(r R) (WaitLine, error)
	// WaitLine returns a line by its id. Without a First nobody waits in it.
	WaitLine(id string) (WaitLine, error)
	// SaveLine stores Mode and Until of a line, if somebody waits in it. Claims look at the
	// open and the called ones of their routes, in the order of turns.
	SaveLine(l WaitLine) error
	// WaitLines returns the lines of a part of a limit, in the order of turns.
	WaitLines(id store.LimitID) ([]WaitLine, error)
	// FirstShut returns the first of them that is shut, FirstKept that is shut or called.
	FirstShut(id store.LimitID) (WaitLine, error)
	FirstKept(id store.LimitID) (WaitLine, error)
}

// Limit is how a part of a limit stands.
type Limit struct {
	store.LimitConfig
	Held  int   // weights of the runs that have their permits
	Waits int   // weights of those in lines
	TAT   int64 // when the next weight comes by the rate, in microseconds: see wait
}

// LineMode says whether claims look at a line.
type LineMode uint8

// The modes.
const (
	LineOpen   LineMode = 0 // they do
	LineShut   LineMode = 1 // they did, in vain: it will be called
	LineCalled LineMode = 2 // they do, and it keeps its turn until then
)

// WaitLine is a line as it stands. Its turn is that of its first run.
type WaitLine struct {
	ID       string
	First    event.RunID
	Priority int
	Place    int64
	Mode     LineMode
	// Until is, in milliseconds, when a called line loses its turn, and when a shut one may
	// go by the rates of its limits; 0: that is not what it waits for.
	Until int64
}

func (l *WaitLine) before(other *WaitLine) bool {
	if l.Priority != other.Priority {
		return l.Priority > other.Priority
	}
	return l.Place < other.Place
}

// Waits reports whether the run is in a line.
func (s *Run[S]) Waits() bool {
	return s.QueueState == store.StateReady && s.Limited && !s.Permits && !s.CalledOff
}

func (l *Limit) wait(now time.Time, weights int) int64 { return l.Due(l.TAT, weights, now) }

// Next returns when the rate lets the next weight begin, in milliseconds; 0: now, or there is
// no rate.
func (l *Limit) Next(now time.Time) int64 { return l.wait(now, 0) }

// room reports whether there is room for a weight, and if it is the rate that has none, when
// it will.
func (l *Limit) room(now time.Time, weight int) (ok bool, until int64) {
	until = l.wait(now, 0)
	return until == 0 && !l.Paused && (l.AtOnce == 0 || l.Held+weight <= l.AtOnce), until
}

func (l *Limit) tooHeavy(weight int) bool { return l.AtOnce > 0 && weight > l.AtOnce }

// guardUses refuses a run that can never have its permits, and one that would wait where
// nobody else may. A run that will be ready later is not asked for the second.
func (o *Op[R, S]) guardUses(c *store.Create, now bool) error {
	limits := o.Tx.Limits()
	if limits == nil {
		return refuse(store.ErrNoLimits)
	}
	for _, u := range c.Uses {
		l, err := limits.Limit(u.LimitID)
		if err != nil {
			return err
		}
		if l.tooHeavy(u.Weight) {
			return refuse(&store.LimitError{Limit: u.LimitID, Weight: u.Weight, AtOnce: l.AtOnce})
		}
		if now && (l.Refuse || l.Waiting > 0) {
			if err := o.guardWaiting(u, &l); err != nil {
				return err
			}
		}
		if c.Owner != nil {
			// Nobody is passed who waits already, in the own line or before it. [L5]
			if ok, _ := l.room(o.Tx.Now(), u.Weight); !ok || l.Waits > 0 {
				return refuse(store.ErrNotClaimable)
			}
		}
	}
	return nil
}

// guardWaiting refuses a start beyond those that may wait. Those that wait for a worker only
// count as having begun: else any number could start before the first is claimed.
func (o *Op[R, S]) guardWaiting(u store.Use, l *Limit) error {
	beyond := 0
	if l.AtOnce > 0 {
		beyond = l.Held + l.Waits + u.Weight - l.AtOnce
	}
	if l.Paused {
		beyond = max(beyond, l.Waits+u.Weight)
	}
	now, retry := o.Tx.Now(), time.Duration(0)
	if at := l.wait(now, l.Waits); at > 0 {
		beyond = max(beyond, int((Time(at).Sub(now)+l.Interval()-1)/l.Interval()))
		retry = Time(at).Sub(now)
	}
	if allowed := l.Waiting; beyond > allowed || l.Refuse && beyond > 0 {
		return refuse(&store.StartRefusedError{Limit: u.LimitID, RetryAfter: retry})
	}
	return nil
}

// count changes what is held of the limits of a run, and what waits for them. It goes with a
// change of Permits or of Waits in the same action. [L1]
func (o *Op[R, S]) count(uses []store.Use, held, waits int) error {
	for _, u := range uses {
		l, err := o.Tx.Limits().Limit(u.LimitID)
		if err != nil {
			return err
		}
		l.Held += held * u.Weight
		l.Waits += waits * u.Weight
		if interval := l.Interval().Microseconds(); held > 0 && l.Rate > 0 {
			l.TAT = max(l.TAT, o.Tx.Now().UnixMicro()) + int64(u.Weight)*interval // never given back
		}
		if err := o.Tx.Limits().SaveLimit(u.LimitID, l); err != nil {
			return err
		}
	}
	return nil
}

// join puts a run that waits for permits into its line. If it comes first there, claims look
// at the line again: its turn is another one. [L8]
func (o *Op[R, S]) join(r R, s *Run[S]) error {
	if err := o.Tx.Save(r, *s); err != nil {
		return err
	}
	uses, err := o.Tx.Limits().Uses(r)
	if err != nil {
		return err
	}
	if err := o.count(uses, 0, 1); err != nil {
		return err
	}
	l, err := o.Tx.Limits().LineOf(r)
	if err != nil {
		return err
	}
	if l.First == s.ID && l.Mode == LineShut {
		l.Mode, l.Until = LineOpen, 0
		if err := o.Tx.Limits().SaveLine(l); err != nil {
			return err
		}
	}
	if l.Mode != LineShut {
		o.Changes.Ready = append(o.Changes.Ready, r)
	}
	return nil
}

// may reports whether the first run of a line may have all its permits: each limit has room,
// and no shut or called line before it shares one. If it is a rate that has none, until
// says when it has. [L2, L5]
func (o *Op[R, S]) may(line *WaitLine, uses []store.Use) (ok bool, until int64, err error) {
	ok = true
	for _, u := range uses {
		l, err := o.Tx.Limits().Limit(u.LimitID)
		if err != nil {
			return false, 0, err
		}
		room, at := l.room(o.Tx.Now(), u.Weight)
		ok, until = ok && room, max(until, at)
		kept, err := o.Tx.Limits().FirstKept(u.LimitID)
		if err != nil {
			return false, 0, err
		}
		ok = ok && (kept.First == "" || kept.ID == line.ID || !kept.before(line))
	}
	return ok, until, nil
}

// tooHeavy reports whether a run can never have its permits.
func (o *Op[R, S]) tooHeavy(uses []store.Use) (bool, error) {
	for _, u := range uses {
		l, err := o.Tx.Limits().Limit(u.LimitID)
		if err != nil || l.tooHeavy(u.Weight) {
			return true, err
		}
	}
	return false, nil
}

// grantWaiting gives the first run of a line its permits and its owner in one action, if it
// may have them; else it shuts the line. A run that is too heavy goes without permits. [L2]
func (o *Op[R, S]) grantWaiting(r R, s *Run[S], grant func() error) (bool, error) {
	limits := o.Tx.Limits()
	line, err := limits.LineOf(r)
	if err != nil {
		return false, err
	}
	uses, err := limits.Uses(r)
	if err != nil {
		return false, err
	}
	heavy, err := o.tooHeavy(uses)
	if err != nil {
		return false, err
	}
	may, until, err := o.may(&line, uses)
	switch {
	case err != nil:
		return false, err
	case line.First != s.ID:
		return false, nil
	case !may && !heavy:
		line.Mode, line.Until = LineShut, until
		return false, o.saveTurn(line, r)
	}
	s.Permits, s.CalledOff = !heavy, heavy
	held := 1
	if heavy {
		held = 0
	}
	if err := o.count(uses, held, -1); err != nil {
		return false, err
	}
	if err := grant(); err != nil {
		return false, err
	}
	line.Mode, line.Until = LineOpen, 0
	if err := limits.SaveLine(line); err != nil {
		return false, err
	}
	return true, o.call(uses) // a grant calls the next [L6]
}

// A departure is what a run leaves that gives back its permits, or leaves its line.
type departure struct {
	uses []store.Use
	line string // which kept others from their turn
}

// depart takes from a run the permits that it has not to its end, or takes it out of the
// count of those who wait. The caller saves the run in another queue state, then settles
// the departure. [L2]
func (o *Op[R, S]) depart(r R, s *Run[S], end bool) (d departure, err error) {
	if !s.Limited || !s.Waits() && (!s.Permits || s.Whole && !end) {
		return d, nil
	}
	uses, err := o.Tx.Limits().Uses(r)
	if err != nil {
		return d, err
	}
	if s.Permits {
		s.Permits = false
		return departure{uses: uses}, o.count(uses, -1, 0)
	}
	line, err := o.Tx.Limits().LineOf(r)
	if err != nil {
		return d, err
	}
	if line.First == s.ID && line.Mode != LineOpen {
		d = departure{uses, line.ID}
	}
	return d, o.count(uses, 0, -1)
}

// settle calls who may go now. [L6]
func (o *Op[R, S]) settle(d departure) error {
	if d.line != "" { // those who are left were not asked, but their turn comes later
		line, err := o.Tx.Limits().WaitLine(d.line)
		if err != nil {
			return err
		}
		line.Mode, line.Until = LineShut, 0
		if err := o.Tx.Limits().SaveLine(line); err != nil {
			return err
		}
	}
	return o.call(d.uses)
}

// call lets the first shut line of each limit know that its turn has come, if it may go:
// claims look at it, and nobody passes it for CallTime. What is too heavy is called, too: it
// goes without permits. [L6, L7, L8]
func (o *Op[R, S]) call(uses []store.Use) error {
	for _, u := range uses {
		line, err := o.Tx.Limits().FirstShut(u.LimitID)
		if err != nil {
			return err
		}
		if line.First == "" {
			continue
		}
		first, its, err := o.first(&line)
		if err != nil {
			return err
		}
		heavy, err := o.tooHeavy(its)
		if err != nil {
			return err
		}
		may, until, err := o.may(&line, its)
		switch {
		case err != nil:
			return err
		case may || heavy:
			line.Mode, line.Until = LineCalled, o.Tx.Now().Add(CallTime).UnixMilli()
			o.Changes.Ready = append(o.Changes.Ready, first)
		case until == line.Until:
			continue
		default:
			line.Until = until
		}
		if err := o.saveTurn(line, first); err != nil {
			return err
		}
	}
	return nil
}

// first returns the first run of a line, and what it uses.
func (o *Op[R, S]) first(line *WaitLine) (r R, uses []store.Use, err error) {
	if r, err = o.Tx.Run(line.First); err != nil {
		return r, nil, err
	}
	uses, err = o.Tx.Limits().Uses(r)
	return r, uses, err
}

// saveTurn stores a line. If somebody must look at it earlier than at all else, that is
// told. [K3]
func (o *Op[R, S]) saveTurn(line WaitLine, first R) error {
	if line.Until != 0 {
		earliest, err := o.Tx.NextDue()
		if err != nil {
			return err
		}
		if earliest == 0 || line.Until < earliest {
			o.Changes.Turns = append(o.Changes.Turns, Turn[R]{first, line.Until})
		}
	}
	return o.Tx.Limits().SaveLine(line)
}

// Turn is what a store does with a line whose time has come: a called line that nobody has
// claimed from loses its turn, but not its place; a rate may have room again. [L7]
func (o *Op[R, S]) Turn(id string) error {
	line, err := o.Tx.Limits().WaitLine(id)
	if err != nil || line.First == "" || line.Until == 0 || line.Until > o.Tx.Now().UnixMilli() {
		return err
	}
	if line.Mode == LineCalled {
		line.Mode = LineOpen
	}
	line.Until = 0
	if err := o.Tx.Limits().SaveLine(line); err != nil {
		return err
	}
	_, uses, err := o.first(&line)
	if err != nil {
		return err
	}
	return o.call(uses)
}

// SetLimit configures a limit. What fits now is called, and so is what can never have its
// permits any longer. Holders keep theirs. [L4, L6]
func (o *Op[R, S]) SetLimit(set *store.SetLimit) error {
	if err := set.Check(); err != nil {
		return refuse(err)
	}
	limits := o.Tx.Limits()
	if err := limits.Configure(set); err != nil {
		return err
	}
	parts := []store.LimitID{set.LimitID}
	if set.Key == "" {
		var err error
		if parts, err = limits.Waiting(set.Name); err != nil {
			return err
		}
	}
	for _, id := range parts {
		lines, err := limits.WaitLines(id)
		if err != nil {
			return err
		}
		for _, line := range lines {
			if err := o.openTooHeavy(line); err != nil {
				return err
			}
		}
		if err := o.call([]store.Use{{LimitID: id}}); err != nil {
			return err
		}
	}
	return nil
}

// openTooHeavy lets claims look at a line that can never have its permits: its runs end.
func (o *Op[R, S]) openTooHeavy(line WaitLine) error {
	if line.Mode == LineOpen {
		return nil
	}
	r, uses, err := o.first(&line)
	if err != nil {
		return err
	}
	heavy, err := o.tooHeavy(uses)
	if err != nil || !heavy {
		return err
	}
	line.Mode, line.Until = LineOpen, 0
	o.Changes.Ready = append(o.Changes.Ready, r)
	return o.Tx.Limits().SaveLine(line)
}

// callOff takes a run out of its line, whole: it is claimed without permits, only to end. [L9]
func (o *Op[R, S]) callOff(r R, s *Run[S]) error {
	d, err := o.depart(r, s, false)
	if err != nil {
		return err
	}
	s.CalledOff, s.Place = true, 0
	o.Changes.Ready = append(o.Changes.Ready, r)
	if err := o.Tx.Save(r, *s); err != nil {
		return err
	}
	return o.settle(d)
}

// handOn gives the permits that a run has to its end to the run that it continues as, if that
// uses the same.
func (o *Op[R, S]) handOn(r, next R, s, following *Run[S]) error {
	if !s.Permits || !s.Whole || !following.Limited || !following.Whole {
		return nil
	}
	has, err := o.Tx.Limits().Uses(r)
	if err != nil {
		return err
	}
	uses, err := o.Tx.Limits().Uses(next)
	if err == nil && slices.Equal(has, uses) {
		s.Permits, following.Permits = false, true
	}
	return err
}
