// Package failuregroup computes the failure groups of runs; see [store.FailureGroup]. Runs with the same
// failure are in the same group, whatever ids, numbers and times the failure contains, and even if
// the lines of the code have moved meanwhile.
package failuregroup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/stack"
	"github.com/flowgen/flowgen/runtime/store"
)

// version is the prefix of all ids. It changes if the same failure would get another id.
const version = "f1-"

const wireStepError = "flowgen.StepError"

// set is a set of names of types, as failures contain them.
type set map[string]bool

func setOf(names string) set {
	s := set{}
	for name := range strings.FieldsSeq(names) {
		s[name] = true
	}
	return s
}

var (
	// bare are types that contain only a text, with or without a wrapped error. How often an error
	// was wrapped makes no difference.
	bare = setOf(`errors.*errorString errors.*joinError fmt.*wrapError fmt.*wrapErrors
		github.com/pkg/errors.*fundamental github.com/pkg/errors.*withStack github.com/pkg/errors.*withMessage
		golang.org/x/xerrors.*errorString golang.org/x/xerrors.*wrapError golang.org/x/xerrors.*noWrapError`)
	// carriers are types that describe where or how a failure happened, or whose value describes
	// what happened: their text is significant.
	carriers = setOf(wireStepError + ` flowgen.RunError
		io/fs.*PathError os.*LinkError os.*SyscallError os/exec.*Error os/exec.*ExitError syscall.Errno
		net.*OpError net.*DNSError net.*AddrError net/url.*Error net/textproto.*Error strconv.*NumError
		google.golang.org/grpc/internal/status.*Error github.com/jackc/pgx/v5/pgconn.*PgError
		github.com/lib/pq.*Error github.com/go-sql-driver/mysql.*MySQLError`)
)

// Failed returns the failure group of a run that has failed.
func Failed(workflow string, f *event.Failure) store.FailureGroup {
	return of(store.FailureKindFailed, workflow, stepIn(f), f)
}

// Retrying returns the failure group of a run in which an attempt of a step has failed and is
// retried.
func Retrying(workflow, step string, f *event.Failure) store.FailureGroup {
	return of(store.FailureKindRetrying, workflow, step, f)
}

// Blocked returns the failure group of a blocked run. The text what identifies the cause, for
// example the recorded operation and the one that the code requested. It must be the same for all
// runs with this cause, except for data that Mask removes.
func Blocked(workflow, what string) store.FailureGroup {
	return group(store.FailureGroup{Kind: store.FailureKindBlocked, Workflow: workflow, Text: Mask(what)}, Mask(what))
}

// of returns the group of a failure: by its code, the types of the error and of its causes, and, if
// these are not significant, the innermost message. A panic is identified by the user's function.
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

// group sets the id of a failure group.
func group(t store.FailureGroup, what ...string) store.FailureGroup {
	parts := append([]string{string(t.Kind), t.Workflow, t.Step}, what...)
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	t.Group = version + hex.EncodeToString(sum[:6])
	return t
}

// said contains the significant parts of a failure and its causes.
type said struct {
	types    []string // from the outermost to the innermost
	message  string   // of the innermost cause
	function string   // user function that has panicked; empty: none
}

// mostCauses bounds how many causes are visited, because hundreds of errors may be joined in any
// order.
const mostCauses = 32

func look(f *event.Failure) said {
	var s said
	for range mostCauses {
		if f.Type != "" && !bare[f.Type] {
			s.types = append(s.types, f.Type)
		}
		if f.Stack != "" {
			s.function = stack.Function(f.Stack)
		}
		s.message = f.Message
		if len(f.Causes) == 0 || f.Causes[0] == nil {
			break
		}
		f = f.Causes[0]
	}
	return s
}

// stepIn returns the name of the innermost step whose failure is a cause, or "".
func stepIn(f *event.Failure) (step string) {
	for range mostCauses {
		if f == nil {
			break
		}
		if f.Type == wireStepError {
			var stored struct {
				Step string `json:"step"`
			}
			if json.Unmarshal(f.Data, &stored) == nil && stored.Step != "" {
				step = stored.Step
			}
		}
		if len(f.Causes) == 0 {
			break
		}
		f = f.Causes[0]
	}
	return step
}
