package sealed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/store"
)

// each seals requests and sends those that could be sealed. The answers are in the order of the
// requests. A request that could not be sealed is answered by failed. If the call was late, each seals
// the requests again, which stores their blobs again.
func each[Q, A any](late func() bool, requests []Q, seal func(*Q) error, send func([]Q) ([]A, error), failed func(error) A, open func(*Q, *A)) ([]A, error) {
	sealed := make([]Q, 0, len(requests))
	errs := make([]error, len(requests))
	var last error
	for i := range requests {
		q := requests[i]
		if errs[i] = seal(&q); errs[i] != nil {
			last = errs[i]
			continue
		}
		sealed = append(sealed, q)
	}
	if len(sealed) == 0 && last != nil && store.Unknown(last) {
		return nil, last // nothing was answered: see the documentation of store.Store
	}
	var answers []A
	if len(sealed) > 0 {
		var err error
		if answers, err = send(sealed); err != nil {
			return answers, err
		}
	}
	if late() {
		for i := range requests {
			q := requests[i]
			if err := seal(&q); errs[i] == nil && err != nil {
				return nil, err // the caller repeats the call
			}
		}
	}
	if open != nil {
		for i := range answers {
			open(&sealed[i], &answers[i])
		}
	}
	if last == nil {
		return answers, nil
	}
	all := make([]A, len(requests))
	for i, n := 0, 0; i < len(requests); i++ {
		if errs[i] != nil {
			all[i] = failed(errs[i])
			continue
		}
		all[i] = answers[n]
		n++
	}
	return all, nil
}

// late returns a function that reports whether the call that begins now has taken longer than
// lateAfter.
func (s *Store) late() func() bool {
	if Blobs(s) == nil {
		return func() bool { return false }
	}
	begun := s.Clock().Now()
	return func() bool { return s.Clock().Now().Sub(begun) > lateAfter }
}

// portion returns the number of frames to open at once, so that their data from the blob store have at
// most size bytes. The first frame is always opened, and so are frames that cannot be separated from it.
func (s *Store) portion(frames [][]byte, size int) int {
	if size == 0 || len(frames) < 2 || Blobs(s) == nil {
		return len(frames)
	}
	var sum int64
	for i, b := range frames {
		of := offloaded(b)
		if i > 0 && sum+of > int64(size) {
			if f, err := event.DecodeFrame(b); err == nil && f.Events[0].Type.External() {
				return i
			}
		}
		sum += of
	}
	return len(frames)
}

// offloaded returns the size of the data of a frame that are in the blob store.
func offloaded(frame []byte) (size int64) {
	_, _ = event.ConvertFrame(frame, func(b []byte, _ event.Part, content []byte) ([]byte, error) {
		if event.IsSealed(content) {
			if of, err := event.ReadSealed(content); err == nil && of.Blob != "" {
				size += of.Size
			}
		}
		return append(b, content...), nil
	}) // opening the frame reports an error
	return size
}

// chains remembers the chains of the runs that were read last.
type chains struct {
	mu          sync.Mutex
	young, aged map[event.RunID]event.RunID
}

// mostChains bounds each of the maps of chains, in runs.
const mostChains = 1 << 15

func (c *chains) get(run event.RunID) (event.RunID, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if chain, ok := c.young[run]; ok {
		return chain, true
	}
	chain, ok := c.aged[run]
	return chain, ok
}

func (c *chains) put(run, chain event.RunID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.young == nil || len(c.young) == mostChains {
		c.young, c.aged = map[event.RunID]event.RunID{}, c.young
	}
	c.young[run] = chain
}

// chain returns the chain of a run. A run that does not exist has a chain of its own.
func (s *Store) chain(ctx context.Context, run event.RunID) (event.RunID, error) {
	if chain, ok := s.chains.get(run); ok {
		return chain, nil
	}
	loaded, err := s.Store.Load(ctx, []store.Load{{Run: run, Limit: -1}})
	if err == nil {
		err = loaded[0].Err
	}
	if errors.Is(err, store.ErrRunNotFound) {
		return run, nil
	}
	if err != nil {
		return "", fmt.Errorf("read the chain of run %s: %w", run, err)
	}
	s.chains.put(run, loaded[0].Record.Chain)
	return loaded[0].Record.Chain, nil
}

// blobs is the type of store.Place.Blobs.
type blobs = func(ctx context.Context) (string, error)

// blobsOf returns the place of the large data of a run.
func (s *Store) blobsOf(run event.RunID) blobs {
	return func(ctx context.Context) (string, error) {
		chain, err := s.chain(ctx, run)
		return string(chain), err
	}
}

// sealer returns a function that seals the user data of an owner. Data that are sealed already, for
// example because they come from an outbox record, stay as they are if passes is set.
func (s *Store) sealer(ctx context.Context, owner string, at blobs, passes bool) event.ConvertFunc {
	return func(b []byte, p event.Part, content []byte) ([]byte, error) {
		if passes && event.IsSealed(content) {
			return append(b, content...), nil
		}
		return s.seal(ctx, b, store.Place{Owner: owner, Field: p.String(), Blobs: at}, content)
	}
}

// lengths is the number of bytes that the lengths before opened data may need in addition. Without
// them large data would be copied to make room.
const lengths = 64

// opener returns a function that opens the user data of an owner.
func (s *Store) opener(ctx context.Context, owner string, at blobs) event.ConvertFunc {
	return func(b []byte, p event.Part, content []byte) ([]byte, error) {
		if !event.IsSealed(content) {
			return append(b, content...), nil
		}
		opened, err := s.codec.Open(ctx, store.Place{Owner: owner, Field: p.String(), Blobs: at}, content)
		return append(slices.Grow(b, len(opened)+lengths), opened...), err
	}
}

// frame seals a frame. passes permits data that are sealed already.
func (s *Store) frame(ctx context.Context, frame []byte, run event.RunID, at blobs, passes bool) ([]byte, error) {
	if len(frame) == 0 {
		return frame, nil
	}
	sealed, err := event.ConvertFrame(frame, s.sealer(ctx, string(run), at, passes))
	if err != nil {
		return nil, fmt.Errorf("seal a frame of run %s: %w", run, err)
	}
	return sealed, nil
}

func (s *Store) openFrame(ctx context.Context, frame []byte, run event.RunID) ([]byte, error) {
	opened, err := event.ConvertFrame(frame, s.opener(ctx, string(run), s.blobsOf(run)))
	if undecodable(err) {
		return frame, nil // the caller decodes the frame and reports the defect
	}
	return opened, err
}

// item seals an item.
func (s *Store) item(ctx context.Context, i store.Item, at blobs, passes bool) (store.Item, error) {
	if len(i.Body) == 0 {
		return i, nil
	}
	body, err := event.ConvertItem(i.Body, s.sealer(ctx, string(i.ID), at, passes))
	if err != nil {
		return i, fmt.Errorf("seal item %s: %w", i.ID, err)
	}
	i.Body = body
	return i, nil
}

func (s *Store) openItem(ctx context.Context, i store.Item, run event.RunID) ([]byte, error) {
	body, err := event.ConvertItem(i.Body, s.opener(ctx, string(i.ID), s.blobsOf(run)))
	if undecodable(err) {
		return i.Body, nil // as in openFrame
	}
	return body, err
}

// undecodable reports whether err is an error of the encoding of a frame or item, and not of the
// codec.
func undecodable(err error) bool {
	return err != nil && (errors.Is(err, event.ErrCorrupt) || errors.As(err, new(*event.VersionError)))
}

// send seals the data in an outbox record. Their owners are the run that the record creates, or the
// item that it delivers.
func (s *Store) send(ctx context.Context, m store.Send) (store.Send, error) {
	message, err := effects.DecodeOutboxMessage(m.Body)
	if err != nil {
		return m, err
	}
	switch {
	case message.Start != nil:
		message.Start.Frame, err = s.frame(ctx, message.Start.Frame, m.To, s.blobsOf(m.To), false)
	case message.Item != nil:
		var item store.Item
		item, err = s.item(ctx, store.Item{ID: m.ID, Body: message.Item.Body}, s.blobsOf(m.To), false)
		message.Item.Body = item.Body
	default:
		return m, nil
	}
	if err != nil {
		return m, err
	}
	m.Body, err = message.Encode()
	return m, err
}

// chunk returns the place of the chunks of a stream.
func (s *Store) chunk(run event.RunID, chain event.RunID, stream string) store.Place {
	at := store.ChunkPlace(chain, stream)
	at.Blobs = s.blobsOf(run)
	return at
}

// chunks seals the chunks of streams.
func (s *Store) chunks(ctx context.Context, run event.RunID, all []store.Publication) ([]store.Publication, error) {
	chain, err := s.chain(ctx, run)
	if err != nil {
		return nil, err
	}
	all = slices.Clone(all)
	for i := range all {
		if c := &all[i]; len(c.Body) > 0 {
			if c.Body, err = s.seal(ctx, nil, s.chunk(run, chain, c.Stream), c.Body); err != nil {
				return nil, fmt.Errorf("seal a chunk of stream %q of run %s: %w", c.Stream, run, err)
			}
		}
	}
	return all, nil
}

// group returns the failure group of a commit with the ID that the store keeps. The worker has
// described it without user data.
func (s *Store) group(ctx context.Context, g store.FailureGroup) (*store.FailureGroup, error) {
	if g.Group == "" || g.Kind == "" { // removed, or unchanged
		return &g, nil
	}
	var err error
	g.Group, err = s.groupID(ctx, g.Group)
	return &g, err
}

// groupID returns an ID that does not permit a guess of the text of the failure.
func (s *Store) groupID(ctx context.Context, group string) (string, error) {
	sealed, err := s.codec.Seal(ctx, store.Place{Owner: "failure group", Field: group}, []byte(group))
	if err != nil || !event.IsSealed(sealed) { // or the codec does not encrypt
		return group, err
	}
	sum := sha256.Sum256(sealed) // equal data at equal places have equal stored forms
	return group[:strings.IndexByte(group, '-')+1] + hex.EncodeToString(sum[:6]), nil
}
