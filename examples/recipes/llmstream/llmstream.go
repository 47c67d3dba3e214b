// Package llmstream streams the answer of a language model to HTTP clients, word by word. A client
// that was disconnected continues at the same word, at any process. If the connection to the model
// breaks, the step begins again, and clients are notified to discard the words they have received.
//
//	go run ./examples/recipes llmstream
//
// A client sends a prompt over HTTP. The first response of the model is incomplete.
// The recipe prints:
//
//	A durable program (again) A durable program continues where it was.
//
// [examples/guide/http] shows how such a server is stopped.
package llmstream

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Words is the stream of the words of an answer.
var Words = workflow.NewStream[string]("words")

// Model contains the dependencies of the steps.
type Model struct{ URL string }

// answer returns the answer of the model to a prompt.
//
//flow:workflow
func answer(ctx workflow.Context, prompt string) (string, error) { return Complete(ctx, prompt) }

// complete reads the answer while the model writes it. The model sends a line "data: WORD" for each
// word, and [DONE] at the end. Each word is durable before the next one is read.
//
//flow:step retries=5 backoff=exponential(50ms,10s) timeout=5m
func (m *Model) complete(ctx context.Context, prompt string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL, strings.NewReader(prompt))
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the model answers %s", answer.Status)
	}
	var words []string
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		word, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !ok:
			continue
		case word == "[DONE]":
			return strings.Join(words, " "), step.Close(ctx, Words)
		}
		words = append(words, word)
		if err := step.Write(ctx, Words, word); err != nil {
			return "", err
		}
	}
	return "", errors.Join(errors.New("the answer of the model breaks off"), lines.Err())
}

// Handler starts answers and streams them. It has no state.
//
//	POST /answers          starts an answer to the body; Location contains its address
//	GET /answers/{id}      returns the answer as a stream of server-sent events
func Handler(client *workflow.Client) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /answers", func(w http.ResponseWriter, r *http.Request) { ask(w, r, client) })
	mux.HandleFunc("GET /answers/{id}", func(w http.ResponseWriter, r *http.Request) { stream(w, r, client) })
	return mux
}

// ask starts a run for an Idempotency-Key. A repeated request with the same key finds that run.
func ask(w http.ResponseWriter, r *http.Request, client *workflow.Client) {
	key := r.Header.Get("Idempotency-Key")
	prompt, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<16))
	if err != nil || key == "" {
		http.Error(w, "want a prompt of up to 64 KiB and an Idempotency-Key", http.StatusBadRequest)
		return
	}
	run, err := Answer.Start(r.Context(), client, string(prompt), workflow.WithID("answer-"+key),
		workflow.WithIDPolicy(workflow.IDPolicy{Finished: workflow.RejectFinished}))
	if done, ok := errors.AsType[*workflow.FinishedRunError](err); ok {
		run = Answer.Get(client, done.Run)
	} else if err != nil {
		http.Error(w, "try again", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Location", "/answers/"+string(run.ID()))
	w.WriteHeader(http.StatusAccepted)
}

// stream sends each word as soon as it is durable. The ID of an event contains the number of the
// chunk and the attempt that wrote it. An event "again" precedes the first word of a further
// attempt.
func stream(w http.ResponseWriter, r *http.Request, client *workflow.Client) {
	id, err := workflow.ParseRunID(r.PathValue("id"))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	var last uint64
	attempt := 1
	if _, err := fmt.Sscanf(r.Header.Get("Last-Event-ID"), "%d.%d", &last, &attempt); err != nil {
		last, attempt = 0, 1 // The client requests the stream from the beginning.
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	events := http.NewResponseController(w)
	for chunk, err := range Words.Read(r.Context(), client.Run(id), workflow.From(last+1)) {
		if err != nil {
			return // The client has disconnected. It may reconnect later.
		}
		if chunk.Attempt != attempt {
			attempt = chunk.Attempt
			_, _ = fmt.Fprint(w, "event: again\ndata:\n\n")
		}
		word, err := json.Marshal(chunk.Value) // JSON contains no line break.
		if err != nil {
			return
		}
		if _, err := fmt.Fprintf(w, "id: %d.%d\ndata: %s\n\n", chunk.Index, attempt, word); err != nil || events.Flush() != nil {
			return
		}
	}
	_, _ = fmt.Fprint(w, "event: end\ndata:\n\n") // After this event, a page must close its EventSource.
}
