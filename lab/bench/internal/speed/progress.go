package speed

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress is a line that says what is going on, written over and over.
type progress struct {
	mu    sync.Mutex
	out   io.Writer // nil: nobody wants to know
	shown time.Time
	wrote bool
}

// often is how long a line stays at least.
const often = 100 * time.Millisecond

func newProgress(w io.Writer, wanted bool) *progress {
	if !wanted {
		return &progress{}
	}
	return &progress{out: w}
}

// sayf replaces the line, unless it is too new.
func (p *progress) sayf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out == nil || time.Since(p.shown) < often {
		return
	}
	p.shown, p.wrote = time.Now(), true
	fmt.Fprintf(p.out, "\r\x1b[K"+format, args...)
}

// done removes the line, so that something else can be printed.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wrote {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.wrote, p.shown = false, time.Time{}
	}
}
