package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/cmd/flowctl/cli"
	"github.com/flowgen/flowgen/runtime/store"
)

// stopsAt is an environment variable for processes of this test that execute flowctl. With it, the
// process halts forever at an entry of the journal, either before or after the nth write. Writes
// are counted from 1.
const stopsAt = "FLOWTEST_STOPS_AT"

// stopping is the store of a process that halts.
type stopping struct {
	store.Store
	at    int
	after bool
	n     atomic.Int64
}

func (s *stopping) Unwrap() store.Store { return s.Store }

// Entries implements store.Entries.
func (s *stopping) Entries(ctx context.Context, q store.EntryQuery) ([]store.Entry, error) {
	e, _ := store.As[store.Entries](s.Store)
	return e.Entries(ctx, q)
}

// WriteEntry implements store.Entries.
func (s *stopping) WriteEntry(ctx context.Context, w store.EntryWrite) error {
	here := int(s.n.Add(1)) == s.at
	stop := func() {
		fmt.Println("midway")
		select {}
	}
	if here && !s.after {
		stop()
	}
	e, _ := store.As[store.Entries](s.Store)
	err := e.WriteEntry(ctx, w)
	if here {
		stop()
	}
	return err
}

// stoppingMain executes flowctl with a stopping store.
func stoppingMain(at string) int {
	return cli.Main(context.Background(), cli.Config{Open: func(ctx context.Context, url string) (store.Store, error) {
		st, err := store.OpenExisting(ctx, url)
		n, after := strings.CutSuffix(at, "+")
		stop, _ := strconv.Atoi(n)
		return &stopping{Store: st, at: stop, after: after}, err
	}})
}

// entries returns the entries of the journal, the newest one first.
func (s *shop) entries(args ...string) []admin.JournalEntry {
	s.t.Helper()
	g := s.flowctl(append([]string{"journal", "-o", "json", "--limit", "1000"}, args...)...)
	var page admin.JournalPage
	if err := json.Unmarshal([]byte(g.stdout), &page); err != nil {
		s.t.Fatalf("journal: %+v", g)
	}
	return page.Entries
}

// The test proves that a request of flowctl with direct access to the store is recorded in the log
// of the run. The record contains the name of the user, as in the journal.
func TestOPS3_TheLogSaysWhoHasUsedTheCommand(t *testing.T) {
	s := open(t)
	s.wants(0, nil, nil, "terminate", "-y", s.runs["held"])
	me := s.entries()[0].Principal
	s.wants(0, []string{"run_cancelled terminated without its code by " + me}, nil, "show", s.runs["held"], "--events")
	s.wants(0, []string{`"by":"` + me + `"`}, nil, "show", s.runs["held"], "--events", "-o", "jsonl")
}

// The test proves that each effect has an entry if the process is killed between the entry, the
// effect and the outcome.
func TestOPS3_AKillLeavesNoEffectWithoutItsEntry(t *testing.T) { onBoth(t, killAtEachEntry) }

func killAtEachEntry(t *testing.T, url string) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]struct {
		outcome  string
		canceled bool
	}{
		"1": {"", false}, "1+": {admin.OutcomeUnknown, false}, "2": {admin.OutcomeUnknown, true}, "2+": {admin.OutcomeDone, true},
	} {
		t.Run(at, func(t *testing.T) {
			s := openAt(t, apart(url, at))
			p := exec.Command(program, "--store", s.url, "terminate", "-y", s.runs["held"], "--reason", "by mistake")
			p.Env = append(os.Environ(), stopsAt+"="+at)
			stdout := newOutput()
			p.Stdout = stdout
			if err := p.Start(); err != nil {
				t.Fatal(err)
			}
			stdout.has(t, "midway")
			if err := p.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = p.Wait() // Wait returns an error because the process was killed.
			all := s.entries()
			outcome := ""
			if len(all) > 0 {
				e := all[0]
				if outcome = e.Outcome; len(all) != 1 || e.Action != "terminate" || e.Target != s.runs["held"] || e.Reason != "by mistake" || e.Face != admin.FaceCLI || !strings.Contains(e.Principal, "@") {
					t.Errorf("the journal has %+v", all)
				}
			}
			if outcome != want.outcome {
				t.Errorf("the outcome is %q, want %q", outcome, want.outcome)
			}
			g := s.flowctl("show", s.runs["held"], "--json")
			if got := strings.Contains(g.stdout, `"status": "canceled"`) || strings.Contains(g.stdout, `"status": "cancelled"`); got != want.canceled {
				t.Errorf("the run has ended: %v, want %v\n%s", got, want.canceled, g.stdout)
			}
		})
	}
}

// apart returns the URL of another store in the same directory or on the same server.
func apart(url, name string) string {
	if strings.HasPrefix(url, "redis") {
		return url + "?prefix=" + strings.ReplaceAll(name, "+", "after")
	}
	return strings.TrimSuffix(url, ".db") + name + ".db"
}

// The test proves that each run has an entry if a server is killed while it starts runs.
func TestOPS3_EachRunOfAKilledServerHasItsEntry(t *testing.T) { onBoth(t, killServer) }

func killServer(t *testing.T, url string) {
	s := openAt(t, url)
	server := s.serve("127.0.0.1:0")
	answered := make(chan bool, 1000)
	for worker := range 4 {
		go func() {
			for n := 0; ; n++ {
				body := fmt.Sprintf(`{"workflow":"shop.order","id":"w%d-%d","input":{"what":"a book"}}`, worker, n)
				answer, err := http.Post(server.url+"/v1/runs", "application/json", strings.NewReader(body))
				if err != nil { // The server was killed.
					return
				}
				text, _ := io.ReadAll(answer.Body)
				answer.Body.Close()
				if answer.StatusCode != http.StatusCreated && answer.StatusCode != http.StatusTooManyRequests {
					t.Errorf("start: %s: %s", answer.Status, text)
					return
				}
				answered <- answer.StatusCode == http.StatusCreated
			}
		}()
	}
	for done := 0; done < 30; {
		select {
		case ok := <-answered:
			if ok {
				done++
			}
		case <-time.After(time.Minute):
			t.Fatal("the server does not answer")
		}
	}
	server.kill(t)
	entries := map[string]string{}
	for _, e := range s.entries("--action", "start") {
		entries[e.Target] = e.Outcome
	}
	g := s.flowctl("runs", "--workflow", "shop.order", "--json", "--limit", "1000")
	var page admin.RunPage
	if err := json.Unmarshal([]byte(g.stdout), &page); err != nil {
		t.Fatal(err)
	}
	started := 0
	for _, r := range page.Runs {
		if !strings.HasPrefix(r.WorkflowID, "w") {
			continue
		}
		started++
		if o := entries["id:"+r.WorkflowID]; o != admin.OutcomeDone && o != admin.OutcomeUnknown {
			t.Errorf("run %s: its entry has the outcome %q", r.WorkflowID, o)
		}
	}
	if started < 30 {
		t.Errorf("%d runs: that is too few to say something", started)
	}
}

func TestOPS3_JournalListsWhatWasAskedFor(t *testing.T) {
	s := open(t)
	s.wants(0, nil, nil, "retry", s.runs["bad"], "--reason", "the carrier is back")
	s.wants(0, []string{`"reason":"the carrier is back"`}, nil, "journal", "--action", "retry", "-o", "jsonl")
	s.wants(0, nil, nil, "pause", s.runs["wait"], "--reason", "odd \x1b[31m\u202e")
	s.wants(4, nil, nil, "resume", s.runs["good"])
	s.wants(3, nil, nil, "cancel", "id:nobody")
	if all := s.entries("--action", "pause", "--since", "1h"); len(all) != 1 || all[0].Outcome != "ok" {
		t.Errorf("pauses: %+v", all)
	}
	s.wants(0, []string{"PRINCIPAL", "@", "cli", "pause", "odd \\u001b[31m\\u202e", "notFound", "id:nobody"}, nil, "journal")
	s.wants(0, []string{"DETAIL"}, nil, "journal", "-o", "wide", "--target", s.runs["wait"])
	s.wants(0, nil, []string{"--cursor"}, "journal", "--limit", "1")
	s.wants(0, nil, nil, "journal", "--principal", "nobody@nowhere")
	s.wants(2, nil, []string{"cursor"}, "journal", "--cursor", "no")
	s.wants(2, nil, []string{"--since"}, "journal", "--since", "yesterday")
	s.wants(2, nil, []string{"--journal-most"}, "journal", "--journal-most", "-1")
	if g := flowctl(t, "__complete", "--store", s.url, "journal", "--action", ""); !strings.Contains(g.stdout, "pause") {
		t.Errorf("completion: %+v", g)
	}
	t.Setenv("FLOWGEN_JOURNAL_MOST", "2")
	s.wants(0, nil, nil, "resume", s.runs["wait"])
	if all := s.entries(); len(all) != 2 {
		t.Errorf("%d entries, want 2: as many as the environment says", len(all))
	}
	t.Setenv("FLOWGEN_JOURNAL_MOST", "many")
	s.wants(2, nil, []string{"FLOWGEN_JOURNAL_MOST"}, "journal")
}

// The test proves that actions without a log accept a reason that is recorded in the journal, both
// directly and over a server.
func TestOPS3_ReasonsOfWhatHasNoLogAreInTheJournal(t *testing.T) {
	s := open(t)
	server := s.serve("127.0.0.1:0")
	over := &shop{t: t, url: server.url, runs: s.runs}
	s.wants(0, nil, nil, "retry", "--status", "failed", "-y", "--expect", "1", "--no-wait") // The worker of the server executes the bulk action.
	bulk := strings.Fields(s.flowctl("bulk", "-o", "name").stdout)[0]
	for why, asks := range map[string]func(args ...string) got{"here": s.flowctl, "there": func(args ...string) got {
		return flowctl(t, append(args, "--server", over.url)...)
	}} {
		for action, args := range map[string][]string{
			"start": {"start", "shop.order", "-i", `"good"`}, "send": {"send", s.runs["wait"], "other", "1"}, "ask": {"ask", s.runs["good"], "nothing", "1"}, "resume-hook": {"hooks", "resume", "nobody's"},
			"put": {"schedules", "create", "nightly", "shop.order", "--when", "every 1000h", "-i", `"good"`}, "stop": {"bulk", "stop", bulk}, "repair": {"fsck", "--repair", "-y"},
		} {
			args = append(args, "--reason", why+" "+action)
			g := asks(args...)
			all := s.entries("--action", action)
			if len(all) == 0 || all[0].Reason != why+" "+action {
				t.Errorf("%s, %s: exit code %d, %s: the journal has %+v", why, action, g.code, g.stderr, all)
			}
			if g := asks(append(args[:len(args)-1:len(args)-1], strings.Repeat("x", 1025))...); g.code != 2 || !strings.Contains(g.stderr, "shorter reason") {
				t.Errorf("%s, %s with a long reason: %+v", why, action, g)
			}
		}
	}
	s.wants(2, nil, []string{"changes nothing"}, "fsck", "--reason", "why not")
}

// The test proves that an import records its reason in the journal, and refuses a reason that is
// too long.
func TestOPS3_TheReasonsOfImportsAreInTheJournal(t *testing.T) {
	s := open(t)
	s.wants(0, nil, nil, "terminate", "-y", "id:order-wait")
	file := filepath.Join(t.TempDir(), "ended.jsonl")
	s.wants(0, nil, nil, "export", "--status", "completed,failed,cancelled", "--out", file)
	long := strings.Repeat("x", store.MaxJournalText+1)
	onBoth(t, func(t *testing.T, url string) {
		into := &shop{t: t, url: url, runs: s.runs}
		imports := func(args ...string) got {
			return flowctl(t, append([]string{"import", file, "--into", url, "--as-new"}, args...)...)
		}
		if g := imports("--reason", long); g.code != 2 || !strings.Contains(g.stderr, "shorter reason") {
			t.Errorf("import with a long reason: %+v", g)
		}
		if g := into.flowctl("runs"); g.code != 3 {
			t.Errorf("after an import that was refused: %+v, want no store", g)
		}
		if g := imports("--reason", "the region moves"); g.code != 0 {
			t.Fatalf("import: %+v", g)
		}
		for action, want := range map[string]string{"import": "the region moves", "resume-new": "the region moves"} {
			if all := into.entries("--action", action); len(all) == 0 || all[0].Reason != want {
				t.Errorf("%s: the journal has %+v, want reason %q", action, all, want)
			}
		}
	})
	if g := flowctl(t, "import", file, "--reason", "why not"); g.code != 2 || !strings.Contains(g.stderr, "give it with --into") {
		t.Errorf("a reason for a check: %+v", g)
	}
}

// The test proves that the server accepts each kind of authentication and refuses an oversized
// header.
func TestOPS3_ServeKnowsWhoAsksByProxyAndCookie(t *testing.T) {
	s := open(t)
	g := flowctl(t, "token", "--name", "ada", "--role", "operator")
	file := filepath.Join(t.TempDir(), "tokens.json")
	if err := os.WriteFile(file, []byte("["+g.stdout+"]"), 0o600); err != nil {
		t.Fatal(err)
	}
	secret := strings.TrimSpace(g.stderr)
	server := s.serve("127.0.0.1:0", "--tokens", file, "--trust-proxy-header", "X-User", "--trust-proxy-from", "127.0.0.1", "--cors-origin", "https://app.example.com",
		"--jwt-issuer", "https://issuer.example.com", "--jwt-audience", "flowgen", "--jwt-jwks-url", "http://127.0.0.1:1/jwks")
	ask := func(method, path, body string, header ...string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, server.url+path, bytes.NewReader([]byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		b, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer, string(b)
	}
	login, _ := ask("POST", "/v1/login", `{"token":"`+secret+`"}`)
	if login.StatusCode != http.StatusOK || len(login.Cookies()) != 1 {
		t.Fatalf("login: %d", login.StatusCode)
	}
	cookie := login.Cookies()[0]
	for what, tt := range map[string]struct {
		header []string
		want   int
	}{
		"nobody": {nil, 401}, "token": {[]string{"Authorization", "Bearer " + secret}, 200}, "cookie": {[]string{"Cookie", cookie.Name + "=" + cookie.Value}, 200},
		"proxy": {[]string{"X-User", "grace"}, 200}, "a JWT while the issuer is away": {[]string{"Authorization", "Bearer eyJhbGciOiJSUzI1NiJ9.e30.eA"}, 503},
		"an oversized header": {[]string{"X-Large", strings.Repeat("x", 200<<10)}, 431},
	} {
		if answer, body := ask("GET", "/v1/runs", "", tt.header...); answer.StatusCode != tt.want {
			t.Errorf("%s: got %d %s, want %d", what, answer.StatusCode, body, tt.want)
		}
	}
	if answer, _ := ask("GET", "/v1/runs", "", "Origin", "https://app.example.com"); answer.Header.Get("Access-Control-Allow-Origin") != "https://app.example.com" {
		t.Errorf("CORS: %v", answer.Header)
	}
	for _, args := range [][]string{
		{"--jwt-audience", "x"}, {"--jwt-issuer", "x"}, {"--jwt-issuer", "x", "--jwt-audience", "y", "--jwt-jwks-url", "http://example.com"}, {"--trust-proxy-header", "X-User"},
		{"--trust-proxy-from", "127.0.0.1"}, {"--trust-proxy-header", "X-User", "--trust-proxy-from", "here"}, {"--trust-proxy-header", "X-User", "--trust-proxy-from", "0.0.0.0/0"},
		{"--cors-origin", "https://app.example.com"}, {"--tokens", file, "--cors-origin", "*"}, {"--trust-proxy-header", "X-User", "--trust-proxy-from", "127.0.0.1", "--trust-proxy-role", "root"},
	} {
		s.wants(2, nil, nil, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	}
}
