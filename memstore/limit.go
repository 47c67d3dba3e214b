package memstore

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

var (
	_ store.Limiter    = (*Store)(nil)
	_ store.TurnReader = (*Store)(nil)
)

// limited contains the fields of a run that uses limits or has a fairness key.
type limited struct {
	uses      []store.Use
	place     int64 // position among the waiting runs; 0 if the run has none
	line      *line // limiter queue in which the run waits
	permits   bool
	whole     bool
	leftQueue bool
	since     int64 // time at which the run began to wait; see protocol.Run.WaitsSince

	fair   string
	share  int
	ranked bool // the run is in a list of runs with fairness keys; see level
}

// limits contains the limits of a partition.
type limits struct {
	configs map[string]*configs
	parts   map[store.LimitID]*part // limits and keys with held or waiting weights
	names   map[string]map[string]*part
	lines   map[string]*line
	timed   timed
}

func newLimits() limits {
	return limits{
		configs: map[string]*configs{}, parts: map[store.LimitID]*part{}, names: map[string]map[string]*part{}, lines: map[string]*line{},
	}
}

// configs contains the configurations of a limit and of its keys.
type configs struct {
	code, set *store.LimitConfig
	keys      map[string]store.LimitConfig
}

// ofKey returns the configuration that was set for a key. c may be nil.
func (c *configs) ofKey(key string) (own store.LimitConfig, ok bool) {
	if c != nil {
		own, ok = c.keys[key]
	}
	return own, ok
}

// part is the state of a limit or of one of its keys.
type part struct {
	held, waits int
	away        int // weights of the runs in closed queues that do not count at the part
	tat         int64
	kept        ordered // closed and admitted queues that count at the part
	rest        ordered // open queues, and closed queues that do not count at the part
}

// line is a limiter queue. It contains the runs of one route that wait for the same permits,
// ordered by priority, then by position.
type line struct {
	id     string
	route  *route
	uses   []store.Use
	levels []level
	mode   protocol.QueueMode
	until  int64
	owed   bool
	counts uint16 // set of the uses at which the queue counts
	timer  int    // index in the timed queues; -1 if the queue is not among them

	// Position by which the queue is sorted in the lists of its parts.
	priority int
	place    int64
}

// first returns the first run of the queue.
func (l *line) first() *run {
	if len(l.levels) == 0 {
		return nil
	}
	return l.levels[0].first()
}

func (l *line) compare(other *line) int {
	return cmp.Or(cmp.Compare(other.priority, l.priority), cmp.Compare(l.place, other.place), strings.Compare(l.id, other.id))
}

// ordered contains limiter queues sorted by position.
type ordered []*line

func (o *ordered) add(l *line) {
	i, _ := slices.BinarySearchFunc(*o, l, (*line).compare)
	*o = slices.Insert(*o, i, l)
}

func (o *ordered) remove(l *line) {
	i, _ := slices.BinarySearchFunc(*o, l, (*line).compare)
	*o = slices.Delete(*o, i, i+1)
}

// lineID returns the ID of the limiter queue of a run.
func lineID(r *run) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\x00%s", r.route.Queue, r.route.Workflow)
	for _, u := range r.uses {
		fmt.Fprintf(&b, "\x00%s\x00%s\x00%d%t", u.Name, u.Key, u.Weight, u.Nested)
	}
	return b.String()
}

// enter adds a run to its limiter queue.
func (x *limits) enter(r *run) {
	id := lineID(r)
	l := x.lines[id]
	if l == nil {
		l = &line{id: id, route: r.route, uses: r.uses, timer: -1}
		x.lines[id] = l
	} else {
		x.unsort(l)
	}
	if r.place == 0 {
		r.place = int64(r.order)
	}
	r.order = uint64(r.place)
	i, found := l.level(r.priority)
	if !found {
		l.levels = slices.Insert(l.levels, i, level{priority: r.priority})
	}
	l.levels[i].add(r)
	r.line = l
	x.sort(l)
}

// leave removes a run from its limiter queue.
func (x *limits) leave(r *run) {
	l := r.line
	x.unsort(l)
	i, _ := l.level(r.priority)
	l.levels[i].remove(r)
	if l.levels[i].empty() {
		l.levels = slices.Delete(l.levels, i, i+1)
	}
	r.line = nil
	if l.first() == nil {
		delete(x.lines, l.id)
		return
	}
	x.sort(l)
}

func (l *line) level(priority int) (int, bool) {
	return slices.BinarySearchFunc(l.levels, priority, func(l level, p int) int { return cmp.Compare(p, l.priority) })
}

// countsAt reports whether a queue counts at one of its uses.
func (l *line) countsAt(use int) bool {
	return l.mode != protocol.QueueOpen && l.counts>>use&1 == 1
}

// away returns the weights of the runs of a closed queue that does not count at one of its uses.
// Otherwise it returns 0.
func (l *line) away(use int) (weights int) {
	if l.mode != protocol.QueueClosed || l.uses[use].Local || l.countsAt(use) {
		return 0
	}
	for i := range l.levels {
		weights += (l.levels[i].runs.n + len(l.levels[i].fair)) * l.uses[use].Weight
	}
	return weights
}

// sort adds a queue at its position to the lists of its parts. The mode of the queue selects the
// list.
func (x *limits) sort(l *line) {
	l.priority, l.place = l.first().priority, l.first().place
	for i, u := range l.uses {
		p := x.part(u.LimitID)
		switch p.away += l.away(i); {
		case l.countsAt(i):
			p.kept.add(l)
		default:
			p.rest.add(l)
		}
	}
	if l.mode != protocol.QueueClosed {
		l.route.open.add(l)
	}
	if l.until != 0 {
		heap.Push(&x.timed, l)
	}
}

// unsort removes a queue from the lists of its parts.
func (x *limits) unsort(l *line) {
	for i, u := range l.uses {
		p := x.parts[u.LimitID]
		switch p.away -= l.away(i); {
		case l.countsAt(i):
			p.kept.remove(l)
		default:
			p.rest.remove(l)
		}
	}
	if l.mode != protocol.QueueClosed {
		l.route.open.remove(l)
	}
	if l.timer >= 0 {
		heap.Remove(&x.timed, l.timer)
	}
}

// part returns the state of a limit or key. It creates the part if necessary.
func (x *limits) part(id store.LimitID) *part {
	p := x.parts[id]
	if p == nil {
		p = &part{}
		x.parts[id] = p
		if x.names[id.Name] == nil {
			x.names[id.Name] = map[string]*part{}
		}
		x.names[id.Name][id.Key] = p
	}
	return p
}

// drop removes a part that has no weights and no queues, and whose rate admits weights now.
func (x *limits) drop(id store.LimitID, now int64) {
	p := x.parts[id]
	if p == nil || p.held != 0 || p.waits != 0 || p.tat > now || len(p.kept)+len(p.rest) > 0 {
		return
	}
	delete(x.parts, id)
	if delete(x.names[id.Name], id.Key); len(x.names[id.Name]) == 0 {
		delete(x.names, id.Name)
	}
}

// timed contains the limiter queues with a recheck time, the earliest first.
type timed []*line

func (t timed) Len() int           { return len(t) }
func (t timed) Less(i, j int) bool { return t[i].until < t[j].until }
func (t timed) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].timer, t[j].timer = i, j
}

func (t *timed) Push(l any) {
	l.(*line).timer = len(*t)
	*t = append(*t, l.(*line))
}

func (t *timed) Pop() any {
	last := (*t)[len(*t)-1]
	last.timer = -1
	*t = (*t)[:len(*t)-1]
	return last
}

// nextDue returns the earliest due or recheck time, or 0 if there is none.
func (p *partition) nextDue() int64 {
	next := p.timers.next()
	if len(p.limits.timed) == 0 {
		return next
	}
	if at := p.limits.timed[0].until; next == 0 || at < next {
		return at
	}
	return next
}

// Limits returns the access to the limits.
func (p *partition) Limits() protocol.LimitTx[*run] { return limitTx{p} }

// limitTx implements protocol.LimitTx for a partition.
type limitTx struct{ p *partition }

// Uses returns the uses of a run.
func (t limitTx) Uses(r *run) ([]store.Use, error) {
	if r.limited == nil {
		return nil, nil
	}
	return r.uses, nil
}

// Limit returns the state of a limit or key.
func (t limitTx) Limit(id store.LimitID) (protocol.Limit, error) {
	config, _, _ := t.p.limits.config(id)
	l := protocol.Limit{LimitConfig: config}
	if p := t.p.limits.parts[id]; p != nil {
		l.Held, l.Waits, l.Away, l.TAT = p.held, p.waits, p.away, p.tat
	}
	return l, nil
}

// config returns the configuration of a limit or key. It is, in this order, its own, the one set
// for the whole limit, or the one in the code.
func (x *limits) config(id store.LimitID) (config store.LimitConfig, set, code bool) {
	c := x.configs[id.Name]
	if c == nil {
		return config, false, false
	}
	var own *store.LimitConfig
	if config, ok := c.ofKey(id.Key); ok {
		own = &config
	}
	return store.MergeConfigs(own, c.set, c.code)
}

// SaveLimit stores the counts of a limit or key.
func (t limitTx) SaveLimit(id store.LimitID, l protocol.Limit) error {
	p := t.p.limits.part(id)
	p.held, p.waits, p.tat = l.Held, l.Waits, l.TAT
	t.p.limits.drop(id, t.p.clock.Now().UnixMicro())
	return nil
}

// Configure stores a configuration.
func (t limitTx) Configure(set *store.SetLimit) error {
	x := &t.p.limits
	c := x.configs[set.Name]
	if c == nil {
		c = &configs{keys: map[string]store.LimitConfig{}}
		x.configs[set.Name] = c
	}
	was := c.set
	if set.Key != "" {
		was = nil
		if own, ok := c.ofKey(set.Key); ok {
			was = &own
		}
	}
	switch given := set.Given(was); {
	case set.Default && !set.Reset:
		c.code = given
	case set.Key == "":
		c.set = given
	case given == nil:
		delete(c.keys, set.Key)
	default:
		c.keys[set.Key] = *given
	}
	if c.code == nil && c.set == nil && len(c.keys) == 0 {
		delete(x.configs, set.Name)
	}
	return nil
}

// Paced returns the keys of a limit whose rate comes from the configuration of the limit.
func (t limitTx) Paced(name string) (all []store.LimitID, err error) {
	x, now := &t.p.limits, t.p.clock.Now().UnixMicro()
	for key, p := range x.names[name] {
		if own, is := x.configs[name].ofKey(key); p.tat > now && (!is || own.Follows) {
			all = append(all, store.LimitID{Name: name, Key: key})
		}
	}
	return all, nil
}

// Waiting returns the limit or the keys of it that have limiter queues.
func (t limitTx) Waiting(name string) ([]store.LimitID, error) {
	var all []store.LimitID
	for key, p := range t.p.limits.names[name] {
		if len(p.kept)+len(p.rest) > 0 {
			all = append(all, store.LimitID{Name: name, Key: key})
		}
	}
	slices.SortFunc(all, func(a, b store.LimitID) int { return cmp.Compare(a.Key, b.Key) })
	return all, nil
}

func (l *line) stands() protocol.LimiterQueue {
	return protocol.LimiterQueue{ID: l.id, First: l.first().id, Priority: l.priority, Place: l.place, Mode: l.mode, Until: l.until, Stands: l.counts, Owed: l.owed}
}

// QueueOf returns the limiter queue of a run.
func (t limitTx) QueueOf(r *run) (protocol.LimiterQueue, error) { return r.line.stands(), nil }

// LimiterQueue returns a limiter queue.
func (t limitTx) LimiterQueue(id string) (protocol.LimiterQueue, error) {
	if l := t.p.limits.lines[id]; l != nil {
		return l.stands(), nil
	}
	return protocol.LimiterQueue{ID: id}, nil
}

// SaveQueue stores the mode of a limiter queue and where it counts.
func (t limitTx) SaveQueue(saved protocol.LimiterQueue) error {
	x := &t.p.limits
	if l := x.lines[saved.ID]; l != nil {
		x.unsort(l)
		l.mode, l.until, l.counts, l.owed = saved.Mode, saved.Until, saved.Stands, saved.Owed
		x.sort(l)
	}
	return nil
}

// LimiterQueues returns the limiter queues of a limit or key.
func (t limitTx) LimiterQueues(id store.LimitID) ([]protocol.LimiterQueue, error) {
	p := t.p.limits.parts[id]
	if p == nil {
		return nil, nil
	}
	all := slices.Concat(p.kept, p.rest)
	slices.SortFunc(all, (*line).compare)
	lines := make([]protocol.LimiterQueue, len(all))
	for i, l := range all {
		lines[i] = l.stands()
	}
	return lines, nil
}

// ClosedQueues returns the first closed queues that count at a limit or key.
func (t limitTx) ClosedQueues(id store.LimitID, limit int) (lines []protocol.LimiterQueue, err error) {
	if p := t.p.limits.parts[id]; p != nil {
		for _, l := range p.kept { // the list also contains admitted queues, but these are few
			if len(lines) == limit {
				break
			}
			if l.mode == protocol.QueueClosed {
				lines = append(lines, l.stands())
			}
		}
	}
	return lines, nil
}

// NestedClosed returns the closed queues with nested uses that count at a limit or key.
func (t limitTx) NestedClosed(id store.LimitID) (lines []protocol.LimiterQueue, err error) {
	if p := t.p.limits.parts[id]; p != nil {
		for _, l := range p.kept {
			if l.mode == protocol.QueueClosed && l.uses[0].Nested {
				lines = append(lines, l.stands())
			}
		}
	}
	return lines, nil
}

// KeptQueues returns the first closed and admitted queues that count at a limit or key.
func (t limitTx) KeptQueues(id store.LimitID, limit int) (lines []protocol.LimiterQueue, err error) {
	if p := t.p.limits.parts[id]; p != nil {
		for _, l := range p.kept[:min(limit, len(p.kept))] {
			lines = append(lines, l.stands())
		}
	}
	return lines, nil
}

// FirstKept returns the first closed or admitted queue that counts at a limit or key.
func (t limitTx) FirstKept(id store.LimitID) (protocol.LimiterQueue, error) {
	if p := t.p.limits.parts[id]; p != nil && len(p.kept) > 0 {
		return p.kept[0].stands(), nil
	}
	return protocol.LimiterQueue{}, nil
}

// fairKey is a flow: the ready runs with fairness keys of a route and a priority.
type fairKey struct {
	protocol.FairKey
	passes map[string]int64 // passes by fairness key
	sweep  int              // number of passes that triggers the removal of obsolete ones
}

// Share returns the fairness key of a run.
func (t limitTx) Share(r *run) (protocol.Share, error) {
	return protocol.Share{FairID: store.FairID{Route: r.route.Route, Priority: r.priority}, Key: r.fair, Weight: r.share}, nil
}

// FairKey returns the state of a flow.
func (t limitTx) FairKey(id store.FairID) (protocol.FairKey, error) {
	if f := t.p.fairKeys[id]; f != nil {
		return f.FairKey, nil
	}
	return protocol.FairKey{}, nil
}

// SaveFairKey stores the state of a flow.
func (t limitTx) SaveFairKey(id store.FairID, saved protocol.FairKey) error {
	if saved.Waits == 0 {
		delete(t.p.fairKeys, id)
		return nil
	}
	f := t.p.fairKeys[id]
	if f == nil {
		f = &fairKey{passes: map[string]int64{}, sweep: 64}
		t.p.fairKeys[id] = f
	}
	f.FairKey = saved
	return nil
}

// Pass returns the pass of a fairness key.
func (t limitTx) Pass(s protocol.Share) (int64, error) {
	return t.p.fairKeys[s.FairID].passes[s.Key], nil
}

// SavePass stores the pass of a key. Occasionally it removes the passes of other keys that have no
// waiting runs and whose pass does not exceed the pass of a new key.
func (t limitTx) SavePass(s protocol.Share, pass int64) error {
	f := t.p.fairKeys[s.FairID]
	f.passes[s.Key] = pass
	if len(f.passes) < f.sweep {
		return nil
	}
	for key, pass := range f.passes {
		if pass <= f.Pass {
			delete(f.passes, key)
		}
	}
	f.sweep = 2*len(f.passes) + 64
	return nil
}

// Come returns the next number in the order of arrivals.
func (t limitTx) Come() (int64, error) {
	t.p.order++
	return int64(t.p.order), nil
}

// Came advances the order of arrivals to a place.
func (t limitTx) Came(place int64) error {
	t.p.order = max(t.p.order, uint64(place))
	return nil
}
