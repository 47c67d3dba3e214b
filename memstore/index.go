package memstore

import (
	"cmp"
	"iter"
	"slices"
	"sort"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
)

// chunkSize is the maximum number of runs in a chunk of an index.
const chunkSize = 256

// index contains the runs of a partition, sorted by creation time, then by ID. It consists of
// chunks, so that adding or removing a run moves few other runs.
type index struct {
	chunks [][]*run // no chunk is empty, and of two adjacent chunks at most one is small
}

// position is a position in an index: the creation time and the ID of a run.
type position struct {
	created int64
	id      event.RunID
}

func (r *run) position() position { return position{r.created, r.id} }

// compare orders positions in the reverse order of store.NewestFirst.
func (a position) compare(b position) int {
	if a.created != b.created {
		return cmp.Compare(a.created, b.created)
	}
	return strings.Compare(string(a.id), string(b.id))
}

// chunk returns the number of the chunk that contains a position or would contain it. It returns -1
// if the index is empty.
func (x *index) chunk(p position) int {
	after := sort.Search(len(x.chunks), func(i int) bool { return x.chunks[i][0].position().compare(p) > 0 })
	return min(max(after-1, 0), len(x.chunks)-1)
}

// place returns the index of a position in a chunk, or the index at which to insert it.
func place(chunk []*run, p position) (at int, found bool) {
	return slices.BinarySearchFunc(chunk, p, func(r *run, p position) int { return r.position().compare(p) })
}

// add adds a run that is not in the index.
func (x *index) add(r *run) {
	p := r.position()
	i := x.chunk(p)
	if i < 0 {
		x.chunks = [][]*run{{r}}
		return
	}
	c := x.chunks[i]
	at := len(c) // most added runs are newer than all others
	if c[at-1].position().compare(p) > 0 {
		at, _ = place(c, p)
	}
	switch {
	case len(c) < chunkSize:
		x.chunks[i] = slices.Insert(c, at, r)
	case at == len(c) && i+1 < len(x.chunks) && len(x.chunks[i+1]) < chunkSize:
		x.chunks[i+1] = slices.Insert(x.chunks[i+1], 0, r)
	case at == len(c):
		x.chunks = slices.Insert(x.chunks, i+1, []*run{r})
	default:
		x.chunks = slices.Insert(x.chunks, i+1, slices.Clone(c[chunkSize/2:]))
		x.chunks[i] = slices.Delete(c, chunkSize/2, chunkSize)
		x.add(r)
	}
}

// remove removes a run that is in the index.
func (x *index) remove(r *run) {
	i := x.chunk(r.position())
	at, _ := place(x.chunks[i], r.position())
	x.chunks[i] = slices.Delete(x.chunks[i], at, at+1)
	x.join(i)
	x.join(i - 1)
}

// join merges chunk i with the next chunk if the result is small. It removes chunk i if the chunk
// is empty.
func (x *index) join(i int) {
	switch {
	case i < 0 || i >= len(x.chunks):
	case len(x.chunks[i]) == 0:
		x.chunks = slices.Delete(x.chunks, i, i+1)
	case i+1 < len(x.chunks) && len(x.chunks[i])+len(x.chunks[i+1]) <= chunkSize/2:
		x.chunks[i] = append(x.chunks[i], x.chunks[i+1]...)
		x.chunks = slices.Delete(x.chunks, i+1, i+2)
	}
}

// before yields the runs before a position, the newest first. For a position without a run it
// yields all runs.
func (x *index) before(p position) iter.Seq[*run] {
	return func(yield func(*run) bool) {
		chunks := x.chunks
		if p.id != "" {
			chunks = chunks[:x.chunk(p)+1]
		}
		for i, c := range slices.Backward(chunks) {
			if p.id != "" && i == len(chunks)-1 {
				at, _ := place(c, p)
				c = c[:at]
			}
			for _, v := range slices.Backward(c) {
				if !yield(v) {
					return
				}
			}
		}
	}
}

// after yields the runs after a position, the oldest first. For a position without a run it yields
// all runs.
func (x *index) after(p position) iter.Seq[*run] {
	return func(yield func(*run) bool) {
		first := 0
		if p.id != "" {
			first = max(x.chunk(p), 0)
		}
		for i, c := range x.chunks[min(first, len(x.chunks)):] {
			if i == 0 && p.id != "" {
				at, found := place(c, p)
				if found {
					at++
				}
				c = c[at:]
			}
			for _, v := range c {
				if !yield(v) {
					return
				}
			}
		}
	}
}
