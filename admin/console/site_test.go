package console_test

import (
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/admintest"
	"github.com/flowgen/flowgen/admin/console"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/store"
)

// site is a console that serves the runs of a scene.
type site struct {
	*admintest.Scene
	url    string
	client *http.Client
}

func newSite(t *testing.T, cfg console.Config) *site {
	t.Helper()
	return newSiteOn(t, memstore.New(), cfg)
}

func newSiteOn(t *testing.T, st store.Store, cfg console.Config) *site {
	t.Helper()
	return newSiteOver(t, admintest.NewScene(t, st, func(_ testing.TB, direct *admin.Service) admintest.Service { return direct }), cfg)
}

// newSiteOver returns another site that serves the runs of a scene.
func newSiteOver(t *testing.T, s *admintest.Scene, cfg console.Config) *site {
	t.Helper()
	cfg.Prefix = "/flows"
	server := httptest.NewServer(console.New(s.Direct, cfg))
	t.Cleanup(server.Close)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &site{Scene: s, url: server.URL + "/flows/", client: &http.Client{Jar: jar, Timeout: time.Minute}}
}

func (s *site) do(r *http.Request) (int, string, http.Header) {
	s.Helper()
	answer, err := s.client.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	return answer.StatusCode, textOf(s, answer), answer.Header
}

// textOf reads a response to its end and returns its body.
func textOf(t testing.TB, answer *http.Response) string {
	t.Helper()
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html") {
		return string(b)
	}
	return lineEnds.ReplaceAllStringFunc(string(b), func(s string) string { // removes the line breaks of the templates
		if text := strings.TrimSpace(s); text != "" {
			return text[:1] + strings.TrimSpace(text[1:])
		}
		return " "
	})
}

// lineEnds matches line breaks in a page and the adjacent brackets.
var lineEnds = regexp.MustCompile(`>?\s*\n\s*<?`)

// get returns a page. It fails the test if the status is not want.
func (s *site) get(path string, want int) string {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		s.Fatal(err)
	}
	status, text, header := s.do(r)
	if status != want {
		s.Fatalf("GET %s: status %d, want %d\n%s", path, status, want, text)
	}
	if policy := header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'") {
		s.Errorf("GET %s has the policy %q", path, policy)
	}
	if found := inline.FindString(text); found != "" {
		s.Errorf("GET %s has %q, which the policy forbids", path, found)
	}
	return strings.ReplaceAll(text, "<wbr>", "") // removes the marks at which a line may be broken
}

// inline matches inline code that the policy forbids.
var inline = regexp.MustCompile(`<style|<script[^>]*>[^<]|<[a-z][^>]* (style|on[a-z]+)=`)

func (s *site) post(path string, form url.Values, want int) string {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), http.MethodPost, s.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	status, text, _ := s.do(r)
	if status != want {
		s.Fatalf("POST %s: status %d, want %d\n%s", path, status, want, text)
	}
	return text
}

// mainOf returns the part of a page that differs between pages.
func mainOf(text string) string {
	if _, after, ok := strings.Cut(text, "<main"); ok {
		text = after
	}
	return text[:min(len(text), 4000)]
}

func has(t testing.TB, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%q is missing in\n%s", w, mainOf(text))
		}
	}
}

func hasNot(t testing.TB, text string, unwanted ...string) {
	t.Helper()
	for _, w := range unwanted {
		if strings.Contains(text, w) {
			t.Errorf("%q is in\n%s", w, mainOf(text))
		}
	}
}

// hiddenOf returns the hidden fields of the last form of a page.
func hiddenOf(page string) url.Values {
	form := url.Values{}
	page = page[max(strings.LastIndex(page, `<form`), 0):]
	for _, f := range regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		form.Add(f[1], html.UnescapeString(f[2]))
	}
	return form
}

// TestOPS2_TemplatesHaveNoLongLines checks that the lines of templates have at most 160 characters.
func TestOPS2_TemplatesHaveNoLongLines(t *testing.T) {
	files, err := filepath.Glob("templates/*.html")
	if err != nil || len(files) < 20 {
		t.Fatalf("got %d templates, %v", len(files), err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(b), "\n") {
			if n := utf8.RuneCountInString(line); n > 160 {
				t.Errorf("%s:%d has %d characters: end the line before an element or an attribute, at most 160 are allowed", file, i+1, n)
			}
		}
	}
}
