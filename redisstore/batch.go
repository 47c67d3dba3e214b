package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

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
	n := 4
	for _, c := range s.calls {
		n += 1 + len(c.keys) + len(c.args)
	}
	args := append(scriptBatch.head(make([]any, 0, n), whole), 1, &s.calls[0].p.none)
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
