package redisstore

import (
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/repairtest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// streaming returns a run with steps that have written to two streams.
func streaming(w *repairtest.World) *repairtest.Scene {
	w.T.Helper()
	s := w.Owned(w.Sleeping())
	var chunks []store.Publication
	for n := range uint64(5) {
		chunks = append(chunks, store.Publication{Stream: "a:b", Body: []byte("chunk"), Writer: "w", Nth: n + 1})
	}
	chunks = append(chunks, store.Publication{Stream: "x", Body: []byte("longer chunk"), Keep: 1})
	if err := w.Store.Publish(w.Ctx, s.Run, w.Record(s.Run).Fence, chunks); err != nil {
		w.T.Fatal(err)
	}
	return recovers(w, s)
}

func TestREC8_RepairsStreams(t *testing.T) {
	stranger := short(event.NewRunID(time.Now(), 0))
	repairtest.Each(t, map[string]decayed{
		"16 a stream of a chain without runs": {complete, func(k *keysOfScene) { k.do("xadd", k.chunks(stranger, "a"), "1-0", "f", "x") },
			repairtest.Want{Invariants: []int{16}}},
		"16 writers of no stream":       {streaming, func(k *keysOfScene) { k.do("hset", k.writers(k.run, "y"), "w", 1) }, repairtest.Want{Invariants: []int{16}}},
		"18 the first chunk is missing": {streaming, func(k *keysOfScene) { k.do("xdel", k.chunks(k.run, "a:b"), "1-0") }, repairtest.Want{Invariants: []int{18}}},
		"18 the last chunk is missing":  {streaming, func(k *keysOfScene) { k.do("xdel", k.chunks(k.run, "a:b"), "5-0") }, repairtest.Want{Invariants: []int{18}}},
		"18 chunks in between":          {streaming, func(k *keysOfScene) { k.do("xdel", k.chunks(k.run, "a:b"), "2-0", "4-0") }, repairtest.Want{Invariants: []int{18}}},
		"18 a stream counts too few":    {streaming, func(k *keysOfScene) { k.do("hset", k.streams(k.run), "a:b", "1 4 5 1") }, repairtest.Want{Invariants: []int{18}}},
		"18 a stream is not readable":   {streaming, func(k *keysOfScene) { k.do("hset", k.streams(k.run), "a:b", "x") }, repairtest.Want{Invariants: []int{18}}},
	}, func(t *testing.T, d decayed) { d.repairs(t) })
}
