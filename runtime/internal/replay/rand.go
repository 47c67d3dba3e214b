package replay

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"

	"github.com/flowgen/flowgen/runtime/event"
)

// Rand returns the random numbers of the branch. They are seeded by the run and the branch, so they
// are the same in every replay.
func (b *Branch) Rand() *rand.Rand {
	b.enter()
	if b.rng == nil {
		b.chacha = rand.NewChaCha8(b.seed())
		b.rng = rand.New(&randSource{b.run, b.chacha})
	}
	return b.rng
}

// UUID returns a UUID of version 4. It depends only on the run, the branch and the number of UUIDs
// that the branch has generated before. It does not depend on Rand, so code that draws an
// additional UUID or number does not change the other values in existing runs.
func (b *Branch) UUID() string {
	b.enter()
	b.uuids++
	h := sha256.New()
	for _, part := range []string{"uuid", string(b.seedRun()), b.path, strconv.Itoa(b.uuids)} {
		_, _ = h.Write([]byte(part))
		_, _ = h.Write([]byte{0})
	}
	u := h.Sum(nil)[:16]
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// seedRun returns the run that seeds the random numbers. Within the kept part of an older log it is
// the older run, because the code must repeat its operations. After that part it is the run itself
// or the recorded seed.
func (b *Branch) seedRun() event.RunID {
	return cmp.Or(b.run.seed, b.run.state.Spec.Seed, b.run.id)
}

// seed returns the seed of the branch's random numbers.
func (b *Branch) seed() (seed [32]byte) {
	h := fnv.New128a()
	_, _ = h.Write([]byte(b.seedRun()))
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(b.path))
	copy(seed[:], h.Sum(nil))
	_, _ = h.Write([]byte("2"))
	copy(seed[16:], h.Sum(nil))
	return seed
}

// reseed makes the branches use the random numbers of the run id from this position of the log on.
func (r *Run) reseed(id event.RunID) {
	r.seed = id
	for n := r.branches.first; n != nil; n = n.next {
		if b := n.item; b.chacha != nil {
			b.chacha.Seed(b.seed())
		}
	}
}

// randSource panics if the function of a Record uses random numbers. A replay does not call that
// function, so later random numbers would differ.
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
