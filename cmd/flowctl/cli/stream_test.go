package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/cmd/flowctl/cli"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore"
)

// hostileChunk is a chunk with control characters. flowctl must not print it unchanged to a
// terminal.
const hostileChunk = "odd \x1b[31m\u202e"

var (
	talks  = shim.NewWorkflow[string, string]("shop.talk", "what", shim.WorkflowPolicy{})
	words  = workflow.NewStream[string]("words")
	recent = workflow.NewStream[int]("recent \x1b[31m", workflow.KeepLast(2))
)

// talk writes to two streams. It continues with each verdict until a verdict is false.
func talk(ctx workflow.Context, what string) (string, error) {
	for i := range 5 {
		recent.Write(ctx, i+1)
	}
	words.Write(ctx, "hello")
	words.Write(ctx, hostileChunk)
	for n := 0; ; n++ {
		more, err := verdicts.Receive(ctx)
		if err != nil || !more {
			return what, err
		}
		words.Write(ctx, fmt.Sprint("more ", n))
	}
}

// talking executes a run of talk while f is executing.
func talking(t *testing.T, f func(s *shop, run *workflow.Run[string])) {
	t.Helper()
	s := open(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	st, err := sqlitestore.Open(strings.TrimPrefix(s.url, "sqlite:"))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	c := workflow.NewClient(st, workflow.ClientConfig{})
	defer c.Close()
	w := worker.New(c, worker.Config{NoLocalStart: true})
	shim.BindWorkflow(w, talks, talk)
	working, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(working) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	run, err := talks.Start(ctx, c, "well", workflow.WithID("talk"))
	if err != nil {
		t.Fatal(err)
	}
	for c, err := range words.Read(ctx, run) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Index == 2 {
			break
		}
	}
	f(s, run)
}

func TestOPS1_StreamPrintsAndFollowsWhatARunWrites(t *testing.T) {
	talking(t, func(s *shop, run *workflow.Run[string]) {
		id := string(run.ID())
		s.wants(0, []string{"\"hello\"\n", `odd \u001b[31m\u202e`}, []string{"the stream is still open: use --follow to print new chunks"}, "stream", "id:talk", "words")
		if g := s.flowctl("stream", id, "words"); strings.ContainsAny(g.stdout, "\x1b\u202e") {
			t.Errorf("the terminal would obey %q", g.stdout)
		}
		var page admin.ChunkPage
		g := s.flowctl("stream", id, "words", "--json")
		if err := json.Unmarshal([]byte(g.stdout), &page); err != nil || page.Run != id || page.Last != 2 || len(page.Chunks) != 2 || page.Ended {
			t.Errorf("as JSON: %+v, %v", g, err)
		}
		fits(t, "ChunkPage", g.stdout)
		s.wants(0, []string{`"index":2,`}, nil, "stream", id, "words", "--from", "2", "-o", "jsonl")
		if g := s.flowctl("stream", id, "words", "--payloads", "hide"); strings.Contains(g.stdout, "hello") || g.stdout != "null\nnull\n" {
			t.Errorf("hidden: %q", g.stdout)
		}
		s.wants(0, nil, nil, "stream", id, "unwritten")
		s.wants(3, nil, nil, "stream", "id:nobody", "words")
		s.wants(2, nil, nil, "stream", id, strings.Repeat("x", 201))
		out := newOutput()
		ended := make(chan int, 1)
		go func() {
			ended <- cli.Main(t.Context(), cli.Config{Args: []string{"--store", s.url, "stream", "id:talk", "words", "--follow", "--from", "2"}, Stdin: strings.NewReader(""), Stdout: out, Stderr: newOutput()})
		}()
		out.has(t, `\u001b`)
		for _, more := range []bool{true, false} { // The first verdict causes another chunk, and the second one ends the run.
			if err := verdicts.Send(t.Context(), run, more); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case code := <-ended:
			if got := out.String(); code != 0 || strings.Count(got, "\n") != 2 || !strings.HasSuffix(got, "\"more 0\"\n") {
				t.Errorf("followed: exit code %d\n%s", code, got)
			}
		case <-time.After(time.Minute):
			t.Fatal("the end of the run does not end it")
		}
		g = s.flowctl("stream", id, recent.Name(), "--from", "2", "--follow")
		if g.code != 0 || g.stdout != "4\n5\n" || !strings.Contains(g.stderr, "it continues with 4") {
			t.Errorf("what is not kept any more: %+v", g)
		}
	})
}

func TestOPS1_StreamsOfARunAreListedAndShown(t *testing.T) {
	talking(t, func(s *shop, run *workflow.Run[string]) {
		s.wants(0, []string{"STREAM", `recent \u001b[31m  4      5     open`, "words", "strm_"}, nil, "stream", "id:talk")
		if g := s.flowctl("stream", "id:talk", "-o", "name"); g.stdout != "recent \\u001b[31m\nwords\n" {
			t.Errorf("names: %q", g.stdout)
		}
		fits(t, "StreamList", s.flowctl("stream", "id:talk", "--json").stdout)
		s.wants(0, []string{`stream      recent \u001b[31m: 5 chunks, open`, "words: 2 chunks, open"}, nil, "show", "id:talk")
		s.wants(0, []string{`"streams"`, `"strm_`}, nil, "show", "id:talk", "--json")
		s.wants(0, nil, nil, "stream", s.runs["good"])
		s.wants(2, nil, []string{"follow: no stream is given"}, "stream", "id:talk", "--follow")
		if g := s.flowctl("__complete", "stream", "id:talk", ""); !strings.Contains(g.stdout, "words\n") {
			t.Errorf("completion: %+v", g)
		}
		server := s.serve("127.0.0.1:0")
		if g := flowctl(t, "--server", server.url, "show", "id:talk"); g.code != 0 || !strings.Contains(g.stdout, "words: 2 chunks, open") {
			t.Errorf("over a server: %+v", g)
		}
	})
}
