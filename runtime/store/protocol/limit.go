package protocol

import (
	"math"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// The work is where the limit is: a run that uses limits is in the partition that stores them, and
// takes its permits in the action that gives it an owner. So no permit has a lease of its own, and
// none is lost with an answer: permits share fence, recovery and failover with their run.

// AdmitTime is how long an admitted limiter queue holds back the queues after it. [L7]
const AdmitTime = 5 * time.Second

// VainTries bounds how many runs and limiter queues a claim examines in vain: a queue whose first
// run may not have its permits is closed, and the next one is examined. If there are more, the
// claim sets the wake of their routes, and the next claim continues.
const VainTries = 100

// LimitTx is the access to the limits of a partition, and to the limiter queues (type LimiterQueue) of
// the runs that wait for permits. Such a run is ready, but claims find it through its queue, which
// contains all runs that wait with the same route and the same uses. In a queue the higher priority
// comes first, then the lower Place.
//
// Save puts a run for which Waits returns true into its queue, and removes it when Waits returns
// false again. A run with Place 0 gets a Place after all others, and keeps it.
type LimitTx[R comparable] interface {
	ShareTx[R]

	// Uses returns what a run uses, as at its creation.
	Uses(r R) ([]store.Use, error)
	// Limit returns the state of a part of a limit. A part without a configuration bounds nothing.
	Limit(id store.LimitID) (Limit, error)
	// SaveLimit stores Held, Waits and TAT. The store counts Away itself.
	SaveLimit(id store.LimitID, l Limit) error
	// Configure stores or removes a configuration.
	Configure(set *store.SetLimit) error
	// Paced returns the parts of a limit whose TAT is in the future, without those with a
	// configuration of their own. It may return more of them.
	Paced(name string) ([]store.LimitID, error)
	// Waiting returns the parts of a limit that have limiter queues.
	Waiting(name string) ([]store.LimitID, error)
	// QueueOf returns the limiter queue in which a run waits.
	QueueOf(r R) (LimiterQueue, error)
	// LimiterQueue returns a limiter queue by its id. An empty queue has no First.
	LimiterQueue(id string) (LimiterQueue, error)
	// SaveQueue stores Mode, Until, Stands and Owed of a limiter queue, unless it is empty. Claims
	// examine the open and the admitted queues of their routes, in order of position.
	SaveQueue(l LimiterQueue) error
	// LimiterQueues returns the limiter queues of a part of a limit, in order of position.
	LimiterQueues(id store.LimitID) ([]LimiterQueue, error)
	// The others return only queues that count there, in the same order. FirstKept returns the
	// first one, without a First if there is none. KeptQueues returns the first ones, at most limit.
	FirstKept(id store.LimitID) (LimiterQueue, error)
	KeptQueues(id store.LimitID, limit int) ([]LimiterQueue, error)
	// ClosedQueues returns the first closed queues, at most limit. NestedClosed returns all closed
	// queues whose uses are nested.
	ClosedQueues(id store.LimitID, limit int) ([]LimiterQueue, error)
	NestedClosed(id store.LimitID) ([]LimiterQueue, error)
}

// Limit is the state of a part of a limit.
type Limit struct {
	store.LimitConfig
	Held  int   // weights of the runs that have their permits
	Waits int   // weights of the runs in limiter queues
	Away  int   // weights of the runs in closed queues that do not count here because they wait for another limit
	TAT   int64 // when the next weight is due by the rate, in microseconds: see wait
}

// Waits reports whether the run is in a limiter queue.
func (s *Run[S]) Waits() bool {
	return s.QueueState == store.StateReady && s.Limited && !s.Permits && !s.LeftQueue
}

// mayWait reports whether the run enters a limiter queue once it is ready.
func (s *Run[S]) mayWait() bool {
	return s.QueueState != store.StateReady && s.QueueState != store.StateOwned && s.Limited && !s.Permits
}

func (l *Limit) wait(now time.Time, weights int) int64 { return l.Due(l.TAT, weights, now) }

// Next returns when the rate admits the next weight, in milliseconds; 0 means now, or that there is
// no rate.
func (l *Limit) Next(now time.Time) int64 { return l.wait(now, 0) }

// carry converts TAT to a changed rate: weights that have begun by the old rate count as if they
// had begun by this one, but at most as many as may begin at once, so the next weight waits for at
// most one interval of this rate. If TAT is further in the future than weights of one by the old
// rate can set it, the part was held back, or a large weight has begun: then it opens at the same
// time as before.
func (l *Limit) carry(was *store.LimitConfig, now time.Time) {
	// Floating-point numbers, because an interval may have any length, and because the Redis script
	// rounds this way.
	old, its := float64(was.Interval().Microseconds()), float64(l.Interval().Microseconds())
	oldBurst, burst := float64(was.Bursts())*old, float64(l.Bursts())*its
	switch ahead := float64(l.TAT - now.UnixMicro()); {
	case ahead > oldBurst:
		l.TAT += int64(burst - its - (oldBurst - old))
	case ahead > 0:
		l.TAT = now.UnixMicro() + int64(min(math.Ceil(ahead*its/old), burst))
	}
}

// room reports whether there is free capacity for a weight, and if the rate lacks it, when there
// will be.
func (l *Limit) free(now time.Time, weight int) (ok bool, until int64) {
	until = l.wait(now, 0)
	return until == 0 && !l.Paused && (l.AtOnce == 0 || l.Held+weight <= l.AtOnce), until
}

// short reports whether there is no free capacity for a weight after all waiting runs.
func (l *Limit) short(now time.Time, weight int) bool {
	return l.Paused || l.AtOnce > 0 && l.Held+l.inFront()+weight > l.AtOnce || l.wait(now, l.inFront()) > 0
}

// inFront returns the weights of the runs that may get their permits here before a run that arrives
// now. Runs that wait for another limit take nothing here before they count again, so they are not
// included.
func (l *Limit) inFront() int { return max(l.Waits-l.Away, 0) }

func (l *Limit) tooHeavy(weight int) bool { return l.AtOnce > 0 && weight > l.AtOnce }

// guardUses refuses a run that can never have its permits, and a run that would wait beyond a
// limit's bound of waiting runs. The second check does not apply to a run that will be ready later.
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
			// No waiting run is skipped, in the run's own queue or before it. [L5]
			if ok, _ := l.free(o.Tx.Now(), u.Weight); !ok || l.inFront() > 0 {
				return refuse(store.ErrNotClaimable)
			}
		}
	}
	return nil
}

// guardWaiting refuses a start beyond the bound of waiting runs. Runs that wait only for a worker
// count as begun. Otherwise any number could start before the first is claimed.
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

// count changes what a run holds of its limits, and what waits for them. It accompanies a change of
// Permits or of Waits in the same action. [L1]
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

// holdBack closes the rates of a run's uses for d. A rate admits a weight from TAT - (Bursts-1)
// intervals on. That is now + d or later if TAT is at least now + d + (Bursts-1) intervals. TAT
// then grows by an interval with each weight, so no burst follows. A queue that was to be rechecked
// earlier is rechecked in vain, and gets a new time. The fence guards holdBack like the rest of the
// commit.
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
	return o.call(uses) // a queue may count further than the closed rates admit it
}

// refund gives back to the rates what a run's grant has taken, because nothing has begun. TAT
// becomes no earlier than without the grant, which has only added to it. If TAT is further in the
// future than what may begin at once, the rate was held back meanwhile, and that hold keeps its
// duration.
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

// join puts a run that waits for permits into its limiter queue. If it becomes the first of a
// closed queue, the position of the queue changes: the queue is admitted if it may be, and
// otherwise stays closed. It is not opened, because claims would then skip runs that were examined
// in vain. [L5, L6]
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
	l, err := o.Tx.Limits().QueueOf(r)
	if err != nil {
		return err
	}
	switch {
	case l.Mode != QueueClosed:
		o.Changes.Ready = append(o.Changes.Ready, r)
	case l.First == s.ID:
		if l.Owed {
			l.Owed = false // it was owed to another run
			if err := o.Tx.Limits().SaveQueue(l); err != nil {
				return err
			}
		}
		if _, _, err = o.admitQueue(l, r, uses); err == nil {
			err = o.call(uses) // queues after it may have been the first ones
		}
	}
	return err
}

// noteWait records whether a run that enters a limiter queue waits for its limits, and not only for
// a worker. Runs that wait already count as begun.
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

// lack describes which limits lack free capacity for the first run of a limiter queue.
type lack struct {
	limits int
	last   store.LimitID // one of them
	until  int64         // when to recheck, if a rate lacks it; 0: unknown
}

// only reports whether a queue waits for this limit and for nothing else.
func (k *lack) only(id store.LimitID) bool { return k.limits == 1 && k.last == id }

// limitsOf returns the states of the limits of uses.
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

// lackOf returns which limits lack free capacity for uses.
func lackOf(now time.Time, uses []store.Use, limits []Limit) (k lack) {
	for i := range limits {
		free, at := limits[i].free(now, uses[i].Weight)
		if k.until = max(k.until, at); !free {
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

// grantWaiting gives the first run of a limiter queue its permits and its owner in one action, if
// it may have them. Otherwise it closes the queue. A run that is too heavy is granted without
// permits. [L2]
func (o *Op[R, S]) grantWaiting(r R, s *Run[S], grant func() error) (bool, error) {
	limits := o.Tx.Limits()
	line, err := limits.QueueOf(r)
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
		return false, o.closed(line, now, uses, r, s)
	}
	if uses[0].Nested && !now.heavy {
		if err := o.owe(&line, uses); err != nil {
			return false, err
		}
	}
	s.Permits, s.LeftQueue = !now.heavy, now.heavy
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
	line.Mode, line.Until, line.Stands, line.Owed = QueueOpen, 0, 0, false
	if err := limits.SaveQueue(line); err != nil {
		return false, err
	}
	return true, o.call(uses) // a grant admits the next queue [L6]
}

// A departure describes what a run leaves that gives back its permits, or that leaves its limiter
// queue.
type departure struct {
	uses []store.Use
	line string // closed or admitted queue whose first run left it
}

// depart takes from a run the permits that it does not keep to its end, or removes it from the
// waiting weights. The caller must save the run in another queue state and then settle the
// departure. [L2]
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
	line, err := o.Tx.Limits().QueueOf(r)
	if err != nil {
		return d, err
	}
	if line.First == s.ID && line.Mode != QueueOpen {
		d = departure{uses, line.ID}
	}
	return d, o.count(uses, 0, -1)
}

// settle rechecks the limits that a departure has changed, and admits the queues that fit now. [L6]
func (o *Op[R, S]) settle(d departure) error {
	if d.line != "" { // its remaining runs were not examined, but their position is later
		line, err := o.Tx.Limits().LimiterQueue(d.line)
		if err != nil {
			return err
		}
		line.Mode, line.Until, line.Owed = QueueClosed, 0, false
		if err := o.saveLeft(line); err != nil {
			return err
		}
		if err := o.restand(line.ID); err != nil {
			return err
		}
	}
	return o.call(d.uses)
}

// saveLeft is saveTurn of a queue that a run has left, and that may be empty.
func (o *Op[R, S]) saveLeft(line LimiterQueue) error {
	if line.First == "" {
		return nil
	}
	first, err := o.Tx.Run(line.First)
	if err != nil {
		return err
	}
	return o.saveTurn(line, first)
}

// SetLimit configures a limit. It admits queues that fit now, and opens queues whose runs can never
// have their permits any more. Runs that hold permits keep them. [L4, L6]
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
		lines, err := limits.LimiterQueues(id)
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

// configure stores a configuration. If the rate changes, TAT of all its parts is converted: it
// states when weights are due by the old rate, and after raising a rate of one per hour runs would
// wait for the rest of the hour.
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

// openTooHeavy opens a queue that can never have its permits, so that claims end its runs. It no
// longer holds back queues at its other limits. [L6, L9]
func (o *Op[R, S]) openTooHeavy(line LimiterQueue) error {
	if line.Mode == QueueOpen {
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
	line.Mode, line.Until, line.Stands, line.Owed = QueueOpen, 0, 0, false
	o.Changes.Ready = append(o.Changes.Ready, r)
	if err := o.Tx.Limits().SaveQueue(line); err != nil {
		return err
	}
	return o.call(uses)
}

// callOff removes a run from its limiter queue; it will be claimed without permits, only to end.
// [L9]
func (o *Op[R, S]) callOff(r R, s *Run[S]) error {
	d, err := o.depart(r, s, false)
	if err != nil {
		return err
	}
	if err := o.leaveFairKey(r, s, false); err != nil {
		return err
	}
	s.LeftQueue, s.Place, s.WaitsSince = true, 0, 0
	o.Changes.Ready = append(o.Changes.Ready, r)
	if err := o.Tx.Save(r, *s); err != nil {
		return err
	}
	return o.settle(d)
}

// handOn passes the permits that a run keeps to its end to the run that it continues as, if that
// run uses the same limits.
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
