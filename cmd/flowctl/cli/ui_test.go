package cli_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// page requests a page of a console and returns its body. It fails the test unless the response has
// the given status.
func page(t *testing.T, r *http.Request, status int) string {
	t.Helper()
	client := &http.Client{Timeout: time.Minute}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != status {
		t.Fatalf("%s: status %d, want %d: %v\n%s", r.URL, answer.StatusCode, status, err, b)
	}
	return string(b)
}

func TestOPS2_UiOpensTheConsoleOfAStoreOnThisMachineAlone(t *testing.T) {
	s := open(t)
	ui := s.process("ui", "--store", s.url, "--no-browser")
	get := func(path string, status int, host string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, ui.url+"/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if host != "" {
			r.Host = host
		}
		return page(t, r, status)
	}
	if !strings.HasPrefix(ui.url, "http://127.0.0.1:") {
		t.Errorf("it listens at %s", ui.url)
	}
	list := get("", 200, "")
	for _, want := range []string{"<h1>Runs</h1>", s.runs["bad"], "local", "flowctl --store " + s.url + " runs"} {
		if !strings.Contains(list, want) {
			t.Errorf("%q is not on the first page\n%s", want, list)
		}
	}
	get("runs", 403, "flows.example.com")
	form := strings.NewReader(url.Values{"run": {s.runs["wait"]}, "reason": {"by the console"}}.Encode())
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, ui.url+"/act/cancel", form)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if text := page(t, r, 200); !strings.Contains(text, s.runs["wait"]) {
		t.Errorf("after cancelling: %s", text)
	}
	s.wants(0, []string{"cancel", "local", "console", "by the console"}, nil, "journal")
	ui.kill(t)
}
