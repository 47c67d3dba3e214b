package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/flowgen/flowgen/examples/recipes/llmstream"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/google/go-cmp/cmp"
)

// The test proves that a client receives each word once while the model is writing. The connection
// to the model breaks after two words. The next response of the model pauses after three words
// until the client has read them. Then the client disconnects and continues at another server.
func TestLLMStream_AClientReadsEachWordOnceWhileTheModelWrites(t *testing.T) {
	ctx := limited(t)
	st := memstore.New()
	client := workflow.NewClient(st, quiet)
	var requests atomic.Int64
	read := make(chan struct{})
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		first := requests.Add(1) == 1
		for i, word := range []string{"one", "two", "three", "four"} {
			if first && i == 2 {
				panic(http.ErrAbortHandler)
			}
			if i == 3 {
				select {
				case <-read:
				case <-r.Context().Done():
				}
			}
			_, _ = fmt.Fprintf(w, "data: %s\n\n", word)
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = fmt.Fprint(w, "data: [DONE]\n\n")
	}))
	w := worker.New(client, worker.Config{})
	llmstream.Register(w, &llmstream.Model{URL: model.URL})
	working, stop := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- w.Run(working) }()
	server, other := httptest.NewServer(llmstream.Handler(client)), httptest.NewServer(llmstream.Handler(client))
	defer func() {
		http.DefaultClient.CloseIdleConnections()
		server.Close()
		other.Close()
		model.Close()
		stop()
		if err := errors.Join(<-worked, client.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	}()

	at := start(t, server.URL)
	if again := start(t, other.URL); again != at {
		t.Errorf("the repeated request is answered with %s, the first with %s", again, at)
	}
	before, last := events(t, ctx, server.URL+at, "", "three")
	close(read) // The model continues after the client has read three words.
	after, _ := events(t, ctx, other.URL+at, last, "")
	want := []string{`data: "one"`, `data: "two"`, "event: again", `data: "one"`, `data: "two"`, `data: "three"`, `data: "four"`, "event: end"}
	if diff := cmp.Diff(want, append(before, after...)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if text, err := llmstream.Answer.GetByID(client, "answer-1").Result(ctx); text != "one two three four" || err != nil {
		t.Errorf("the answer is %q: %v", text, err)
	}
}

// start requests an answer and returns its address.
func start(t *testing.T, server string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(limited(t), http.MethodPost, server+"/answers", strings.NewReader("count"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", "1")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusAccepted {
		t.Fatalf("the start is answered with %s", answer.Status)
	}
	return answer.Header.Get("Location")
}

// events reads a stream up to the word until, or to its end, and then disconnects. It returns the
// events and the ID of the last one.
func events(t *testing.T, ctx context.Context, url, last, until string) (all []string, id string) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Last-Event-ID", last)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		line := lines.Text()
		if value, ok := strings.CutPrefix(line, "id: "); ok {
			id = value
		} else if line != "" && line != "data:" {
			all = append(all, line)
		}
		if until != "" && line == fmt.Sprintf("data: %q", until) {
			break
		}
	}
	return all, id
}
