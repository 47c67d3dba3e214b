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

// A key that somebody else has overwritten has a type that it never has, and every command
// on it fails. What that is about must keep nothing else: scripts that come across several
// runs leave such a key out and name it (lua/part/intact.lua), and where a script fails by
// one, the server is asked which it was. Only then: it costs nothing before.

// types are those of all keys, by their letters.
var types = func() map[byte]string {
	all := map[byte]string{}
	for kind, letters := range map[string]string{
		"hash": "mgnOBSWzaAwkuvhTLKY", "list": "ijq", "zset": "srbtepfdGDPF", "set": "o", "string": "xc", "stream": "lC",
	} {
		for _, letter := range []byte(letters) {
			all[letter] = kind
		}
	}
	return all
}()

// typeOf returns the type that a key must have; empty: nobody knows.
func (p *partition) typeOf(key string) string {
	letter, _, _ := strings.Cut(strings.TrimPrefix(key, p.tag), ":")
	if len(letter) != 1 {
		return ""
	}
	return types[letter[0]]
}

// ofPartition are the letters of the keys of a partition that are lists of outboxes, and
// ofRuns those of the keys of runs.
const ofPartition = "zoa"

const ofRuns = "mlisnjxgOBSCW"

// overwrittenError is a key with a type that it never has.
type overwrittenError struct{ key, is, want string }

func (e *overwrittenError) Error() string {
	return fmt.Sprintf("key %s is a %s and must be a %s: another program has overwritten it; a repair by package fsck removes it and rebuilds its contents from the logs", e.key, e.is, e.want)
}

// overwritten returns the error for a key of an impossible type.
func (p *partition) overwritten(key, is string) *store.DamagedError {
	kind, run, _ := strings.Cut(strings.TrimPrefix(key, p.tag), ":")
	damage := &store.DamagedError{Err: &overwrittenError{key, is, p.typeOf(key)}}
	if strings.Contains(ofRuns, kind) {
		run, _, _ = strings.Cut(run, ":") // a stream has a name behind it
		damage.Run = long(run)
	}
	return damage
}

// errLost says that a run has a log and no metadata, or that a chain has no latest run.
// While a repair is under way, that is so after it has removed an overwritten key.
var errLost = errors.New("its log is there, and its metadata is not: a repair by package fsck writes it again")

// damageOf returns the damage by which a script has failed, if it is that a key has a type
// which it never has, or that a run is lost; else the error.
func (s *Store) damageOf(ctx context.Context, c *call, err error) error {
	if redis.HasErrorPrefix(err, "LOST") {
		_, run, _ := strings.Cut(err.Error(), " ")
		return &store.DamagedError{Run: long(run), Err: errLost}
	}
	if !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return err
	}
	keys := append(c.p.near(c.keys), s.streamsNear(ctx, c)...)
	for _, route := range s.client.HKeys(ctx, c.p.routes()).Val() {
		keys = append(append(keys, c.p.ready(route), c.p.blocked(route)), c.p.listed(route)...)
	}
	kinds := make([]*redis.StatusCmd, len(keys))
	_, failed := s.client.Pipelined(ctx, func(tx redis.Pipeliner) error {
		for i, key := range keys {
			kinds[i] = tx.Type(ctx, key)
		}
		return nil
	})
	if failed != nil {
		return err
	}
	for i, key := range keys {
		if is, must := kinds[i].Val(), c.p.typeOf(key); must != "" && is != "none" && is != must {
			damage := c.p.overwritten(key, is)
			if damage.Run == "" {
				return damage.Err // the partition waits for its repair, as for the end of an outage
			}
			return damage
		}
	}
	return err
}

// streamsNear returns the keys of the streams of the runs that a script is about. They are
// of the chain of the run, which only its metadata knows.
func (s *Store) streamsNear(ctx context.Context, c *call) (keys []string) {
	for _, key := range c.keys {
		run, ok := strings.CutPrefix(key, c.p.meta(""))
		if !ok {
			continue
		}
		if chain := s.client.HGet(ctx, key, "h").Val(); chain != "" {
			run = chain
		}
		keys = append(keys, c.p.streams(run))
		for _, name := range s.client.HKeys(ctx, c.p.streams(run)).Val() {
			keys = append(keys, c.p.chunks(run, name), c.p.writers(run, name))
		}
	}
	return keys
}

// near returns keys, and those that scripts build from them.
func (p *partition) near(keys []string) []string {
	all := slices.Clone(keys)
	for _, key := range keys {
		kind, of, _ := strings.Cut(strings.TrimPrefix(key, p.tag), ":")
		letters := ""
		switch {
		case kind == "" || of == "":
		case strings.Contains(ofRuns, kind):
			letters = "mlisnjxgOBS"
		case strings.Contains(ofPartition, kind):
			letters = ofPartition
		}
		for _, letter := range letters {
			all = append(all, p.tag+string(letter)+":"+of)
		}
	}
	for _, letter := range partitionKeys {
		all = append(all, p.tag+string(letter))
	}
	return all
}

// findings records what a script has left out, of which it has told after everything else.
func (s *Store) findings(p *partition, texts []string) {
	for _, text := range texts {
		if i := strings.LastIndexByte(text, ' '); i > len(p.tag) { // a key may hold spaces
			s.damages.Note(text, p.overwritten(text[:i], text[i+1:]))
		}
	}
}

// Damage returns the keys that were found overwritten since the last call.
func (s *Store) Damage() []*store.DamagedError { return s.damages.Damage() }

var _ store.DamageTeller = (*Store)(nil)
