// Package server starts the servers that systems use, and measures the CPU time that they use.
package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Server is a process of a server, on a free port of 127.0.0.1.
type Server struct {
	Version string
	PID     int

	addr  string
	cmd   *exec.Cmd
	ended chan struct{}
	stop  os.Signal
	leash func() // ends the process that ends the server together with this process
}

// launch starts a server, and waits until it answers. command returns its command for a port.
func launch(ctx context.Context, dir string, stop os.Signal, command func(port int) *exec.Cmd, answers func(addr string) bool) (*Server, error) {
	var err error
	for range 5 { // another process may take the port
		var s *Server
		if s, err = try(ctx, dir, stop, command, answers); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func try(ctx context.Context, dir string, stop os.Signal, command func(port int) *exec.Cmd, answers func(addr string) bool) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("find a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := command(port)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &Server{PID: cmd.Process.Pid, addr: fmt.Sprintf("127.0.0.1:%d", port), cmd: cmd, ended: make(chan struct{}), stop: stop}
	go func() { _ = cmd.Wait(); close(s.ended) }()
	if s.leash, err = leash(s.PID); err != nil {
		s.Stop()
		return nil, err
	}
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !answers(s.addr) {
		select {
		case <-tick.C:
			continue
		case <-s.ended:
			text, _ := os.ReadFile(log.Name())
			err = fmt.Errorf("%s ended: %s", cmd.Path, strings.TrimSpace(string(text)))
		case <-deadline.C:
			err = fmt.Errorf("%s does not answer", cmd.Path)
		case <-ctx.Done():
			err = ctx.Err()
		}
		s.Stop()
		return nil, err
	}
	return s, nil
}

// leash starts a process that ends the server when this process ends. release ends it without the
// server.
func leash(pid int) (release func(), err error) {
	cmd := exec.Command("sh", "-c", fmt.Sprintf("cat >/dev/null; kill -QUIT %d 2>/dev/null", pid))
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() {
		_ = cmd.Process.Kill() // before closing its input, which would end the server
		_ = in.Close()
		_ = cmd.Wait()
	}, nil
}

// Stop ends the server.
func (s *Server) Stop() {
	_ = s.cmd.Process.Signal(s.stop) // fails if the process has ended
	<-s.ended
	if s.leash != nil {
		s.leash()
	}
}

// version returns the last word with a digit at the start that a program prints for --version.
func version(program string) string {
	out, err := exec.Command(program, "--version").Output()
	if err != nil {
		return "unknown"
	}
	for word := range strings.FieldsSeq(string(out)) {
		word = strings.TrimPrefix(word, "v=")
		if word != "" && word[0] >= '0' && word[0] <= '9' {
			return word
		}
	}
	return "unknown"
}
