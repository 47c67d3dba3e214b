package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Mutant is one disabled decision of the engine.
type Mutant struct {
	// ID has the form subject/place/what. The subject is a rule, "streams", "limits", "lists" or
	// "engine". The place is a store or a package.
	ID string
	// Disabled describes in one sentence the guarantee that the mutant breaks.
	Disabled string
	// File is a path relative to the module.
	File string
	// After is a text that occurs once in the file. The search for Old begins after it. If it is
	// empty, Old itself must occur once.
	After string
	// Old is replaced by New.
	Old, New string
	// Package contains the tests that must fail. Tests contains their names.
	Package string
	Tests   []string
	// Hangs reports whether the tests kill the mutant by not ending.
	Hangs bool
}

// Subject returns the rule that the mutant violates, "streams", "limits", "lists", or "engine".
func (m *Mutant) Subject() string {
	subject, _, _ := strings.Cut(m.ID, "/")
	return subject
}

// Place returns the store or the package that is mutated.
func (m *Mutant) Place() string {
	parts := strings.SplitN(m.ID, "/", 3)
	if len(parts) < 2 {
		return ""
	}
	return parts[1]
}

// StaleError reports that a mutant does not match the source.
type StaleError struct {
	ID, File, Reason string
}

// Error returns the mutant and how to repair it.
func (e *StaleError) Error() string {
	return fmt.Sprintf("mutant %s is stale: %s: %s: give it what is there now", e.ID, e.File, e.Reason)
}

// Apply returns the mutated source.
func (m *Mutant) Apply(source string) (string, error) {
	at, err := m.place(source)
	if err != nil {
		return "", err
	}
	return source[:at] + m.New + source[at+len(m.Old):], nil
}

// place returns the offset of the text to replace.
func (m *Mutant) place(source string) (int, error) {
	stale := func(format string, args ...any) error {
		return &StaleError{m.ID, m.File, fmt.Sprintf(format, args...)}
	}
	from := 0
	if m.After != "" {
		if n := strings.Count(source, m.After); n != 1 {
			return 0, stale("%q occurs %d times, want once", m.After, n)
		}
		from = strings.Index(source, m.After) + len(m.After)
	} else if n := strings.Count(source, m.Old); n != 1 {
		return 0, stale("%q occurs %d times, want once", m.Old, n)
	}
	at := strings.Index(source[from:], m.Old)
	switch {
	case at < 0:
		return 0, stale("%q does not occur behind %q", m.Old, m.After)
	case m.Old == m.New:
		return 0, stale("nothing is replaced")
	}
	return from + at, nil
}

// ApplyIn is like Apply for the file in the directory root.
func (m *Mutant) ApplyIn(root string) (string, error) {
	source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.File)))
	if err != nil {
		return "", &StaleError{m.ID, m.File, err.Error()}
	}
	return m.Apply(string(source))
}

// Table returns all mutants, grouped by rule.
func Table() []Mutant {
	all := slices.Concat(memoryMutants, sqliteMutants, redisMutants, workerMutants, localStartMutants, replayMutants, streamMutants, sayMutants, scheduleMutants, gatherMutants, limitMutants, shareMutants, listMutants)
	order := map[string]int{"streams": len(Rules), "limits": len(Rules) + 1, "lists": len(Rules) + 2, "engine": len(Rules) + 3}
	for i, r := range Rules {
		order[r.Name] = i
	}
	slices.SortStableFunc(all, func(a, b Mutant) int { return order[a.Subject()] - order[b.Subject()] })
	return all
}

// inMemory returns the subtest of a worker test on the memory store, which is the fastest.
func inMemory(test string) string { return test + "/memory" }

// throughWorker returns the mutant with tests in package worker.
func (m Mutant) throughWorker() Mutant { return m.in("runtime/worker") }
