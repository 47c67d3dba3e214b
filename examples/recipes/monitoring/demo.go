package monitoring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// ErrSoldOut is the error of a run that fails.
//
//flow:error
var ErrSoldOut = errors.New("sold out")

// sell always fails.
//
//flow:workflow
func sell(ctx workflow.Context, item string) error { return ErrSoldOut }

// Run prints the responses of the handler before and after a failure.
func Run(ctx context.Context, client *workflow.Client, out io.Writer) (err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: Handler(client), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(l) }() // Serve returns an error when the server is closed.
	defer func() { _ = server.Close() }()
	get := func(path string) (int, []byte, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.Addr().String()+path, nil)
		if err != nil {
			return 0, nil, err
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, nil, err
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		return answer.StatusCode, text, err
	}
	show := func() error {
		code, text, err := get("/health")
		_, _ = fmt.Fprintf(out, "%d /health: %s", code, text)
		return err
	}

	w := worker.New(client, worker.Config{})
	Register(w)
	ctx, cancel := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { defer cancel(); worked <- w.Run(ctx) }()
	defer func() { cancel(); err = errors.Join(err, <-worked) }()

	if _, err := Sell.Execute(ctx, client, "a lamp"); !errors.Is(err, ErrSoldOut) {
		return err
	}
	if err := show(); err != nil {
		return err
	}
	if _, err := Sell.Start(ctx, client, "a chair", workflow.WithQueue("reports")); err != nil {
		return err
	}
	if err := show(); err != nil {
		return err
	}
	code, text, err := get("/status")
	if err != nil {
		return err
	}
	var s Status
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	for _, g := range s.Failures {
		_, _ = fmt.Fprintf(out, "%d /status: %d group of failures: %s: %s\n", code, len(s.Failures), g.Place(), g.Message)
	}
	return nil
}
