package redistest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy forwards the connections of clients to a server, and can disturb them.
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

// Harm returns the treatment of a piece of data. answer is set if the server has sent the piece.
// The proxy calls Harm for each piece that it reads from the network. Harm may block to delay the
// piece, and must be safe for concurrent use.
type Harm func(answer bool, piece []byte) Verdict

// Verdict is the treatment of a piece of data.
type Verdict uint8

// The verdicts.
const (
	// Pass forwards the piece.
	Pass Verdict = iota
	// Drop discards the piece and closes both sides of the connection.
	Drop
	// Cut forwards the first half of the piece and closes both sides of the connection.
	Cut
)

// NewProxy starts a proxy, which is stopped at the end of the test. The proxy forwards all data
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

// Do sets the treatment of all further data. If h is nil, the proxy forwards all data.
func (p *Proxy) Do(h Harm) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.harm = h
}

// Redirect makes the proxy forward new connections to another server. It closes the existing
// connections.
func (p *Proxy) Redirect(server string) {
	p.mu.Lock()
	p.server = server
	p.mu.Unlock()
	p.Sever()
}

// Sever closes all connections.
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

// keep registers both sides of a connection. It returns false if the proxy has been closed.
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

// pass copies data until one side closes the connection or a verdict closes it.
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

// forward executes the verdict for a piece, and reports whether the connection remains open.
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
