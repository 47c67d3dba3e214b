package deploy

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/fleet"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

const (
	workers  = 3
	stopTime = 30 * time.Second
)

// cell is one deployment.
type cell struct {
	store    string // "sqlite" or "redis"
	strategy string // an element of strategies
	version  bool   // the new code uses Version
	kill     bool   // workers end by SIGKILL instead of SIGTERM
	runs     int
	step     time.Duration // duration of a step of a run
	pace     time.Duration // time between two steps of the deployment
	// still is the time with only blocked runs after which these are assumed to need code that no
	// worker has. It is longer than a worker needs to find a compatible run.
	still time.Duration
}

// strategies lists the deployments. The last one begins like the previous one and then rolls back.
var strategies = []string{"rolling", "blue/green", "canary", "canary, taken back"}

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
	*cell
	dir, self string
	guard     *fleet.Guard
	url       string
	client    *workflow.Client
	alive     map[bool][]*fleet.Process // oldest first, by whether the code is changed
	started   int
	ids       []workflow.RunID
	opened    []func() // called by close in reverse order
}

// open prepares a store for a cell in a directory, and a client.
func (c *cell) open(ctx context.Context, dir, self string) (s *site, err error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	s = &site{cell: c, dir: dir, self: self, alive: map[bool][]*fleet.Process{}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.guard, err = fleet.NewGuard(self, roleGuard); err != nil {
		return nil, err
	}
	s.opened = append(s.opened, func() { _ = s.guard.Close() }) // ends the remaining processes
	what := "redis"
	if c.store == "sqlite" {
		what = "sqlite:" + filepath.Join(dir, "runs.db")
	}
	place, err := fleet.Open(ctx, s.guard, dir, what)
	if err != nil {
		return nil, err
	}
	s.opened = append(s.opened, func() { place.Close() })
	s.url = place.URL
	st, err := store.Open(ctx, s.url)
	if err != nil {
		return nil, err
	}
	s.opened = append(s.opened, func() { _ = st.Close() })
	s.client = workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	return s, nil
}

func (s *site) close() {
	for _, end := range slices.Backward(s.opened) {
		end()
	}
}

func (c *cell) play(ctx context.Context, dir, self string) (got outcome, err error) {
	s, err := c.open(ctx, dir, self)
	if err != nil {
		return got, err
	}
	defer s.close()
	began := time.Now()
	for range workers {
		if err := s.begin(false); err != nil {
			return got, err
		}
	}
	watch := newWatch(s.client)
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() { defer close(watched); watch.loop(watching) }()
	defer func() { stop(); <-watched }()

	if err := s.start(ctx, c.runs/2); err != nil {
		return got, err
	}
	errs := make(chan error, 1)
	go func() { errs <- s.startSlowly(ctx, c.runs-c.runs/2) }()
	s.pause(ctx, c.pace)
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
		if err = s.begin(c.strategy == "canary, taken back"); err == nil {
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
	logs, err := filepath.Glob(filepath.Join(s.dir, "worker-*.log"))
	for _, name := range logs {
		text, err := os.ReadFile(name)
		if err != nil {
			return 0, err
		}
		n += bytes.Count(text, []byte(`msg="`+message+`"`))
	}
	return n, err
}

// deploy replaces the workers.
func (s *site) deploy(ctx context.Context) error {
	replace := func(n int) error {
		for range n {
			s.end(false)
			if err := s.begin(true); err != nil {
				return err
			}
			s.pause(ctx, s.pace)
		}
		return nil
	}
	switch s.strategy {
	case "rolling":
		return replace(workers)
	case "blue/green":
		for range workers {
			if err := s.begin(true); err != nil {
				return err
			}
		}
		s.pause(ctx, 2*s.pace)
		for range workers {
			s.end(false)
		}
		return nil
	}
	if err := s.begin(true); err != nil { // the canary
		return err
	}
	s.pause(ctx, 2*s.pace)
	if s.strategy == "canary" {
		s.end(false)
		return replace(workers - 1)
	}
	s.end(true)
	return nil
}

func (s *site) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// begin starts a worker with the old or the changed code.
func (s *site) begin(changed bool) error {
	s.started++
	name := fmt.Sprintf("worker-%d-%s", s.started, map[bool]string{false: "old", true: "new"}[changed])
	p, err := fleet.Spawn(s.guard, s.dir, name, s.self, roleWorker, "-name", name, "-store", s.url,
		fmt.Sprintf("-changed=%v", changed), fmt.Sprintf("-version=%v", s.version))
	s.alive[changed] = append(s.alive[changed], p)
	return err
}

// end ends the oldest worker with the given code.
func (s *site) end(changed bool) {
	p := s.alive[changed][0]
	s.alive[changed] = s.alive[changed][1:]
	if s.kill {
		p.Kill()
		return
	}
	_ = p.Stop(stopTime) // its log contains the reason
}

func (s *site) start(ctx context.Context, n int) error {
	for range n {
		run, err := order.Start(ctx, s.client, job{N: len(s.ids), Step: s.step})
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
		s.pause(ctx, 4*s.pace/time.Duration(n))
	}
	return nil
}

// await waits until all runs have ended, or only blocked runs are left for some time. It returns
// the number of remaining runs.
func (s *site) await(ctx context.Context) (left int, err error) {
	since, before := time.Now(), -1
	for ctx.Err() == nil {
		all, err := s.client.Count(ctx, workflow.Filter{Internal: true})
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
		s.pause(ctx, 200*time.Millisecond)
	}
	return left, ctx.Err()
}

// count reads the outcomes of the runs and of the attempts of their steps.
func (s *site) count(ctx context.Context, got *outcome) error {
	for _, id := range s.ids {
		started, completed := 0, 0
		for e, err := range s.client.Run(id).Events(ctx) {
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
