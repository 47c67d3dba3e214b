package storetest_test

import (
	"context"
	"errors"
	"maps"
	"runtime"

	"github.com/flowgen/flowgen/runtime/store"
)

// paging returns a constructor of stores with a mistake in ReadStream. ask changes the request, and
// got changes the answer. Either may be nil.
func paging(ask func(r *store.ReadStream), got func(ctx context.Context, w wrapper, r store.ReadStream, page *store.StreamPage, err error) error) func(wrapper) store.Store {
	return func(w wrapper) store.Store {
		return edit{wrapper: w, read: func(ctx context.Context, r store.ReadStream) (store.StreamPage, error) {
			if ask != nil {
				ask(&r)
			}
			page, err := w.Store.ReadStream(ctx, r)
			if got != nil {
				err = got(ctx, w, r, &page, err)
			}
			return page, err
		}}
	}
}

// inspecting is a store whose snapshot differs from its state.
type inspecting struct {
	wrapper
	change func(s *store.Snapshot)
}

func (i inspecting) Inspect(ctx context.Context) (*store.Snapshot, error) {
	s := i.snapshot(ctx)
	i.change(s)
	return s, nil
}

// tearing is a store that reads the inbox of a run before its record, with commits in between.
type tearing struct{ wrapper }

func (t tearing) Load(ctx context.Context, runs []store.Load) ([]store.Loaded, error) {
	first, err := t.Store.Load(ctx, runs)
	if err != nil || len(runs) != 1 || runs[0].Limit >= 0 {
		return first, err
	}
	for range 1000 {
		later, err := t.Store.Load(ctx, runs)
		if err != nil || later[0].Record.N > first[0].Record.N {
			first[0].Record = later[0].Record
			return first, err
		}
		runtime.Gosched()
	}
	return first, nil
}

// readFaults are mistakes in Load, in ReadStream and in the purge of streams.
var readFaults = map[string]fault{
	"load reads the inbox before the record": {"LoadReadsTheRecordAndTheInboxAtTheSameMoment", func(w wrapper) store.Store { return tearing{w} }},
	"a stream without chunks is not found": {"AStreamThatNobodyHasWrittenToIsEmpty",
		paging(nil, func(_ context.Context, _ wrapper, _ store.ReadStream, page *store.StreamPage, err error) error {
			if page.Last == 0 {
				return errors.Join(err, store.ErrRunNotFound)
			}
			return err
		})},
	"a page begins behind the first chunk": {"ReadStreamReturnsThePartThatIsAskedFor", paging(func(r *store.ReadStream) { r.From++ }, nil)},
	"a tail is none":                       {"ReadStreamReturnsThePartThatIsAskedFor", paging(func(r *store.ReadStream) { r.Tail = 0 }, nil)},
	"a tail is cut at its front": {"ReadStreamReturnsThePartThatIsAskedFor", paging(func(r *store.ReadStream) {
		if r.Tail > 0 && r.Limit > 0 {
			r.Tail = min(r.Tail, r.Limit)
		}
	}, nil)},
	"a limit below zero is none": {"ReadStreamReturnsThePartThatIsAskedFor", paging(func(r *store.ReadStream) { r.Limit = max(r.Limit, 0) }, nil)},
	"what is not kept leaves a hole": {"ReadStreamLeavesOutWhatIsNotKept",
		paging(nil, func(_ context.Context, _ wrapper, r store.ReadStream, page *store.StreamPage, err error) error {
			if r.From > 0 && r.From < page.First {
				page.Chunks = nil
			}
			return err
		})},
	"a stream begins with its first chunk for ever": {"ReadStreamLeavesOutWhatIsNotKept",
		paging(nil, func(_ context.Context, _ wrapper, _ store.ReadStream, page *store.StreamPage, err error) error {
			page.First = min(page.First, 1)
			return err
		})},
	"a page has no end": {"APageHas256ChunksUnlessAsked", paging(func(r *store.ReadStream) {
		if r.Limit == 0 {
			r.Limit = 1 << 30
		}
	}, nil)},
	"a stream ends after 5000 chunks": {"TenThousandChunksAreReadPageByPage",
		paging(nil, func(_ context.Context, _ wrapper, r store.ReadStream, page *store.StreamPage, err error) error {
			if r.From > 5000 {
				page.Chunks = nil
			}
			return err
		})},
	"large chunks are cut": {"ChunksMayBeLarge",
		paging(nil, func(_ context.Context, _ wrapper, _ store.ReadStream, page *store.StreamPage, err error) error {
			for i, c := range page.Chunks {
				page.Chunks[i].Body = c.Body[:min(len(c.Body), 1<<20-1)]
			}
			return err
		})},
	"each run of a chain has streams of its own": {"TheRunsOfAChainShareItsStreams",
		paging(nil, func(ctx context.Context, w wrapper, r store.ReadStream, page *store.StreamPage, err error) error {
			if run := w.state(ctx, r.Run); run != nil && run.Chain != run.Run {
				*page = store.StreamPage{}
			}
			return err
		})},
	"streams belong to the last run of a chain": {"StreamsBelongToTheFirstRunOfAChain", func(w wrapper) store.Store {
		return inspecting{w, func(s *store.Snapshot) {
			for chain := range maps.Clone(s.Streams) {
				last := chain
				for s.Runs[last] != nil && s.Runs[last].Next != "" {
					last = s.Runs[last].Next
				}
				streams := s.Streams[chain]
				delete(s.Streams, chain)
				s.Streams[last] = streams
			}
		}}
	}},
	"a chain has ended with its first run": {"AChainHasEndedWithItsLastRun",
		paging(nil, func(ctx context.Context, w wrapper, r store.ReadStream, page *store.StreamPage, err error) error {
			run := w.state(ctx, r.Run)
			page.Ended = run != nil && run.QueueState == store.StateEnded
			return err
		})},
	"runs of a workflow id share their streams": {"RunsOfOneWorkflowIDDoNotShareStreams", func(w wrapper) store.Store {
		return edit{wrapper: w, read: func(ctx context.Context, r store.ReadStream) (store.StreamPage, error) {
			snap := w.snapshot(ctx)
			if run := snap.Runs[r.Run]; run != nil && snap.LastEnded[run.WorkflowID] != "" {
				r.Run = snap.LastEnded[run.WorkflowID]
			}
			return w.Store.ReadStream(ctx, r)
		}}
	}},
	"purge leaves streams": {"P1_PurgeRemovesTheStreamsOfARun", func(w wrapper) store.Store {
		return inspecting{w, func(s *store.Snapshot) {
			if len(s.Runs) == 0 && len(s.Streams) == 0 {
				s.Streams["a run that was purged"] = map[string]store.StreamState{"a": {}}
			}
		}}
	}},
	"streams go with a later run of their chain": {"P1_StreamsAreKeptAsLongAsTheFirstRunOfTheirChain",
		paging(nil, func(ctx context.Context, w wrapper, r store.ReadStream, page *store.StreamPage, err error) error {
			if run := w.state(ctx, r.Run); run != nil && run.Next != "" && w.state(ctx, run.Next) == nil {
				*page = store.StreamPage{}
			}
			return err
		})},
	"delete leaves the streams": {"DeleteHidesTheStreamsOfTheRun",
		paging(nil, func(ctx context.Context, w wrapper, r store.ReadStream, page *store.StreamPage, err error) error {
			if run := w.state(ctx, r.Run); run != nil && run.Hidden {
				return nil
			}
			return err
		})},
	"delete hides the streams of the chain": {"ADeletedRunOfAChainLeavesItsStreamsToTheOthers",
		paging(nil, func(ctx context.Context, w wrapper, r store.ReadStream, _ *store.StreamPage, err error) error {
			if run := w.state(ctx, r.Run); run != nil && w.state(ctx, run.Chain).Hidden {
				return errors.Join(err, store.ErrRunNotFound)
			}
			return err
		})},
	"an unknown run has empty streams": {"ReadStreamOfAnUnknownRunIsNotFound",
		paging(nil, func(_ context.Context, _ wrapper, r store.ReadStream, _ *store.StreamPage, err error) error {
			if r.Limit < 0 {
				return nil
			}
			return err
		})},
	"a stream cannot be followed beyond a chunk": {"AStreamIsFollowedFromItsBeginningToItsEnd", paging(func(r *store.ReadStream) {
		if r.From > 100 {
			r.From++
		}
	}, nil)},
	"a page is read in two steps": {"ReadersSeeAStreamWholeWhileItIsTrimmedAndDropped", func(w wrapper) store.Store {
		return edit{wrapper: w, read: func(ctx context.Context, r store.ReadStream) (store.StreamPage, error) {
			page, err := w.Store.ReadStream(ctx, r)
			if err != nil {
				return page, err
			}
			r.Limit = -1
			later := page
			for n := 0; err == nil && n < 1000 && later.Last == page.Last; n++ {
				later, err = w.Store.ReadStream(ctx, r)
				runtime.Gosched()
			}
			later.Chunks = page.Chunks
			return later, err
		}}
	}},
	"the model notices a tail that is none": {"RandomHistoriesMatchTheModel", paging(func(r *store.ReadStream) { r.Tail = 0 }, nil)},
}
