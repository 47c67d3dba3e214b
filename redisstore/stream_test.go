package redisstore_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// chunk returns a publication that appends a chunk to a stream.
func chunk(stream, body string) store.Publication {
	return store.Publication{Stream: stream, Body: []byte(body)}
}

// commits writes one commit to a run, modified by change.
func (w *writer) commits(r *written, change func(c *store.Commit)) {
	w.t.Helper()
	c := r.log.Commit(r.fence, r.log.Work()...)
	change(&c)
	if got, err := w.st.Commit(w.ctx, []store.Commit{c}); err != nil || got[0].Err != nil {
		w.t.Fatalf("commit: got %+v, %v", got, err)
	}
	r.log.Accept(c)
}

func TestCost_ACommitThatPublishesIsOneScript(t *testing.T) {
	st, commands := counted(t, redistest.Shared(t))
	defer st.Close()
	w := newWriter(t, st, st, 1)
	r := w.runs[0]
	w.commits(r, func(*store.Commit) {}) // loads the scripts
	w.commits(r, func(c *store.Commit) { c.Publish = []store.Publication{chunk("a", "1")} })
	for _, tt := range []struct {
		what, script string
		publish      []store.Publication
	}{
		{"publishes nothing", "append", nil},
		{"publishes", "commit", []store.Publication{chunk("a", "2")}},
		{"publishes much", "commit", []store.Publication{chunk("a", "3"), chunk("b", "1"), {Stream: "a", Keep: 1}, {Stream: "b", Close: true}}},
	} {
		before, all := commands.by[tt.script], commands.all.Load()
		w.commits(r, func(c *store.Commit) { c.Publish = tt.publish })
		if got, n := commands.by[tt.script]-before, commands.all.Load()-all; got != 1 || n != 1 {
			t.Errorf("a commit that %s takes %d commands, %d of them %s: want 1 and 1", tt.what, n, got, tt.script)
		}
	}
	all := commands.all.Load()
	w.publish(r)
	if got := commands.all.Load() - all; got > 2 { // the first attempt sends the hash, the second the text
		t.Errorf("a publish takes %d commands, want at most 2", got)
	}
}

// TestStreams_GiveMemoryBackWhenTheyAreClosed proves that closing a stream frees memory. An open
// stream takes 4 KiB from its first chunk.
func TestStreams_GiveMemoryBackWhenTheyAreClosed(t *testing.T) {
	server := redistest.Start(t)
	st := openURL(t, with(server.URL(), "partitions=1"))
	defer st.Close()
	w := newWriter(t, st, st, 1)
	key := "{flowgen:0}1C:" + strings.TrimPrefix(string(w.runs[0].log.Run), event.PrefixRun+"_") + ":a"
	usage := func() int64 { return must(server.Client(t).MemoryUsage(w.ctx, key, 0).Result()) }
	w.commits(w.runs[0], func(c *store.Commit) { c.Publish = []store.Publication{chunk("a", "1"), chunk("a", "2")} })
	open := usage()
	w.commits(w.runs[0], func(c *store.Commit) { c.Publish = []store.Publication{{Stream: "a", Close: true}} })
	if closed := usage(); open < 4096 || closed > 1000 {
		t.Errorf("a stream of two chunks takes %d bytes, and %d once it is closed: want more than 4096 and less than 1000", open, closed)
	}
}

func TestStreams_PagesAreBoundedInBytes(t *testing.T) {
	const size, chunks = 1 << 20, 10
	st := openURL(t, with(redistest.Shared(t).URL(), "prefix="+redistest.Prefix()))
	defer st.Close()
	w := newWriter(t, st, st, 1)
	for range chunks {
		w.commits(w.runs[0], func(c *store.Commit) {
			c.Publish = []store.Publication{{Stream: "a", Body: bytes.Repeat([]byte("x"), size)}}
		})
	}
	for _, r := range []store.ReadStream{{}, {Tail: 9}, {From: 3, Limit: 9}} {
		r.Run, r.Stream = w.runs[0].log.Run, "a"
		page := must(st.ReadStream(w.ctx, r))
		if n := len(page.Chunks); n != 4 {
			t.Errorf("page of %+v: got %d chunks of 1 MiB, want 4", r, n)
		}
	}
}

// TestRUN15_ThousandsOfFollowersShareTheConnectionsOfTheStore proves that all followers of streams
// share one connection, and that they continue after the connection was lost.
func TestRUN15_ThousandsOfFollowersShareTheConnectionsOfTheStore(t *testing.T) {
	const followers, runs = 2000, 20
	server := redistest.Start(t)
	st := openURL(t, server.URL())
	defer st.Close()
	watcher := server.Client(t)
	w := newWriter(t, st, st, runs)
	told := make(chan error, followers)
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	for n := range followers {
		r := w.runs[n%runs]
		all.Go(func() { told <- awaits(ctx, st, r.log.Run, fmt.Sprint(n%3), 0) })
	}
	subscribed(t, watcher, runs)
	kill := func() {
		if err := watcher.Do(w.ctx, "client", "kill", "type", "pubsub").Err(); err != nil {
			t.Fatal(err)
		}
	}
	kill()
	subscribed(t, watcher, runs)
	if n := strings.Count(must(watcher.ClientList(w.ctx).Result()), "\n"); n > 25 {
		t.Errorf("%d followers have %d connections, want no more than the pool of a client and one", followers, n)
	}
	for _, r := range w.runs {
		w.commits(r, func(c *store.Commit) { c.Publish = []store.Publication{chunk("0", "x"), chunk("1", "x")} })
		if err := st.Publish(w.ctx, r.log.Run, r.fence, []store.Publication{chunk("2", "x")}); err != nil {
			t.Fatal(err)
		}
	}
	for range followers {
		if err := <-told; err != nil {
			t.Fatal(err)
		}
	}
}

// awaits blocks until the stream has a chunk with an index greater than after.
func awaits(ctx context.Context, st *redisstore.Store, run event.RunID, stream string, after uint64) error {
	for {
		page, err := st.ReadStream(ctx, store.ReadStream{Run: run, Stream: stream, Limit: -1})
		if err != nil || page.Last > after {
			return err
		}
		if err := st.AwaitStream(ctx, run, stream, after); err != nil {
			return err
		}
	}
}

// subscribed waits until the given number of stream channels have subscribers.
func subscribed(t *testing.T, client *redis.Client, channels int) {
	t.Helper()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		if len(must(client.PubSubChannels(context.Background(), "*}1stream:*").Result())) == channels {
			return
		}
		select {
		case <-look.C:
		case <-limit.C:
			t.Fatalf("nobody listens to the %d channels", channels)
		}
	}
}
