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

// List returns a page of runs. It reads the sets that may contain matching runs, in the order of
// the list and only as far as needed. Then it reads the metadata of these runs.
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

// lookup defines which runs look reads and how it passes them on.
type lookup struct {
	more   func() bool // reports whether another run is needed
	wanted func() int  // number of runs that are needed if all match, at least 1
	add    func(at paging.Position, r *store.Record)
}

// look reads runs in the order of the query while l.more returns true. It reports whether it has
// reached the last run.
func (s *Store) look(ctx context.Context, q *store.Query, page *paging.Page, l lookup) (ended bool, err error) {
	var sources []paging.Source[struct{}]
	for _, p := range s.searched(q) {
		sources = append(sources, s.source(ctx, q, p))
	}
	merge := paging.NewMerge(page, true, sources)
	for size := 0; l.more(); {
		size = min(max(l.wanted(), 2*size), mostRead) // double the size of each further read, because few runs seem to match
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

// mostRead is the maximum number of runs in one read.
const mostRead = 500

// searched returns the partitions that may contain matching runs.
func (s *Store) searched(q *store.Query) []*partition {
	if q.WorkflowID != "" {
		return []*partition{s.partitionOfName(q.WorkflowID)}
	}
	return s.parts
}

// records reads the metadata of runs. The record of a missing or damaged run is nil.
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

// leftOut reports whether err is damage that affects only one run. If so, it notes the damage, and
// the caller skips the run.
func (s *Store) leftOut(err error) bool {
	damage, ok := errors.AsType[*store.DamagedError](err)
	if !ok || damage.Run == "" || errors.Is(err, errNameless) {
		return false
	}
	text := string(damage.Run)
	if o, ok := errors.AsType[*overwrittenError](err); ok {
		text = o.key + " " + o.is // text equals the report of a script about this key
	}
	s.damages.Note(text, damage)
	return true
}

// runSet is a set of runs: the open runs of a route, the runs of a route that ended with a certain
// outcome, or the runs with a common property.
type runSet struct {
	key    string
	route  store.Route
	status event.Status // status of all runs in the set; empty if they differ
}

// sets returns the sets of a partition that may contain matching runs.
func (s *Store) sets(ctx context.Context, p *partition, q *store.Query) ([]runSet, error) {
	switch { // a failure group has few runs compared with a route
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
	case q.WorkflowID != "", len(labels) == 1 && !ofSome: // the first set is that of the workflow ID, which has few runs
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

// smallest returns the smallest of sets. It returns others if they contain fewer runs in total.
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

// routeSets returns the sets of the matching routes that may contain matching runs.
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

// outcomesOf returns the outcomes of ended runs that correspond to the given statuses. An empty
// list of statuses means all.
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
// transaction, starting at the current position of the list. Because of the transaction, a run that
// moves from one set to another is found in one of them.
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

// spare is the number of runs that are read from each set in addition to the share of the set.
const spare = 4

// window is a section of the merged order of several sets.
type window struct {
	oldest bool
	each   int64 // number of runs read from each set
	all    []indexed
	// more reports whether a set was not read to its end. If so, end is the earliest last run of
	// such a set, because the set may have further runs after that position.
	more bool
	end  indexed
}

// readWindow reads the runs after a position. Redis cannot return the members after a member that
// may have been removed. Therefore readWindow reads all runs that were created in the same
// millisecond, usually at most a few dozen, and skips those before the position.
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

// before reports whether a comes before b in the order of the window.
func (w *window) before(a, b indexed) bool {
	if w.oldest {
		return a.newestFirst(b) > 0
	}
	return a.newestFirst(b) < 0
}

// runs returns the runs of the window in order.
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

// indexed is the position of a run in the sets of open and ended runs. The sets are ordered by the
// time of creation in milliseconds, and then by run ID. A run has the same position in all sets.
type indexed struct {
	created int64
	run     string
}

func (a indexed) newestFirst(b indexed) int {
	return cmp.Or(cmp.Compare(b.created, a.created), cmp.Compare(b.run, a.run))
}

// indexedIn returns the positions of the runs in a set, in order.
func indexedIn(set *redis.ZSliceCmd) []indexed {
	var all []indexed
	for _, z := range set.Val() {
		run, _ := z.Member.(string)
		all = append(all, indexed{int64(z.Score), run})
	}
	return all
}

// Count returns the numbers of matching runs. If the query contains only routes, statuses and
// roots, Count does not read ended runs, because the size of each set is known to the server. A run
// with damaged tags is counted then, although a list omits it.
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

// counting is the state of one call of Count.
type counting struct {
	s       *Store
	q       *store.Query
	counter *paging.Counter
}

// look counts by reading all runs that may match.
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

// sized contains the sets of a partition and the counts of each set.
type sized struct {
	sets  []runSet
	take  []int64 // number of runs to read from each set
	found []found
}

// found contains the counts of a set at one moment.
type found struct {
	size, looked int64
	statuses     map[event.Status]int // number of the read runs by status; the empty status is for runs that cannot be decoded
}

// bySets counts by the sizes of the sets. First it reads the sizes of all sets, and divides the
// budget among the sets whose runs must be read. Then it reads the statuses of these runs, in one
// action per partition.
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

// share sets the number of runs to read from each set. If the budget suffices, this is the whole
// set and 64 more runs, which may be created before the read. Otherwise it is a proportional part
// of the budget.
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

// read reads the sizes of the sets of a partition, and the statuses of at most z.take runs of each
// set.
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

// add adds the counts of a partition to the result.
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
