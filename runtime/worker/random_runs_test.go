package worker_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// sent is a run and the items that were sent to it.
type sent struct {
	run      *workflow.Run[done]
	plan     plan
	accepted []event.ItemID
	canceled bool
}

// send sends the messages that the run expects, some additional ones, and perhaps a cancel.
func (a *attack) send(s *sent, rng *rand.Rand) {
	c := workflow.NewClient(a.faults.store(), workflow.ClientConfig{})
	defer func() { _ = c.Close() }()
	target := randomFlow.Get(c, s.run.ID())
	extra := rng.IntN(3)
	for i := range s.plan.Messages + extra {
		err := errNoAnswer
		for errors.Is(err, errNoAnswer) {
			err = randomTopic.Send(a.Ctx, target, i, workflow.IdempotencyKey(strconv.Itoa(i)))
		}
		switch {
		case err == nil:
			s.accepted = append(s.accepted, event.ItemID(fmt.Sprintf("key:%q:%d", randomTopic.Name(), i)))
		case !errors.Is(err, workflow.ErrRunTerminal):
			a.T.Errorf("send: %v", err)
		}
		if i == 0 && rng.IntN(8) == 0 {
			s.canceled = true
			for err = errNoAnswer; errors.Is(err, errNoAnswer); {
				err = target.Cancel(a.Ctx, "by chance")
			}
		}
	}
}

func (a *attack) startRuns(n int, rng *rand.Rand) []*sent {
	var all []*sent
	var senders sync.WaitGroup
	defer senders.Wait()
	for range n {
		p := plan{
			Steps: rng.IntN(4), Parallel: rng.IntN(5), Messages: rng.IntN(10), Once: rng.IntN(2) == 0,
			Fails: max(rng.IntN(5)-2, 0), SleepMS: rng.IntN(12),
		}
		s := &sent{plan: p, run: a.startRun(rng, p)}
		all = append(all, s)
		own := rand.New(rand.NewPCG(rng.Uint64(), 1))
		senders.Go(func() { a.send(s, own) })
	}
	return all
}

// startRun starts a run, from another process or on a worker. It retries until the run is certain
// to exist.
func (a *attack) startRun(rng *rand.Rand, p plan) *workflow.Run[done] {
	if len(a.homes) == 0 {
		return flowtest.Start(a.World, randomFlow, p)
	}
	a.T.Helper()
	home, id := a.homes[rng.IntN(len(a.homes))], strconv.FormatUint(rng.Uint64(), 36)
	for {
		run, err := randomFlow.Start(a.Ctx, home, p, workflow.WithID(id))
		if err == nil {
			return randomFlow.Get(a.Client, run.ID())
		}
		if !errors.Is(err, errNoAnswer) {
			a.T.Fatalf("start: %v", err)
		}
	}
}

// verify checks the result and the log of a run.
func (a *attack) verify(s *sent) {
	got, err := s.run.Result(a.Ctx)
	var failed *workflow.RunError
	switch {
	case errors.As(err, &failed) && failed.Status == workflow.StatusCanceled && s.canceled:
	case failed != nil && failed.Code == event.CodePoisoned && a.recoveries < 1000:
	case err != nil:
		a.T.Errorf("result of %s: %v", s.run.ID(), err)
	default:
		if diff := cmp.Diff(s.plan.want(got), got); diff != "" {
			a.T.Errorf("result of %s, %+v (-want +got)\n%s", s.run.ID(), s.plan, diff)
		}
	}
	log := a.Log(s.run)
	found := map[event.ItemID]int{}
	for _, e := range log {
		if e.Type == event.MessageReceived {
			found[e.Item]++
		}
	}
	unread := log[len(log)-1].Unread
	for _, id := range unread {
		if found[id] == 0 {
			found[id]++
		}
	}
	for _, id := range s.accepted {
		if found[id] != 1 {
			a.T.Errorf("run %s: message %s was accepted and received %d times", s.run.ID(), id, found[id])
		}
	}
	if err == nil && len(s.accepted) > len(got.Messages) && len(unread) == 0 {
		a.T.Errorf("run %s: of %d messages %d were received, and none is listed as unread", s.run.ID(), len(s.accepted), len(got.Messages))
	}
}
