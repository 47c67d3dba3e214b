package harm

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/flowgen/flowgen/lab/internal/harm/record"
	"github.com/flowgen/flowgen/runtime/event"
)

// Experiment drives a fleet. It disturbs workers and servers, and records the faults and the
// observations as evidence.
type Experiment struct {
	*Site // set by Open

	Role   string // role of the workers
	Output io.Writer
	Began  time.Time

	seed uint64
	self string // path of the executable of this program
	// forgiving reports whether workers may fail to start, because the servers are disturbed as
	// well.
	forgiving bool

	mu     sync.Mutex
	counts map[string]int // number of faults by name
	// Violations must not be read before Play has returned.
	Violations []Violation
	Stalls     []Stall
	Deaths     map[string]time.Time // time before each worker was stopped, by worker name
}

// Stall is an interval for which a worker was suspended.
type Stall struct {
	Worker   string
	From, To time.Time
}

// Kind classifies violations.
type Kind string

// Unclean is the violation of a process that ended unexpectedly or could not be stopped.
const Unclean Kind = "process"

// Violation is a broken promise.
type Violation struct {
	Kind Kind        `json:"kind"`
	Run  event.RunID `json:"run,omitempty"` // empty if the violation concerns no particular run
	What string      `json:"what"`
}

// String returns the violation on one line.
func (v Violation) String() string {
	if v.Run == "" {
		return fmt.Sprintf("%s: %s", v.Kind, v.What)
	}
	return fmt.Sprintf("%s: run %s: %s", v.Kind, v.Run, v.What)
}

// PrintViolations prints violations, but at most the number most of each kind.
func PrintViolations(w io.Writer, all []Violation, most int) {
	printed := map[Kind]int{}
	for _, v := range all {
		if printed[v.Kind]++; printed[v.Kind] <= most {
			fmt.Fprintln(w, v)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(printed)) {
		if n := printed[kind]; n > most {
			fmt.Fprintf(w, "%s: %d more\n", kind, n-most)
		}
	}
}

// NewExperiment returns an experiment that prints its progress to output.
func NewExperiment(seed uint64, role string, output io.Writer) *Experiment {
	return &Experiment{seed: seed, Role: role, Output: output, counts: map[string]int{}, Deaths: map[string]time.Time{}}
}

// Open opens the store of the experiment. See the function [Open] for the parameters. The caller
// must close the experiment.
func (x *Experiment) Open(ctx context.Context, dir, what string, settings ...string) (err error) {
	if x.self, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if x.Site, err = Open(ctx, dir, what, settings...); err != nil {
		return err
	}
	if err = x.Connect(ctx); err != nil {
		x.Close()
	}
	return err
}

// Notef records a violation. run may be empty.
func (x *Experiment) Notef(kind Kind, run event.RunID, format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.Violations = append(x.Violations, Violation{Kind: kind, Run: run, What: fmt.Sprintf(format, args...)})
}

// Count returns the number of faults with the given name.
func (x *Experiment) Count(fault string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.counts[fault]
}

func (x *Experiment) add(fault string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.counts[fault]++
}

// Seconds returns the time in seconds since the beginning of the experiment.
func (x *Experiment) Seconds() float64 {
	if x.Began.IsZero() {
		return 0
	}
	return time.Since(x.Began).Seconds()
}

// Chance returns a random source for one part of the experiment. It depends only on the seed and
// the part.
func (x *Experiment) Chance(part uint64) *rand.Rand { return rand.New(rand.NewPCG(x.seed, part)) }

// Random returns a random duration less than below.
func Random(r *rand.Rand, below time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(max(below, 1))))
}

// Insist calls f repeatedly until it succeeds or ctx ends. f may fail while a server is down.
func Insist(ctx context.Context, f func(context.Context) error) {
	for {
		try, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := f(try)
		cancel()
		if err == nil || !Pause(ctx, 20*time.Millisecond) {
			return
		}
	}
}

// Hire starts a worker with additional arguments. It returns when the worker handles SIGTERM or has
// ended.
func (x *Experiment) Hire(name string, args ...string) (*Process, error) {
	p, err := x.Spawn(name, append([]string{x.self, x.Role, "-name", name, "-store", x.URL, "-records", x.Dir}, args...)...)
	if err == nil {
		_ = poll(context.Background(), p.Done(), func() bool { return record.Exists(x.Dir, name) })
	}
	return p, err
}

// stopTime is the maximum time that a worker takes to stop. It includes the grace period of the
// worker and the time for which a server may be down.
const stopTime = time.Minute

// Kill kills a worker.
func (x *Experiment) Kill(p *Process) {
	x.noteDeath(p)
	p.Kill()
}

// Dismiss stops a worker. It records a violation if the worker does not exit cleanly.
func (x *Experiment) Dismiss(p *Process) {
	x.noteDeath(p)
	if err := p.Stop(stopTime); err != nil && !x.excused(p) {
		x.Notef(Unclean, "", "%v", err)
	}
}

func (x *Experiment) noteDeath(p *Process) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.Deaths[p.Name] = time.Now()
}

// bury records a violation if a worker has ended unexpectedly.
func (x *Experiment) bury(p *Process) {
	if !x.excused(p) {
		x.Notef(Unclean, "", "%v", p.Crashed())
	}
}

// excused reports whether a worker was allowed to fail, because it could not start while a server
// was down. The caller must start it again.
func (x *Experiment) excused(p *Process) bool { return x.forgiving && p.ExitCode() == exitNotStarted }

// stall suspends a worker for the duration d or until ctx ends.
func (x *Experiment) stall(ctx context.Context, p *Process, d time.Duration) {
	from := time.Now()
	if err := p.Stall(ctx, d); err != nil {
		x.Notef(Unclean, "", "%v", err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.Stalls = append(x.Stalls, Stall{Worker: p.Name, From: from, To: time.Now()})
}
