package paging

import (
	"container/heap"
	"fmt"
	"sync"
)

// Entry is a run in a source, with data that the source attaches.
type Entry[T any] struct {
	At    Position
	Value T
}

// Source returns about n runs after a position, in the order of the query. It returns no runs only
// if there are none after the position. more reports whether further runs follow. The zero position
// precedes all runs.
type Source[T any] func(after Position, n int) (runs []Entry[T], more bool, err error)

const (
	// spare is the number of runs that are requested from a source in addition to its share of a
	// page.
	spare = 8
	// most is the maximum number of runs that are requested at once.
	most = 512
)

// Merge returns the runs of several sources in a common order. A run must not be in more than one
// source.
type Merge[T any] struct {
	parallel bool
	last     Position // position of the last returned run
	ready    parts[T]
	dry      []*part[T] // sources that must be read and may have further runs
}

// part is a source with the runs that were read from it and not returned.
type part[T any] struct {
	source Source[T]
	runs   []Entry[T]
	more   bool
	asks   int // number of runs to request next
}

// NewMerge returns a merge of sources that begins at the position of the page. If parallel is set,
// it reads the sources concurrently.
func NewMerge[T any](p *Page, parallel bool, sources []Source[T]) *Merge[T] {
	m := &Merge[T]{ready: parts[T]{oldest: p.q.Oldest}, parallel: parallel, last: p.after}
	for _, s := range sources {
		m.dry = append(m.dry, &part[T]{source: s, asks: min(p.limit/len(sources)+spare, most)})
	}
	return m
}

// Next returns the next run. found is false if there is none.
func (m *Merge[T]) Next() (first Entry[T], found bool, err error) {
	if err := m.refill(); err != nil || len(m.ready.all) == 0 {
		return first, false, err
	}
	p := m.ready.all[0]
	first, p.runs = p.runs[0], p.runs[1:]
	m.last = first.At
	switch {
	case len(p.runs) > 0:
		heap.Fix(&m.ready, 0)
	case p.more:
		m.dry = append(m.dry, p)
		fallthrough
	default:
		heap.Pop(&m.ready)
	}
	return first, true, nil
}

// refill reads the sources whose runs were all returned and that may have further runs.
func (m *Merge[T]) refill() error {
	errs := make([]error, len(m.dry))
	var all sync.WaitGroup
	for i, p := range m.dry {
		if m.parallel && len(m.dry) > 1 {
			all.Go(func() { errs[i] = p.fill(m.last) })
		} else if errs[i] = p.fill(m.last); errs[i] != nil {
			return errs[i]
		}
	}
	all.Wait()
	for i, p := range m.dry {
		if errs[i] != nil {
			return errs[i]
		}
		if len(p.runs) > 0 {
			heap.Push(&m.ready, p)
		}
	}
	m.dry = m.dry[:0]
	return nil
}

func (p *part[T]) fill(after Position) (err error) {
	p.runs, p.more, err = p.source(after, p.asks)
	p.asks = min(2*p.asks, most)
	if err == nil && p.more && len(p.runs) == 0 {
		err = fmt.Errorf("a source has no runs after %v, and reports more", after)
	}
	return err
}

// parts is a heap of the sources with unreturned runs, ordered by the first run of each source.
type parts[T any] struct {
	all    []*part[T]
	oldest bool
}

func (h *parts[T]) Len() int { return len(h.all) }

func (h *parts[T]) Less(i, j int) bool {
	a, b := h.all[i].runs[0].At, h.all[j].runs[0].At
	if h.oldest {
		return a.compare(b) < 0
	}
	return a.compare(b) > 0
}

func (h *parts[T]) Swap(i, j int) { h.all[i], h.all[j] = h.all[j], h.all[i] }

func (h *parts[T]) Push(p any) { h.all = append(h.all, p.(*part[T])) } //nolint:forcetypeassert // heap.Push is called above only

func (h *parts[T]) Pop() any {
	last := h.all[len(h.all)-1]
	h.all = h.all[:len(h.all)-1]
	return last
}
