package server

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// StartRedis starts an empty redis-server, whose append-only file is written once a second. Its
// files are in dir.
func StartRedis(ctx context.Context, dir string) (*Server, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("redis-server is missing: %w", err)
	}
	s, err := launch(ctx, dir, syscall.SIGKILL, func(port int) *exec.Cmd {
		return exec.Command(path, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir, "--save", "",
			"--appendonly", "yes", "--appendfsync", "everysec")
	}, pings)
	if err != nil {
		return nil, err
	}
	s.Version = version(path)
	return s, nil
}

func pings(addr string) bool {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	defer c.Close()
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	return err == nil && strings.HasPrefix(line, "+PONG")
}

// RedisURL returns the URL of a redis-server.
func (s *Server) RedisURL() string { return "redis://" + s.addr }
