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
	// attempts is the maximum number of times that a script is sent. A server refuses a script
	// without executing it if it has dropped the script from its cache, or if another server has
	// the partition.
	attempts = 6
)

// do executes scripts and returns the first error. It needs one round trip per node and batch, and
// keeps the order of the scripts of a partition. If do returns an error, it is unknown which
// scripts were executed.
func (s *Store) do(ctx context.Context, calls ...*call) error {
	return s.executeAll(ctx, calls, s.send)
}

// doReplicated is like do, but waits for the configured number of replicas.
func (s *Store) doReplicated(ctx context.Context, calls ...*call) error {
	return s.executeAll(ctx, calls, s.replicated())
}

// doEach is like doReplicated for independent scripts. call.err contains the error of each script.
// doEach returns an error only if no script was sent.
func (s *Store) doEach(ctx context.Context, calls ...*call) error {
	return s.execute(ctx, calls, s.replicated())
}

func (s *Store) replicated() sender {
	if s.cfg.WaitReplicas == 0 {
		return s.send
	}
	return s.sendReplicated
}

// executeAll executes scripts and returns the first error.
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

// sender executes scripts and sets the result of each. It sends their texts instead of their hashes
// if whole is set. It returns the scripts that the server has refused without executing them.
type sender func(ctx context.Context, calls []*call, whole bool) (again []*call)

// execute sends scripts in batches. A server that does not answer delays the scripts for other
// servers by at most the timeout.
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

// insist sends scripts by their hashes. It sends refused scripts a second time, with the text of
// each different script.
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

// send sends scripts in one pipeline. A cluster client follows the redirections of moved
// partitions, and sends no script twice otherwise. A single script to a server that is no cluster
// needs no pipeline.
func (s *Store) send(ctx context.Context, calls []*call, whole bool) []*call {
	if size := sizeOf(calls); size > large {
		return s.sendByNode(ctx, calls, whole, func(node redis.Cmdable, calls []*call) []*call {
			return s.pipelined(ctx, allow(node, size).Pipeline(), calls, whole)
		})
	}
	if server, ok := s.client.(*redis.Client); ok && len(calls) == 1 {
		sent := s.ship(calls)
		sent[0].command = sent[0].build(ctx, whole)
		return settle(sent, server.Process(ctx, sent[0].command))
	}
	pipe, ok := s.pipes.Get().(redis.Pipeliner)
	if !ok {
		pipe = s.client.Pipeline()
	}
	again := s.pipelined(ctx, pipe, calls, whole)
	s.pipes.Put(pipe) // the pipeline is empty after Exec
	return again
}

func (s *Store) pipelined(ctx context.Context, pipe redis.Pipeliner, calls []*call, whole bool) []*call {
	sent := s.queue(ctx, pipe, calls, whole)
	_, err := pipe.Exec(ctx)
	return settle(sent, err)
}

const (
	// large is the size in bytes above which a request or an answer has a longer timeout.
	large = 1 << 20
	// slowest is the minimum assumed speed of a connection in bytes per second.
	slowest = 256 << 10
)

// allow returns a client whose timeout is sufficient for an answer of the given size on a slow
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

// queue adds the commands of scripts to a pipeline and returns them. If whole is set, it sends the
// text of each script, otherwise the hash.
func (s *Store) queue(ctx context.Context, pipe redis.Pipeliner, calls []*call, whole bool) []shipment {
	type kind struct {
		script *script
		p      *partition
	}
	texts := map[kind]bool{} // scripts in the pipeline that include their text
	sent := s.ship(calls)
	queued := make([]redis.Cmder, len(sent))
	for i := range sent {
		k := kind{sent[i].script, sent[i].calls[0].p}
		text := whole && !texts[k]
		if text {
			texts[k] = true
		}
		sent[i].command = sent[i].build(ctx, text)
		queued[i] = sent[i].command
	}
	_ = pipe.BatchProcess(ctx, queued...) // a pipeline only queues the commands, without an error
	return sent
}

// settle sets the results of scripts from their commands. It returns the scripts that were refused.
// failed is the error of the pipeline, or of the only command.
func settle(sent []shipment, failed error) (again []*call) {
	lost := failed != nil // true if the pipeline failed and no command has an error of its own
	for i := range sent {
		if err := sent[i].open(); err != nil {
			lost = false
			if refused(err) {
				again = append(again, sent[i].calls...)
			}
		}
	}
	for i := range sent {
		for _, c := range sent[i].calls {
			switch {
			case lost:
				c.err = failed
			case c.err == nil && c.reply == nil: // every script returns a value
				c.err = errHidden
			}
		}
	}
	return again
}

// errHidden reports a script without an answer and without an error. If a hook of the client
// returns nil instead of the error of a command, the error is lost.
var errHidden = errors.New("the client has returned neither an answer nor an error: a hook of the client must return the error of the next hook")

// refused reports whether err proves that a script was not executed and can be repeated at once.
func refused(err error) bool {
	return redis.HasErrorPrefix(err, "NOSCRIPT") || redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK")
}

// sendReplicated sends scripts in one pipeline per node. The pipeline ends with WAIT, because a
// server counts the replicas that have received the writes of the same connection.
func (s *Store) sendReplicated(ctx context.Context, calls []*call, whole bool) []*call {
	size := sizeOf(calls)
	return s.sendByNode(ctx, calls, whole, func(node redis.Cmdable, calls []*call) []*call {
		pipe := allow(node, size).Pipeline()
		sent := s.queue(ctx, pipe, calls, whole)
		wait := command{redis.NewCmd(ctx, "wait", s.cfg.WaitReplicas, s.cfg.WaitTimeout.Milliseconds())}
		_ = pipe.Process(ctx, wait) // a pipeline only queues the command, without an error
		_, err := pipe.Exec(ctx)
		again := settle(sent, err)
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

// sendByNode groups scripts by server and sends the groups in parallel.
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
			return nil // each script keeps the error of its refusal
		}
	}
	return again
}

// byNode groups scripts by the server of their partition. A script whose server is unknown gets an
// error and is omitted.
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

// master returns a client of the server that has the partition.
func (s *Store) master(ctx context.Context, p *partition) (redis.Cmdable, error) {
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		return cluster.MasterForKey(ctx, p.hash)
	}
	return s.client, nil
}

// pause waits for d. It returns an error if ctx ends or the store is closed before that.
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

// transaction reads several keys of a partition in one action.
func (s *Store) transaction(ctx context.Context, p *partition, read func(tx redis.Pipeliner)) error {
	return s.transact(ctx, p, read, func(err error) bool { return !errors.Is(err, redis.Nil) })
}

// transactionOf is like transaction for reads of several runs. A key with an impossible type is an
// error of its command only.
func (s *Store) transactionOf(ctx context.Context, p *partition, read func(tx redis.Pipeliner)) error {
	return s.transact(ctx, p, read, func(err error) bool {
		return !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "WRONGTYPE")
	})
}

func (s *Store) transact(ctx context.Context, p *partition, read func(tx redis.Pipeliner), counts func(error) bool) error {
	return s.transactOn(ctx, s.client, p, read, counts)
}

// transactOn is like transact, but uses the given client.
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

// firstOf returns the first error of a command for which counts returns true. If there is none, it
// returns err, which is less specific, if counts returns true for it.
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

// collections is the maximum number of reads of keys that change between the reads.
const collections = 5

// collectTwice reads keys of a server at its memory limit. Such a server refuses every command of a
// transaction because a transaction needs memory, but an operator must be able to read the store.
// Therefore collectTwice reads the keys one after the other until two consecutive reads are equal.
// Every write changes a counter among the values. So if two reads are equal, nothing was written
// between the beginning of the first read and the beginning of the second, and the first read is
// consistent.
func (s *Store) collectTwice(ctx context.Context, commands []redis.Cmder, counts func(error) bool, refused error) error {
	before := ""
	for range collections {
		pipe := s.client.Pipeline()
		for _, c := range commands {
			_ = pipe.Process(ctx, c) // a pipeline only queues the command, without an error
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

// shipment is a command with the calls that it executes: a call of any script, or several calls as
// operations of script batch.
type shipment struct {
	script  *script
	calls   []*call
	command command
}

const (
	// fewestCalls is the minimum number of operations of a batch. The functions of script batch cost
	// the server more than a few scripts.
	fewestCalls = 3
	// heaviest is the maximum number of bytes of a batch. The server must have read a command as a
	// whole before it executes it.
	heaviest = large
)

// ship groups calls into commands. A batch contains consecutive calls, so that the calls of a
// partition keep their order. In a cluster the calls of a batch are in one partition; a server that
// is no cluster permits the keys of several partitions in one script, and that makes larger batches.
func (s *Store) ship(calls []*call) []shipment {
	if _, cluster := s.client.(*redis.ClusterClient); cluster {
		return shipPartitions(calls, s.fewest)
	}
	return shipOrdered(make([]shipment, 0, len(calls)), calls, s.fewest)
}

// shipPartitions groups the calls of each partition, in the order of the partitions of calls.
func shipPartitions(calls []*call, fewest int) (sent []shipment) {
	var order []*partition
	of := map[*partition][]*call{}
	for _, c := range calls {
		if of[c.p] == nil {
			order = append(order, c.p)
		}
		of[c.p] = append(of[c.p], c)
	}
	for _, p := range order {
		sent = shipOrdered(sent, of[p], fewest)
	}
	return sent
}

// shipOrdered appends the commands for calls, in their order.
func shipOrdered(sent []shipment, calls []*call, fewest int) []shipment {
	for len(calls) > 0 {
		n, size := 0, 0
		for n < len(calls) && calls[n].fits() && size+calls[n].size <= heaviest {
			size += calls[n].size
			n++
		}
		if n >= fewest {
			sent, calls = append(sent, shipment{script: scriptBatch, calls: calls[:n]}), calls[n:]
			continue
		}
		for n = max(n, 1); n > 0; n-- {
			sent, calls = append(sent, shipment{script: calls[0].script, calls: calls[:1]}), calls[1:]
		}
	}
	return sent
}

// fits reports whether a batch can contain the call: its script is an operation, and the numbers of
// its keys and arguments are bytes.
func (c *call) fits() bool { return c.script.operation != 0 && len(c.args) <= 255 }

// build returns the command, which contains the text of the script if whole is set, and otherwise
// its hash.
func (s *shipment) build(ctx context.Context, whole bool) command {
	if s.script != scriptBatch {
		return s.calls[0].command(ctx, whole)
	}
	// A batch declares a key of its first operation before the key that never exists, for the reason
	// stated at [partition.never]: a node that receives a slot executes a command with a single key.
	first := s.calls[0]
	n := 5
	for _, c := range s.calls {
		n += 1 + len(c.keys) + len(c.args)
	}
	args := append(scriptBatch.head(make([]any, 0, n), whole), 2, &first.keys[0], &first.p.none)
	for _, c := range s.calls {
		c.form = [3]byte{c.script.operation, byte(len(c.keys)), byte(len(c.args))}
		c.formed = c.form[:]
		args = append(args, &c.formed)
		for i := range c.keys {
			args = append(args, &c.keys[i])
		}
		args = append(args, c.args...)
	}
	return command{redis.NewCmd(ctx, args...)}
}

// open sets the results of the calls from the answer to the command. It returns the error of the
// command.
func (s *shipment) open() error {
	reply, err := s.command.Result()
	if s.script != scriptBatch || err != nil || reply == nil {
		for _, c := range s.calls {
			c.reply, c.err = reply, err
		}
		return err
	}
	answers, _ := reply.([]any)
	if len(answers) != len(s.calls) {
		err = fmt.Errorf("script %s returned %d answers to %d operations", scriptBatch.name, len(answers), len(s.calls))
	}
	for i, c := range s.calls {
		if c.reply, c.err = nil, err; err != nil {
			continue
		}
		c.reply = answers[i]
		if a := c.answer(); a.word() == failedOperation {
			c.reply, c.err = nil, operationError(a.text(1))
		}
	}
	return err
}

// failedOperation is the first element of the answer of an operation that has failed.
const failedOperation = "!"

// operationError is an error of the server in the answer of an operation.
type operationError string

var _ redis.Error = operationError("")

func (e operationError) Error() string { return string(e) }

// RedisError marks an error of the server.
func (operationError) RedisError() {}
