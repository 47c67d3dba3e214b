package httpauth

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/flowgen/flowgen/admin"
)

// CORS allows pages of listed origins to send requests with a bearer token. It never allows
// credentials that browsers add automatically. A [Session] ignores its cookie in requests from such
// pages.
type CORS struct{ origins []string }

// NewCORS returns a CORS that allows origins such as https://app.example.com. A pattern that allows
// all origins is an error.
func NewCORS(origins ...string) (*CORS, error) {
	check := http.NewCrossOriginProtection()
	for _, origin := range origins {
		if err := check.AddTrustedOrigin(origin); err != nil {
			return nil, &admin.InputError{What: fmt.Sprintf("%q is not an origin: %v", origin, err), Fix: "give each one as a browser sends it: https://app.example.com"}
		}
	}
	if len(origins) == 0 {
		return nil, &admin.InputError{What: "no origin is allowed", Fix: "give one as https://app.example.com"}
	}
	return &CORS{slices.Clone(origins)}, nil
}

// Origins returns the allowed origins.
func (c *CORS) Origins() []string { return slices.Clone(c.origins) }

// Allows reports whether a request is from a page of an allowed origin.
func (c *CORS) Allows(r *http.Request) bool {
	return slices.Contains(c.origins, r.Header.Get("Origin"))
}

// Answer writes the headers of the response to a request from an allowed origin. It reports whether
// the request was a preflight. The response to a preflight is complete.
func (c *CORS) Answer(w http.ResponseWriter, r *http.Request) (preflight bool) {
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if !slices.Contains(c.origins, origin) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		h.Set("Access-Control-Expose-Headers", "Location, Preference-Applied, Retry-After, WWW-Authenticate")
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, Prefer")
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}
