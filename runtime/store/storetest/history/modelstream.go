package history

import (
	"slices"

	"github.com/flowgen/flowgen/runtime/store"
)

// The streams of the model.

// readStream implements ReadStream for the model.
func (m *model) readStream(q store.ReadStream) (store.StreamPage, error) {
	r := m.find(q.Run)
	if r == nil {
		return store.StreamPage{}, store.ErrRunNotFound
	}
	st := m.streams[r.Chain][q.Stream]
	page := store.StreamPage{Last: st.Last, Closed: st.Closed, Ended: m.chainEnded(r)}
	if len(st.Chunks) > 0 {
		page.First = st.Chunks[0].Index
	}
	chunks := slices.DeleteFunc(slices.Clone(st.Chunks), func(c store.Chunk) bool { return q.Tail <= 0 && c.Index < q.From })
	if q.Tail > 0 {
		chunks = chunks[max(0, len(chunks)-q.Tail):]
	}
	if q.Limit != 0 {
		chunks = chunks[:min(len(chunks), max(0, q.Limit))]
	}
	page.Chunks = chunks
	return page, nil
}

// chainEnded reports whether every run of a chain has ended, so that the streams of the chain are
// complete.
func (m *model) chainEnded(r *modelRun) bool {
	for _, o := range m.runs {
		if o.Chain == r.Chain && o.QueueState != store.StateEnded {
			return false
		}
	}
	return true
}
