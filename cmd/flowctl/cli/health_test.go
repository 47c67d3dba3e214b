package cli_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/internal/testutil/redistest"
)

// reads returns the status and the body of an answer to a request without credentials.
func (p *server) reads(t *testing.T, path string) (status int, body string) {
	t.Helper()
	answer, err := http.Get(p.url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// becomes waits until a path has an answer.
func (p *server) becomes(t *testing.T, path string, status int, body string) {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; {
		gotStatus, gotBody := p.reads(t, path)
		if gotStatus == status && gotBody == body {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%s: got %d %s, want %d %s", path, gotStatus, gotBody, status, body)
		}
	}
}

const (
	isOK    = `{"status":"ok"}` + "\n"
	noStore = `{"status":"unavailable","reasons":["store: the store does not answer"]}` + "\n"
)

// TestOPS7_ServeReportsItsHealthWithoutCredentials proves that a server with tokens answers probes,
// whose requests have none, and that nothing else is open.
func TestOPS7_ServeReportsItsHealthWithoutCredentials(t *testing.T) {
	t.Parallel()
	s := open(t)
	entry, _ := admin.NewToken(admin.Token{Name: "ada", Role: admin.RoleViewer, Expires: time.Now().Add(time.Hour)})
	tokens, err := json.Marshal([]admin.Token{entry})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "tokens.json")
	if err := os.WriteFile(file, tokens, 0o600); err != nil {
		t.Fatal(err)
	}
	p := s.serve("127.0.0.1:0", "--tokens", file)
	p.becomes(t, "/livez", 200, isOK)
	p.becomes(t, "/readyz", 200, isOK)
	if status, _ := p.reads(t, "/v1/runs"); status != 401 {
		t.Errorf("a list of runs without a token: got %d", status)
	}
}

// TestOPS7_ServeIsNotReadyWithoutItsStore proves that a server is live and not ready while its Redis
// server is down, and ready again without a restart.
func TestOPS7_ServeIsNotReadyWithoutItsStore(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, "--appendonly", "yes")
	s := openAt(t, redis.URL())
	p := s.serve("127.0.0.1:0")
	p.becomes(t, "/readyz", 200, isOK)
	redis.Kill()
	p.becomes(t, "/readyz", 503, noStore)
	p.becomes(t, "/livez", 200, isOK)
	redis.Restart(t)
	p.becomes(t, "/readyz", 200, isOK)
}

// TestOPS7_ServeReportsTheHealthOfAnExport proves that a store that can only be read is ready.
func TestOPS7_ServeReportsTheHealthOfAnExport(t *testing.T) {
	t.Parallel()
	s := open(t)
	file := filepath.Join(t.TempDir(), "runs.jsonl")
	s.wants(0, nil, nil, "export", "--all", "--out", file)
	s.url = "export:" + file
	s.serve("127.0.0.1:0").becomes(t, "/readyz", 200, isOK)
}
