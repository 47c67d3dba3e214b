package replay

import (
	"cmp"
	"hash/fnv"
	"math/rand/v2"

	"github.com/flowgen/flowgen/runtime/event"
)

// Rand returns the random numbers of the branch. They are seeded from the run
// and the branch, and are the same in every replay.
func (b *Branch) Rand() *rand.Rand {
	b.enter()
	if b.rng == nil {
		b.chacha = rand.NewChaCha8(b.seed())
		b.rng = rand.New(&randSource{b.run, b.chacha})
	}
	return b.rng
}

// seed is that of the run whose log this one has taken over, until the kept part is
// over: the code must do there what it has done, and something of its own after it.
func (b *Branch) seed() (seed [32]byte) {
	id := b.run.seed
	if id == "" {
		id = cmp.Or(b.run.fold.Spec.Seed, b.run.id)
	}
	h := fnv.New128a()
	_, _ = h.Write([]byte(id))
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(b.path))
	copy(seed[:], h.Sum(nil))
	_, _ = h.Write([]byte("2"))
	copy(seed[16:], h.Sum(nil))
	return seed
}

// reseed says that from here on the log is that of another run, with random numbers
// of its own.
func (r *Run) reseed(id event.RunID) {
	r.seed = id
	for n := r.branches.first; n != nil; n = n.next {
		if b := n.item; b.chacha != nil {
			b.chacha.Seed(b.seed())
		}
	}
}

// randSource refuses to be used by the function of a Record, which no replay
// calls: the numbers after it would be others.
type randSource struct {
	run    *Run
	chacha *rand.ChaCha8
}

func (s *randSource) Uint64() uint64 {
	if !onCoroutine() {
		s.run.stop(s.run.name)
	}
	if s.run.pure != "" {
		panic(&MisuseError{"workflow: workflow.Rand was used inside of workflow.Record (" + s.run.pure + "): " +
			"use math/rand there, its numbers are recorded"})
	}
	return s.chacha.Uint64()
}
