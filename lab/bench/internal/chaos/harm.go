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

// live keeps one place of the fleet filled, and harms whoever is there, at first p, until the
// harm is over; then the last one works until it may leave. It is killed if ctx
// has ended.
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
				select { // in peace
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

// hireAll starts the first workers. The time of the harm begins once they are there: on a busy
// machine it would be over before.
func (x *experiment) hireAll() ([]*fleet.Process, error) {
	all, errs := make([]*fleet.Process, x.workers), make([]error, x.workers)
	var hiring sync.WaitGroup
	for n := range all {
		hiring.Go(func() { all[n], errs[n] = x.hire(n+1, 1) })
	}
	hiring.Wait()
	return all, errors.Join(errs...)
}

// hire starts a worker and waits until it has begun its life.
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
	for !record.Exists(x.dir, m.name) { // once it does, the worker knows what to do at SIGTERM
		select {
		case <-tick.C:
		case <-p.Done():
			return p, nil
		}
	}
	return p, nil
}

// stopTime is how long a worker may take to stop: its grace period is short, but
// it hands over everything, and a server may be down.
const stopTime = 30 * time.Second

// kill kills a worker.
func (x *experiment) kill(p *fleet.Process) {
	x.noteDeath(p)
	p.Kill()
}

// noteDeath records that a worker is about to be told to end, or has ended.
func (x *experiment) noteDeath(p *fleet.Process) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.deaths[p.Name] = time.Now()
}

// dismiss stops a worker. One that ends badly has broken a promise, too.
func (x *experiment) dismiss(p *fleet.Process) {
	x.noteDeath(p)
	if err := p.Stop(stopTime); err != nil && !x.excused(p) {
		x.notef(check.Process, "", "%v", err)
	}
}

// bury takes note of a worker that has ended by itself.
func (x *experiment) bury(p *fleet.Process) {
	if !x.excused(p) {
		x.notef(check.Process, "", "%v", p.Crashed())
	}
}

// excused reports whether a worker that has ended may have failed: one that could
// not start because the server was down leaves it to whoever has started it to
// try again.
func (x *experiment) excused(p *fleet.Process) bool {
	return (x.restartServer || x.failovers > 0) && p.ExitCode() == exitNotStarted
}

// hurt does one harm and reports whether the worker is still there.
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

// restartServers kills one server after the other and starts it again, until the
// harm is over. It never leaves a server dead.
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

// pause waits and reports whether ctx still lives.
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
