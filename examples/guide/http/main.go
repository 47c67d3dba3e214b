// Command http is the program of docs/use/http.md. It is an HTTP server that starts runs, returns
// their results and sends their output as server-sent events. The same process runs a worker.
package main

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/flowgen/flowgen/examples/guide/flows"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	l, err := net.Listen("tcp", "localhost:8080")
	if err == nil {
		err = run(ctx, "answers.db", l)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run serves HTTP on l until ctx ends. Then it stops the server, the worker, the client and the
// store, in this order.
func run(ctx context.Context, file string, l net.Listener) (err error) {
	st, err := sqlitestore.Open(file)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	client := workflow.NewClient(st, workflow.ClientConfig{})
	defer func() { err = errors.Join(err, client.Close()) }()

	w := worker.New(client, worker.Config{Grace: 10 * time.Second})
	flows.Register(w, &flows.Fleet{})
	working, endWork := context.WithCancel(context.WithoutCancel(ctx)) // The worker stops after the server.
	worked := make(chan error, 1)
	go func() { worked <- w.Run(working) }()
	defer func() { endWork(); err = errors.Join(err, <-worked) }()

	stopping, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	server := &http.Server{Handler: handler(stopping, client), ReadHeaderTimeout: 5 * time.Second}
	server.RegisterOnShutdown(stop)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served: // The server cannot accept connections.
		return err
	case err := <-worked: // The program does not work without its worker.
		worked <- nil
		return errors.Join(err, server.Close())
	case <-ctx.Done():
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return server.Shutdown(limited)
}
