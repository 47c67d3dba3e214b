package history

import (
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// The limits of the model. Package protocol executes the operations of the model as if no run used
// limits. The model derives the permits of a run from its state changes, the counts from the runs,
// and the allowed grants from the rules. A mistake in the limits of package protocol therefore
// shows as a difference from the model.

// modelLimits contains the configurations of limits and the state of their rates. The last four
// fields describe the operation in progress.
type modelLimits struct {
	code, set map[string]store.LimitConfig
	keys      map[store.LimitID]store.LimitConfig
	tat       map[store.LimitID]time.Time // when the next weight would begin without bursts
	away      map[store.LimitID]int       // weights that first wait for another limit, from the store's queues
	urgent    event.ItemID                // the run that receives this item leaves its queue
	yields    bool                        // the owner yields the run
	unused    store.Unused                // what the owner has not used of the run that it parks
	creates   *store.Create               // the create in progress, with the uses of its run
}

func newModelLimits() modelLimits {
	return modelLimits{
		code: map[string]store.LimitConfig{}, set: map[string]store.LimitConfig{}, keys: map[store.LimitID]store.LimitConfig{},
		tat: map[store.LimitID]time.Time{},
	}
}

// configure changes a configuration. If it changes a rate, the weights that have begun count by the
// new rate.
func (m *model) configure(s store.SetLimit) {
	was := map[store.LimitID]store.LimitConfig{}
	for id := range m.limits.tat {
		was[id] = m.stand(id).Config
	}
	m.limits.configure(s)
	for id, old := range was {
		if is := m.stand(id).Config; is.Interval() != old.Interval() || is.Rate > 0 && is.Bursts() != old.Bursts() {
			m.limits.tat[id] = m.repaced(m.limits.tat[id], &old, &is)
		}
	}
}

// repaced returns when the next weight would begin without bursts after a change of the rate.
func (m *model) repaced(tat time.Time, old, is *store.LimitConfig) time.Time {
	now := m.clock.Now()
	switch ahead := tat.Sub(now); {
	case ahead <= 0:
		return tat
	case old.Rate > 0 && ahead <= time.Duration(old.Bursts())*old.Interval(): // in microseconds, rounded up
		begun := (ahead.Microseconds()*is.Interval().Microseconds() + old.Interval().Microseconds() - 1) / old.Interval().Microseconds()
		return now.Add(min(time.Duration(begun)*time.Microsecond, time.Duration(is.Bursts())*is.Interval()))
	}
	if old.Rate > 0 { // first find the time at which the old rate opens
		tat = tat.Add(-time.Duration(old.Bursts()-1) * old.Interval())
	}
	if is.Rate > 0 {
		tat = tat.Add(time.Duration(is.Bursts()-1) * is.Interval())
	}
	return tat
}

func (x *modelLimits) configure(s store.SetLimit) {
	switch {
	case s.Reset && s.Key != "":
		delete(x.keys, s.LimitID)
	case s.Reset:
		delete(x.set, s.Name)
	case s.Default:
		x.code[s.Name] = s.Config
	case s.Key != "":
		x.keys[s.LimitID] = s.Config
	default:
		x.set[s.Name] = s.Config
	}
}

// stand returns the state of a part of a limit, computed from the runs.
func (m *model) stand(id store.LimitID) store.LimitState {
	l := store.LimitState{LimitID: id, Away: m.limits.away[id]}
	own, isOwn := m.limits.keys[id]
	whole, isSet := m.limits.set[id.Name]
	code, isCode := m.limits.code[id.Name]
	switch {
	case isOwn:
		l.Config, l.Set = own, true
	case isSet:
		l.Config, l.Set = whole, true
	case isCode:
		l.Config, l.Default = code, true
		l.Config.Paused = false // a declared value cannot pause a limit
	}
	l.Config.Paused = l.Config.Paused || whole.Paused
	for _, r := range m.runs {
		for _, u := range r.Uses {
			switch {
			case u.LimitID != id:
			case r.Permits:
				l.Held += u.Weight
			case r.Waits():
				l.Waits += u.Weight
			}
		}
	}
	if at := m.rateOpens(&l, 0); at.After(m.clock.Now()) {
		l.Next = at
	}
	return l
}

// rateOpens returns when the rate of a limit lets a weight begin that waits behind a weight of
// after. A burst lets it begin Burst-1 intervals early. Like a store, rateOpens rounds up to a
// millisecond, so that no recheck comes too early.
func (m *model) rateOpens(l *store.LimitState, after int) time.Time {
	if l.Config.Rate == 0 {
		return time.Time{}
	}
	at := m.limits.tat[l.LimitID]
	if now := m.clock.Now(); now.After(at) { // the rate was not used to the full until now
		at = now
	}
	at = at.Add(time.Duration(after-l.Config.Bursts()+1) * l.Config.Interval())
	return at.Add(time.Millisecond - time.Nanosecond).Truncate(time.Millisecond)
}

// hasFree reports whether a part of a limit has free capacity for the weight of a use.
func (m *model) hasFree(u store.Use) bool {
	l := m.stand(u.LimitID)
	return l.Next.IsZero() && !l.Config.Paused && (l.Config.AtOnce == 0 || l.Held+u.Weight <= l.Config.AtOnce)
}

func (m *model) haveFree(uses []store.Use) bool {
	return !slices.ContainsFunc(uses, func(u store.Use) bool { return !m.hasFree(u) })
}

// heavy returns the error of a run whose uses exceed the capacity of a limit, or nil. Such a run
// can never get its permits.
func (m *model) heavy(uses []store.Use) *store.LimitError {
	for _, u := range uses {
		if n := m.stand(u.LimitID).Config.AtOnce; n > 0 && u.Weight > n {
			return &store.LimitError{Limit: u.LimitID, Weight: u.Weight, AtOnce: n}
		}
	}
	return nil
}

// refusal returns the error of a create that the limits refuse, or nil. now reports that the run
// would be ready at once.
func (m *model) refusal(c *store.Create, now bool) error {
	for i, u := range c.Uses {
		if e := m.heavy(c.Uses[i : i+1]); e != nil {
			return e
		}
		l := m.stand(u.LimitID)
		beyond, retry := m.wouldWait(&l, u.Weight)
		if now && (l.Config.Refuse && beyond > 0 || l.Config.Waiting > 0 && beyond > l.Config.Waiting) {
			return &store.StartRefusedError{Limit: u.LimitID, RetryAfter: retry}
		}
		if c.Owner != nil && (!m.hasFree(u) || l.Waits > l.Away) {
			return store.ErrNotClaimable
		}
	}
	return nil
}

// wouldWait returns how many weights could not begin at once, including the given weight, and how
// long the rate makes the weight wait.
func (m *model) wouldWait(l *store.LimitState, weight int) (beyond int, retry time.Duration) {
	all := l.Waits - l.Away + weight
	if l.Config.AtOnce > 0 {
		beyond = l.Held + all - l.Config.AtOnce
	}
	if l.Config.Paused {
		beyond = max(beyond, all)
	}
	if d := m.rateOpens(l, l.Waits-l.Away).Sub(m.clock.Now()); l.Config.Rate > 0 && d > 0 {
		each := l.Config.Interval()
		beyond, retry = max(beyond, int((d+each-1)/each)), d
	}
	return beyond, retry
}

// begin counts the weights of a run that begins at the rates of its limits. Unlike permits, they
// are not returned.
func (m *model) begin(uses []store.Use) {
	for _, u := range uses {
		if c := m.stand(u.LimitID).Config; c.Rate > 0 {
			from := m.limits.tat[u.LimitID]
			if now := m.clock.Now(); now.After(from) {
				from = now
			}
			m.limits.tat[u.LimitID] = from.Add(time.Duration(u.Weight) * c.Interval())
		}
	}
}

// holdBack lets no weight begin by the rates for d. After d, the rates begin without a burst.
func (m *model) holdBack(uses []store.Use, d time.Duration) {
	for _, u := range uses {
		if c := m.stand(u.LimitID).Config; c.Rate > 0 {
			if until := m.clock.Now().Add(d + time.Duration(c.Bursts()-1)*c.Interval()); until.After(m.limits.tat[u.LimitID]) {
				m.limits.tat[u.LimitID] = until
			}
		}
	}
}

// refund takes back the weights of begin for a run that has not used its permits. It leaves a rate
// unchanged that is closed for longer than weights that begin at once can close it: the rate was
// held back.
func (m *model) refund(uses []store.Use) {
	for _, u := range uses {
		c := m.stand(u.LimitID).Config
		if tat := m.limits.tat[u.LimitID]; c.Rate > 0 && tat.Sub(m.clock.Now()) <= time.Duration(c.Bursts())*c.Interval() {
			m.limits.tat[u.LimitID] = tat.Add(-time.Duration(u.Weight) * c.Interval())
		}
	}
}

// moves changes the permits of a run that enters the state to. A run gets permits with its owner. It
// returns them when the owner leaves, or at its end if Whole is set and the run has used them. A
// run that parks loses its position unless it keeps the position with unused permits. [L2, L3]
func (m *model) moves(r *modelRun, to store.QueueState) {
	from := r.QueueState
	if from == to || len(r.Uses) == 0 && r.Fair == "" {
		return
	}
	if r.InFairKey() && to == store.StateOwned {
		m.leaveFairKey(r)
	}
	switch {
	case len(r.Uses) == 0:
	case to == store.StateEnded:
		r.Permits, r.LeftQueue = false, false
	case from == store.StateOwned:
		r.Permits = r.Permits && r.Whole && m.limits.unused == store.UnusedNone
	case to == store.StateOwned && !r.Permits && !r.LeftQueue:
		if r.LeftQueue = m.heavy(r.Uses) != nil; !r.LeftQueue {
			m.begin(r.Uses)
			r.Permits = true
		}
	}
	if to == store.StateParked && m.limits.unused != store.UnusedInQueue || m.limits.yields {
		r.place = 0
	}
	r.fresh = false
}

// handOn transfers permits that a run holds until its end to the run that continues it.
func (m *model) handOn(r, next *modelRun) {
	if r.Permits && r.Whole && next.Whole && slices.Equal(r.Uses, next.Uses) {
		r.Permits, next.Permits = false, true
	}
}

// callOff takes a canceled run out of its queue, so that the run can end without permits. The run
// becomes the last of the ready runs without queue. [L9]
func (m *model) callOff(r *modelRun) {
	r.LeftQueue, r.place, r.turn, r.rank, r.keyed = true, 0, m.nextTurn(), 0, false
}

// become gives a run its position among the ready runs. A run that waits for permits or has a
// fairness key keeps the position that it had before. [L8]
func (m *model) become(r *modelRun, turn int) {
	r.turn, r.rank = turn, 0
	if r.keyed = r.InFairKey(); r.keyed {
		if !r.fresh {
			m.enterFairKey(r)
		}
		return
	}
	if !r.Waits() {
		return
	}
	if r.place == 0 || r.fresh {
		r.place, r.placeRank, r.fresh = turn, 0, true
	}
	r.turn, r.rank = r.place, r.placeRank
}

// modelQueue is a limiter queue: the runs of a route that wait for the same permits, in order.
type modelQueue struct {
	route store.Route
	uses  []store.Use
	runs  []*modelRun
}

// waiting returns the limiter queues.
func (m *model) waiting() []modelQueue {
	var lines []modelQueue
	for _, r := range m.sorted() {
		if !r.Waits() {
			continue
		}
		i := slices.IndexFunc(lines, func(l modelQueue) bool { return l.route == r.Route && slices.Equal(l.uses, r.Uses) })
		if i < 0 {
			i, lines = len(lines), append(lines, modelQueue{route: r.Route, uses: r.Uses})
		}
		lines[i].runs = append(lines[i].runs, r)
	}
	for _, l := range lines {
		slices.SortStableFunc(l.runs, compareReady)
	}
	return lines
}

func share(a, b []store.Use) bool {
	return slices.ContainsFunc(a, func(u store.Use) bool {
		return slices.ContainsFunc(b, func(o store.Use) bool { return u.LimitID == o.LimitID })
	})
}

// mustGo reports whether a run must get its permits, whichever queues are closed. This holds if no
// earlier run waits for one of its limits, and the limits have free capacity.
func (m *model) mustGo(r *modelRun) bool {
	for _, l := range m.waiting() {
		for _, o := range l.runs {
			if o != r && compareTurns(o, r) <= 0 && share(l.uses, r.Uses) {
				return false
			}
		}
	}
	return m.heavy(r.Uses) != nil || m.haveFree(r.Uses)
}

// knownLimits returns the parts of limits that have a configuration, weights or a closed rate.
func (m *model) knownLimits() map[store.LimitID]store.LimitState {
	known := map[store.LimitID]store.LimitState{}
	add := func(id store.LimitID, always bool) {
		if l := m.stand(id); always || l.Held != 0 || l.Waits != 0 || !l.Next.IsZero() {
			known[id] = l
		}
	}
	for _, all := range []map[string]store.LimitConfig{m.limits.code, m.limits.set} {
		for name := range all {
			add(store.LimitID{Name: name}, true)
		}
	}
	for id := range m.limits.keys {
		add(id, true)
	}
	for id := range m.limits.tat {
		add(id, false)
	}
	for _, r := range m.runs {
		for _, u := range r.Uses {
			add(u.LimitID, false)
		}
	}
	return known
}

// guardLimited returns an error if limits or shares refuse a start. It is not called for a run that
// continues another run.
func (m *model) guardLimited(c *store.Create) error {
	behind := c.WorkflowID != "" && m.runs[m.active[c.WorkflowID]] != nil
	if err := m.refusal(c, !behind && !c.At.After(m.clock.Now()) && c.Delay == 0); err != nil {
		return protocol.Refused{Err: err}
	}
	return m.guardShare(c)
}
