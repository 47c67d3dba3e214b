package functions

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/flowgen/flowgen/lab/internal/harm"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/invoke"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

const usage = "usage: bench functions [-store STORE] [-runs N] [-instances N] [-kill WHEN] [-worker] [-dir DIR]\n"

const help = usage + `
Functions executes runs of five steps by functions only: processes that execute one run per request
and kill themselves with SIGKILL at each commit of each run. Three dispatchers call them, of which two
lose the store for a while.

  -store      sqlite (the default), redis, redis-cluster, sqlite:PATH or a URL
  -runs       number of runs, 200
  -instances  maximum number of processes at once, 16
  -kill       before, after, or before,after (the default) each commit, or none
  -worker     execute the runs by a worker in this process instead, for comparison
  -dir        directory for logs; it must be empty

The exit code is 1 if a run has not completed, or if a step was executed after its completion.
`

// Command is the command.
var Command = harm.Command{Name: "functions", Usage: usage, Help: help, Parse: func(args []string, _ io.Writer) (harm.Program, *harm.Options, error) {
	p := &Program{}
	o := &harm.Options{Wait: 10 * time.Minute}
	err := o.Parse(args, func(flags *flag.FlagSet) {
		flags.StringVar(&p.Store, "store", "sqlite", "")
		flags.IntVar(&p.Runs, "runs", 200, "")
		flags.IntVar(&p.Instances, "instances", 16, "")
		flags.StringVar(&p.Kill, "kill", "before,after", "")
		flags.BoolVar(&p.Worker, "worker", false, "")
	})
	p.wait = o.Wait
	return p, o, err
}}

// Program is one experiment.
type Program struct {
	Store           string
	Runs, Instances int
	Kill            string
	Worker          bool

	wait   time.Duration
	result Result
}

// Result is the outcome of an experiment.
type Result struct {
	Completed    int
	Again        int // steps that were executed after their completion was durable
	Executions   int // executions of steps
	Kills        int
	Processes    int64
	Invocations  int64
	Died         int64 // invocations whose process has died
	Lost         int64 // requests of dispatchers to the store that failed because the store was lost
	Took         time.Duration
	Unsuccessful []string
}

const (
	secret = "the secret of the emulated platform"
	budget = 2 * time.Second
	lease  = 4 * time.Second
)

func (p *Program) String() string {
	return fmt.Sprintf("-store %s -runs %d -instances %d -kill %s", p.Store, p.Runs, p.Instances, p.Kill)
}

// Progress returns the number of completed runs.
func (p *Program) Progress() string { return fmt.Sprintf("%d runs have completed", p.result.Completed) }

// Run executes the experiment.
func (p *Program) Run(ctx context.Context, dir string) error {
	what := p.Store
	if what == "sqlite" {
		what = "sqlite:" + filepath.Join(dir, "runs.db")
	}
	x := harm.NewExperiment(0, InstanceRole, io.Discard)
	if err := x.Open(ctx, dir, what); err != nil {
		return err
	}
	defer x.Close()
	if err := os.Mkdir(filepath.Join(dir, killsDir), 0o750); err != nil {
		return err
	}
	sockets, err := os.MkdirTemp("", "f")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(sockets) }()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	f := &platform{group: x.Group, dir: sockets, places: make(chan struct{}, p.Instances), args: []string{
		self, InstanceRole, "-store", x.URL, "-dir", dir, "-kill", p.Kill, "-secret", secret, "-budget", budget.String(), "-lease", lease.String(),
	}}
	defer f.close()
	url, closeServer, err := serve(f)
	if err != nil {
		return err
	}
	defer closeServer()

	requests := make([]workflow.StartRequest[int], p.Runs)
	began := time.Now()
	started, err := hops.StartMany(ctx, x.Client, requests)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.wait)
	defer cancel()
	stop, err := p.serve(ctx, x, url)
	if err != nil {
		return err
	}
	for _, s := range started {
		if got, err := s.Run.Result(ctx); err != nil || got != steps {
			p.result.Unsuccessful = append(p.result.Unsuccessful, fmt.Sprintf("run %s: result %d, %v", s.Run.ID(), got, err))
			continue
		}
		p.result.Completed++
	}
	p.result.Took = time.Since(began)
	if err := stop(); err != nil {
		return err
	}
	p.result.Processes, p.result.Invocations, p.result.Died = f.started.Load(), f.requests.Load(), f.died.Load()
	return p.judge(ctx, dir, started)
}

// serve starts what executes the runs: the dispatchers, or a worker.
func (p *Program) serve(ctx context.Context, x *harm.Experiment, url string) (stop func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	errs := make([]error, 3)
	stop = func() error {
		cancel()
		all.Wait()
		return errors.Join(errs...)
	}
	if p.Worker {
		w := worker.New(x.Client, worker.Config{NoLocalStart: true})
		register(w, func(string, workflow.RunID, string) {})
		all.Go(func() { errs[0] = w.Run(ctx) })
		return stop, nil
	}
	for i := range errs {
		l := &lossy{Store: x.Store}
		d, err := invoke.NewDispatcher(workflow.NewClient(l, workflow.ClientConfig{}), invoke.DispatcherConfig{
			Name: fmt.Sprintf("dispatcher-%d", i), HTTP: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: p.Instances}},
			Targets: []invoke.Target{{URL: url, Secret: []byte(secret), Concurrency: p.Instances}},
		})
		if err != nil {
			cancel()
			return nil, err
		}
		all.Go(func() { errs[i] = d.Run(ctx) })
		if i > 0 { // these dispatchers lose the store for a part of the time
			all.Go(func() {
				for harm.Pause(ctx, time.Duration(i)*500*time.Millisecond) {
					l.lost.Store(true)
					harm.Pause(ctx, 700*time.Millisecond)
					l.lost.Store(false)
				}
				p.addLost(l.refused.Load())
			})
		}
	}
	return stop, nil
}

var losing sync.Mutex

func (p *Program) addLost(n int64) {
	losing.Lock()
	defer losing.Unlock()
	p.result.Lost += n
}

// judge reads the ledger of the processes. Its lines are in the order of time. A step that is executed
// after its completion was durable was executed twice.
func (p *Program) judge(ctx context.Context, dir string, started []workflow.Started[int]) error {
	if p.Worker {
		return nil
	}
	kills, err := os.ReadDir(filepath.Join(dir, killsDir))
	if err != nil {
		return err
	}
	p.result.Kills = len(kills)
	refs := map[string]string{} // the number of the creation of a step, by run and key
	for _, s := range started {
		for e, err := range s.Run.Events(ctx) {
			if err != nil {
				return err
			}
			if e.Type == event.StepCreated {
				refs[string(s.Run.ID())+" "+e.Key] = fmt.Sprint(e.Seq)
			}
		}
	}
	f, err := os.Open(filepath.Join(dir, ledgerFile))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	done := map[string]bool{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		what, step, _ := strings.Cut(lines.Text(), " ")
		switch run, _, _ := strings.Cut(step, " "); what {
		case "completed":
			done[step] = true
		case "executed":
			ref, known := refs[step]
			if !known {
				return fmt.Errorf("the log of run %s does not contain the step of %q", run, lines.Text())
			}
			p.result.Executions++
			if done[run+" "+ref] {
				p.result.Again++
			}
		}
	}
	return lines.Err()
}

// Report prints the outcome.
func (p *Program) Report(stdout io.Writer) (sound bool, err error) {
	r := &p.result
	fmt.Fprintf(stdout, "runs               %d, of which %d completed\n", p.Runs, r.Completed)
	fmt.Fprintf(stdout, "time               %v\n", r.Took.Round(time.Millisecond))
	if !p.Worker {
		fmt.Fprintf(stdout, "kills              %d, of %d processes\n", r.Kills, r.Processes)
		fmt.Fprintf(stdout, "invocations        %d, of which %d died\n", r.Invocations, r.Died)
		fmt.Fprintf(stdout, "executions         %d of %d steps, %d after the completion of their step\n", r.Executions, steps*p.Runs, r.Again)
		fmt.Fprintf(stdout, "store lost         %d requests of two dispatchers failed\n", r.Lost)
	}
	for _, u := range r.Unsuccessful[:min(len(r.Unsuccessful), 10)] {
		fmt.Fprintln(stdout, u)
	}
	_, err = fmt.Fprintln(stdout)
	return r.Completed == p.Runs && r.Again == 0, err
}

// serve serves h on a free port of this machine, and returns its URL.
func serve(h http.Handler) (url string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(l) }() // ends with stop
	return "http://" + l.Addr().String(), func() { _ = server.Close() }, nil
}
