package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/store"
)

// Inspect returns all contents of the store. The contents of each partition are consistent with
// each other. Inspect reads a partition in one transaction, which blocks its server for that time.
// It is meant for checks and tests, not for a store with millions of runs.
func (s *Store) Inspect(ctx context.Context) (*store.Snapshot, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	snap := newSnapshot()
	var mu sync.Mutex
	err := each(s.all(), func(p *partition, _ struct{}) error {
		v, err := s.inspect(ctx, p)
		if err != nil {
			return fmt.Errorf("inspect partition %d: %w", p.number, err)
		}
		mu.Lock()
		defer mu.Unlock()
		return s.show(ctx, v, snap)
	})
	if err != nil {
		return nil, err
	}
	snap.Now = s.Clock().Now()
	return snap, nil
}

// keySet contains the variable parts of the names of the keys of a partition.
type keySet struct {
	runs, names, routes, sessions []string
	streams                       []string // chain, colon and stream name
	waiting, kept                 []string // IDs of limiter queues; parts of limits
	fairKeys, groups              []string
	labels                        []string // codes of labels
}

func (k *keySet) equal(o *keySet) bool {
	return slices.Equal(k.runs, o.runs) && slices.Equal(k.names, o.names) &&
		slices.Equal(k.routes, o.routes) && slices.Equal(k.sessions, o.sessions) && slices.Equal(k.streams, o.streams) &&
		slices.Equal(k.waiting, o.waiting) && slices.Equal(k.fairKeys, o.fairKeys) && slices.Equal(k.kept, o.kept) && slices.Equal(k.groups, o.groups) &&
		slices.Equal(k.labels, o.labels)
}

// errMoving is returned if the set of keys changed during every attempt to read a partition.
var errMoving = errors.New("the partition changes faster than it can be read")

// inspect reads a partition in one transaction. The names of the keys are not known before the
// transaction. Therefore inspect reads the keys of the previous attempt and, in the same
// transaction, determines the current keys. It repeats the transaction until both sets are equal.
func (s *Store) inspect(ctx context.Context, p *partition) (*view, error) {
	s.inspecting.Lock()
	keys := s.inspected[p.number]
	s.inspecting.Unlock()
	if keys == nil {
		keys = &keySet{}
	}
	for range 20 {
		v := &view{p: p, keys: keys}
		if err := s.transaction(ctx, p, func(tx redis.Pipeliner) { v.read(ctx, tx) }); err != nil {
			return nil, err
		}
		found := v.found()
		if found.equal(keys) {
			s.inspecting.Lock()
			s.inspected[p.number] = keys
			s.inspecting.Unlock()
			return v, nil
		}
		keys = found
	}
	return nil, errMoving
}

// view contains all values of a partition.
type view struct {
	p    *partition
	keys *keySet
	logs map[string]*readLog // logs that were read before, by run

	leases                         *redis.ZSliceCmd
	listed                         map[string]*redis.ZSliceCmd // sets of open and ended runs, by key
	timers, purges, held, outbox   *redis.ZSliceCmd
	routes, active, latest, wakes  *redis.MapStringStringCmd
	audit                          map[string]*redis.StringSliceCmd
	runs                           map[string]reading
	extras                         map[string]*redis.StringCmd // by run
	seen                           map[string]*redis.ZSliceCmd
	lines, ready, owned            map[string]*redis.StringSliceCmd
	hidden, sessions, unreadRuns   map[string]*redis.MapStringStringCmd
	sent, bodies                   map[string]*redis.MapStringStringCmd
	streams                        map[string]*redis.MapStringStringCmd // by chain
	chunks                         map[string]*redis.XMessageSliceCmd   // by chain and name
	writers                        map[string]*redis.MapStringStringCmd
	limits, configs, limiterQueues *redis.MapStringStringCmd
	standing                       *redis.MapStringStringCmd
	collecting                     *redis.MapStringStringCmd
	waiting, kept, passes          map[string]*redis.ZSliceCmd
	fairKeys, failureGroups        *redis.MapStringStringCmd
	recent, idle, failing          *redis.ZSliceCmd
	shared                         *redis.ZSliceCmd            // members of the set of entries
	grouped                        map[string]*redis.ZSliceCmd // by failure group
	labelled                       map[string]*redis.ZSliceCmd // by label
}

func (v *view) read(ctx context.Context, tx redis.Pipeliner) {
	p := v.p
	v.listed = map[string]*redis.ZSliceCmd{}
	for _, route := range v.keys.routes {
		for _, key := range p.listed(route) {
			v.listed[key] = tx.ZRangeWithScores(ctx, key, 0, -1)
		}
	}
	v.leases, v.timers = tx.ZRangeWithScores(ctx, p.leases(), 0, -1), tx.ZRangeWithScores(ctx, p.timers(), 0, -1)
	v.routes, v.wakes = tx.HGetAll(ctx, p.routes()), tx.HGetAll(ctx, p.wakes())
	v.active, v.latest = tx.HGetAll(ctx, p.active()), tx.HGetAll(ctx, p.latest())
	v.purges, v.held = tx.ZRangeWithScores(ctx, p.purges(), 0, -1), tx.ZRangeWithScores(ctx, p.held(), 0, -1)
	v.outbox = tx.ZRangeWithScores(ctx, p.outbox(), 0, -1)
	v.limits, v.configs, v.limiterQueues = tx.HGetAll(ctx, p.limits()), tx.HGetAll(ctx, p.limitConfigs()), tx.HGetAll(ctx, p.limiterQueues())
	v.standing = tx.HGetAll(ctx, p.standing())
	v.collecting = tx.HGetAll(ctx, p.collecting())
	v.fairKeys, v.passes = tx.HGetAll(ctx, p.fairKeys()), map[string]*redis.ZSliceCmd{}
	for _, fairKey := range v.keys.fairKeys {
		v.passes[fairKey] = tx.ZRangeWithScores(ctx, p.passes(fairKey), 0, -1)
	}
	v.waiting, v.kept = map[string]*redis.ZSliceCmd{}, map[string]*redis.ZSliceCmd{}
	for _, line := range v.keys.waiting {
		v.waiting[line] = tx.ZRangeWithScores(ctx, p.waiting(line), 0, -1)
	}
	for _, use := range v.keys.kept {
		v.kept[use] = tx.ZRangeWithScores(ctx, p.kept(use), 0, -1)
	}
	v.readFailureGroups(ctx, tx)
	v.readLabels(ctx, tx)
	v.shared = tx.ZRangeWithScores(ctx, p.entries(), 0, -1)
	v.hidden = map[string]*redis.MapStringStringCmd{}
	v.sent, v.bodies = map[string]*redis.MapStringStringCmd{}, map[string]*redis.MapStringStringCmd{}
	v.runs, v.seen, v.audit = map[string]reading{}, map[string]*redis.ZSliceCmd{}, map[string]*redis.StringSliceCmd{}
	v.extras = map[string]*redis.StringCmd{}
	for _, run := range v.keys.runs {
		l := store.Load{Run: long(run), Inbox: true}
		if v.logs[run] != nil {
			l.Limit = -1
		}
		v.runs[run] = read(ctx, tx, p, l)
		v.seen[run] = tx.ZRangeWithScores(ctx, p.seen(run), 0, -1)
		v.audit[run] = tx.LRange(ctx, p.audit(run), 0, -1)
		v.hidden[run], v.extras[run] = tx.HGetAll(ctx, p.hidden(run)), tx.Get(ctx, p.extra(run))
		v.sent[run], v.bodies[run] = tx.HGetAll(ctx, p.sent(run)), tx.HGetAll(ctx, p.bodies(run))
	}
	v.readStreams(ctx, tx)
	v.lines, v.ready, v.owned = map[string]*redis.StringSliceCmd{}, map[string]*redis.StringSliceCmd{}, map[string]*redis.StringSliceCmd{}
	v.sessions, v.unreadRuns = map[string]*redis.MapStringStringCmd{}, map[string]*redis.MapStringStringCmd{}
	for _, name := range v.keys.names {
		v.lines[name] = tx.LRange(ctx, p.line(name), 0, -1)
	}
	for _, route := range v.keys.routes {
		v.ready[route] = tx.ZRange(ctx, p.ready(route), 0, -1)
	}
	for _, session := range v.keys.sessions {
		v.sessions[session], v.unreadRuns[session] = tx.HGetAll(ctx, p.session(session)), tx.HGetAll(ctx, p.unread(session))
		v.owned[session] = tx.SMembers(ctx, p.owned(session))
	}
}

// found returns the names of the keys that the view has read from the indexes of the partition.
func (v *view) found() *keySet {
	k := &keySet{
		runs: slices.Concat(members(v.purges), members(v.held), v.senders()), sessions: members(v.leases),
		routes: slices.Sorted(maps.Keys(v.routes.Val())), names: slices.Sorted(maps.Keys(v.active.Val())),
		waiting: slices.Sorted(maps.Keys(v.limiterQueues.Val())), fairKeys: slices.Sorted(maps.Keys(v.fairKeys.Val())),
		groups: slices.Sorted(maps.Keys(v.failureGroups.Val())), labels: v.knownLabels(),
	}
	for _, set := range v.listed {
		k.runs = append(k.runs, members(set)...)
	}
	// The first run of a chain, which gives the chain its name, may have been purged.
	for _, r := range v.runs {
		if chain := r.meta.Val()["h"]; chain != "" {
			k.runs = append(k.runs, chain)
		}
	}
	slices.Sort(k.runs)
	k.runs = slices.Compact(k.runs)
	slices.Sort(k.sessions)
	for chain, states := range v.streams {
		for name := range states.Val() {
			k.streams = append(k.streams, chain+":"+name)
		}
	}
	slices.Sort(k.streams)
	return k
}

func members(set *redis.ZSliceCmd) []string {
	all := make([]string, 0, len(set.Val()))
	for _, z := range set.Val() {
		member, _ := z.Member.(string)
		all = append(all, member)
	}
	return all
}

// senders returns the runs that have outbox records.
func (v *view) senders() []string {
	var all []string
	for _, member := range members(v.outbox) {
		if len(member) > orderDigits+runDigits {
			all = append(all, member[orderDigits:orderDigits+runDigits])
		}
	}
	return all
}

// readStreams queues reads of the stream states of all chains, and of the chunks of the known
// streams.
func (v *view) readStreams(ctx context.Context, tx redis.Pipeliner) {
	v.streams, v.writers = map[string]*redis.MapStringStringCmd{}, map[string]*redis.MapStringStringCmd{}
	v.chunks = map[string]*redis.XMessageSliceCmd{}
	for _, run := range v.keys.runs {
		v.streams[run] = tx.HGetAll(ctx, v.p.streams(run))
	}
	for _, stream := range v.keys.streams {
		chain, name, _ := strings.Cut(stream, ":")
		v.chunks[stream] = tx.XRange(ctx, v.p.chunks(chain, name), "-", "+")
		v.writers[stream] = tx.HGetAll(ctx, v.p.writers(chain, name))
	}
}

// showStreams adds the streams of all chains to a snapshot.
func (v *view) showStreams(snap *store.Snapshot) error {
	for chain, states := range v.streams {
		for name, packed := range states.Val() {
			state, err := unpackStream(packed)
			if err != nil {
				return err
			}
			chunks, err := chunksIn(v.chunks[chain+":"+name].Val())
			if err != nil {
				return err
			}
			v.showStream(snap, chain, name, store.StreamState{Chunks: chunks, Last: state.last, Closed: state.closed})
		}
	}
	return nil
}

func (v *view) showStream(snap *store.Snapshot, chain, name string, state store.StreamState) {
	for writer, nth := range v.writers[chain+":"+name].Val() {
		if state.Writers == nil {
			state.Writers = map[string]uint64{}
		}
		state.Writers[writer] = uint64(parseNumber(nth))
	}
	of := long(chain)
	if snap.Streams[of] == nil {
		snap.Streams[of] = map[string]store.StreamState{}
	}
	snap.Streams[of][name] = state
}

// showCollecting adds the collecting runs to a snapshot. A run that was claimed no longer collects
// starts, even if the hash of collecting runs still contains it.
func (v *view) showCollecting(snap *store.Snapshot) {
	for key, run := range v.collecting.Val() {
		if m := v.runs[run].meta; m != nil && unpackHeader(m.Val()["H"]).fence.Epoch == 0 {
			snap.Collecting[key] = long(run)
		}
	}
}

// examineCollecting compares the hash of collecting runs with the runs whose metadata contains a
// collection key.
func (e *partitionState) examineCollecting() {
	if e.unread != nil {
		return
	}
	for _, key := range sortedKeys(e.collecting.Val()) {
		run := e.collecting.Val()[key]
		if r := e.snap.Runs[long(run)]; r != nil && r.QueueState != store.StateEnded && e.metaOf(run)["k"] == key {
			continue
		}
		e.repairable(store.Defect{
			Invariant: 21, What: fmt.Sprintf("starts of key %q refer to run %s, which does not collect them", key, long(run)), Explain: "it is kept for ever",
		}, "remove it", swap{key: e.p.collecting(), kind: inHash, field: key, seen: run})
	}
	for _, run := range sortedKeys(e.runs) {
		key, r := e.metaOf(run)["k"], e.snap.Runs[long(run)]
		if key == "" || r == nil || r.Fence.Epoch != 0 || e.collecting.Val()[key] != "" {
			continue
		}
		e.repairable(store.Defect{
			Invariant: 21, Run: r.Run, What: fmt.Sprintf("it collects the starts of key %q, but is not recorded for it", key), Explain: "a start of the key begins another one",
		}, "record it for the key", swap{key: e.p.collecting(), kind: inHash, field: key, value: run})
	}
}
