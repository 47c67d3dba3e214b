package replay

import (
	"hash/fnv"
	"math/rand/v2"
)

// Rand returns the random numbers of the branch. They are seeded from the run
// and the branch, and are the same in every replay.
func (b *Branch) Rand() *rand.Rand {
	b.enter()
	if b.rng == nil {
		h := fnv.New128a()
		_, _ = h.Write([]byte(b.run.id))
		_, _ = h.Write([]byte{0})
		_, _ = h.Write([]byte(b.path))
		var seed [32]byte
		copy(seed[:], h.Sum(nil))
		_, _ = h.Write([]byte("2"))
		copy(seed[16:], h.Sum(nil))
		b.rng = rand.New(&randSource{b.run, rand.NewChaCha8(seed)})
	}
	return b.rng
}

// randSource refuses to be used by the function of a Record, which no replay
// calls: the numbers after it would be others.
type randSource struct {
	run    *Run
	chacha *rand.ChaCha8
}

func (s *randSource) Uint64() uint64 {
	if s.run.pure != "" {
		panic(&MisuseError{"workflow: workflow.Rand was used inside of workflow.Record (" + s.run.pure + "): " +
			"use math/rand there, its numbers are recorded"})
	}
	return s.chacha.Uint64()
}
