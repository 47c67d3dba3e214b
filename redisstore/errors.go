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

// errDamaged reports that keys of the database contradict each other.
var errDamaged = errors.New("the database is damaged")

// errNameless is damage that affects all runs of a route.
var errNameless = fmt.Errorf("%w: a route has no name", errDamaged)

// hints contains the fixes for errors of a server, by the beginning of the error.
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

// refusals are the prefixes of errors by which a server refuses a user or a permission.
var refusals = []string{"NOAUTH", "WRONGPASS", "NOPERM"}

// explain translates an error of the client into an error of the store, and adds the fix. If a
// master of a cluster does not answer, it refreshes the layout of the cluster, which go-redis does
// only once a minute by itself.
func (s *Store) explain(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, store.ErrClosed) {
		return err
	}
	select {
	case <-s.done:
		return store.ErrClosed // Close has caused the error
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

// aboutRun marks errors that concern one run and not the server: repeating the request does not
// help.
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

// unanswered returns an error if the result of every request is unknown.
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

// endOf returns an error that matches ctx.Err() if ctx has ended and the server has not answered;
// otherwise it returns nil. A connection gets the deadline of a context, and may notice its end
// slightly before the context does. After a cancellation the connection waits for its own timeout.
// In both cases err is only a timeout.
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

// unexpected returns the error for a script answer that this release does not know.
func unexpected(c *call) error {
	return fmt.Errorf("script %s answered %v, which this release does not know", c.script.name, c.reply)
}

// errUnconfirmed reports that something was written, and may still be lost.
var errUnconfirmed = errors.New("too few replicas have received it")

func unconfirmed(n int, cfg Config, err error) error {
	if err == nil {
		err = errUnconfirmed
	}
	return fmt.Errorf("wait for replicas: %d of %d within %v: %w", n, cfg.WaitReplicas, cfg.WaitTimeout, err)
}

// If another program has overwritten a key, the key has an impossible type, and every command on it
// fails. This must affect nothing but the subject of the key. Scripts that process several runs
// leave out such a key and report it (lua/part/intact.lua). If a script fails because of it, the
// store reads the types of the keys to find it. This costs nothing unless a script fails.

// types maps the letter of a kind of key to the Redis type of its keys.
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

// typeOf returns the required type of a key. It is empty for an unknown key.
func (p *partition) typeOf(key string) string {
	letter, _, _ := strings.Cut(strings.TrimPrefix(key, p.tag), ":")
	if len(letter) != 1 {
		return ""
	}
	return types[letter[0]]
}

// ofPartition are the letters of the keys of sessions, and ofRuns the letters of the keys of runs.
const ofPartition = "zoa"

const ofRuns = "mlisnjxgOBSCW"

// overwrittenError reports a key of an impossible type.
type overwrittenError struct{ key, is, want string }

func (e *overwrittenError) Error() string {
	return fmt.Sprintf("key %s is a %s and must be a %s: another program has overwritten it; a repair by package fsck removes it and rebuilds its contents from the logs", e.key, e.is, e.want)
}

// overwritten returns the error for a key of an impossible type.
func (p *partition) overwritten(key, is string) *store.DamagedError {
	kind, run, _ := strings.Cut(strings.TrimPrefix(key, p.tag), ":")
	damage := &store.DamagedError{Err: &overwrittenError{key, is, p.typeOf(key)}}
	if strings.Contains(ofRuns, kind) {
		run, _, _ = strings.Cut(run, ":") // the key of a stream ends with its name
		damage.Run = long(run)
	}
	return damage
}

// errLost reports a run with a log and without metadata, or a chain without its latest run. A
// repair causes this temporarily after it has removed an overwritten key.
var errLost = errors.New("its log is there, and its metadata is not: a repair by package fsck writes it again")

// damageOf returns the damage that made a script fail: a key of an impossible type, or a lost run.
// Otherwise it returns err.
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

// streamsNear returns the keys of the streams of the runs of a script. They belong to the chain of
// the run, which only its metadata names.
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

// near returns keys, and the keys that scripts derive from them.
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

// findings records the overwritten keys that a script has reported at the end of its answer and
// left out.
func (s *Store) findings(p *partition, texts []string) {
	for _, text := range texts {
		if i := strings.LastIndexByte(text, ' '); i > len(p.tag) { // a key may contain spaces
			s.damages.Note(text, p.overwritten(text[:i], text[i+1:]))
		}
	}
}

// Damage returns the keys that were found overwritten since the last call.
func (s *Store) Damage() []*store.DamagedError { return s.damages.Damage() }

var _ store.DamageTeller = (*Store)(nil)
