package redisstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/store"
)

var (
	_ store.Limiter    = (*Store)(nil)
	_ store.TurnReader = (*Store)(nil)
)

// lineMark is the prefix of a limiter queue among the members of a ready set. The other members are
// runs.
const lineMark = "~"

// isLine reports whether a member of a ready set is a limiter queue.
func isLine(member string) bool {
	return len(member) > orderDigits && strings.HasPrefix(member[orderDigits:], lineMark)
}

// packUses encodes the uses of a run in the form that scripts read.
func packUses(uses []store.Use) string {
	packed := make([][]any, len(uses))
	for i, u := range uses {
		packed[i] = []any{u.Name, u.Key, u.Weight}
		switch nested := 0; {
		case u.Nested:
			nested = 1
			fallthrough
		case u.Local:
			packed[i] = append(packed[i], nested)
		}
		if u.Local {
			packed[i] = append(packed[i], 1)
		}
	}
	b, _ := json.Marshal(packed) // cannot fail for strings and numbers
	return string(b)
}

// usesFields are the metadata fields that contain the packed uses of a run, in pieces of at most
// widLimit bytes. A longer value would change the encoding of the hash to one that takes four times
// the memory. Only the last piece may be longer.
var usesFields = [...]string{"U", "U1", "U2", "U3"}

// piecesOf yields the pieces of packed uses, each with the name of its field.
func piecesOf(packed string) iter.Seq2[string, string] {
	return func(yield func(field, piece string) bool) {
		for i, field := range usesFields {
			n := min(len(packed), widLimit)
			if i == len(usesFields)-1 {
				n = len(packed)
			}
			if n == 0 || !yield(field, packed[:n]) {
				return
			}
			packed = packed[n:]
		}
	}
}

// usesIn returns the packed uses from the metadata of a run.
func usesIn(m map[string]string) (packed string) {
	for _, field := range usesFields {
		packed += m[field]
	}
	return packed
}

// unpackUses decodes the result of packUses. It returns nil if text is invalid.
func unpackUses(text string) []store.Use {
	var packed [][]json.RawMessage
	if json.Unmarshal([]byte(text), &packed) != nil {
		return nil
	}
	uses := make([]store.Use, len(packed))
	for i, p := range packed {
		if len(p) < 3 || len(p) > 5 {
			return nil
		}
		uses[i].Nested, uses[i].Local = len(p) > 3 && string(p[3]) == "1", len(p) == 5
		if errors.Join(json.Unmarshal(p[0], &uses[i].Name), json.Unmarshal(p[1], &uses[i].Key), json.Unmarshal(p[2], &uses[i].Weight)) != nil {
			return nil
		}
	}
	return uses
}

// packPermits encodes the first three digits of field V. They report whether the run has its
// permits, whether it keeps them until its end, and whether it has left its limiter queue without
// permits.
func packPermits(permits, whole, leftQueue bool) string {
	b := []byte("000")
	for i, set := range []bool{permits, whole, leftQueue} {
		if set {
			b[i] = '1'
		}
	}
	return string(b)
}

func unpackPermits(v string) (permits, whole, leftQueue bool) {
	return strings.HasPrefix(v, "1"), len(v) > 1 && v[1] == '1', len(v) > 2 && v[2] == '1'
}

// placeIn returns the position of a waiting run in its limiter queue, from field V. waitsSince
// returns the time at which the run began to wait.
func placeIn(v string) string { return v[min(3, len(v)):min(3+orderDigits, len(v))] }

func waitsSince(v string) time.Time { return timeOf(parseNumber(v[min(3+orderDigits, len(v)):])) }

// packedConfig is a configuration with the derived numbers that the scripts use.
type packedConfig struct {
	store.LimitConfig
	Interval int64 `json:"i"` // microseconds between two permits of weight 1; 0 without a rate
	Burst    int   `json:"b"`
}

// SetLimits stores configurations of limits.
func (s *Store) SetLimits(ctx context.Context, partition int, set []store.SetLimit) error {
	p, err := s.enterPartition(ctx, partition)
	for i := range set {
		err = cmp.Or(err, set[i].Check())
	}
	if err != nil {
		return fmt.Errorf("set limits: %w", err)
	}
	for i := range set {
		l, field, packed := &set[i], "s", ""
		if l.Default && !l.Reset {
			field = "c"
		}
		if !l.Reset {
			c := packedConfig{LimitConfig: l.Config, Burst: l.Config.Bursts()}
			if l.Config.Rate > 0 {
				c.Interval = l.Config.Interval().Microseconds()
			}
			b, err := json.Marshal(c)
			if err != nil {
				return fmt.Errorf("set limit %s: %w", l.LimitID, err)
			}
			packed = string(b)
		}
		pause := "" // a set configuration contains the pause itself
		switch {
		case l.PauseOnly && l.Config.Paused:
			pause = "p"
		case l.PauseOnly:
			pause = "r"
		case l.KeepPause:
			pause = "k"
		}
		for goOn := []any{"", "", "", ""}; goOn != nil; {
			c := &call{script: scriptSetLimit, p: p, keys: []string{p.limitConfigs()}, args: append([]any{s.at(), l.Name, l.Key, field, packed, setLimitQueues, pause}, goOn...)}
			if err := s.do(ctx, c); err != nil {
				return fmt.Errorf("set limit %s: %w", l.LimitID, err)
			}
			goOn = nil
			if a := c.answer(); a.number(0) == 1 {
				goOn = []any{"1", a.text(1), a.text(2), a.text(3)}
			}
		}
	}
	return nil
}

// setLimitQueues is the number of limiter queues that one execution of the set_limit script visits.
// The server executes no other command during a script, so the number is bounded.
const setLimitQueues = 500

// Limits returns at most limit parts of limits, in the order of name and key, beginning after the
// given part.
func (s *Store) Limits(ctx context.Context, partition int, after store.LimitID, limit int) ([]store.LimitState, error) {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return nil, fmt.Errorf("list limits: %w", err)
	}
	var counts, configs, standing *redis.MapStringStringCmd
	err = s.transaction(ctx, p, func(tx redis.Pipeliner) {
		counts, configs = tx.HGetAll(ctx, p.limits()), tx.HGetAll(ctx, p.limitConfigs())
		standing = tx.HGetAll(ctx, p.standing())
	})
	if err != nil {
		return nil, fmt.Errorf("list limits: %w", err)
	}
	all, err := s.limitStates(counts.Val(), configs.Val(), standing.Val(), after, cmp.Or(max(limit, 0), 100))
	if err != nil {
		return nil, fmt.Errorf("list limits: %w", err)
	}
	return all, nil
}

// Turns returns the states of the given parts of limits, with the next run of each part. It reads
// the parts in one transaction. In a second transaction it reads the first run of the first limiter
// queue of each part.
func (s *Store) Turns(ctx context.Context, partition int, ids []store.LimitID) ([]store.Turn, error) {
	all, err := s.turns(ctx, partition, ids)
	if err != nil {
		return nil, fmt.Errorf("read positions in limiter queues: %w", err)
	}
	return all, nil
}

func (s *Store) turns(ctx context.Context, partition int, ids []store.LimitID) ([]store.Turn, error) {
	p, err := s.enterPartition(ctx, partition)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	var parts, fields []string
	for _, id := range ids {
		part, all := id.Name+"\x00"+id.Key, id.Name+"\x00"
		parts, fields = append(parts, part), append(fields, "s"+part, "s"+all, "c"+all)
	}
	var counts, configs, standing *redis.SliceCmd
	kept, first := make([]*redis.StringSliceCmd, len(ids)), make([]*redis.StringSliceCmd, len(ids))
	err = s.transaction(ctx, p, func(tx redis.Pipeliner) {
		counts, configs = tx.HMGet(ctx, p.limits(), parts...), tx.HMGet(ctx, p.limitConfigs(), fields...)
		standing = tx.HMGet(ctx, p.standing(), parts...)
		for i, part := range parts {
			kept[i] = tx.ZRange(ctx, p.kept(part), 0, 0)
		}
	})
	if err != nil {
		return nil, err
	}
	err = s.transaction(ctx, p, func(tx redis.Pipeliner) {
		for i := range kept {
			if line := kept[i].Val(); len(line) > 0 && len(line[0]) > orderDigits+1 { // a member consists of position, mode and ID
				first[i] = tx.ZRange(ctx, p.waiting(line[0][orderDigits+1:]), 0, 0)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	known := func(names []string, values []any) map[string]string {
		found := map[string]string{}
		for i := range values {
			if text, ok := values[i].(string); ok {
				found[names[i]] = text
			}
		}
		return found
	}
	all, counted, configured := make([]store.Turn, len(ids)), known(parts, counts.Val()), known(fields, configs.Val())
	away := known(parts, standing.Val())
	for i, part := range parts {
		if all[i].LimitState, _, err = s.limitState(part, counted, configured, away); err != nil {
			return nil, err
		}
		if first[i] == nil {
			continue
		}
		if run := first[i].Val(); len(run) > 0 {
			all[i].First = long(run[0][min(orderDigits, len(run[0])):])
		}
	}
	return all, nil
}

func compareLimits(a, b store.LimitID) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Key, b.Key))
}

// limitStates returns at most most parts of limits after the part after, in the order of name and
// key. It treats a configuration that cannot be decoded as missing, and returns an error that names
// the part.
func (s *Store) limitStates(counts, configs, standing map[string]string, after store.LimitID, most int) (all []store.LimitState, err error) {
	now := s.Clock().Now()
	known := map[string]bool{}
	for id := range counts {
		known[id] = true
	}
	for field := range configs {
		known[field[min(1, len(field)):]] = true
	}
	last := after.Name + "\x00" + after.Key
	maps.DeleteFunc(known, func(id string, _ bool) bool { return after != (store.LimitID{}) && id <= last })
	for _, id := range slices.Sorted(maps.Keys(known)) { // names contain no zero byte, so the order of the IDs is the order of name and key
		if len(all) == most {
			break
		}
		state, tat, wrong := s.limitState(id, counts, configs, standing)
		err = cmp.Or(wrong, err)
		if configs["s"+id] == "" && configs["c"+id] == "" && state.Held == 0 && state.Waits == 0 && tat <= now.UnixMicro() {
			continue
		}
		all = append(all, state)
	}
	return all, err
}

// limitState returns the state of a part, built from its counters and configurations. tat is the
// time, in microseconds, at which the rate of the part permits the next weight.
func (s *Store) limitState(id string, counts, configs, away map[string]string) (state store.LimitState, tat int64, err error) {
	name, key, _ := strings.Cut(id, "\x00")
	state = store.LimitState{LimitID: store.LimitID{Name: name, Key: key}, Away: int(parseNumber(away[id]))}
	var all [3]*store.LimitConfig
	for i, from := range []string{"s" + id, "s" + name + "\x00", "c" + name + "\x00"} {
		packed := configs[from]
		if packed == "" {
			continue
		}
		if all[i] = new(store.LimitConfig); json.Unmarshal([]byte(packed), all[i]) != nil {
			err = fmt.Errorf("%w: limit %s is configured as %q", errDamaged, state.LimitID, packed)
		}
	}
	state.Config, state.Set, state.Default = store.MergeConfigs(all[0], all[1], all[2])
	if counted := counts[id]; counted != "" {
		if n, _ := fmt.Sscan(counted, &state.Held, &state.Waits, &tat); n != 3 {
			err = fmt.Errorf("%w: the counter of limit %s is %q", errDamaged, state.LimitID, counted)
		}
	}
	state.Next = timeOf(state.Config.Due(tat, 0, s.Clock().Now()))
	return state, tat, err
}

// limiterQueue is a limiter queue in the form of hash Y.
type limiterQueue struct {
	id, mode     string
	until, score int64
	place, route string
	uses         []store.Use
	stands       uint16
	owed         bool
}

// unpackQueue decodes a limiter queue. standing is its value in hash F and contains the uses at
// which the queue counts. unpackQueue returns false if a value is invalid.
func unpackQueue(id, packed, standing string) (limiterQueue, bool) {
	words := strings.SplitN(packed, " ", 6)
	if len(words) != 6 {
		return limiterQueue{}, false
	}
	l := limiterQueue{id: id, mode: words[0], until: parseNumber(words[1]), score: parseNumber(words[2]), place: words[3], route: words[4], uses: unpackUses(words[5])}
	if l.mode == lineOpen {
		return l, l.uses != nil
	}
	for _, i := range store.StandingOrder(l.uses) {
		l.stands |= 1 << i
	}
	if stands, owed, ok := strings.Cut(standing, " "); ok && len(l.uses) > 1 {
		l.stands, l.owed = uint16(parseNumber(stands)), owed == "1"
	}
	return l, l.uses != nil
}

// Modes of limiter queues, as scripts store them.
const (
	lineOpen      = "0"
	queueClosed   = "1"
	queueAdmitted = "2"
)

// showLimits adds the limits to a snapshot, and the limiter queues in the order of their positions.
// It omits values that cannot be decoded and returns an error for one of them. routeOf returns the
// route with the given code.
func (s *Store) showLimits(v *view, snap *store.Snapshot, routeOf func(code string) store.Route) error {
	all, err := s.limitStates(v.limits.Val(), v.configs.Val(), v.standing.Val(), store.LimitID{}, math.MaxInt)
	for _, l := range all {
		snap.Limits[l.LimitID] = l
	}
	if wrong := showFairKeys(v, snap); wrong != nil {
		err = wrong
	}
	var lines []limiterQueue
	for _, id := range sortedKeys(v.limiterQueues.Val()) {
		l, ok := unpackQueue(id, v.limiterQueues.Val()[id], v.standing.Val()[id])
		if !ok {
			err = fmt.Errorf("%w: line %s is %q", errDamaged, id, v.limiterQueues.Val()[id])
			continue
		}
		lines = append(lines, l)
	}
	slices.SortFunc(lines, func(a, b limiterQueue) int {
		return cmp.Or(cmp.Compare(a.score, b.score), strings.Compare(a.place, b.place))
	})
	for _, l := range lines {
		shown := store.WaitingQueue{Route: routeOf(l.route), Uses: l.uses, Closed: l.mode == queueClosed, Admitted: l.mode == queueAdmitted, Until: timeOf(l.until), Stands: l.stands, Owed: l.owed}
		if v.waiting[l.id] != nil {
			for _, member := range members(v.waiting[l.id]) {
				shown.Runs = append(shown.Runs, long(member[min(orderDigits, len(member)):]))
			}
		}
		snap.Waiting = append(snap.Waiting, shown)
	}
	return err
}

// packShare encodes a fairness key and its share for scripts. It returns an empty string if fair is
// empty.
func packShare(fair string, share int) string {
	if fair == "" {
		return ""
	}
	return strconv.Itoa(share) + " " + fair
}

func unpackShare(packed string) (fair string, share int) {
	n, fair, _ := strings.Cut(packed, " ")
	share, _ = strconv.Atoi(n)
	return fair, share
}

// showFairKeys adds the flows to a snapshot. It omits values that cannot be decoded and returns an
// error for one of them.
func showFairKeys(v *view, snap *store.Snapshot) (err error) {
	for _, name := range sortedKeys(v.fairKeys.Val()) {
		code, text, _ := strings.Cut(name, ":")
		priority, wrong := strconv.Atoi(text)
		waits, _, ok := unpackFairKey(v.fairKeys.Val()[name])
		if wrong != nil || !ok {
			err = fmt.Errorf("%w: flow %s is %q", errDamaged, name, v.fairKeys.Val()[name])
			continue
		}
		route := store.Route{Workflow: unnamed + code}
		if known, ok := v.routes.Val()[code]; ok {
			route = parseRoute(known)
		}
		snap.FairKeys[store.FairID{Route: route, Priority: priority}] = waits
	}
	return err
}

func unpackFairKey(packed string) (waits int, pass int64, ok bool) {
	var last int64
	n, _ := fmt.Sscan(packed, &waits, &pass, &last)
	return waits, pass, n == 3
}

// flowsByRuns returns, for each flow, the number of runs whose position depends on a fairness key.
func (e *partitionState) flowsByRuns() map[store.FairID]int {
	counted := map[store.FairID]int{}
	for _, r := range e.snap.Runs {
		if r.InFairKey() {
			counted[store.FairID{Route: r.Route, Priority: r.Priority}]++
		}
	}
	return counted
}

// wrongFairKey describes a defect of the flows, and returns an empty string if there is none. In a
// correct flow, the counter equals the number of runs, every run has a position, and no pass of a
// key starts before the runs of the key.
func (e *partitionState) wrongFairKey() string {
	want := map[string]int{}
	flowOf := func(run string, r *store.RunState) string { return e.metaOf(run)["c"] + ":" + strconv.Itoa(r.Priority) }
	for run := range e.runs {
		if r := e.snap.Runs[long(run)]; r != nil && r.InFairKey() {
			want[flowOf(run, r)]++
		}
	}
	for _, name := range sortedKeys(e.fairKeys.Val()) {
		waits, _, ok := unpackFairKey(e.fairKeys.Val()[name])
		if !ok || waits != want[name] {
			return fmt.Sprintf("the record of the fairness keys of %s is %q, want %d runs", name, e.fairKeys.Val()[name], want[name])
		}
		delete(want, name)
	}
	for _, name := range sortedKeys(want) {
		return fmt.Sprintf("the fairness keys of %s have %d runs, but no record", name, want[name])
	}
	passes := map[string]int64{}
	for _, fairKey := range e.keys.fairKeys {
		for _, z := range e.passes[fairKey].Val() {
			key, _ := z.Member.(string)
			passes[fairKey+" "+key] = int64(z.Score)
		}
		if len(e.passes[fairKey].Val()) > 0 && e.fairKeys.Val()[fairKey] == "" {
			return fmt.Sprintf("the fairness keys of %s have passes, but no runs", fairKey)
		}
	}
	for _, run := range sortedKeys(e.runs) {
		m, r := e.runs[run].meta.Val(), e.snap.Runs[long(run)]
		if r == nil || !r.InFairKey() || len(m) == 0 {
			continue
		}
		placed := placeIn(m["V"])
		place, err := strconv.ParseInt(placed, 16, 64)
		if err != nil || len(placed) != orderDigits || m["p"] != placed {
			return fmt.Sprintf("run %s has a fairness key, and its position is %q and %q", r.Run, placed, m["p"])
		}
		fairKey := flowOf(run, r)
		_, pass, _ := unpackFairKey(e.fairKeys.Val()[fairKey])
		if after := store.PassAfter(place, r.Share); after > max(pass, passes[fairKey+" "+r.Fair]) {
			return fmt.Sprintf("fairness key %q of route %s restarts before run %s", r.Fair, fairKey, r.Run)
		}
	}
	return ""
}
