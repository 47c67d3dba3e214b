package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"time"
)

// server is a redis-server process for the duration of the tour.
type server struct {
	url  string
	cmd  *exec.Cmd
	done chan struct{}
}

// startRedis starts a server without persistence on a free port.
func startRedis(ctx context.Context, dir string) (*server, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("there is no redis-server: install Redis 7.0 or later, or name a server with -store redis://…")
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("find a free port: %w", err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	if err := free.Close(); err != nil {
		return nil, fmt.Errorf("find a free port: %w", err)
	}
	s := &server{url: fmt.Sprintf("redis://127.0.0.1:%d", port), done: make(chan struct{})}
	s.cmd = exec.Command(binary, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir, "--save", "", "--appendonly", "no")
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start redis-server: %w", err)
	}
	go func() {
		_ = s.cmd.Wait() // the error reports the kill
		close(s.done)
	}()
	if err := s.await(ctx, fmt.Sprintf("127.0.0.1:%d", port)); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// await waits until the port accepts connections.
func (s *server) await(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-s.done:
			return errors.New("start redis-server: it ended at once")
		case <-ctx.Done():
			return fmt.Errorf("start redis-server: %w", err)
		}
	}
}

func (s *server) stop() {
	_ = s.cmd.Process.Kill()
	<-s.done
}
