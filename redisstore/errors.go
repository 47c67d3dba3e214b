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

// errDamaged reports that keys in the database contradict each other.
var errDamaged = errors.New("the database is damaged")

// errNameless reports that a route has no name. This damage affects all runs of the route.
var errNameless = fmt.Errorf("%w: a route has no name", errDamaged)

// hints contains the fixes for errors of a server. The key is the beginning of the error.
var hints = map[string]string{
	"OOM":         "the server is at its memory limit, nothing was written",
	"READONLY":    "the server is a replica, nothing was written",
	"MISCONF":     "the server cannot save to its disk and refuses to write",
	"LOADING":     "the server is still loading its data",
	"CLUSTERDOWN": "a part of the cluster has no master",
	"NOREPLICAS":  "the server has too few replicas and refuses to write",
	"NOAUTH":      "the server requires a user and a password",
	"WRONGPASS":   "the server does not accept the user or the password",
	"NOPERM":      "the user lacks a permission, see docs/use/redis.md",
}

// refusals lists the prefixes of the errors for a wrong password or a missing permission.
var refusals = []string{"NOAUTH", "WRONGPASS", "NOPERM"}

// explain converts an error of the client into an error of the store, and adds the fix. If a master
// of a cluster does not answer, explain makes the client reload the layout of the cluster; go-redis
// itself reloads it only once a minute.
func (s *Store) explain(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, store.ErrClosed) {
		return err
	}
	select {
	case <-s.done:
		return store.ErrClosed // the cause is the call of Close
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

// aboutRun marks an error that concerns one run and not the server. Repeating such a request does
// not help.
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

// unanswered returns the first error if every request failed with an unknown result. Otherwise it
// returns nil.
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

// endOf returns an error that matches ctx.Err() if ctx has ended and the server has not answered.
// Otherwise it returns nil. The connection has the deadline of ctx, so err may be a timeout
// slightly before ctx ends. A canceled request ends with the timeout of the connection.
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

// unexpected returns the error for an answer of a script that this release cannot interpret.
func unexpected(c *call) error {
	return fmt.Errorf("script %s returned %v, which this release does not know", c.script.name, c.reply)
}

// errUnconfirmed reports that a write was applied by the master but may be lost in a failover.
var errUnconfirmed = errors.New("too few replicas have received it")

func unconfirmed(n int, cfg Config, err error) error {
	if err == nil {
		err = errUnconfirmed
	}
	return fmt.Errorf("wait for replicas: %d of %d within %v: %w", n, cfg.WaitReplicas, cfg.WaitTimeout, err)
}

// A key that another program has overwritten has an impossible type, and every command on it fails.
// The failure must affect only the run or object of the key. Scripts that process several runs skip
// such a key and report it (lua/part/intact.lua). If a script fails because of the key, the store
// reads the types of all keys that the script may have used. It reads no types unless a script
// fails.

// types maps the letter in the name of a key to the Redis type of the key.
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

// typeOf returns the type that a key must have. It returns an empty string for an unknown key.
func (p *partition) typeOf(key string) string {
	letter, _, _ := strings.Cut(strings.TrimPrefix(key, p.tag), ":")
	if len(letter) != 1 {
		return ""
	}
	return types[letter[0]]
}

// ofPartition contains the letters of the keys of a session, ofRuns the letters of the keys of a
// run.
const ofPartition = "zoa"

const ofRuns = "mlisnjxgOBSCW"

// overwrittenError reports a key whose type is impossible.
type overwrittenError struct{ key, is, want string }

func (e *overwrittenError) Error() string {
	return fmt.Sprintf("key %s is a %s and must be a %s: another program has overwritten it; a repair by package fsck removes it and rebuilds its contents from the logs", e.key, e.is, e.want)
}

// overwritten returns the error for a key with the impossible type is.
func (p *partition) overwritten(key, is string) *store.DamagedError {
	kind, run, _ := strings.Cut(strings.TrimPrefix(key, p.tag), ":")
	damage := &store.DamagedError{Err: &overwrittenError{key, is, p.typeOf(key)}}
	if strings.Contains(ofRuns, kind) {
		run, _, _ = strings.Cut(run, ":") // the key of a stream has the name of the stream at its end
		damage.Run = long(run)
	}
	return damage
}

// errLost reports a run that has a log but no metadata, or a chain without its latest run. It also
// occurs during a repair that has removed an overwritten key and has not yet rebuilt its contents.
var errLost = errors.New("its log exists, but its metadata is missing: a repair by package fsck writes it again")

// damageOf returns the damage that made a script fail: a key of an impossible type, or a lost run.
// It returns err if there is no such damage.
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
				return damage.Err // the damage affects the partition: callers retry until it is repaired
			}
			return damage
		}
	}
	return err
}

// streamsNear returns the keys of the streams that a script may have used. They belong to the chain
// of the run, and the script reads the chain from the metadata.
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

// near returns the given keys and all keys that scripts may derive from them.
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

// findings records the overwritten keys that a script has skipped. The script reports them at the
// end of its answer.
func (s *Store) findings(p *partition, texts []string) {
	for _, text := range texts {
		if i := strings.LastIndexByte(text, ' '); i > len(p.tag) { // a key may contain spaces
			s.damages.Note(text, p.overwritten(text[:i], text[i+1:]))
		}
	}
}

// Damage returns the overwritten keys that were found since the last call of Damage.
func (s *Store) Damage() []*store.DamagedError { return s.damages.Damage() }

var _ store.DamageTeller = (*Store)(nil)
