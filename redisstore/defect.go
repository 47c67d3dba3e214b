package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// swap is the replacement of one value in the database by another.
type swap struct {
	key, kind, field string
	seen, value      string // each is empty for a missing value
}

// Kinds of values, as named in the replace script.
const (
	inHash   = "hash"
	inZSet   = "zset"
	inString = "string"
	inStream = "stream" // seen is the first entry of the stream, value the first entry to keep
	wholeKey = "key"
	typeOf   = "type"   // seen is the wrong type of the key; the key is removed, and value is empty
	limits   = "limits" // all counters of limits and all limiter queues
)

// look adds the defects that a snapshot cannot represent.
func (e *partitionState) look() {
	for _, key := range sortedKeys(e.wrong) {
		e.repairable(store.Defect{
			Invariant: 16, What: fmt.Sprintf("key %s has type %s, which the store does not use for it: another program has overwritten it", key, e.wrong[key]),
			Explain: "operations on it fail, and its contents are lost",
		}, "remove it", swap{key: key, kind: typeOf, seen: e.wrong[key]})
	}
	e.lookAtSessions()
	e.lookAtNames()
	e.lookAtCounts()
	e.lookAtOutbox()
	e.lookAtStreams()
	e.lookAtLimits()
	e.examineCollecting()
	e.examineFailureGroups()
	e.lookAtEntries()
	for _, run := range sortedKeys(e.runs) {
		e.lookAtRun(run)
	}
	for _, name := range e.odd {
		f := store.Defect{Invariant: 16, What: "key " + e.p.tag + name + " is not known to this release", Explain: "nothing uses it"}
		if name == "y" || name == "-" {
			e.repairable(f, "remove it", swap{key: e.p.tag + name, kind: wholeKey})
			continue
		}
		e.defects = append(e.defects, f)
	}
}

// repairable adds a defect that is repaired by swaps. how describes the repair.
func (e *partitionState) repairable(f store.Defect, how string, swaps ...swap) {
	f.Repair, f.Do = how, func(ctx context.Context) (bool, error) { return e.swapAll(ctx, f.What, swaps) }
	e.defects = append(e.defects, f)
}

func (e *partitionState) lookAtSessions() {
	leased := map[string]bool{}
	for _, z := range e.leases.Val() {
		code, _ := z.Member.(string)
		leased[code] = true
		if e.sessions[code].Val()["i"] == "" {
			e.repairable(store.Defect{Invariant: 6, What: "a lease exists for session " + code + ", which does not exist", Explain: "its expiry would recover no run"},
				"remove it", swap{key: e.p.leases(), kind: inZSet, field: code, seen: strconv.FormatFloat(z.Score, 'f', -1, 64)})
		}
	}
	for _, code := range e.keys.sessions {
		m := e.sessions[code].Val()
		if m["i"] == "" || leased[code] {
			continue
		}
		ends := e.snap.Now.UnixMilli() + parseNumber(m["l"])
		e.repairable(store.Defect{Invariant: 6, What: fmt.Sprintf("session %s has no lease", m["i"]), Explain: "if its worker dies, its runs are not recovered"},
			"give it a lease, which its worker renews if it lives", swap{key: e.p.leases(), kind: inZSet, field: code, value: number(ends)})
	}
}

func (e *partitionState) lookAtNames() {
	for _, code := range e.keys.routes {
		route := e.route(code)
		if _, named := e.routes.Val()[code]; named || routeCode(route) != code {
			continue // the route has its name, or its name cannot be derived from its runs
		}
		e.repairable(store.Defect{Invariant: 16, What: fmt.Sprintf("route %v has lost its name", route), Explain: "its runs cannot be read"},
			"name it again", swap{key: e.p.routes(), kind: inHash, field: code, value: routeName(route)})
	}
	if len(e.latest.Val()) > 0 || e.unread != nil {
		return
	}
	var swaps []swap
	latest := map[string]event.RunID{}
	for _, run := range sortedKeys(e.runs) {
		r, wid := e.snap.Runs[long(run)], e.metaOf(run)["w"]
		if r == nil || wid == "" || r.QueueState != store.StateEnded || r.Hidden || r.Next != "" {
			continue // a run that has continued is not the last run of its workflow ID
		}
		if last := e.snap.Runs[latest[wid]]; last == nil || !r.EndedAt.Before(last.EndedAt) {
			latest[wid] = r.Run
		}
	}
	for _, wid := range sortedKeys(latest) {
		swaps = append(swaps, swap{key: e.p.latest(), kind: inHash, field: wid, value: short(latest[wid])})
	}
	if len(swaps) > 0 {
		e.repairable(store.Defect{Invariant: 9, What: "the last ended runs of workflow ids are not recorded", Explain: "a start is accepted although a finished run forbids it"},
			fmt.Sprintf("record them for %d workflow ids", len(swaps)), swaps...)
	}
}

func (e *partitionState) lookAtCounts() {
	greatest := int64(0)
	for _, code := range e.keys.routes {
		for _, member := range e.ready[code].Val() {
			order, err := strconv.ParseInt(member[:min(orderDigits, len(member))], 16, 64)
			if err == nil {
				greatest = max(greatest, order)
			}
		}
	}
	greatest = max(greatest, e.lastSent())
	if seen := e.counter.Val(); parseNumber(seen) < greatest {
		e.repairable(store.Defect{Invariant: 5, What: fmt.Sprintf("the counter of ready runs and records is %q, but one of them has %d", seen, greatest), Explain: "later entries are taken first"},
			"set it to the highest assigned number", swap{key: e.p.counter(), kind: inString, seen: seen, value: number(greatest)})
	}
	if e.p.number == 0 && e.format.Val() == "" {
		e.repairable(store.Defect{Invariant: 16, What: "the store has no record of its format", Explain: "it could be opened with another number of partitions"},
			"record it", swap{key: e.p.format(), kind: inString, value: e.s.mark()})
	}
	e.lookAtChains()
}

// lookAtChains compares the recorded number of later runs of each chain with the runs themselves.
func (e *partitionState) lookAtChains() {
	if e.unread != nil {
		return // runs that could not be read would be missing from the count
	}
	counted, last := map[string]int64{}, map[string]*store.RunState{}
	for run := range e.runs {
		switch m := e.metaOf(run); {
		case len(m) == 0 && !e.gone(run):
			return // this run may belong to a chain, so no count is reliable until the run is repaired
		case m["h"] != "":
			counted[m["h"]]++
		}
		r := e.snap.Runs[long(run)]
		if hasLeftItsChain(r) {
			return // this run belongs to another chain after its repair, so no count is reliable
		}
		if r != nil && r.Next == "" && newer(r, last[short(r.Chain)]) {
			last[short(r.Chain)] = r
		}
	}
	chains := map[string]bool{}
	for _, all := range [][]string{sortedKeys(counted), sortedKeys(e.chains.Val()), sortedKeys(e.latestOfChains.Val())} {
		for _, chain := range all {
			chains[chain] = true
		}
	}
	for _, chain := range sortedKeys(chains) {
		e.lookAtLatest(chain, counted[chain] > 0, last[chain])
		seen, n := e.chains.Val()[chain], counted[chain]
		if parseNumber(seen) == n {
			continue
		}
		s := swap{key: e.p.chains(), kind: inHash, field: chain, seen: seen}
		if n > 0 {
			s.value = number(n)
		}
		e.repairable(store.Defect{Invariant: 16, What: fmt.Sprintf("the chain of %s counts %q later runs, but has %d", long(chain), seen, n),
			Explain: "accepted items are forgotten too early, or never"}, "count them again", s)
	}
}

// newer reports whether run a of a chain comes after run b. If both were created in the same
// millisecond, the first run of the chain comes before the other.
func newer(a, b *store.RunState) bool {
	if b != nil && a.CreatedAt.Equal(b.CreatedAt) && (a.Run == a.Chain) != (b.Run == b.Chain) {
		return b.Run == b.Chain
	}
	return b == nil || cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Run, b.Run)) > 0
}

// hasLeftItsChain reports whether the metadata of a run names the run as the first of a chain
// although its log continues another run. Until the metadata is repaired, the chain must not be
// repaired, because it would be wrong afterwards.
func hasLeftItsChain(r *store.RunState) bool {
	if r == nil || r.Chain != r.Run || len(r.Frames) == 0 {
		return false
	}
	f, err := event.DecodeFrame(r.Frames[0])
	return err == nil && f.Events[0].Spec != nil && f.Events[0].Spec.ContinuedOf != ""
}

// lookAtLatest compares the recorded latest run of a chain with last, the newest run of the chain
// that has not continued. more reports whether the chain has later runs; last is nil if no such run
// is left.
func (e *partitionState) lookAtLatest(chain string, more bool, last *store.RunState) {
	seen := e.latestOfChains.Val()[chain]
	s := swap{key: e.p.latestOfChains(), kind: inHash, field: chain, seen: seen}
	if more && last != nil {
		s.value = short(last.Run)
	}
	if s.value == seen || more && last == nil && e.snap.Runs[long(seen)] == nil {
		return
	}
	e.repairable(store.Defect{Invariant: 11, What: fmt.Sprintf("the recorded last run of the chain of %s is %q, want %q", long(chain), long(seen), long(s.value)),
		Explain: "items for the chain are delivered to the wrong run"}, "write it again", s)
}

// lookAtRun finds the defects in the keys and indexes of a run that a snapshot does not contain.
// They are repaired together with the run.
func (e *partitionState) lookAtRun(run string) {
	found := func(invariant int, what, explain string) {
		e.defects = append(e.defects, store.Defect{Invariant: invariant, Run: long(run), What: what, Explain: explain})
	}
	r := e.snap.Runs[long(run)]
	in := map[string]int{}
	var blocked []string
	for _, at := range e.entries[run] {
		in[at.key]++
		if at.key[len(e.p.tag)] == 'b' {
			blocked = append(blocked, at.key+" "+at.member)
		}
	}
	listed := e.listedAs(run)
	switch {
	case r == nil && (len(listed) > 0 || len(blocked) > 0 || e.noted[run].Val() > 0 || e.extras[run].Val() != "" || len(e.runs[run].inbox.Val()) > 0 || len(e.groupsOf(run)) > 0):
		found(16, "it does not exist, but data is stored under its id", "it is never cleaned up")
		return
	case r == nil || r.QueueState == 0:
		return // package fsck reports this defect for all stores
	}
	ended := r.QueueState == store.StateEnded
	if want := e.wantedIn(run, r); !slices.Equal(listed, want) {
		found(8, fmt.Sprintf("it is %s and %s, and listed in %q instead of %q", r.QueueState, r.Status, listed, want), "it is not listed, or listed for ever, and counted wrongly")
	}
	if at := e.indexed[run]; slices.ContainsFunc(at, func(i indexed) bool { return i.created != r.CreatedAt.UnixMilli() }) {
		found(8, fmt.Sprintf("it was created at %d, but lists have it at %d", r.CreatedAt.UnixMilli(), at[0].created), "it is not found by its time of creation, and pages skip or repeat it")
	}
	if purged, held := in[e.p.purges()] > 0, e.heldBack(run); ended && (purged == held || (in[e.p.held()] > 0) != held) {
		found(8, fmt.Sprintf("it is due to be purged: %v, and still needed: %v", purged, held), "it is purged too early, or never")
	}
	var want []string
	if m := e.metaOf(run); r.QueueState == store.StateBlocked {
		want = []string{e.p.blocked(m["c"]) + " " + m["F"] + " " + run}
	}
	if !slices.Equal(blocked, want) {
		found(5, fmt.Sprintf("it is %s, and among the blocked runs as %q", r.QueueState, blocked), "it is never retried, or retried while a worker owns it")
	}
	if ended && e.noted[run].Val() > 0 {
		found(8, "it has ended and still has step data", "the data is not used")
	}
	e.lookAtHeader(run, r, found)
	if r.Group != "" {
		e.lookAtPlaces(run, r, found)
	}
	if e.misplaced[run] {
		found(25, fmt.Sprintf("it was created at %d, and a set of one of its labels has it at another time", r.CreatedAt.UnixMilli()), "pages of these lists skip or repeat it")
	}
	if r.Status == "" {
		found(4, "it has no status", "it is not found by its status")
	}
	if beside := e.metaOf(run)["i"] == beside; beside != (e.extras[run].Val() != "") {
		found(4, fmt.Sprintf("its tags are stored in a key of their own: %v, and this key exists: %v", beside, !beside), "it cannot be read")
	}
}

// listedAs returns the keys of the sets of open and ended runs that contain the given run.
func (e *partitionState) listedAs(run string) (keys []string) {
	for _, at := range e.entries[run] {
		if e.listed[at.key] != nil {
			keys = append(keys, at.key)
		}
	}
	slices.Sort(keys)
	return keys
}

// wantedIn returns the sets of open and ended runs that should contain a run.
func (e *partitionState) wantedIn(run string, r *store.RunState) []string {
	m := e.metaOf(run)
	switch child := m["u"] != ""; {
	case r.Hidden:
		return nil
	case r.QueueState == store.StateEnded:
		return []string{e.p.doneRuns(m["c"], child, outcomeOf(r.Status))}
	default:
		return []string{e.p.openRuns(m["c"], child)}
	}
}

// lookAtHeader reports differences between the header of a run and the state of the run.
func (e *partitionState) lookAtHeader(run string, r *store.RunState, found func(invariant int, what, explain string)) {
	m := e.metaOf(run)
	h, items := unpackHeader(m["H"]), len(e.runs[run].inbox.Val())
	if h.wid != digestOf(r.WorkflowID) {
		found(4, fmt.Sprintf("its header requires another workflow id than %q in commits", r.WorkflowID), "no worker can commit to it")
	}
	if unread := h.flags&hasUnread != 0; unread != (items > 0) {
		found(6, fmt.Sprintf("its metadata records unread items: %v, and its inbox has %d", unread, items), "what was sent to it is not read")
	}
	if limited := h.flags&isLimited != 0; limited != (r.Uses != nil || r.Fair != "") {
		found(4, fmt.Sprintf("its header records limits or a fairness key: %v, and these are %q and %q", limited, usesIn(m), m["f"]), "it takes permits that it does not need, or none")
	}
	if ended := r.QueueState == store.StateEnded; !ended && r.Group != "" && h.flags&hasRest == 0 {
		found(4, "it is in a failure group, but its header records no work at its end", "it stays in the group when it ends")
	}
	if keeps := h.flags&hasRetention != 0; keeps != (m["j"] != "") {
		found(4, fmt.Sprintf("its header records a retention of its own: %v, and this is %q ms", keeps, m["j"]), "it is purged too early, or too late")
	}
}

// swapAll replaces wrong values, one after the other. It reports whether this call replaced the
// last value, so only one of several concurrent repairs returns true.
func (e *partitionState) swapAll(ctx context.Context, what string, swaps []swap) (repaired bool, err error) {
	for _, w := range swaps {
		if repaired, err = e.replace(ctx, w); err != nil {
			return false, fmt.Errorf("repair %s: %w", what, err)
		}
	}
	return repaired, nil
}

// replace replaces a value if it has not changed since it was read. It reports whether it did.
func (e *partitionState) replace(ctx context.Context, w swap) (bool, error) {
	if w.kind == limits {
		return e.repairLimits(ctx)
	}
	if w.kind == wholeKey {
		n, err := e.s.client.Del(ctx, w.key).Result()
		return n > 0, e.s.explain(ctx, err)
	}
	c := &call{script: scriptReplace, p: e.p, keys: []string{w.key}, args: []any{w.kind, w.field, w.seen, w.value}}
	err := e.s.do(ctx, c)
	return c.answer().word() == answerOK, err
}

func sorted(all []string) []string {
	all = slices.Clone(all)
	slices.Sort(all)
	return all
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// showSent adds the outbox records to the snapshot, in the order in which they were written. A
// record whose state is missing has no phase and is sorted to the end.
func (e *partitionState) showSent() {
	type placed struct {
		order  string
		record store.Outgoing
	}
	var all []placed
	for _, run := range e.judged(sortedKeys(e.sent)) {
		ids := map[string]bool{}
		for _, of := range []map[string]string{e.sent[run].Val(), e.bodies[run].Val()} {
			for id := range of {
				ids[id] = true
			}
		}
		for _, id := range sortedKeys(ids) {
			order, record, ok := unpackSent(e.sent[run].Val()[id])
			if !ok {
				order = unplaced
			}
			record.From, record.ID, record.Body = long(run), event.ItemID(id), []byte(e.bodies[run].Val()[id])
			all = append(all, placed{order, record})
		}
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(a.order, b.order) })
	for _, one := range all {
		e.snap.Outbox = append(e.snap.Outbox, one.record)
	}
}

// unplaced is the order of a record without a position. It sorts after all positions.
const unplaced = "~"

// heldBack reports whether an ended run must not be purged, however long ago it ended. The purge
// script applies the same rule.
func (e *partitionState) heldBack(run string) bool {
	return e.metaOf(run)["B"] != "" || len(e.sent[run].Val()) > 0 || e.chains.Val()[run] != "" || e.remembers(run)
}

// remembers reports whether the ID of an accepted item is kept under the run until Confirm.
func (e *partitionState) remembers(run string) bool {
	seen := e.seen[run]
	return seen != nil && slices.ContainsFunc(seen.Val(), func(z redis.Z) bool { return z.Score >= kept })
}

// lastSent returns the greatest position of an outbox record.
func (e *partitionState) lastSent() int64 {
	greatest := int64(0)
	for _, sent := range e.sent {
		for _, packed := range sent.Val() {
			if order, _, ok := unpackSent(packed); ok {
				n, err := strconv.ParseInt(order, 16, 64)
				if err == nil {
					greatest = max(greatest, n)
				}
			}
		}
	}
	return greatest
}

// lookAtOutbox reports outbox records whose due time does not correspond to their phase.
func (e *partitionState) lookAtOutbox() {
	due := map[string]string{} // due time by member of the set
	for _, run := range e.judged(sortedKeys(e.sent)) {
		for id, packed := range e.sent[run].Val() {
			order, o, ok := unpackSent(packed)
			if !ok {
				continue
			}
			at := "1"
			if o.Phase != store.PhaseFresh {
				at = number(millis(o.Since) + store.Horizon.Milliseconds())
			}
			due[order+run+id] = at
		}
	}
	seen := map[string]string{}
	for _, z := range e.outbox.Val() {
		member, _ := z.Member.(string)
		if len(member) < orderDigits+runDigits || !e.unread[member[orderDigits:orderDigits+runDigits]] {
			seen[member] = strconv.FormatFloat(z.Score, 'f', -1, 64)
		}
	}
	for _, member := range slices.Compact(sorted(slices.Concat(sortedKeys(due), sortedKeys(seen)))) {
		if due[member] == seen[member] {
			continue
		}
		f := store.Defect{Invariant: 12, What: fmt.Sprintf("the timer of record %q is set to %q, want %q", member, due[member], seen[member]),
			Explain: "operations that a run has begun are performed at the wrong time, or never"}
		e.repairable(f, "write it again", swap{key: e.p.outbox(), kind: inZSet, field: member, seen: seen[member], value: due[member]})
	}
}

// scanStreams adds the streams with a consistent state to the snapshot. It also adds the streams of
// chains that do not exist, which fsck reports as a defect.
func (e *partitionState) scanStreams() {
	for _, stream := range e.keys.streams {
		chain, name, _ := strings.Cut(stream, ":")
		if e.unread[chain] || e.streams[chain] == nil {
			continue
		}
		packed := e.streams[chain].Val()[name]
		state, err := unpackStream(packed)
		switch {
		case !e.hasRuns(chain):
			e.showStream(e.snap, chain, name, store.StreamState{Last: state.last})
		case err == nil && packed != "" && packed == e.counted(stream, state):
			chunks, _ := chunksIn(e.chunks[stream].Val()) // cannot fail, because counted has decoded the same chunks
			e.showStream(e.snap, chain, name, store.StreamState{Chunks: chunks, Last: state.last, Closed: state.closed})
		}
	}
}

// hasRuns reports whether any run of the chain exists.
func (e *partitionState) hasRuns(chain string) bool {
	if e.snap.Runs[long(chain)] != nil {
		return true
	}
	for _, r := range e.snap.Runs {
		if short(r.Chain) == chain {
			return true
		}
	}
	return false
}

// counted returns the packed state of a stream as it follows from its chunks. Only the chunks after
// the last gap count. If there are no chunks, the next chunk has the index after the last one of
// the stored state. The result is empty if the stream does not exist.
func (e *partitionState) counted(stream string, seen streamState) string {
	chunks, _ := chunksIn(e.chunks[stream].Val())
	if len(chunks) == 0 {
		seen.first = seen.last + 1
		if seen == (streamState{first: 1}) {
			return ""
		}
		return seen.pack()
	}
	for i, c := range chunks {
		if i == 0 || c.Index != seen.last+1 {
			seen.first = c.Index
		}
		seen.last, seen.longest = c.Index, max(seen.longest, uint64(len(c.Body)))
	}
	return seen.pack()
}

// lookAtStreams compares the stored state of each stream with its chunks.
func (e *partitionState) lookAtStreams() {
	for _, stream := range e.keys.streams {
		chain, name, _ := strings.Cut(stream, ":")
		if e.unread[chain] || !e.hasRuns(chain) {
			continue
		}
		if _, shown := e.snap.Streams[long(chain)][name]; shown {
			continue
		}
		packed := e.streams[chain].Val()[name]
		state, _ := unpackStream(packed) // an invalid state is replaced
		want := e.counted(stream, state)
		what := fmt.Sprintf("stream %q of the chain of %s", name, long(chain))
		if want == "" && packed == "" {
			e.repairable(store.Defect{Invariant: 16, What: what + " has writers, and has never been written to", Explain: "they are never cleaned up"},
				"remove them", swap{key: e.p.writers(chain, name), kind: wholeKey})
			continue
		}
		// The stored state is replaced last. If that fails, the next examination finds the damage.
		var swaps []swap
		chunks := e.chunks[stream].Val()
		if now, _ := unpackStream(want); len(chunks) > 0 && chunks[0].ID != chunkID(now.first) {
			swaps = append(swaps, swap{key: e.p.chunks(chain, name), kind: inStream, seen: chunks[0].ID, value: chunkID(now.first)})
		}
		swaps = append(swaps, swap{key: e.p.streams(chain), kind: inHash, field: name, seen: packed, value: want})
		e.repairable(store.Defect{Invariant: 18, What: fmt.Sprintf("the record of %s is %q, want %q", what, packed, want),
			Explain: "readers miss chunks, or wait for some that exist"}, "keep the chunks after the last gap, and count them", swaps...)
	}
}

// keysOfStreams returns the keys of all streams of a chain.
func (e *partitionState) keysOfStreams(chain string) []string {
	keys := []string{e.p.streams(chain)}
	for _, stream := range e.keys.streams {
		if of, name, _ := strings.Cut(stream, ":"); of == chain {
			keys = append(keys, e.p.chunks(chain, name), e.p.writers(chain, name))
		}
	}
	return keys
}
