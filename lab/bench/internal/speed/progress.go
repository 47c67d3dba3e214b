package speed

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress is a status line on a terminal.
type progress struct {
	mu    sync.Mutex
	out   io.Writer // nil if there is no status line
	shown time.Time
	wrote bool
}

// often is the minimum time between two changes of the line.
const often = 100 * time.Millisecond

func newProgress(w io.Writer, wanted bool) *progress {
	if !wanted {
		return &progress{}
	}
	return &progress{out: w}
}

// sayf replaces the status line, unless the last change was too recent.
func (p *progress) sayf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out == nil || time.Since(p.shown) < often {
		return
	}
	p.shown, p.wrote = time.Now(), true
	fmt.Fprintf(p.out, "\r\x1b[K"+format, args...)
}

// done removes the status line, so that other output can be printed.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wrote {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.wrote, p.shown = false, time.Time{}
	}
}
