package flowtest

import (
	"bytes"
	"slices"
	"strings"
	"sync"
)

// LogBuffer collects log lines. It is safe for concurrent use.
type LogBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends to the text.
func (l *LogBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns the collected text.
func (l *LogBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Count returns how many lines contain the text.
func (l *LogBuffer) Count(text string) int {
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

// Seen collects values. It is safe for concurrent use.
type Seen[T any] struct {
	mu  sync.Mutex
	all []T
}

// Add adds a value.
func (s *Seen[T]) Add(v T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, v)
}

// Get returns a copy of the values, in the order in which they were added.
func (s *Seen[T]) Get() []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]T(nil), s.all...)
}

// Len returns how many values were added.
func (s *Seen[T]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// ContainsAll reports whether the text contains each of the parts.
func ContainsAll(text string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
}

// Lines returns the log lines that contain the given message.
func (w *World) Lines(message string) (found []string) {
	for line := range strings.Lines(w.Logs.String()) {
		if strings.Contains(line, `msg="`+message+`"`) || strings.Contains(line, "msg="+message+" ") {
			found = append(found, line)
		}
	}
	return found
}

// OneLine waits for a log line with the given message. It fails the test unless there is exactly
// one such line, and the line contains all parts.
func (w *World) OneLine(message string, parts ...string) {
	w.T.Helper()
	w.Eventually("there is a line: "+message, func() bool { return len(w.Lines(message)) > 0 })
	all := w.Lines(message)
	if len(all) != 1 {
		w.T.Errorf("%d lines, want one:\n%s", len(all), strings.Join(all, ""))
	}
	for _, part := range parts {
		if !strings.Contains(all[0], part) {
			w.T.Errorf("the line lacks %s:\n%s", part, all[0])
		}
	}
}
