package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/notify"
)

// cover is how long a Wait blocks at most. Wakes are lost with the worker that has
// taken them, and hints with connections between the nodes of a cluster: after
// that time the worker is told to claim, come what may.
const cover = 5 * time.Second

// Wait blocks until there may be something to do, and for five seconds at most;
// then it says Due. It polls nothing: it looks once, and then waits for the
// notifications of scripts. A session that waits again soon keeps its subscription in between,
// and need not look again.
func (s *Store) Wait(ctx context.Context, w store.Wait) (store.Woken, error) {
	if err := s.enter(ctx); err != nil {
		return store.Woken{}, err
	}
	a := &waiting{s: s, until: w.Until, hinted: w.Hinted, routes: make(map[string]bool, len(w.Routes))}
	for _, route := range w.Routes {
		a.routes[s.names.codeOf(route)] = true
	}
	for _, session := range w.Sessions {
		p, err := s.enterPartition(ctx, session.Partition)
		if err != nil {
			return store.Woken{}, fmt.Errorf("wait for session %s: %w", session.Session, err)
		}
		a.parts = append(a.parts, &partitionWait{p: p, session: sessionCode(session.Session)})
	}
	woken, err := a.wait(ctx)
	if err != nil && !errors.Is(err, ctx.Err()) {
		return store.Woken{}, fmt.Errorf("wait: %w", err)
	}
	return woken, err
}

// waiting is a Wait that is under way.
type waiting struct {
	s      *Store
	parts  []*partitionWait
	routes map[string]bool // by code
	until  time.Time
	hinted bool // a claim takes the wakes
	woken  store.Woken
	// informed says that everything was looked at, now or by a Wait before, and that
	// the subscription was open since.
	informed bool
	// incomplete says that a look has failed in some partition: what was published since
	// is not all that there is.
	incomplete bool
}

// partitionWait is the part of a Wait in one partition.
type partitionWait struct {
	p       *partition
	session string
	known   int64    // due times from here on are known; 0: all are
	next    int64    // the earliest due time that it was told of, 0: none. It may be over
	wakes   []string // the routes of which it was told that there is a wake, and has not looked yet
	hints   []string // those for which it has left the look to a claim
}

func (a *waiting) wait(ctx context.Context) (store.Woken, error) {
	reached := !a.until.IsZero() && !a.until.After(a.s.Clock().Now())
	if reached {
		err := a.look(ctx, a.parts)
		a.woken.Due = true
		return a.woken, err
	}
	who, routes := a.who(), strings.Join(slices.Sorted(maps.Keys(a.routes)), " ")
	s, informed, before := a.s.retained.take(who, routes)
	if s == nil {
		s = a.s.pubsub.topics.Subscribe(a.topics()...)
	}
	if a.informed = informed && !a.until.IsZero(); a.informed {
		for i, part := range a.parts {
			part.next, part.wakes = before[i].next, before[i].wakes
		}
	}
	woken, err := a.listen(ctx, s)
	if !a.informed || a.incomplete || err != nil && ctx.Err() == nil {
		s.Close() // what there is, or what was published, was not looked at
		return woken, err
	}
	a.s.retained.keep(who, routes, s, a.parts)
	return woken, err
}

// listen waits with a subscription. It looks first, but not where that was told everything
// since the last look.
func (a *waiting) listen(ctx context.Context, s *subscription) (store.Woken, error) {
	var unsure []*partitionWait
	for _, part := range a.parts {
		if part.known = millis(a.until); !a.informed || len(part.wakes) > 0 || part.next != 0 && part.next < part.known {
			unsure = append(unsure, part)
		}
	}
	if len(unsure) == 0 {
		return a.block(ctx, s)
	}
	if err := s.Confirmed(ctx, cover); err != nil {
		a.informed = false
		return store.Woken{}, err
	}
	if err := a.look(ctx, unsure); err != nil {
		a.informed = false
		return a.woken, err
	}
	a.informed = true
	if a.found() {
		return a.woken, nil
	}
	return a.block(ctx, s)
}

// who names the sessions of the Wait.
func (a *waiting) who() string {
	var b strings.Builder
	for _, part := range a.parts {
		b.WriteString(part.session)
	}
	return b.String()
}

// topics is everything that is published for the Wait.
func (a *waiting) topics() []string {
	var all []string
	for _, part := range a.parts {
		if !slices.Contains(all, part.p.hints()) {
			all = append(all, part.p.hints())
		}
		all = append(all, part.p.inboxSignal(part.session))
	}
	return all
}

func (a *waiting) found() bool {
	return a.woken.Due || len(a.woken.Claim)+len(a.woken.Hinted)+len(a.woken.Sooner)+len(a.woken.Unread) > 0
}

// block waits for hints, and looks where they point to.
func (a *waiting) block(ctx context.Context, s *subscription) (store.Woken, error) {
	alarm := make(chan struct{})
	if !a.until.IsZero() {
		clock := a.s.Clock()
		stop := clock.AfterFunc(a.until.Sub(clock.Now()), func() { close(alarm) })
		defer stop()
	}
	end := time.NewTimer(cover)
	defer end.Stop()
	select {
	case <-s.Ready(): // a claim of this session may have taken it since: that says nothing of how many others there are
		if err := a.look(ctx, slices.Concat(a.follow(s.Take()), a.unhinted(a.withWakes(), false))); err != nil || a.found() {
			return a.woken, err
		}
	default:
	}
	later, isPutOff := time.NewTimer(crowdLatest), false // when to look where that is put off
	later.Stop()
	defer later.Stop()
	for {
		var err error
		select {
		case <-s.Ready():
			sure := a.follow(s.Take())
			wait := a.putOff()
			if wait == 0 {
				err = a.lookForWakes(ctx, sure)
				break
			}
			if !isPutOff {
				isPutOff = true
				later.Reset(wait)
			}
			err = a.look(ctx, sure)
		case <-later.C:
			isPutOff = false
			err = a.lookForWakes(ctx, nil)
		case <-alarm:
			a.woken.Due = true
		case <-end.C:
			a.woken.Due = true
		case <-a.s.done:
			return store.Woken{}, store.ErrClosed
		case <-ctx.Done():
			return store.Woken{}, ctx.Err()
		}
		if err != nil || a.found() {
			return a.woken, err
		}
	}
}

// putOff returns for how long to put off the looks for wakes; 0: not at all, or there are none.
func (a *waiting) putOff() (wait time.Duration) {
	for _, part := range a.withWakes() {
		if w := a.s.crowds.wait(part.wakes); wait == 0 || w < wait {
			wait = w
		}
		if wait == 0 {
			return 0
		}
	}
	return wait
}

// lookForWakes looks where there is something for sure, and where there may be a wake.
func (a *waiting) lookForWakes(ctx context.Context, sure []*partitionWait) error {
	parts := a.unhinted(a.withWakes(), true)
	routes := make([][]string, len(parts))
	for i, part := range parts {
		routes[i] = part.wakes
	}
	err := a.look(ctx, slices.Concat(sure, parts))
	for i, part := range parts {
		if err == nil {
			a.s.crowds.note(routes[i], slices.Contains(a.woken.Claim, part.p.number))
		}
	}
	return err
}

// unhinted returns where to look for wakes: nowhere, if claims take them. count: what they find says how many others there are.
func (a *waiting) unhinted(parts []*partitionWait, count bool) []*partitionWait {
	if !a.hinted {
		return parts
	}
	for _, part := range parts {
		if count {
			part.hints = part.wakes
		}
		part.wakes = nil
		if !slices.Contains(a.woken.Hinted, part.p.number) {
			a.woken.Hinted = append(a.woken.Hinted, part.p.number)
		}
	}
	return nil
}

// withWakes returns where there may be a wake.
func (a *waiting) withWakes() (parts []*partitionWait) {
	for _, part := range a.parts {
		if len(part.wakes) > 0 {
			parts = append(parts, part)
		}
	}
	return parts
}

// follow returns the partitions where there is something, as hints say, and notes where there is a wake, which another session
// may take.
func (a *waiting) follow(hints []hint) (sure []*partitionWait) {
	for _, part := range a.parts {
		for _, h := range hints { // of blocks all are told: there is no wake to take
			if route, ok := strings.CutPrefix(h.Body, "b"); ok && h.Topic == part.p.hints() {
				a.claim(part.p, a.routes[route])
			}
		}
		if slices.ContainsFunc(hints, func(h hint) bool { return a.concerns(part, h) }) {
			sure, part.wakes = append(sure, part), nil // a look takes them, too
			continue
		}
		for _, h := range hints { // in the order in which scripts have published them
			if h.Topic == part.p.hints() {
				a.hear(part, h.Body)
			}
		}
	}
	return sure
}

// hear takes note of a wake, or of routes in which another session has left nothing.
func (a *waiting) hear(part *partitionWait, hint string) {
	if route, ok := strings.CutPrefix(hint, "c"); ok && a.routes[route] && !slices.Contains(part.wakes, route) {
		part.wakes = append(part.wakes, route)
	}
	if routes, ok := strings.CutPrefix(hint, "t"); ok {
		for route := range strings.SplitSeq(routes, " ") {
			if i := slices.Index(part.wakes, route); i >= 0 {
				part.wakes = slices.Delete(slices.Clone(part.wakes), i, i+1)
				a.s.crowds.note([]string{route}, false) // as a look would have found
			}
		}
	}
}

func (a *waiting) concerns(part *partitionWait, h hint) bool {
	switch {
	case h.Topic == part.p.inboxSignal(part.session):
		return true
	case h.Topic != part.p.hints():
		return false
	case h.Look:
		return true
	}
	due, ok := strings.CutPrefix(h.Body, "d")
	if ok {
		part.learnOf(parseNumber(due))
	}
	return ok && (part.known == 0 || parseNumber(due) < part.known)
}

// learnOf takes note of a due time, for the Waits that follow and know of later ones.
func (part *partitionWait) learnOf(due int64) {
	if due != 0 && (part.next == 0 || due < part.next) {
		part.next = due
	}
}

// look takes all wakes of the routes, and asks for new items and due times. It is not
// given up half-way: a wake that is taken must be told. It leaves no wake of a route
// behind, because nothing would be published about that again.
func (a *waiting) look(ctx context.Context, parts []*partitionWait) error {
	if len(parts) == 0 {
		return nil
	}
	calls := make([]*call, len(parts))
	for i, here := range parts {
		calls[i] = &call{
			script: scriptLook, p: here.p,
			keys: []string{here.p.wakes(), here.p.timers(), here.p.unread(here.session)},
		}
		if !slices.ContainsFunc(parts[:i], func(o *partitionWait) bool { return o.p == here.p }) {
			for route := range a.routes {
				calls[i].args = append(calls[i].args, route)
			}
		}
	}
	if err := a.s.execute(context.WithoutCancel(ctx), calls, a.s.send); err != nil {
		return err
	}
	if err := unanswered(len(calls), func(i int) error { return calls[i].err }); err != nil {
		return err
	}
	for i, part := range parts {
		if calls[i].err != nil { // a claim finds out what is wrong, and whoever waits again looks again
			a.woken.Claim = append(a.woken.Claim, part.p.number)
			a.incomplete = true
			continue
		}
		answer := calls[i].answer()
		part.wakes = nil
		a.claim(part.p, answer.number(0) > 0)
		next := parseNumber(answer.text(1))
		part.next = next
		part.learn(&a.woken, next)
		for _, run := range answer.texts(2) {
			if id := long(run); !slices.Contains(a.woken.Unread, id) {
				a.woken.Unread = append(a.woken.Unread, id)
			}
		}
	}
	return nil
}

// claim tells the worker to claim from a partition if there may be something.
func (a *waiting) claim(p *partition, there bool) {
	if there && !slices.Contains(a.woken.Claim, p.number) {
		a.woken.Claim = append(a.woken.Claim, p.number)
	}
}

// learn takes note of the next due time. If the Wait does not say what it knows,
// what is there when it begins is known.
func (part *partitionWait) learn(woken *store.Woken, next int64) {
	switch {
	case part.known == 0:
		part.known = next
	case next != 0 && next < part.known && !slices.Contains(woken.Sooner, part.p.number):
		woken.Sooner = append(woken.Sooner, part.p.number)
	}
}

// Watch blocks until the log of a run has more than n frames, or until the run has ended.
// Many Watches of a run cost as much as one. It also returns if the server has lost
// writes: the log has become shorter, or the run has ended without a frame that is new to
// the caller, which would wait for ever.
func (s *Store) Watch(ctx context.Context, run event.RunID, n uint64) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	p := s.partitionOf(run)
	frames := s.pubsub.topics.Subscribe(p.frames(short(run)))
	defer frames.Close()
	if err := frames.Confirmed(ctx, cover); err != nil {
		return err
	}
	shorter := shortening{}
	return frames.Await(ctx, notify.Awaiting[string, string]{Patience: watchCover, Judge: func(h hint) notify.Verdict {
		switch {
		case h.Body == "":
			return notify.Look
		case watched(h.Body, n):
			return notify.Done
		}
		return notify.Ignore
	}, Look: func() (_ string, done bool, err error) {
		c := &call{script: scriptWatch, p: p, keys: []string{p.meta(short(run))}, args: []any{n}}
		if err := s.do(ctx, c); err != nil {
			return "", false, fmt.Errorf("watch run %s: %w", run, err)
		}
		frames, ended := c.answer().number(0), c.answer().number(1) == 1
		if frames < 0 {
			return "", false, fmt.Errorf("watch run %s: %w", run, store.ErrRunNotFound)
		}
		return "", store.Watched(n, uint64(frames), ended) || shorter.seen(frames, ended), nil
	}})
}

// watched judges what scripts publish: the number of the frame, and after that of the last
// one " end".
func watched(text string, n uint64) bool {
	frames, ended := strings.CutSuffix(text, " end")
	return store.Watched(n, uint64(parseNumber(frames)), ended)
}

// shortening notices that a server has lost frames between two looks at a log.
type shortening struct {
	looked bool
	frames int64
	ended  bool
}

func (s *shortening) seen(frames int64, ended bool) bool {
	lost := s.looked && (frames < s.frames || ended && !s.ended)
	*s = shortening{true, frames, ended}
	return lost
}

// watchCover is after how long a Watch looks again by itself, for the hints that
// a cluster may lose between its nodes.
const watchCover = 15 * time.Second

// Of all sessions that wait for a route, each hears of each wake, and one takes it. If all looked at once, the server would
// answer hundreds in vain, and on a machine with several workers the one that finds it would wait for the others. So
// those who mostly look in vain let others go first, and do not look any more once they hear that a claim has taken the wake and left
// nothing ready in its route.
//
// It costs no wake: each that hears of one looks, within crowdLatest at the latest, unless it hears that, and what it was told of is
// looked for by the next Wait of the session if this one ends before. The first may die before it claims: then the wake is still there.
// It may die later: then it owns the run, which is recovered. It may have no room for the run: then the claim announces the route again.
const (
	// crowdFirst is how many of them look at once, on average, as far as they know how many there are.
	crowdFirst = 2
	// crowdApart is how far apart the others look, on average: about as long as a look and a claim take, so that the first of them
	// comes soon after nobody has looked at once.
	crowdApart = time.Millisecond
	// crowdLatest bounds how long somebody puts a look off.
	crowdLatest = 250 * time.Millisecond
	// crowdMemory is the weight of the last look in the estimate, once there were many: the first ones weigh more, so that
	// a hundred workers that begin at the same time find out after a few wakes.
	crowdMemory = 0.05
)

// crowds estimates for each route how many sessions look for a wake of it, from how often this store finds one: of n sessions
// one finds it. A route that only this store serves is not put off because many serve another one.
type crowds struct {
	decide func() time.Duration // instead of wait, for tests

	mu    sync.Mutex
	found map[string]float64 // by the code of the route, how many in one are found; none yet: all
	looks map[string]int     // how many looks that estimate is from, as far as they have a weight of their own
}

// note takes note of what came of a look for wakes of routes.
func (c *crowds) note(routes []string, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.found == nil {
		c.found = map[string]float64{}
	}
	if c.looks == nil {
		c.looks = map[string]int{}
	}
	for _, route := range routes {
		n := min(c.looks[route]+1, int(1/crowdMemory)-1)
		c.looks[route] = n
		weight := 1 / float64(n+1)
		share := c.share(route) * (1 - weight)
		if found {
			share += weight
		}
		c.found[route] = share
	}
}

// any reports whether many look for wakes of one of the routes.
func (c *crowds) any(routes []store.Route, codeOf func(store.Route) string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.found) == 0 {
		return false
	}
	return slices.ContainsFunc(routes, func(r store.Route) bool { return c.share(codeOf(r)) < 1.0/crowdFirst })
}

func (c *crowds) share(route string) float64 {
	if share, known := c.found[route]; known {
		return share
	}
	return 1
}

// wait returns how long to put off a look for wakes of routes, 0: look at once.
func (c *crowds) wait(routes []string) time.Duration {
	if c.decide != nil {
		return c.decide()
	}
	c.mu.Lock()
	share := 0.0
	for _, route := range routes {
		share = max(share, c.share(route))
	}
	c.mu.Unlock()
	if rand.Float64() < crowdFirst*share {
		return 0
	}
	others := min(1/share, float64(crowdLatest/crowdApart))
	return time.Duration(rand.Float64() * others * float64(crowdApart))
}
