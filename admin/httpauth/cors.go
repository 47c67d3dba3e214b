package httpauth

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/flowgen/flowgen/admin"
)

// CORS lets pages of listed origins ask with a bearer token. They are never let use what a browser adds by itself:
// no answer allows credentials, and a [Session] does not count on their requests.
type CORS struct{ origins []string }

// NewCORS allows origins, as https://app.example.com. There is no way to allow all.
func NewCORS(origins ...string) (*CORS, error) {
	check := http.NewCrossOriginProtection()
	for _, origin := range origins {
		if err := check.AddTrustedOrigin(origin); err != nil {
			return nil, &admin.InputError{What: fmt.Sprintf("%q is no origin: %v", origin, err), Fix: "give each one as a browser sends it: https://app.example.com"}
		}
	}
	if len(origins) == 0 {
		return nil, &admin.InputError{What: "no origin is allowed", Fix: "give one as https://app.example.com"}
	}
	return &CORS{slices.Clone(origins)}, nil
}

// Origins returns those that are allowed.
func (c *CORS) Origins() []string { return slices.Clone(c.origins) }

// Allows reports whether a request comes from a page of an allowed origin.
func (c *CORS) Allows(r *http.Request) bool {
	return slices.Contains(c.origins, r.Header.Get("Origin"))
}

// Answer writes the headers for a request of an allowed origin. It reports whether that was a preflight, to which
// nothing more is to be answered.
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
