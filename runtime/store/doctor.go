package store

import (
	"context"
	"fmt"
	"slices"
)

// Doctor is a store that can report how its database is configured and what is wrong with the
// configuration.
type Doctor interface {
	// Examine checks every server of the store and returns its findings. It changes no data. A
	// check that fails because access is forbidden or a server does not answer is a finding.
	// Examine returns an error only if it found out nothing.
	Examine(ctx context.Context) (Report, error)
}

// Report contains the findings of a doctor, ordered by node, and for each node by check.
type Report struct {
	Findings []Finding `json:"findings"`
}

// Worst returns the highest severity of the report, SeverityOK if the report is empty.
func (r Report) Worst() Severity {
	worst := SeverityOK
	for _, f := range r.Findings {
		worst = max(worst, f.Severity)
	}
	return worst
}

// Finding is the outcome of one check on one node.
type Finding struct {
	// Check is the name of the check, such as "eviction".
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	// Node is the address of the server; empty if the finding is about all of them.
	Node string `json:"node,omitempty"`
	// Found is the current value or state.
	Found string `json:"found"`
	// Want is the recommended value or state; empty if there is none.
	Want string `json:"want,omitempty"`
	// Fix is a sentence that describes what to do; empty if nothing needs to be done.
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

// CheckSight is the name of the check that reports what the doctor has no permission to examine.
const CheckSight = "sight"

// Severity is the importance of a finding. Its JSON encoding is a word.
type Severity uint8

// The severities, in rising order.
const (
	// SeverityOK means that the state is as it should be.
	SeverityOK Severity = iota
	// SeverityInfo is information; the state may be intended.
	SeverityInfo
	// SeverityWarn means that something will be lost or will fail in the future, or could not be
	// examined.
	SeverityWarn
	// SeverityFail means that the store does not work or that runs are being lost.
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
