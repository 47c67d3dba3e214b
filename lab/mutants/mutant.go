package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Mutant is a change of the source that breaks one guarantee of the engine. The tests of the mutant
// must fail.
type Mutant struct {
	// ID has the form subject/place/what. The subject is the name of a rule, "streams", "limits",
	// "lists" or "engine". The place is a store or a package.
	ID string
	// Disabled describes in one sentence the guarantee that the mutant breaks.
	Disabled string
	// File is the path of the changed file relative to the module.
	File string
	// After is a text that occurs once in the file. The search for Old begins after this text. If
	// After is empty, Old itself must occur once.
	After string
	// Old is the text that New replaces.
	Old, New string
	// Package is the package with the tests that must fail. Tests contains their names.
	Package string
	Tests   []string
	// Hangs reports whether tests that do not end also kill the mutant.
	Hangs bool
}

// Subject returns the first part of the ID.
func (m *Mutant) Subject() string {
	subject, _, _ := strings.Cut(m.ID, "/")
	return subject
}

// Place returns the second part of the ID, which is the mutated store or package.
func (m *Mutant) Place() string {
	parts := strings.SplitN(m.ID, "/", 3)
	if len(parts) < 2 {
		return ""
	}
	return parts[1]
}

// StaleError is returned for a mutant that does not match the source.
type StaleError struct {
	ID, File, Reason string
}

// Error returns the ID of the mutant and an instruction to repair it.
func (e *StaleError) Error() string {
	return fmt.Sprintf("mutant %s is stale: %s: %s: give it what is there now", e.ID, e.File, e.Reason)
}

// Apply returns source with the change of the mutant. The error is a *StaleError.
func (m *Mutant) Apply(source string) (string, error) {
	at, err := m.place(source)
	if err != nil {
		return "", err
	}
	return source[:at] + m.New + source[at+len(m.Old):], nil
}

// place returns the offset in source of the text to replace.
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

// ApplyIn is like Apply, but reads the source from the mutant's file in the directory root.
func (m *Mutant) ApplyIn(root string) (string, error) {
	source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.File)))
	if err != nil {
		return "", &StaleError{m.ID, m.File, err.Error()}
	}
	return m.Apply(string(source))
}

// Table returns all mutants, grouped by rule.
func Table() []Mutant {
	all := slices.Concat(memoryMutants, sqliteMutants, redisMutants, batchMutants, workerMutants, reducerMutants, observerMutants, localStartMutants, replayMutants, streamMutants, sayMutants, scheduleMutants, pinMutants, codecMutants, gatherMutants, limitMutants, shareMutants, listMutants, healthMutants, reportMutants)
	order := map[string]int{"streams": len(Rules), "limits": len(Rules) + 1, "lists": len(Rules) + 2, "engine": len(Rules) + 3}
	for i, r := range Rules {
		order[r.Name] = i
	}
	slices.SortStableFunc(all, func(a, b Mutant) int { return order[a.Subject()] - order[b.Subject()] })
	return all
}

// inMemory returns the name of the subtest on the memory store, which is the fastest store.
func inMemory(test string) string { return test + "/memory" }

// throughWorker returns the mutant with its tests in package worker.
func (m Mutant) throughWorker() Mutant { return m.in("runtime/worker") }

// Rule is a rule that a store and its workers must not violate.
type Rule struct{ Name, Text string }

// Rules contains the rules in the order of the protocol.
var Rules = []Rule{
	{"F1", "Every write to a run names epoch and token."},
	{"F2", "Whatever takes a run from its owner changes the fence in that action."},
	{"F3", "A position is the cid of the last frame, never a count; a cid is never used for two frames."},
	{"F4", "A cached state is known by the cid of the last frame, too."},
	{"M1", "Accepted is in the inbox and in what was seen, in one action."},
	{"M2", "What was seen is asked before whether the run has ended."},
	{"M3", "Consume names ids."},
	{"M4", "Park and finish need an empty inbox; continue moves the inbox and what the code had not taken."},
	{"C1", "Create asks first whether the run exists; at most one run of a workflow id is active, successors wait in line."},
	{"C2", "A run and the items that it is created with are there together; they do not wake it."},
	{"P1", "Nothing is purged that somebody may still send again."},
	{"O1", "The ids of effects are derived, and effects go in order per pair of runs."},
	{"O2", "A record goes only after it is settled, what remembers it only after Confirm."},
	{"W1", "Heartbeats never create a lease."},
	{"W2", "Each heartbeat compares the runs that are owned."},
	{"W3", "A run has at most one commit in flight, and the same bytes are sent until they are answered."},
	{"W4", "Fenced does not say that the commit was not applied."},
	{"W5", "Only who was silent for a TTL while others were heard is dead."},
	{"K1", "Ready is a set; claim takes by queue state, not by list."},
	{"K2", "Push, then wake, in one action; one wake per route."},
	{"K3", "Whoever sets an earlier due time wakes; whoever knows it calls Due, busy or not."},
	{"B2", "No claim gives a run to a session with the code of one that could not replay it."},
	{"L12", "Starts gather until the claim; a start is first asked whether it was here."},
}

// Elsewhere contains the reason for each rule that no store implements.
var Elsewhere = map[string]string{
	"F4": "Stores cache no state of code: the worker does, and compares the cid of the claim with its own.",
}
