package redisstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

const (
	// readBatch is the maximum number of runs that one transaction reads.
	readBatch = 64
	// rereads is the maximum number of repeated reads of a run. A run is read again if it was
	// changed or purged before the name of its owner or its tags could be read.
	rereads = 5
)

// Load reads runs. The data of each run is consistent. Load pipelines the reads, and reads the
// partitions in parallel.
func (s *Store) Load(ctx context.Context, runs []store.Load) ([]store.Loaded, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	members := map[*partition][]int{}
	for i := range runs {
		p := s.partitionOf(runs[i].Run)
		members[p] = append(members[p], i)
	}
	answers := make([]store.Loaded, len(runs))
	_ = each(members, func(p *partition, members []int) error {
		for len(members) > 0 {
			n := s.readable(runs, members)
			s.loadBatch(ctx, p, runs, members[:n], answers)
			members = members[n:]
		}
		return nil
	})
	if err := unanswered(len(answers), func(i int) error { return answers[i].Err }); err != nil {
		return nil, fmt.Errorf("read %d runs: %w", len(runs), err)
	}
	return answers, nil
}

// all returns the set of all partitions.
func (s *Store) all() map[*partition]struct{} {
	all := map[*partition]struct{}{}
	for _, p := range s.parts {
		all[p] = struct{}{}
	}
	return all
}

// each calls f for all partitions in parallel and joins the errors.
func each[T any](members map[*partition]T, f func(*partition, T) error) error {
	if len(members) == 1 {
		for p, m := range members {
			return f(p, m)
		}
	}
	var all sync.WaitGroup
	errs := make(chan error, len(members))
	for p, m := range members {
		all.Go(func() { errs <- f(p, m) })
	}
	all.Wait()
	close(errs)
	var err error
	for e := range errs {
		err = errors.Join(err, e)
	}
	return err
}

// reading contains the commands that read a run, which may be pending.
type reading struct {
	meta   *redis.MapStringStringCmd
	frames *redis.XMessageSliceCmd // nil if not requested
	inbox  *redis.StringSliceCmd   // nil if not requested
}

// err returns the error of a command that the server has refused, or nil.
func (r *reading) err() error {
	err := r.meta.Err()
	if err == nil && r.frames != nil {
		err = r.frames.Err()
	}
	if err == nil && r.inbox != nil {
		err = r.inbox.Err()
	}
	return err
}

func read(ctx context.Context, tx redis.Pipeliner, p *partition, l store.Load) reading {
	run := short(l.Run)
	r := reading{meta: tx.HGetAll(ctx, p.meta(run))}
	from := streamID(l.After + 1)
	switch {
	case l.Limit == 0:
		r.frames = tx.XRange(ctx, p.log(run), from, "+")
	case l.Limit > 0:
		r.frames = tx.XRangeN(ctx, p.log(run), from, "+", int64(l.Limit))
	}
	if l.Inbox {
		r.inbox = tx.LRange(ctx, p.inbox(run), 0, -1)
	}
	return r
}

// readable returns the number of runs to read in one transaction. The sum of the expected log
// lengths is bounded so that the answer is not too large.
func (s *Store) readable(runs []store.Load, members []int) int {
	bytes := 0
	for i, m := range members[:min(len(members), readBatch)] {
		if bytes += runs[m].Bytes; i > 0 && bytes > large {
			return i
		}
	}
	return min(len(members), readBatch)
}

// loadBatch reads the members of runs, which are all in partition p.
func (s *Store) loadBatch(ctx context.Context, p *partition, runs []store.Load, members []int, answers []store.Loaded) {
	for range rereads {
		readings := make([]reading, len(members))
		err := s.transactionOf(ctx, p, func(tx redis.Pipeliner) {
			for i, m := range members {
				readings[i] = read(ctx, tx, p, runs[m])
			}
		})
		if timedOut(err) && len(members) == 1 && ctx.Err() == nil {
			readings[0], err = s.readSlowly(ctx, p, runs[members[0]])
		}
		var moved []int
		for i, m := range members {
			if err != nil {
				answers[m] = store.Loaded{Err: fmt.Errorf("run %s: %w", runs[m].Run, err)}
				continue
			}
			loaded, err := s.loaded(ctx, p, runs[m].Run, readings[i])
			switch {
			case err != nil:
				answers[m] = store.Loaded{Err: aboutRun(runs[m].Run, 0, err)}
			case loaded == nil:
				moved = append(moved, m)
			default:
				answers[m] = *loaded
			}
		}
		if members = moved; len(moved) == 0 {
			return
		}
	}
	for _, m := range members {
		answers[m] = store.Loaded{Err: aboutRun(runs[m].Run, 0, fmt.Errorf("%w: the owner of run %s has no session, or its tags are missing", errDamaged, runs[m].Run))}
	}
}

func timedOut(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// readSlowly reads a run whose answer has timed out. It reads the log page by page, and increases
// the timeout with each page. Frames that are appended during the read are omitted. If the run is
// purged during the read, the result appears damaged, and the next read reports that the run does
// not exist.
func (s *Store) readSlowly(ctx context.Context, p *partition, l store.Load) (reading, error) {
	var r reading
	brief := l
	brief.Limit = -1
	err := s.transactionOf(ctx, p, func(tx redis.Pipeliner) { r = read(ctx, tx, p, brief) })
	if err != nil {
		return r, err
	}
	h := unpackHeader(r.meta.Val()["H"])
	if l.Limit < 0 || h.frames <= l.After {
		return r, nil
	}
	node, err := s.master(ctx, p)
	if err != nil {
		return r, s.explain(ctx, err)
	}
	upTo := h.frames
	if l.Limit > 0 {
		upTo = min(upTo, l.After+uint64(l.Limit))
	}
	page := max(1, large*h.frames/uint64(max(h.bytes, 1)))
	var frames []redis.XMessage
	for next := l.After + 1; next <= upTo; next += page {
		got, err := allow(node, h.bytes).XRange(ctx, p.log(short(l.Run)), streamID(next), streamID(min(next+page-1, upTo))).Result()
		if err != nil {
			return r, s.explain(ctx, err)
		}
		frames = append(frames, got...)
	}
	r.frames = redis.NewXMessageSliceCmd(ctx)
	r.frames.SetVal(frames)
	return r, nil
}

func streamID(n uint64) string { return number(int64(min(n, 1<<62))) + "-0" }

// loaded builds the answer from the data that was read. It returns nil if the run has changed since
// then and must be read again.
func (s *Store) loaded(ctx context.Context, p *partition, run event.RunID, r reading) (*store.Loaded, error) {
	if err := r.err(); err != nil {
		return nil, s.explain(ctx, s.damageOf(ctx, &call{p: p, keys: []string{p.meta(short(run))}}, err))
	}
	if len(r.meta.Val()) == 0 {
		return &store.Loaded{Err: store.ErrRunNotFound}, nil
	}
	record, err := s.record(ctx, p, run, r.meta.Val())
	if err != nil || record == nil {
		return nil, err
	}
	answer := &store.Loaded{Record: *record}
	if r.frames != nil {
		answer.Frames = framesOf(r.frames.Val())
	}
	if r.inbox != nil {
		if answer.Inbox, err = itemsOf(r.inbox.Val()); err != nil {
			return nil, fmt.Errorf("read run %s: %w", run, err)
		}
	}
	return answer, nil
}

func framesOf(entries []redis.XMessage) [][]byte {
	if len(entries) == 0 {
		return nil
	}
	frames := make([][]byte, len(entries))
	for i, e := range entries {
		frame, _ := e.Values["f"].(string)
		frames[i] = []byte(frame)
	}
	return frames
}

func itemsOf(packed []string) ([]store.Item, error) {
	var items []store.Item
	for _, one := range packed {
		item, err := unpackItem(one)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

// Resolve returns the active run of a workflow ID. If there is none, it returns the last ended run.
func (s *Store) Resolve(ctx context.Context, workflowID string) (event.RunID, error) {
	if err := s.enter(ctx); err != nil {
		return "", err
	}
	p, wid := s.partitionOfName(workflowID), widKey(workflowID)
	var active, latest *redis.StringCmd
	err := s.transaction(ctx, p, func(tx redis.Pipeliner) {
		active, latest = tx.HGet(ctx, p.active(), wid), tx.HGet(ctx, p.latest(), wid)
	})
	if err != nil {
		return "", fmt.Errorf("resolve workflow id %q: %w", workflowID, err)
	}
	switch {
	case active.Val() != "":
		return long(active.Val()), nil
	case latest.Val() != "":
		return long(latest.Val()), nil
	}
	return "", fmt.Errorf("resolve workflow id %q: %w", workflowID, store.ErrRunNotFound)
}

// record builds a record from the metadata of a run. It also reads names that are not cached, and
// tags in a separate key. If these are missing because the run was changed or purged, record
// returns nil, and the caller must read the metadata again.
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

// known builds a record from the metadata of a run alone. The record lacks the tags, a long
// workflow ID, the route and the owner.
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
		_, _, r.LeftQueue = unpackPermits(m["V"])
	}
	if packed := usesIn(m); packed != "" {
		r.Uses = unpackUses(packed)
		r.Permits, r.Whole, r.LeftQueue = unpackPermits(m["V"])
		r.WaitsSince = waitsSince(m["V"])
	}
	return r
}

// ownerIn returns the code of the session that owns a run, according to the metadata of the run. It
// is empty if no session owns the run.
func ownerIn(m map[string]string) string {
	if unpackHeader(m["H"]).queueState != store.StateOwned {
		return ""
	}
	return m["p"]
}

// addExtra adds the tags and the long workflow ID to a record. It returns an error that matches
// redis.Nil if their key is missing.
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

// routeOf returns the route with the given code. It reads the name from the database if it is not
// cached.
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

// sessionOf returns the ID of the session with the given code. It reads the ID from the database if
// it is not cached. The result is empty if the session has ended.
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

// Audit returns the interventions of operators in a run, oldest first. Only the last thousand
// interventions are kept.
func (s *Store) Audit(ctx context.Context, run event.RunID) ([]store.AuditEntry, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	var there *redis.IntCmd
	var kept *redis.StringSliceCmd
	p := s.partitionOf(run)
	err := s.transaction(ctx, p, func(tx redis.Pipeliner) {
		there, kept = tx.Exists(ctx, p.meta(short(run))), tx.LRange(ctx, p.audit(short(run)), 0, -1)
	})
	var entries []store.AuditEntry
	if err == nil && there.Val() == 1 { // a deleted run has no metadata and counts as missing
		entries, err = auditOf(run, kept.Val())
	}
	if err != nil {
		return nil, fmt.Errorf("read audit trail of run %s: %w", run, err)
	}
	return entries, nil
}

// auditEntry is an audit entry in the form that scripts write.
type auditEntry struct {
	Time       string          `json:"t"`
	Reason     store.Reason    `json:"w"`
	By         store.SessionID `json:"b"`
	Owner      store.SessionID `json:"o"`
	QueueState string          `json:"p"`
	Status     byte            `json:"s"`
	Epoch      string          `json:"e"`
}

func auditOf(run event.RunID, kept []string) ([]store.AuditEntry, error) {
	var all []store.AuditEntry
	for _, text := range kept {
		var e auditEntry
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			return nil, fmt.Errorf("%w: an entry of the audit trail: %w", errDamaged, err)
		}
		epoch, _ := strconv.ParseUint(e.Epoch, 16, 64) // the epoch is empty if the run had no metadata
		all = append(all, store.AuditEntry{
			Time: timeOf(parseNumber(e.Time)), Run: run, Reason: e.Reason, By: e.By, Owner: e.Owner,
			QueueState: store.QueueState(parseNumber(e.QueueState)), Status: statusOf(e.Status), Epoch: epoch,
		})
	}
	return all, nil
}
