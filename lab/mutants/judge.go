package main

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
)

// Verdict is the result of testing a mutant.
type Verdict string

// The verdicts. All verdicts except Killed are findings.
const (
	Killed   Verdict = "killed"   // a test failed
	Survived Verdict = "survived" // all tests of the mutant passed
	Hung     Verdict = "hung"     // the tests did not end, and Hangs is false
	Broken   Verdict = "broken"   // the mutant does not compile, so its tests prove nothing
	Stale    Verdict = "stale"    // the text of the mutant does not occur exactly once in the file
)

// testEvent contains the fields of a line of go test -json that listen uses.
type testEvent struct {
	Action      string `json:"Action"`
	Test        string `json:"Test"`
	Output      string `json:"Output"`
	FailedBuild string `json:"FailedBuild"`
}

// testLog is the parsed output of go test.
type testLog struct {
	Passed  map[string]bool
	Failed  []string // names of the failed tests; subtests precede their parents
	Timeout bool
	NoBuild bool // also true for a script that the server could not compile or execute
	Output  string
	tests   map[string]string // output by test name
}

// brokenScript contains texts with which Redis reports an invalid script. A test that fails with
// such a text proves nothing about the mutant.
var brokenScript = []string{"Error compiling script", "nonexistent global variable", ": attempt to "}

// read parses the output of go test -json.
func (l *testLog) read(r io.Reader) error {
	l.Passed, l.tests = map[string]bool{}, map[string]string{}
	var text strings.Builder
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		var e testEvent
		switch {
		case len(line) == 0:
		case json.Unmarshal(line, &e) != nil:
			text.Write(line) // The line is output of the go command itself.
		default:
			l.take(&e, &text)
		}
		if err == io.EOF {
			l.Output = text.String()
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (l *testLog) take(e *testEvent, text *strings.Builder) {
	text.WriteString(e.Output)
	l.tests[e.Test] += e.Output
	if strings.Contains(e.Output, "panic: test timed out") {
		l.Timeout = true
	}
	for _, s := range brokenScript {
		l.NoBuild = l.NoBuild || strings.Contains(e.Output, s)
	}
	switch {
	case e.Action == "build-fail" || e.FailedBuild != "":
		l.NoBuild = true
	case e.Test == "":
	case e.Action == "pass":
		l.Passed[e.Test] = true
	case e.Action == "fail":
		l.Failed = append(l.Failed, e.Test)
	}
}

// failures returns the output of the failed tests. If no test failed, it returns all output.
func (l *testLog) failures() string {
	var b strings.Builder
	for _, name := range l.Failed {
		b.WriteString(l.tests[name])
	}
	if b.Len() == 0 {
		return l.Output
	}
	return b.String()
}

// judge returns the verdict on a mutant and the name of the test that killed it. ok reports whether
// the tests passed.
func judge(m *Mutant, l *testLog, ok bool) (v Verdict, killer string) {
	switch {
	case l.NoBuild:
		return Broken, ""
	case l.Timeout && !m.Hangs:
		return Hung, ""
	case len(l.Failed) > 0:
		return Killed, l.Failed[0]
	case ok:
		return Survived, ""
	}
	return Broken, "" // The program ended without a failed test.
}
