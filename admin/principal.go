package admin

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Role determines the rights of a principal. Each role includes the rights of the preceding roles.
type Role string

// The roles, from the lowest to the highest.
const (
	RoleViewer   Role = "viewer"   // may read runs and logs, but no payloads
	RolePayloads Role = "payloads" // may also read inputs, results, messages and values
	RoleOperator Role = "operator" // may also act on runs and send messages
	RoleAdmin    Role = "admin"    // may also delete
)

// Roles returns all roles, from the lowest to the highest.
func Roles() []Role { return []Role{RoleViewer, RolePayloads, RoleOperator, RoleAdmin} }

// Allows reports whether the role is the other role or a higher one. It returns false if either
// role is unknown.
func (r Role) Allows(other Role) bool {
	mine, asked := slices.Index(Roles(), r), slices.Index(Roles(), other)
	return asked >= 0 && mine >= asked
}

// Principal is an authenticated caller.
type Principal struct {
	Name string // identifies the principal for rate limits, messages and idempotency keys
	Role Role
	// Owner restricts the principal to runs whose tag owner has this value. A run without the tag
	// belongs to the owner of its root; examples are the runs of steps on other queues. All other
	// runs are reported as not found. Empty means no restriction.
	Owner string
	// Face is the interface through which requests are made, such as [FaceAPI]. It is recorded in
	// the journal. Empty means FaceProgram.
	Face string
}

// ownerTag is the tag that contains the owner of a run.
const ownerTag = "owner"

// NotAllowedError reports that a principal lacks the rights for a request.
type NotAllowedError struct {
	What string
	Fix  string
}

// Error returns the reason and the fix.
func (e *NotAllowedError) Error() string { return e.What + ": " + e.Fix }

// Need returns a *NotAllowedError unless the principal's role allows the given role. The error
// contains what, which describes the request.
func (p Principal) Need(role Role, what string) error {
	if p.Role.Allows(role) {
		return nil
	}
	return &NotAllowedError{What: fmt.Sprintf("%s needs the role %s", what, role), Fix: fmt.Sprintf("use a token of that role: this one has %q", string(p.Role))}
}

// As returns a service that acts for a principal. The service records every change in the journal
// before it executes the change, and records the outcome after it. It also records refused changes.
func (s *Service) As(p Principal) *Service {
	as := *s
	as.who, as.local, as.behalf = p, false, true
	return &as
}

// AsLocal returns a service for the named user of a process with direct access to the store. The
// user has all rights. The service records changes in the journal with the face cli. All such users
// share the idempotency keys of starts.
func (s *Service) AsLocal(name string) *Service {
	as := s.As(Principal{Name: name, Role: RoleAdmin, Face: FaceCLI})
	as.local = true
	return as
}

// owned restricts a filter to the runs of the principal.
func (s *Service) owned(f Filter) (Filter, error) {
	if err := s.who.Need(RoleViewer, "to see runs"); err != nil {
		return f, err
	}
	if s.who.Owner == "" {
		return f, nil
	}
	if other, ok := f.Tags[ownerTag]; ok && other != s.who.Owner {
		return f, &NotAllowedError{What: "the filter selects runs of another owner", Fix: "remove the tag owner: the token sets it"}
	}
	f.Tags = maps.Clone(f.Tags)
	if f.Tags == nil {
		f.Tags = map[string]string{}
	}
	f.Tags[ownerTag] = s.who.Owner
	return f, nil
}

// all returns an error if the principal may not use an operation that concerns the runs of all
// owners.
func (s *Service) all(role Role, what, instead string) error {
	if err := s.who.Need(role, "to "+what); err != nil {
		return err
	}
	if s.who.Owner != "" {
		return &NotAllowedError{What: "to " + what + " covers the runs of all owners", Fix: instead}
	}
	return nil
}

// ownRuns describes the operations that a principal with an owner can use instead of schedules and
// limits.
const ownRuns = "list and start runs: those of the token's owner"

// visible returns a run if the principal may read it.
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
		// The text is the same in both cases, so that a caller cannot find out which runs exist.
		return Run{}, fmt.Errorf("find run %s: %w", ref, workflow.ErrRunNotFound)
	}
	return r, err
}

// mine reports whether a run belongs to the owner of the principal. The owner of a run is the value
// of its tag owner or, if it has no such tag, of the tag of its root.
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

// own checks that the principal may read a run, and returns a name of the run for methods that
// ignore the principal.
func (s *Service) own(ctx context.Context, ref string) (string, error) {
	if s.who.Owner == "" {
		return ref, s.who.Need(RoleViewer, "to see runs")
	}
	r, err := s.visible(ctx, ref)
	return r.ID, err // returns the ID, because the workflow ID may refer to another run later
}

func hasOwner(r *Run) bool { _, tagged := r.Tags[ownerTag]; return tagged }

// ownBranches removes the runs of other owners from a tree. A run without the tag owner belongs to
// the owner of its root.
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

// ownStream is like own, but for methods that return the contents of streams. It requires the role
// payloads.
func (s *Service) ownStream(ctx context.Context, ref string) (string, error) {
	if err := s.who.Need(RolePayloads, "to read streams"); err != nil {
		return "", err
	}
	return s.own(ctx, ref)
}

// show removes the data and the actions for which the principal has no right from a run.
func (s *Service) show(r *Run) {
	s.hide(r)
	if !s.who.Role.Allows(RoleOperator) {
		r.Actions = nil
	} else if !s.who.Role.Allows(RoleAdmin) {
		r.Actions = slices.DeleteFunc(r.Actions, func(verb string) bool { return verb == verbDelete })
	}
}

// hide removes the data that the principal may not read from a run.
func (s *Service) hide(r *Run) {
	veil(s.who, r)
	if !s.who.Role.Allows(RolePayloads) {
		r.Input, r.Result, r.Failure, r.Attributes = nil, nil, withoutData(r.Failure), KnownAttributes(r.Attributes)
		r.Blocked = ends(r.Blocked)
		if r.Mismatch != nil {
			bare := *r.Mismatch
			bare.Diff = ""
			r.Mismatch = &bare
		}
	}
}

// ends returns the first and the last line of a text. It is used for the reason of a blocked run,
// whose other lines contain payloads.
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
		e.Payload, e.Failure, e.Attributes = nil, withoutData(e.Failure), KnownAttributes(e.Attributes)
	}
}

// KnownAttributes returns the attributes that the runtime has set. Values of other attributes are
// treated as payloads.
func KnownAttributes(all map[string]string) map[string]string {
	var known map[string]string
	for _, key := range []string{event.AttributeBuild, event.AttributePrincipal} {
		if v, ok := all[key]; ok {
			if known == nil {
				known = map[string]string{}
			}
			known[key] = v
		}
	}
	return known
}

// withoutData returns a copy of a failure without the values in it. It keeps the text, which is the
// reason why a run failed.
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

// veil removes the tokens of hooks from a result unless the principal may resume hooks, because a
// token is sufficient to resume a hook. Tokens occur in the workflow IDs of the runs that hold
// them, in error texts, and in differences between code and log. All results for a principal pass
// through veil, except payloads, which workflows produce themselves.
func veil[T any](p Principal, v *T) {
	if !p.Role.Allows(RoleOperator) {
		veilValue(reflect.ValueOf(v).Elem())
	}
}

// veilValue removes tokens from all strings in a value. It copies the targets of pointers and
// slices, because other values may share them.
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
		if v.IsNil() || !v.CanSet() || v.Type().Elem().Kind() == reflect.Uint8 { // byte slices are payloads
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

// veiledRun replaces the workflow ID of a run that holds a token.
var veiledRun = event.ShownID(event.HookRunID(""))

// tokens contains patterns for tokens in texts, and their replacements.
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
	if text = event.ShownID(text); text == veiledRun { // the token in the ID of such a run may contain any bytes
		return text
	}
	for _, t := range tokens {
		text = t.is.ReplaceAllString(text, t.instead)
	}
	return text
}

func hasToken(text string) bool { return text != "" && veiled(text) != text }

// Authenticator identifies callers. [Tokens] implements it.
type Authenticator interface {
	// Authenticate returns the principal of a credential. The credential is the bearer token of a
	// request. An *[UnauthenticatedError] means that the credential is invalid. Any other error
	// means that the credential could not be checked.
	Authenticate(ctx context.Context, credential string) (Principal, error)
}

// UnauthenticatedError reports an invalid credential.
type UnauthenticatedError struct {
	What string // reason, which is not sent to the caller
}

// Error returns the reason.
func (e *UnauthenticatedError) Error() string { return e.What }

// Token is a bearer token in its stored form, from which the secret cannot be derived.
type Token struct {
	Name    string    `json:"name"`   // name of the principal; several tokens may have the same name
	SHA256  string    `json:"sha256"` // hash of the secret in hex
	Role    Role      `json:"role"`
	Owner   string    `json:"owner,omitempty"` // owner of the principal; see [Principal]
	Expires time.Time `json:"expires"`         // time from which the token is refused
}

// NewToken creates a secret and sets its hash in a copy of t. It returns the copy and the secret.
func NewToken(t Token) (Token, string) {
	var b [32]byte
	_, _ = rand.Read(b[:]) // rand.Read never returns an error
	secret := "fg_" + base64.RawURLEncoding.EncodeToString(b[:])
	sum := sha256.Sum256([]byte(secret))
	t.SHA256 = hex.EncodeToString(sum[:])
	return t, secret
}

// Tokens is a set of bearer tokens.
type Tokens struct {
	known []knownToken
	now   func() time.Time
}

type knownToken struct {
	Token
	sum [sha256.Size]byte
}

var _ Authenticator = (*Tokens)(nil)

// NewTokens returns an authenticator for the tokens. now is the clock, and nil means time.Now. If a
// token is invalid, NewTokens returns an error that names it.
func NewTokens(tokens []Token, now func() time.Time) (*Tokens, error) {
	if now == nil {
		now = time.Now
	}
	all := &Tokens{now: now}
	for i, t := range tokens {
		bad := func(what, fix string) error {
			return &InputError{What: fmt.Sprintf("token %d (%q): %s", i+1, t.Name, what), Fix: fix}
		}
		sum, err := hex.DecodeString(t.SHA256)
		switch {
		case t.Name == "":
			return nil, bad("it has no name", "name its owner")
		case err != nil || len(sum) != sha256.Size:
			return nil, bad("its sha256 is not valid", "write the SHA-256 of the secret as 64 hex digits")
		case !slices.Contains(Roles(), t.Role):
			return nil, bad(fmt.Sprintf("there is no role %q", t.Role), fmt.Sprintf("use one of %v", Roles()))
		case t.Expires.IsZero():
			return nil, bad("it never expires", "give expires, by RFC 3339")
		case slices.ContainsFunc(all.known, func(k knownToken) bool { return bytes.Equal(k.sum[:], sum) }):
			return nil, bad("another token has the same secret", "make a new one")
		}
		all.known = append(all.known, knownToken{t, [sha256.Size]byte(sum)})
	}
	if len(all.known) == 0 {
		return nil, &InputError{What: "there is no token", Fix: "create one, or no request is accepted"}
	}
	return all, nil
}

// ReadTokens reads tokens for NewTokens from a JSON array.
func ReadTokens(r io.Reader) ([]Token, error) {
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	var all []Token
	err := dec.Decode(&all)
	if err == nil {
		if _, more := dec.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("the array is followed by more data")
		}
	}
	if err != nil {
		return nil, &InputError{What: "the tokens cannot be read: " + err.Error(), Fix: `write [{"name":…,"sha256":…,"role":…,"expires":…}]`}
	}
	return all, nil
}

// Authenticate implements [Authenticator]. Its duration does not depend on how many characters of a
// secret are correct.
func (t *Tokens) Authenticate(_ context.Context, credential string) (Principal, error) {
	sum := sha256.Sum256([]byte(credential))
	found := -1
	for i := range t.known {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], t.known[i].sum[:]), i, found)
	}
	if found < 0 {
		return Principal{}, &UnauthenticatedError{What: "the token is not known"}
	}
	k := &t.known[found]
	if !t.now().Before(k.Expires) {
		return Principal{}, &UnauthenticatedError{What: "the token has expired"}
	}
	return Principal{Name: k.Name, Role: k.Role, Owner: k.Owner}, nil
}
