package directive

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"time"
)

// Kind is the word after "flow:".
type Kind string

// The kinds of directives.
const (
	Package  Kind = "package"
	Step     Kind = "step"
	Workflow Kind = "workflow"
	Error    Kind = "error"
	Machine  Kind = "machine"
	DAG      Kind = "dag"
	Ignore   Kind = "ignore"
)

var kinds = []Kind{Package, Step, Workflow, Error, Machine, DAG, Ignore}

const prefix = "//flow:"

// Directive is one parsed comment. The zero value of an option means
// that it was not given; [Directive.At] tells a given zero from none.
type Directive struct {
	Kind Kind
	Pos  token.Pos // of the comment

	As            string // Go name
	Name          string // stored name; of a package: the stored prefix
	Register      string // Go name of the generated Register
	Steps         string // Go name of the generated Steps
	Client        Text   // of a package: the directory of its client, seen from its own
	Queue         string
	Key           Text
	Retries       int
	Backoff       Backoff
	Jitter        float64
	Total         time.Duration
	Timeout       time.Duration
	Retention     time.Duration
	Children      int
	Schedule      string // as internal/cron reads it
	Priority      Text
	Fair, Share   Text          // the expressions of fair=, the second one empty if there is none
	Singleton     Text          // the expression
	Active        string        // of singleton=: skip, replace, latest or queue
	Gather        Text          // of debounce= and batch=: the expression
	Quiet, Most   time.Duration // of these
	Full          int           // of batch=
	StartWithin   time.Duration
	Rerun         int     // how often a failed run is tried again
	RerunBackoff  Backoff // of these
	Fatal         []Reference
	Uses          []Use
	Wire          []Wire      // stored names of parameters
	Errors        []Reference // sentinels of other packages
	Start         string      // of a machine: the step that it begins with
	Max           int         // of a machine: how many steps may begin; 0: any number
	Catch         string      // of a step of a machine: the step that its failure leads to
	NonIdempotent bool
	After         []Text // steps of a graph: after=
	Each          Text   // the step over whose elements one of a graph runs
	If            Text   // the predicate of a step of a graph
	OnFail        string // of a graph: finish; of a step of one: skip
	Result        Text   // of a graph: the step that has it

	given map[string]token.Pos
}

// At returns where the named option was given, or where the directive starts.
func (d Directive) At(option string) token.Pos {
	if pos, ok := d.given[option]; ok {
		return pos
	}
	return d.Pos
}

// Has reports whether the named option was given.
func (d Directive) Has(option string) bool {
	_, ok := d.given[option]
	return ok
}

// Text is a value with the position of its first byte.
type Text struct {
	Value string
	Pos   token.Pos
}

// Problem is a mistake in a directive.
type Problem struct {
	Pos  token.Pos
	What string
	Fix  string
}

// Is reports whether c is a directive by its first characters: whether it is
// for [Parse] to judge.
func Is(c *ast.Comment) bool {
	return strings.HasPrefix(c.Text, prefix) && !strings.HasPrefix(strings.TrimPrefix(c.Text, prefix), " ") &&
		!strings.HasPrefix(strings.TrimPrefix(c.Text, prefix), "\t")
}

// Parse reads c, for which [Is] holds, and returns the directive and every
// problem in it. A directive with problems holds the options that were sound.
// The text of //flow:ignore is left to its readers.
func Parse(c *ast.Comment) (Directive, []Problem) {
	text := strings.TrimPrefix(c.Text, prefix)
	word, rest := text, ""
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		word, rest = text[:i], text[i:]
	}
	d := Directive{Kind: Kind(word), Pos: c.Pos(), given: make(map[string]token.Pos)}
	switch {
	case !slices.Contains(kinds, d.Kind):
		return d, []Problem{unknownKind(c, word)}
	case d.Kind == Ignore:
		return d, nil
	}
	words, problems := split(Text{rest, c.Pos() + token.Pos(len(prefix)+len(word))})
	words, spaced := joined(words)
	problems = append(problems, spaced...)
	for _, w := range words {
		if p, ok := d.set(w); !ok {
			problems = append(problems, p)
		}
	}
	return d, problems
}

func unknownKind(c *ast.Comment, word string) Problem {
	p := Problem{Pos: c.Pos(), What: prefix + word + " is not a directive"}
	if name, option, ok := strings.Cut(word, ":"); ok && slices.Contains(kinds, Kind(name)) {
		p.Fix = "write " + prefix + name + " " + option
		return p
	}
	var names []string
	for _, k := range kinds {
		names = append(names, string(k))
	}
	if near := Nearest(word, names); near != "" {
		p.Fix = "did you mean " + prefix + near + "?"
		return p
	}
	p.Fix = "use " + prefix + "step, " + prefix + "workflow, " + prefix + "machine, " + prefix + "dag, " + prefix + "error or " + prefix + "package"
	return p
}

func unavailable(pos token.Pos, what string) Problem {
	return Problem{pos, what + " is not available in this version of flowgen", "remove it"}
}
