package worker_test

import (
	"bytes"
	"strings"
	"sync"
)

// logBuffer collects log lines.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// count returns how many lines contain the text.
func (l *logBuffer) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for line := range bytes.Lines(l.b.Bytes()) {
		if bytes.Contains(line, []byte(text)) {
			n++
		}
	}
	return n
}

// seen collects values of one execution after the other.
type seen[T any] struct {
	mu  sync.Mutex
	all []T
}

func (s *seen[T]) add(v T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, v)
}

func (s *seen[T]) get() []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]T(nil), s.all...)
}

func (s *seen[T]) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

func containsAll(text string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}
