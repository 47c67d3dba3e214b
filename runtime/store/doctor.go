package store

import (
	"context"
	"fmt"
	"slices"
)

// Doctor is a store that can say how its database is set up, and what is wrong
// with that.
type Doctor interface {
	// Examine looks at every server of the store and returns what it finds. It
	// changes no data. What it cannot find out, because it is forbidden or a
	// server does not answer, is a finding; an error means that it found out
	// nothing at all.
	Examine(ctx context.Context) (Report, error)
}

// Report lists the findings of a doctor, in the order of the nodes, and for each of them
// in the order of the checks.
type Report struct {
	Findings []Finding `json:"findings"`
}

// Worst returns the highest severity of the report: SeverityOK if it is empty.
func (r Report) Worst() Severity {
	worst := SeverityOK
	for _, f := range r.Findings {
		worst = max(worst, f.Severity)
	}
	return worst
}

// Finding is the outcome of one check on one node.
type Finding struct {
	// Check names what was looked at, such as "eviction".
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	// Node is the address of the server; empty if it is about all of them.
	Node string `json:"node,omitempty"`
	// Found is the present value or state.
	Found string `json:"found"`
	// Want is the value or state that it should be; empty if nothing else is wanted.
	Want string `json:"want,omitempty"`
	// Fix is a sentence that says what to do; empty if there is nothing to do.
	Fix string `json:"fix,omitempty"`
}

// String returns the finding on one line.
func (f Finding) String() string {
	text := fmt.Sprintf("%s %s", f.Severity, f.Check)
	if f.Node != "" {
		text += " on " + f.Node
	}
	text += ": " + f.Found
	if f.Want != "" {
		text += "; want " + f.Want
	}
	if f.Fix != "" {
		text += ": " + f.Fix
	}
	return text
}

// CheckSight is the check that finds what the doctor may not look at.
const CheckSight = "sight"

// Severity says how much a finding matters. In JSON it is a word.
type Severity uint8

// The severities, in rising order.
const (
	// SeverityOK: it is as it should be.
	SeverityOK Severity = iota
	// SeverityInfo: good to know; it may be meant so.
	SeverityInfo
	// SeverityWarn: something will be lost or will stop one day, or could not be
	// looked at.
	SeverityWarn
	// SeverityFail: the store does not work, or runs are being lost.
	SeverityFail
)

var severities = []string{"ok", "info", "warn", "fail"}

// String returns the word for the severity.
func (s Severity) String() string {
	if int(s) < len(severities) {
		return severities[s]
	}
	return fmt.Sprintf("severity %d", uint8(s))
}

// MarshalText returns the word for the severity.
func (s Severity) MarshalText() ([]byte, error) {
	if int(s) >= len(severities) {
		return nil, fmt.Errorf("encode severity %d: there is none", uint8(s))
	}
	return []byte(s.String()), nil
}

// UnmarshalText reads the word for a severity.
func (s *Severity) UnmarshalText(text []byte) error {
	n := slices.Index(severities, string(text))
	if n < 0 {
		return fmt.Errorf("decode severity %q: there is none", text)
	}
	*s = Severity(n)
	return nil
}
