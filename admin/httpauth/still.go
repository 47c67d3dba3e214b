package httpauth

import (
	"errors"
	"net/http"

	"github.com/flowgen/flowgen/admin"
)

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
