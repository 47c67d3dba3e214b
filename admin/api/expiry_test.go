package api_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/api"
	"github.com/flowgen/flowgen/admin/httpauth"
)

// TestOPS3_StreamsEndWhenTheirCredentialExpires proves that a stream ends when the credential of
// its request expires.
func TestOPS3_StreamsEndWhenTheirCredentialExpires(t *testing.T) {
	var later atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	entry, secret := admin.NewToken(admin.Token{Name: "ada", Role: admin.RolePayloads, Expires: time.Now().Add(time.Hour)})
	tokens, err := admin.NewTokens([]admin.Token{entry}, now)
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, api.Config{Auth: tokens, Recheck: time.Millisecond})
	s.send("a")
	var streams []func() message
	for _, at := range []string{"/v1/runs/" + s.run + "/follow", "/v1/runs/" + s.run + "/streams/told/follow", "/v1/live?topics=" + url.QueryEscape("run:"+s.run)} {
		next := s.events(at, "Authorization: Bearer "+secret)
		if m := said(next); m.event != "event" {
			t.Fatalf("%s begins with %+v", at, m)
		}
		streams = append(streams, next)
	}
	later.Store(int64(2 * time.Hour))
	for i, next := range streams {
		m := said(next)
		for m.event == "event" { // skips events that were recorded before
			m = said(next)
		}
		if m.event != "problem" || !strings.Contains(m.data, admin.CodeUnauthenticated) {
			t.Errorf("stream %d goes on with %+v, want a problem: nobody asks any more", i, m)
		}
	}
}

// TestOPS3_PagesOfOtherOriginsReadNothing proves that a page of another origin cannot load
// anything, even if authentication is disabled, unless CORS allows its origin.
func TestOPS3_PagesOfOtherOriginsReadNothing(t *testing.T) {
	const page = "https://app.example.com"
	cors, err := httpauth.NewCORS(page)
	if err != nil {
		t.Fatal(err)
	}
	tokens, secrets := tokensOf(t, admin.Token{Name: "ada", Role: admin.RoleAdmin, Expires: time.Now().Add(time.Hour)})
	for what, tt := range map[string]struct {
		cfg    api.Config
		header []string
		want   int
	}{
		"an image":                     {header: []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"}, want: 403},
		"a page of another port":       {header: []string{"Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: cors", "Origin: http://localhost:1"}, want: 403},
		"a frame":                      {header: []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"}, want: 403},
		"a link that somebody follows": {header: []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, want: 200},
		"an own page":                  {header: []string{"Sec-Fetch-Site: same-origin"}, want: 200},
		"an address that is typed":     {header: []string{"Sec-Fetch-Site: none"}, want: 200},
		"a program":                    {want: 200},
		"an origin that may ask":       {api.Config{Auth: tokens, CORS: cors}, []string{"Sec-Fetch-Site: cross-site", "Origin: " + page, "Authorization: Bearer " + secrets[0]}, 200},
		"one that may not":             {api.Config{Auth: tokens, CORS: cors}, []string{"Sec-Fetch-Site: cross-site", "Origin: https://b.example.com", "Authorization: Bearer " + secrets[0]}, 403},
	} {
		t.Run(what, func(t *testing.T) {
			s := serve(t, tt.cfg)
			for _, at := range []string{"/v1/runs", "/v1/runs/" + s.run} {
				if g := s.ask(http.MethodGet, at, "", tt.header...); g.status != tt.want {
					t.Errorf("%s: got %d, want %d: %s", at, g.status, tt.want, g.body)
				}
			}
		})
	}
}
