package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Cluster is a Redis Cluster of three masters.
type Cluster struct {
	Masters  []*Server
	Replicas []*Server // replica i replicates master i unless there was a failover
}

const (
	masters = 3
	slots   = 16384
)

// StartCluster starts a cluster, which is stopped at the end of the test. If replicas is set, each
// master has a replica.
func StartCluster(t testing.TB, replicas bool) *Cluster {
	t.Helper()
	c, err := launchCluster(Binary(t), t.TempDir(), replicas)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	return c
}

func (c *Cluster) kill() {
	for _, s := range c.servers() {
		s.Kill()
	}
}

func (c *Cluster) servers() []*Server {
	return append(append([]*Server{}, c.Masters...), c.Replicas...)
}

// URL returns the URL of the cluster.
func (c *Cluster) URL() string {
	return "redis+cluster://" + c.Masters[0].Addr + "?addr=" + c.Masters[1].Addr + "&addr=" + c.Masters[2].Addr
}

// Client returns a client of the cluster, which is closed at the end of the test.
func (c *Cluster) Client(t testing.TB) *redis.ClusterClient {
	t.Helper()
	var addrs []string
	for _, s := range c.Masters {
		addrs = append(addrs, s.Addr)
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func launchCluster(binary, dir string, replicas bool) (*Cluster, error) {
	c := &Cluster{}
	n := masters
	if replicas {
		n *= 2
	}
	for i := range n {
		home := filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(home, 0o700); err != nil {
			return nil, err
		}
		s, err := launch(binary, home, []string{
			"--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0",
			"--cluster-replica-validity-factor", "0",
		})
		if err != nil {
			c.kill()
			return nil, err
		}
		if i < masters {
			c.Masters = append(c.Masters, s)
		} else {
			c.Replicas = append(c.Replicas, s)
		}
	}
	if err := c.form(); err != nil {
		c.kill()
		return nil, fmt.Errorf("form a cluster: %w", err)
	}
	return c, nil
}

// form makes the servers a cluster: it connects them and assigns slots and replicas.
func (c *Cluster) form() error {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	nodes, hangUp := connect(c.servers())
	defer hangUp()
	for i, s := range c.servers() {
		if err := nodes[s].Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
			return err
		}
	}
	for i, s := range c.Masters {
		if err := nodes[s].Do(ctx, "cluster", "addslotsrange", i*slots/masters, (i+1)*slots/masters-1).Err(); err != nil {
			return err
		}
	}
	for _, s := range c.servers()[1:] {
		if err := meet(ctx, nodes[c.Masters[0]], s); err != nil {
			return err
		}
	}
	if err := c.agree(ctx, nodes, func(string) bool { return true }); err != nil {
		return err
	}
	for i, s := range c.Replicas {
		id, err := nodes[c.Masters[i]].ClusterMyID(ctx).Result()
		if err == nil {
			err = nodes[s].ClusterReplicate(ctx, id).Err()
		}
		if err != nil {
			return err
		}
	}
	return c.agree(ctx, nodes, func(known string) bool {
		return strings.Count(known, " slave ")+strings.Count(known, "myself,slave ") == len(c.Replicas)
	})
}

// connect returns a client for each server, and a function that closes the clients.
func connect(servers []*Server) (nodes map[*Server]*redis.Client, hangUp func()) {
	nodes = map[*Server]*redis.Client{}
	for _, s := range servers {
		nodes[s] = redis.NewClient(&redis.Options{Addr: s.Addr})
	}
	return nodes, func() {
		for _, node := range nodes {
			_ = node.Close()
		}
	}
}

// meet makes the server of node connect to s. It passes the port of the cluster bus of s.
func meet(ctx context.Context, node *redis.Client, s *Server) error {
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return err
	}
	bus := ""
	for i, arg := range s.args {
		if arg == "--cluster-port" {
			bus = s.args[i+1]
		}
	}
	return node.Do(ctx, "cluster", "meet", host, port, bus).Err()
}

// agree waits until each server is connected to all others, all slots are served, and also returns
// true for the output of CLUSTER NODES of each server.
func (c *Cluster) agree(ctx context.Context, nodes map[*Server]*redis.Client, also func(known string) bool) error {
	return poll(ctx, "the servers do not agree with each other", func() bool {
		for _, node := range nodes {
			info, err := node.ClusterInfo(ctx).Result()
			if err != nil || !strings.Contains(info, "cluster_state:ok") ||
				!strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", len(nodes))) {
				return false
			}
			known, err := node.ClusterNodes(ctx).Result()
			if err != nil || strings.Contains(known, "handshake") || !also(known) {
				return false
			}
		}
		return true
	})
}
