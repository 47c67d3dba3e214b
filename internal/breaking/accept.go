package breaking

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/flowgen/flowgen/internal/compat"
)

// AcceptFile is the name of the list of accepted changes, in the root directory of a module. Each
// line contains a subject, its fingerprints before and after the change, and the reason. Empty
// lines and lines that begin with # are ignored.
const AcceptFile = "flow.accept"

// accepted is the set of accepted changes. A key has the form "subject from to".
type accepted map[string]bool

func (a accepted) has(c compat.Change) bool {
	return a[c.Subject+" "+c.From+" "+c.To]
}

// AcceptLine returns the line of AcceptFile that accepts the change.
func (c Change) AcceptLine() string {
	return c.Subject + " " + c.From + " " + c.To + " reason"
}

func readAccepted(dir string) (accepted, error) {
	path := filepath.Join(moduleRoot(dir), AcceptFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read accepted changes: %w", err)
	}
	all := accepted{}
	n := 0
	for text := range strings.Lines(string(data)) {
		n++
		text = strings.TrimSpace(text)
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		fields := strings.Fields(text)
		at := 0
		for at < len(fields) && !isFingerprint(fields[at]) {
			at++
		}
		if at == 0 || at+1 >= len(fields) || !isFingerprint(fields[at+1]) {
			return nil, fmt.Errorf("%s:%d: the line has no subject with two fingerprints: copy the line that flowgen breaking prints", path, n)
		}
		if at+2 >= len(fields) {
			return nil, fmt.Errorf("%s:%d: the line has no reason: append why the change is accepted", path, n)
		}
		all[strings.Join(fields[:at+2], " ")] = true
	}
	return all, nil
}

// isFingerprint reports whether s has the form of a fingerprint: a hash with the number of its
// algorithm, or the word for a missing subject.
func isFingerprint(s string) bool {
	kind, _, ok := strings.Cut(s, ":")
	return s == "none" || ok && len(kind) == 2 && (kind[0] == 's' || kind[0] == 'c') && kind[1] >= '0' && kind[1] <= '9'
}
