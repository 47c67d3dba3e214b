package check_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/chaos/check"
	"github.com/flowgen/flowgen/lab/bench/internal/chaos/flows"
	"github.com/flowgen/flowgen/lab/internal/harm/record"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// The indexes of the jobs in the evidence, by their purpose.
const (
	aChain = iota
	aFan
	aMail
	anEndless
	replaced // an endless run that is replaced
	aDoomed
	aLong
	aCrowd
	aHoarder
	replacing // a chain that replaces that run
	jobs
)

// scene contains the evidence of an experiment. A test may modify it.
type scene struct {
	t *testing.T
	check.Evidence

	runs [jobs]event.RunID
}

// newScene executes one job of each kind on one worker without disturbances and returns the
// evidence.
func newScene(t *testing.T) *scene {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	st := memstore.New()
	c := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	records, err := record.NewWriter(dir, "w")
	if err != nil {
		t.Fatal(err)
	}
	w := worker.New(c, worker.Config{Name: "w"})
	flows.Register(w, &flows.Hands{Record: records})
	working, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(working) }()

	s := &scene{t: t, Evidence: check.Evidence{Ended: map[event.RunID]time.Time{}, Answers: map[event.RunID]flows.Result{}}}
	s.work(ctx, c)
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := records.Close(); err != nil {
		t.Fatal(err)
	}
	if s.Snapshot, err = st.Inspect(ctx); err != nil {
		t.Fatal(err)
	}
	if s.Executions, err = record.Read(dir); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *scene) work(ctx context.Context, c *workflow.Client) {
	s.t.Helper()
	s.job(ctx, c, aChain, flows.Chain.Name(), check.Completes, starting(flows.Chain))
	s.job(ctx, c, aFan, flows.Fan.Name(), check.Completes, starting(flows.Fan))
	s.job(ctx, c, aMail, flows.Mail.Name(), check.Completes, starting(flows.Mail))
	s.job(ctx, c, anEndless, flows.Endless.Name(), check.IsCanceled, starting(flows.Endless))
	s.job(ctx, c, replaced, flows.Endless.Name(), check.IsCanceled, starting(flows.Endless))
	s.job(ctx, c, aDoomed, flows.Doomed.Name(), check.Fails, starting(flows.Doomed))
	s.job(ctx, c, aLong, flows.Long.Name(), check.Completes, starting(flows.Long))
	s.job(ctx, c, aCrowd, flows.Crowd.Name(), check.Completes, starting(flows.Crowd))
	s.job(ctx, c, aHoarder, flows.Hoarder.Name(), check.Completes, starting(flows.Hoarder))
	for number := 1; number <= 2; number++ {
		for sender := range 2 {
			m := flows.Message{Sender: sender, Number: number}
			if err := flows.Post.Send(ctx, c.Run(s.runs[aMail]), m, workflow.IdempotencyKey(m.Key())); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	for _, n := range []int{anEndless, replaced} { // These runs have not ended.
		for _, err := range c.Run(s.runs[n]).Events(ctx, workflow.Types(event.StepCompleted)) {
			if err != nil {
				s.t.Fatal(err)
			}
			break
		}
	}
	if err := c.Run(s.runs[anEndless]).Cancel(ctx, "test"); err != nil {
		s.t.Fatal(err)
	}
	s.job(ctx, c, replacing, flows.Chain.Name(), check.Completes, starting(flows.Chain))
	for _, run := range s.runs {
		for _, err := range c.Run(run).Events(ctx) {
			if err != nil {
				s.t.Fatal(err)
			}
		}
		s.Ended[run] = time.Now()
	}
	var err error
	if s.Answers[s.runs[aChain]], err = flows.Chain.Get(c, s.runs[aChain]).Result(ctx); err != nil {
		s.t.Fatal(err)
	}
}

type start func(context.Context, *workflow.Client, flows.Job, ...workflow.StartOption) (event.RunID, error)

func starting[Out any](d workflow.Definition[flows.Job, Out]) start {
	return func(ctx context.Context, c *workflow.Client, in flows.Job, opts ...workflow.StartOption) (event.RunID, error) {
		run, err := d.Start(ctx, c, in, opts...)
		if err != nil {
			return "", err
		}
		return run.ID(), nil
	}
}

func (s *scene) job(ctx context.Context, c *workflow.Client, id int, name string, fate check.Fate, start start) {
	s.t.Helper()
	j := check.Job{
		Input:    flows.Job{ID: id, Seed: 8, Steps: 3, Nap: 5, Work: 20, Senders: 2, Messages: 2},
		Workflow: name, WorkflowID: fmt.Sprintf("job-%d", id), Fate: fate,
	}
	if id == aCrowd {
		j.Input.Steps = 12 // With 12 steps, the job uses each limit.
	}
	policy := workflow.IDPolicy{}
	if id == replacing {
		j.WorkflowID, j.Replaces, policy.Active = fmt.Sprintf("job-%d", replaced), true, workflow.CancelActive
	}
	s.Jobs = append(s.Jobs, j)
	run, err := start(ctx, c, j.Input, workflow.WithID(j.WorkflowID), workflow.WithIDPolicy(policy))
	if err != nil {
		s.t.Fatal(err)
	}
	s.runs[id] = run
}

// copy returns a deep copy of the evidence.
func (s *scene) copy(t *testing.T) *scene {
	c := *s
	c.t = t
	snap := *s.Snapshot
	snap.Runs = maps.Clone(snap.Runs)
	for id, r := range snap.Runs {
		state := *r
		state.Frames = slices.Clone(r.Frames)
		snap.Runs[id] = &state
	}
	snap.LastEnded, snap.Purges = maps.Clone(snap.LastEnded), maps.Clone(snap.Purges)
	c.Snapshot = &snap
	c.Jobs, c.Executions = slices.Clone(s.Jobs), slices.Clone(s.Executions)
	c.Ended, c.Answers = maps.Clone(s.Ended), maps.Clone(s.Answers)
	return &c
}

// rewrite calls change for each frame of a job's run.
func (s *scene) rewrite(job int, change func(n int, f *event.Frame)) {
	s.t.Helper()
	r := s.state(job)
	for i, b := range r.Frames {
		f, err := event.DecodeFrame(b)
		if err != nil {
			s.t.Fatal(err)
		}
		change(i, f)
		if r.Frames[i], err = event.AppendFrame(nil, f); err != nil {
			s.t.Fatal(err)
		}
	}
}

// rewriteEvents calls change for each event of the given type in the log of a job's run.
func (s *scene) rewriteEvents(job int, typ event.Type, change func(*event.Event)) {
	s.t.Helper()
	found := false
	s.rewrite(job, func(_ int, f *event.Frame) {
		for i := range f.Events {
			if f.Events[i].Type == typ {
				found = true
				change(&f.Events[i])
			}
		}
	})
	if !found {
		s.t.Fatalf("the log has no %s", typ)
	}
}

func (s *scene) state(job int) *store.RunState { return s.Snapshot.Runs[s.runs[job]] }

// execution returns the first execution of the step with the given key in a job's run.
func (s *scene) execution(job int, key string) *record.Execution {
	s.t.Helper()
	for i := range s.Executions {
		x := &s.Executions[i]
		if x.Run == s.runs[job] && x.Key == key && x.Attempt == 1 {
			return x
		}
	}
	s.t.Fatalf("%s was not executed", key)
	return nil
}

// again adds a copy of x that change has modified.
func (s *scene) again(x *record.Execution, change func(*record.Execution)) {
	other := *x
	change(&other)
	s.Executions = append(s.Executions, other)
}

// retried returns an execution of an attempt of the chain that was followed by another attempt.
func (s *scene) retried() *record.Execution {
	s.t.Helper()
	for i := range s.Executions {
		if x := &s.Executions[i]; x.Run == s.runs[aChain] && x.Attempt == 1 && x.Outcome == record.Failed && x.Key != "chain/flows.refuse#1" {
			return x
		}
	}
	s.t.Fatal("no attempt has failed")
	return nil
}
