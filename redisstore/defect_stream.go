package redisstore

import (
	"fmt"
	"strings"

	"github.com/flowgen/flowgen/runtime/store"
)

// scanStreams shows streams whose chunks are those that they should have, and that
// there are others of chains that do not exist.
func (e *partitionState) scanStreams() {
	for _, stream := range e.keys.streams {
		chain, name, _ := strings.Cut(stream, ":")
		if e.unread[chain] || e.streams[chain] == nil {
			continue
		}
		packed := e.streams[chain].Val()[name]
		state, err := unpackStream(packed)
		switch {
		case !e.hasRuns(chain):
			e.showStream(e.snap, chain, name, store.StreamState{Last: state.last})
		case err == nil && packed != "" && packed == e.counted(stream, state):
			chunks, _ := chunksIn(e.chunks[stream].Val()) // or it would not be counted so
			e.showStream(e.snap, chain, name, store.StreamState{Chunks: chunks, Last: state.last, Closed: state.closed})
		}
	}
}

// hasRuns reports whether there is a run of a chain.
func (e *partitionState) hasRuns(chain string) bool {
	if e.snap.Runs[long(chain)] != nil {
		return true
	}
	for _, r := range e.snap.Runs {
		if short(r.Chain) == chain {
			return true
		}
	}
	return false
}

// counted returns the state of a stream that follows from its chunks: those after the last
// gap. Without any the next chunk is the one after the last that was counted. Empty: there
// is no such stream.
func (e *partitionState) counted(stream string, seen streamState) string {
	chunks, _ := chunksIn(e.chunks[stream].Val())
	if len(chunks) == 0 {
		seen.first = seen.last + 1
		if seen == (streamState{first: 1}) {
			return ""
		}
		return seen.pack()
	}
	for i, c := range chunks {
		if i == 0 || c.Index != seen.last+1 {
			seen.first = c.Index
		}
		seen.last, seen.longest = c.Index, max(seen.longest, uint64(len(c.Body)))
	}
	return seen.pack()
}

// lookAtStreams compares how streams stand with their chunks.
func (e *partitionState) lookAtStreams() {
	for _, stream := range e.keys.streams {
		chain, name, _ := strings.Cut(stream, ":")
		if e.unread[chain] || !e.hasRuns(chain) {
			continue
		}
		if _, shown := e.snap.Streams[long(chain)][name]; shown {
			continue
		}
		packed := e.streams[chain].Val()[name]
		state, _ := unpackStream(packed) // what cannot be read is written again
		want := e.counted(stream, state)
		what := fmt.Sprintf("stream %q of the chain of %s", name, long(chain))
		if want == "" && packed == "" {
			e.repairable(store.Defect{Invariant: 16, What: what + " has writers, and nobody has written to it", Explain: "they are never cleaned up"},
				"remove them", swap{key: e.p.writers(chain, name), kind: wholeKey})
			continue
		}
		// The stored state is replaced last: if that fails, the damage is still found.
		var swaps []swap
		chunks := e.chunks[stream].Val()
		if now, _ := unpackStream(want); len(chunks) > 0 && chunks[0].ID != chunkID(now.first) {
			swaps = append(swaps, swap{key: e.p.chunks(chain, name), kind: inStream, seen: chunks[0].ID, value: chunkID(now.first)})
		}
		swaps = append(swaps, swap{key: e.p.streams(chain), kind: inHash, field: name, seen: packed, value: want})
		e.repairable(store.Defect{Invariant: 18, What: fmt.Sprintf("%s is kept as %q, and is %q", what, packed, want),
			Explain: "readers miss chunks, or wait for some that exist"}, "keep the chunks after the last gap, and count them", swaps...)
	}
}

// keysOfStreams is all keys that a chain has of streams.
func (e *partitionState) keysOfStreams(chain string) []string {
	keys := []string{e.p.streams(chain)}
	for _, stream := range e.keys.streams {
		if of, name, _ := strings.Cut(stream, ":"); of == chain {
			keys = append(keys, e.p.chunks(chain, name), e.p.writers(chain, name))
		}
	}
	return keys
}
