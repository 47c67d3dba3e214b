package protocol

import (
	"math"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// A run that uses limits is in the partition that stores them. It takes its permits in the action
// that gives it an owner. So no permit needs a lease of its own, and none is lost with a lost
// answer: permits share the fence, the recovery and the failover of their run.

// AdmitTime is how long an admitted limiter queue holds back the queues after it. [L7]
const AdmitTime = 5 * time.Second

// VainTries bounds how many runs and limiter queues a claim examines in vain. If the first run of a
// queue may not have its permits, the claim closes the queue and examines the next. After VainTries
// of them, the claim sets the wake of the remaining routes, and the next claim continues.
const VainTries = 100

// LimitTx is the access to the limits of a partition and to the limiter queues of the runs that
// wait for permits. Such a run is ready, but claims find it only through its queue. A queue
// contains all waiting runs with the same route and the same uses. They are ordered by priority,
// highest first, then by Place, lowest first.
//
// Save puts a run into its queue if Waits returns true for it, and removes it if Waits returns
// false. Save assigns a run with Place 0 a Place after all others. The run keeps its Place.
type LimitTx[R comparable] interface {
	ShareTx[R]

	// Uses returns the uses of a run, as given at its creation.
	Uses(r R) ([]store.Use, error)
	// Limit returns the state of a part of a limit. A part without a configuration is unlimited.
	Limit(id store.LimitID) (Limit, error)
	// SaveLimit stores Held, Waits and TAT. The store computes Away.
	SaveLimit(id store.LimitID, l Limit) error
	// Configure stores or removes a configuration.
	Configure(set *store.SetLimit) error
	// Paced returns the parts of a limit that have a TAT in the future and no configuration of
	// their own. It may return other parts as well.
	Paced(name string) ([]store.LimitID, error)
	// Waiting returns the parts of a limit that have limiter queues.
	Waiting(name string) ([]store.LimitID, error)
	// QueueOf returns the limiter queue in which a run waits.
	QueueOf(r R) (LimiterQueue, error)
	// LimiterQueue returns a limiter queue by its id. An empty queue has no First.
	LimiterQueue(id string) (LimiterQueue, error)
	// SaveQueue stores Mode, Until, Stands and Owed of a limiter queue. It ignores an empty queue.
	// Claims examine the open and the admitted queues of their routes, in order of position.
	SaveQueue(l LimiterQueue) error
	// LimiterQueues returns the limiter queues of a part of a limit, in order of position.
	LimiterQueues(id store.LimitID) ([]LimiterQueue, error)
	// FirstKept and the methods after it return only queues that count at the part, in order of
	// position. FirstKept returns the first queue, or one without a First if there is none.
	// KeptQueues returns at most limit queues.
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
	Held  int   // weights of the runs that hold their permits
	Waits int   // weights of the runs in limiter queues
	Away  int   // weights of the runs in closed queues that wait for another limit and do not count here
	TAT   int64 // time at which the rate admits the next weight, in microseconds; see wait
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

// Next returns when the rate admits the next weight, in milliseconds. It returns 0 if that is now
// or if there is no rate.
func (l *Limit) Next(now time.Time) int64 { return l.wait(now, 0) }

// carry converts TAT to a changed rate. Weights that began at the old rate count as if they had
// begun at the new one, but at most as many as may begin at once. So the next weight waits for at
// most one interval of the new rate. If TAT is further in the future than single weights at the old
// rate can set it, the part was held back or a large weight has begun. In this case TAT keeps the
// time at which the part opens.
func (l *Limit) carry(was *store.LimitConfig, now time.Time) {
	// Use floating-point numbers, because an interval may have any length and the Redis script
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

// free reports whether there is free capacity for a weight. until is the time at which the rate
// admits it; 0 if the rate admits it now.
func (l *Limit) free(now time.Time, weight int) (ok bool, until int64) {
	until = l.wait(now, 0)
	return until == 0 && !l.Paused && (l.AtOnce == 0 || l.Held+weight <= l.AtOnce), until
}

// short reports whether the weight lacks capacity if all waiting runs get theirs first.
func (l *Limit) short(now time.Time, weight int) bool {
	return l.Paused || l.AtOnce > 0 && l.Held+l.inFront()+weight > l.AtOnce || l.wait(now, l.inFront()) > 0
}

// inFront returns the weights of the runs that may get their permits here before a run that arrives
// now. It excludes runs that wait for another limit, because they take no permits here until they
// count again.
func (l *Limit) inFront() int { return max(l.Waits-l.Away, 0) }

func (l *Limit) tooHeavy(weight int) bool { return l.AtOnce > 0 && weight > l.AtOnce }

// guardUses refuses a run that can never have its permits. If the run is to be ready now, guardUses
// also refuses it if it exceeds the limit's bound of waiting runs.
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
			// The run must not skip a waiting run, neither in its own queue nor in a queue before
			// it. [L5]
			if ok, _ := l.free(o.Tx.Now(), u.Weight); !ok || l.inFront() > 0 {
				return refuse(store.ErrNotClaimable)
			}
		}
	}
	return nil
}

// guardWaiting refuses a start that exceeds the bound of waiting runs. Runs that wait only for a
// worker count as begun. Otherwise any number of runs could start before the first is claimed.
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

// count changes the weights that a run holds of its limits, and the weights that wait for them.
// held and waits are 1, 0 or -1. The caller changes Permits or Waits of the run in the same action.
// [L1]
func (o *Op[R, S]) count(uses []store.Use, held, waits int) error {
	for _, u := range uses {
		l, err := o.Tx.Limits().Limit(u.LimitID)
		if err != nil {
			return err
		}
		l.Held += held * u.Weight
		l.Waits += waits * u.Weight
		if interval := l.Interval().Microseconds(); held > 0 && l.Rate > 0 {
			l.TAT = max(l.TAT, o.Tx.Now().UnixMicro()) + int64(u.Weight)*interval // the rate gets nothing back when the run ends
		}
		if err := o.Tx.Limits().SaveLimit(u.LimitID, l); err != nil {
			return err
		}
	}
	return nil
}

// holdBack closes the rates of a run's uses for d. A rate admits a weight from TAT - (Bursts-1)
// intervals on. That is now + d or later if TAT is at least now + d + (Bursts-1) intervals. TAT
// then grows by an interval with each weight, so no burst follows. A queue whose recheck is due
// earlier is rechecked in vain and gets a new time. The fence guards holdBack like the rest of the
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
	return o.call(uses) // a queue that counts beyond the closed rates must be rechecked
}

// refund returns to the rates the weights of a run that was granted but has not begun. The grant
// has only added to TAT, so the refund sets TAT no earlier than it would be without the grant. If
// TAT is further in the future than the weights that may begin at once can set it, the rate was
// held back in the meantime. refund leaves such a TAT unchanged.
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

// join puts a run that waits for permits into its limiter queue. If the run becomes the first of a
// closed queue, the position of the queue changes. join then admits the queue if it may be
// admitted. Otherwise the queue stays closed: if it were opened, claims would examine runs again
// that were examined in vain. [L5, L6]
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
			l.Owed = false // another run had earned the flag
			if err := o.Tx.Limits().SaveQueue(l); err != nil {
				return err
			}
		}
		if _, _, err = o.admitQueue(l, r, uses); err == nil {
			err = o.call(uses) // this queue may now precede queues that were first at a limit
		}
	}
	return err
}

// noteWait sets WaitsSince of a run that enters a limiter queue if the run waits for its limits,
// and not only for a worker. Runs that already wait count as begun.
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

// lack describes the limits that lack free capacity for the first run of a limiter queue.
type lack struct {
	limits int
	last   store.LimitID // one of the lacking limits
	until  int64         // when to recheck if a rate lacks capacity; 0 if unknown
}

// only reports whether a queue waits for this limit and for no other.
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

// lackOf returns the limits that lack free capacity for the uses.
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
// it may have the permits. Otherwise grantWaiting closes the queue. A run that is too heavy gets an
// owner without permits. [L2]
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

// departure describes the limits and the limiter queue that a run leaves when it gives back its
// permits or stops waiting for them.
type departure struct {
	uses []store.Use
	line string // closed or admitted queue that lost its first run; empty if there is none
}

// depart takes from a run the permits that it does not keep to its end. If the run waits for
// permits, depart subtracts its weights from the waiting weights. The caller must save the run in
// another queue state and then settle the departure. [L2]
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
	if d.line != "" { // the claims have not examined the remaining runs, but the queue has a later position
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

// saveLeft stores a queue that a run has left. It ignores an empty queue.
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

// SetLimit configures a limit. It admits queues that fit the new configuration, and opens queues
// whose runs can never have their permits. Runs that hold permits keep them. [L4, L6]
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

// configure stores a configuration. If the rate changes, configure converts TAT of all parts of the
// limit. TAT is a time computed with the old rate. Without the conversion, a run would wait for the
// rest of an hour after a rate of one per hour was raised.
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

// openTooHeavy opens a queue whose runs can never have their permits, so that claims end them. The
// queue then holds back no queues at its other limits. [L6, L9]
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

// callOff removes a run from its limiter queue. The run will be claimed without permits, only to
// end. [L9]
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

// handOn passes the permits that a run keeps to its end to the run that it continues as. It does so
// only if that run uses the same limits.
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
