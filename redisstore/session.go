package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// chores is the maximum number of runs that one script recovers or makes ready in addition to its
// main operation. The server executes no other command during a script, so the number is bounded.
// The next script processes the remaining runs.
const chores = 500

// examined is the number of open runs of a partition that heartbeats examine every 5 s, or 6,000
// per minute. Each examination takes the server about a millisecond.
const examined = 500

// OpenSession creates or renews the lease of a session.
func (s *Store) OpenSession(ctx context.Context, o store.Session) error {
	if err := o.Check(); err != nil {
		return fmt.Errorf("open session %s: %w", o.ID, err)
	}
	p, err := s.enterPartition(ctx, o.Partition)
	if err != nil {
		return fmt.Errorf("open session %s: %w", o.ID, err)
	}
	if p.number == 0 && s.prepared.Load() { // if the server has lost all data, the mark must be written anew
		if _, err := s.checkFormat(ctx); err != nil {
			return fmt.Errorf("open session %s: %w", o.ID, err)
		}
	}
	session := sessionCode(o.ID)
	keys := []string{p.session(session), p.leases()}
	args := []any{s.at(), session, string(o.ID), o.Worker, durationMillis(o.TTL), o.Fingerprint, routeCodes(o.Routes), routeNames(o.Routes)}
	c := &call{script: scriptOpenSession, p: p, keys: keys, args: args}
	if err := s.do(ctx, c); err != nil {
		return fmt.Errorf("open session %s: %w", o.ID, err)
	}
	if c.answer().word() != answerOK {
		return fmt.Errorf("open session %s: %w", o.ID, store.ErrExpired)
	}
	s.names.learnSession(session, o.ID)
	return nil
}

// Heartbeat renews the lease of a session.
func (s *Store) Heartbeat(ctx context.Context, partition int, id store.SessionID) (store.Heartbeat, error) {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return store.Heartbeat{}, fmt.Errorf("heartbeat of session %s: %w", id, err)
	}
	session := sessionCode(id)
	c := &call{
		script: scriptHeartbeat, p: p,
		keys: []string{p.session(session), p.leases(), p.owned(session), p.unread(session), p.timers(), p.outbox(), p.routes()},
		args: []any{s.at(), session, store.UnservedMost, examined},
	}
	if err := s.do(ctx, c); err != nil {
		return store.Heartbeat{}, fmt.Errorf("heartbeat of session %s: %w", id, err)
	}
	a := c.answer()
	if a.word() != answerOK {
		s.findings(p, a.texts(1))
		return store.Heartbeat{}, fmt.Errorf("heartbeat of session %s: %w", id, store.ErrExpired)
	}
	unserved, restored := int(a.number(4)), int(a.number(5))
	runs := longAll(a.texts(6))
	return store.Heartbeat{
		Owned: int(a.number(1)), Next: a.time(2), Outbox: a.time(3),
		Unserved: runs[:unserved:unserved], Restored: runs[unserved:][:restored:restored], Unread: runs[unserved+restored:],
	}, nil
}

// Serves reports whether a session with a valid lease serves the route.
func (s *Store) Serves(ctx context.Context, partition int, route store.Route) (bool, error) {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return false, fmt.Errorf("read the workers that serve %s on queue %s: %w", route.Workflow, route.Queue, err)
	}
	c := &call{script: scriptServes, p: p, keys: []string{p.leases()}, args: []any{s.at(), routeCode(route)}}
	if err := s.do(ctx, c); err != nil {
		return false, fmt.Errorf("read the workers that serve %s on queue %s: %w", route.Workflow, route.Queue, err)
	}
	n, _ := c.reply.(int64)
	return n == 1, nil
}

var _ store.ReadyLister = (*Store)(nil)

// Ready returns the first ready runs of the routes.
func (s *Store) Ready(ctx context.Context, partition int, routes []store.Route, limit int) ([]event.RunID, error) {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return nil, fmt.Errorf("list ready runs: %w", err)
	}
	if len(routes) == 0 || limit <= 0 {
		return nil, nil
	}
	c := &call{script: scriptListReady, p: p, args: []any{limit}}
	for _, route := range routes {
		c.keys = append(c.keys, p.ready(s.names.codeOf(route)))
	}
	if err := s.do(ctx, c); err != nil {
		return nil, fmt.Errorf("list ready runs: %w", err)
	}
	a := c.answer()
	n := int(a.number(0))
	s.findings(p, a.texts(1+n))
	return longAll(a.texts(1)[:n]), nil
}

func longAll(runs []string) []event.RunID {
	var all []event.RunID
	for _, run := range runs {
		all = append(all, long(run))
	}
	return all
}

// Reconcile returns the runs that the session owns according to the store.
func (s *Store) Reconcile(ctx context.Context, partition int, id store.SessionID) ([]store.Owned, error) {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return nil, fmt.Errorf("reconcile session %s: %w", id, err)
	}
	session := sessionCode(id)
	c := &call{script: scriptReconcile, p: p, keys: []string{p.session(session), p.owned(session)}}
	if err := s.do(ctx, c); err != nil {
		return nil, fmt.Errorf("reconcile session %s: %w", id, err)
	}
	a := c.answer()
	if a.word() != answerOK {
		return nil, fmt.Errorf("reconcile session %s: %w", id, store.ErrExpired)
	}
	owned := []store.Owned{}
	for i := 1; i+1 < len(a); i += 2 {
		owned = append(owned, store.Owned{Run: long(a.text(i)), Fence: unpackHeader(a.text(i + 1)).fence})
	}
	return owned, nil
}

// CloseSession removes the lease of a session and recovers the runs that the session owns.
func (s *Store) CloseSession(ctx context.Context, partition int, id store.SessionID) error {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return fmt.Errorf("close session %s: %w", id, err)
	}
	session := sessionCode(id)
	for {
		c := &call{
			script: scriptCloseSession, p: p, keys: []string{p.session(session), p.leases()},
			args: []any{s.at(), session, chores},
		}
		if err := s.do(ctx, c); err != nil {
			return fmt.Errorf("close session %s: %w", id, err)
		}
		s.findings(p, c.answer().texts(1))
		if c.answer().number(0) == 0 {
			return nil
		}
	}
}

var _ store.FleetTeller = (*Store)(nil)

// Fleet returns the sessions and the routes. The server maintains the numbers of open, ready and
// blocked runs of each route. Owned runs and limiter queues must be read to be counted, so Fleet
// limits their number by a budget.
func (s *Store) Fleet(ctx context.Context) (store.Fleet, error) {
	return s.fleet(ctx, max(store.FleetBudget/len(s.parts), 1))
}

// fleet is like Fleet, with a budget for each partition.
func (s *Store) fleet(ctx context.Context, budget int) (store.Fleet, error) {
	if err := s.enter(ctx); err != nil {
		return store.Fleet{}, err
	}
	var (
		mu       sync.Mutex
		sessions []store.FleetSession
		loads    []store.RouteLoad
	)
	err := each(s.all(), func(p *partition, _ struct{}) error {
		c := &call{
			script: scriptFleet, p: p, keys: []string{p.routes(), p.leases()},
			args: []any{budget, store.FleetFirst},
		}
		if err := s.do(ctx, c); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		sessions, loads = s.addFleet(p, c.answer(), sessions, loads)
		return nil
	})
	if err != nil {
		return store.Fleet{}, fmt.Errorf("read the fleet: %w", err)
	}
	return store.FleetOf(s.Clock().Now(), sessions, loads), nil
}

// addFleet adds the sessions and routes in the answer of a partition.
func (s *Store) addFleet(p *partition, a answer, sessions []store.FleetSession, loads []store.RouteLoad) ([]store.FleetSession, []store.RouteLoad) {
	inexact, rest := a.text(0) != "", a[min(2, len(a)):]
	for i, one := range rest {
		values, ok := one.([]any)
		switch {
		case !ok:
			s.findings(p, rest.texts(i))
			return sessions, loads
		case i < int(a.number(1)):
			load := routeLoad(values, inexact)
			s.names.learnRoute(answer(values).text(0), load.Route)
			loads = append(loads, load)
		default:
			sessions = append(sessions, fleetSession(p, values))
		}
	}
	return sessions, loads
}

// fleetSession decodes one session in the answer of a partition.
func fleetSession(p *partition, a answer) store.FleetSession {
	f := store.FleetSession{Lease: leaseOf(p, a), Owned: int(a.number(7))}
	names, _ := unpackTexts(a.text(4)) // if the names are damaged, the session is shown without names
	for _, name := range names {
		f.Routes = append(f.Routes, parseRoute(name))
	}
	return f
}

// leaseOf decodes the lease of a session in the answer of a partition.
func leaseOf(p *partition, a answer) store.Lease {
	return store.Lease{
		Session: store.SessionID(a.text(0)), Partition: p.number, Worker: a.text(1), Fingerprint: a.text(3), Expires: a.time(6),
		TTL: time.Duration(parseNumber(a.text(2))) * time.Millisecond, Recovering: a.text(5) != "",
	}
}

// routeLoad decodes one route in the answer of a partition.
func routeLoad(a answer, inexact bool) store.RouteLoad {
	l := store.RouteLoad{
		Route: parseRoute(a.text(1)), Ready: int(a.number(3)), Waiting: int(a.number(4)), Owned: int(a.number(5)), Blocked: int(a.number(6)),
		Inexact: inexact, First: longAll(a.texts(7)),
	}
	l.Parked = max(int(a.number(2))-l.Ready-l.Waiting-l.Owned-l.Blocked, 0)
	return l
}

var _ store.SessionDataStore = (*Store)(nil)

// SetSessionData stores the data of a session until the session ends, with one command.
func (s *Store) SetSessionData(ctx context.Context, partition int, id store.SessionID, body []byte) error {
	p, err := s.enterPartition(ctx, partition)
	if err == nil {
		err = store.CheckSessionData(body)
	}
	if err == nil {
		c := &call{script: scriptSetSessionData, p: p, keys: []string{p.session(sessionCode(id))}, args: []any{body}, size: len(body)}
		if err = s.do(ctx, c); err == nil && c.answer().word() != answerOK {
			s.findings(p, c.answer().texts(1))
			err = store.ErrExpired
		}
	}
	if err != nil {
		return fmt.Errorf("set data of session %s: %w", id, err)
	}
	return nil
}

// SessionData returns the data of the sessions of a partition, with one command.
func (s *Store) SessionData(ctx context.Context, partition int) ([]store.SessionData, error) {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return nil, fmt.Errorf("read data of sessions: %w", err)
	}
	c := &call{script: scriptSessionData, p: p, keys: []string{p.leases()}}
	if err := s.do(ctx, c); err != nil {
		return nil, fmt.Errorf("read data of sessions: %w", err)
	}
	a := c.answer()
	sessions := a[min(1, len(a)):][:a.number(0)]
	s.findings(p, a.texts(1+len(sessions)))
	var all []store.SessionData
	for _, one := range sessions {
		values, _ := one.([]any)
		all = append(all, store.SessionData{Lease: leaseOf(p, values), Body: []byte(answer(values).text(7))})
	}
	slices.SortFunc(all, func(a, b store.SessionData) int { return cmp.Compare(a.Session, b.Session) })
	return all, nil
}
