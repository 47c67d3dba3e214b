// Package sealed implements a store that keeps all user data sealed by a codec. It is the only place
// where user data are converted between the form that programs use and the form that stores keep.
//
// Everything above this store, including replay, sees open data. Everything below it, including the
// checks, repairs and exports of a store, sees sealed data and needs no key. Operations that concern
// no user data pass through. Programs find the optional interfaces of the underlying store with
// [store.As].
//
// The place of data is authenticated, so that data cannot be moved from one run or field to another.
// The owner of the data in a frame is the run. Therefore a rerun, which copies events of another run,
// requires the keys. The owner of the data of an item is the item, because an item moves from the
// outbox of its sender to the inbox of its receiver, and from there to a run that continues the
// receiver. The worker that delivers an outbox record does so without opening it. The owner of a chunk
// of a stream is the chain.
package sealed

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/store"
)

// Store is a store that seals user data before they reach the underlying store.
type Store struct {
	store.Store
	codec  store.Codec
	chains *chains
	// most is the size in bytes above which sealed data are refused.
	most int
}

var (
	_ store.Store         = (*Store)(nil)
	_ store.Seizer        = (*Store)(nil)
	_ store.StepDataStore = (*Store)(nil)
	_ store.Entries       = (*Store)(nil)
)

// New returns a store that seals the user data of s with the codec. It returns an error if s does
// not implement the optional interfaces that contain user data.
func New(s store.Store, codec store.Codec) (*Store, error) {
	if _, ok := store.As[store.Seizer](s); !ok {
		return nil, fmt.Errorf("a codec requires a store that is a store.Seizer, and %T is not", s)
	}
	if _, ok := store.As[store.StepDataStore](s); !ok {
		return nil, fmt.Errorf("a codec requires a store that is a store.StepDataStore, and %T is not", s)
	}
	if _, ok := store.As[store.Entries](s); !ok {
		return nil, fmt.Errorf("a codec requires a store that is a store.Entries, and %T is not", s)
	}
	return &Store{Store: s, codec: codec, chains: &chains{}, most: math.MaxInt}, nil
}

// Bound makes the store refuse data of more than most bytes in their sealed form. It must be called
// before the store is used.
func (s *Store) Bound(most int) { s.most = most }

// Blobs returns the store in which a store keeps large user data, or nil if there is none.
func Blobs(s store.Store) store.BlobStore {
	if inner, ok := store.As[*Store](s); ok {
		if o, ok := inner.codec.(store.Offloader); ok {
			return o.Blobs()
		}
	}
	return nil
}

// MaxOffloaded returns the number of bytes above which the codec refuses user data. It returns 0 if
// the codec has no blobs.
func (s *Store) MaxOffloaded() int {
	if Blobs(s) == nil {
		return 0
	}
	return s.codec.(store.Offloader).MaxSize()
}

// Raw returns the store that keeps the sealed data, without the stores around the one that seals. It
// returns s itself if none seals data.
func Raw(s store.Store) store.Store {
	if inner, ok := store.As[*Store](s); ok {
		return inner.Store
	}
	return s
}

// Keys returns the identification of the keys of a store, or "" if the store seals no data.
func Keys(s store.Store) string {
	if inner, ok := store.As[*Store](s); ok {
		return inner.codec.Keys()
	}
	return ""
}

// Private reports whether the store keeps user data encrypted.
func Private(s store.Store) bool { return Keys(s) != "" }

// Group returns the ID under which the store keeps a failure group.
func Group(ctx context.Context, s store.Store, group string) (string, error) {
	if inner, ok := store.As[*Store](s); ok {
		return inner.groupID(ctx, group)
	}
	return group, nil
}

// Stored implements [store.Stored].
func (s *Store) Stored() (store.Store, store.Codec) { return s.Store, s.codec }

// Unwrap returns the underlying store.
func (s *Store) Unwrap() store.Store { return s.Store }

// Create seals the first frames and items of new runs.
func (s *Store) Create(ctx context.Context, runs []store.Create) ([]store.Created, error) {
	return each(s.late(), runs, func(c *store.Create) error { return s.create(ctx, c, s.blobsOf(c.Run)) },
		func(runs []store.Create) ([]store.Created, error) { return s.Store.Create(ctx, runs) },
		func(err error) store.Created { return store.Created{Err: err} }, nil)
}

func (s *Store) create(ctx context.Context, c *store.Create, at blobs) (err error) {
	if c.Collect != nil {
		at = nil // the start may join a run of another chain
	}
	if c.Frame, err = s.frame(ctx, c.Frame, c.Run, at, true); err != nil {
		return err
	}
	items := make([]store.Item, len(c.Items))
	for i := range c.Items {
		if items[i], err = s.item(ctx, c.Items[i], at, true); err != nil {
			return err
		}
	}
	c.Items = items
	c.Cancel, err = s.item(ctx, c.Cancel, nil, true)
	return err
}

// Commit seals the frame, the outbox records and the chunks of each commit.
func (s *Store) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	return each(s.late(), commits, func(c *store.Commit) error { return s.commit(ctx, c) },
		func(commits []store.Commit) ([]store.Committed, error) { return s.Store.Commit(ctx, commits) },
		func(err error) store.Committed { return store.Committed{Err: err} },
		func(c *store.Commit, a *store.Committed) { s.openCommitted(ctx, c, a) })
}

func (s *Store) commit(ctx context.Context, c *store.Commit) (err error) {
	if c.FailureGroup != nil {
		if c.FailureGroup, err = s.group(ctx, *c.FailureGroup); err != nil {
			return err
		}
	}
	if len(c.Publish) > 0 {
		if c.Publish, err = s.chunks(ctx, c.Run, c.Publish); err != nil {
			return err
		}
	}
	if c.Frame, err = s.frame(ctx, c.Frame, c.Run, s.blobsOf(c.Run), false); err != nil {
		return err
	}
	c.Send = slices.Clone(c.Send)
	for i := range c.Send {
		if c.Send[i], err = s.send(ctx, c.Send[i]); err != nil {
			return err
		}
	}
	if c.Continue != nil {
		next := *c.Continue
		err = s.create(ctx, &next, s.blobsOf(c.Run))
		c.Continue = &next
	}
	return err
}

// openCommitted opens the logs of the runs that a commit has claimed. Outbox records stay sealed.
func (s *Store) openCommitted(ctx context.Context, c *store.Commit, a *store.Committed) {
	a.Bytes = len(c.Frame)
	for i := range a.Next.Runs {
		s.openClaimed(ctx, &a.Next.Runs[i])
	}
}

// Claim opens the logs of the claimed runs.
func (s *Store) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	claimed, err := s.Store.Claim(ctx, c)
	for i := range claimed.Runs {
		s.openClaimed(ctx, &claimed.Runs[i])
	}
	return claimed, err
}

// ClaimRun opens the log of the claimed run.
func (s *Store) ClaimRun(ctx context.Context, partition int, session store.SessionID, token event.Token, run event.RunID) (store.ClaimedRun, error) {
	claimed, err := s.Store.ClaimRun(ctx, partition, session, token, run)
	s.openClaimed(ctx, &claimed)
	return claimed, err
}

// Seize opens the log of the run.
func (s *Store) Seize(ctx context.Context, partition int, session store.SessionID, token event.Token, run event.RunID, owned bool) (store.ClaimedRun, error) {
	seizer, _ := store.As[store.Seizer](s.Store)
	claimed, err := seizer.Seize(ctx, partition, session, token, run, owned)
	s.openClaimed(ctx, &claimed)
	return claimed, err
}

func (s *Store) openClaimed(ctx context.Context, c *store.ClaimedRun) {
	if c.Loaded != nil {
		s.openLoaded(ctx, c.Run, c.Loaded)
	}
}

// Load opens the logs and inboxes of the runs.
func (s *Store) Load(ctx context.Context, runs []store.Load) ([]store.Loaded, error) {
	loaded, err := s.Store.Load(ctx, runs)
	for i := range loaded {
		if loaded[i].Err == nil {
			s.chains.put(runs[i].Run, loaded[i].Record.Chain)
			if n := s.portion(loaded[i].Frames, runs[i].Portion); n < len(loaded[i].Frames) {
				loaded[i].Next, loaded[i].Frames, loaded[i].Inbox = loaded[i].Frames[n], loaded[i].Frames[:n], nil
			}
			s.openLoaded(ctx, runs[i].Run, &loaded[i])
		}
	}
	return loaded, err
}

// openLoaded opens the data of a run. Data that cannot be opened, for example because their key is
// missing, stay sealed, and Sealed is the reason. If it is unknown whether they can be opened, the
// whole answer is an error.
func (s *Store) openLoaded(ctx context.Context, run event.RunID, l *store.Loaded) {
	l.Frames, l.Inbox = slices.Clone(l.Frames), slices.Clone(l.Inbox) // the store may keep the slices
	l.Sizes = make([]int, len(l.Frames))
	errs := make([]error, len(l.Frames))
	s.concurrently(len(l.Frames), func(i int) {
		l.Sizes[i] = len(l.Frames[i])
		var opened []byte
		if opened, errs[i] = s.openFrame(ctx, l.Frames[i], run); errs[i] == nil {
			l.Frames[i] = opened
		}
	})
	for i, err := range errs {
		if err != nil {
			s.leave(l, fmt.Errorf("frame %d of run %s: %w", i+1, run, err))
		}
	}
	for i := range l.Inbox {
		body, err := s.openItem(ctx, l.Inbox[i], run)
		if err != nil {
			s.leave(l, fmt.Errorf("item %s for run %s: %w", l.Inbox[i].ID, run, err))
			continue
		}
		l.Inbox[i].Body = body
	}
}

// fetches bounds how many blobs are read at once while a log is opened. They are in memory at the
// same time, in addition to their data.
const fetches = 8

// concurrently calls f for 0 to n-1. If data may be in blobs, it executes up to fetches calls at once,
// because a blob store may take long to answer.
func (s *Store) concurrently(n int, f func(i int)) {
	var next atomic.Int64
	work := func() {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			f(i)
		}
	}
	if n < 2 || Blobs(s) == nil {
		work()
		return
	}
	var workers sync.WaitGroup
	for range min(n, fetches) {
		workers.Go(work)
	}
	workers.Wait()
}

// leave records that data stay sealed because of err.
func (s *Store) leave(l *store.Loaded, err error) {
	if store.Unknown(err) {
		l.Err = err
	}
	l.Sealed = cmp.Or(l.Sealed, err)
}

// Deliver seals the item.
func (s *Store) Deliver(ctx context.Context, d store.Deliver) (_ event.RunID, err error) {
	if d.Item, err = s.item(ctx, d.Item, s.blobsOf(d.Run), true); err != nil {
		return "", err
	}
	return s.Store.Deliver(ctx, d)
}

// Mark seals the items of the marks.
func (s *Store) Mark(ctx context.Context, partition int, marks []store.Mark) error {
	marks = slices.Clone(marks)
	for i := range marks {
		if marks[i].Refusal != nil {
			refusal, err := s.item(ctx, *marks[i].Refusal, s.blobsOf(marks[i].From), true)
			if err != nil {
				return err
			}
			marks[i].Refusal = &refusal
		}
	}
	return s.Store.Mark(ctx, partition, marks)
}

// Publish seals the chunks.
func (s *Store) Publish(ctx context.Context, run event.RunID, fence store.Fence, chunks []store.Publication) error {
	chunks, err := s.chunks(ctx, run, chunks)
	if err != nil {
		return err
	}
	return s.Store.Publish(ctx, run, fence, chunks)
}

// ReadStream opens the chunks.
func (s *Store) ReadStream(ctx context.Context, r store.ReadStream) (store.StreamPage, error) {
	page, err := s.Store.ReadStream(ctx, r)
	if err != nil || len(page.Chunks) == 0 {
		return page, err
	}
	chain, err := s.chain(ctx, r.Run)
	if err != nil {
		return store.StreamPage{}, err
	}
	for i := range page.Chunks {
		if page.Chunks[i].Body, err = s.codec.Open(ctx, s.chunk(r.Run, chain, r.Stream), page.Chunks[i].Body); err != nil {
			return store.StreamPage{}, fmt.Errorf("stream %q of run %s: %w", r.Stream, r.Run, err)
		}
	}
	return page, nil
}

// appender is a codec that can append a stored form to a buffer. It saves a copy of the form.
type appender interface {
	AppendSeal(ctx context.Context, b []byte, at store.Place, data []byte) ([]byte, error)
}

// seal appends the stored form of data to b. It refuses data that must be kept in the store and are
// too large for it: data without a prefix for blobs, or of a codec that offloads only data that are
// larger.
func (s *Store) seal(ctx context.Context, b []byte, at store.Place, data []byte) (all []byte, err error) {
	if a, ok := s.codec.(appender); ok {
		all, err = a.AppendSeal(ctx, b, at, data)
	} else {
		var sealed []byte
		sealed, err = s.codec.Seal(ctx, at, data)
		all = append(b, sealed...)
	}
	if size := len(all) - len(b); err == nil && size > s.most {
		return nil, &tooLargeError{flow.PayloadError{What: fmt.Sprintf("%s of %s in its stored form", at.Field, at.Owner), Size: size, Limit: s.most}}
	}
	return all, err
}

// tooLargeError is a PayloadError that blocks the run which contains the data.
type tooLargeError struct{ flow.PayloadError }

// Unwrap returns the PayloadError.
func (e *tooLargeError) Unwrap() error { return &e.PayloadError }

// Permanent returns true.
func (e *tooLargeError) Permanent() bool { return true }

func stepData(run event.RunID, key string) store.Place {
	return store.Place{Owner: string(run), Field: "step/" + key}
}

// SetStepData seals the body.
func (s *Store) SetStepData(ctx context.Context, run event.RunID, fence store.Fence, key string, body []byte, progress bool) (err error) {
	keeper, _ := store.As[store.StepDataStore](s.Store)
	if len(body) > 0 && key != flow.BlockedKey { // the reason why a run is blocked may be a missing key
		if body, err = s.seal(ctx, nil, stepData(run, key), body); err != nil {
			return err
		}
	}
	return keeper.SetStepData(ctx, run, fence, key, body, progress)
}

// StepData opens the data of the steps of a run.
func (s *Store) StepData(ctx context.Context, run event.RunID) (map[string][]byte, error) {
	keeper, _ := store.As[store.StepDataStore](s.Store)
	data, err := keeper.StepData(ctx, run)
	if err != nil {
		return nil, err
	}
	for key, body := range data {
		if data[key], err = s.codec.Open(ctx, stepData(run, key), body); err != nil {
			return nil, fmt.Errorf("data of step %s of run %s: %w", key, run, err)
		}
	}
	return data, nil
}

// reason is the name of the field with the reason in the value of a journal entry. The other fields
// contain names and are not sealed, so that a journal can be read without a key.
const reason = "w"

// WriteEntry seals the reason in an entry of the journal. Entries of other spaces contain no user
// data.
func (s *Store) WriteEntry(ctx context.Context, w store.EntryWrite) error {
	entries, _ := store.As[store.Entries](s.Store)
	if w.Space == store.JournalSpace {
		value, err := convertReason(w.Value, func(text string) (string, error) { return s.sealReason(ctx, w.Key, text) })
		if err != nil {
			return fmt.Errorf("seal the reason of a journal entry: %w", err)
		}
		w.Value = value
	}
	return entries.WriteEntry(ctx, w)
}

// Entries opens the reasons in entries of the journal. A reason that cannot be opened stays sealed.
func (s *Store) Entries(ctx context.Context, q store.EntryQuery) ([]store.Entry, error) {
	entries, _ := store.As[store.Entries](s.Store)
	found, err := entries.Entries(ctx, q)
	if err != nil || q.Space != store.JournalSpace {
		return found, err
	}
	found = slices.Clone(found)
	for i := range found {
		value, err := convertReason(found[i].Value, func(text string) (string, error) { return s.openReason(ctx, found[i].Key, text) })
		if err == nil {
			found[i].Value = value
		}
	}
	return found, nil
}

func (s *Store) sealReason(ctx context.Context, key, text string) (string, error) {
	sealed, err := s.codec.Seal(ctx, store.ReasonPlace(key), []byte(text))
	return event.ShownText(string(sealed)), err
}

func (s *Store) openReason(ctx context.Context, key, text string) (string, error) {
	sealed, is := event.SealedText(text)
	if !is {
		return text, nil
	}
	opened, err := s.codec.Open(ctx, store.ReasonPlace(key), sealed)
	return string(opened), err
}

// convertReason returns the value of a journal entry with another reason. It returns a value without
// a reason, or with the same one, unchanged.
func convertReason(value []byte, convert func(string) (string, error)) ([]byte, error) {
	var fields map[string]json.RawMessage
	var text string
	if json.Unmarshal(value, &fields) != nil || json.Unmarshal(fields[reason], &text) != nil || text == "" {
		return value, nil
	}
	converted, err := convert(text)
	if err != nil || converted == text {
		return value, err
	}
	if fields[reason], err = json.Marshal(converted); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}
