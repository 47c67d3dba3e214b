// Package failuregroup computes the failure groups of runs; see [store.FailureGroup]. Runs with the
// same failure are in the same group, whatever IDs, numbers and times the failure contains. The
// group does not depend on line numbers of the code.
package failuregroup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/stack"
	"github.com/flowgen/flowgen/runtime/store"
)

// version is the prefix of all group IDs. It must change if the same failure gets another ID.
const version = "f1-"

const wireStepError = "flowgen.StepError"

// set is a set of words.
type set map[string]bool

func setOf(words string) set {
	s := set{}
	for word := range strings.FieldsSeq(words) {
		s[word] = true
	}
	return s
}

var (
	// bare are error types that contain only a text and possibly a wrapped error. They are ignored,
	// so the group does not depend on how often an error was wrapped.
	bare = setOf(`errors.*errorString errors.*joinError fmt.*wrapError fmt.*wrapErrors
		github.com/pkg/errors.*fundamental github.com/pkg/errors.*withStack github.com/pkg/errors.*withMessage
		golang.org/x/xerrors.*errorString golang.org/x/xerrors.*wrapError golang.org/x/xerrors.*noWrapError`)
	// carriers are error types whose text is significant. They describe where or how a failure
	// happened, or their value describes the failure.
	carriers = setOf(wireStepError + ` flowgen.RunError
		io/fs.*PathError os.*LinkError os.*SyscallError os/exec.*Error os/exec.*ExitError syscall.Errno
		net.*OpError net.*DNSError net.*AddrError net/url.*Error net/textproto.*Error strconv.*NumError
		google.golang.org/grpc/internal/status.*Error github.com/jackc/pgx/v5/pgconn.*PgError
		github.com/lib/pq.*Error github.com/go-sql-driver/mysql.*MySQLError`)
)

// Failed returns the failure group of a failed run.
func Failed(workflow string, f *event.Failure) store.FailureGroup {
	return of(store.FailureKindFailed, workflow, stepIn(f), f)
}

// Retrying returns the failure group of a run with a failed attempt of a step that is being
// retried.
func Retrying(workflow, step string, f *event.Failure) store.FailureGroup {
	return of(store.FailureKindRetrying, workflow, step, f)
}

// Blocked returns the failure group of a blocked run. what identifies the cause, for example by the
// recorded operation and the one that the code requested. It must be the same text for all runs
// with this cause, except for data that Mask removes.
func Blocked(workflow, what string) store.FailureGroup {
	return group(store.FailureGroup{Kind: store.FailureKindBlocked, Workflow: workflow, Text: Mask(what)}, Mask(what))
}

// of returns the group of a failure. The group depends on the code and on the types of the error
// and its causes. If the types are not significant, it also depends on the innermost message. For a
// panic it depends on the user's function that panicked.
func of(kind store.FailureKind, workflow, step string, f *event.Failure) store.FailureGroup {
	t := store.FailureGroup{Kind: kind, Workflow: workflow, Step: step}
	if f == nil {
		return group(t)
	}
	said := look(f)
	t.Text = Mask(said.message)
	if said.function != "" {
		t.Text = "panic in " + said.function + ": " + t.Text
		return group(t, f.Code, said.function)
	}
	what := strings.Join(said.types, " ")
	if !slices.ContainsFunc(said.types, func(name string) bool { return !carriers[name] }) {
		return group(t, f.Code, what, t.Text)
	}
	return group(t, f.Code, what)
}

// group sets the ID of a failure group to a hash of its parts.
func group(t store.FailureGroup, what ...string) store.FailureGroup {
	parts := append([]string{string(t.Kind), t.Workflow, t.Step}, what...)
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	t.Group = version + hex.EncodeToString(sum[:6])
	return t
}

// said is the part of a failure and its causes that determines the failure group.
type said struct {
	types    []string // types of the failure and its causes, outermost first
	message  string   // message of the innermost cause
	function string   // user function that has panicked; empty if none has
}

// mostCauses bounds the number of causes that are visited. A failure may have hundreds of joined
// causes in any order.
const mostCauses = 32

// chain iterates over a failure, its first cause, the first cause of that cause, and so on.
func chain(f *event.Failure) iter.Seq[*event.Failure] {
	return func(yield func(*event.Failure) bool) {
		for n := 0; n < mostCauses && f != nil && yield(f) && len(f.Causes) > 0; n++ {
			f = f.Causes[0]
		}
	}
}

func look(f *event.Failure) said {
	var s said
	for f := range chain(f) {
		if f.Type != "" && !bare[f.Type] {
			s.types = append(s.types, f.Type)
		}
		if f.Stack != "" {
			s.function = stack.Function(f.Stack)
		}
		s.message = f.Message
	}
	return s
}

// stepIn returns the name of the innermost step whose failure is among the causes. It returns "" if
// there is none.
func stepIn(f *event.Failure) (step string) {
	for f := range chain(f) {
		if f.Type == wireStepError {
			var stored struct {
				Step string `json:"step"`
			}
			if json.Unmarshal(f.Data, &stored) == nil && stored.Step != "" {
				step = stored.Step
			}
		}
	}
	return step
}
