package llmstream

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// listen serves HTTP on a free port of this machine until stop is called.
func listen(h http.Handler) (url string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(l) }() // Serve returns an error when the server is closed.
	return "http://" + l.Addr().String(), func() { _ = server.Close() }, nil
}

// Run requests an answer from a model whose first response is incomplete. It prints the words that
// the client receives.
func Run(ctx context.Context, client *workflow.Client, out io.Writer) (err error) {
	var requests atomic.Int64
	model, stopModel, err := listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		first := requests.Add(1) == 1
		for i, word := range strings.Fields("A durable program continues where it was.") {
			if first && i == 3 {
				panic(http.ErrAbortHandler)
			}
			_, _ = fmt.Fprintf(w, "data: %s\n\n", word)
			_ = http.NewResponseController(w).Flush() // A model sends each word immediately.
		}
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	}))
	if err != nil {
		return err
	}
	defer stopModel()
	server, stopServer, err := listen(Handler(client))
	if err != nil {
		return err
	}
	defer stopServer()

	w := worker.New(client, worker.Config{})
	Register(w, &Model{URL: model})
	ctx, cancel := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { defer cancel(); worked <- w.Run(ctx) }()
	defer func() { cancel(); err = errors.Join(err, <-worked) }()

	location, err := request(ctx, http.MethodPost, server+"/answers", func(r *http.Response) (string, error) { return r.Header.Get("Location"), nil })
	if err != nil {
		return err
	}
	text, err := request(ctx, http.MethodGet, server+location, received)
	if err == nil {
		_, err = fmt.Fprintln(out, text)
	}
	return err
}

// request sends a request to the server and returns the text that read obtains from the response.
func request(ctx context.Context, method, url string, read func(r *http.Response) (string, error)) (string, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader("What is durable?"))
	if err != nil {
		return "", err
	}
	r.Header.Set("Idempotency-Key", "1")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	return read(answer)
}

// received returns the words in a stream of server-sent events.
func received(r *http.Response) (string, error) {
	var words []string
	lines := bufio.NewScanner(r.Body)
	for lines.Scan() {
		data, isData := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case lines.Text() == "event: again":
			words = append(words, "(again)")
		case isData:
			var word string
			if err := json.Unmarshal([]byte(data), &word); err != nil {
				return "", err
			}
			words = append(words, word)
		}
	}
	return strings.Join(words, " "), lines.Err()
}
