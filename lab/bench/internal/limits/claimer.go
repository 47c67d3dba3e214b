package limits

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/limits/flows"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/store"
)

// claimer is a worker session that only claims runs. It uses the partition that contains the
// limits.
type claimer struct {
	store     store.Store
	slot      uint16
	partition int
	session   store.SessionID
	route     store.Route
	created   event.RunID // the run that was created last
}

// newClaimer opens a session for a workflow. The session stays valid for as long as a row may take.
func newClaimer(ctx context.Context, st store.Store, workflow string) (*claimer, error) {
	c := &claimer{store: st, slot: flows.Ample.Use(1).Slot, session: store.SessionID("wses_" + event.NewToken().String())}
	c.partition = int(c.slot) % st.Partitions()
	c.route = store.Route{Queue: "default", Workflow: workflow}
	err := st.OpenSession(ctx, store.Session{Partition: c.partition, ID: c.session, Worker: "claimer", TTL: time.Hour, Routes: []store.Route{c.route}})
	return c, err
}

// bound configures limits in the same way as a worker that declares them.
func (c *claimer) bound(ctx context.Context, all map[limit.Limit]int) error {
	limiter, ok := store.As[store.Limiter](c.store)
	if !ok {
		return store.ErrNoLimits
	}
	for l, atOnce := range all {
		set := []store.SetLimit{{LimitID: store.LimitID{Name: l.Name(), Key: l.Key()}, Config: store.LimitConfig{AtOnce: atOnce}}}
		if err := limiter.SetLimits(ctx, c.partition, set); err != nil {
			return err
		}
	}
	return nil
}

// order defines the limit and the fairness key of run i. If a function is nil, runs use no limit or
// have no fairness key.
type order struct {
	uses func(i int) limit.Limit
	fair func(i int) string
}

// create creates n runs.
func (c *claimer) create(ctx context.Context, n int, o order) error {
	for from := 0; from < n; from += batch {
		creates := make([]store.Create, min(batch, n-from))
		for i := range creates {
			creates[i] = store.Create{
				Run: event.NewRunID(time.Now(), c.slot), Route: c.route, Frame: []byte("a first frame of some size"), Seq: 1, CommitID: event.NewCommitID(),
			}
			if o.fair != nil {
				creates[i].Fair, creates[i].Share = o.fair(from+i), 1
			}
			if o.uses != nil {
				l := o.uses(from + i)
				creates[i].Uses = []store.Use{{LimitID: store.LimitID{Name: l.Name(), Key: l.Key()}, Weight: 1}}
			}
		}
		all, err := c.store.Create(ctx, creates)
		if err != nil {
			return err
		}
		for _, r := range all {
			if r.Err != nil {
				return r.Err
			}
			c.created = r.Run
		}
	}
	return nil
}

// claim claims up to most runs.
func (c *claimer) claim(ctx context.Context, most int) ([]store.ClaimedRun, error) {
	claimed, err := c.store.Claim(ctx, store.Claim{Partition: c.partition, Session: c.session, Token: event.NewToken(), Routes: []store.Route{c.route}, Max: most})
	return claimed.Runs, err
}

// finish commits the end of runs.
func (c *claimer) finish(ctx context.Context, runs []store.ClaimedRun) error {
	commits := make([]store.Commit, len(runs))
	for i, r := range runs {
		commits[i] = store.Commit{
			Run: r.Run, Fence: r.Fence, Prev: r.Last, Frame: []byte("a last frame of some size"), CommitID: event.NewCommitID(), First: r.Seq + 1, Last: r.Seq + 1,
			Status: event.StatusCompleted, Progress: true, Effect: store.EffectFinish,
		}
	}
	all, err := c.store.Commit(ctx, commits)
	if err != nil {
		return err
	}
	for _, r := range all {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}

// drain claims and ends n runs in batches. It returns the total time that the claims took.
func (c *claimer) drain(ctx context.Context, n int) (claiming time.Duration, err error) {
	for left := n; left > 0; {
		begun := time.Now()
		runs, err := c.claim(ctx, claimMost)
		if claiming += time.Since(begun); err != nil {
			return claiming, err
		}
		if len(runs) == 0 {
			return claiming, fmt.Errorf("a claim found nothing, although %d runs are left", left)
		}
		if err := c.finish(ctx, runs); err != nil {
			return claiming, err
		}
		left -= len(runs)
	}
	return claiming, nil
}

// claimMost is the maximum number of runs per claim.
const claimMost = 100
