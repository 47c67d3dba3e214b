package fleet

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

const (
	masters = 3
	slots   = 16384
)

// StartCluster starts a Redis Cluster of three masters. While a master is killed, its part of the
// data is unavailable until it is restarted.
func StartCluster(ctx context.Context, guard *Guard, dir string, settings ...string) ([]*Redis, error) {
	var nodes []*Redis
	for i := range masters {
		node, err := StartRedis(ctx, guard, dir, "redis-"+strconv.Itoa(i+1),
			append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000"}, settings...)...)
		if err == nil {
			nodes = append(nodes, node)
			continue
		}
		killAll(nodes)
		return nil, err
	}
	if err := form(ctx, nodes); err != nil {
		killAll(nodes)
		return nil, fmt.Errorf("form a cluster: %w", err)
	}
	return nodes, nil
}

func killAll(nodes []*Redis) {
	for _, n := range nodes {
		n.Kill()
	}
}

// form assigns slots to each node and introduces it to the first one.
func form(ctx context.Context, nodes []*Redis) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	clients := make([]*redis.Client, len(nodes))
	defer func() {
		for _, c := range clients {
			_ = c.Close() // all requests have been answered
		}
	}()
	for i, n := range nodes {
		clients[i] = redis.NewClient(&redis.Options{Addr: n.Addr})
	}
	for i, n := range nodes {
		if err := clients[i].Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
			return err
		}
		if err := clients[i].Do(ctx, "cluster", "addslotsrange", i*slots/masters, (i+1)*slots/masters-1).Err(); err != nil {
			return err
		}
		host, port, err := net.SplitHostPort(n.Addr)
		if err != nil {
			return err
		}
		if i > 0 {
			if err := clients[0].Do(ctx, "cluster", "meet", host, port, n.bus).Err(); err != nil {
				return err
			}
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
