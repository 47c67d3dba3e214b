package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/cmd/flowctl/cli"
	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	orders   = shim.NewWorkflow[string, string]("shop.order", "what", shim.WorkflowPolicy{})
	verdicts = workflow.NewTopic[bool]("verdict")
	ship     = shim.NewStep("shop.ship", shim.Policy{Retry: workflow.RetryPolicy{Initial: time.Millisecond, Max: time.Millisecond}}, func(f func(context.Context, string) (string, error)) shim.Handler {
		return shim.Handle(func(ctx context.Context, what string) (string, error) { return f(ctx, what) })
	})
)

// order fails, waits or completes, depending on its input.
func order(ctx workflow.Context, what string) (string, error) {
	got, err := shim.Call[string](ctx, ship, what)
	if err != nil {
		return "", err
	}
	if what == "family" { // The run starts a child and waits for it.
		return orders.Child(ctx, "wait")
	}
	if what == "wait" {
		if _, err := verdicts.Receive(ctx); err != nil {
			return "", err
		}
	}
	return got, nil
}

// shop is a store with runs in each state that a worker can reach.
type shop struct {
	t     *testing.T
	url   string
	runs  map[string]string // run IDs by workflow ID
	codec store.Codec       // of the workers
}

// open returns a shop in a SQLite file.
func open(t *testing.T) *shop {
	t.Helper()
	return openAt(t, "sqlite:"+filepath.Join(t.TempDir(), "shop.db"))
}

// onBoth runs a test on SQLite and on Redis, which several processes can use.
func onBoth(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, "sqlite:"+filepath.Join(t.TempDir(), "shop.db")) })
	t.Run("redis", func(t *testing.T) { test(t, redistest.Start(t).URL()) })
}

func openAt(t *testing.T, url string) *shop {
	t.Helper()
	s := &shop{t: t, url: url, runs: map[string]string{}}
	s.work(func(ctx context.Context, c *workflow.Client) {
		for _, what := range []string{"good", "bad", "wait"} {
			run, err := orders.Start(ctx, c, what, workflow.WithID("order-"+what), workflow.WithTags(map[string]string{"region": "eu"}))
			if err != nil {
				t.Fatal(err)
			}
			s.runs[what] = string(run.ID())
			for start := time.Now().UnixMilli(); time.Now().UnixMilli() == start; { // Lists are sorted by milliseconds, so each run needs a different one.
				runtime.Gosched()
			}
			for {
				info, err := run.Info(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if !info.EndedAt.IsZero() || what == "wait" && info.Status == workflow.StatusWaiting {
					break
				}
				next(ctx, t, c.Run(run.ID()), info.Events)
			}
		}
		held, err := orders.Start(ctx, c, "good", workflow.WithID("order-held"), workflow.WithHold())
		if err != nil {
			t.Fatal(err)
		}
		s.runs["held"] = string(held.ID())
	})
	return s
}

// next waits until the log of a run has more than n events.
func next(ctx context.Context, t *testing.T, h *workflow.Handle, n uint64) {
	t.Helper()
	for e, err := range h.Events(ctx, workflow.From(n+1)) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq > n {
			return
		}
	}
}

// work runs a worker while f is executing.
func (s *shop) work(f func(ctx context.Context, c *workflow.Client)) {
	s.t.Helper()
	s.look(func(ctx context.Context, c *workflow.Client) {
		w := worker.New(c, worker.Config{NoLocalStart: true})
		ship.Bind(w, func(_ context.Context, what string) (string, error) {
			if strings.HasPrefix(what, "bad") {
				return "", errors.New("the carrier is \x1b[31mclosed\u202e")
			}
			return "label of " + what, nil
		})
		shim.BindWorkflow(w, orders, order)
		working, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- w.Run(working) }()
		f(ctx, c)
		stop()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	})
}

// look calls f with a client of the store, without a worker.
func (s *shop) look(f func(ctx context.Context, c *workflow.Client)) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	st, err := store.Open(ctx, s.url)
	if err != nil {
		s.t.Fatal(err)
	}
	c := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler), Codec: s.codec})
	f(ctx, c)
	if err := errors.Join(c.Close(), st.Close()); err != nil {
		s.t.Error(err)
	}
}

// got is the result of a command.
type got struct {
	code           int
	stdout, stderr string
}

func (s *shop) flowctl(args ...string) got {
	s.t.Helper()
	return flowctl(s.t, append([]string{"--store", s.url}, args...)...)
}

func flowctl(t *testing.T, args ...string) got {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := cli.Main(t.Context(), cli.Config{Args: args, Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr})
	return got{code, stdout.String(), stderr.String()}
}

func (s *shop) wants(code int, stdout, stderr []string, args ...string) {
	s.t.Helper()
	g := s.flowctl(args...)
	if g.code != code {
		s.t.Errorf("flowctl %s: exit code %d, want %d", strings.Join(args, " "), g.code, code)
	}
	for what, parts := range map[string][]string{g.stdout: stdout, g.stderr: stderr} {
		for _, part := range parts {
			if !strings.Contains(what, part) {
				s.t.Errorf("flowctl %s: want %q in\n%s", strings.Join(args, " "), part, what)
			}
		}
	}
	if s.t.Failed() {
		s.t.Logf("flowctl %s\n%s\n%s", strings.Join(args, " "), g.stdout, g.stderr)
	}
}

func TestOPS1_RunsAreFoundByWhatTheyAre(t *testing.T) {
	s := open(t)
	s.wants(0, []string{"STATUS", "completed", "failed", "waiting", "held", "order-bad"}, nil, "runs")
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"held", "wait", "bad", "good"}},
		{[]string{"--oldest"}, []string{"good", "bad", "wait", "held"}},
		{[]string{"--status", "failed,completed"}, []string{"bad", "good"}},
		{[]string{"--id", "order-wait"}, []string{"wait"}},
		{[]string{"--tag", "region=eu"}, []string{"wait", "bad", "good"}},
		{[]string{"--workflow", "shop.other"}, nil},
		{[]string{"--since", "1h", "--limit", "1", "--all"}, []string{"held", "wait", "bad", "good"}},
		{[]string{"--until", "1h"}, nil},
	} {
		g := s.flowctl(append([]string{"runs", "-o", "name"}, tt.args...)...)
		want := ""
		for _, what := range tt.want {
			want += s.runs[what] + "\n"
		}
		if g.code != 0 || g.stdout != want {
			t.Errorf("runs %v: exit code %d, got\n%s, want\n%s%s", tt.args, g.code, g.stdout, want, g.stderr)
		}
	}
	g := s.flowctl("runs", "--limit", "3", "--json")
	var page admin.RunPage
	if err := json.Unmarshal([]byte(g.stdout), &page); err != nil || len(page.Runs) != 3 || page.Cursor == "" {
		t.Fatalf("first page: %v\n%s", err, g.stdout)
	}
	s.wants(0, []string{s.runs["good"]}, nil, "runs", "--cursor", page.Cursor, "-o", "name")
	s.wants(0, []string{"STATUS", "failed", "1"}, nil, "runs", "count")
	s.wants(0, []string{"WORKFLOW", "shop.order", "4"}, nil, "runs", "count", "--by", "workflow")
	s.wants(0, []string{`"exact": true`, `"total": 4`}, nil, "runs", "count", "--json")
}

func TestOPS1_ShowSaysWhyARunHasFailedAndWhatOneWaitsFor(t *testing.T) {
	s := open(t)
	s.wants(0, []string{"status", "failed", `the carrier is \u001b[31mclosed\u202e`, "step shop.ship", "actions", "retry", "\ngroup       f1-"}, nil, "show", s.runs["bad"])
	s.wants(0, []string{"waiting", "step shop.ship", "wait", `"wait"`, "cancel pause"}, nil, "show", "id:order-wait")
	s.wants(0, []string{"run_created", "step_completed", "run_completed", `"label of good"`}, nil, "show", s.runs["good"], "--events")
	if g := s.flowctl("show", s.runs["good"], "--events", "--payloads", "hide"); strings.Contains(g.stdout, "label of good") || !strings.Contains(g.stdout, "step_completed") {
		t.Errorf("payloads are hidden:\n%s", g.stdout)
	}
	g := s.flowctl("show", s.runs["bad"], "--json")
	var shown struct {
		admin.Run
		Log admin.EventPage
	}
	if err := json.Unmarshal([]byte(g.stdout), &shown); err != nil || shown.Status != "failed" || shown.Failure == nil || uint64(len(shown.Log.Events)) != shown.Events {
		t.Errorf("as JSON: %v\n%s", err, g.stdout)
	}
	for _, g := range []got{s.flowctl("show", s.runs["bad"]), s.flowctl("runs"), s.flowctl("show", s.runs["bad"], "--events")} {
		if strings.ContainsAny(g.stdout+g.stderr, "\x1b\u202e") {
			t.Errorf("what a terminal obeys gets through:\n%q", g.stdout)
		}
	}
}

func TestOPS1_FollowAndWaitEndWithTheRun(t *testing.T) {
	s := open(t)
	s.wants(0, []string{"#1 ", "run_created", "run_completed"}, nil, "follow", "id:order-good")
	s.wants(0, []string{`"label of good"`}, nil, "wait", "id:order-good")
	s.wants(8, nil, []string{"failed", "carrier"}, "wait", "id:order-bad")
	s.wants(124, nil, []string{"try again, or allow more time"}, "wait", "id:order-wait", "--timeout", "20ms")
	s.wants(124, []string{"step_completed"}, nil, "follow", "id:order-wait", "--timeout", "200ms")
}

func TestOPS1_ActionsDoWhatTheySay(t *testing.T) {
	s := open(t)
	s.wants(0, []string{s.runs["wait"], "done"}, nil, "pause", s.runs["wait"])
	s.wants(0, []string{"done"}, nil, "cancel", s.runs["wait"], "--reason", "nobody wants it")
	s.wants(0, []string{"done"}, nil, "release", s.runs["held"])
	g := s.flowctl("retry", s.runs["bad"], "-o", "name")
	if g.code != 0 || len(g.stdout) < 20 {
		t.Fatalf("retry: %+v", g)
	}
	again := strings.TrimSpace(g.stdout)
	s.work(func(ctx context.Context, c *workflow.Client) {
		for _, id := range []string{s.runs["wait"], s.runs["held"], again} {
			for _, err := range c.Run(workflow.RunID(id)).Events(ctx) {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	})
	s.wants(0, []string{"cancelled", "nobody wants it", "resume-new"}, nil, "show", s.runs["wait"])
	s.wants(0, []string{"completed"}, nil, "show", s.runs["held"])
	s.wants(0, []string{"failed"}, nil, "show", again)
	g = s.flowctl("restart", s.runs["good"], "-o", "name")
	alone := strings.TrimSpace(g.stdout) // No worker serves the run.
	s.wants(2, nil, []string{"give -y"}, "delete", s.runs["held"])
	s.wants(0, []string{"done"}, nil, "delete", "-y", s.runs["held"])
	s.wants(3, nil, nil, "show", s.runs["held"])
	s.wants(5, []string{s.runs["bad"], "is failed", "done"}, nil, "pause", s.runs["bad"], "id:order-good")
	s.wants(2, nil, []string{"give -y"}, "terminate", alone)
	s.wants(0, []string{"done"}, nil, "terminate", "-y", alone, "--reason", "its code is gone")
	s.wants(0, []string{"cancelled", "terminated without its code: its code is gone"}, nil, "show", alone)
}

func TestOPS1_BadInputIsAnsweredWithTheFixAndItsExitCode(t *testing.T) {
	s := open(t)
	for _, tt := range []struct {
		code int
		want string
		args []string
	}{
		{2, "use one of pending", []string{"runs", "--status", "stuck"}},
		{2, "write --tag region=eu", []string{"runs", "--tag", "region"}},
		{2, "use the one of the previous page", []string{"runs", "--cursor", "page 2"}},
		{2, "swap them", []string{"runs", "--since", "1h", "--until", "2h"}},
		{2, "is not a time", []string{"runs", "--since", "yesterday"}},
		{2, "request 1 to 1000", []string{"runs", "--limit", "100000"}},
		{2, "name the run as id:order-good", []string{"show", "order-good"}},
		{2, "the workflow id is empty", []string{"show", "id:"}},
		{2, "use one of table", []string{"runs", "-o", "xml"}},
		{2, "use show or hide", []string{"runs", "--payloads", "some"}},
		{2, "unknown command", []string{"drop"}},
		{2, "unknown flag", []string{"runs", "--colour"}},
		{2, "see flowctl --help", []string{"show"}},
		{2, "the step to fork from is missing", []string{"fork", s.runs["good"]}},
		{3, "not found", []string{"show", "id:nobody"}},
		{3, "step", []string{"fork", s.runs["good"], "--step", "nothing"}},
		{4, "is completed", []string{"pause", s.runs["good"]}},
		{4, "", []string{"retry", s.runs["good"]}},
		{4, "", []string{"delete", "-y", s.runs["wait"]}},
		{4, "WithDebug", []string{"step", s.runs["wait"]}},
	} {
		s.wants(tt.code, nil, []string{tt.want}, tt.args...)
		if slices.Contains(tt.args, "-o") {
			continue
		}
		g := s.flowctl(append(tt.args, "--json")...)
		var p admin.Problem
		if err := json.Unmarshal([]byte(g.stderr), &p); err != nil || p.Exit != tt.code || p.Detail == "" || p.Status < 400 {
			t.Errorf("flowctl %s as JSON: exit code %d, %v\n%s", strings.Join(tt.args, " "), g.code, err, g.stderr)
		}
	}
	if g := flowctl(t, "runs", "--store", ""); g.code != 2 || !strings.Contains(g.stderr, "FLOWGEN_STORE") {
		t.Errorf("no store: %+v", g)
	}
	if g := flowctl(t, "runs", "--store", "tape:1"); g.code != 1 || !strings.Contains(g.stderr, "known are") {
		t.Errorf("a store of an unknown kind: %+v", g)
	}
}

func TestOPS1_WhatIsNoStoreOfThisReleaseHasAnExitCode(t *testing.T) {
	s := open(t)
	other := filepath.Join(t.TempDir(), "other.db")
	if err := os.WriteFile(other, []byte("This is no database, however long one reads it. "+strings.Repeat("x", 4096)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.setFormat(99)
	for _, tt := range []struct {
		code int
		want string
		url  string
	}{
		{4, "other.db", "sqlite:" + other},
		{3, "does not exist", "sqlite:" + other + "2"},
		{4, "has format version 99, this release", s.url},
	} {
		for _, command := range []string{"runs", "doctor", "fsck"} {
			if g := flowctl(t, command, "--store", tt.url); g.code != tt.code || !strings.Contains(g.stderr, tt.want) {
				t.Errorf("flowctl %s --store %s: %+v, want exit code %d and %q", command, tt.url, g, tt.code, tt.want)
			}
		}
	}
}

// setFormat changes the format version in the SQLite file.
func (s *shop) setFormat(version int) {
	s.t.Helper()
	conn, err := sqlite.OpenConn(strings.TrimPrefix(s.url, "sqlite:"), sqlite.OpenReadWrite)
	if err != nil {
		s.t.Fatal(err)
	}
	err = sqlitex.ExecuteTransient(conn, fmt.Sprintf(`PRAGMA user_version = %d`, version), nil)
	if err = errors.Join(err, conn.Close()); err != nil {
		s.t.Fatal(err)
	}
}

func TestOPS1_ShellsCompleteWhatTheStoreHas(t *testing.T) {
	s := open(t)
	for _, tt := range []struct {
		want string
		args []string
	}{
		{s.runs["wait"] + "\twaiting shop.order", []string{"__complete", "--store", s.url, "cancel", ""}},
		{"shop.order", []string{"__complete", "--store", s.url, "runs", "--workflow", ""}},
		{"blocked", []string{"__complete", "runs", "--status", ""}},
	} {
		if g := flowctl(t, tt.args...); !strings.Contains(g.stdout, tt.want) {
			t.Errorf("flowctl %s: want %q in\n%s%s", strings.Join(tt.args, " "), tt.want, g.stdout, g.stderr)
		}
	}
	if g := flowctl(t, "completion", "bash"); g.code != 0 || !strings.Contains(g.stdout, "__start_flowctl") {
		t.Errorf("completion: %+v", g)
	}
}

// The test proves that a program can add a store that flowctl does not support.
func TestOPS1_AProgramAddsAStoreOfItsOwn(t *testing.T) {
	s := open(t)
	var stdout bytes.Buffer
	code := cli.Main(t.Context(), cli.Config{
		Args: []string{"runs", "--store", "ours:shop"}, Stdout: &stdout, Stderr: &stdout,
		Open: func(ctx context.Context, url string) (store.Store, error) {
			if url != "ours:shop" {
				t.Errorf("it opens %q", url)
			}
			return store.Open(ctx, s.url)
		},
	})
	if code != 0 || !strings.Contains(stdout.String(), "order-wait") {
		t.Errorf("exit code %d\n%s", code, &stdout)
	}
}

// commands returns the arguments of all subcommands of a command, according to the help of the
// command.
func commands(t *testing.T, under ...string) (all [][]string) {
	t.Helper()
	help := flowctl(t, append(slices.Clone(under), "--help")...).stdout
	_, list, _ := strings.Cut(help, "Available Commands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	for line := range strings.Lines(list) {
		name := strings.Fields(line)[0]
		if name == "help" || name == "completion" { // cobra adds these commands.
			continue
		}
		one := append(slices.Clone(under), name)
		all = append(append(all, one), commands(t, one...)...)
	}
	return all
}

// required matches the usage of a command with required arguments.
var required = regexp.MustCompile(`(?m)^  flowctl [a-z -]+ [A-Z]`)

func TestOPS1_EachCommandRefusesWhatItDoesNotTakeWithExitCode2(t *testing.T) {
	all := commands(t)
	if len(all) < 50 {
		t.Fatalf("%d commands: that is too few to say something", len(all))
	}
	missing := "sqlite:" + filepath.Join(t.TempDir(), "none.db") // Exit code 3 proves that the command opened the store.
	for _, one := range all {
		name := strings.Join(one, " ")
		many := []string{"1", "2", "3", "4", "5"}
		if slices.Contains(admin.Actions(), name) || name == "export" { // These commands accept any number of runs, but either runs or a filter.
			many = append(many, "--status", "failed")
		}
		wrong := [][]string{{"--no-such-flag"}, {"--timeout", "soon"}, {"--output", "xml"}, many}
		if use := flowctl(t, append(slices.Clone(one), "--help")...).stdout; required.MatchString(use) {
			wrong = append(wrong, nil)
		}
		for _, more := range wrong {
			g := flowctl(t, slices.Concat([]string{"--store", missing}, one, more)...)
			if g.code != 2 || g.stderr == "" || g.stdout != "" {
				t.Errorf("flowctl %s %v: %+v, want exit code 2", name, more, g)
			}
		}
		if g := flowctl(t, append(slices.Clone(one), "--no-such-flag", "--json")...); g.code != 2 || !strings.Contains(g.stderr, `"code":"input"`) {
			t.Errorf("flowctl %s as JSON: %+v", name, g)
		}
	}
}
