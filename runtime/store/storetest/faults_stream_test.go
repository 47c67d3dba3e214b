package storetest_test

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// publishing returns a constructor of stores with a mistake in the publications of commits. The
// store calls do with each such commit that it would apply, and with the state of the run.
func publishing(do func(ctx context.Context, w wrapper, c *store.Commit, r *store.RunState)) func(wrapper) store.Store {
	return func(w wrapper) store.Store {
		return edit{wrapper: w, commit: func(ctx context.Context, c *store.Commit) *store.Committed {
			if r := w.state(ctx, c.Run); r != nil && len(c.Publish) > 0 && r.Last != c.CommitID && c.CheckPublish() == nil {
				c.Publish = slices.Clone(c.Publish)
				do(ctx, w, c, r)
			}
			return nil
		}}
	}
}

// each returns a constructor of stores that replace each publication of a commit by the
// publications that do returns.
func each(do func(p store.Publication) []store.Publication) func(wrapper) store.Store {
	return publishing(func(_ context.Context, _ wrapper, c *store.Commit, _ *store.RunState) {
		var all []store.Publication
		for _, p := range c.Publish {
			all = append(all, do(p)...)
		}
		c.Publish = all
	})
}

// stepping returns a constructor of stores with a mistake in Publish.
func stepping(do func(ctx context.Context, w wrapper, run event.RunID, fence *store.Fence, chunks *[]store.Publication) error) func(wrapper) store.Store {
	return func(w wrapper) store.Store {
		return edit{wrapper: w, publish: func(ctx context.Context, run event.RunID, fence *store.Fence, chunks *[]store.Publication) error {
			*chunks = slices.Clone(*chunks)
			return do(ctx, w, run, fence, chunks)
		}}
	}
}

// stream returns the state of a stream.
func (w wrapper) stream(ctx context.Context, run event.RunID, name string) store.StreamState {
	snap := w.snapshot(ctx)
	if r := snap.Runs[run]; r != nil {
		return snap.Streams[r.Chain][name]
	}
	return store.StreamState{}
}

// streamFaults are mistakes in writing to streams.
var streamFaults = map[string]fault{
	"commit publishes nothing": {"CommitPublishesToStreams", each(func(store.Publication) []store.Publication { return nil })},
	"an empty chunk is none": {"AChunkMayBeEmpty", each(func(p store.Publication) []store.Publication {
		if len(p.Body) == 0 {
			p.Body = nil
		}
		return []store.Publication{p}
	})},
	"keep comes before the append": {"PublicationsDropThenAppendThenTrimThenClose", each(func(p store.Publication) []store.Publication {
		first := store.Publication{Stream: p.Stream, Drop: p.Drop, Keep: p.Keep}
		p.Drop, p.Keep = false, 0
		return []store.Publication{first, p}
	})},
	"close comes before the append": {"PublicationsDropThenAppendThenTrimThenClose", each(func(p store.Publication) []store.Publication {
		first := store.Publication{Stream: p.Stream, Drop: p.Drop, Close: p.Close}
		p.Drop, p.Close = false, false
		return []store.Publication{first, p}
	})},
	"drop comes after the append": {"PublicationsDropThenAppendThenTrimThenClose", each(func(p store.Publication) []store.Publication {
		last := store.Publication{Stream: p.Stream, Drop: p.Drop, Keep: p.Keep, Close: p.Close}
		p.Drop, p.Keep, p.Close = false, 0, false
		return []store.Publication{p, last}
	})},
	"drop leaves a stream with no chunks": {"PublicationsDropThenAppendThenTrimThenClose", each(func(p store.Publication) []store.Publication {
		if p.Drop && p.Body == nil {
			p.Close = true
		}
		return []store.Publication{p}
	})},
	"commit publishes in another order": {"ACommitPublishesInItsOrder", publishing(func(_ context.Context, _ wrapper, c *store.Commit, _ *store.RunState) {
		slices.Reverse(c.Publish)
	})},
	"commit opens a closed stream again": {"ACommitAppendsNothingToAClosedStream",
		publishing(func(ctx context.Context, w wrapper, c *store.Commit, _ *store.RunState) {
			st := w.stream(ctx, c.Run, c.Publish[0].Stream)
			if !st.Closed || c.Publish[0].Body == nil {
				return
			}
			again := []store.Publication{{Stream: c.Publish[0].Stream, Drop: true}}
			for _, chunk := range st.Chunks {
				again = append(again, store.Publication{Stream: c.Publish[0].Stream, Body: chunk.Body})
			}
			c.Publish = append(again, c.Publish...)
		})},
	"commit is refused by a closed stream": {"ACommitAppendsNothingToAClosedStream", func(w wrapper) store.Store {
		return edit{wrapper: w, commit: func(ctx context.Context, c *store.Commit) *store.Committed {
			if len(c.Publish) > 0 && w.stream(ctx, c.Run, c.Publish[0].Stream).Closed {
				return &store.Committed{Err: store.ErrStreamClosed}
			}
			return nil
		}}
	}},
	"a closed stream has a chunk": {"AClosedStreamWithoutChunksIsClosed",
		publishing(func(ctx context.Context, w wrapper, c *store.Commit, _ *store.RunState) {
			for i := range c.Publish {
				p := &c.Publish[i]
				p.Close = p.Close && (p.Body != nil || w.stream(ctx, c.Run, p.Stream).Last > 0)
			}
		})},
	"a commit sent again publishes again": {"W3_TheSameCommitPublishesOnce", func(w wrapper) store.Store {
		return edit{wrapper: w, commit: func(ctx context.Context, c *store.Commit) *store.Committed {
			if r := w.state(ctx, c.Run); r != nil && r.Last == c.CommitID {
				_ = w.Store.Publish(ctx, c.Run, r.Fence, c.Publish)
			}
			return nil
		}}
	}},
	"a commit that is refused publishes": {"ACommitThatIsRefusedPublishesNothing", func(w wrapper) store.Store {
		return edit{wrapper: w, commit: func(ctx context.Context, c *store.Commit) *store.Committed {
			if r := w.state(ctx, c.Run); r != nil && r.Fence != c.Fence {
				_ = w.Store.Publish(ctx, c.Run, r.Fence, c.Publish)
			}
			return nil
		}}
	}},
	"the last commit publishes nothing": {"ACommitPublishesWithEveryEffect",
		publishing(func(_ context.Context, _ wrapper, c *store.Commit, _ *store.RunState) {
			if c.Effect != store.EffectNone {
				c.Publish = nil
			}
		})},
	"the first commit of a call publishes for all": {"CommitsOfOneCallPublishEachToItsRun", func(w wrapper) store.Store { return firstPublishes{w} }},
	"publications are not checked": {"PublicationsThatSayNonsenseFailTheCall", func(w wrapper) store.Store {
		return edit{wrapper: w, commit: func(_ context.Context, c *store.Commit) *store.Committed {
			if c.CheckPublish() != nil {
				c.Publish = nil
			}
			return nil
		}}
	}},
	"steps are not checked": {"PublicationsThatSayNonsenseFailTheCall",
		stepping(func(_ context.Context, _ wrapper, _ event.RunID, _ *store.Fence, chunks *[]store.Publication) error {
			if store.CheckPublish(*chunks) != nil {
				*chunks = nil
			}
			return nil
		})},
	"names end at a zero byte": {"AnyBytesNameAStream", each(func(p store.Publication) []store.Publication {
		p.Stream = strings.TrimSuffix(p.Stream, "\x00") + strings.Repeat("x", 1-min(1, len(strings.TrimSuffix(p.Stream, "\x00"))))
		return []store.Publication{p}
	})},
	"publish writes nothing": {"PublishAppendsBesideTheLog",
		stepping(func(_ context.Context, _ wrapper, _ event.RunID, _ *store.Fence, chunks *[]store.Publication) error {
			*chunks = nil
			return nil
		})},
	"publish does not trim": {"PublishTrims",
		stepping(func(_ context.Context, _ wrapper, _ event.RunID, _ *store.Fence, chunks *[]store.Publication) error {
			for i := range *chunks {
				(*chunks)[i].Keep = 0
			}
			return nil
		})},
	"publish ignores the token": {"F1_PublishNeedsEpochAndToken",
		stepping(func(ctx context.Context, w wrapper, run event.RunID, fence *store.Fence, _ *[]store.Publication) error {
			if r := w.state(ctx, run); r != nil && r.Fence.Epoch == fence.Epoch {
				*fence = r.Fence
			}
			return nil
		})},
	"publish ignores the epoch": {"F1_PublishNeedsEpochAndToken",
		stepping(func(ctx context.Context, w wrapper, run event.RunID, fence *store.Fence, _ *[]store.Publication) error {
			if r := w.state(ctx, run); r != nil && r.Fence.Token == fence.Token {
				*fence = r.Fence
			}
			return nil
		})},
	"publish to an unknown run is not found": {"F1_PublishNeedsEpochAndToken",
		stepping(func(ctx context.Context, w wrapper, run event.RunID, _ *store.Fence, _ *[]store.Publication) error {
			if w.state(ctx, run) == nil {
				return store.ErrRunNotFound
			}
			return nil
		})},
	"publish writes what it can": {"PublishToAClosedStreamIsRefusedAsAWhole",
		stepping(func(ctx context.Context, w wrapper, run event.RunID, fence *store.Fence, chunks *[]store.Publication) error {
			for _, c := range *chunks {
				if err := w.Store.Publish(ctx, run, *fence, []store.Publication{c}); err != nil {
					return err
				}
			}
			*chunks = nil
			return nil
		})},
	"publish asks for the stream first": {"PublishToAClosedStreamIsRefusedAsAWhole",
		stepping(func(ctx context.Context, w wrapper, run event.RunID, _ *store.Fence, chunks *[]store.Publication) error {
			for _, c := range *chunks {
				if st := w.stream(ctx, run, c.Stream); st.Closed && st.Writers[c.Writer] < c.Nth {
					return store.ErrStreamClosed
				}
			}
			return nil
		})},
	"a writer is not known again": {"AChunkIsPublishedOnceByItsWriter", forgetful},
	"a closed stream refuses what it has": {"AChunkIsPublishedOnceByItsWriter",
		stepping(func(ctx context.Context, w wrapper, run event.RunID, _ *store.Fence, chunks *[]store.Publication) error {
			for _, c := range *chunks {
				if w.stream(ctx, run, c.Stream).Closed {
					return store.ErrStreamClosed
				}
			}
			return nil
		})},
	"a writer is forgotten with its owner": {"AWriterIsKnownToTheNextOwner",
		stepping(func(_ context.Context, _ wrapper, _ event.RunID, fence *store.Fence, chunks *[]store.Publication) error {
			for i := range *chunks {
				(*chunks)[i].Writer += string(rune('0' + fence.Epoch))
			}
			return nil
		})},
	"writers outlive their stream": {"WritersStartAgainInAStreamThatWasDropped", func(w wrapper) store.Store {
		known := map[string]uint64{}
		return stepping(func(_ context.Context, _ wrapper, _ event.RunID, _ *store.Fence, chunks *[]store.Publication) error {
			*chunks = slices.DeleteFunc(*chunks, func(c store.Publication) bool {
				old := known[c.Writer] >= c.Nth
				known[c.Writer] = max(known[c.Writer], c.Nth)
				return old
			})
			return nil
		})(w)
	}},
	"chunks without a writer are known again": {"ChunksWithoutAWriterArePublishedEachTime",
		stepping(func(_ context.Context, _ wrapper, _ event.RunID, _ *store.Fence, chunks *[]store.Publication) error {
			for i := range *chunks {
				(*chunks)[i].Writer, (*chunks)[i].Nth = "nobody", 1
			}
			return nil
		})},
	"a chunk is lost now and then": {"ConcurrentWritersLeaveNoGapAndKeepTheirOrder",
		stepping(func(_ context.Context, _ wrapper, _ event.RunID, _ *store.Fence, chunks *[]store.Publication) error {
			*chunks = slices.DeleteFunc(*chunks, func(c store.Publication) bool { return c.Nth == 13 })
			return nil
		})},
	"writers are looked up before": {"ConcurrentTriesOfOnePublishWriteOnce",
		stepping(func(ctx context.Context, w wrapper, run event.RunID, _ *store.Fence, chunks *[]store.Publication) error {
			*chunks = slices.DeleteFunc(*chunks, func(c store.Publication) bool {
				return w.stream(ctx, run, c.Stream).Writers[c.Writer] >= c.Nth
			})
			for i := range *chunks {
				(*chunks)[i].Writer, (*chunks)[i].Nth = "", 0
			}
			return nil
		})},
	"publish is refused once it has written": {"F1_NothingIsPublishedUnderAFenceThatIsGone",
		stepping(func(ctx context.Context, w wrapper, run event.RunID, fence *store.Fence, chunks *[]store.Publication) error {
			return errors.Join(w.Store.Publish(ctx, run, *fence, *chunks), store.ErrFenced)
		})},
	"the model notices a stream that is not trimmed": {"RandomHistoriesMatchTheModel", each(func(p store.Publication) []store.Publication {
		p.Keep = 0
		return []store.Publication{p}
	})},
	"the model notices a writer that is not known again": {"RandomHistoriesMatchTheModel", forgetful},
}

// forgetful makes stores that do not remember the writers of chunks, and therefore store repeated
// chunks twice.
var forgetful = stepping(func(_ context.Context, _ wrapper, _ event.RunID, _ *store.Fence, chunks *[]store.Publication) error {
	for i := range *chunks {
		(*chunks)[i].Writer, (*chunks)[i].Nth = "", 0
	}
	return nil
})

// firstPublishes is a store that moves the publications of all commits of a call to the first
// commit.
type firstPublishes struct{ wrapper }

func (f firstPublishes) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	commits = slices.Clone(commits)
	for i := 1; i < len(commits); i++ {
		commits[0].Publish = slices.Concat(commits[0].Publish, commits[i].Publish)
		commits[i].Publish = nil
	}
	return f.Store.Commit(ctx, commits)
}
