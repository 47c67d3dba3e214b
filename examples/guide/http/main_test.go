package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/examples/guide/flows"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serving runs the program on a file until stop is called. stop returns the error of run.
func serving(t *testing.T, file string) (url string, stop func() error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, file, l) }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() { _ = stop() })
	return "http://" + l.Addr().String(), stop
}

func send(t *testing.T, method, url, body string, header ...string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

func text(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRun_AnswersAndStreamsAcrossARestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "answers.db")
	url, stop := serving(t, file)
	asked := send(t, http.MethodPost, url+"/answers", `"that"`, "Idempotency-Key", "1")
	again := send(t, http.MethodPost, url+"/answers", `"that"`, "Idempotency-Key", "1")
	location := asked.Header.Get("Location")
	if asked.StatusCode != http.StatusAccepted || location == "" || again.Header.Get("Location") != location {
		t.Fatalf("asked twice: %s at %q, %s at %q", asked.Status, location, again.Status, again.Header.Get("Location"))
	}
	const answer = "to that there is no answer"
	if got := text(t, send(t, http.MethodGet, url+location, "")); got != `"`+answer+"\"\n" {
		t.Errorf("the answer is %s", got)
	}
	words := text(t, send(t, http.MethodGet, url+location+"/words", ""))
	if !strings.HasPrefix(words, "id: 1\ndata: \"Well,\"\n\nid: 2\ndata: \"to\"\n\n") || !strings.HasSuffix(words, "event: end\ndata:\n\n") {
		t.Errorf("the words are %q", words)
	}
	if err := stop(); err != nil {
		t.Errorf("the program ended with %v", err)
	}

	url, stop = serving(t, file)
	rest := text(t, send(t, http.MethodGet, url+location+"/words", "", "Last-Event-ID", "6"))
	if want := "id: 7\ndata: \"answer\"\n\nevent: end\ndata:\n\n"; rest != want {
		t.Errorf("after event 6: %q, want %q", rest, want)
	}
	if err := stop(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
}

func TestRun_StopsAlthoughAStreamIsOpen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "answers.db")
	url, stop := serving(t, file)
	stream := send(t, http.MethodGet, url+"/answers/"+held(t, file)+"/words", "")
	if got := stream.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("the content is %s", got)
	}
	if err := stop(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
	if rest := text(t, stream); rest != "" {
		t.Errorf("the stream held %q: a browser would not ask again", rest)
	}
}

// held starts a run that writes nothing, with a separate client. It returns the ID of the run.
func held(t *testing.T, file string) string {
	t.Helper()
	st, err := sqlitestore.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	client := workflow.NewClient(st, workflow.ClientConfig{})
	run, err := flows.Reply.Start(t.Context(), client, "later", workflow.WithHold())
	if err := errors.Join(err, client.Close(), st.Close()); err != nil {
		t.Fatal(err)
	}
	return string(run.ID())
}

func TestHandler_RefusesWhatItDoesNotKnow(t *testing.T) {
	url, _ := serving(t, filepath.Join(t.TempDir(), "answers.db"))
	for what, tt := range map[string]struct {
		got  *http.Response
		want int
	}{
		"no key":         {send(t, http.MethodPost, url+"/answers", `"x"`), http.StatusBadRequest},
		"no question":    {send(t, http.MethodPost, url+"/answers", `{`, "Idempotency-Key", "1"), http.StatusBadRequest},
		"no id":          {send(t, http.MethodGet, url+"/answers/x", ""), http.StatusNotFound},
		"an unknown run": {send(t, http.MethodGet, url+"/answers/wrun_01M81YSVF837VEW6MZ3PMPFEN6/words", ""), http.StatusNotFound},
	} {
		if tt.got.StatusCode != tt.want {
			t.Errorf("%s: %s, want %d", what, tt.got.Status, tt.want)
		}
	}
}
