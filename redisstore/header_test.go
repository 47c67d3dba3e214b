package redisstore

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

var sameHeader = cmp.AllowUnexported(header{})

// odd contains headers with extreme values.
var odd = map[string]header{
	"empty":       {},
	"one":         {queueState: store.StateReady, frames: 1, seq: 1, bytes: 1, status: event.StatusPending},
	"low full":    {queueState: store.StateOwned, fence: store.Fence{Epoch: math.MaxUint32}, seq: math.MaxUint32, bytes: math.MaxUint32},
	"beyond 2^53": {queueState: store.StateParked, fence: store.Fence{Epoch: 1<<53 + 1}, seq: 1<<53 + 1},
	"greatest": {
		wid: digest{255, 255, 255, 255, 255, 255, 255, 255}, queueState: store.StateEnded,
		fence: store.Fence{Epoch: math.MaxUint64, Token: event.Token{255, 255, 255, 255, 255, 255, 255, 255}},
		last:  event.CommitID{255, 0, 255}, seq: math.MaxUint64, status: statuses[len(statuses)-1], flags: 255,
		recoveries: math.MaxUint16, frames: math.MaxUint32, bytes: 1<<48 - 1,
	},
}

func headers(t *rapid.T) header {
	h := header{
		queueState: store.QueueState(rapid.IntRange(0, 6).Draw(t, "queue state")), seq: rapid.Uint64().Draw(t, "seq"), flags: rapid.Byte().Draw(t, "flags"),
		fence: store.Fence{Epoch: rapid.Uint64().Draw(t, "epoch")}, frames: uint64(rapid.Uint32().Draw(t, "frames")),
		recoveries: int(rapid.Uint16().Draw(t, "recoveries")), bytes: rapid.IntRange(0, 1<<48-1).Draw(t, "bytes"),
		status: rapid.SampledFrom(append(statuses, "")).Draw(t, "status"),
	}
	for name, into := range map[string][]byte{"wid": h.wid[:], "token": h.fence.Token[:], "cid": h.last[:]} {
		copy(into, rapid.SliceOfN(rapid.Byte(), len(into), len(into)).Draw(t, name))
	}
	return h
}

func TestHeader_IsReadAsItWasWritten(t *testing.T) {
	check := func(t interface{ Fatalf(string, ...any) }, h header) {
		packed := h.pack()
		if len(packed) != headerSize || headerSize > compactLimit {
			t.Fatalf("a header takes %d bytes, want %d, and %d at most", len(packed), headerSize, compactLimit)
		}
		if diff := cmp.Diff(h, unpackHeader(packed), sameHeader); diff != "" {
			t.Fatalf("header (-written +read):\n%s", diff)
		}
	}
	for name, h := range odd {
		t.Run(name, func(t *testing.T) { check(t, h) })
	}
	t.Run("any", func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { check(t, headers(t)) }) })
}

func TestHeader_OfAnotherSizeIsNone(t *testing.T) {
	whole := (&header{queueState: store.StateReady, frames: 1}).pack()
	for _, packed := range []string{"", "x", whole[1:], whole + "x"} {
		if diff := cmp.Diff(header{}, unpackHeader(packed), sameHeader); diff != "" {
			t.Errorf("%d bytes (-want +got):\n%s", len(packed), diff)
		}
	}
}

func TestHeader_CountsNoMoreRecoveriesThanItHasRoomFor(t *testing.T) {
	h := header{recoveries: math.MaxInt}
	if got := unpackHeader(h.pack()).recoveries; got != math.MaxUint16 {
		t.Errorf("recoveries: got %d, want %d", got, math.MaxUint16)
	}
}

// TestHeader_BeginsWithWhatGuardsACommit proves that a header begins with the bytes that a commit
// sends as its guard, and that the fence has its fixed position.
func TestHeader_BeginsWithWhatGuardsACommit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := headers(t)
		h.queueState = store.StateOwned
		var u usualCall
		g := &Store{cfg: Config{Prefix: "x"}, parts: []*partition{newPartition("x", 0)}}
		run := event.NewRunID(time.Now(), 0)
		wid := rapid.String().Draw(t, "workflow id")
		h.wid = digestOf(wid)
		u.prepare(g, scriptAppend, &store.Commit{Run: run, WorkflowID: wid, Fence: h.fence, Prev: h.last, First: h.seq + 1}, new(strings.Builder))
		if guard := string(u.bytes[0]); guard != h.pack()[:guardSize] {
			t.Fatalf("guard: got %x, want what %x begins with", guard, h.pack())
		}
		if fence := string(packFence(h.fence)); fence != h.pack()[fenceFrom:fenceFrom+fenceSize] {
			t.Fatalf("fence: got %x, want that of %x", fence, h.pack())
		}
	})
}

func TestDigest_IsEmptyOnlyWithoutAWorkflowID(t *testing.T) {
	if digestOf("") != (digest{}) {
		t.Errorf("no workflow id: got %x, want zeros", digestOf(""))
	}
	seen := map[digest]string{}
	for _, wid := range []string{"a", "b", "order-1", "order-2", "\x00", strings.Repeat("x", 1000)} {
		d := digestOf(wid)
		if other, twice := seen[d]; twice || d == (digest{}) {
			t.Errorf("%q: got %x, which is that of %q, or of none", wid, d, other)
		}
		seen[d] = wid
	}
}

// lua calls a function of lua/part/header.lua on a server.
func lua(t *testing.T, call string, args ...any) any {
	t.Helper()
	client := redistest.Shared(t).Client(t)
	got, err := client.Eval(context.Background(), source("part/header")+"\nreturn "+call, nil, args...).Result()
	if err != nil {
		t.Fatalf("%s: %v", call, err)
	}
	return got
}

func TestHeader_ScriptsChangeItAsItIsRead(t *testing.T) {
	token := event.Token{0, 1, 2, 0, 255, 254, 0, 10}
	for name, h := range odd {
		t.Run(name, func(t *testing.T) {
			for call, change := range map[string]func(h *header){
				"moved(ARGV[1], '3')": func(h *header) { h.queueState, h.fence.Token = store.StateParked, event.Token{} },
				"refenced(ARGV[1], '2', ARGV[2])": func(h *header) {
					h.queueState, h.fence.Token, h.fence.Epoch = store.StateOwned, token, h.fence.Epoch+1
				},
				"with_flag(ARGV[1], has_rest, true)":      func(h *header) { h.flags |= hasRest },
				"with_flag(ARGV[1], is_closing, false)":   func(h *header) { h.flags &^= isClosing },
				"with_flag(ARGV[1], has_unread, true)":    func(h *header) { h.flags |= hasUnread },
				"with_flag(ARGV[1], is_watched, false)":   func(h *header) { h.flags &^= isWatched },
				"with_flag(ARGV[1], has_retention, true)": func(h *header) { h.flags |= hasRetention },
			} {
				want := h
				change(&want)
				got, _ := lua(t, call, h.pack(), token[:]).(string)
				if diff := cmp.Diff(want, unpackHeader(got), sameHeader); diff != "" {
					t.Errorf("%s (-want +got):\n%s", call, diff)
				}
			}
			if got := lua(t, "queue_state_of(ARGV[1])", h.pack()); got != string(rune('0'+h.queueState)) {
				t.Errorf("place: got %v, want %d", got, h.queueState)
			}
		})
	}
	if got := lua(t, "queue_state_of(ARGV[1]) == false and queue_state_of(false) == false", "short"); got != int64(1) {
		t.Errorf("the queue state of what is no header: got %v, want none", got)
	}
}

// TestHeader_CountersAreExactOverTheirWholeRange proves that the counters of a run are exact over
// 64 bits, although a number in Lua has a precision of 53 bits.
func TestHeader_CountersAreExactOverTheirWholeRange(t *testing.T) {
	for name, epoch := range map[string]uint64{"2^32": math.MaxUint32, "2^53": 1<<53 + 1, "2^64": math.MaxUint64 - 3} {
		t.Run(name, func(t *testing.T) {
			g := openGuarded(t)
			session := g.session()
			l := g.start("")
			seq := epoch
			g.setHeader(l.Run, func(h *header) { h.fence.Epoch, h.seq = epoch, seq })
			got, err := g.ClaimRun(g.ctx, 0, session, g.ids.Token(), l.Run)
			g.check(err)
			if got.Fence.Epoch != epoch+1 || got.Seq != seq {
				t.Fatalf("claimed: got epoch %d and event %d, want %d and %d", got.Fence.Epoch, got.Seq, epoch+1, seq)
			}
			wrong := store.Commit{Run: l.Run, Fence: got.Fence, Prev: got.Last, Frame: []byte("x"), CommitID: g.ids.CommitID(), First: seq, Last: seq + 1}
			var conflict *store.ConflictError
			if err := g.answer(wrong).Err; !errors.As(err, &conflict) || conflict.StoredSeq != seq {
				t.Errorf("another event: got error %v, want a conflict with event %d", err, seq)
			}
			right := wrong
			right.First++
			late := right
			late.Fence.Epoch--
			if err := g.answer(late).Err; !errors.Is(err, store.ErrFenced) {
				t.Errorf("the epoch before: got error %v, want %v", err, store.ErrFenced)
			}
			g.check(g.answer(right).Err)
			owned, err := g.Reconcile(g.ctx, 0, session)
			g.check(err)
			if want := []store.Owned{{Run: l.Run, Fence: got.Fence}}; !cmp.Equal(owned, want) {
				t.Errorf("owned: got %v, want %v", owned, want)
			}
			g.check(g.CloseSession(g.ctx, 0, session))
			rec := g.loaded(l.Run).Record
			if rec.Fence.Epoch != epoch+2 || rec.Seq != seq+1 || rec.Recoveries != 1 {
				t.Errorf("recovered: got epoch %d, event %d and %d recoveries, want %d, %d and 1", rec.Fence.Epoch, rec.Seq, rec.Recoveries, epoch+2, seq+1)
			}
			trail, err := g.Audit(g.ctx, l.Run)
			g.check(err)
			if len(trail) != 1 || trail[0].Epoch != epoch+1 || trail[0].QueueState != store.StateOwned {
				t.Errorf("audit trail: got %+v, want one entry of epoch %d", trail, epoch+1)
			}
		})
	}
}

func TestHeader_RecoveriesStopAtWhatItHasRoomFor(t *testing.T) {
	g := openGuarded(t)
	session := g.session()
	l, _ := g.own(session, "")
	g.setHeader(l.Run, func(h *header) { h.recoveries = math.MaxUint16 })
	g.check(g.CloseSession(g.ctx, 0, session))
	if got := g.loaded(l.Run).Record.Recoveries; got != math.MaxUint16 {
		t.Errorf("recoveries: got %d, want %d", got, math.MaxUint16)
	}
}

// setHeader changes the stored header of a run.
func (g *guarded) setHeader(run event.RunID, change func(h *header)) {
	g.t.Helper()
	key := g.parts[0].meta(short(run))
	h := unpackHeader(g.client.HGet(g.ctx, key, "H").Val())
	change(&h)
	g.check(g.client.HSet(g.ctx, key, "H", h.pack()).Err())
}

func TestStatus_ThatNobodyKnowsIsRefused(t *testing.T) {
	g := openGuarded(t)
	l, fence := g.own(g.session(), "")
	c := l.Commit(fence, l.Work()...)
	c.Status = "dancing"
	g.unchanged("a commit with a status that is none", func() {
		if _, err := g.Commit(g.ctx, []store.Commit{c}); err == nil || !strings.Contains(err.Error(), "dancing") {
			t.Errorf("got error %v, want one that names the status", err)
		}
	})
}

// setHeader changes the stored header of the run of the scene.
func (k *keysOfScene) setHeader(change func(h *header)) {
	h := unpackHeader(k.client.HGet(k.ctx, k.meta(k.run), "H").Val())
	change(&h)
	k.setMeta("H", h.pack())
}

func TestCommit_ThatReadsTheLastItemLetsTheShortScriptsGoOn(t *testing.T) {
	g := openGuarded(t)
	l, fence := g.own(g.session(), "")
	for _, id := range []event.ItemID{"one", "two"} {
		_, err := g.Deliver(g.ctx, store.Deliver{Run: l.Run, Item: store.Item{ID: id, Body: []byte("1")}})
		g.check(err)
		c := l.Commit(fence, l.Work()...)
		c.Consume, c.ConsumeLast = 1, id
		if got := g.answer(c); got.Err != nil || got.Unread {
			t.Fatalf("item %s: got %+v, want no more items", id, got)
		}
		l.Accept(c)
		c = l.Commit(fence, l.Work()...)
		call := g.append(&c)
		g.check(g.do(g.ctx, call))
		if n, _ := call.reply.(int64); n == 0 || n%2 != 0 {
			t.Errorf("append after item %s: got %v, want that it has done it, without unread items", id, call.reply)
		}
		l.Accept(c)
	}
	g.sound()
}

// append returns the call of the append script for a commit.
func (g *guarded) append(c *store.Commit) *call {
	g.t.Helper()
	call := g.commit(c, &usualCall{}, new(strings.Builder))
	if call.script != scriptAppend {
		g.t.Fatalf("the commit is one for %s, want append", call.script.name)
	}
	return call
}
