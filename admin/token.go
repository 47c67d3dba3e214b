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
	"slices"
	"time"
)

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
