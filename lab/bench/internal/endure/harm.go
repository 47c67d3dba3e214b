package endure

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/lab/bench/internal/fleet"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
)

// stopTime is the time that a worker may take to stop: its grace period, and time for a server that
// is down.
const stopTime = time.Minute

// deployBuilds replaces one worker after the other by one of the next build until harm ends. The
// last workers then work until leave is closed.
func (e *experiment) deployBuilds(ctx, harm context.Context, leave <-chan struct{}) error {
	members := make([]*fleet.Process, e.workers)
	hire := func(n int) (err error) {
		build := 1 + n/e.workers
		members[n%e.workers], err = fleet.Spawn(e.guard, e.dir, fmt.Sprintf("worker-%d.%d", n%e.workers, n/e.workers),
			e.self, roleWorker, "-name", fmt.Sprintf("worker-%d-of-build-%d", n, build), "-store", e.site.URL, "-build", fmt.Sprint(build))
		return err
	}
	dismiss := func(p *fleet.Process) {
		if p.Crashed() != nil {
			return
		}
		if err := p.Stop(stopTime); err != nil {
			e.problemf("%v", err)
		}
	}
	n := 0
	for ; n < e.workers; n++ {
		if err := hire(n); err != nil {
			return err
		}
	}
	for ; e.deploy > 0 && pause(harm, e.deploy); n++ {
		p := members[n%e.workers]
		e.inspect(p)
		if n%3 == 2 {
			p.Kill()
		} else {
			dismiss(p)
		}
		if err := hire(n); err != nil {
			return err
		}
		e.mu.Lock()
		e.deploys++
		if n%3 == 2 {
			e.kills++
		}
		e.mu.Unlock()
	}
	select {
	case <-leave:
	case <-ctx.Done():
	}
	for _, p := range members {
		e.inspect(p)
		dismiss(p)
	}
	return nil
}

// inspect records a problem if a worker has ended unexpectedly. A worker that was started while the
// server was down may end, and the caller retries.
func (e *experiment) inspect(p *fleet.Process) {
	if err := p.Crashed(); err != nil && p.ExitCode() != exitFailed {
		e.problemf("%v", err)
	}
}

// bounceServer kills and restarts the server repeatedly until harm ends. The server is running when
// it returns.
func (e *experiment) bounceServer(ctx, harm context.Context) error {
	server := e.site.Servers[0]
	for e.bounce > 0 && pause(harm, e.bounce) {
		if err := server.Crashed(); err != nil {
			return err
		}
		server.Kill()
		pause(ctx, time.Second)
		if err := server.Start(ctx); err != nil {
			return fmt.Errorf("start the server again: %w", err)
		}
		e.mu.Lock()
		e.bounces++
		e.mu.Unlock()
	}
	return nil
}

// lookEvery is the interval between searches for new keys.
const lookEvery = 5 * time.Second

// deleteKeys considers each key once, soon after its creation, and deletes a random selection.
func (e *experiment) deleteKeys(harm context.Context) error {
	if e.damage == 0 {
		return nil
	}
	server := redis.NewClient(&redis.Options{Addr: e.site.Servers[0].Addr})
	defer func() { _ = server.Close() }()
	chance := e.chance(2)
	for pause(harm, lookEvery) {
		keys, err := everyKey(harm, server)
		if err != nil {
			continue // the server is down
		}
		for _, key := range keys {
			if e.drawn(key) || chance.IntN(e.damage) > 0 {
				continue
			}
			e.deleteKey(harm, server, key)
		}
	}
	return nil
}

func everyKey(ctx context.Context, server *redis.Client) ([]string, error) {
	var all []string
	scan := server.Scan(ctx, 0, "*", 1000).Iterator()
	for scan.Next(ctx) {
		all = append(all, scan.Val())
	}
	return all, scan.Err()
}

// drawn reports whether a key was considered before, and records it.
func (e *experiment) drawn(key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.seen[key]
	e.seen[key] = true
	return before
}

// deleteKey deletes a key and excuses the affected runs. It excuses them first, because it cannot
// find them after the deletion.
func (e *experiment) deleteKey(ctx context.Context, server *redis.Client, key string) {
	run := runOf(key)
	root := run
	if run != "" {
		loaded, err := e.store.Load(ctx, []store.Load{{Run: run, Limit: -1}})
		if err == nil && loaded[0].Err == nil && loaded[0].Record.Root != "" {
			root = loaded[0].Record.Root
		}
	}
	n, err := server.Del(ctx, key).Result()
	if err == nil && n == 0 {
		return // the key no longer exists
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.damaged = append(e.damaged, key)
	if root == "" {
		e.shared++
		return
	}
	e.excused[root], e.excused[run] = key, key
}

// runOf returns the run that a key belongs to, or "".
func runOf(key string) event.RunID {
	_, name, _ := strings.Cut(key, "}")
	name = strings.TrimLeft(name, "0123456789") // version of the format
	letter, rest, ok := strings.Cut(name, ":")
	if !ok || len(letter) != 1 || !strings.ContainsAny(letter, "mlingxjOBsSCW") {
		return ""
	}
	id, _, _ := strings.Cut(rest, ":")
	return event.RunID(event.PrefixRun + "_" + id)
}

// keepUp repairs the store at an interval, even after the disturbances have ended.
func (e *experiment) keepUp(ctx context.Context, leave <-chan struct{}) error {
	if e.upkeep == 0 {
		return nil
	}
	tick := time.NewTicker(e.upkeep)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-leave:
			return nil
		case <-ctx.Done():
			return nil
		}
		try, cancel := context.WithTimeout(ctx, time.Minute)
		report, err := fsck.Repair(try, e.store, fsck.Options{By: "upkeep"})
		cancel()
		if err != nil {
			continue // the server is down
		}
		e.mu.Lock()
		for _, f := range report.Fixes {
			if f.Outcome == fsck.OutcomeRepaired {
				e.fixes++
			}
		}
		e.mu.Unlock()
	}
}
