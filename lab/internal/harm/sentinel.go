package harm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Pair is a master with a replica and a Sentinel. The Sentinel promotes the replica when the master
// fails.
type Pair struct {
	// Sentinel is the address of the Sentinel process.
	Sentinel string

	master, replica *Redis
	watcher         *Process
}

// pairName is the name by which the Sentinel identifies the pair.
const pairName = "main"

// StartPair starts a master, a replica and a Sentinel.
func (g *Group) StartPair(ctx context.Context, settings ...string) (p *Pair, err error) {
	p = &Pair{}
	settings = append([]string{"--repl-diskless-sync-delay", "0"}, settings...)
	if p.master, err = g.StartRedis(ctx, "redis-1", settings...); err != nil {
		return nil, err
	}
	if p.replica, err = g.StartRedis(ctx, "redis-2", append(settings, replicaOf(p.master)...)...); err != nil {
		return nil, err
	}
	p.replica.settings = settings // Each start of the replica sets the address of its master.
	if err := p.watch(g); err != nil {
		return nil, err
	}
	return p, p.await(ctx)
}

func replicaOf(master *Redis) []string {
	host, port, _ := net.SplitHostPort(master.Addr) // The address was created by JoinHostPort, so it can be split.
	return []string{"--replicaof", host, port}
}

// watch starts the Sentinel. It stores its state in its configuration file.
func (p *Pair) watch(g *Group) error {
	binary, err := ServerBinary()
	if err != nil {
		return err
	}
	port, _, err := freePorts()
	if err != nil {
		return err
	}
	p.Sentinel = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	host, masterPort, err := net.SplitHostPort(p.master.Addr)
	if err != nil {
		return err
	}
	file := filepath.Join(g.Dir, "sentinel.conf")
	conf := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor %s %s %s 1\nsentinel down-after-milliseconds %s 500\nsentinel failover-timeout %s 5000\n",
		port, g.Dir, pairName, host, masterPort, pairName, pairName)
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		return fmt.Errorf("configure the Sentinel: %w", err)
	}
	p.watcher, err = g.Spawn("sentinel", binary, file, "--sentinel")
	return err
}

// await blocks until the Sentinel has discovered the master and a healthy replica.
func (p *Pair) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: p.Sentinel})
	defer func() { _ = sentinel.Close() }() // All requests have been answered, so an error of Close is irrelevant.
	master := redis.NewClient(&redis.Options{Addr: p.master.Addr})
	defer func() { _ = master.Close() }()
	err := poll(ctx, p.watcher.Done(), func() bool {
		addr, err := sentinel.GetMasterAddrByName(ctx, pairName).Result()
		if err != nil || net.JoinHostPort(addr[0], addr[1]) != p.master.Addr {
			return false
		}
		replicas, err := sentinel.Replicas(ctx, pairName).Result()
		if err != nil || len(replicas) != 1 || replicas[0]["flags"] != "slave" || replicas[0]["master-link-status"] != "ok" {
			return false
		}
		info, err := master.Info(ctx, "replication").Result()
		return err == nil && strings.Contains(info, "role:master") && strings.Contains(info, "state=online")
	})
	if err != nil {
		return fmt.Errorf("wait for the Sentinel on %s: %w", p.Sentinel, err)
	}
	return nil
}

// Failover kills the master and waits until the Sentinel has promoted the replica. Then it restarts
// the killed server without data as a replica of the new master.
func (p *Pair) Failover(ctx context.Context) error {
	if err := errors.Join(p.master.Crashed(), p.replica.Crashed()); err != nil {
		return err
	}
	p.master.Kill()
	if err := p.promoted(ctx); err != nil {
		return fmt.Errorf("wait for the promotion of %s: %w", p.replica.Addr, err)
	}
	p.master, p.replica = p.replica, p.master
	if err := p.replica.Start(ctx, replicaOf(p.master)...); err != nil {
		return err
	}
	return p.await(ctx)
}

func (p *Pair) promoted(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	replica := redis.NewClient(&redis.Options{Addr: p.replica.Addr})
	defer func() { _ = replica.Close() }()
	return poll(ctx, p.replica.process.Done(), func() bool {
		info, err := replica.Info(ctx, "replication").Result()
		return err == nil && strings.Contains(info, "role:master")
	})
}
