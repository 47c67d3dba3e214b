package redistest

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// Move moves the slot of a key to the next master, as resharding does. It pauses after every 20
// keys.
func (c *Cluster) Move(ctx context.Context, key string, pause time.Duration) error {
	clients, hangUp := connect(c.Masters)
	defer hangUp()
	var nodes []*redis.Client
	var ids []string
	for _, s := range c.Masters {
		id, err := clients[s].ClusterMyID(ctx).Result()
		if err != nil {
			return err
		}
		nodes, ids = append(nodes, clients[s]), append(ids, id)
	}
	slot, err := nodes[0].ClusterKeySlot(ctx, key).Result()
	if err != nil {
		return err
	}
	from := -1
	for i, node := range nodes {
		if err := node.Exists(ctx, key).Err(); err == nil {
			from = i
		}
	}
	if from < 0 {
		return fmt.Errorf("no master serves slot %d", slot)
	}
	to := (from + 1) % masters
	if err := nodes[to].Do(ctx, "cluster", "setslot", slot, "importing", ids[from]).Err(); err != nil {
		return err
	}
	if err := nodes[from].Do(ctx, "cluster", "setslot", slot, "migrating", ids[to]).Err(); err != nil {
		return err
	}
	if err := migrate(ctx, nodes[from], c.Masters[to], slot, pause); err != nil {
		return err
	}
	for _, i := range []int{to, from, (to + 1) % masters} {
		if err := nodes[i].Do(ctx, "cluster", "setslot", slot, "node", ids[to]).Err(); err != nil {
			return err
		}
	}
	return nil
}

// migrate moves all keys of a slot to another server.
func migrate(ctx context.Context, from *redis.Client, to *Server, slot int64, pause time.Duration) error {
	host, port, err := net.SplitHostPort(to.Addr)
	if err != nil {
		return err
	}
	for {
		keys, err := from.ClusterGetKeysInSlot(ctx, int(slot), 20).Result()
		if err != nil || len(keys) == 0 {
			return err
		}
		for _, key := range keys {
			if err := from.Do(ctx, "migrate", host, port, key, 0, 5000).Err(); err != nil {
				return err
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
