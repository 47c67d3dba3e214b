package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/flowgen/flowgen/examples/quickstart/orders"
	"github.com/flowgen/flowgen/runtime/invoke"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// function serves requests to execute runs until ctx ends. It listens on $PORT, as containers of
// Cloud Run do.
func function(ctx context.Context) (err error) {
	crashAfter, err := strconv.ParseUint(os.Getenv("FUNCTIONS_CRASH_AFTER"), 10, 64)
	if err != nil {
		return err
	}
	st, err := store.OpenFromEnv(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	client := workflow.NewClient(orders.Crashing(st, crashAfter), workflow.ClientConfig{})
	defer func() { err = errors.Join(err, client.Close()) }()

	h, err := invoke.Handler(client, func(r workflow.Registrar) {
		orders.Register(r, &orders.Shop{Effects: os.Getenv("FUNCTIONS_EFFECTS")})
	}, invoke.Config{
		Secrets: [][]byte{[]byte(os.Getenv("FUNCTIONS_SECRET"))},
		Budget:  10 * time.Second, // The longest timeout of a step. The default is 50 s.
		Lease:   15 * time.Second, // With Redis, the run of a killed function continues after this time.
		Stop:    ctx.Done(),
	})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(os.Getenv("HOST"), os.Getenv("PORT")))
	if err != nil {
		return err
	}
	return serve(ctx, l, logged(h))
}

// serve answers requests until ctx ends. Then it waits for the invocations, which give their runs
// back because of Stop. It returns at most 8 s after the end of ctx.
func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served: // The server cannot accept connections.
		return err
	case <-ctx.Done():
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 8*time.Second)
	defer cancel()
	return server.Shutdown(limited)
}
