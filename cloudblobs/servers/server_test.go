package servers_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/flowgen/flowgen/cloudblobs"
	"github.com/flowgen/flowgen/runtime/codec/codectest"
)

// process is a copy of the test binary in a role.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	log   bytes.Buffer
	ready chan struct{} // closed when the process has printed the line "ready"
	ended chan struct{} // closed when the process has ended
}

// run starts a process.
func run(t *testing.T, env []string, attr *syscall.SysProcAttr) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0], "-test.run=^$"), ready: make(chan struct{}), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = attr
	p.cmd.Stderr = &p.log
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if lines.Text() == "ready" {
				close(p.ready)
			}
		}
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(p.kill)
	return p
}

// kill sends SIGKILL and waits for the end of the process.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.stdin.Close()
	<-p.ended
}

// server is a server behind a proxy, whose address stays the same if the server is started again.
type server struct {
	*proxy
	process *process
	dir     string
	storage string
	attr    *syscall.SysProcAttr
}

// start starts a server that has a bucket "payloads".
func start(t *testing.T) *server {
	t.Helper()
	s := &server{proxy: newProxy(t), dir: t.TempDir()}
	s.run(t)
	s.createBucket(t)
	return s
}

// run starts the process of a server. Another program may have taken the port meanwhile.
func (s *server) run(t *testing.T) {
	t.Helper()
	for range 5 {
		addr := freeAddr(t)
		p := run(t, []string{role + "=server", "DIR=" + s.dir, "ADDR=" + addr, "STORAGE=" + s.storage}, s.attr)
		select {
		case <-p.ready:
			s.process = p
			s.target.Store(&addr)
			return
		case <-p.ended:
			t.Logf("the server does not start: %s", p.log.String())
		}
	}
	t.Fatal("no server starts")
}

// client returns a client of the owner, which prepares a test.
func (s *server) client() *s3.Client {
	endpoint := "http://" + s.addr
	return s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: &endpoint, UsePathStyle: true,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: owner.Access, SecretAccessKey: owner.Secret}, nil
		}),
	})
}

func (s *server) createBucket(t *testing.T) {
	t.Helper()
	if _, err := s.client().CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("payloads")}); err != nil {
		t.Fatal(err)
	}
}

// url returns the URL of the bucket.
func (s *server) url() string {
	return "s3://payloads?region=us-east-1&use_path_style=true&endpoint=http://" + s.addr
}

// open returns a store of the owner.
func (s *server) open(t *testing.T) *cloudblobs.Store {
	t.Helper()
	as(t, owner.Access, owner.Secret)
	store, err := cloudblobs.Open(t.Context(), s.url())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// as sets the credentials of the stores that are opened, and of clients that are started.
func as(t *testing.T, access, secret string) {
	t.Helper()
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_PROFILE", "")
	t.Setenv("AWS_SESSION_TOKEN", "")
	t.Setenv("AWS_ACCESS_KEY_ID", access)
	t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
}

// proxy forwards connections to a server.
type proxy struct {
	addr   string
	target atomic.Pointer[string]

	mu     sync.Mutex
	budget int64  // bytes of requests that are forwarded before then is called; unlimited if then is nil
	then   func() // called once; its connection ends when it returns
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String()}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.forward(c)
		}
	}()
	return p
}

// after makes the proxy call then when it has forwarded n bytes of requests from now on.
func (p *proxy) after(n int64, then func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.budget, p.then = n, then
}

func (p *proxy) forward(c net.Conn) {
	defer c.Close()
	s, err := net.Dial("tcp", *p.target.Load())
	if err != nil {
		return
	}
	defer s.Close()
	go func() {
		_, _ = io.Copy(c, s)
		_ = c.Close()
	}()
	chunk := make([]byte, 16<<10)
	for {
		n, err := c.Read(chunk)
		for rest := chunk[:n]; len(rest) > 0; {
			sent, err := p.send(s, rest)
			if err != nil {
				return
			}
			rest = rest[sent:]
		}
		if err != nil {
			return
		}
	}
}

var errCut = errors.New("cut by the test")

// send forwards what the budget allows.
func (p *proxy) send(to io.Writer, data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.then == nil {
		return to.Write(data)
	}
	n, err := to.Write(data[:min(int64(len(data)), p.budget)])
	if p.budget -= int64(n); p.budget == 0 {
		then := p.then
		p.then = nil
		then()
		return n, errCut
	}
	return n, err
}

// payload returns data of a size and its name.
func payload(seed byte, size int) (name string, data []byte) {
	data = codectest.Data(seed, size)
	return codectest.Name("chain", data), data
}
