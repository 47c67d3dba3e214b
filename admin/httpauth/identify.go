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

// CheckRead returns an error for a request that a page of another origin has sent to read something, as the browser reports it in
// Sec-Fetch-Site: [http.CrossOriginProtection] lets those pass. Such a page could load what is here as an image or a script, and learn
// from its size or the time that it takes. A link that somebody follows is none: its page opens by itself, not in the page with the link.
func CheckRead(r *http.Request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return nil
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return nil
	}
	if r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" {
		return nil
	}
	return errors.New("a page of another origin has asked for it")
}

// Still returns an error if a request that is being answered would be refused by now, or would be another principal's: its credential has
// expired, was taken back, or has got other rights. If that is not known, as while the keys of an issuer cannot be had, it returns nil,
// as it does without an Identifier.
func Still(by Identifier, r *http.Request, who admin.Principal) error {
	if by == nil {
		return nil
	}
	now, err := by.Identify(r)
	if unknown, ok := errors.AsType[*admin.UnauthenticatedError](err); ok {
		return unknown
	}
	if who.Face = ""; err == nil && now != who {
		return &admin.UnauthenticatedError{What: "the rights of the credential have changed: ask again"}
	}
	return nil
}
