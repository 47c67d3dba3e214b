package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/chaos/check"
	"github.com/flowgen/flowgen/lab/bench/internal/chaos/record"
	"github.com/flowgen/flowgen/lab/bench/internal/fleet"
)

// live keeps one position of the fleet occupied and disturbs its worker, at first p, until harm
// ends. The last worker then works until leave is closed, or is killed if ctx has ended.
func (x *experiment) live(ctx, harm context.Context, place int, p *fleet.Process, leave <-chan struct{}) error {
	r := rand.New(rand.NewPCG(x.seed, 100+uint64(place)))
	for generation := 2; ; generation++ {
		for alive := true; alive; {
			select {
			case <-leave:
				if ctx.Err() != nil {
					x.kill(p)
				} else {
					x.dismiss(p)
				}
				return nil
			case <-p.Done():
				x.bury(p)
				alive = false
			case <-harm.Done():
				select { // an undisturbed period
				case <-leave:
				case <-p.Done():
				}
			case <-time.After(x.every*time.Duration(x.workers)/2 + randomTime(r, x.every*time.Duration(x.workers))):
				alive = x.hurt(harm, p, r)
			}
		}
		pause(harm, randomTime(r, x.lease))
		var err error
		if p, err = x.hire(place, generation); err != nil {
			return err
		}
	}
}

// hireAll starts the first workers. The time of the disturbances begins after they have started,
// because starting takes longer than that on a busy machine.
func (x *experiment) hireAll() ([]*fleet.Process, error) {
	all, errs := make([]*fleet.Process, x.workers), make([]error, x.workers)
	var hiring sync.WaitGroup
	for n := range all {
		hiring.Go(func() { all[n], errs[n] = x.hire(n+1, 1) })
	}
	hiring.Wait()
	return all, errors.Join(errs...)
}

// hire starts a worker and waits until it is ready.
func (x *experiment) hire(place, generation int) (*fleet.Process, error) {
	m := member{
		name: fmt.Sprintf("worker-%d.%d", place, generation), store: x.site.URL, records: x.dir, lease: x.lease, heartbeat: x.heartbeat,
	}
	p, err := fleet.Spawn(x.guard, x.dir, m.name, append([]string{x.self}, m.arguments()...)...)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !record.Exists(x.dir, m.name) { // after that the worker handles SIGTERM
		select {
		case <-tick.C:
		case <-p.Done():
			return p, nil
		}
	}
	return p, nil
}

// stopTime is the time that a worker may take to stop. Its grace period is short, but it hands over
// all runs, and a server may be down.
const stopTime = 30 * time.Second

// kill kills a worker.
func (x *experiment) kill(p *fleet.Process) {
	x.noteDeath(p)
	p.Kill()
}

// noteDeath records that a worker is about to be stopped or has ended.
func (x *experiment) noteDeath(p *fleet.Process) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.deaths[p.Name] = time.Now()
}

// dismiss stops a worker. An unclean exit is a violation.
func (x *experiment) dismiss(p *fleet.Process) {
	x.noteDeath(p)
	if err := p.Stop(stopTime); err != nil && !x.excused(p) {
		x.notef(check.Process, "", "%v", err)
	}
}

// bury records that a worker has ended unexpectedly.
func (x *experiment) bury(p *fleet.Process) {
	if !x.excused(p) {
		x.notef(check.Process, "", "%v", p.Crashed())
	}
}

// excused reports whether a worker was allowed to fail: it could not start because the server was
// down, and the caller must retry.
func (x *experiment) excused(p *fleet.Process) bool {
	return (x.restartServer || x.failovers > 0) && p.ExitCode() == exitNotStarted
}

// hurt performs one disturbance and reports whether the worker is still running.
func (x *experiment) hurt(harm context.Context, p *fleet.Process, r *rand.Rand) (alive bool) {
	switch n := r.IntN(100); {
	case n < 50:
		x.kill(p)
		x.count(func(h *harms) { h.Kills++ })
		return false
	case n < 65:
		x.dismiss(p)
		x.count(func(h *harms) { h.Stops++ })
		return false
	}
	from := time.Now()
	if err := p.Suspend(); err != nil {
		x.notef(check.Process, "", "%v", err)
	}
	pause(harm, x.lease+randomTime(r, 3*x.lease/2))
	if err := p.Resume(); err != nil {
		x.notef(check.Process, "", "%v", err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stalls = append(x.stalls, check.Stall{Worker: p.Name, From: from, To: time.Now()})
	x.harms.Stalls++
	return true
}

func (x *experiment) count(f func(*harms)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f(&x.harms)
}

// restartServers kills and restarts one server after the other until harm ends. All servers are
// running when it returns.
func (x *experiment) restartServers(harm, ctx context.Context) error {
	r := rand.New(rand.NewPCG(x.seed, 2))
	for {
		if !pause(harm, 2*x.lease+randomTime(r, 5*x.lease)) {
			return nil
		}
		server := x.site.Servers[r.IntN(len(x.site.Servers))]
		if err := server.Crashed(); err != nil {
			return err
		}
		server.Kill()
		pause(ctx, randomTime(r, x.lease))
		if err := server.Start(ctx); err != nil {
			return fmt.Errorf("restart server %s: %w", strconv.Quote(server.Addr), err)
		}
		x.count(func(h *harms) { h.ServerRestarts++ })
	}
}

// pause waits and reports whether ctx is still valid.
func pause(ctx context.Context, d time.Duration) bool {
	end := time.NewTimer(d)
	defer end.Stop()
	select {
	case <-end.C:
		return true
	case <-ctx.Done():
		return false
	}
}
