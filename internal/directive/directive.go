// Package directive parses the comments that control the generator, such as //flow:step and
// //flow:workflow.
//
// It processes only the text of comments, without types and files. [Parse] turns a comment into a
// [Directive] or a list of problems. [NearMiss] recognizes comments that were meant as a directive
// but have a form that Go tools treat as plain text, such as "// flow:step". The grammar:
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

// Directive is one parsed comment. The zero value of an option means that it was not given;
// [Directive.Has] distinguishes an explicit zero from a missing option.
type Directive struct {
	Kind Kind
	Pos  token.Pos // position of the comment

	As            string // Go name
	Name          string // stored name; for a package the prefix of stored names
	Register      string // Go name of the generated Register
	Steps         string // Go name of the generated Steps
	Client        Text   // for a package the directory of its client, relative to its own
	Queue         string
	Key           Text
	Retries       int
	Backoff       Backoff
	Jitter        float64
	Total         time.Duration
	Timeout       time.Duration
	Retention     time.Duration
	Children      int
	Schedule      string // in the syntax of internal/cron
	Priority      Text
	Fair, Share   Text          // the expressions of fair=; Share may be empty
	Singleton     Text          // the expression of singleton=
	Active        string        // policy of singleton=: skip, replace, latest or queue
	Collect       Text          // the expression of debounce= or batch=
	Quiet, Most   time.Duration // the durations of debounce= and batch=
	Full          int           // the size of a full batch=
	StartWithin   time.Duration
	Rerun         int     // number of reruns of a failed run
	RerunBackoff  Backoff // delays between reruns
	Fatal         []Reference
	Uses          []Use
	Wire          []Wire      // stored names of parameters
	Errors        []Reference // sentinels of other packages
	Start         string      // for a machine the first step
	Max           int         // for a machine the maximum number of started steps; 0 means no limit
	Catch         string      // for a machine step the step that follows a failure
	NonIdempotent bool
	After         []Text // after= of a graph step
	Each          Text   // each= of a graph step: the step whose result elements it runs for
	If            Text   // the predicate of a graph step
	OnFail        string // finish for a graph, skip for a graph step
	Result        Text   // for a graph the step that returns its result

	given map[string]token.Pos
}

// At returns the position of the named option, or that of the directive if the option is missing.
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

// Is reports whether c begins like a directive, so that [Parse] must check it.
func Is(c *ast.Comment) bool {
	return strings.HasPrefix(c.Text, prefix) && !strings.HasPrefix(strings.TrimPrefix(c.Text, prefix), " ") &&
		!strings.HasPrefix(strings.TrimPrefix(c.Text, prefix), "\t")
}

// Parse parses c, for which [Is] must be true. It returns the directive and all problems. A
// directive with problems contains the valid options. The text of //flow:ignore is not parsed here.
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
