package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/store"
)

// partitionState is a consistent state of a partition. It contains the stored values, because a
// rebuild replaces a value only if it has not changed since it was read.
type partitionState struct {
	*view

	s       *Store
	snap    *store.Snapshot
	defects []store.Defect

	blocked        map[string]*redis.StringSliceCmd // members by route
	noted          map[string]*redis.IntCmd         // number of step data by run
	chains         *redis.MapStringStringCmd
	latestOfChains *redis.MapStringStringCmd
	counter        *redis.StringCmd
	format         *redis.StringCmd
	entries        map[string][]entry // entries that refer to the run, by run
	named          map[string][]entry // entries of workflow IDs that refer to the run, by run
	indexed        map[string][]indexed
	misplaced      map[string]bool   // runs with a wrong creation time in the set of a label
	odd            []string          // keys with the tag of the partition and an unknown name
	wrong          map[string]string // keys of an impossible type, with that type
	unread         map[string]bool   // runs that are excluded from the examination; nil if none are
}

// entry is a member of a set or list that refers to a run.
type entry struct {
	key, member string
}

// ReadPartition reads all keys that begin with the tag of a partition, even if no other key refers
// to them. It finds the keys by scanning the names of all keys of the server.
func (s *Store) ReadPartition(ctx context.Context, partition int) (*store.PartitionState, error) {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return nil, fmt.Errorf("read partition %d: %w", partition, err)
	}
	e, err := s.examine(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("read partition %d: %w", partition, err)
	}
	e.show()
	e.look()
	return &store.PartitionState{Snapshot: e.snap, Partial: e.unread != nil, Defects: e.defects, Rebuild: e.rebuild}, nil
}

// readings is the maximum number of times that a partition is read because keys were added during
// the read. After that, the added keys are excluded.
const readings = 5

// examine reads the logs, and then everything else in one transaction. If keys were added or a log
// has grown in between, it repeats the transaction, which then includes the outdated logs. If the
// partition changes during every attempt, examine excludes the runs that are too new, together with
// everything that refers to them. Later examinations will include them.
func (s *Store) examine(ctx context.Context, p *partition) (*partitionState, error) {
	keys, odd, err := s.keysOf(ctx, p)
	if err != nil {
		return nil, err
	}
	logs, err := s.readLogs(ctx, p, keys.runs)
	if err != nil {
		return nil, err
	}
	for n := range 4 * readings {
		e := &partitionState{s: s, view: &view{p: p, keys: keys, logs: logs}, odd: odd}
		if err := e.readAll(ctx); err != nil {
			return nil, err
		}
		old := e.outdated()
		all := keys.with(e.mentioned())
		if all.equal(keys) && len(old) == 0 {
			return e, nil
		}
		if n >= readings && slices.Equal(all.routes, keys.routes) && slices.Equal(all.sessions, keys.sessions) {
			e.leaveOut(all, old)
			return e, nil
		}
		keys = all
	}
	return nil, errMoving
}

// scanTimeout is the timeout for reading a partition with many runs. It is longer than the timeout
// of other requests.
const scanTimeout = 10 * time.Minute

// manyRuns is the number of runs above which a read of a partition gets the longer timeout.
const manyRuns = 2000

// patient returns a client with the longer timeout if the partition has many runs. The hooks of the
// client of the store do not apply to it.
func (e *partitionState) patient(ctx context.Context) (redis.Cmdable, error) {
	if len(e.keys.runs) < e.s.manyRuns {
		return e.s.client, nil
	}
	node, err := e.s.master(ctx, e.p)
	if err != nil {
		return nil, e.s.explain(ctx, err)
	}
	if client, ok := node.(*redis.Client); ok && client.Options().ReadTimeout > 0 { // 0 means no timeout
		return client.WithTimeout(max(client.Options().ReadTimeout, scanTimeout)), nil
	}
	return node, nil
}

// readAll reads everything except the logs that were read before, in one transaction. A key of an
// impossible type is recorded and treated as missing. Another program has overwritten it, so its
// contents are lost.
func (e *partitionState) readAll(ctx context.Context) error {
	client, err := e.patient(ctx)
	if err != nil {
		return err
	}
	var queued []redis.Cmder
	err = e.s.transactOn(ctx, client, e.p, func(tx redis.Pipeliner) {
		e.read(ctx, tx)
		queued = tx.Cmds()
	}, func(err error) bool { return !errors.Is(err, redis.Nil) })
	if err == nil {
		return nil
	}
	types := map[string]*redis.StatusCmd{}
	for _, c := range queued {
		switch failed := c.Err(); {
		case failed == nil, errors.Is(failed, redis.Nil):
		case redis.HasErrorPrefix(failed, "WRONGTYPE"):
			types[fmt.Sprint(c.Args()[1])] = nil
		default:
			return err
		}
	}
	if len(types) == 0 {
		return err
	}
	err = e.s.transaction(ctx, e.p, func(tx redis.Pipeliner) {
		for key := range types {
			types[key] = tx.Type(ctx, key)
		}
	})
	e.wrong = map[string]string{}
	for key, is := range types {
		e.wrong[key] = is.Val()
	}
	return err
}

// leaveOut determines the excluded runs: runs that were not read, runs with an outdated log, and
// runs with a label set that was not read. It also excludes the workflow IDs that refer to such a
// run, and all runs of these workflow IDs.
func (e *partitionState) leaveOut(all *keySet, old map[string]bool) {
	e.unread = map[string]bool{}
	for _, run := range all.runs {
		e.unread[run] = e.runs[run].meta == nil || old[run] || slices.ContainsFunc(e.labelsOf(run), func(code string) bool { return e.labelled[code] == nil })
	}
	names := map[string]bool{}
	for _, wid := range all.names {
		line := e.lines[wid]
		names[wid] = line == nil || e.unread[e.active.Val()[wid]] || e.unread[e.latest.Val()[wid]] ||
			slices.ContainsFunc(line.Val(), func(run string) bool { return e.unread[run] })
	}
	for run := range e.runs {
		e.unread[run] = e.unread[run] || names[e.metaOf(run)["w"]]
	}
	maps.DeleteFunc(e.runs, func(run string, _ reading) bool { return e.unread[run] })
	for wid, out := range names {
		if out {
			delete(e.active.Val(), wid)
			delete(e.latest.Val(), wid)
			delete(e.lines, wid)
		}
	}
}

// keysOf returns the keys of a partition, which it finds by scanning names, and the names that it
// cannot interpret.
func (s *Store) keysOf(ctx context.Context, p *partition) (*keySet, []string, error) {
	if err := s.prepare(ctx, s.parts[0]); err != nil {
		return nil, nil, err
	}
	var node redis.Cmdable = s.client
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		master, err := cluster.MasterForKey(ctx, p.hash)
		if err != nil {
			return nil, nil, s.explain(ctx, err)
		}
		node = master
	}
	k, odd := &keySet{}, []string{}
	scan := node.Scan(ctx, 0, escaped(p.tag)+"*", 1000).Iterator()
	for scan.Next(ctx) {
		if name := strings.TrimPrefix(scan.Val(), p.tag); !k.note(name) {
			odd = append(odd, name)
		}
	}
	slices.Sort(odd)
	return (&keySet{}).with(k), slices.Compact(odd), s.explain(ctx, scan.Err())
}

// escaped returns a pattern that matches only the given text.
func escaped(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `^`, `\^`).Replace(text)
}

// partitionKeys contains the letters of the keys that exist once per partition.
const partitionKeys = "tewkuvdhcTGDALKYFJQHEZUR"

// note adds the run or object of a key to the set. name is the name of the key after the tag. note
// returns false if this release does not use such a name.
func (k *keySet) note(name string) bool {
	kind, of, ok := strings.Cut(name, ":")
	if !ok {
		return len(name) == 1 && strings.Contains(partitionKeys, name)
	}
	switch kind {
	case "m", "l", "i", "s", "n", "j", "x", "g", "O", "B":
		k.runs = append(k.runs, of)
	case "J": // the record of a start, which may have no run
	case "S":
		k.runs = append(k.runs, of)
	case "C", "W":
		chain, _, _ := strings.Cut(of, ":")
		k.runs, k.streams = append(k.runs, chain), append(k.streams, of)
	case "r", "b":
		k.routes = append(k.routes, of)
	case "p":
		k.routes = append(k.routes, of[:max(0, len(of)-1)])
	case "f":
		k.routes = append(k.routes, of[:max(0, len(of)-2)])
	case "z", "o", "a":
		k.sessions = append(k.sessions, of)
	case "q":
		k.names = append(k.names, of)
	case "P":
		k.waiting = append(k.waiting, of)
	case "X":
		k.fairKeys = append(k.fairKeys, of)
	case "I":
		k.groups = append(k.groups, of)
	case "M":
		k.labels = append(k.labels, of)
	case "F":
		k.kept = append(k.kept, of)
	default:
		return false
	}
	return true
}

// with returns the sorted union of two sets.
func (k *keySet) with(o *keySet) *keySet {
	union := func(a, b []string) []string {
		all := slices.Concat(a, b)
		slices.Sort(all)
		return slices.Compact(all)
	}
	return &keySet{
		runs: union(k.runs, o.runs), names: union(k.names, o.names),
		routes: union(k.routes, o.routes), sessions: union(k.sessions, o.sessions), streams: union(k.streams, o.streams),
		waiting: union(k.waiting, o.waiting), fairKeys: union(k.fairKeys, o.fairKeys), kept: union(k.kept, o.kept),
		groups: union(k.groups, o.groups), labels: union(k.labels, o.labels),
	}
}

func (e *partitionState) read(ctx context.Context, tx redis.Pipeliner) {
	e.view.read(ctx, tx)
	e.chains, e.latestOfChains, e.counter = tx.HGetAll(ctx, e.p.chains()), tx.HGetAll(ctx, e.p.latestOfChains()), tx.Get(ctx, e.p.counter())
	e.format = tx.Get(ctx, e.p.format())
	tx.HLen(ctx, e.p.heard()) // read only to detect a wrong type
	e.blocked, e.noted = map[string]*redis.StringSliceCmd{}, map[string]*redis.IntCmd{}
	for _, route := range e.keys.routes {
		e.blocked[route] = tx.ZRange(ctx, e.p.blocked(route), 0, -1)
	}
	for _, run := range e.keys.runs {
		e.noted[run] = tx.HLen(ctx, e.p.stepData(run))
	}
}

// mentioned returns the runs and objects to which the values of the partition refer.
func (e *partitionState) mentioned() *keySet {
	k := e.found()
	k.names = append(k.names, sortedKeys(e.lastEnded())...)
	k.routes = append(k.routes, slices.Collect(maps.Keys(e.wakes.Val()))...)
	for run := range e.runs {
		m := e.metaOf(run)
		for _, one := range []struct {
			in   *[]string
			code string
		}{{&k.names, m["w"]}, {&k.routes, m["c"]}, {&k.sessions, ownerIn(m)}, {&k.runs, m["h"]}, {&k.groups, m["g"]}} {
			if one.code != "" {
				*one.in = append(*one.in, one.code)
			}
		}
	}
	return k
}

// metaOf returns the metadata of a run, even if the run is hidden. It is empty if the run has no
// metadata.
func (v *view) metaOf(run string) map[string]string {
	if m := v.runs[run].meta.Val(); len(m) > 0 {
		return m
	}
	return v.hidden[run].Val()
}

// extraOf returns the tags and the long workflow ID of a run. The result is empty if they cannot be
// decoded.
func (v *view) extraOf(run string) *extra {
	packed := v.metaOf(run)["i"]
	if packed == beside {
		packed = v.extras[run].Val()
	}
	if x, err := unpackExtra(packed); err == nil && packed != "" {
		return x
	}
	return &extra{}
}

// gone reports whether a run has neither metadata nor a log.
func (e *partitionState) gone(run string) bool {
	return len(e.metaOf(run)) == 0 && len(e.frames(run)) == 0
}

// route returns the route with the given code. If the name is unknown, the code takes its place.
func (e *partitionState) route(code string) store.Route {
	if name, ok := e.routes.Val()[code]; ok {
		return parseRoute(name)
	}
	if route, ok := e.s.names.route(code); ok {
		return route
	}
	return store.Route{Workflow: unnamed + code}
}

// session returns the session with the given code. If the ID is unknown, the code takes its place.
func (e *partitionState) session(code string) store.SessionID {
	if id := e.sessions[code].Val()["i"]; id != "" {
		return store.SessionID(id)
	}
	return store.SessionID(unnamed + code)
}

// unnamed is the prefix of a code that is shown instead of an unknown name.
const unnamed = "?"

// runOf builds the visible state of a run from the values of its keys.
func (e *partitionState) runOf(run string) *store.RunState {
	m := e.metaOf(run)
	r := &store.RunState{Record: store.Record{Run: long(run), Chain: long(run)}, Frames: e.frames(run)}
	if len(m) == 0 {
		r.Hidden = e.wasHidden(run)
	} else {
		r.Record = *known(long(run), m)
		r.Hidden = len(e.runs[run].meta.Val()) == 0
		r.Route, r.Incompatible = e.route(m["c"]), e.incompatible(m)
		if owner := ownerIn(m); owner != "" {
			r.Owner = e.session(owner)
		}
		e.extraOf(run).describe(&r.Record)
	}
	for _, packed := range e.runs[run].inbox.Val() {
		item, err := unpackItem(packed)
		if err != nil {
			item = store.Item{} // the item has no ID, so a repair removes it
		}
		r.Inbox = append(r.Inbox, item)
	}
	return r
}

// wasHidden reports whether a run without metadata was deleted before. Such a run waits for its
// purge and is not in the set of ended runs.
func (e *partitionState) wasHidden(run string) bool {
	if !slices.Contains(members(e.purges), run) && !slices.Contains(members(e.held), run) {
		return false
	}
	for key, set := range e.listed {
		if key[len(e.p.tag)] == 'f' && slices.Contains(members(set), run) {
			return false
		}
	}
	return true
}

// readLog is a log that was read before the other values of its partition.
type readLog struct {
	header string // header of the run, read together with the log
	frames [][]byte
}

// headerField is the metadata field of the header, which changes with each frame.
const headerField = "H"

// readLogs reads the logs of runs. It limits the number of logs in each transaction, so that no
// answer is too large. Logs are the largest part of a partition, so the transaction that reads
// everything else blocks the server only for a short time. readLogs omits a log that cannot be
// read, and the transaction for everything else includes it. outdated detects logs that have grown
// in between.
func (s *Store) readLogs(ctx context.Context, p *partition, runs []string) (map[string]*readLog, error) {
	logs := map[string]*readLog{}
	for some := range slices.Chunk(runs, readBatch) {
		sizes, err := s.headersOf(ctx, p, some)
		if err != nil {
			return nil, err
		}
		for len(some) > 0 {
			n, bytes := 1, unpackHeader(sizes[0]).bytes
			for n < len(some) && bytes <= large {
				bytes += unpackHeader(sizes[n]).bytes
				n++
			}
			if err := s.readSomeLogs(ctx, p, some[:n], logs); err != nil {
				return nil, err
			}
			some, sizes = some[n:], sizes[n:]
		}
	}
	return logs, nil
}

// headersOf returns the headers of runs, even if they are hidden. The header is empty if a run has
// none.
func (s *Store) headersOf(ctx context.Context, p *partition, runs []string) ([]string, error) {
	read := make([]headerReading, len(runs))
	err := s.transactionOf(ctx, p, func(tx redis.Pipeliner) {
		for i, run := range runs {
			read[i] = readHeader(ctx, tx, p, run)
		}
	})
	all := make([]string, len(runs))
	for i, r := range read {
		all[i] = r.header()
	}
	return all, err
}

// headerReading contains the pending reads of a header, for a visible and for a hidden run.
type headerReading struct{ seen, hidden *redis.StringCmd }

func readHeader(ctx context.Context, tx redis.Pipeliner, p *partition, run string) headerReading {
	return headerReading{tx.HGet(ctx, p.meta(run), headerField), tx.HGet(ctx, p.hidden(run), headerField)}
}

func (r headerReading) header() string { return cmp.Or(r.seen.Val(), r.hidden.Val()) }

func (s *Store) readSomeLogs(ctx context.Context, p *partition, runs []string, logs map[string]*readLog) error {
	headers, frames := make([]headerReading, len(runs)), make([]*redis.XMessageSliceCmd, len(runs))
	err := s.transactionOf(ctx, p, func(tx redis.Pipeliner) {
		for i, run := range runs {
			headers[i], frames[i] = readHeader(ctx, tx, p, run), tx.XRange(ctx, p.log(run), "-", "+")
		}
	})
	if err != nil {
		return err
	}
	for i, run := range runs {
		if header := headers[i].header(); header != "" && frames[i].Err() == nil {
			logs[run] = &readLog{header, framesOf(frames[i].Val())}
		}
	}
	return nil
}

// outdated returns the runs whose headers have changed since their logs were read, and drops these
// logs. Only a commit changes a log, and it changes the header in the same action. Therefore the
// log of a run with an unchanged header is current.
func (e *partitionState) outdated() map[string]bool {
	old := map[string]bool{}
	for run, l := range e.logs {
		if e.metaOf(run)[headerField] != l.header {
			old[run] = true
			delete(e.logs, run)
		}
	}
	return old
}

// frames returns the frames of the log of a run.
func (e *partitionState) frames(run string) [][]byte {
	if l := e.logs[run]; l != nil {
		return l.frames
	}
	if r := e.runs[run].frames; r != nil {
		return framesOf(r.Val())
	}
	return nil
}
