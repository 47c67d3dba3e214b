package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// errDamaged says that keys of the database contradict each other.
var errDamaged = errors.New("the database is damaged")

// errNameless is damage that is about all runs of a route.
var errNameless = fmt.Errorf("%w: a route has no name", errDamaged)

// hints says what to do about the errors of a server, by what they begin with.
var hints = map[string]string{
	"OOM":         "the server is at its memory limit, nothing was written",
	"READONLY":    "the server is a replica, nothing was written",
	"MISCONF":     "the server cannot save to its disk and refuses to write",
	"LOADING":     "the server is still reading its data",
	"CLUSTERDOWN": "a part of the cluster has no master",
	"NOREPLICAS":  "the server has too few replicas and refuses to write",
	"NOAUTH":      "the server wants a user and a password",
	"WRONGPASS":   "the server does not accept the user or the password",
	"NOPERM":      "the user lacks a permission, see docs/use/redis.md",
}

// refusals are those by which a server does not let a user in, or not do something.
var refusals = []string{"NOAUTH", "WRONGPASS", "NOPERM"}

// explain makes errors of the client errors of a store, and says what to do. A
// cluster is asked who serves what: go-redis does so by itself only once a minute
// if a master does not answer.
func (s *Store) explain(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, store.ErrClosed) {
		return err
	}
	select {
	case <-s.done:
		return store.ErrClosed // that is why it failed
	default:
	}
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		cluster.ReloadState(context.Background())
	}
	if ended := endOf(ctx, err); ended != nil {
		return ended
	}
	if errors.Is(err, redis.ErrClosed) {
		return fmt.Errorf("the client of the store was closed: %w", err)
	}
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		return fmt.Errorf("%w: a key with prefix %q is of another kind: %w", store.ErrForeign, s.cfg.Prefix, err)
	}
	for prefix, hint := range hints {
		switch {
		case !redis.HasErrorPrefix(err, prefix):
		case slices.Contains(refusals, prefix):
			return fmt.Errorf("%w: %s: %w", store.ErrRefused, hint, err)
		default:
			return fmt.Errorf("%s: %w", hint, err)
		}
	}
	return err
}

// aboutRun tells errors that concern one run, and not the server: asking again does not
// change them.
func aboutRun(run event.RunID, size int, err error) error {
	if _, told := errors.AsType[store.PermanentError](err); told {
		return err
	}
	server, _ := errors.AsType[redis.Error](err)
	switch {
	case redis.HasErrorPrefix(server, "WRONGTYPE"), errors.Is(err, errDamaged):
		return &store.DamagedError{Run: run, Err: err}
	case server != nil && strings.Contains(server.Error(), "invalid bulk length"):
		return &store.TooLargeError{Run: run, Bytes: size, Err: err}
	}
	return err
}

// unanswered returns an error if of no request it is known what came of it.
func unanswered(requests int, answer func(i int) error) error {
	var first error
	for i := range requests {
		err := answer(i)
		if !store.Unknown(err) {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// endOf returns an error that matches the one of ctx if ctx has ended and the server has
// not answered; else nil. A connection gets the deadline of a context, and may notice a
// moment before the context that it is past; one that is canceled goes on until it times
// out by itself. Either way it says only that.
func endOf(ctx context.Context, err error) error {
	ended := ctx.Err()
	if deadline, ok := ctx.Deadline(); ok && ended == nil && !time.Now().Before(deadline) {
		ended = context.DeadlineExceeded
	}
	if _, answered := errors.AsType[redis.Error](err); ended == nil || answered {
		return nil
	}
	if errors.Is(err, ended) {
		return err
	}
	return fmt.Errorf("%w: %w", ended, err)
}

// unexpected is an answer of a script that this release does not know.
func unexpected(c *call) error {
	return fmt.Errorf("script %s answered %v, which this release does not know", c.script.name, c.reply)
}

// errUnconfirmed says that something was written, and may still be lost.
var errUnconfirmed = errors.New("too few replicas have received it")

func unconfirmed(n int, cfg Config, err error) error {
	if err == nil {
		err = errUnconfirmed
	}
	return fmt.Errorf("wait for replicas: %d of %d within %v: %w", n, cfg.WaitReplicas, cfg.WaitTimeout, err)
}
