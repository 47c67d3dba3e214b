package redisstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

// writers contains commits of a run that has sent items and published chunks before, and the keys
// that each commit writes. In the keys, R is the run, C is its route and Z is the session.
var writers = map[string]struct {
	usual  bool // whether the commit can be an operation of script batch
	keys   []string
	commit func(g *guarded, l *storetest.Log, f store.Fence) store.Commit
}{
	"a frame": {true, []string{"l:R"}, func(_ *guarded, l *storetest.Log, f store.Fence) store.Commit {
		return l.Commit(f, l.Work()...)
	}},
	"two records": {false, []string{"l:R", "O:R", "B:R", "c", "D"}, func(g *guarded, l *storetest.Log, f store.Fence) store.Commit {
		return g.mailing(l, f, 2)
	}},
	"chunks of two streams": {false, []string{"l:R", "S:R", "C:R:one", "C:R:two"}, func(_ *guarded, l *storetest.Log, f store.Fence) store.Commit {
		c := l.Commit(f, l.Work()...)
		c.Publish = published(2)
		return c
	}},
	"records and chunks": {false, []string{"O:R", "B:R", "c", "C:R:two"}, func(g *guarded, l *storetest.Log, f store.Fence) store.Commit {
		c := g.mailing(l, f, 1)
		c.Publish = published(2)
		return c
	}},
	"a wait": {false, []string{"l:R", "t", "o:Z"}, func(g *guarded, l *storetest.Log, f store.Fence) store.Commit {
		due := g.clock.Now().Add(time.Hour)
		c := l.Commit(f, append(l.Work(), event.Event{Type: event.WaitCreated, Wait: event.WaitSleep, Key: "sleep", Due: due})...)
		c.Effect, c.Due = store.EffectPark, due
		return c
	}},
	"a turn for others": {false, []string{"l:R", "c", "r:C", "o:Z"}, func(_ *guarded, l *storetest.Log, f store.Fence) store.Commit {
		c := l.Commit(f, l.Work()...)
		c.Effect = store.EffectYield
		return c
	}},
	"an end": {true, []string{"l:R", "o:Z", "p:C", "f:C3", "d", "G"}, func(_ *guarded, l *storetest.Log, f store.Fence) store.Commit {
		c := l.Commit(f, l.End(event.StatusCompleted)...)
		c.Effect, c.Status, c.Progress = store.EffectFinish, event.StatusCompleted, true
		return c
	}},
	"a continuation": {false, []string{"l:R", "c", "o:Z", "p:C", "f:C6", "G", "h", "T", "k", "r:C"}, func(_ *guarded, l *storetest.Log, f store.Fence) store.Commit {
		c, _ := l.Continue(f, nil)
		return c
	}},
}

// mailing returns a commit that sends messages. As in a worker, the outbox records follow from the
// events of the commit.
func (g *guarded) mailing(l *storetest.Log, f store.Fence, messages int) store.Commit {
	g.t.Helper()
	events, sends := l.Work(), []store.Send{}
	for range messages {
		to, id, payload := g.ids.Run(g.clock.Now(), 0), g.ids.Item(), []byte(`"hello"`)
		item, err := event.AppendItem(nil, &event.Event{Type: event.MessageReceived, Name: "topic", Payload: payload})
		g.check(err)
		body, err := json.Marshal(map[string]any{"item": map[string]any{"scope": store.ScopeChain, "body": item}, "key": "send " + string(id), "answer": "always"})
		g.check(err)
		events = append(events, event.Event{Type: event.MessageSent, Name: "topic", Key: "send " + string(id), Next: to, Item: id, Payload: payload})
		sends = append(sends, store.Send{ID: id, To: to, Body: body})
	}
	c := l.Commit(f, events...)
	c.Send = sends
	return c
}

// published returns publications of chunk nth to two streams.
func published(nth int) (all []store.Publication) {
	for _, stream := range []string{"one", "two"} {
		all = append(all, store.Publication{Stream: stream, Body: fmt.Appendf(nil, "%d", nth)})
	}
	return all
}

// try sends a commit and returns its error.
func (g *guarded) try(c store.Commit) error {
	answers, err := g.Commit(g.ctx, []store.Commit{c})
	if err != nil {
		return err
	}
	return answers[0].Err
}

// TestREC10_ACommitThatMeetsAnOverwrittenKeyIsWrittenOnce proves that a commit that encounters an
// overwritten key is applied exactly once. The server does not roll back a script that fails
// midway, so there are two permitted results. If a repair can rebuild the key from the runs, the
// commit is written without the key. Otherwise the commit has no visible effect, and is written
// when it is repeated after the repair.
func TestREC10_ACommitThatMeetsAnOverwrittenKeyIsWrittenOnce(t *testing.T) {
	for what, w := range writers {
		for _, key := range w.keys {
			// A full run has sent items and published chunks before.
			for _, mode := range []string{"full", "new", "new, in a batch"} {
				full, batches := mode == "full", mode == "new, in a batch"
				if !full && strings.ContainsAny(key[:1], "SCWOB") || batches && !w.usual {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%s", what, key, mode), func(t *testing.T) {
					t.Parallel()
					g := openGuarded(t)
					if batches {
						g.BatchEverything()
					}
					session := g.session()
					l, fence := g.own(session, "")
					g.start("") // start another run
					if full {
						before := g.mailing(l, fence, 1)
						before.Publish = published(1)
						g.check(g.answer(before).Err)
						l.Accept(before)
					}
					p, run := g.parts[0], short(l.Run)
					name := p.tag + strings.NewReplacer("R", run, "Z", string(session)).Replace(key)
					route := g.client.HKeys(g.ctx, p.routes()).Val()[0]
					switch key[:min(2, len(key))] {
					case "r:":
						name = p.ready(route)
					case "p:":
						name = p.openRuns(route, false)
					case "f:":
						name = p.doneRuns(route, false, key[3])
					}
					c := w.commit(g, l, fence)
					g.overwritten(name)
					frames, header := g.client.XLen(g.ctx, p.log(run)).Val(), g.client.HGet(g.ctx, p.meta(run), "H").Val()
					err := g.try(c)
					if err != nil {
						if !strings.Contains(err.Error(), name) {
							t.Errorf("got %v, which does not name key %s", err, name)
						}
						if n, h := g.client.XLen(g.ctx, p.log(run)).Val(), g.client.HGet(g.ctx, p.meta(run), "H").Val(); n != frames || h != header {
							t.Errorf("a commit that has failed has written a frame: %d frames, before %d", n, frames)
						}
					}
					_, failed := fsck.Repair(g.ctx, g.Store, fsck.Options{})
					g.check(failed)
					if key == "l:R" {
						return // the log of the run is lost
					}
					again := g.try(c)
					if errors.Is(again, store.ErrFenced) && err == nil {
						again = nil // the run has ended or has another owner
					} else if errors.Is(again, store.ErrFenced) { // the repair has changed the fence, so the next owner commits
						claimed, failed := g.ClaimRun(g.ctx, 0, session, g.ids.Token(), l.Run)
						g.check(failed)
						c = w.commit(g, l, claimed.Fence)
						again = g.try(c)
					}
					g.check(again)
					if got := g.client.XLen(g.ctx, p.log(run)).Val(); got != frames+1 {
						t.Errorf("the log has %d frames, want %d", got, frames+1)
					}
					g.sound()
					records, _, failed := g.Outbox(g.ctx, 0, 100)
					g.check(failed)
					for _, sent := range c.Send {
						same := slices.DeleteFunc(slices.Clone(records), func(o store.Outgoing) bool { return o.ID != sent.ID })
						if len(same) != 1 || same[0].To != sent.To || !bytes.Equal(same[0].Body, sent.Body) {
							t.Errorf("record %s is in the outbox as %+v, want it once", sent.ID, same)
						}
					}
				})
			}
		}
	}
}

// TestREC10_ACommitThatHandsOnIsWrittenWhateverIsOverwritten proves that a commit that frees a
// permit is written completely even if keys of its session or of limiter queues are overwritten.
// Its script accesses these keys after it has appended the frame.
func TestREC10_ACommitThatHandsOnIsWrittenWhateverIsOverwritten(t *testing.T) {
	for _, key := range []string{"m:FIRST", "m:SECOND", "P:", "F:gpu\x00", "F:gpu\x00\x00", "L", "K", "Y", "t", "w", "c", "z:Z", "o:Z", "r:"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			g := openGuarded(t)
			g.check(g.SetLimits(g.ctx, 0, []store.SetLimit{{LimitID: store.LimitID{Name: "gpu"}, Config: store.LimitConfig{AtOnce: 1}}}))
			uses := func(c *store.Create) { c.Uses = []store.Use{{LimitID: store.LimitID{Name: "gpu"}, Weight: 1}} }
			session := g.session()
			l, fence := g.own(session, "", uses)
			waiting := []*storetest.Log{g.start("", uses), g.start("", uses)}
			claim := store.Claim{Session: session, Token: g.ids.Token(), Routes: []store.Route{guardedRoute}, Max: 10}
			got, err := g.Claim(g.ctx, claim) // returns no runs
			if g.check(err); len(got.Runs) > 0 {
				t.Fatalf("got %v", got.Runs)
			}
			p := g.parts[0]
			name := p.tag + strings.NewReplacer("FIRST", short(waiting[0].Run), "SECOND", short(waiting[1].Run), "Z", sessionCode(session)).Replace(key)
			switch key {
			case "P:":
				name = g.client.Keys(g.ctx, p.tag+"P:*").Val()[0]
			case "r:":
				name = p.ready(g.client.HKeys(g.ctx, p.routes()).Val()[0])
			}
			g.overwritten(name)
			c := l.Commit(fence, l.End(event.StatusCompleted)...)
			c.Effect, c.Status = store.EffectFinish, event.StatusCompleted
			claim.Token, claim.Max, claim.Hinted = g.ids.Token(), 2, true
			c.Next = &claim
			frames := g.client.XLen(g.ctx, p.log(short(l.Run))).Val()
			g.check(g.try(c))
			if h := unpackHeader(g.client.HGet(g.ctx, p.meta(short(l.Run)), "H").Val()); h.queueState != store.StateEnded {
				t.Errorf("the run is %v, want ended", h.queueState)
			}
			if n := g.client.XLen(g.ctx, p.log(short(l.Run))).Val(); n != frames+1 {
				t.Errorf("its log has %d frames, want %d", n, frames+1)
			}
		})
	}
}

// overwritten replaces a key by a value of another type.
func (g *guarded) overwritten(key string) {
	g.t.Helper()
	g.check(g.client.Del(g.ctx, key).Err())
	if g.parts[0].typeOf(key) == "string" {
		g.check(g.client.RPush(g.ctx, key, "x").Err())
		return
	}
	g.check(g.client.Set(g.ctx, key, "x", 0).Err())
}

// TestREC10_AnOverwrittenKeyOfAStreamKeepsNothingElse proves that an overwritten key of a stream
// affects only writes to this stream. The error names the key and the run.
func TestREC10_AnOverwrittenKeyOfAStreamKeepsNothingElse(t *testing.T) {
	for _, letter := range []string{"C", "W"} {
		t.Run(letter, func(t *testing.T) {
			g := openGuarded(t)
			session := g.session()
			l, fence := g.own(session, "")
			other, its := g.own(session, "")
			publish := func(l *storetest.Log, fence store.Fence, stream string, nth uint64) error {
				return g.Publish(g.ctx, l.Run, fence, []store.Publication{{Stream: stream, Body: []byte("x"), Writer: "w", Nth: nth}})
			}
			for _, stream := range []string{"one", "two"} {
				g.check(publish(l, fence, stream, 1))
				g.check(publish(other, its, stream, 1))
			}
			key := g.parts[0].tag + letter + ":" + short(l.Run) + ":two"
			g.overwritten(key)
			err := publish(l, fence, "two", 2)
			if damaged, ok := errors.AsType[*store.DamagedError](err); !ok || damaged.Run != l.Run || !strings.Contains(err.Error(), key) {
				t.Errorf("got %v, want a DamagedError of run %s that names key %s", err, l.Run, key)
			}
			g.check(publish(l, fence, "one", 2))
			g.check(publish(other, its, "two", 2))
			g.check(g.try(l.Commit(fence, l.Work()...)))
			_, err = fsck.Repair(g.ctx, g.Store, fsck.Options{})
			g.check(err)
			g.check(publish(l, fence, "two", 2))
			g.sound()
		})
	}
}
