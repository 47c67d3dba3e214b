package store

import (
	"context"
	"fmt"
	"slices"
)

// Doctor is a store that can examine the configuration of its database.
type Doctor interface {
	// Examine checks every server of the store and returns the findings. It changes no data. If a
	// check is impossible because of a missing permission or a server that does not answer, this is
	// a finding. Examine returns an error only if it could check nothing.
	Examine(ctx context.Context) (Report, error)
}

// Report contains the findings of a doctor, ordered by node and then by check.
type Report struct {
	Findings []Finding `json:"findings"`
}

// Worst returns the highest severity of the findings. It returns SeverityOK if there are none.
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
	// Node is the address of the server. It is empty if the finding concerns all servers.
	Node string `json:"node,omitempty"`
	// Found is the current value or state.
	Found string `json:"found"`
	// Want is the recommended value or state. It is empty if there is none.
	Want string `json:"want,omitempty"`
	// Fix is a sentence that describes how to correct the finding. It is empty if there is nothing
	// to correct.
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

// CheckSight is the name of the check that reports missing permissions of the doctor.
const CheckSight = "sight"

// Severity is the importance of a finding. In JSON it is a word.
type Severity uint8

// Severities, in rising order.
const (
	// SeverityOK means that there is no problem.
	SeverityOK Severity = iota
	// SeverityInfo means that the state may be intended.
	SeverityInfo
	// SeverityWarn means that the state may cause a loss or a failure in the future, or could not
	// be examined.
	SeverityWarn
	// SeverityFail means that the store does not work or that runs are being lost.
	SeverityFail
)

var severities = []string{"ok", "info", "warn", "fail"}

// String returns the severity as a word, such as "warn".
func (s Severity) String() string {
	if int(s) < len(severities) {
		return severities[s]
	}
	return fmt.Sprintf("severity %d", uint8(s))
}

// MarshalText returns the severity as a word.
func (s Severity) MarshalText() ([]byte, error) {
	if int(s) >= len(severities) {
		return nil, fmt.Errorf("encode severity %d: unknown severity", uint8(s))
	}
	return []byte(s.String()), nil
}

// UnmarshalText parses the word for a severity.
func (s *Severity) UnmarshalText(text []byte) error {
	n := slices.Index(severities, string(text))
	if n < 0 {
		return fmt.Errorf("decode severity %q: unknown severity", text)
	}
	*s = Severity(n)
	return nil
}
