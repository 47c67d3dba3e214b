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
	return s.executeAll(ctx, calls, s.send)
}

// doReplicated is do, and then waits for as many replicas as configured.
func (s *Store) doReplicated(ctx context.Context, calls ...*call) error {
	return s.executeAll(ctx, calls, s.replicated())
}

// doEach is doReplicated for scripts of which each is judged by itself: call.err says
// what came of it. An error means that none was sent.
func (s *Store) doEach(ctx context.Context, calls ...*call) error {
	return s.execute(ctx, calls, s.replicated())
}

func (s *Store) replicated() sender {
	if s.cfg.WaitReplicas == 0 {
		return s.send
	}
	return s.sendReplicated
}

// executeAll executes scripts of which none may fail.
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

// sender executes scripts, and says for each what came of it. It returns those that
// the server has refused without looking at them.
type sender func(ctx context.Context, calls []*call, whole bool) (again []*call)

// execute sends scripts in batches. A server that does not answer keeps those of the
// others from nothing but the time that it takes to notice.
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

// insist sends scripts by their names, and those that were refused once more, the
// first of each kind with its text.
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

// send pipelines scripts. A client of a cluster sends what was moved to where it
// is now; nothing else is sent twice.
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
	// large is from how many bytes on a request, or an answer, gets more time.
	large = 1 << 20
	// slowest is how many bytes a second a connection carries that is worth waiting for.
	slowest = 256 << 10
)

// allow returns a client that waits as long for an answer as so many bytes may take on
// a slow connection.
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
func settle(calls []*call, commands []redis.Cmder, failed error) (again []*call) {
	lost := failed != nil // but nobody has said whose error that is
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

// refused reports whether a script was certainly not executed, and can be sent
// again at once.
func refused(err error) bool {
	return redis.HasErrorPrefix(err, "NOSCRIPT") || redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK")
}

// sendReplicated pipelines scripts, node by node, each with a WAIT after them on
// the same connection, because the server counts by connection.
func (s *Store) sendReplicated(ctx context.Context, calls []*call, whole bool) []*call {
	size := sizeOf(calls)
	return s.sendByNode(ctx, calls, whole, func(node redis.Cmdable, calls []*call) []*call {
		pipe := allow(node, size).Pipeline()
		queue(ctx, pipe, calls, whole)
		wait := command{redis.NewCmd(ctx, "wait", s.cfg.WaitReplicas, s.cfg.WaitTimeout.Milliseconds())}
		_ = pipe.Process(ctx, wait) // it is only queued
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

// sendByNode sends scripts to the servers that have their partitions, all at the same time.
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
			return nil // what they were refused with stays
		}
	}
	return again
}

// byNode groups scripts by the server that has their partition. One of which it is not
// known gets that as its error.
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
	return s.transact(ctx, p, read, func(err error) bool { return !errors.Is(err, redis.Nil) })
}

// transactionOf is transaction for what several runs are read with: a key of another kind
// is an error of its command alone.
func (s *Store) transactionOf(ctx context.Context, p *partition, read func(tx redis.Pipeliner)) error {
	return s.transact(ctx, p, read, func(err error) bool {
		return !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "WRONGTYPE")
	})
}

func (s *Store) transact(ctx context.Context, p *partition, read func(tx redis.Pipeliner), counts func(error) bool) error {
	return s.transactOn(ctx, s.client, p, read, counts)
}

// transactOn is transact by a client of its own.
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

// firstOf returns the first error of commands that counts, or else that of all of them: it says less.
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

// collections bounds how often keys are read that do not stay as they are.
const collections = 5

// collectTwice reads keys of a server at its memory limit. It refuses each command of a transaction, reading ones too,
// for the transaction itself takes memory; and that is when somebody has to look. The keys are read one after the other instead, until two readings
// in turn are the same: then nothing was written from the first of the one to the first of the other, for what is written makes numbers
// grow that are among what is read, and the first is as of one moment.
func (s *Store) collectTwice(ctx context.Context, commands []redis.Cmder, counts func(error) bool, refused error) error {
	before := ""
	for range collections {
		pipe := s.client.Pipeline()
		for _, c := range commands {
			_ = pipe.Process(ctx, c) // it is put into the pipeline
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
