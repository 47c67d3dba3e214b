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

// cover is the maximum duration of a Wait. After this time the worker claims even without a
// notification. A wake is lost if the worker that has taken it fails, and a hint is lost if a
// connection between the nodes of a cluster fails.
const cover = 5 * time.Second

// Wait blocks until the worker may have something to do. After five seconds it returns with Due
// set. It does not poll: it probes once, and then waits for the messages of scripts. The
// subscription of a session stays open for a while, and the next Wait of the session then needs no
// probe.
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

// waiting is the state of a call of Wait.
type waiting struct {
	s      *Store
	parts  []*partitionWait
	routes map[string]bool // codes of the routes of the Wait
	until  time.Time
	hinted bool // wakes are taken by claims and not by probes
	woken  store.Woken
	// informed reports whether every partition was probed, by this Wait or an earlier one, and the
	// subscription has been open since then.
	informed bool
	// incomplete reports whether the probe of a partition has failed. The messages that follow are
	// then not sufficient.
	incomplete bool
}

// partitionWait is the state of a Wait in one partition.
type partitionWait struct {
	p       *partition
	session string
	known   int64    // only due times before this time are reported; all if 0
	next    int64    // earliest due time received, possibly past; 0 if there is none
	wakes   []string // routes with a published wake that was not probed
	hints   []string // routes whose wake a claim takes instead of a probe
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
		s.Close() // the subscription may have missed messages
		return woken, err
	}
	a.s.retained.keep(who, routes, s, a.parts)
	return woken, err
}

// listen waits with a subscription. It first probes each partition whose state is not known from
// the subscription and an earlier probe.
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

// who returns a key that identifies the sessions of the Wait.
func (a *waiting) who() string {
	var b strings.Builder
	for _, part := range a.parts {
		b.WriteString(part.session)
	}
	return b.String()
}

// topics returns the channels to which the Wait subscribes.
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

// block waits for hints and probes the partitions to which they refer.
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
	case <-s.Ready(): // not a sample for the waiter estimate, because an earlier claim of this session may have taken the wake
		if err := a.look(ctx, slices.Concat(a.follow(s.Take()), a.unhinted(a.withWakes(), false))); err != nil || a.found() {
			return a.woken, err
		}
	default:
	}
	later, isPutOff := time.NewTimer(probeLatest), false // later fires when a delayed probe is due
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

// putOff returns the delay of the probe for wakes. It is 0 if the probe is due at once or if there
// are no wakes.
func (a *waiting) putOff() (wait time.Duration) {
	for _, part := range a.withWakes() {
		if w := a.s.waiterEstimate.wait(part.wakes); wait == 0 || w < wait {
			wait = w
		}
		if wait == 0 {
			return 0
		}
	}
	return wait
}

// lookForWakes probes the partitions in sure, for which something certain was reported, and the
// partitions that may have a wake.
func (a *waiting) lookForWakes(ctx context.Context, sure []*partitionWait) error {
	parts := a.unhinted(a.withWakes(), true)
	routes := make([][]string, len(parts))
	for i, part := range parts {
		routes[i] = part.wakes
	}
	err := a.look(ctx, slices.Concat(sure, parts))
	for i, part := range parts {
		if err == nil {
			a.s.waiterEstimate.note(routes[i], slices.Contains(a.woken.Claim, part.p.number))
		}
	}
	return err
}

// unhinted returns the partitions that must be probed for wakes. There are none if claims take the
// wakes; the partitions are then reported as hinted. count reports whether the results of the
// claims are samples for the waiter estimate.
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

// withWakes returns the partitions that may have a wake.
func (a *waiting) withWakes() (parts []*partitionWait) {
	for _, part := range a.parts {
		if len(part.wakes) > 0 {
			parts = append(parts, part)
		}
	}
	return parts
}

// follow returns the partitions about which the hints report something certain. It records the
// wakes of the other partitions, because another session may take them.
func (a *waiting) follow(hints []hint) (sure []*partitionWait) {
	for _, part := range a.parts {
		for _, h := range hints { // a block concerns every waiter, and there is no wake to take
			if route, ok := strings.CutPrefix(h.Body, "b"); ok && h.Topic == part.p.hints() {
				a.claim(part.p, a.routes[route])
			}
		}
		if slices.ContainsFunc(hints, func(h hint) bool { return a.concerns(part, h) }) {
			sure, part.wakes = append(sure, part), nil // the probe takes the wakes of the partition
			continue
		}
		for _, h := range hints { // the hints are in the order of publication
			if h.Topic == part.p.hints() {
				a.receive(part, h.Body)
			}
		}
	}
	return sure
}

// receive handles a hint. The hint reports a wake, or it reports that a claim of another session
// has left no ready runs in certain routes.
func (a *waiting) receive(part *partitionWait, hint string) {
	if route, ok := strings.CutPrefix(hint, "c"); ok && a.routes[route] && !slices.Contains(part.wakes, route) {
		part.wakes = append(part.wakes, route)
	}
	if routes, ok := strings.CutPrefix(hint, "t"); ok {
		for route := range strings.SplitSeq(routes, " ") {
			if i := slices.Index(part.wakes, route); i >= 0 {
				part.wakes = slices.Delete(slices.Clone(part.wakes), i, i+1)
				a.s.waiterEstimate.note([]string{route}, false) // same sample as a probe that finds nothing
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

// learnOf records a due time, which later Waits may have to report.
func (part *partitionWait) learnOf(due int64) {
	if due != 0 && (part.next == 0 || due < part.next) {
		part.next = due
	}
}

// look probes partitions: it takes all wakes of the routes, and reads new items and due times. It
// continues after the end of ctx, because a wake that was taken must be reported. It takes the
// wakes of all routes, because a wake that remains set is not published a second time.
func (a *waiting) look(ctx context.Context, parts []*partitionWait) error {
	if len(parts) == 0 {
		return nil
	}
	calls := make([]*call, len(parts))
	for i, here := range parts {
		calls[i] = &call{
			script: scriptProbe, p: here.p,
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
		if calls[i].err != nil { // the claim returns the cause, and the next Wait probes the partition
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

// claim adds a partition to the partitions from which the worker should claim, if there is set.
func (a *waiting) claim(p *partition, there bool) {
	if there && !slices.Contains(a.woken.Claim, p.number) {
		a.woken.Claim = append(a.woken.Claim, p.number)
	}
}

// learn handles the next due time that a probe has returned. It reports the partition as Sooner if
// the due time is before known. If the caller of Wait has set no end time, the first due time
// becomes known and is not reported.
func (part *partitionWait) learn(woken *store.Woken, next int64) {
	switch {
	case part.known == 0:
		part.known = next
	case next != 0 && next < part.known && !slices.Contains(woken.Sooner, part.p.number):
		woken.Sooner = append(woken.Sooner, part.p.number)
	}
}

// Watch blocks until the log of a run has more than n frames, or until the run has ended. Many
// concurrent calls for a run cost the server as much as one. Watch also returns if the server has
// lost writes, because the expected frames may never be written then. It detects the loss if the
// log has become shorter, or if the run has ended without frames that are new to the caller.
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
	shorter, only := shortening{}, ""
	if n == store.UntilEnd {
		only = "e"
	}
	return frames.Await(ctx, notify.Awaiting[string, string]{Patience: watchCover, Judge: func(h hint) notify.Verdict {
		switch {
		case h.Body == "":
			return notify.Look
		case watched(h.Body, n):
			return notify.Done
		}
		return notify.Ignore
	}, Look: func() (_ string, done bool, err error) {
		c := &call{script: scriptWatch, p: p, keys: []string{p.meta(short(run))}, args: []any{n, only}}
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

// watched reports whether a published message ends a Watch. The message is the number of a frame,
// followed by " end" if it is the last frame.
func watched(text string, n uint64) bool {
	frames, ended := strings.CutSuffix(text, " end")
	return store.Watched(n, uint64(parseNumber(frames)), ended)
}

// shortening detects that a server has lost frames between two reads of the length of a log.
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

// watchCover is the time after which a Watch rechecks without a hint. A cluster may lose hints
// between its nodes.
const watchCover = 15 * time.Second

// Each wake is received by all sessions that wait for the route, but only one of them can take it.
// If all sessions probed at once, the server would answer hundreds of useless probes. On a machine
// with several workers, the successful worker would be delayed by the others. Therefore a session
// whose probes mostly fail delays its probes. It cancels them if a hint reports that a claim has
// taken the wake and left no ready runs in the route.
//
// No wake is lost. Each session that receives a wake probes within probeLatest, unless such a hint
// cancels the probe. If its Wait ends earlier, the next Wait of the session probes. If the first
// session fails before its claim, the wake is still set. If it fails after its claim, the run is
// recovered. If it has no free capacity for the run, its claim publishes the route a second time.
const (
	// probeFirst is the average number of sessions that probe at once, if their waiter estimates
	// are correct.
	probeFirst = 2
	// probeApart is the average distance between delayed probes. It is about the duration of a
	// probe and a claim. If no session probes at once, the first delayed probe follows soon.
	probeApart = time.Millisecond
	// probeLatest is the maximum delay of a probe after a wake.
	probeLatest = 250 * time.Millisecond
	// probeMemory is the weight of the latest probe in the estimate after many probes. The first
	// probes have a greater weight, so that a hundred workers that start at the same time have good
	// estimates after a few wakes.
	probeMemory = 0.05
)

// waiterEstimate contains the waiter estimate of each route: the number of sessions that probe for
// a wake. With n sessions, one of n probes succeeds, so the number is estimated from the share of
// successful probes. The estimates are separate for each route. Otherwise many sessions of one
// route would delay the probes for a route that only this store serves.
type waiterEstimate struct {
	decide func() time.Duration // replaces wait in tests

	mu    sync.Mutex
	found map[string]float64 // share of successful probes by code of the route; 1 if missing
	looks map[string]int     // number of probes in the estimate, until the weights are constant
}

// note adds the result of a probe for wakes to the estimates of the given routes.
func (c *waiterEstimate) note(routes []string, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.found == nil {
		c.found = map[string]float64{}
	}
	if c.looks == nil {
		c.looks = map[string]int{}
	}
	for _, route := range routes {
		n := min(c.looks[route]+1, int(1/probeMemory)-1)
		c.looks[route] = n
		weight := 1 / float64(n+1)
		share := c.share(route) * (1 - weight)
		if found {
			share += weight
		}
		c.found[route] = share
	}
}

// any reports whether many sessions are estimated to probe for wakes of one of the routes.
func (c *waiterEstimate) any(routes []store.Route, codeOf func(store.Route) string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.found) == 0 {
		return false
	}
	return slices.ContainsFunc(routes, func(r store.Route) bool { return c.share(codeOf(r)) < 1.0/probeFirst })
}

func (c *waiterEstimate) share(route string) float64 {
	if share, known := c.found[route]; known {
		return share
	}
	return 1
}

// wait returns the delay of a probe for wakes of routes. It is 0 if the session should probe at
// once.
func (c *waiterEstimate) wait(routes []string) time.Duration {
	if c.decide != nil {
		return c.decide()
	}
	c.mu.Lock()
	share := 0.0
	for _, route := range routes {
		share = max(share, c.share(route))
	}
	c.mu.Unlock()
	if rand.Float64() < probeFirst*share {
		return 0
	}
	others := min(1/share, float64(probeLatest/probeApart))
	return time.Duration(rand.Float64() * others * float64(probeApart))
}
