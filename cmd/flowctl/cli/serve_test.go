package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/cmd/flowctl/cli"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// isFlowctl is an environment variable for processes of this test. With it, the test binary
// executes flowctl.
const isFlowctl = "FLOWTEST_IS_FLOWCTL"

func TestMain(m *testing.M) {
	if at := os.Getenv(stopsAt); at != "" {
		os.Unsetenv(stopsAt)
		os.Exit(stoppingMain(at))
	}
	if after := os.Getenv(haltsAfter); after != "" {
		os.Unsetenv(haltsAfter)
		os.Exit(haltingMain(after))
	}
	if os.Getenv(isFlowctl) != "" {
		os.Unsetenv(isFlowctl)
		os.Exit(cli.Main(context.Background(), cli.Config{}))
	}
	os.Exit(m.Run())
}

// server is a flowctl process that serves the API.
type server struct {
	*exec.Cmd
	url string
}

// serve starts flowctl serve. It returns when the server listens.
func (s *shop) serve(listen string, args ...string) *server {
	s.t.Helper()
	return s.process(append([]string{"serve", "--store", s.url, "--listen", listen}, args...)...)
}

// process starts flowctl. It returns when the process has printed its address.
func (s *shop) process(args ...string) *server {
	s.t.Helper()
	program, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	p := &server{Cmd: exec.Command(program, args...)}
	p.Env = append(os.Environ(), isFlowctl+"=1")
	var stderr bytes.Buffer
	p.Stderr = &stderr
	stdout, err := p.StdoutPipe()
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if p.ProcessState == nil {
			p.kill(s.t)
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		s.t.Fatalf("the server has not said where it is: %v\n%s", err, &stderr)
	}
	p.url = strings.TrimSpace(line)
	return p
}

// kill ends the process with SIGKILL.
func (p *server) kill(t *testing.T) {
	t.Helper()
	if err := p.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = p.Wait() // Wait returns an error because the process was killed.
}

// output is a buffer that a command writes and a test reads at the same time.
type output struct {
	mu      sync.Mutex
	changed chan struct{}
	text    strings.Builder
}

func newOutput() *output { return &output{changed: make(chan struct{}, 1)} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer func() {
		select {
		case o.changed <- struct{}{}:
		default:
		}
	}()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// has waits until the output contains part.
func (o *output) has(t *testing.T, part string) {
	t.Helper()
	timeout := time.NewTimer(time.Minute)
	defer timeout.Stop()
	for !strings.Contains(o.String(), part) {
		select {
		case <-o.changed:
		case <-timeout.C:
			t.Fatalf("want %q in\n%s", part, o)
		}
	}
}

// The test proves that the follower of a run continues after the server is killed. The reader
// reconnects to the next process and receives each event once.
func TestOPS3_FollowGoesOnAfterTheServerWasKilled(t *testing.T) {
	s := open(t)
	first := s.serve("127.0.0.1:0")
	at := strings.TrimPrefix(first.url, "http://")
	remote := func(args ...string) got {
		return flowctl(t, append([]string{"--server", first.url}, args...)...)
	}
	s.work(func(ctx context.Context, c *workflow.Client) {
		g := remote("start", "shop.order", "-i", `{"what":"wait"}`, "--id", "killed", "--tag", "region=eu")
		if g.code != 0 {
			t.Fatalf("start: %+v", g)
		}
		run := strings.TrimSpace(g.stdout)
		printed, done := newOutput(), make(chan int, 1)
		go func() {
			done <- cli.Main(ctx, cli.Config{Args: []string{"--server", first.url, "follow", "id:killed", "-o", "jsonl"}, Stdin: strings.NewReader(""), Stdout: printed, Stderr: io.Discard})
		}()
		printed.has(t, `"step_completed"`) // The run then waits for a verdict.
		first.kill(t)
		if g := remote("runs"); g.code != 1 {
			t.Errorf("without a server: %+v", g)
		}
		s.serve(at)
		if g := remote("send", run, "verdict", "true", "--key", "k"); g.code != 0 {
			t.Fatalf("send: %+v", g)
		}
		if code := <-done; code != 0 {
			t.Errorf("follow: exit code %d", code)
		}
		var seqs, want []uint64
		for dec := json.NewDecoder(strings.NewReader(printed.String())); ; {
			var e admin.Event
			if err := dec.Decode(&e); err != nil {
				break
			}
			seqs, want = append(seqs, e.Seq), append(want, uint64(len(want)+1))
		}
		info, err := c.Run(workflow.RunID(run)).Info(ctx)
		if err != nil || info.Status != workflow.StatusCompleted || uint64(len(seqs)) != info.Events {
			t.Errorf("%d events of %+v, %v", len(seqs), info, err)
		}
		if diff := cmp.Diff(want, seqs); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if g := remote("wait", run); g.code != 0 || g.stdout != "\"label of wait\"\n" {
			t.Errorf("wait: %+v", g)
		}
	})
}

// The test proves that the output is the same for a server and for direct access to its store.
func TestOPS3_AServerAndItsStorePrintTheSame(t *testing.T) {
	s := open(t)
	server := s.serve("127.0.0.1:0")
	for _, args := range [][]string{
		{"runs", "--json"}, {"runs", "-o", "wide", "--status", "failed"}, {"runs", "--status", "failed", "--tag", "region=eu", "-o", "name"}, {"runs", "count", "--json"},
		{"show", s.runs["bad"], "--json"}, {"show", "id:order-good"}, {"follow", "id:order-good"}, {"wait", "id:order-bad"},
		{"show", "order-good"}, {"show", "id:nobody", "--json"}, {"pause", s.runs["good"], "--json"}, {"runs", "--status", "stuck"}, {"start", ""}, {"value", s.runs["good"], "progress", "--json"},
	} {
		direct := s.flowctl(args...)
		over := flowctl(t, append([]string{"--server", server.url}, args...)...)
		if diff := cmp.Diff(direct, over, cmp.AllowUnexported(got{})); diff != "" {
			t.Errorf("flowctl %s (-store +server):\n%s", strings.Join(args, " "), diff)
		}
	}
}

func TestOPS3_TokensSayWhoMayDoWhat(t *testing.T) {
	s := open(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var entries []string
	secrets := map[string]string{}
	for name, args := range map[string][]string{"viewer": nil, "operator": {"--role", "operator"}, "team": {"--role", "admin", "--owner", "team-a"}} {
		g := flowctl(t, append([]string{"token", "--name", name}, args...)...)
		if g.code != 0 || strings.Contains(g.stdout, strings.TrimSpace(g.stderr)) {
			t.Fatalf("token: %+v", g)
		}
		entries, secrets[name] = append(entries, g.stdout), file(name, g.stderr)
	}
	server := s.serve("127.0.0.1:0", "--tokens", file("tokens.json", "["+strings.Join(entries, ",")+"]"))
	for _, tt := range []struct {
		code int
		who  string
		args []string
	}{
		{6, "", []string{"runs"}}, {0, "viewer", []string{"runs"}}, {6, "viewer", []string{"cancel", s.runs["wait"]}}, {6, "viewer", []string{"start", "shop.order"}},
		{3, "team", []string{"show", s.runs["wait"]}}, {3, "team", []string{"cancel", s.runs["wait"]}}, {0, "team", []string{"start", "shop.order", "-i", `{"what":"good"}`, "--id", "of-team"}},
		{0, "team", []string{"show", "id:of-team"}}, {0, "operator", []string{"pause", s.runs["wait"]}}, {6, "operator", []string{"delete", "-y", s.runs["good"]}},
	} {
		args := append([]string{"--server", server.url}, tt.args...)
		if tt.who != "" {
			args = append(args, "--token-file", secrets[tt.who])
		}
		if g := flowctl(t, args...); g.code != tt.code {
			t.Errorf("%q: flowctl %s: %+v, want exit code %d", tt.who, strings.Join(tt.args, " "), g, tt.code)
		}
	}
	if g := flowctl(t, "--server", server.url, "--token-file", secrets["viewer"], "show", s.runs["good"], "--json"); g.code != 0 || strings.Contains(g.stdout, "label of good") {
		t.Errorf("a viewer sees the result: %+v", g)
	}
}

func TestOPS3_ServeRefusesStrangersWithoutTokens(t *testing.T) {
	s := open(t)
	empty := filepath.Join(t.TempDir(), "none.json")
	if err := os.WriteFile(empty, []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, listen := range []string{"0.0.0.0:0", "[::]:0", ":0", "192.168.1.7:0", "example.com:0"} {
		s.wants(2, nil, []string{"--tokens"}, "serve", "--listen", listen)
		s.wants(2, nil, []string{"--listen"}, "ui", "--no-browser", "--listen", listen)
		s.wants(2, nil, []string{"there is no token"}, "serve", "--listen", listen, "--tokens", empty)
	}
	s.wants(2, nil, []string{"cannot read the tokens"}, "serve", "--tokens", empty+"2")
	s.wants(2, nil, []string{"write 127.0.0.1:7070"}, "serve", "--listen", "127.0.0.1")
	for _, tt := range []struct {
		want string
		args []string
	}{
		{"give --store URL instead", []string{"serve", "--server", "http://127.0.0.1:1"}},
		{"give either", []string{"runs", "--server", "http://127.0.0.1:1", "--store", s.url}},
		{"give one as https", []string{"runs", "--server", "flows.example.com"}},
		{"use https", []string{"runs", "--server", "http://flows.example.com", "--token-file", empty}},
		{"cannot read the token", []string{"runs", "--server", "http://127.0.0.1:1", "--token-file", empty + "2"}},
		{"no role", []string{"token", "--name", "ada", "--role", "root"}},
		{"no name", []string{"token"}},
		{"--for", []string{"token", "--name", "ada", "--for", "-1h"}},
	} {
		if g := flowctl(t, tt.args...); g.code != 2 || !strings.Contains(g.stderr, tt.want) {
			t.Errorf("flowctl %s: %+v, want exit code 2 and %q", strings.Join(tt.args, " "), g, tt.want)
		}
	}
}

func TestOPS1_SchemaDescribesWhatIsPrinted(t *testing.T) {
	names := flowctl(t, "schema")
	for name := range strings.FieldsSeq(names.stdout) {
		g := flowctl(t, "schema", name, "--json")
		var schema map[string]any
		if err := json.Unmarshal([]byte(g.stdout), &schema); err != nil || g.code != 0 || schema["type"] != "object" || strings.Contains(g.stdout, "components") {
			t.Errorf("schema %s: %+v, %v", name, g, err)
		}
	}
	for _, want := range []string{"Run", "RunPage", "Event", "Problem", "Counts", "Shown", "Outcome", "Contents", "Imported"} {
		if !strings.Contains(names.stdout, want+"\n") {
			t.Errorf("there is no %s in\n%s", want, names.stdout)
		}
	}
	if g := flowctl(t, "schema", "Nothing"); g.code != 2 {
		t.Errorf("got %+v", g)
	}
	s := open(t)
	file, into := s.exported(), "sqlite:"+filepath.Join(t.TempDir(), "new.db")
	fits(t, "Shown", s.flowctl("show", s.runs["bad"], "--json").stdout)
	fits(t, "RunPage", s.flowctl("runs", "--json").stdout)
	fits(t, "Contents", flowctl(t, "import", file, "--json").stdout)
	g := flowctl(t, "import", file, "--into", into, "--json") // Some of the runs are refused.
	fits(t, "Imported", g.stdout)
	if g.code != 5 || !strings.Contains(g.stdout, `"refused": [`) || !strings.Contains(g.stdout, `"new": 2`) {
		t.Errorf("import: %+v", g)
	}
	for line := range strings.Lines(s.flowctl("cancel", s.runs["wait"], s.runs["good"], "-o", "jsonl").stdout) {
		fits(t, "Outcome", line)
	}
}

// fits checks that a JSON output conforms to its schema in the output of flowctl schema.
func fits(t *testing.T, name, printed string) {
	t.Helper()
	g := flowctl(t, "schema", name, "--json")
	schema, err := jsonschema.UnmarshalJSON(strings.NewReader(g.stdout))
	if err != nil {
		t.Fatalf("schema %s: %v\n%s", name, err, g.stdout)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schema.json", schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := compiler.Compile("schema.json")
	if err != nil {
		t.Fatalf("schema %s: %v", name, err)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(printed))
	if err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	if err := resolved.Validate(value); err != nil {
		t.Errorf("%v: not of the schema %s:\n%s", err, name, printed)
	}
	if object, ok := value.(map[string]any); ok { // The schema must not be trivial.
		for _, field := range resolved.Required {
			less := maps.Clone(object)
			delete(less, field)
			if resolved.Validate(less) == nil {
				t.Errorf("schema %s: without %s it fits all the same", name, field)
			}
		}
	}
}
