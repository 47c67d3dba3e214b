package harm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis is a redis-server process on this machine with its own port.
type Redis struct {
	Addr string // host and port of the server

	group    *Group
	name     string
	bus      int // port of the cluster bus
	settings []string
	process  *Process
}

// ServerBinary returns the path of redis-server. The error contains an instruction to install it.
func ServerBinary() (string, error) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no redis-server: install Redis 7.0 or later, or name a server by its URL")
}

// startTime is the maximum time until a started server answers requests. It includes the time to
// load data.
const startTime = 30 * time.Second

// StartRedis starts a server. The server stores its data in a directory named after it.
func (g *Group) StartRedis(ctx context.Context, name string, settings ...string) (*Redis, error) {
	if err := os.MkdirAll(filepath.Join(g.Dir, name), 0o700); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	var err error
	for range 10 { // Another process may take a free port before the server does.
		r := &Redis{group: g, name: name, settings: settings}
		var port int
		if port, r.bus, err = freePorts(); err != nil {
			return nil, err
		}
		r.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if err = r.Start(ctx); err == nil || ctx.Err() != nil {
			return r, err
		}
	}
	return nil, err
}

// freePorts returns two different ports that are currently free.
func freePorts() (port, bus int, err error) {
	one, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, 0, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = one.Close() }() // The server needs the port.
	two, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, 0, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = two.Close() }() // The server needs the port.
	number := func(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }
	return number(one), number(two), nil
}

// Start starts the server after Kill with its previous data. more contains additional settings for
// this start.
func (r *Redis) Start(ctx context.Context, more ...string) error {
	binary, err := ServerBinary()
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(r.Addr)
	if err != nil {
		return fmt.Errorf("start %s: %w", r.name, err)
	}
	command := append([]string{
		binary, "--bind", "127.0.0.1", "--port", port, "--cluster-port", strconv.Itoa(r.bus),
		"--dir", filepath.Join(r.group.Dir, r.name), "--daemonize", "no", "--save", "", "--appendonly", "no",
	}, append(slices.Clone(r.settings), more...)...)
	if r.process, err = r.group.Spawn(r.name, command...); err != nil {
		return err
	}
	if err := r.await(ctx); err != nil {
		r.process.Kill()
		return fmt.Errorf("start %s on %s: %w, see %s", r.name, r.Addr, err, r.process.Log)
	}
	return nil
}

// await blocks until the started server answers. It verifies the identity of the server, because
// another server may have taken the port.
func (r *Redis) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	client := redis.NewClient(&redis.Options{Addr: r.Addr, MaxRetries: -1, DialerRetries: 1})
	defer func() { _ = client.Close() }()
	mine := fmt.Sprintf("process_id:%d\r\n", r.process.PID())
	return poll(ctx, r.process.Done(), func() bool {
		probe, err := net.Dial("tcp", r.Addr) // Use a plain connection, because the Redis client would log a failure.
		if err != nil {
			return false
		}
		_ = probe.Close()
		info, err := client.Info(ctx, "server", "persistence").Result()
		return err == nil && strings.Contains(info, mine) && strings.Contains(info, "\nloading:0\r\n")
	})
}

// poll calls done until it returns true. It returns an error if gone is closed or ctx ends before
// that.
func poll(ctx context.Context, gone <-chan struct{}, done func() bool) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-gone:
			return errors.New("it has ended")
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", ctx.Err())
		}
	}
	return nil
}

// Kill ends the server with SIGKILL.
func (r *Redis) Kill() {
	if r.process != nil {
		r.process.Kill()
	}
}

// Crashed returns an error if the server has ended unexpectedly.
func (r *Redis) Crashed() error { return r.process.Crashed() }

// Stats contains numbers from INFO by name. For a command, the number is the number of its calls.
type Stats map[string]float64

// ReadStats returns the statistics of a server since its start, and its memory.
func ReadStats(ctx context.Context, c *redis.Client) (Stats, error) {
	info, err := c.Info(ctx, "cpu", "commandstats", "memory").Result()
	if err != nil {
		return nil, fmt.Errorf("ask the server what it has done: %w", err)
	}
	s := Stats{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		count, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		if n, err := strconv.ParseFloat(count, 64); err == nil {
			s[name] = n
		}
	}
	return s, nil
}

// CPU returns the CPU time that the server has used.
func (s Stats) CPU() time.Duration {
	return time.Duration((s["used_cpu_user"] + s["used_cpu_sys"]) * float64(time.Second))
}

// Calls returns the number of executed commands without INFO. It includes commands within scripts.
func (s Stats) Calls() (n float64) {
	for name, calls := range s {
		if strings.HasPrefix(name, "cmdstat_") && name != "cmdstat_info" {
			n += calls
		}
	}
	return n
}

const (
	masters = 3
	slots   = 16384
)

// StartCluster starts a Redis Cluster of three masters. While a master is down, its part of the
// data is unavailable.
func (g *Group) StartCluster(ctx context.Context, settings ...string) ([]*Redis, error) {
	settings = append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000"}, settings...)
	var nodes []*Redis
	for i := range masters {
		node, err := g.StartRedis(ctx, "redis-"+strconv.Itoa(i+1), settings...)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, node)
	}
	if err := form(ctx, nodes); err != nil {
		return nil, fmt.Errorf("form a cluster: %w", err)
	}
	return nodes, nil
}

// form assigns slots to each node and introduces all nodes to the first one.
func form(ctx context.Context, nodes []*Redis) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	clients := make([]*redis.Client, len(nodes))
	for i, n := range nodes {
		clients[i] = redis.NewClient(&redis.Options{Addr: n.Addr})
		defer func() { _ = clients[i].Close() }() // All requests have been answered, so an error of Close is irrelevant.
		host, port, err := net.SplitHostPort(n.Addr)
		for _, command := range [][]any{
			{"cluster", "set-config-epoch", i + 1},
			{"cluster", "addslotsrange", i * slots / masters, (i+1)*slots/masters - 1},
		} {
			err = errors.Join(err, clients[i].Do(ctx, command...).Err())
		}
		if i > 0 && err == nil {
			err = clients[0].Do(ctx, "cluster", "meet", host, port, n.bus).Err()
		}
		if err != nil {
			return err
		}
	}
	return poll(ctx, nil, func() bool {
		for _, c := range clients {
			info, err := c.ClusterInfo(ctx).Result()
			if err != nil || !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", len(nodes))) {
				return false
			}
		}
		return true
	})
}
