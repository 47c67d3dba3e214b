package deploy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/flowgen/flowgen/lab/internal/harm"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// cell is one deployment.
type cell struct {
	store    string // "sqlite" or "redis"
	strategy struct{ name, script string }
	version  bool // the new code uses Version
	kill     bool // workers end by SIGKILL instead of SIGTERM
	runs     int
	step     time.Duration // duration of a step of a run
	pace     time.Duration // time between two steps of the deployment
	// still is the time with only blocked runs after which these are assumed to need code that no
	// worker has. It is longer than a worker needs to find a compatible run.
	still time.Duration
}

// strategies are the deployments by name, with their scripts: - ends a worker with the old code, +
// starts one with the new code, ~ ends one of these, and a dot is a pause. The last one begins like
// the previous one and then rolls back.
var strategies = []struct{ name, script string }{
	{"rolling", "-+.-+.-+."},
	{"blue/green", "+++..---"},
	{"canary", "+..--+.-+."},
	{takenBack, "+..~"},
}

const (
	workers   = 3
	takenBack = "canary, taken back"
)

// outcome contains the numbers of runs of a cell by their end.
type outcome struct {
	completed, failed int
	blocked           int           // how often a worker could not replay a run
	longest           time.Duration // maximum time for which a run was blocked, except for runs that needed the other code
	waited            int           // runs that were blocked on all workers until the other code was restored
	used, given       int           // attempts that count, beyond the first, and those that do not count
	took              time.Duration
}

// site is a cell during its execution.
type site struct {
	*harm.Experiment
	*cell
	alive   map[bool][]*harm.Process // oldest first, by whether the code is changed
	started int
	ids     []workflow.RunID
}

// play executes the deployment with logs in a directory.
func (c *cell) play(ctx context.Context, dir string) (got outcome, err error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return got, err
	}
	what := "redis"
	if c.store == "sqlite" {
		what = "sqlite:" + filepath.Join(dir, "runs.db")
	}
	s := &site{Experiment: harm.NewExperiment(0, Worker.Name, io.Discard), cell: c, alive: map[bool][]*harm.Process{}}
	if err := s.Open(ctx, dir, what); err != nil {
		return got, err
	}
	defer s.Close()
	began := time.Now()
	for range workers {
		if err := s.begin(false); err != nil {
			return got, err
		}
	}
	watch := newWatch(s.Client)
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() { defer close(watched); watch.loop(watching) }()
	defer func() { stop(); <-watched }()

	if err := s.start(ctx, c.runs/2); err != nil {
		return got, err
	}
	errs := make(chan error, 1)
	go func() { errs <- s.startSlowly(ctx, c.runs-c.runs/2) }()
	harm.Pause(ctx, c.pace)
	if err := s.deploy(ctx); err != nil {
		return got, err
	}
	if err := <-errs; err != nil {
		return got, err
	}
	left, err := s.await(ctx)
	if err == nil && left > 0 { // start the other code in addition
		got.waited = left
		watch.settle()
		if err = s.begin(c.strategy.name == takenBack); err == nil {
			_, err = s.await(ctx)
		}
	}
	if err != nil {
		return got, err
	}
	stop()
	<-watched
	got.longest, got.took = watch.longest.Round(100*time.Millisecond), time.Since(began).Round(time.Second)
	if got.blocked, err = s.logged("run is blocked"); err != nil {
		return got, err
	}
	err = s.count(ctx, &got)
	return got, err
}

// logged counts lines with a message in the logs of the workers.
func (s *site) logged(message string) (n int, err error) {
	logs, err := filepath.Glob(filepath.Join(s.Dir, "worker-*.log"))
	for _, name := range logs {
		text, err := os.ReadFile(name)
		if err != nil {
			return 0, err
		}
		n += bytes.Count(text, []byte(`msg="`+message+`"`))
	}
	return n, err
}

// deploy replaces the workers as the script of the strategy requires.
func (s *site) deploy(ctx context.Context) error {
	for _, step := range s.strategy.script {
		switch step {
		case '+':
			if err := s.begin(true); err != nil {
				return err
			}
		case '.':
			harm.Pause(ctx, s.pace)
		default:
			s.end(step == '~')
		}
	}
	return nil
}

// begin starts a worker with the old or the changed code.
func (s *site) begin(changed bool) error {
	s.started++
	name := fmt.Sprintf("worker-%d-%s", s.started, map[bool]string{false: "old", true: "new"}[changed])
	p, err := s.Hire(name, fmt.Sprintf("-changed=%v", changed), fmt.Sprintf("-version=%v", s.version))
	s.alive[changed] = append(s.alive[changed], p)
	return err
}

// end ends the oldest worker with the given code. The log of a worker that did not stop contains the
// reason.
func (s *site) end(changed bool) {
	p := s.alive[changed][0]
	s.alive[changed] = s.alive[changed][1:]
	if s.kill {
		s.Kill(p)
	} else {
		s.Dismiss(p)
	}
}

func (s *site) start(ctx context.Context, n int) error {
	for range n {
		run, err := order.Start(ctx, s.Client, job{N: len(s.ids), Step: s.step})
		if err != nil {
			return err
		}
		s.ids = append(s.ids, run.ID())
	}
	return nil
}

// startSlowly starts runs during the deployment.
func (s *site) startSlowly(ctx context.Context, n int) error {
	for range n {
		if err := s.start(ctx, 1); err != nil {
			return err
		}
		harm.Pause(ctx, 4*s.pace/time.Duration(n))
	}
	return nil
}

// await waits until all runs have ended, or only blocked runs are left for some time. It returns
// the number of remaining runs.
func (s *site) await(ctx context.Context) (left int, err error) {
	since, before := time.Now(), -1
	for ctx.Err() == nil {
		all, err := s.Client.Count(ctx, workflow.Filter{Internal: true})
		if err != nil {
			return 0, err
		}
		counts := all.ByStatus()
		left = len(s.ids)
		for status, n := range counts {
			if status.Terminal() {
				left -= n
			}
		}
		if left != before || left != counts[workflow.StatusBlocked] {
			since, before = time.Now(), left
		}
		if left == 0 || time.Since(since) > s.still {
			return left, nil
		}
		harm.Pause(ctx, 200*time.Millisecond)
	}
	return left, ctx.Err()
}

// count reads the outcomes of the runs and of the attempts of their steps.
func (s *site) count(ctx context.Context, got *outcome) error {
	for _, id := range s.ids {
		started, completed := 0, 0
		for e, err := range s.Client.Run(id).Events(ctx) {
			if err != nil {
				return err
			}
			switch e.Type {
			case event.StepStarted:
				started++
			case event.StepCompleted:
				completed++
			case event.StepRetrying:
				if e.Failure != nil && e.Failure.Code == event.CodeStopped {
					got.given++
					started--
				}
			case event.RunCompleted:
				got.completed++
			case event.RunFailed, event.RunCanceled:
				got.failed++
			}
		}
		got.used += started - completed
	}
	return nil
}
