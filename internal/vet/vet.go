// Package vet applies the rules of package flowcheck to packages by running go vet. The go command
// builds the dependencies and stores the facts of each package in the build cache.
package vet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/flowgen/flowgen/flowcheck"
	"github.com/flowgen/flowgen/internal/diagnostic"
)

// Config contains the parameters of an analysis.
type Config struct {
	Dir      string   // directory for the patterns; the working directory if empty
	Patterns []string // package patterns as for the go command; "." if empty
	Tool     string   // path of a vet tool with these rules, such as this program
	Advice   bool     // include the advisory rules
}

// Finding is one report of a rule.
type Finding struct {
	diagnostic.Diagnostic
	Rule   string `json:"rule"`
	Advice bool   `json:"advice,omitempty"` // the finding is advice, not a mistake
}

// ErrUnsound is returned if packages could not be analyzed, because they do not compile or do not
// exist. The error text contains the reason.
var ErrUnsound = errors.New("the packages cannot be judged")

// Run returns the findings of all rules, sorted by file and line. Paths are relative to cfg.Dir.
func Run(ctx context.Context, cfg Config) ([]Finding, error) {
	out, err := cfg.goVet(ctx, "-json")
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("find directory %s: %w", cfg.Dir, err)
	}
	return parse(dir, out)
}

// Fix applies the suggested edits of the rules to the files. The error contains the output of go
// vet.
func Fix(ctx context.Context, cfg Config) error {
	_, err := cfg.goVet(ctx, "-fix")
	return err
}

// Diff returns the suggested edits of the rules as a unified diff.
func Diff(ctx context.Context, cfg Config) ([]byte, error) {
	out, err := cfg.goVet(ctx, "-fix", "-diff")
	if err != nil && len(out) > 0 && !bytes.Contains(out, []byte("--- ")) {
		return nil, err
	}
	if len(out) > 0 { // With -diff, go vet fails if there is a difference.
		err = nil
	}
	return out, err
}

// goVet runs go vet with the tool and returns its standard output.
func (cfg Config) goVet(ctx context.Context, flags ...string) ([]byte, error) {
	args := append([]string{"vet", "-vettool=" + cfg.Tool}, flags...)
	if cfg.Advice {
		args = append(args, "-"+adviceFlag)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, cfg.Patterns...)...)
	cmd.Dir = cfg.Dir
	cmd.Env = os.Environ()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		text := strings.TrimSpace(stderr.String())
		if text == "" {
			text = err.Error()
		}
		return stdout.Bytes(), fmt.Errorf("%w:\n%s", ErrUnsound, text)
	}
	return stdout.Bytes(), nil
}

// posed is one report in the JSON output of go vet.
type posed struct {
	Posn    string `json:"posn"`
	Message string `json:"message"`
}

// parse parses the output of go vet -json. The output contains an object for each package, with a
// list of reports for each analyzer.
func parse(dir string, out []byte) ([]Finding, error) {
	advice := named(flowcheck.Advice())
	var found []Finding
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		var packages map[string]map[string]json.RawMessage
		if err := dec.Decode(&packages); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read the output of go vet: %w", err)
		}
		for pkg, rules := range packages {
			for rule, raw := range rules {
				var list []posed
				if err := json.Unmarshal(raw, &list); err != nil {
					return nil, fmt.Errorf("%w: %s of %s: %s", ErrUnsound, rule, pkg, raw)
				}
				for _, d := range list {
					f := Finding{Rule: rule, Advice: advice[rule]}
					f.File, f.Line, f.Column = position(d.Posn)
					f.What = d.Message
					found = append(found, f)
				}
			}
		}
	}
	return sorted(dir, found), nil
}

// sorted sorts findings and removes duplicates. Duplicates occur if a file belongs to several
// packages.
func sorted(dir string, found []Finding) []Finding {
	by := make(map[diagnostic.Diagnostic]Finding)
	var ds []diagnostic.Diagnostic
	for _, f := range found {
		f.Diagnostic = diagnostic.Relative(dir, []diagnostic.Diagnostic{f.Diagnostic})[0]
		by[f.Diagnostic] = f
		ds = append(ds, f.Diagnostic)
	}
	list := []Finding{}
	for _, d := range diagnostic.Sorted(ds) {
		list = append(list, by[d])
	}
	return list
}

// position parses file:line:column. The file name may contain colons.
func position(s string) (file string, line, column int) {
	file = s
	if i := strings.LastIndexByte(file, ':'); i >= 0 {
		column, _ = strconv.Atoi(file[i+1:])
		file = file[:i]
	}
	if i := strings.LastIndexByte(file, ':'); i >= 0 {
		line, _ = strconv.Atoi(file[i+1:])
		file = file[:i]
	}
	return file, line, column
}

func named(list []*analysis.Analyzer) map[string]bool {
	set := make(map[string]bool)
	for _, a := range list {
		set[a.Name] = true
	}
	return set
}

const adviceFlag = "advice"

// IsTool reports whether the go command started this process as a vet tool with args.
func IsTool(args []string) bool {
	return len(args) > 0 && (args[0] == "-V=full" || args[0] == "-flags" || strings.HasSuffix(args[len(args)-1], ".cfg"))
}

// Tool runs this process as a vet tool with all rules. It does not return.
func Tool(args []string) {
	analyzers := flowcheck.Analyzers()
	flag.Bool(adviceFlag, false, "give advice, too")
	if slices.ContainsFunc(args, func(a string) bool { return strings.TrimLeft(strings.TrimSuffix(a, "=true"), "-") == adviceFlag }) {
		analyzers = append(analyzers, flowcheck.Advice()...)
	}
	unitchecker.Main(analyzers...)
}
