package httpauth

import (
	"errors"
	"net/http"
)

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
