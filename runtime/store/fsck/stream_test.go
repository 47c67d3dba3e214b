package fsck_test

import "github.com/flowgen/flowgen/runtime/store"

// trimmed returns a function that changes the stream with the chunks 3 and 4.
func trimmed(change func(st *store.StreamState)) func(s *state) {
	return func(s *state) {
		st := s.Streams[s.continued]["trimmed"]
		change(&st)
		s.Streams[s.continued]["trimmed"] = st
	}
}

var streamDamage = map[string]damage{
	"16 a chain without runs has streams": {[]int{16}, func(s *state) { s.Streams["wrun_unknown"] = map[string]store.StreamState{"a": {Closed: true}} }},
	"16 streams of a later run of a chain": {[]int{16}, func(s *state) {
		s.Streams[s.next] = s.Streams[s.continued]
		delete(s.Streams, s.continued)
	}},
	"18 a chunk is missing":        {[]int{18}, trimmed(func(st *store.StreamState) { st.Chunks[1].Index, st.Last = 5, 5 })},
	"18 a chunk is there twice":    {[]int{18}, trimmed(func(st *store.StreamState) { st.Chunks[0].Index = 4 })},
	"18 the last chunk is missing": {[]int{18}, trimmed(func(st *store.StreamState) { st.Last = 5 })},
	"18 the last chunk is unknown": {[]int{18}, trimmed(func(st *store.StreamState) { st.Last = 3 })},
	"18 a chunk 0": {[]int{18}, trimmed(func(st *store.StreamState) {
		st.Chunks[0].Index, st.Chunks[1].Index, st.Last = 0, 1, 1
	})},
}
