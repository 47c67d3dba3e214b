package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/paging"
)

// List returns a page of runs. It reads the sets that may contain matching runs, as far as it needs
// and in the order of the list, and then the metadata of these runs.
func (s *Store) List(ctx context.Context, q store.Query) (store.Page, error) {
	if err := s.enter(ctx); err != nil {
		return store.Page{}, err
	}
	page, err := paging.New(&q)
	if err == nil {
		var ended bool
		ended, err = s.look(ctx, &q, page, lookup{more: page.More, wanted: page.Wanted, add: page.Add})
		if ended {
			page.End()
		}
	}
	if err != nil {
		return store.Page{}, fmt.Errorf("list runs: %w", err)
	}
	return page.Done(), nil
}

// lookup is the purpose of a read of runs.
type lookup struct {
	more   func() bool // reports whether another run is needed
	wanted func() int  // the number of runs that are needed if all match, at least 1
	add    func(at paging.Position, r *store.Record)
}

// look reads runs in the order of a query until no more are needed. It reports whether it has
// reached the end.
func (s *Store) look(ctx context.Context, q *store.Query, page *paging.Page, l lookup) (ended bool, err error) {
	var sources []paging.Source[struct{}]
	for _, p := range s.searched(q) {
		sources = append(sources, s.source(ctx, q, p))
	}
	merge := paging.NewMerge(page, true, sources)
	for size := 0; l.more(); {
		size = min(max(l.wanted(), 2*size), mostRead) // if few runs match, each read is larger
		batch := make([]paging.Position, 0, size)
		for len(batch) < size && !ended {
			next, found, err := merge.Next()
			if err != nil {
				return false, err
			}
			if ended = !found; found {
				batch = append(batch, next.At)
			}
		}
		records, err := s.records(ctx, batch)
		if err != nil {
			return false, err
		}
		for i, r := range records {
			if !l.more() {
				return false, nil
			}
			if r != nil && !q.Matches(r) {
				r = nil
			}
			l.add(batch[i], r)
		}
		if ended {
			return true, nil
		}
	}
	return false, nil
}

// mostRead is the maximum number of runs that are read at once.
const mostRead = 500

// searched returns the partitions that may contain matching runs.
func (s *Store) searched(q *store.Query) []*partition {
	if q.WorkflowID != "" {
		return []*partition{s.partitionOfName(q.WorkflowID)}
	}
	return s.parts
}

// records reads the metadata of runs. A record is nil if the run is missing or damaged.
func (s *Store) records(ctx context.Context, runs []paging.Position) ([]*store.Record, error) {
	loads, members := make([]store.Load, len(runs)), map[*partition][]int{}
	for i, at := range runs {
		p := s.partitionOf(at.Run)
		loads[i], members[p] = store.Load{Run: at.Run, Limit: -1}, append(members[p], i)
	}
	answers := make([]store.Loaded, len(runs))
	_ = each(members, func(p *partition, members []int) error {
		for some := range slices.Chunk(members, readBatch) {
			s.loadBatch(ctx, p, loads, some, answers)
		}
		return nil
	})
	records := make([]*store.Record, len(runs))
	for i := range answers {
		err := answers[i].Err
		if err == nil {
			records[i] = &answers[i].Record
		} else if !errors.Is(err, store.ErrRunNotFound) && !s.leftOut(err) {
			return nil, err
		}
	}
	return records, nil
}

// leftOut reports whether err is damage to a single run, and records that the run is left out.
func (s *Store) leftOut(err error) bool {
	damage, ok := errors.AsType[*store.DamagedError](err)
	if !ok || damage.Run == "" || errors.Is(err, errNameless) {
		return false
	}
	text := string(damage.Run)
	if o, ok := errors.AsType[*overwrittenError](err); ok {
		text = o.key + " " + o.is // the form in which scripts report it
	}
	s.damages.Note(text, damage)
	return true
}

// runSet is a set of runs: the open runs of a route, its runs that ended with an outcome, or runs
// with a common property.
type runSet struct {
	key    string
	route  store.Route
	status event.Status // of all runs in the set; empty if they differ
}

// sets returns the sets of a partition that contain runs which may match.
func (s *Store) sets(ctx context.Context, p *partition, q *store.Query) ([]runSet, error) {
	switch { // a group has few runs compared with a route
	case q.Group != "":
		return []runSet{{key: p.grouped(q.Group)}}, nil
	case q.Failing:
		return []runSet{{key: p.failing()}}, nil
	}
	labels := labelSets(p, q)
	ofSome := len(q.Statuses) > 0 || q.Workflow != "" || q.Queue != "" || q.Roots || q.Parent != ""
	switch {
	case len(labels) == 0:
		return s.routeSets(ctx, p, q)
	case q.WorkflowID != "", len(labels) == 1 && !ofSome: // a workflow ID has few runs, and its set comes first
		return labels[:1], nil
	case !ofSome:
		return s.smallest(ctx, p, labels, nil)
	}
	others, err := s.routeSets(ctx, p, q)
	if err != nil || len(others) == 0 {
		return nil, err
	}
	return s.smallest(ctx, p, labels, others)
}

// smallest returns the set with the fewest runs, or the others if they contain fewer runs
// altogether.
func (s *Store) smallest(ctx context.Context, p *partition, sets, others []runSet) ([]runSet, error) {
	all := slices.Concat(sets, others)
	sizes := make([]*redis.IntCmd, len(all))
	err := s.transaction(ctx, p, func(tx redis.Pipeliner) {
		for i, set := range all {
			sizes[i] = tx.ZCard(ctx, set.key)
		}
	})
	if err != nil {
		return nil, err
	}
	best := 0
	for i := range sets {
		if sizes[i].Val() < sizes[best].Val() {
			best = i
		}
	}
	together := int64(0)
	for _, n := range sizes[len(sets):] {
		together += n.Val()
	}
	if len(others) > 0 && together < sizes[best].Val() {
		return others, nil
	}
	return sets[best : best+1], nil
}

// routeSets returns the sets of routes that contain runs which may match.
func (s *Store) routeSets(ctx context.Context, p *partition, q *store.Query) ([]runSet, error) {
	var names *redis.MapStringStringCmd
	err := s.transaction(ctx, p, func(tx redis.Pipeliner) { names = tx.HGetAll(ctx, p.routes()) })
	if err != nil {
		return nil, err
	}
	outcomes := outcomesOf(q.Statuses)
	goesOn := len(q.Statuses) == 0 || slices.ContainsFunc(q.Statuses, func(s event.Status) bool { return !s.Terminal() })
	var sets []runSet
	for _, code := range sortedKeys(names.Val()) {
		route := parseRoute(names.Val()[code])
		if !q.OfRoute(route) {
			continue
		}
		for _, child := range []bool{false, true} {
			if child && q.Roots || !child && q.Parent != "" {
				continue
			}
			if goesOn {
				sets = append(sets, runSet{key: p.openRuns(code, child), route: route})
			}
			for _, outcome := range outcomes {
				sets = append(sets, runSet{p.doneRuns(code, child, outcome), route, statusOf(outcome - '0')})
			}
		}
	}
	return sets, nil
}

// outcomesOf returns the outcomes of ended runs that may have one of the statuses.
func outcomesOf(statuses []event.Status) []byte {
	if len(statuses) == 0 {
		return []byte(outcomes)
	}
	var all []byte
	for _, s := range statuses {
		if outcome := outcomeOf(s); !slices.Contains(all, outcome) {
			all = append(all, outcome)
		}
	}
	return all
}

// source returns the runs of a partition that may match. It reads all sets of the partition in one
// transaction, from the current position of the list, so that a run that moves from one set to
// another is found in one of them.
func (s *Store) source(ctx context.Context, q *store.Query, p *partition) paging.Source[struct{}] {
	return func(after paging.Position, n int) (runs []paging.Entry[struct{}], more bool, err error) {
		sets, err := s.sets(ctx, p, q)
		if err != nil || len(sets) == 0 {
			return nil, false, err
		}
		w := window{oldest: q.Oldest, each: int64(n/len(sets) + spare)}
		if err := s.readWindow(ctx, p, q, sets, after, &w); err != nil {
			return nil, false, err
		}
		for _, r := range w.runs() {
			runs = append(runs, paging.Entry[struct{}]{At: paging.Position{Created: r.created, Run: long(r.run)}})
		}
		return runs, w.more, nil
	}
}

// spare is the number of runs that are read of each set in addition to its share.
const spare = 4

// window is a section of the common order of several sets.
type window struct {
	oldest bool
	each   int64 // how many runs are read of each set
	all    []indexed
	// more is true if a set was not read to its end. Then the window ends with the earliest last
	// run of such a set: after it the set may have runs that were not read.
	more bool
	end  indexed
}

// readWindow reads what comes after a position. Redis cannot return the members after a member that
// may have been removed. Therefore it reads all runs that were created in the same millisecond as
// well, of which there are at most a few dozen.
func (s *Store) readWindow(ctx context.Context, p *partition, q *store.Query, sets []runSet, after paging.Position, w *window) error {
	rest := redis.ZRangeBy{Min: "-inf", Max: "+inf", Count: w.each}
	if !q.From.IsZero() {
		rest.Min = number(millis(q.From))
	}
	if !q.To.IsZero() {
		rest.Max = "(" + number(millis(q.To))
	}
	last := indexed{after.Created, short(after.Run)}
	behind := "(" + number(last.created)
	switch {
	case last.run == "":
	case q.Oldest && (q.From.IsZero() || last.created >= millis(q.From)):
		rest.Min = behind
	case !q.Oldest && (q.To.IsZero() || last.created < millis(q.To)):
		rest.Max = behind
	}
	var sames, rests []*redis.ZSliceCmd
	err := s.transaction(ctx, p, func(tx redis.Pipeliner) {
		for _, set := range sets {
			if last.run != "" {
				sames = append(sames, tx.ZRangeByScoreWithScores(ctx, set.key, &redis.ZRangeBy{Min: number(last.created), Max: number(last.created)}))
			}
			if q.Oldest {
				rests = append(rests, tx.ZRangeByScoreWithScores(ctx, set.key, &rest))
			} else {
				rests = append(rests, tx.ZRevRangeByScoreWithScores(ctx, set.key, &rest))
			}
		}
	})
	if err != nil {
		return err
	}
	for _, set := range sames {
		for _, r := range indexedIn(set) {
			if w.before(last, r) {
				w.all = append(w.all, r)
			}
		}
	}
	for _, set := range rests {
		runs := indexedIn(set)
		w.all = append(w.all, runs...)
		if len(runs) == int(w.each) {
			if end := runs[len(runs)-1]; !w.more || w.before(end, w.end) {
				w.end = end
			}
			w.more = true
		}
	}
	return nil
}

// before reports whether a comes before b in the window.
func (w *window) before(a, b indexed) bool {
	if w.oldest {
		return a.newestFirst(b) > 0
	}
	return a.newestFirst(b) < 0
}

// runs returns the runs of the window, in order.
func (w *window) runs() []indexed {
	if w.more {
		w.all = slices.DeleteFunc(w.all, func(r indexed) bool { return w.before(w.end, r) })
	}
	slices.SortFunc(w.all, func(a, b indexed) int {
		if w.oldest {
			a, b = b, a
		}
		return a.newestFirst(b)
	})
	return w.all
}

// indexed is the position of a run in the sets of open and ended runs, which are ordered by the
// creation and, within a millisecond, by the ID. A run has the same position in all of them.
type indexed struct {
	created int64
	run     string
}

func (a indexed) newestFirst(b indexed) int {
	return cmp.Or(cmp.Compare(b.created, a.created), cmp.Compare(b.run, a.run))
}

// indexedIn returns the positions in a set, in order.
func indexedIn(set *redis.ZSliceCmd) []indexed {
	var all []indexed
	for _, z := range set.Val() {
		run, _ := z.Member.(string)
		all = append(all, indexed{int64(z.Score), run})
	}
	return all
}

// Count returns the number of matching runs. If the query names only routes, statuses and roots,
// the ended runs are not read: the server knows the size of each set. A run that a list leaves out
// because its tags are damaged is counted.
func (s *Store) Count(ctx context.Context, q store.Query) (store.Counts, error) {
	if err := s.enter(ctx); err != nil {
		return store.Counts{}, err
	}
	q.Cursor = ""
	c := &counting{s: s, q: &q, counter: paging.Count(&q)}
	var err error
	if len(q.Tags) > 0 || q.Group != "" || q.Failing || q.Parent != "" || q.Root != "" || q.WorkflowID != "" || !q.From.IsZero() || !q.To.IsZero() {
		err = c.look(ctx)
	} else {
		err = c.bySets(ctx)
	}
	if err != nil {
		return store.Counts{}, fmt.Errorf("count runs: %w", err)
	}
	return c.counter.Counts, nil
}

// counting is the state of a call of Count.
type counting struct {
	s       *Store
	q       *store.Query
	counter *paging.Counter
}

// look reads all runs that may match, one after the other.
func (c *counting) look(ctx context.Context) error {
	page, err := paging.New(c.q)
	if err != nil {
		return err
	}
	_, err = c.s.look(ctx, c.q, page, lookup{
		more: c.counter.More, wanted: func() int { return mostRead },
		add: func(_ paging.Position, r *store.Record) {
			if r == nil {
				r = &store.Record{}
			}
			c.counter.Add(r.Run != "", r.Status, r.Route)
		},
	})
	return err
}

// sized contains the sets of a partition, and what was found in each of them.
type sized struct {
	sets  []runSet
	take  []int64 // how many runs of each set it reads
	found []found
}

// found contains the numbers of runs of a set at one moment.
type found struct {
	size, looked int64
	statuses     map[event.Status]int // the number of the read runs by status; empty for one that cannot be decoded
}

// bySets reads the sizes of all sets and shares the budget among those whose runs must be read.
// Then it reads the statuses of the runs, as of one moment in each partition.
func (c *counting) bySets(ctx context.Context) error {
	parts := map[*partition]*sized{}
	for _, p := range c.s.parts {
		parts[p] = &sized{}
	}
	err := each(parts, func(p *partition, z *sized) (err error) {
		if z.sets, err = c.s.sets(ctx, p, c.q); err != nil {
			return err
		}
		z.take = make([]int64, len(z.sets))
		return c.read(ctx, p, z)
	})
	if err != nil {
		return err
	}
	c.share(parts)
	err = each(parts, func(p *partition, z *sized) error { return c.read(ctx, p, z) })
	if err != nil {
		return err
	}
	for _, z := range parts {
		c.add(z)
	}
	return nil
}

// share determines how many runs of each set are read: all of them if the budget suffices,
// otherwise a part. It adds 64 for runs that are created before the read.
func (c *counting) share(parts map[*partition]*sized) {
	total := int64(0)
	for _, z := range parts {
		for i, set := range z.sets {
			if set.status == "" {
				total += z.found[i].size
			}
		}
	}
	budget := int64(c.q.Work())
	for _, z := range parts {
		for i, set := range z.sets {
			switch {
			case set.status != "":
			case total <= budget:
				z.take[i] = z.found[i].size + 64
			default:
				z.take[i] = z.found[i].size * budget / total
			}
		}
	}
}

// read reads the sizes of the sets of a partition, and the statuses of as many runs of each set as
// z.take permits.
func (c *counting) read(ctx context.Context, p *partition, z *sized) error {
	z.found = make([]found, len(z.sets))
	if len(z.sets) == 0 {
		return nil
	}
	ask := &call{script: scriptCount, p: p}
	for i, set := range z.sets {
		ask.keys, ask.args = append(ask.keys, set.key), append(ask.args, z.take[i])
	}
	if err := c.s.do(ctx, ask); err != nil {
		return err
	}
	for i, one := range ask.answer() {
		values, _ := one.([]any)
		a := answer(values)
		f := found{size: a.number(0), statuses: map[event.Status]int{}}
		for j := 1; j < len(a); j += 2 {
			n := a.number(j + 1)
			f.statuses[statusOf(byte(a.number(j)))] += int(n)
			f.looked += n
		}
		z.found[i] = f
	}
	return nil
}

// add counts the runs of a partition.
func (c *counting) add(z *sized) {
	counts := &c.counter.Counts
	for i, set := range z.sets {
		f := z.found[i]
		if set.status != "" {
			counts.Add(set.status, set.route, int(f.size))
			continue
		}
		counts.Looked += int(f.looked)
		for status, n := range f.statuses {
			if status != "" && c.q.OfStatus(status) {
				counts.Add(status, set.route, n)
			}
		}
		if left := int(f.size - f.looked); left > 0 {
			counts.Exact = false
			if len(c.q.Statuses) == 0 {
				counts.Add("", set.route, left)
			}
		}
	}
}
