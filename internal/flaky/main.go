// Command flaky reads the JSON files of gotestsum. It prints the tests that failed and the tests
// that passed only in a repeated execution. It fails if there are more such flaky tests than CI
// accepts.
//
//	flaky FILE...
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

const (
	most    = 3        // maximum number of flaky tests that CI accepts
	outputs = 16 << 10 // maximum number of bytes of the output of a test or subtest that are kept
)

func main() {
	var all []*test
	for _, name := range os.Args[1:] {
		tests, err := readFile(name)
		if err != nil {
			fmt.Fprintln(os.Stderr, "flaky:", err)
			os.Exit(2)
		}
		all = append(all, tests...)
	}
	if n := report(os.Stdout, all); n > most {
		fmt.Fprintf(os.Stderr, "flaky: %d tests passed only when they were executed again, at most %d may: correct those that are named above\n", n, most)
		os.Exit(1)
	}
}

// test contains the results of a test from its events.
type test struct {
	pkg, name string
	failures  int
	passed    bool              // result of the last execution
	outputs   map[string][]byte // output of the current execution by subtest; discarded on failure
	output    []byte            // output of the test and of its failed subtests at the first failure
}

// flaky reports whether the test failed and later passed.
func (t *test) flaky() bool { return t.failures > 0 && t.passed }

func readFile(name string) ([]*test, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	tests, err := read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return tests, nil
}

// read returns the tests that failed in at least one execution, in the order of their first
// failures. A subtest counts as part of its test.
func read(r io.Reader) (failed []*test, err error) {
	type id struct{ pkg, name string }
	tests := map[id]*test{}
	for d := json.NewDecoder(r); ; {
		var e struct{ Action, Package, Test, Output string }
		switch err := d.Decode(&e); {
		case errors.Is(err, io.EOF):
			return failed, nil
		case err != nil:
			return nil, err
		}
		name, _, sub := strings.Cut(e.Test, "/")
		if name == "" {
			continue
		}
		t := tests[id{e.Package, name}]
		if t == nil {
			t = &test{pkg: e.Package, name: name, outputs: map[string][]byte{}}
			tests[id{e.Package, name}] = t
		}
		switch {
		case t.failures == 0 && e.Action == "output":
			if b := t.outputs[e.Test]; len(b) < outputs {
				t.outputs[e.Test] = append(b, e.Output...)
			}
		case t.failures == 0 && e.Action == "fail" && len(t.output) < outputs:
			t.output = append(t.output, t.outputs[e.Test]...)
		}
		switch {
		case e.Action == "pass":
			delete(t.outputs, e.Test)
			t.passed = t.passed || !sub
		case e.Action == "fail" && !sub:
			if t.passed, t.outputs = false, nil; t.failures == 0 {
				failed = append(failed, t)
			}
			t.failures++
		}
	}
}

// report prints the failed and the flaky tests and returns the number of flaky tests. It prints no
// output of failed tests, because gotestsum prints it.
func report(w io.Writer, tests []*test) (n int) {
	for _, t := range tests {
		if !t.flaky() {
			_, _ = fmt.Fprintf(w, "--- FAIL: %s: %d of %d executions, in %s\n", t.name, t.failures, t.failures, t.pkg)
			continue
		}
		n++
		_, _ = fmt.Fprintf(w, "FLAKY: %s.%s: it failed %d times and then passed; the first output:\n", t.pkg, t.name, t.failures)
		for line := range strings.Lines(string(t.output)) {
			_, _ = fmt.Fprintln(w, "    "+strings.TrimRight(line, "\n"))
		}
	}
	return n
}
