// Command e2e starts the HTTP API and runs the command in its arguments. The API listens on a free
// port of this machine and uses a store in a new SQLite file, with a worker that serves
// clients.order. The command receives the address in FLOWGEN_SERVER and a bearer token in
// FLOWGEN_TOKEN. If the command fails, e2e fails. make ts uses e2e to run the tests of the
// TypeScript client.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/api"
	"github.com/flowgen/flowgen/clients/ts/e2e/clients"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore"
)

// longest is the maximum duration of the command.
const longest = 5 * time.Minute

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "e2e: say which command to run, such as node --test FILE")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	if err := run(ctx, os.Args[1], os.Args[2:]...); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		cancel()
		os.Exit(1)
	}
}

func run(ctx context.Context, name string, args ...string) (err error) {
	dir, err := os.MkdirTemp("", "flowgen-ts-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	st, err := sqlitestore.Open(filepath.Join(dir, "runs.db"))
	if err != nil {
		return err
	}
	client := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	w := worker.New(client, worker.Config{})
	clients.Register(w)
	working, stop := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- w.Run(working) }()
	defer func() {
		stop()
		err = errors.Join(err, <-worked, client.Close(), st.Close())
	}()
	return serve(ctx, client, func(url, token string) error {
		command := exec.CommandContext(ctx, name, args...) //nolint:gosec // the caller says what is executed
		command.Env = append(os.Environ(), "FLOWGEN_SERVER="+url, "FLOWGEN_TOKEN="+token)
		command.Stdout, command.Stderr = os.Stdout, os.Stderr
		return command.Run()
	})
}

// serve serves the API until use returns. It calls use with the address and a token.
func serve(ctx context.Context, client *workflow.Client, use func(url, token string) error) error {
	entry, secret := admin.NewToken(admin.Token{Name: "ts", Role: admin.RoleOperator, Expires: time.Now().Add(longest)})
	tokens, err := admin.NewTokens([]admin.Token{entry}, nil)
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           api.New(admin.New(client), api.Config{Auth: tokens, Mutations: 10_000}), // The tests send requests faster than users do.
		ReadHeaderTimeout: 10 * time.Second,
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	err = use("http://"+l.Addr().String(), secret)
	err = errors.Join(err, server.Close())
	if end := <-served; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}
