package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// batch is how many scripts are sent at once.
	batch = 256
	// attempts is how often scripts are sent that were not executed, because the
	// server has forgotten them, or because another one has the partition now.
	attempts = 6
)

// do executes scripts: those of a partition in their order, all in as few round
// trips as there are nodes and batches. An error means that it is not known which
// of them were executed.
func (s *Store) do(ctx context.Context, calls ...*call) error {
	return s.execute(ctx, calls, s.send)
}

// doReplicated is do, and then waits for as many replicas as configured.
func (s *Store) doReplicated(ctx context.Context, calls ...*call) error {
	if s.cfg.WaitReplicas == 0 {
		return s.do(ctx, calls...)
	}
	return s.execute(ctx, calls, s.sendReplicated)
}

// sender executes scripts and returns those that the server has refused without
// looking at them.
type sender func(ctx context.Context, calls []*call, whole bool) (again []*call, err error)

func (s *Store) execute(ctx context.Context, calls []*call, send sender) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	if s.injected == nil && s.server.old() {
		if err := s.readClock(ctx); err != nil {
			return s.explain(ctx, err)
		}
	}
	for len(calls) > 0 {
		n := min(len(calls), batch)
		if err := insist(ctx, calls[:n], send); err != nil {
			return s.explain(ctx, err)
		}
		calls = calls[n:]
	}
	return nil
}

// insist sends scripts by their names, and those that were refused once more, the
// first of each kind with its text.
func insist(ctx context.Context, calls []*call, send sender) error {
	for n := range attempts {
		again, err := send(ctx, calls, n > 0)
		if err != nil || len(again) == 0 {
			return err
		}
		calls = again
	}
	return fmt.Errorf("run script %s: the server has refused it %d times: %w", calls[0].script.name, attempts, calls[0].err)
}

// send pipelines scripts. A client of a cluster sends what was moved to where it
// is now; nothing else is sent twice.
func (s *Store) send(ctx context.Context, calls []*call, whole bool) ([]*call, error) {
	pipe, ok := s.pipes.Get().(redis.Pipeliner)
	if !ok {
		pipe = s.client.Pipeline()
	}
	queue(ctx, pipe, calls, whole)
	commands, err := pipe.Exec(ctx)
	s.pipes.Put(pipe) // it is empty again
	return settle(calls, commands, err)
}

// queue adds scripts to a pipeline.
func queue(ctx context.Context, pipe redis.Pipeliner, calls []*call, whole bool) {
	type kind struct {
		script *script
		p      *partition
	}
	sent := map[kind]bool{} // with its text
	queued := make([]redis.Cmder, len(calls))
	for i, c := range calls {
		text := whole && !sent[kind{c.script, c.p}]
		if text {
			sent[kind{c.script, c.p}] = true
		}
		queued[i] = c.command(ctx, text)
	}
	_ = pipe.BatchProcess(ctx, queued...) // they are only queued
}

// settle keeps the replies to the commands that scripts were queued as, and returns
// the scripts that were refused.
func settle(calls []*call, commands []redis.Cmder, failed error) (again []*call, err error) {
	for i, c := range calls {
		c.reply, c.err = commands[i].(command).Result()
		switch {
		case c.err == nil:
		case refused(c.err):
			again = append(again, c)
		default:
			return nil, fmt.Errorf("run script %s: %w", c.script.name, c.err)
		}
	}
	if failed != nil && len(again) == 0 {
		return nil, failed
	}
	return again, nil
}

// refused reports whether a script was certainly not executed, and can be sent
// again at once.
func refused(err error) bool {
	return redis.HasErrorPrefix(err, "NOSCRIPT") || redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK")
}

// sendReplicated pipelines scripts, node by node, each with a WAIT behind them on
// the same connection: that is what the server counts by.
func (s *Store) sendReplicated(ctx context.Context, calls []*call, whole bool) (again []*call, err error) {
	nodes, err := s.byNode(ctx, calls)
	if err != nil {
		return nil, err
	}
	for node, calls := range nodes {
		pipe := node.Pipeline()
		queue(ctx, pipe, calls, whole)
		wait := command{redis.NewCmd(ctx, "wait", s.cfg.WaitReplicas, s.cfg.WaitTimeout.Milliseconds())}
		_ = pipe.Process(ctx, wait) // it is only queued
		commands, err := pipe.Exec(ctx)
		unknown, err := settle(calls, commands, err)
		if err != nil {
			return nil, err
		}
		if n, err := wait.Int(); err != nil || n < s.cfg.WaitReplicas {
			return nil, unconfirmed(n, s.cfg, err)
		}
		again = append(again, unknown...)
	}
	if cluster, ok := s.client.(*redis.ClusterClient); ok && len(again) > 0 && whole {
		cluster.ReloadState(ctx)
		if err := s.pause(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return again, nil
}

// byNode groups scripts by the server that has their partition.
func (s *Store) byNode(ctx context.Context, calls []*call) (map[redis.Cmdable][]*call, error) {
	nodes := map[redis.Cmdable][]*call{}
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		nodes[s.client] = calls
		return nodes, nil
	}
	masters := map[*partition]*redis.Client{}
	for _, c := range calls {
		master := masters[c.p]
		if master == nil {
			var err error
			if master, err = cluster.MasterForKey(ctx, c.p.tag); err != nil {
				return nil, err
			}
			masters[c.p] = master
		}
		nodes[master] = append(nodes[master], c)
	}
	return nodes, nil
}

// pause waits for d, or until ctx or the store ends.
func (s *Store) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.done:
		return ctx.Err()
	}
}

// transaction reads several keys of a partition as of one moment.
func (s *Store) transaction(ctx context.Context, p *partition, read func(tx redis.Pipeliner)) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	tx := s.client.TxPipeline()
	tx.Exists(ctx, p.never(), p.open())
	read(tx)
	commands, err := tx.Exec(ctx)
	if err == nil || errors.Is(err, redis.Nil) {
		return nil
	}
	// What is not there is no error of the transaction.
	for _, c := range commands {
		if err := c.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return s.explain(ctx, err)
		}
	}
	return s.explain(ctx, err)
}
