package httpauth

import (
	"errors"
	"net/http"
	"strings"

	"github.com/flowgen/flowgen/admin"
)

// Identifier says who sends a request.
type Identifier interface {
	// Identify returns who sends a request. [ErrNoCredential] says that the request has nothing of the kind that is
	// looked for, a *admin.UnauthenticatedError that what it has is nobody's; after any other error that is not known.
	Identify(r *http.Request) (admin.Principal, error)
}

// ErrNoCredential says that a request does not say who sends it.
var ErrNoCredential error = &admin.UnauthenticatedError{What: "the request has no credential"}

// First returns an Identifier that asks the given ones in order: the first for which the request has a credential
// decides. Nil ones are left out; without any, no request has one.
func First(all ...Identifier) Identifier { return first(all) }

type first []Identifier

// Identify is part of Identifier.
func (f first) Identify(r *http.Request) (admin.Principal, error) {
	for _, one := range f {
		if one == nil {
			continue
		}
		if p, err := one.Identify(r); !errors.Is(err, ErrNoCredential) {
			return p, err
		}
	}
	return admin.Principal{}, ErrNoCredential
}

// Bearer returns an Identifier that takes the header Authorization: Bearer TOKEN (RFC 6750).
func Bearer(auth admin.Authenticator) Identifier { return bearer{auth} }

type bearer struct{ auth admin.Authenticator }

// Identify is part of Identifier.
func (b bearer) Identify(r *http.Request) (admin.Principal, error) {
	given := r.Header.Values("Authorization")
	if len(given) == 0 {
		return admin.Principal{}, ErrNoCredential
	}
	scheme, credential, ok := strings.Cut(given[0], " ")
	if len(given) > 1 || !ok || !strings.EqualFold(scheme, "Bearer") || credential == "" {
		return admin.Principal{}, &admin.UnauthenticatedError{What: "the header Authorization has no bearer token"}
	}
	return b.auth.Authenticate(r.Context(), credential)
}
