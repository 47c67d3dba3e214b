package redisstore

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/store"
)

// readStreams reads how the streams of all chains stand, and those that are known.
func (v *view) readStreams(ctx context.Context, tx redis.Pipeliner) {
	v.streams, v.writers = map[string]*redis.MapStringStringCmd{}, map[string]*redis.MapStringStringCmd{}
	v.chunks = map[string]*redis.XMessageSliceCmd{}
	for _, run := range v.keys.runs {
		v.streams[run] = tx.HGetAll(ctx, v.p.streams(run))
	}
	for _, stream := range v.keys.streams {
		chain, name, _ := strings.Cut(stream, ":")
		v.chunks[stream] = tx.XRange(ctx, v.p.chunks(chain, name), "-", "+")
		v.writers[stream] = tx.HGetAll(ctx, v.p.writers(chain, name))
	}
}

// showStreams adds the streams of all chains to a snapshot.
func (v *view) showStreams(snap *store.Snapshot) error {
	for chain, states := range v.streams {
		for name, packed := range states.Val() {
			state, err := unpackStream(packed)
			if err != nil {
				return err
			}
			chunks, err := chunksIn(v.chunks[chain+":"+name].Val())
			if err != nil {
				return err
			}
			v.showStream(snap, chain, name, store.StreamState{Chunks: chunks, Last: state.last, Closed: state.closed})
		}
	}
	return nil
}

func (v *view) showStream(snap *store.Snapshot, chain, name string, state store.StreamState) {
	for writer, nth := range v.writers[chain+":"+name].Val() {
		if state.Writers == nil {
			state.Writers = map[string]uint64{}
		}
		state.Writers[writer] = uint64(parseNumber(nth))
	}
	of := long(chain)
	if snap.Streams[of] == nil {
		snap.Streams[of] = map[string]store.StreamState{}
	}
	snap.Streams[of][name] = state
}
