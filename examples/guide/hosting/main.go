// Command hosting is a worker with health checks, for Kubernetes and systemd.
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
	_ "github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/health"
	"github.com/flowgen/flowgen/runtime/health/systemd"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	_ "github.com/flowgen/flowgen/sqlitestore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	l, err := net.Listen("tcp", ":8080")
	if err == nil {
		err = run(ctx, l)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, l net.Listener) (err error) {
	defer func() { _ = l.Close() }() // The server has closed it, unless an error came before.
	cfg, err := worker.ConfigFromEnv()
	if err != nil {
		return err
	}
	st, err := store.OpenFromEnv(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	client := workflow.NewClient(st, workflow.ClientConfig{})
	defer func() { err = errors.Join(err, client.Close()) }()

	w := worker.New(client, cfg)
	flows.Register(w, &flows.Fleet{})

	stopNotify, err := systemd.Notify(w) // It does nothing if systemd has not started the program.
	if err != nil {
		return err
	}
	defer stopNotify()
	checks := health.New(health.Worker(w))
	mux := http.NewServeMux()
	mux.Handle(health.Live, checks)
	mux.Handle(health.Ready, checks)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(l) }() // If it fails, the probes do.
	defer func() { err = errors.Join(err, server.Close()) }()
	return w.Run(ctx) // Probes and the watchdog are answered until it has returned.
}
