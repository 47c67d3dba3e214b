package httpauth

import (
	"errors"
	"net/http"
	"strings"

	"github.com/flowgen/flowgen/admin"
)

// Identifier authenticates requests.
type Identifier interface {
	// Identify returns the principal of a request. [ErrNoCredential] means that the request has no
	// credential of the supported kind. A *admin.UnauthenticatedError means that the credential is
	// invalid. Any other error means that the credential could not be checked.
	Identify(r *http.Request) (admin.Principal, error)
}

// ErrNoCredential reports that a request has no credential.
var ErrNoCredential error = &admin.UnauthenticatedError{What: "the request has no credential"}

// First returns an Identifier that uses the first of the given Identifiers for which a request has
// a credential. It skips nil arguments. If no argument remains, Identify returns ErrNoCredential.
func First(all ...Identifier) Identifier { return first(all) }

type first []Identifier

// Identify implements [Identifier].
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

// Bearer returns an Identifier for the header Authorization: Bearer TOKEN (RFC 6750).
func Bearer(auth admin.Authenticator) Identifier { return bearer{auth} }

type bearer struct{ auth admin.Authenticator }

// Identify implements [Identifier].
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

// CheckRead returns an error for a read that a page of another origin has sent, according to the
// header Sec-Fetch-Site. [http.CrossOriginProtection] permits such reads. The page could load a
// resource as an image or a script, and derive information from the size or the timing of the
// response. Following a link is permitted, because the browser then shows the response as a page of
// its own.
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

// Still returns an error if a request in progress would be refused at present, or would have
// another principal. This is the case if its credential has expired, was revoked, or has different
// rights. Still returns nil if the credential cannot be checked, for example because the keys of an
// issuer are unavailable, and if there is no Identifier.
func Still(by Identifier, r *http.Request, who admin.Principal) error {
	if by == nil {
		return nil
	}
	now, err := by.Identify(r)
	if unknown, ok := errors.AsType[*admin.UnauthenticatedError](err); ok {
		return unknown
	}
	if who.Face = ""; err == nil && now != who {
		return &admin.UnauthenticatedError{What: "the rights of the credential have changed: repeat the request"}
	}
	return nil
}
