package functions

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/lab/internal/harm"
)

// platform passes each request to a process that executes one request at a time. It starts processes
// as needed, up to a maximum number.
type platform struct {
	group  *harm.Group
	dir    string   // for sockets; its path is short
	args   []string // command line of a process, without its socket
	places chan struct{}

	started, requests, died atomic.Int64

	mu   sync.Mutex
	idle []*instance
}

type instance struct {
	*harm.Process
	client *http.Client
}

// ServeHTTP answers 502 if the process dies, and 503 if the maximum number of processes is busy.
func (p *platform) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case p.places <- struct{}{}:
		defer func() { <-p.places }()
	default:
		http.Error(w, "too many requests", http.StatusServiceUnavailable)
		return
	}
	p.requests.Add(1)
	ctx := context.WithoutCancel(r.Context())
	i, err := p.take(ctx)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	forwarded := r.Clone(ctx)
	forwarded.RequestURI, forwarded.URL.Scheme, forwarded.URL.Host = "", "http", "function"
	answer, err := i.client.Do(forwarded)
	if err != nil {
		p.died.Add(1)
		i.Kill()
		http.Error(w, "the function has died", http.StatusBadGateway)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		p.died.Add(1)
		i.Kill()
		http.Error(w, "the function has died", http.StatusBadGateway)
		return
	}
	p.mu.Lock()
	p.idle = append(p.idle, i)
	p.mu.Unlock()
	w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
	w.WriteHeader(answer.StatusCode)
	_, _ = w.Write(body)
}

// take returns an idle process, or starts one.
func (p *platform) take(ctx context.Context) (*instance, error) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		i := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return i, nil
	}
	p.mu.Unlock()
	n := p.started.Add(1)
	socket := filepath.Join(p.dir, fmt.Sprint(n))
	process, err := p.group.Spawn(fmt.Sprintf("function-%d", n), append(p.args[:len(p.args):len(p.args)], "-socket", socket)...)
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	for {
		c, err := dial(ctx, "", "")
		if err == nil {
			_ = c.Close()
			return &instance{process, &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}, nil
		}
		select {
		case <-process.Done():
			return nil, fmt.Errorf("a function does not start: %w", process.Crashed())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// close kills the idle processes.
func (p *platform) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range p.idle {
		i.Kill()
	}
}
