package console_test

import (
	"bufio"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/console"
	"github.com/flowgen/flowgen/admin/httpauth"
)

// TestOPS3_UpdatesOfAPageEndWithItsLogin proves that the updates of an open page end when its login
// expires.
func TestOPS3_UpdatesOfAPageEndWithItsLogin(t *testing.T) {
	var later atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	entry, secret := admin.NewToken(admin.Token{Name: "ada", Role: admin.RoleViewer, Expires: time.Now().Add(24 * time.Hour)})
	tokens, err := admin.NewTokens([]admin.Token{entry}, now)
	if err != nil {
		t.Fatal(err)
	}
	session, err := httpauth.NewSession(tokens, httpauth.SessionConfig{Lasts: time.Hour, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, console.Config{Session: session, Recheck: time.Millisecond})
	s.post("login", url.Values{"token": {secret}}, 200)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"live?page="+url.QueryEscape("/runs"), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	updates := bufio.NewReader(answer.Body)
	for line := ""; line != "event: page\n"; {
		if line, err = updates.ReadString('\n'); err != nil {
			t.Fatalf("%d, %v: no page comes", answer.StatusCode, err)
		}
	}
	later.Store(int64(2 * time.Hour))
	if _, err := io.Copy(io.Discard, updates); err != nil { // reads until the updates end
		t.Errorf("the updates do not end: %v", err)
	}
	s.get("live?page="+url.QueryEscape("/runs"), 401)
}

// TestOPS3_PagesOfOtherOriginsReadNothing proves that pages of other origins cannot load anything
// from the console, but that their links to the console work.
func TestOPS3_PagesOfOtherOriginsReadNothing(t *testing.T) {
	s := newSite(t, console.Config{})
	for _, at := range []string{"runs", "live?page=%2Fnowhere"} {
		for header, want := range map[string]int{"cross-site no-cors image": 403, "same-site cors empty": 403, "cross-site navigate iframe": 403, "cross-site navigate document": 200, "same-origin cors empty": 200, "none navigate document": 200} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+at, nil)
			if err != nil {
				t.Fatal(err)
			}
			for i, value := range strings.Fields(header) {
				r.Header.Set([]string{"Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest"}[i], value)
			}
			answer, err := s.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if _ = answer.Body.Close(); answer.StatusCode != want {
				t.Errorf("%s, %s: got %d, want %d", at, header, answer.StatusCode, want)
			}
		}
	}
}
