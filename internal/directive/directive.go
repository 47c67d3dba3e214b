// Package directive parses the comments that control the generator, such as //flow:step and
// //flow:workflow.
//
// It processes only the text of comments, without types and files. [Parse] converts a comment into
// a [Directive] or a list of problems. [NearMiss] recognizes comments that were meant as a
// directive but have a form that Go tools treat as plain text, such as "// flow:step". The grammar:
//
//	directive = "//flow:" kind { space option }
//	value     = text without spaces, or a Go string literal
//	option    = name | name "=" value
//
// Quotes inside a value protect spaces and remain part of the value. The table in option.go lists
// the options of each kind.
package directive

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/internal/spelling"
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

// Directive is one parsed comment. The zero value of an option means that the option is missing or
// zero. [Directive.Has] distinguishes the two.
type Directive struct {
	Kind Kind
	Pos  token.Pos // position of the comment

	As            string // Go name
	Name          string // stored name; for a package, the prefix of stored names
	Register      string // Go name of the generated Register
	Steps         string // Go name of the generated Steps
	Client        Text   // directory of the client of a package, relative to the package
	Queue         string
	Key           Text
	Retries       int
	Backoff       Backoff
	Jitter        float64
	Total         time.Duration
	Timeout       time.Duration
	Retention     time.Duration
	Children      int
	Schedule      string // schedule in the syntax of internal/cron
	Priority      Text
	Fair, Share   Text          // expressions of fair=; Share may be empty
	Singleton     Text          // expression of singleton=
	Active        string        // policy of singleton=: skip, replace, latest or queue
	Collect       Text          // expression of debounce= or batch=
	Quiet, Most   time.Duration // durations of debounce= and batch=
	Full          int           // number of starts in a full batch
	StartWithin   time.Duration
	Rerun         int     // maximum number of reruns of a failed run
	RerunBackoff  Backoff // delays between reruns
	Fatal         []Reference
	Uses          []Use
	Wire          []Wire      // stored names of parameters
	Errors        []Reference // error variables of other packages
	Start         string      // first step of a machine
	Max           int         // maximum number of steps that a machine starts; 0 means no limit
	Catch         string      // step of the machine that follows a failure of this machine step
	NonIdempotent bool
	Pin           bool   // runs stay on the build that started them
	After         []Text // after= of a step of a graph
	Each          Text   // each= of a step of a graph: the step whose result elements the step runs for
	If            Text   // predicate of a step of a graph
	OnFail        string // "finish" for a graph, "skip" for a step of a graph
	Result        Text   // step that returns the result of a graph

	given map[string]token.Pos
}

// At returns the position of the named option, or the position of the directive if the option is
// missing.
func (d Directive) At(option string) token.Pos {
	if pos, ok := d.given[option]; ok {
		return pos
	}
	return d.Pos
}

// Has reports whether the directive contains the named option.
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

// Is reports whether c begins like a directive. [Parse] must check such a comment.
func Is(c *ast.Comment) bool {
	return strings.HasPrefix(c.Text, prefix) && !strings.HasPrefix(strings.TrimPrefix(c.Text, prefix), " ") &&
		!strings.HasPrefix(strings.TrimPrefix(c.Text, prefix), "\t")
}

// Parse parses c, for which [Is] must be true. It returns the directive and all problems. If there
// are problems, the directive contains only the valid options. Parse ignores the text of
// //flow:ignore.
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
	if near := spelling.Nearest(word, names); near != "" {
		p.Fix = "did you mean " + prefix + near + "?"
		return p
	}
	p.Fix = "use " + prefix + "step, " + prefix + "workflow, " + prefix + "machine, " + prefix + "dag, " + prefix + "error or " + prefix + "package"
	return p
}

func unavailable(pos token.Pos, what string) Problem {
	return Problem{pos, what + " is not available in this version of flowgen", "remove it"}
}
