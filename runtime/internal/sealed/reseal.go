package sealed

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Use is the number of user data with one key.
type Use struct {
	Data  int   // number of fields and chunks
	Bytes int64 // their size in the store
}

// Count adds the user data of a run in its stored form to uses, by the ID of the key. The ID of data
// that are not encrypted is empty.
func Count(uses map[string]Use, l *store.Loaded) error {
	count := func(b []byte, _ event.Part, content []byte) ([]byte, error) {
		key := ""
		if event.IsSealed(content) {
			s, err := event.ReadSealed(content)
			if err != nil {
				return nil, err
			}
			key = s.Key
		}
		u := uses[key]
		uses[key] = Use{u.Data + 1, u.Bytes + int64(len(content))}
		return append(b, content...), nil
	}
	for _, frame := range l.Frames {
		if _, err := event.ConvertFrame(frame, count); err != nil {
			return err
		}
	}
	for _, item := range l.Inbox {
		if _, err := event.ConvertItem(item.Body, count); err != nil {
			return err
		}
	}
	return nil
}

// Reseal seals the user data of a run that has ended with the active key of the codec, and reports
// whether they had another key or none. With the first run of a chain it seals the streams of the
// chain, unless a run of the chain is open. The log and the streams are replaced in one action.
func (s *Store) Reseal(ctx context.Context, run event.RunID) (changed bool, err error) {
	importer, ok := store.As[store.Importer](s.Store)
	if !ok {
		return false, fmt.Errorf("seal run %s again: %w", run, errors.ErrUnsupported)
	}
	loaded, err := s.Store.Load(ctx, []store.Load{{Run: run}})
	if err == nil {
		err = loaded[0].Err
	}
	if err != nil {
		return false, err
	}
	l := &loaded[0]
	if l.Record.QueueState != store.StateEnded {
		return false, &store.ImportError{Run: run, Why: store.ImportOpen}
	}
	m := store.Import{Record: l.Record, Frames: slices.Clone(l.Frames), Replace: true}
	m.Record.Group = "" // the import checks the group against its text, and a replacement does not change it
	again := s.again(ctx, string(run), s.blobsOf(run))
	for i, frame := range m.Frames {
		if m.Frames[i], err = event.ConvertFrame(frame, again); err != nil {
			return false, fmt.Errorf("frame %d of run %s: %w", i+1, run, err)
		}
		changed = changed || &m.Frames[i][0] != &frame[0]
	}
	streams := false
	if m.Record.Chain == run {
		if streams, err = s.resealStreams(ctx, &m); err != nil {
			return false, err
		}
	}
	if !changed && !streams {
		return false, nil
	}
	_, err = importer.Import(ctx, m)
	if refused, ok := errors.AsType[*store.ImportError](err); ok && refused.Why == store.ImportGoesOn && streams {
		if m.Streams = nil; !changed { // a run of the chain is open, and may write to the streams
			return false, nil
		}
		_, err = importer.Import(ctx, m)
	}
	return err == nil, err
}

// again returns a function that seals user data with the active key. Data that have this key keep
// their form, because equal data at equal places have equal forms.
func (s *Store) again(ctx context.Context, owner string, at blobs) event.ConvertFunc {
	open, seal := s.opener(ctx, owner, at), s.sealer(ctx, owner, at, false)
	return func(b []byte, p event.Part, content []byte) ([]byte, error) {
		plain, err := open(nil, p, content)
		if err != nil {
			return nil, err
		}
		return seal(b, p, plain)
	}
}

// resealStreams adds the streams of the chain of a run to m, sealed with the active key.
func (s *Store) resealStreams(ctx context.Context, m *store.Import) (changed bool, err error) {
	lister, ok := store.As[store.StreamLister](s.Store)
	if !ok {
		return false, nil
	}
	run := m.Record.Run
	names, err := lister.StreamNames(ctx, run)
	for i := 0; err == nil && i < len(names); i++ {
		var st store.ImportedStream
		if st, err = s.resealStream(ctx, run, names[i], &changed); err == nil {
			m.Streams = append(m.Streams, st)
		}
	}
	if err != nil {
		return false, fmt.Errorf("streams of run %s: %w", run, err)
	}
	if !changed {
		m.Streams = nil
	}
	return changed, nil
}

func (s *Store) resealStream(ctx context.Context, run event.RunID, name string, changed *bool) (store.ImportedStream, error) {
	st := store.ImportedStream{Name: name}
	at := s.chunk(run, run, name)
	for from := uint64(1); ; {
		page, err := s.Store.ReadStream(ctx, store.ReadStream{Run: run, Stream: name, From: from})
		if err != nil {
			return st, err
		}
		st.Last, st.Closed = page.Last, page.Closed
		for _, c := range page.Chunks {
			body, err := s.codec.Open(ctx, at, c.Body)
			if err == nil && len(body) > 0 {
				body, err = s.codec.Seal(ctx, at, body)
			}
			if err != nil {
				return st, fmt.Errorf("chunk %d of stream %q: %w", c.Index, name, err)
			}
			*changed = *changed || string(body) != string(c.Body)
			st.Chunks = append(st.Chunks, body)
			from = c.Index + 1
		}
		if len(page.Chunks) == 0 || from > page.Last {
			return st, nil
		}
	}
}
