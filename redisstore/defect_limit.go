package redisstore

import (
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // scripts name lines by it
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// showWaiting adds the limits and the limiter queues to the snapshot. It leaves out values that
// cannot be decoded, which lookAtLimits reports.
func (e *partitionState) showWaiting() {
	_ = e.s.showLimits(e.view, e.snap, e.route)
	for i := range e.snap.Waiting {
		l := &e.snap.Waiting[i]
		l.Runs = slices.DeleteFunc(l.Runs, func(run event.RunID) bool { return e.unread[short(run)] })
	}
	for _, line := range e.keys.waiting {
		for _, member := range members(e.waiting[line]) {
			if run := member[min(orderDigits, len(member)):]; !e.unread[run] {
				e.at(run, e.p.waiting(line), member)
			}
		}
	}
	if e.unread == nil {
		return
	}
	// The stored counters include the permits of excluded runs. They are replaced by the sums of
	// the included runs, so that the snapshot is consistent. The sums do not determine whether a
	// limit has free capacity, which package fsck does not check in this case.
	counted := e.countedByRuns()
	for id, l := range e.snap.Limits {
		l.Held, l.Waits = counted[id].held, counted[id].waits
		e.snap.Limits[id] = l
	}
	e.snap.FairKeys = e.flowsByRuns()
}

type weights struct{ held, waits int }

// countedByRuns returns the weights that the runs hold and wait for.
func (e *partitionState) countedByRuns() map[store.LimitID]weights {
	counted := map[store.LimitID]weights{}
	for _, r := range e.snap.Runs {
		for _, u := range r.Uses {
			n := counted[u.LimitID]
			switch {
			case r.Permits:
				n.held += u.Weight
			case r.Waits():
				n.waits += u.Weight
			}
			counted[u.LimitID] = n
		}
	}
	return counted
}

// lineIDOf returns the ID of the limiter queue in which a run waits. It derives the ID from the
// metadata of the run.
func lineIDOf(m map[string]string) string {
	sum := sha1.Sum([]byte(m["c"] + usesIn(m))) //nolint:gosec // scripts name lines by it
	return hex.EncodeToString(sum[:])
}

// lookAtLimits compares the counters of limits and the limiter queues with the runs. It also
// reports configurations that cannot be decoded.
func (e *partitionState) lookAtLimits() {
	for _, field := range sortedKeys(e.configs.Val()) {
		packed := e.configs.Val()[field]
		if json.Unmarshal([]byte(packed), &packedConfig{}) != nil {
			name, key, _ := strings.Cut(field[min(1, len(field)):], "\x00")
			e.defects = append(e.defects, store.Defect{
				Invariant: 20, What: fmt.Sprintf("limit %s is configured as %q, which cannot be read", store.LimitID{Name: name, Key: key}, packed),
				Explain: "it bounds nothing until it is set or reset: its configuration is not stored anywhere else",
			})
		}
	}
	if e.unread != nil {
		return // runs that could not be read would be missing from the counts
	}
	what := cmp.Or(e.wrongCount(), e.wrongQueue(), e.wrongFairKey())
	if what != "" {
		e.repairable(store.Defect{Invariant: 20, What: what, Explain: "runs that use limits begin too early, too late, or never"},
			"count the permits and rebuild the limiter queues from the runs", swap{kind: limits})
	}
}

// wrongCount describes a wrong counter of a limit. It returns an empty string if there is none.
func (e *partitionState) wrongCount() string {
	runs := e.countedByRuns()
	ids := slices.Collect(maps.Keys(runs))
	for id, packed := range e.limits.Val() {
		name, key, _ := strings.Cut(id, "\x00")
		ids = append(ids, store.LimitID{Name: name, Key: key})
		var held, waits int
		var tat int64
		if n, _ := fmt.Sscan(packed, &held, &waits, &tat); n != 3 {
			return fmt.Sprintf("the counter of limit %s is %q", store.LimitID{Name: name, Key: key}, packed)
		}
	}
	slices.SortFunc(ids, compareLimits)
	for _, id := range ids {
		if l, n := e.snap.Limits[id], runs[id]; l.Held != n.held || l.Waits != n.waits {
			return fmt.Sprintf("limit %s counts a weight of %d as held and %d as waiting, its runs have %d and %d", id, l.Held, l.Waits, n.held, n.waits)
		}
	}
	return e.wrongAway()
}

// wrongAway describes a wrong value in hash F: the weight of the runs that wait for another limit
// first, which follows from the limiter queues. It returns an empty string if there is none.
func (e *partitionState) wrongAway() string {
	want := map[string]string{}
	away := map[string]int{}
	for i := range e.snap.Waiting {
		l := &e.snap.Waiting[i]
		for n, u := range l.Uses {
			if l.Closed && !u.Local && l.Stands>>n&1 == 0 {
				away[u.Name+"\x00"+u.Key] += u.Weight * len(l.Runs)
			}
		}
	}
	for part, weights := range away {
		want[part] = strconv.Itoa(weights)
	}
	for field, got := range e.standing.Val() {
		switch line := e.limiterQueues.Val()[field]; {
		case strings.Contains(field, "\x00") && got != want[field]:
			return fmt.Sprintf("limit %q counts a weight of %s as waiting for another limit first, the limiter queues have %q", field, got, want[field])
		case !strings.Contains(field, "\x00") && (line == "" || strings.HasPrefix(line, lineOpen)):
			return fmt.Sprintf("limiter queue %s is not closed, but counts at %q", field, got)
		}
		delete(want, field)
	}
	for field, weights := range want {
		return fmt.Sprintf("limit %q counts no weight as waiting for another limit first, the limiter queues have %s", field, weights)
	}
	return ""
}

// wrongQueue describes a defect of the limiter queues, and returns an empty string if there is
// none. A correct queue contains exactly its runs, the position of its first run, and the entries
// that its mode requires.
func (e *partitionState) wrongQueue() string {
	want := map[entry]int64{} // required entries with their scores
	turns := map[string]limiterQueue{}
	for run, r := range e.runs {
		m := r.meta.Val()
		known := e.snap.Runs[long(run)]
		if known == nil || !known.Waits() || len(m) == 0 {
			continue
		}
		id, score, place := lineIDOf(m), -int64(known.Priority), placeIn(m["V"])
		want[entry{e.p.waiting(id), place + run}] = score
		if first, ok := turns[id]; !ok || score < first.score || score == first.score && place < first.place {
			turns[id] = limiterQueue{id: id, score: score, place: place, route: m["c"]}
		}
	}
	for _, id := range sortedKeys(e.limiterQueues.Val()) {
		l, ok := unpackQueue(id, e.limiterQueues.Val()[id], e.standing.Val()[id])
		if turn := turns[id]; !ok || turn.id == "" || l.score != turn.score || l.place != turn.place || l.route != turn.route {
			return fmt.Sprintf("the record of limiter queue %s is %q, but its first run has position %d %s", id, e.limiterQueues.Val()[id], turn.score, turn.place)
		}
		delete(turns, id)
		if l.mode != queueClosed {
			want[entry{e.p.ready(l.route), l.place + lineMark + id}] = l.score
		}
		for i, u := range l.uses {
			counts := l.stands>>i&1 == 1
			if l.mode != lineOpen && !counts {
				want[entry{e.p.away(u.Name + "\x00" + u.Key), l.place + l.mode + id}] = l.score
			}
			if counts {
				want[entry{e.p.kept(u.Name + "\x00" + u.Key), l.place + l.mode + id}] = l.score
			}
			if counts && u.Nested {
				want[entry{e.p.kept(u.Name + "\x00" + u.Key + "\x00"), l.place + l.mode + id}] = l.score
			}
		}
		if l.until > 0 {
			want[entry{e.p.timers(), lineMark + id}] = l.until
		}
	}
	for _, id := range sortedKeys(turns) {
		return fmt.Sprintf("limiter queue %s has no record", id)
	}
	for _, at := range e.ofQueues() {
		if score, ok := want[at.entry]; !ok || at.score != anyScore && score != at.score {
			return fmt.Sprintf("%q is in key %s, but must not be", at.member, at.key)
		}
		delete(want, at.entry)
	}
	for at := range want {
		return fmt.Sprintf("%q is missing in key %s", at.member, at.key)
	}
	return ""
}

// scored is an entry of a sorted set with its score.
type scored struct {
	entry

	score int64
}

// anyScore marks an entry whose score was not read. Ready runs are read in order and without
// scores.
const anyScore = -1 << 62

// ofQueues returns all entries of limiter queues in other sets, and the runs in the limiter queues.
func (e *partitionState) ofQueues() (all []scored) {
	for _, code := range e.keys.routes {
		for _, member := range e.ready[code].Val() {
			if isLine(member) {
				all = append(all, scored{entry{e.p.ready(code), member}, anyScore})
			}
		}
	}
	for _, z := range e.timers.Val() {
		if member, _ := z.Member.(string); strings.HasPrefix(member, lineMark) {
			all = append(all, scored{entry{e.p.timers(), member}, int64(z.Score)})
		}
	}
	for _, id := range e.keys.waiting {
		for _, z := range e.waiting[id].Val() {
			member, _ := z.Member.(string)
			all = append(all, scored{entry{e.p.waiting(id), member}, int64(z.Score)})
		}
	}
	for _, use := range e.keys.kept {
		for _, z := range e.kept[use].Val() {
			member, _ := z.Member.(string)
			all = append(all, scored{entry{e.p.kept(use), member}, int64(z.Score)})
		}
	}
	return all
}

// repairLimits counts the permits and rebuilds the limiter queues from the runs.
func (e *partitionState) repairLimits(ctx context.Context) (bool, error) {
	keys := []string{e.p.routes(), e.p.limits(), e.p.limiterQueues(), e.p.fairKeys()}
	for _, id := range e.keys.waiting {
		keys = append(keys, e.p.waiting(id))
	}
	for _, use := range e.keys.kept {
		keys = append(keys, e.p.kept(use))
	}
	for _, fairKey := range e.keys.fairKeys {
		keys = append(keys, e.p.passes(fairKey))
	}
	var entries []any
	for _, at := range e.ofQueues() {
		if letter := at.key[len(e.p.tag)]; letter == 'r' || letter == 't' {
			entries = append(entries, at.key, at.member)
		}
	}
	args := slices.Concat([]any{e.s.at(), len(keys) - 4, len(entries) / 2}, entries)
	for _, run := range sortedKeys(e.runs) {
		if r := e.snap.Runs[long(run)]; r != nil && (len(r.Uses) > 0 || r.Fair != "") && r.QueueState != store.StateEnded {
			args = append(args, run)
		}
	}
	c := &call{script: scriptRepairLimits, p: e.p, keys: keys, args: args}
	err := e.s.do(ctx, c)
	return c.answer().word() == answerOK, err
}
