package redisstore

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
)

// interposed is called before commands are sent. They are not if it returns an error.
type interposed func(cmds []redis.Cmder) error

func (on interposed) DialHook(next redis.DialHook) redis.DialHook { return next }

func (on interposed) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := on([]redis.Cmder{cmd}); err != nil {
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

func (on interposed) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := on(cmds); err != nil {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
			return err
		}
		return next(ctx, cmds)
	}
}

// mentions reports whether a command has a key or argument. Scripts have pointers to texts.
func mentions(cmd redis.Cmder, arg string) bool {
	return slices.ContainsFunc(cmd.Args(), func(a any) bool {
		p, ok := a.(*string)
		return a == any(arg) || ok && *p == arg
	})
}

// has reports whether one of some commands has a name that begins so, and a key or argument.
func has(cmds []redis.Cmder, name, arg string) bool {
	return slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return strings.HasPrefix(cmd.Name(), name) && mentions(cmd, arg) })
}

// onCluster returns a store of format 3 on a cluster, with runs and without copies of the mark.
func onCluster(t *testing.T) *guarded {
	t.Helper()
	g := openGuardedIn(t, redistest.SharedCluster(t).Client(t), 5)
	g.tagged(10, few, noID)
	g.unlabel()
	for _, p := range g.parts[1:] {
		g.check(g.client.Del(g.ctx, p.format()).Err())
	}
	return g
}

// interposing returns another store of the prefix, with a client of its own.
func (g *guarded) interposing(on interposed) *Store {
	g.t.Helper()
	client := redistest.SharedCluster(g.t).Client(g.t)
	client.AddHook(on)
	st, err := New(client, Config{Clock: g.clock, Prefix: g.cfg.Prefix, Partitions: len(g.parts)})
	g.check(err)
	g.t.Cleanup(func() { _ = st.Close() })
	return st
}

// newest fails the test unless all copies have the present format, by which searches go while partition 0 is away.
func (g *guarded) newest() {
	g.t.Helper()
	lost := g.interposing(func(cmds []redis.Cmder) error {
		if has(cmds, "", g.parts[0].format()) {
			return errStopped
		}
		return nil
	})
	for _, p := range g.parts[1:] {
		if got := g.client.Get(g.ctx, p.format()).Val(); got != g.mark() {
			g.t.Errorf("the copy in partition %d is %q, want %q", p.number, got, g.mark())
		}
		lost.prepared.Store(false)
		lost.labelled.Store(false)
		if has, err := lost.hasLabels(g.ctx, p); err != nil || !has {
			g.t.Errorf("while partition 0 is away a search in partition %d goes by labels: %v, %v", p.number, has, err)
		}
	}
}

// copies reports whether some commands copy the mark.
func (g *guarded) copies(cmds []redis.Cmder) bool {
	return len(cmds) > 1 && has(cmds, "set", g.parts[1].format())
}

// Whoever has read the mark before a migration may copy it at any time of that: the copy is of the new format all the same. What migrates has
// copied nothing, for that has failed.
func TestSTORE4_ACopyOfTheFormatIsNotOlderThanTheFormat(t *testing.T) {
	t.Run("copied after the migration", func(t *testing.T) {
		g, times := onCluster(t), 0
		late := g.interposing(func(cmds []redis.Cmder) error {
			if !g.copies(cmds) {
				return nil
			}
			if times++; times == 1 {
				migrating := g.interposing(func(cmds []redis.Cmder) error {
					if g.copies(cmds) {
						return errStopped
					}
					return nil
				})
				g.check(migrating.migrate(g.ctx, 100))
			}
			return nil
		})
		if g.check(late.prepare(g.ctx, late.parts[1])); times != 1 || late.labelled.Load() {
			t.Fatalf("it has copied %d times, and read the new format: %v", times, late.labelled.Load())
		}
		g.newest()
	})
	t.Run("copied between the copies and the mark", func(t *testing.T) {
		g, times := onCluster(t), 0
		migrating := g.interposing(func(cmds []redis.Cmder) error {
			if g.copies(cmds) {
				return errStopped
			}
			if has(cmds, "evalsha", g.parts[0].format()) {
				if times++; times == 1 {
					early := g.again()
					if g.check(early.prepare(g.ctx, early.parts[1])); early.labelled.Load() {
						t.Error("the mark was written before its copies")
					}
				}
			}
			return nil
		})
		if g.check(migrating.migrate(g.ctx, 100)); times == 0 {
			t.Fatal("the mark was not replaced by a script")
		}
		g.newest()
	})
}

// A copy that has stayed at an older format, as after a failover, is written again by the next process. One of a newer format stays, and
// so does what is none.
func TestSTORE4_AnOlderCopyOfTheFormatIsWrittenAgain(t *testing.T) {
	g := onCluster(t)
	g.check(g.again().migrate(g.ctx, 100))
	for n, old := range []string{g.markOf(migratable), g.markMeanwhile(), g.markOf(unlabelled)} {
		g.check(g.client.Set(g.ctx, g.parts[n+1].format(), old, 0).Err())
	}
	opened := g.again()
	g.check(opened.prepare(g.ctx, opened.parts[0]))
	g.newest()
	other := "somebody else's"
	g.check(g.client.Set(g.ctx, g.parts[0].format(), g.markOf(unlabelled), 0).Err())
	g.check(g.client.Set(g.ctx, g.parts[4].format(), other, 0).Err())
	opened = g.again()
	g.check(opened.prepare(g.ctx, opened.parts[0]))
	for n, want := range map[int]string{1: g.mark(), 4: other} {
		if got := g.client.Get(g.ctx, g.parts[n].format()).Val(); got != want {
			t.Errorf("the copy in partition %d is %q, want %q", n, got, want)
		}
	}
}
