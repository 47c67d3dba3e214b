package workflowtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// ReplayLimit determines how many runs of a store [ReplaySample] replays, and which.
type ReplayLimit struct {
	// Size is the maximum number of runs to replay; 0: all. The oldest and the newest run of each
	// workflow and status are selected first. The others are selected at random.
	Size int
	// Seed determines the random selection.
	Seed uint64
}

// Replayed is the result of replaying a run of a live store with the current code.
type Replayed struct {
	Run      workflow.RunID
	Workflow string // stored name
	// Err is nil if the code matches the log. Otherwise deploying the code would block the run. The
	// error describes where the code and the log diverge, and the fix.
	Err error
	// Divergence describes where the code and the log diverge, without the data of the run. It is
	// equal for runs that diverge at the same operation, and empty if Err is nil.
	Divergence string
}

// ReplaySample is like [ReplayStore], but it replays only a sample of the runs that match f. It
// returns the result for each run, oldest first, and does not fail the test. If the store cannot be
// read, or the key or the blob store of a log is missing, it returns the error and the results so far.
func ReplaySample(t testing.TB, setup func(*Env), s store.Store, f workflow.Filter, limit ReplayLimit) ([]Replayed, error) {
	t.Helper()
	e := New(t)
	setup(e)
	chosen, err := e.sample(t.Context(), s, f, limit)
	if err != nil {
		return nil, err
	}
	var all []Replayed
	for _, c := range chosen {
		loaded, err := s.Load(t.Context(), []store.Load{{Run: c.run}})
		if err == nil {
			err = loaded[0].Err
		}
		if errors.Is(err, store.ErrRunNotFound) {
			continue // the run was purged after it was listed
		}
		if err == nil {
			err = loaded[0].Sealed // without its data it cannot be known whether the code matches
		}
		if err != nil {
			return all, fmt.Errorf("read run %s: %w", c.run, err)
		}
		r := Replayed{Run: c.run, Workflow: c.workflow, Err: e.replayFrames(c.run, c.workflow, loaded[0].Frames)}
		if errors.As(r.Err, new(*event.SealedError)) {
			return all, fmt.Errorf("replay run %s: %w", c.run, r.Err)
		}
		r.Divergence = divergence(r.Err)
		all = append(all, r)
	}
	return all, nil
}

// candidate is a run that may be replayed.
type candidate struct {
	run      event.RunID
	workflow string
	status   workflow.Status
}

// sample selects runs that match f and whose workflows are registered.
func (e *Env) sample(ctx context.Context, s store.Store, f workflow.Filter, limit ReplayLimit) ([]candidate, error) {
	client := workflow.NewClient(s, workflow.ClientConfig{Logger: discard})
	defer func() { _ = client.Close() }()
	var all []candidate
	for info, err := range client.List(ctx, f) {
		if err != nil {
			return nil, err
		}
		if e.serves(info.Workflow) {
			all = append(all, candidate{info.ID, info.Workflow, info.Status})
		}
	}
	slices.Reverse(all) // List returns the newest run first
	if limit.Size <= 0 || len(all) <= limit.Size {
		return all, nil
	}
	return thinned(all, limit), nil
}

// thinned selects the first and the last run of each workflow and status, and other runs at random.
// It keeps the order of all.
func thinned(all []candidate, limit ReplayLimit) []candidate {
	type kind struct {
		workflow string
		status   workflow.Status
	}
	first, last := map[kind]int{}, map[kind]int{}
	for i, c := range all {
		k := kind{c.workflow, c.status}
		if _, seen := first[k]; !seen {
			first[k] = i
		}
		last[k] = i
	}
	rank := make([]int, len(all)) // 0 and 1: first and last run of its kind; 2: others
	for i := range rank {
		rank[i] = 2
	}
	for _, i := range last {
		rank[i] = 1
	}
	for _, i := range first {
		rank[i] = 0
	}
	order := rand.New(rand.NewPCG(limit.Seed, 0)).Perm(len(all))
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank[a], rank[b]) })
	order = order[:limit.Size]
	slices.Sort(order)
	chosen := make([]candidate, len(order))
	for i, o := range order {
		chosen[i] = all[o]
	}
	return chosen
}

// divergence describes a mismatch between code and log without data that is specific to one run.
func divergence(err error) string {
	m, ok := errors.AsType[*replay.MismatchError](err)
	if !ok {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	asked := "nothing more"
	if m.Asked != nil {
		asked = operation(m.Asked)
	}
	if m.Diff != "" {
		asked = "the same with other data"
	}
	s := fmt.Sprintf("the log has %s, the code asks for %s", operation(&m.Recorded), asked)
	if m.Position != "" {
		s += " at " + m.Position
	}
	return s
}

// operation describes the operation of an event.
func operation(e *event.Event) string {
	s := e.Type.String()
	switch {
	case e.Key != "":
		s += " " + e.Key
	case e.Name != "":
		s += " " + e.Name
	}
	return s
}
