package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// record makes a record of the metadata of a run. Names that are not known yet
// are asked for, and so are tags that are kept beside it. It returns nil if the run has
// moved on or was purged meanwhile, so that they could not be found: then the metadata
// must be read again.
func (s *Store) record(ctx context.Context, p *partition, run event.RunID, m map[string]string) (*store.Record, error) {
	r := known(run, m)
	err := s.addExtra(ctx, p, r, m["i"])
	if errors.Is(err, redis.Nil) {
		return nil, nil //nolint:nilnil // it was purged meanwhile
	}
	if err != nil {
		return nil, err
	}
	if r.Route, err = s.routeOf(ctx, p, m["c"]); err != nil {
		return nil, err
	}
	if owner := ownerIn(m); owner != "" {
		if r.Owner, err = s.sessionOf(ctx, p, owner); err != nil || r.Owner == "" {
			return nil, err
		}
	}
	return r, nil
}

// known makes of the metadata of a run what it says without any other key: all but
// tags, a long workflow id, the route and the owner.
func known(run event.RunID, m map[string]string) *store.Record {
	h := unpackHeader(m["H"])
	r := &store.Record{
		Run: run, Chain: run, WorkflowID: m["w"], Priority: int(parseNumber(m["r"])), Parent: event.RunID(m["u"]),
		Root: event.RunID(m["x"]), QueueState: h.queueState, Status: h.status,
		N: h.frames, Seq: h.seq, Last: h.last, Fence: h.fence, Recoveries: h.recoveries, Closing: h.flags&isClosing != 0, Exempt: h.queueState == store.StateOwned && h.flags&isExempt != 0,
		Next: long(m["N"]), CreatedBy: event.ItemID(m["B"]), CreatedAt: timeOf(parseNumber(m["a"])), Group: m["g"],
		Rerun: long(m["R"]),
	}
	switch h.queueState {
	case store.StateParked:
		r.Due = timeOf(parseNumber(m["p"]))
	case store.StateEnded:
		r.EndedAt = timeOf(parseNumber(m["p"]))
	}
	if chain := m["h"]; chain != "" {
		r.Chain = long(chain)
	}
	r.Retention = store.DefaultRetention
	if kept := m["j"]; kept != "" {
		r.Retention = time.Duration(parseNumber(kept)) * time.Millisecond
	}
	if exact := m["J"]; exact != "" {
		r.Retention = time.Duration(parseNumber(exact))
	}
	if r.Root == "=" {
		r.Root = r.Parent
	}
	if m["f"] != "" {
		r.Fair, r.Share = unpackShare(m["f"])
		_, _, r.CalledOff = unpackPermits(m["V"])
	}
	if packed := usesIn(m); packed != "" {
		r.Uses = unpackUses(packed)
		r.Permits, r.Whole, r.CalledOff = unpackPermits(m["V"])
		r.WaitsSince = waitsSince(m["V"])
	}
	return r
}

// ownerIn returns the session that owns a run, by the metadata of that; empty: none.
func ownerIn(m map[string]string) string {
	if unpackHeader(m["H"]).queueState != store.StateOwned {
		return ""
	}
	return m["p"]
}

// addExtra adds tags and a long workflow id to a record. An error that matches
// redis.Nil says that they are not there.
func (s *Store) addExtra(ctx context.Context, p *partition, r *store.Record, packed string) error {
	if packed == beside {
		var err error
		if packed, err = s.client.Get(ctx, p.extra(short(r.Run))).Result(); err != nil {
			err = s.damageOf(ctx, &call{p: p, keys: []string{p.extra(short(r.Run))}}, err)
			return s.explain(ctx, fmt.Errorf("read tags of run %s: %w", r.Run, err))
		}
	}
	if packed == "" {
		return nil
	}
	x, err := unpackExtra(packed)
	if err != nil {
		return fmt.Errorf("read run %s: %w", r.Run, err)
	}
	x.describe(r)
	return nil
}

// routeOf returns what a code of a route stands for, and asks if it must.
func (s *Store) routeOf(ctx context.Context, p *partition, code string) (store.Route, error) {
	if route, known := s.names.route(code); known {
		return route, nil
	}
	name, err := s.client.HGet(ctx, p.routes(), code).Result()
	if errors.Is(err, redis.Nil) {
		return store.Route{}, fmt.Errorf("%w: route %s of partition %d", errNameless, code, p.number)
	}
	if err != nil {
		return store.Route{}, s.explain(ctx, fmt.Errorf("read route %s: %w", code, err))
	}
	route := parseRoute(name)
	s.names.learnRoute(code, route)
	return route, nil
}

// sessionOf returns what a code of a session stands for, and asks if it must;
// empty: the session is over.
func (s *Store) sessionOf(ctx context.Context, p *partition, code string) (store.SessionID, error) {
	if session, known := s.names.session(code); known {
		return session, nil
	}
	id, err := s.client.HGet(ctx, p.session(code), "i").Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	if err != nil {
		return "", s.explain(ctx, fmt.Errorf("read session %s: %w", code, err))
	}
	s.names.learnSession(code, store.SessionID(id))
	return store.SessionID(id), nil
}
