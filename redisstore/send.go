package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// batch is the maximum number of scripts in a pipeline.
	batch = 256
	// attempts is how often a script is sent that was not executed because the server has dropped
	// it from its cache or another server has the partition.
	attempts = 6
)

// do executes scripts in as few round trips as there are nodes and batches. It keeps the order of
// the scripts of a partition. After an error it is unknown which of them were executed.
func (s *Store) do(ctx context.Context, calls ...*call) error {
	return s.executeAll(ctx, calls, s.send)
}

// doReplicated is like do, and then waits for the configured number of replicas.
func (s *Store) doReplicated(ctx context.Context, calls ...*call) error {
	return s.executeAll(ctx, calls, s.replicated())
}

// doEach is like doReplicated for independent scripts: call.err contains the result of each. It
// returns an error if none was sent.
func (s *Store) doEach(ctx context.Context, calls ...*call) error {
	return s.execute(ctx, calls, s.replicated())
}

func (s *Store) replicated() sender {
	if s.cfg.WaitReplicas == 0 {
		return s.send
	}
	return s.sendReplicated
}

// executeAll executes scripts, and returns an error if one of them fails.
func (s *Store) executeAll(ctx context.Context, calls []*call, send sender) error {
	if err := s.execute(ctx, calls, send); err != nil {
		return err
	}
	for _, c := range calls {
		if c.err != nil {
			return c.err
		}
	}
	return nil
}

// sender executes scripts, and sets the result of each. It returns those that the server has
// refused without executing them.
type sender func(ctx context.Context, calls []*call, whole bool) (again []*call)

// execute sends scripts in batches. A server that does not answer delays the scripts for other
// servers only until the timeout.
func (s *Store) execute(ctx context.Context, calls []*call, send sender) error {
	if len(calls) == 0 {
		return nil
	}
	if err := s.prepare(ctx, calls[0].p); err != nil {
		return err
	}
	s.keepTime(ctx, calls[0].p)
	for len(calls) > 0 {
		n := min(len(calls), batch)
		insist(ctx, calls[:n], send)
		for _, c := range calls[:n] {
			if c.err != nil {
				c.err = s.explain(ctx, fmt.Errorf("run script %s: %w", c.script.name, s.damageOf(ctx, c, c.err)))
			}
		}
		calls = calls[n:]
	}
	return nil
}

// insist sends scripts by their hashes. It sends refused scripts again, the first of each kind with
// its text.
func insist(ctx context.Context, calls []*call, send sender) {
	for n := range attempts {
		if calls = send(ctx, calls, n > 0); len(calls) == 0 {
			return
		}
	}
	for _, c := range calls {
		c.err = fmt.Errorf("the server has refused it %d times: %w", attempts, c.err)
	}
}

// send pipelines scripts. A cluster client follows redirections of moved partitions; no other
// script is sent twice.
func (s *Store) send(ctx context.Context, calls []*call, whole bool) []*call {
	if size := sizeOf(calls); size > large {
		return s.sendByNode(ctx, calls, whole, func(node redis.Cmdable, calls []*call) []*call {
			return pipelined(ctx, allow(node, size).Pipeline(), calls, whole)
		})
	}
	pipe, ok := s.pipes.Get().(redis.Pipeliner)
	if !ok {
		pipe = s.client.Pipeline()
	}
	again := pipelined(ctx, pipe, calls, whole)
	s.pipes.Put(pipe) // it is empty again
	return again
}

func pipelined(ctx context.Context, pipe redis.Pipeliner, calls []*call, whole bool) []*call {
	queue(ctx, pipe, calls, whole)
	commands, err := pipe.Exec(ctx)
	return settle(calls, commands, err)
}

const (
	// large is the number of bytes from which a request or an answer has a longer timeout.
	large = 1 << 20
	// slowest is the minimum assumed speed of a connection in bytes per second.
	slowest = 256 << 10
)

// allow returns a client whose timeout suffices for an answer of the given size on a slow
// connection.
func allow(client redis.Cmdable, bytes int) redis.Cmdable {
	node, ok := client.(*redis.Client)
	if !ok || bytes <= large {
		return client
	}
	return node.WithTimeout(max(node.Options().ReadTimeout, readTimeout) + time.Duration(bytes)*time.Second/slowest)
}

func sizeOf(calls []*call) int {
	n := 0
	for _, c := range calls {
		n += c.size
	}
	return n
}

// queue adds scripts to a pipeline.
func queue(ctx context.Context, pipe redis.Pipeliner, calls []*call, whole bool) {
	type kind struct {
		script *script
		p      *partition
	}
	sent := map[kind]bool{} // scripts queued with their text
	queued := make([]redis.Cmder, len(calls))
	for i, c := range calls {
		text := whole && !sent[kind{c.script, c.p}]
		if text {
			sent[kind{c.script, c.p}] = true
		}
		queued[i] = c.command(ctx, text)
	}
	_ = pipe.BatchProcess(ctx, queued...) // the commands are only queued
}

// settle sets the replies of scripts from the commands that were queued for them, and returns the
// scripts that were refused.
func settle(calls []*call, commands []redis.Cmder, failed error) (again []*call) {
	lost := failed != nil // but no command has an error of its own
	for i, c := range calls {
		c.reply, c.err = commands[i].(command).Result()
		if c.err != nil {
			lost = false
		}
		if c.err != nil && refused(c.err) {
			again = append(again, c)
		}
	}
	for _, c := range calls {
		if lost {
			c.err = failed
		}
	}
	return again
}

// refused reports whether a script was certainly not executed, and can be sent again at once.
func refused(err error) bool {
	return redis.HasErrorPrefix(err, "NOSCRIPT") || redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK")
}

// sendReplicated pipelines scripts by node, with a WAIT after them on the same connection, because
// the server counts replicas per connection.
func (s *Store) sendReplicated(ctx context.Context, calls []*call, whole bool) []*call {
	size := sizeOf(calls)
	return s.sendByNode(ctx, calls, whole, func(node redis.Cmdable, calls []*call) []*call {
		pipe := allow(node, size).Pipeline()
		queue(ctx, pipe, calls, whole)
		wait := command{redis.NewCmd(ctx, "wait", s.cfg.WaitReplicas, s.cfg.WaitTimeout.Milliseconds())}
		_ = pipe.Process(ctx, wait) // the command is only queued
		commands, err := pipe.Exec(ctx)
		again := settle(calls, commands, err)
		if n, err := wait.Int(); err != nil || n < s.cfg.WaitReplicas {
			for _, c := range calls {
				if c.err == nil {
					c.err = unconfirmed(n, s.cfg, err)
				}
			}
		}
		return again
	})
}

// sendByNode sends scripts to the servers of their partitions, in parallel.
func (s *Store) sendByNode(ctx context.Context, calls []*call, whole bool, send func(node redis.Cmdable, calls []*call) []*call) (again []*call) {
	nodes := s.byNode(ctx, calls)
	var all sync.WaitGroup
	var mu sync.Mutex
	for node, calls := range nodes {
		all.Go(func() {
			unknown := send(node, calls)
			mu.Lock()
			defer mu.Unlock()
			again = append(again, unknown...)
		})
	}
	all.Wait()
	if cluster, ok := s.client.(*redis.ClusterClient); ok && len(again) > 0 && whole {
		cluster.ReloadState(ctx)
		if err := s.pause(ctx, 50*time.Millisecond); err != nil {
			return nil // the errors of the refusals remain
		}
	}
	return again
}

// byNode groups scripts by the server of their partition. If the server is unknown, that is the
// error of the script.
func (s *Store) byNode(ctx context.Context, calls []*call) map[redis.Cmdable][]*call {
	nodes := map[redis.Cmdable][]*call{}
	for _, c := range calls {
		var node redis.Cmdable
		if node, c.err = s.master(ctx, c.p); c.err == nil {
			nodes[node] = append(nodes[node], c)
		}
	}
	return nodes
}

// master returns the server that has a partition.
func (s *Store) master(ctx context.Context, p *partition) (redis.Cmdable, error) {
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		return cluster.MasterForKey(ctx, p.hash)
	}
	return s.client, nil
}

// pause waits for d, or until ctx ends or the store is closed.
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
	return s.transact(ctx, p, read, func(err error) bool { return !errors.Is(err, redis.Nil) })
}

// transactionOf is like transaction for reads of several runs: a key of another type is an error of
// its command only.
func (s *Store) transactionOf(ctx context.Context, p *partition, read func(tx redis.Pipeliner)) error {
	return s.transact(ctx, p, read, func(err error) bool {
		return !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "WRONGTYPE")
	})
}

func (s *Store) transact(ctx context.Context, p *partition, read func(tx redis.Pipeliner), counts func(error) bool) error {
	return s.transactOn(ctx, s.client, p, read, counts)
}

// transactOn is like transact, with the given client.
func (s *Store) transactOn(ctx context.Context, client redis.Cmdable, p *partition, read func(tx redis.Pipeliner), counts func(error) bool) error {
	if err := s.prepare(ctx, p); err != nil {
		return err
	}
	tx := client.TxPipeline()
	tx.Exists(ctx, p.never(), p.routes())
	read(tx)
	commands, err := tx.Exec(ctx)
	if err = firstOf(commands, err, counts); redis.HasErrorPrefix(err, "OOM") {
		err = s.collectTwice(ctx, commands, counts, err)
	}
	if err != nil {
		return s.explain(ctx, err)
	}
	return nil
}

// firstOf returns the first error of a command that counts. Otherwise it returns err, which is less
// specific.
func firstOf(commands []redis.Cmder, err error, counts func(error) bool) error {
	for _, c := range commands {
		if wrong := c.Err(); wrong != nil && counts(wrong) {
			return wrong
		}
	}
	if err != nil && counts(err) {
		return err
	}
	return nil
}

// collections is the maximum number of readings of keys that keep changing.
const collections = 5

// collectTwice reads keys of a server at its memory limit. Such a server refuses each command of a
// transaction, even reads, because the transaction takes memory; but an operator must be able to
// read the store in this state. Therefore the keys are read one after the other, until two
// consecutive readings are equal. Then nothing was written between the first read of the one and
// the first read of the other, because every write increases numbers that are among the values, and
// the first reading is as of one moment.
func (s *Store) collectTwice(ctx context.Context, commands []redis.Cmder, counts func(error) bool, refused error) error {
	before := ""
	for range collections {
		pipe := s.client.Pipeline()
		for _, c := range commands {
			_ = pipe.Process(ctx, c) // the command is only queued
		}
		_, err := pipe.Exec(ctx)
		if err := firstOf(commands, err, counts); err != nil {
			return err
		}
		var now strings.Builder
		for _, c := range commands {
			now.WriteString(c.String())
			now.WriteByte('\n')
		}
		if before == now.String() {
			return nil
		}
		before = now.String()
	}
	return refused
}
