package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

// openLabelled returns a store with the given number of partitions. The test may change the keys of
// the store.
func openLabelled(t *testing.T, partitions int) *guarded {
	t.Helper()
	return openGuardedIn(t, redistest.Shared(t).Client(t), partitions)
}

// tagged creates n runs, distributed over all partitions. Run i has the tags tags(i) and the
// workflow ID id(i).
func (g *guarded) tagged(n int, tags func(n int) map[string]string, id func(n int) string) (runs []event.RunID) {
	g.t.Helper()
	var batch []store.Create
	for i := range n {
		l := g.labelledLog(i, tags(i), id(i))
		batch, runs = append(batch, l.Create()), append(runs, l.Run)
		g.clock.Advance(1e6)
	}
	answers, err := g.Create(g.ctx, batch)
	g.check(err)
	for _, a := range answers {
		g.check(a.Err)
	}
	return runs
}

// labelledLog returns a log for run n without creating the run.
func (g *guarded) labelledLog(n int, tags map[string]string, wid string) *storetest.Log {
	slot := uint16(n)
	if wid != "" {
		slot = event.SlotOf(wid)
	}
	return storetest.NewLog(g.ids, g.clock, g.ids.Run(g.clock.Now(), slot), event.Spec{
		Workflow: guardedRoute.Workflow, Queue: guardedRoute.Queue, WorkflowID: wid, Tags: tags,
	})
}

// ownLabelled creates run n and claims it for the session.
func (g *guarded) ownLabelled(session store.SessionID, n int) (*storetest.Log, store.Fence) {
	g.t.Helper()
	l := g.labelledLog(n, few(n), "")
	answers, err := g.Create(g.ctx, []store.Create{l.Create()})
	g.check(errors.Join(err, answers[0].Err))
	got, err := g.ClaimRun(g.ctx, 0, session, g.ids.Token(), l.Run)
	g.check(err)
	return l, got.Fence
}

// finish ends a run by a commit.
func (g *guarded) finish(l *storetest.Log, fence store.Fence) {
	g.t.Helper()
	c := l.Commit(fence, l.End(event.StatusCompleted)...)
	c.Effect, c.Status, c.Progress = store.EffectFinish, event.StatusCompleted, true
	g.check(g.answer(c).Err)
}

func noID(int) string { return "" }

// few returns the tags of run n. All runs have the same plan, and one run in a hundred has another
// region.
func few(n int) map[string]string {
	tags := map[string]string{"plan": "basic", "region": "eu", "long": "far too long to be kept in one short piece of memory beside the rest"}
	if n%100 == 0 {
		tags["region"] = "us"
	}
	return tags
}

// wholly fails the test if fsck finds a defect.
func (g *guarded) wholly(s *Store) {
	g.t.Helper()
	report, err := fsck.Repair(g.ctx, s, fsck.Options{DryRun: true})
	g.check(err)
	for _, f := range report.Remaining {
		g.t.Errorf("fsck: %v", f)
	}
}

func TestLabels_ASearchLooksAtFewOtherRuns(t *testing.T) {
	const most = 3 // a search may read one run in each partition that is not on the page
	for _, partitions := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d partitions", partitions), func(t *testing.T) {
			g := openLabelled(t, partitions)
			g.tagged(1000, few, func(n int) string { return []string{"", fmt.Sprintf("order-%d", n)}[n%2] })
			us, basic := map[string]string{"region": "us"}, map[string]string{"plan": "basic"}
			for _, tt := range []struct {
				what        string
				q           store.Query
				found, look int
			}{
				{"a tag of one in a hundred", store.Query{Tags: us}, 10, 10},
				{"a page of them", store.Query{Tags: us, Limit: 4}, 4, 4 + most},
				{"a page of them, oldest first", store.Query{Tags: us, Limit: 4, Oldest: true}, 4, 4 + most},
				{"a tag that all have", store.Query{Tags: basic, Limit: 4}, 4, 4 + most},
				{"a tag that none has", store.Query{Tags: map[string]string{"region": "moon"}}, 0, 0},
				{"two tags", store.Query{Tags: map[string]string{"plan": "basic", "region": "us"}}, 10, 10},
				{"two tags of which none has one", store.Query{Tags: map[string]string{"plan": "basic", "region": "moon"}}, 0, 0},
				{"a workflow id", store.Query{WorkflowID: "order-7"}, 1, 1},
				{"a workflow id that none has", store.Query{WorkflowID: "order-6"}, 0, 0},
				{"a workflow id and a tag", store.Query{WorkflowID: "order-7", Tags: basic}, 1, 1},
				{"a tag and a route", store.Query{Tags: us, Workflow: guardedRoute.Workflow, Queue: guardedRoute.Queue}, 10, 10},
				{"a tag and a workflow that there is not", store.Query{Tags: us, Workflow: "none"}, 0, 0},
				{"a tag that all have, and a status that none has", store.Query{Tags: basic, Statuses: []event.Status{event.StatusFailed}}, 0, 0},
			} {
				page, err := g.List(g.ctx, tt.q)
				g.check(err)
				if len(page.Runs) != tt.found || page.Partial || page.Looked > tt.look {
					t.Errorf("%s: found %d runs, partial %v, and looked at %d, want %d and at most %d", tt.what, len(page.Runs), page.Partial, page.Looked, tt.found, tt.look)
				}
			}
			counts, err := g.Count(g.ctx, store.Query{Tags: us})
			g.check(err)
			if counts.Total() != 10 || counts.Looked != 10 || !counts.Exact {
				t.Errorf("count: %+v, want 10 runs, exactly, and none looked at but those", counts)
			}
			g.wholly(g.Store)
		})
	}
}

// finds fails the test unless the query lists the runs in want, newest first, and reads exactly
// looked runs.
func (g *guarded) finds(s *Store, q store.Query, want []event.RunID, looked int) {
	g.t.Helper()
	q.Limit = 1000
	page, err := s.List(g.ctx, q)
	g.check(err)
	var got []event.RunID
	for _, r := range page.Runs {
		got = append(got, r.Run)
	}
	want = slices.Clone(want)
	slices.Reverse(want)
	if !slices.Equal(got, want) || page.Partial || page.Looked != looked {
		g.t.Errorf("list %+v: got %d runs, partial %v, looked at %d, want %d and %d", q, len(got), page.Partial, page.Looked, len(want), looked)
	}
}

func TestLabels_ASetThatIsOverwrittenKeepsNoRunFromBeingCreatedOrPurged(t *testing.T) {
	g := openGuarded(t)
	session := g.session()
	key := g.parts[0].labelled(labelCode(store.Label{Tag: "plan", Value: "basic"}))
	g.check(g.client.Set(g.ctx, key, "x", 0).Err())
	l, fence := g.ownLabelled(session, 0)
	g.finish(l, fence)
	g.check(g.Delete(g.ctx, l.Run))
	g.clock.Advance(store.Horizon)
	if n, _, err := g.Purge(g.ctx, 0, 10); n != 1 || err != nil {
		t.Errorf("purged %d runs, %v, want the one", n, err)
	}
	kept, _ := g.ownLabelled(session, 0)
	if _, err := g.List(g.ctx, store.Query{Tags: map[string]string{"plan": "basic"}}); err == nil {
		t.Error("a list by the label is answered")
	}
	g.finds(g.Store, store.Query{Tags: map[string]string{"region": "us"}}, []event.RunID{kept.Run}, 1)
	_, err := fsck.Repair(g.ctx, g.Store, fsck.Options{})
	g.check(err)
	g.finds(g.Store, store.Query{Tags: map[string]string{"plan": "basic"}}, []event.RunID{kept.Run}, 1)
	g.wholly(g.Store)
}
