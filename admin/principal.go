package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Role says what somebody may do. Each role may do what those before it may.
type Role string

// The roles, from the lowest to the highest.
const (
	RoleViewer   Role = "viewer"   // sees runs and logs without what they carry
	RolePayloads Role = "payloads" // also inputs, results, messages and values
	RoleOperator Role = "operator" // also acts and sends
	RoleAdmin    Role = "admin"    // also deletes
)

// Roles returns all roles, from the lowest to the highest.
func Roles() []Role { return []Role{RoleViewer, RolePayloads, RoleOperator, RoleAdmin} }

// Allows reports whether the role is the other one or a higher one. What is no role allows
// nothing, and nothing allows it.
func (r Role) Allows(other Role) bool {
	mine, asked := slices.Index(Roles(), r), slices.Index(Roles(), other)
	return asked >= 0 && mine >= asked
}

// Principal is somebody who asks.
type Principal struct {
	Name string // for limits, messages and idempotency keys
	Role Role
	// Owner limits the principal to runs with the tag owner of this value, and to those without the tag that such a run has
	// started, such as its steps on queues; empty: all runs. All others look like they were not there.
	Owner string
	// Face is that by which the principal asks, for the journal, as [FaceAPI]; empty: FaceProgram.
	Face string
}

// ownerTag is the tag that says whose a run is.
const ownerTag = "owner"

// NotAllowedError says that a principal may not do what was asked for.
type NotAllowedError struct {
	What string
	Fix  string
}

// Error says what is not allowed, and the fix.
func (e *NotAllowedError) Error() string { return e.What + ": " + e.Fix }

// Need returns a *NotAllowedError if the role of the principal does not allow what needs another one.
func (p Principal) Need(role Role, what string) error {
	if p.Role.Allows(role) {
		return nil
	}
	return &NotAllowedError{What: fmt.Sprintf("%s needs the role %s", what, role), Fix: fmt.Sprintf("use a token of that role: this one has %q", string(p.Role))}
}

// As returns the service for a principal. Whatever changes something is written into the journal, including what is
// refused: before it is done, and again with its outcome.
func (s *Service) As(p Principal) *Service {
	as := *s
	as.who, as.local, as.behalf = p, false, true
	return &as
}

// AsLocal returns the service for the named user of a process that has opened the store itself: nothing is refused, and changes
// are written into the journal with the face cli. All such users share the idempotency keys of starts.
func (s *Service) AsLocal(name string) *Service {
	as := s.As(Principal{Name: name, Role: RoleAdmin, Face: FaceCLI})
	as.local = true
	return as
}

// owned limits a filter to the runs of the principal.
func (s *Service) owned(f Filter) (Filter, error) {
	if err := s.who.Need(RoleViewer, "to see runs"); err != nil {
		return f, err
	}
	if s.who.Owner == "" {
		return f, nil
	}
	if other, ok := f.Tags[ownerTag]; ok && other != s.who.Owner {
		return f, &NotAllowedError{What: "the filter asks for runs of another owner", Fix: "leave the tag owner out: the token decides it"}
	}
	f.Tags = maps.Clone(f.Tags)
	if f.Tags == nil {
		f.Tags = map[string]string{}
	}
	f.Tags[ownerTag] = s.who.Owner
	return f, nil
}

// all returns an error if the principal may not use what concerns the runs of all owners.
func (s *Service) all(role Role, what, instead string) error {
	if err := s.who.Need(role, "to "+what); err != nil {
		return err
	}
	if s.who.Owner != "" {
		return &NotAllowedError{What: "to " + what + " is about the runs of all owners", Fix: instead}
	}
	return nil
}

// ownRuns is what a principal with an owner has instead of schedules and limits.
const ownRuns = "list and start runs: those of the token's owner"

// visible returns a run that the principal may see.
func (s *Service) visible(ctx context.Context, ref string) (Run, error) {
	if err := s.who.Need(RoleViewer, "to see runs"); err != nil {
		return Run{}, err
	}
	r, err := s.run(ctx, ref)
	if s.who.Owner == "" {
		return r, err
	}
	mine := false
	if err == nil {
		mine, err = s.mine(ctx, &r)
	}
	if err == nil && !mine || errors.Is(err, workflow.ErrRunNotFound) {
		// One text for both, so that nobody learns which runs there are.
		return Run{}, fmt.Errorf("find run %s: %w", ref, workflow.ErrRunNotFound)
	}
	return r, err
}

// mine reports whether a run is of the owner of the principal: the owner of a run is its tag, and without the tag that of its root.
func (s *Service) mine(ctx context.Context, r *Run) (bool, error) {
	owner, tagged := r.Tags[ownerTag]
	if !tagged && r.Root != "" && r.Root != r.ID {
		root, err := s.run(ctx, r.Root)
		if err != nil {
			return false, err
		}
		owner = root.Tags[ownerTag]
	}
	return owner == s.who.Owner, nil
}

// own returns the name of a run that the principal may see, for methods that ignore the principal.
func (s *Service) own(ctx context.Context, ref string) (string, error) {
	if s.who.Owner == "" {
		return ref, s.who.Need(RoleViewer, "to see runs")
	}
	r, err := s.visible(ctx, ref)
	return r.ID, err // the id, for a workflow id could be another run's by now
}

func hasOwner(r *Run) bool { _, tagged := r.Tags[ownerTag]; return tagged }

// ownBranches leaves in a tree the runs of the owner: those without the tag if that is the owner of their root.
func (s *Service) ownBranches(ctx context.Context, t *Tree) error {
	ofRoots := map[string]bool{}
	for i := range t.Runs {
		r := &t.Runs[i].Run
		if _, asked := ofRoots[r.Root]; asked || hasOwner(r) {
			continue
		}
		mine, err := s.mine(ctx, r)
		if err != nil && !errors.Is(err, workflow.ErrRunNotFound) {
			return err
		}
		ofRoots[r.Root] = err == nil && mine
	}
	t.Runs = slices.DeleteFunc(t.Runs, func(b Branch) bool {
		owner, tagged := b.Tags[ownerTag]
		return tagged && owner != s.who.Owner || !tagged && !ofRoots[b.Root]
	})
	return nil
}

// ownStream is own for what the streams of a run carry.
func (s *Service) ownStream(ctx context.Context, ref string) (string, error) {
	if err := s.who.Need(RolePayloads, "to read streams"); err != nil {
		return "", err
	}
	return s.own(ctx, ref)
}

// show leaves in a run what the principal may see and do.
func (s *Service) show(r *Run) {
	s.hide(r)
	if !s.who.Role.Allows(RoleOperator) {
		r.Actions = nil
	} else if !s.who.Role.Allows(RoleAdmin) {
		r.Actions = slices.DeleteFunc(r.Actions, func(verb string) bool { return verb == verbDelete })
	}
}

// hide takes out of a run what the principal may not see.
func (s *Service) hide(r *Run) {
	veil(s.who, r)
	if !s.who.Role.Allows(RolePayloads) {
		r.Input, r.Result, r.Failure = nil, nil, withoutData(r.Failure)
		r.Blocked = ends(r.Blocked)
		if r.Mismatch != nil {
			bare := *r.Mismatch
			bare.Diff = ""
			r.Mismatch = &bare
		}
	}
}

// ends returns the first and the last line of a text: what says why a run is blocked has the contents that differ between them.
func ends(text string) string {
	first, rest, more := strings.Cut(text, "\n")
	if !more {
		return text
	}
	return first + "\n" + rest[strings.LastIndexByte(rest, '\n')+1:]
}

func (s *Service) hideEvent(e *Event) {
	veil(s.who, e)
	if !s.who.Role.Allows(RolePayloads) {
		e.Payload, e.Failure = nil, withoutData(e.Failure)
	}
}

// withoutData returns an error without the values in it. Its text stays: it says why a run has failed.
func withoutData(f *Failure) *Failure {
	if f == nil {
		return nil
	}
	bare := *f
	bare.Data, bare.Causes = nil, nil
	for _, cause := range f.Causes {
		bare.Causes = append(bare.Causes, withoutData(cause))
	}
	return &bare
}

// veil takes the tokens of hooks out of what a principal gets who may not resume hooks: a token is all that one needs for that. They
// stand in the workflow ids of the runs that hold them, in texts of errors, and in the differences between code and log. Whatever a
// service returns to a principal goes through here; what workflows have put into payloads themselves does not.
func veil[T any](p Principal, v *T) {
	if !p.Role.Allows(RoleOperator) {
		veilValue(reflect.ValueOf(v).Elem())
	}
}

// veilValue veils all strings of a value, in copies of what it points to: others may have that, too.
func veilValue(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(veiled(v.String()))
		}
	case reflect.Pointer:
		if v.IsNil() || !v.CanSet() {
			return
		}
		own := reflect.New(v.Type().Elem())
		own.Elem().Set(v.Elem())
		veilValue(own.Elem())
		v.Set(own)
	case reflect.Slice:
		if v.IsNil() || !v.CanSet() || v.Type().Elem().Kind() == reflect.Uint8 { // payloads
			return
		}
		own := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(own, v)
		for i := range own.Len() {
			veilValue(own.Index(i))
		}
		v.Set(own)
	case reflect.Struct:
		for i := range v.NumField() {
			veilValue(v.Field(i))
		}
		if f, ok := v.Addr().Interface().(*Failure); ok && hasToken(string(f.Data)) {
			f.Data = nil
		}
	}
}

// veiledRun stands for the workflow id of a run that holds a token.
var veiledRun = event.ShownID(event.HookRunID(""))

// tokens are how tokens stand in texts, and what stands there instead.
var tokens = []struct {
	is      *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`"hook:(?:[^"\\]|\\.)*"`), `"` + veiledRun + `"`},
	{regexp.MustCompile(`\bhook:[^\s",;)]+`), veiledRun},
	{regexp.MustCompile(`\btoken "(?:[^"\\]|\\.)*"`), `token "***"`},
	{regexp.MustCompile(`(?m)^([-+] token ).*$`), "$1***"},
	{regexp.MustCompile(`\b(` + event.PrefixRun + `_[0-9A-Za-z]+)\.[A-Za-z0-9_-]{22}`), "$1.***"},
	{regexp.MustCompile(`"(?i:token)": *"(?:[^"\\]|\\.)*"`), `"token":"***"`},
}

func veiled(text string) string {
	if text = event.ShownID(text); text == veiledRun { // its token has any bytes
		return text
	}
	for _, t := range tokens {
		text = t.is.ReplaceAllString(text, t.instead)
	}
	return text
}

func hasToken(text string) bool { return text != "" && veiled(text) != text }
