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

// UUID returns a UUID of version 4 that depends on nothing but the run, the branch and
// how many UUIDs the branch has asked for before: what the code draws from Rand has no
// part in it, so that code which asks for one more of the ones does not change the
// others in runs under way.
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

// seedRun is that of the run whose log this one has taken over, until the kept part is
// over: the code must do there what it has done, and something of its own after it.
func (b *Branch) seedRun() event.RunID {
	return cmp.Or(b.run.seed, b.run.state.Spec.Seed, b.run.id)
}

// seed is that of the branch's random numbers.
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
