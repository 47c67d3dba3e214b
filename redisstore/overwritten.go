package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/store"
)

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
