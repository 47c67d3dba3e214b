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

// cell is one deployment in the table.
type cell struct {
	store    string // "sqlite" or "redis"
	strategy struct{ name, script string }
	version  bool // the new code calls Version
	kill     bool // workers are ended with SIGKILL instead of SIGTERM
	runs     int
	step     time.Duration // duration of a step
	pace     time.Duration // time between two steps of the deployment
	// still is the duration of the final wait. A worker finds a run that it can replay in less than
	// this time. Therefore, runs that are blocked during the whole time need code that no worker
	// has.
	still time.Duration
}

// strategies contains the deployments by name, with their scripts. Each character of a script is an
// operation. It is - to end a worker with the old code, + to start a worker with the new code, ~ to
// end a worker with the new code, or a dot for a pause. The last deployment begins like the
// previous one and is then rolled back.
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

// outcome contains the numbers of runs of a cell by the way in which they ended.
type outcome struct {
	completed, failed int
	blocked           int           // number of times at which a worker could not replay a run
	longest           time.Duration // maximum time for which a run was blocked, without runs that could continue only on the other version of the code
	waited            int           // number of runs that were blocked on all workers until the other code was started
	used, given       int           // attempts beyond the first that count toward the maximum, and attempts that do not
	took              time.Duration
}

// site is the state of a cell during its execution.
type site struct {
	*harm.Experiment
	*cell
	alive   map[bool][]*harm.Process // workers by whether they have the changed code, oldest first
	started int
	ids     []workflow.RunID
}

// play executes the deployment and returns its outcome. Log files are written to dir.
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
	if err == nil && left > 0 { // The remaining runs need the other code, so start it in addition.
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

// logged counts the log lines of all workers that contain a message.
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

// deploy replaces the workers according to the script of the strategy.
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

// begin starts a worker with the old code or, if changed is true, with the new code.
func (s *site) begin(changed bool) error {
	s.started++
	name := fmt.Sprintf("worker-%d-%s", s.started, map[bool]string{false: "old", true: "new"}[changed])
	p, err := s.Hire(name, fmt.Sprintf("-changed=%v", changed), fmt.Sprintf("-version=%v", s.version))
	s.alive[changed] = append(s.alive[changed], p)
	return err
}

// end ends the oldest worker with the given code. If the worker does not stop properly, its log
// contains the reason.
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

// await waits until all runs have ended, or until only blocked runs are left for c.still. It
// returns the number of runs that have not ended.
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

// count reads the outcome of each run and the attempts of its steps.
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
