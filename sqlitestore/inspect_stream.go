package sqlitestore

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

func (c *conn) inspectStreams(snap *store.Snapshot) error {
	return c.showStreams(snap, func(*stream, *store.StreamState) bool { return true })
}

// scanStreams shows streams whose chunks are those that they should have. The
// others are reported as damage.
func (c *conn) scanStreams(snap *store.Snapshot) error {
	return c.showStreams(snap, func(st *stream, state *store.StreamState) bool {
		for i, chunk := range state.Chunks {
			if chunk.Index != st.first+uint64(i) {
				return false
			}
		}
		return uint64(len(state.Chunks)) == st.last+1-st.first
	})
}

// showStreams adds the streams that shown selects to a snapshot.
func (c *conn) showStreams(snap *store.Snapshot, shown func(*stream, *store.StreamState) bool) error {
	type named struct {
		stream
		chain event.RunID
		name  string
	}
	var all []named
	err := c.query(`SELECT id, first, last, closed, chain, name FROM streams`, func(r row) error {
		all = append(all, named{*scanStream(r, 0), unpackRun(r, 4), string(blob(r, 5))})
		return nil
	})
	if err != nil {
		return err
	}
	for _, st := range all {
		state, err := c.streamState(&st.stream)
		if err != nil {
			return err
		}
		if !shown(&st.stream, &state) {
			continue
		}
		if snap.Streams[st.chain] == nil {
			snap.Streams[st.chain] = map[string]store.StreamState{}
		}
		snap.Streams[st.chain][st.name] = state
	}
	return nil
}

// streamState reads all chunks of a stream, and its writers.
func (c *conn) streamState(st *stream) (store.StreamState, error) {
	state := store.StreamState{Last: st.last, Closed: st.closed}
	err := c.query(`SELECT n, data FROM chunks WHERE stream = +? ORDER BY n`, func(r row) error {
		state.Chunks = append(state.Chunks, store.Chunk{Index: uint64(r.ColumnInt64(0)), Body: blob(r, 1)})
		return nil
	}, st.id)
	if err != nil {
		return state, err
	}
	err = c.query(`SELECT writer, nth FROM writers WHERE stream = +?`, func(r row) error {
		if state.Writers == nil {
			state.Writers = map[string]uint64{}
		}
		state.Writers[string(blob(r, 0))] = uint64(r.ColumnInt64(1))
		return nil
	}, st.id)
	return state, err
}
