package protocol

import (
	"math"
	"slices"
	"time"

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
	ShareTx[R]

	// Uses returns what a run uses, as it was created with.
	Uses(r R) ([]store.Use, error)
	// Limit returns how a part of a limit stands. One that nobody has configured bounds nothing.
	Limit(id store.LimitID) (Limit, error)
	// SaveLimit stores Held, Waits and TAT. The store counts Away by itself.
	SaveLimit(id store.LimitID, l Limit) error
	// Configure stores a configuration, or removes one.
	Configure(set *store.SetLimit) error
	// Paced returns the parts of a limit whose TAT has not come, without those that have a configuration of their own. It may return
	// more of them.
	Paced(name string) ([]store.LimitID, error)
	// Waiting returns the parts of a limit for which there are lines.
	Waiting(name string) ([]store.LimitID, error)
	// LineOf returns the line in which a run waits.
	LineOf(r R) (WaitLine, error)
	// WaitLine returns a line by its id. Without a First nobody waits in it.
	WaitLine(id string) (WaitLine, error)
	// SaveLine stores Mode, Until, Stands and Owed of a line, if somebody waits in it. Claims look at the
	// open and the called ones of their routes, in the order of turns.
	SaveLine(l WaitLine) error
	// WaitLines returns the lines of a part of a limit, in the order of turns.
	WaitLines(id store.LimitID) ([]WaitLine, error)
	// The others return only those of them that count there, in the same order. FirstKept returns
	// the first one; without a First there is none. KeptLines returns the first ones, at most limit.
	FirstKept(id store.LimitID) (WaitLine, error)
	KeptLines(id store.LimitID, limit int) ([]WaitLine, error)
	// ShutLines returns the first ones that are shut, at most limit, NestedShut all that are shut
	// and whose uses are nested.
	ShutLines(id store.LimitID, limit int) ([]WaitLine, error)
	NestedShut(id store.LimitID) ([]WaitLine, error)
}

// Limit is how a part of a limit stands.
type Limit struct {
	store.LimitConfig
	Held  int   // weights of the runs that have their permits
	Waits int   // weights of those in lines
	Away  int   // weights of those in shut lines that do not count here: they wait for another limit
	TAT   int64 // when the next weight comes by the rate, in microseconds: see wait
}

// Waits reports whether the run is in a line.
func (s *Run[S]) Waits() bool {
	return s.QueueState == store.StateReady && s.Limited && !s.Permits && !s.CalledOff
}

// mayWait reports whether the run comes into a line once it is ready.
func (s *Run[S]) mayWait() bool {
	return s.QueueState != store.StateReady && s.QueueState != store.StateOwned && s.Limited && !s.Permits
}

func (l *Limit) wait(now time.Time, weights int) int64 { return l.Due(l.TAT, weights, now) }

// Next returns when the rate lets the next weight begin, in milliseconds; 0: now, or there is
// no rate.
func (l *Limit) Next(now time.Time) int64 { return l.wait(now, 0) }

// carry lets what has begun by another rate count as if it had begun by this one, but at most as what may begin at once: so the
// next weight waits for an interval of this rate at most. If TAT is further away than weights of one by the old rate put it, something
// has held the part back, or has begun with many weights: then it opens when it would have.
func (l *Limit) carry(was *store.LimitConfig, now time.Time) {
	// As floating-point numbers, since an interval may be of any length, and as the script of the store in Redis rounds them.
	old, its := float64(was.Interval().Microseconds()), float64(l.Interval().Microseconds())
	oldBurst, burst := float64(was.Bursts())*old, float64(l.Bursts())*its
	switch ahead := float64(l.TAT - now.UnixMicro()); {
	case ahead > oldBurst:
		l.TAT += int64(burst - its - (oldBurst - old))
	case ahead > 0:
		l.TAT = now.UnixMicro() + int64(min(math.Ceil(ahead*its/old), burst))
	}
}

// room reports whether there is room for a weight, and if it is the rate that has none, when
// it will.
func (l *Limit) room(now time.Time, weight int) (ok bool, until int64) {
	until = l.wait(now, 0)
	return until == 0 && !l.Paused && (l.AtOnce == 0 || l.Held+weight <= l.AtOnce), until
}

// short reports whether there is no room for a weight after all that wait.
func (l *Limit) short(now time.Time, weight int) bool {
	return l.Paused || l.AtOnce > 0 && l.Held+l.inFront()+weight > l.AtOnce || l.wait(now, l.inFront()) > 0
}

// inFront returns the weights of the runs that may have their permits here before one that comes now.
// Others wait for another limit, and take nothing here before they count again.
func (l *Limit) inFront() int { return max(l.Waits-l.Away, 0) }

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
			if ok, _ := l.room(o.Tx.Now(), u.Weight); !ok || l.inFront() > 0 {
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
		beyond = l.Held + l.inFront() + u.Weight - l.AtOnce
	}
	if l.Paused {
		beyond = max(beyond, l.inFront()+u.Weight)
	}
	now, retry := o.Tx.Now(), time.Duration(0)
	if at := l.wait(now, l.inFront()); at > 0 {
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

// holdBack closes the rates of what a run uses for d. A rate lets a weight begin from
// TAT - (Bursts-1) intervals on, so that is now + d or later if TAT is at least
// now + d + (Bursts-1) intervals; and as TAT then grows by an interval with each weight,
// no burst follows. A line that was told to look earlier does, in vain, and is told when
// to look again. The fence guards it as it does the rest of the commit.
func (o *Op[R, S]) holdBack(r R, d time.Duration) error {
	uses, err := o.Tx.Limits().Uses(r)
	if err != nil {
		return err
	}
	for _, u := range uses {
		l, err := o.Tx.Limits().Limit(u.LimitID)
		if err != nil {
			return err
		}
		if l.Rate <= 0 {
			continue
		}
		l.TAT = max(l.TAT, o.Tx.Now().Add(d).UnixMicro()+int64(l.Bursts()-1)*l.Interval().Microseconds())
		if err := o.Tx.Limits().SaveLimit(u.LimitID, l); err != nil {
			return err
		}
	}
	return o.call(uses) // a line may count further than the closed rates admit it
}

// refund gives back to the rates of what a run uses what its grant has taken, as nothing has begun. TAT comes to be no
// earlier than without the grant, which has only added to it. If it is further away than what may begin at once, something
// has held the rate back meanwhile: then that lasts as long as it was asked to.
func (o *Op[R, S]) refund(r R) error {
	uses, err := o.Tx.Limits().Uses(r)
	if err != nil {
		return err
	}
	for _, u := range uses {
		l, err := o.Tx.Limits().Limit(u.LimitID)
		if err != nil {
			return err
		}
		interval := l.Interval().Microseconds()
		if l.Rate <= 0 || l.TAT-o.Tx.Now().UnixMicro() > int64(l.Bursts())*interval {
			continue
		}
		l.TAT -= int64(u.Weight) * interval
		if err := o.Tx.Limits().SaveLimit(u.LimitID, l); err != nil {
			return err
		}
	}
	return nil
}

// join puts a run that waits for permits into its line. If it comes first in a shut one, the
// turn of that is another one: it is called if it may go, and it stays shut if not. It is
// not opened, because those who were asked for in vain would be passed. [L5, L6]
func (o *Op[R, S]) join(r R, s *Run[S]) error {
	uses, err := o.Tx.Limits().Uses(r)
	if err != nil {
		return err
	}
	if err := o.noteWait(s, uses); err != nil {
		return err
	}
	if err := o.Tx.Save(r, *s); err != nil {
		return err
	}
	if err := o.count(uses, 0, 1); err != nil {
		return err
	}
	l, err := o.Tx.Limits().LineOf(r)
	if err != nil {
		return err
	}
	switch {
	case l.Mode != LineShut:
		o.Changes.Ready = append(o.Changes.Ready, r)
	case l.First == s.ID:
		if l.Owed {
			l.Owed = false // that was owed to another run
			if err := o.Tx.Limits().SaveLine(l); err != nil {
				return err
			}
		}
		if _, _, err = o.callLine(l, r, uses); err == nil {
			err = o.call(uses) // those after it have been the first, perhaps
		}
	}
	return err
}

// noteWait notes whether a run that comes into line waits for its limits, and not only for a
// worker: those that wait already count as having begun.
func (o *Op[R, S]) noteWait(s *Run[S], uses []store.Use) error {
	s.WaitsSince = 0
	for _, u := range uses {
		l, err := o.Tx.Limits().Limit(u.LimitID)
		if err != nil {
			return err
		}
		if l.short(o.Tx.Now(), u.Weight) {
			s.WaitsSince = o.Tx.Now().UnixMilli()
		}
	}
	return nil
}

// A lack says which limits have no room for the first run of a line.
type lack struct {
	limits int
	last   store.LimitID // one of them
	until  int64         // when to look again, if the rate of one has none; 0: that is not known
}

// only reports whether a line waits for this limit and for nothing else.
func (k *lack) only(id store.LimitID) bool { return k.limits == 1 && k.last == id }

// limitsOf returns how the limits of uses stand.
func (o *Op[R, S]) limitsOf(uses []store.Use) ([]Limit, error) {
	limits := make([]Limit, len(uses))
	for i, u := range uses {
		l, err := o.Tx.Limits().Limit(u.LimitID)
		if err != nil {
			return nil, err
		}
		limits[i] = l
	}
	return limits, nil
}

// lackOf returns which limits have no room for uses.
func lackOf(now time.Time, uses []store.Use, limits []Limit) (k lack) {
	for i := range limits {
		room, at := limits[i].room(now, uses[i].Weight)
		if k.until = max(k.until, at); !room {
			k.limits, k.last = k.limits+1, uses[i].LimitID
		}
	}
	return k
}

// tooHeavy reports whether a run can never have its permits.
func (o *Op[R, S]) tooHeavy(uses []store.Use) (bool, error) {
	limits, err := o.limitsOf(uses)
	for i := range limits {
		if limits[i].tooHeavy(uses[i].Weight) {
			return true, nil
		}
	}
	return false, err
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
	now, err := o.stand(&line, uses)
	switch {
	case err != nil:
		return false, err
	case line.First != s.ID:
		return false, nil
	case !now.may && !now.heavy:
		return false, o.shut(line, now, uses, r, s)
	}
	if uses[0].Nested && !now.heavy {
		if err := o.owe(&line, uses); err != nil {
			return false, err
		}
	}
	s.Permits, s.CalledOff = !now.heavy, now.heavy
	held := 1
	if now.heavy {
		held = 0
	}
	if err := o.count(uses, held, -1); err != nil {
		return false, err
	}
	if err := grant(); err != nil {
		return false, err
	}
	line.Mode, line.Until, line.Stands, line.Owed = LineOpen, 0, 0, false
	if err := limits.SaveLine(line); err != nil {
		return false, err
	}
	return true, o.call(uses) // a grant calls the next [L6]
}

// A departure has what a run leaves that gives back its permits, or leaves its line.
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
		line.Mode, line.Until, line.Owed = LineShut, 0, false
		if err := o.saveLeft(line); err != nil {
			return err
		}
		if err := o.restand(line.ID); err != nil {
			return err
		}
	}
	return o.call(d.uses)
}

// saveLeft is saveTurn of a line that somebody has left, in which nobody waits, perhaps.
func (o *Op[R, S]) saveLeft(line WaitLine) error {
	if line.First == "" {
		return nil
	}
	first, err := o.Tx.Run(line.First)
	if err != nil {
		return err
	}
	return o.saveTurn(line, first)
}

// SetLimit configures a limit. It calls what fits now, and what can never have its permits any
// longer. Holders keep theirs. [L4, L6]
func (o *Op[R, S]) SetLimit(set *store.SetLimit) error {
	if err := set.Check(); err != nil {
		return refuse(err)
	}
	limits := o.Tx.Limits()
	if err := o.configure(set); err != nil {
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
			if err := o.restand(line.ID); err != nil {
				return err
			}
		}
		if err := o.call([]store.Use{{LimitID: id}}); err != nil {
			return err
		}
	}
	return nil
}

// configure stores a configuration. If the rate is another one, TAT of all that it is for goes on by that: it says when weights
// come by the old one, and who has raised a rate of one an hour would wait for the rest of the hour.
func (o *Op[R, S]) configure(set *store.SetLimit) error {
	limits := o.Tx.Limits()
	was, err := limits.Limit(set.LimitID)
	if err != nil {
		return err
	}
	if err := limits.Configure(set); err != nil {
		return err
	}
	is, err := limits.Limit(set.LimitID)
	if err != nil || is.Interval() == was.Interval() && (is.Rate == 0 || is.Bursts() == was.Bursts()) {
		return err
	}
	parts := []store.LimitID{set.LimitID}
	if set.Key == "" {
		if parts, err = limits.Paced(set.Name); err != nil {
			return err
		}
	}
	for _, id := range parts {
		l, err := limits.Limit(id)
		if err != nil {
			return err
		}
		l.carry(&was.LimitConfig, o.Tx.Now())
		if err := limits.SaveLimit(id, l); err != nil {
			return err
		}
	}
	return nil
}

// openTooHeavy lets claims look at a line that can never have its permits: its runs end. It
// keeps back nobody at its other limits any longer. [L6, L9]
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
	line.Mode, line.Until, line.Stands, line.Owed = LineOpen, 0, 0, false
	o.Changes.Ready = append(o.Changes.Ready, r)
	if err := o.Tx.Limits().SaveLine(line); err != nil {
		return err
	}
	return o.call(uses)
}

// callOff takes a run out of its line, whole: it is claimed without permits, only to end. [L9]
func (o *Op[R, S]) callOff(r R, s *Run[S]) error {
	d, err := o.depart(r, s, false)
	if err != nil {
		return err
	}
	if err := o.leaveFlow(r, s, false); err != nil {
		return err
	}
	s.CalledOff, s.Place, s.WaitsSince = true, 0, 0
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
