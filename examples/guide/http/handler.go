package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/flowgen/flowgen/examples/guide/flows"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// api handles requests. It has no state, so any process with a client of the same store can handle
// the next request.
type api struct {
	client   *workflow.Client
	stopping context.Context // ends when the server stops; the contexts of long requests depend on it
}

func handler(stopping context.Context, client *workflow.Client) http.Handler {
	a := api{client: client, stopping: stopping}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /answers", a.ask)
	mux.HandleFunc("GET /answers/{id}", a.result)
	mux.HandleFunc("GET /answers/{id}/words", a.words)
	return mux
}

// ask starts a run. If a response was lost, the client repeats the request with the same
// Idempotency-Key. The repeated request finds the run of the first one as long as the store keeps
// that run.
func (a api) ask(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	var question string
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&question); err != nil || key == "" {
		http.Error(w, "want a question as a JSON string, and an Idempotency-Key", http.StatusBadRequest)
		return
	}
	run, err := flows.Reply.Start(r.Context(), a.client, question, workflow.WithID("answer-"+key),
		workflow.WithIDPolicy(workflow.IDPolicy{Finished: workflow.RejectFinished}))
	var id workflow.RunID
	if finished, ok := errors.AsType[*workflow.FinishedRunError](err); ok {
		id = finished.Run
	} else if err != nil {
		fail(w, err)
		return
	} else {
		id = run.ID()
	}
	w.Header().Set("Location", "/answers/"+string(id))
	w.WriteHeader(http.StatusAccepted)
}

// result waits for the result for a short time. If the run takes longer, it responds with status
// 202.
func (a api) result(w http.ResponseWriter, r *http.Request) {
	run, ok := a.find(w, r)
	if !ok {
		return
	}
	ctx, cancel := a.waiting(r)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	answer, err := run.Result(ctx)
	switch {
	case err == nil:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	case errors.Is(err, context.DeadlineExceeded):
		w.WriteHeader(http.StatusAccepted)
	default:
		fail(w, err)
	}
}

// words sends each word as soon as it is written. A disconnected browser sends another request with
// the ID of the last event that it has received. Any process can handle this request and sends all
// further words.
func (a api) words(w http.ResponseWriter, r *http.Request) {
	run, ok := a.find(w, r)
	if !ok {
		return
	}
	last, err := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 64)
	if err != nil {
		last = 0 // The client requests the words from the beginning.
	}
	ctx, cancel := a.waiting(r)
	defer cancel()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	events := http.NewResponseController(w)
	_ = events.Flush() // Flush confirms the connection. A failure is detected by later writes.
	for chunk, err := range flows.Words.Read(ctx, run, workflow.From(last+1)) {
		if err != nil {
			return // The request has ended or the server stops. In both cases the browser may reconnect.
		}
		word, err := json.Marshal(chunk.Value) // JSON contains no line break.
		if err != nil {
			return
		}
		if _, err := fmt.Fprintf(w, "id: %d\ndata: %s\n\n", chunk.Index, word); err != nil || events.Flush() != nil {
			return
		}
	}
	_, _ = fmt.Fprint(w, "event: end\ndata:\n\n") // After this event, the page must close its EventSource.
}

// waiting returns the context of a request that may take a long time. The context also ends when
// the server stops, because Shutdown waits for all requests.
func (a api) waiting(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	forget := context.AfterFunc(a.stopping, cancel)
	return ctx, func() { forget(); cancel() }
}

func (a api) find(w http.ResponseWriter, r *http.Request) (*workflow.Run[string], bool) {
	id, err := workflow.ParseRunID(r.PathValue("id"))
	if err != nil {
		http.NotFound(w, r)
		return nil, false
	}
	run := flows.Reply.Get(a.client, id)
	if _, err := run.Info(r.Context()); err != nil {
		fail(w, err)
		return nil, false
	}
	return run, true
}

// fail writes the part of an error that the client may read.
func fail(w http.ResponseWriter, err error) {
	var failed *workflow.RunError
	switch {
	case errors.Is(err, workflow.ErrRunNotFound):
		http.Error(w, "there is no such answer", http.StatusNotFound)
	case errors.As(err, &failed):
		http.Error(w, failed.Code, http.StatusConflict)
	default: // The store does not respond, or the server stops.
		w.Header().Set("Retry-After", "1")
		http.Error(w, "try again", http.StatusServiceUnavailable)
	}
}
