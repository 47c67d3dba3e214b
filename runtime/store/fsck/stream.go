package fsck

import (
	"fmt"
	"maps"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// checkStreams checks streams (invariants 16 and 18). A stream belongs to a chain with a run, and
// its chunks are consecutive up to the last one.
func (c *checker) checkStreams() {
	chains := map[event.RunID]bool{}
	for r := range c.runs {
		chains[r.Chain] = true
	}
	for _, chain := range slices.Sorted(maps.Keys(c.Streams)) {
		if !chains[chain] {
			c.find(16, chain, "no run of its chain exists, and it has streams", "they are never cleaned up")
		}
		for _, name := range slices.Sorted(maps.Keys(c.Streams[chain])) {
			if what := broken(c.Streams[chain][name]); what != "" {
				c.find(18, "", fmt.Sprintf("stream %q of the chain of %s: %s", name, chain, what), "readers miss chunks, or wait for some that exist")
			}
		}
	}
}

// broken returns a description of the damage of a stream, or "" if there is none.
func broken(st store.StreamState) string {
	for i, chunk := range st.Chunks {
		switch {
		case i == 0 && chunk.Index == 0:
			return "it has chunk 0, but the first chunk has number 1"
		case i > 0 && chunk.Index != st.Chunks[i-1].Index+1:
			return fmt.Sprintf("after chunk %d comes chunk %d", st.Chunks[i-1].Index, chunk.Index)
		}
	}
	if n := len(st.Chunks); n > 0 && st.Chunks[n-1].Index != st.Last {
		return fmt.Sprintf("its last chunk is %d, but its record has %d", st.Chunks[n-1].Index, st.Last)
	}
	return ""
}
