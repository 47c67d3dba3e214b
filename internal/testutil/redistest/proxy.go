package redistest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy stands between clients and a server and does harm to their connections.
type Proxy struct {
	Addr string

	listener net.Listener
	work     sync.WaitGroup

	mu     sync.Mutex
	server string
	harm   Harm
	conns  map[net.Conn]struct{}
	closed bool
}

// Harm decides what happens to a piece of data. It is called for each piece, as
// it was read from the network, and may block to delay it. It may be called by
// several goroutines at once.
type Harm func(answer bool, piece []byte) Verdict

// Verdict says how to treat a piece of data.
type Verdict uint8

// The verdicts.
const (
	// Pass: it goes on.
	Pass Verdict = iota
	// Drop: it is lost, and both sides of the connection end.
	Drop
	// Cut: the first half of it goes on, and both sides of the connection end.
	Cut
)

// NewProxy starts a proxy, which ends with the test. It passes everything on
// until Do is called.
func NewProxy(t testing.TB, server string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), server: server, listener: l, conns: map[net.Conn]struct{}{}}
	p.work.Go(p.accept)
	t.Cleanup(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		_ = l.Close()
		p.Sever()
		p.work.Wait()
	})
	return p
}

// Do sets what is done to all data from now on; nil: nothing.
func (p *Proxy) Do(h Harm) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.harm = h
}

// Redirect passes new connections on to another server, and ends the others.
func (p *Proxy) Redirect(server string) {
	p.mu.Lock()
	p.server = server
	p.mu.Unlock()
	p.Sever()
}

// Sever ends all connections.
func (p *Proxy) Sever() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // the proxy was closed
		}
		p.mu.Lock()
		to := p.server
		p.mu.Unlock()
		server, err := net.Dial("tcp", to)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.keep(client, server) {
			return
		}
		p.work.Go(func() { p.pass(client, server, false) })
		p.work.Go(func() { p.pass(server, client, true) })
	}
}

// keep registers both sides of a connection; false: the proxy is closed.
func (p *Proxy) keep(client, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_, _ = client.Close(), server.Close()
		return false
	}
	p.conns[client], p.conns[server] = struct{}{}, struct{}{}
	return true
}

// pass copies data until one side ends, or harm is done.
func (p *Proxy) pass(from, to net.Conn, answer bool) {
	defer func() {
		_, _ = from.Close(), to.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, from)
	}()
	piece := make([]byte, 64<<10)
	for {
		n, err := from.Read(piece)
		if n > 0 && !p.forward(to, answer, piece[:n]) || err != nil {
			return
		}
	}
}

// forward reports whether the connection goes on.
func (p *Proxy) forward(to io.Writer, answer bool, piece []byte) bool {
	p.mu.Lock()
	harm := p.harm
	p.mu.Unlock()
	verdict := Pass
	if harm != nil {
		verdict = harm(answer, piece)
	}
	switch verdict {
	case Drop:
		return false
	case Cut:
		_, _ = to.Write(piece[:len(piece)/2])
		return false
	}
	_, err := to.Write(piece)
	return err == nil
}
