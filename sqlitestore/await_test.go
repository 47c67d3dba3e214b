package sqlitestore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// awaits blocks until the state of a stream satisfies wanted.
func awaits(ctx context.Context, s *Store, run event.RunID, stream string, wanted func(store.StreamPage) bool) error {
	for {
		page, err := s.ReadStream(ctx, store.ReadStream{Run: run, Stream: stream, Limit: -1})
		if err != nil || wanted(page) {
			return err
		}
		if err := s.AwaitStream(ctx, run, stream, page.Last); err != nil {
			return err
		}
	}
}

// awaiting returns the number of AwaitStream calls that block and have determined their chain.
func (s *Store) awaiting() int {
	n := 0
	for _, t := range s.notifier.streams.Topics() {
		if t.run != "" {
			n += s.notifier.streams.Resting(t)
		}
	}
	return n
}

func TestRUN15_AnotherProcessNotifiesThousandsOfCallsOfAwaitStream(t *testing.T) {
	const followers, chunks = 3000, 3
	s := openTest(t)
	other, err := Open(s.path)
	check(t, err)
	defer func() { check(t, other.Close()) }()
	ctx := testContext(t)
	commits := startOwned(t, s, 100)
	files := openFiles(t)
	var g errgroup.Group
	for i := range followers {
		run, stream := commits[i%len(commits)].Run, fmt.Sprint(i/len(commits)%3)
		g.Go(func() error {
			return awaits(ctx, s, run, stream, func(p store.StreamPage) bool { return p.Last == chunks })
		})
	}
	for n := range uint64(chunks) {
		eventually(t, "all are at rest", func() bool { return s.awaiting() == followers })
		if got := openFiles(t) - files; got > 2*(readerCount+1) {
			t.Errorf("open files: got %d for the waiting calls, want at most %d", got, 2*(readerCount+1))
		}
		by := s
		if n%2 == 0 {
			by = other // a second store on the file represents another process
		}
		for _, c := range commits {
			var all []store.Publication
			for _, stream := range []string{"0", "1", "2"} {
				all = append(all, store.Publication{Stream: stream, Body: []byte("x"), Writer: "w", Nth: n + 1})
			}
			check(t, by.Publish(ctx, c.Run, c.Fence, all))
		}
	}
	check(t, g.Wait())
	if left := s.awaiting(); left != 0 {
		t.Errorf("calls that still wait: got %d, want none", left)
	}
}

// TestAwaitStream_IsToldByAnotherProcess proves that a change of a chain by another store on the
// file ends the wait.
func TestAwaitStream_IsToldByAnotherProcess(t *testing.T) {
	s := openTest(t)
	other, err := Open(s.path)
	check(t, err)
	defer func() { check(t, other.Close()) }()
	ctx, cancel := context.WithTimeout(testContext(t), 20*time.Second) // a call that is not notified must fail before the test times out
	defer cancel()
	c := startOwned(t, s, 1)[0]
	publish := func(p store.Publication) func(c *store.Commit) {
		return func(c *store.Commit) { c.Publish = []store.Publication{p} }
	}
	for _, step := range []struct {
		what, stream string
		do           func(c *store.Commit)
		told         func(store.StreamPage) bool
	}{
		{"a chunk", "a", publish(store.Publication{Stream: "a", Body: []byte("x")}), func(p store.StreamPage) bool { return p.Last == 1 }},
		{"a drop", "a", publish(store.Publication{Stream: "a", Drop: true}), func(p store.StreamPage) bool { return p.Last == 0 }},
		{"a close", "b", publish(store.Publication{Stream: "b", Close: true}), func(p store.StreamPage) bool { return p.Closed }},
		{"the end of the chain", "a", func(c *store.Commit) { c.Effect, c.Status = store.EffectFinish, event.StatusCompleted }, func(p store.StreamPage) bool { return p.Ended }},
	} {
		told := make(chan error, 1)
		go func() { told <- awaits(ctx, s, c.Run, step.stream, step.told) }()
		eventually(t, "somebody waits for "+step.what, func() bool { return s.awaiting() == 1 })
		c.CommitID, c.First, c.Last, c.Publish = event.NewCommitID(), c.Last+1, c.Last+1, nil
		next := c
		step.do(&next)
		answers, err := other.Commit(ctx, []store.Commit{next})
		check(t, err)
		check(t, answers[0].Err)
		c.Prev = next.CommitID
		check(t, <-told)
	}
}
