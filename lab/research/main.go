// Command research answers a question with a graph of steps. It fetches sources in parallel as far
// as a limit allows, from a local HTTP server that rejects some of the requests. The program can be
// killed at any moment. After a restart it continues the run, and no completed step is executed
// twice.
//
//	go run ./lab/research
//
// See research.go for the graph. The doc comment of Research in flow_gen.go contains a diagram.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/flowgen/flowgen/lab/internal/crash"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"

	_ "github.com/flowgen/flowgen/memstore"
	_ "github.com/flowgen/flowgen/redisstore"
	_ "github.com/flowgen/flowgen/sqlitestore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "research:", err)
		os.Exit(1)
	}
}

// run serves the library and answers the question. If an earlier process has started the run, it
// continues that run. It prints the report.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	f := flag.NewFlagSet("research", flag.ContinueOnError)
	url := f.String("store", "sqlite:research.db", "`URL` of the store: memory:, sqlite:PATH or redis://HOST:PORT")
	question := f.String("question", "Where is my towel?", "question to answer; each is answered once")
	strict := f.Bool("strict", true, "have a reviewer check the report")
	after := f.Int64("crash-after", 0, "kill this process after it has written `N` events; 0: never")
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	st, err := store.Open(ctx, *url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	books := newLibrary()
	base, closeLibrary, err := serve(books)
	if err != nil {
		return err
	}
	defer closeLibrary()

	c := workflow.NewClient(crash.After(st, *after), workflow.ClientConfig{
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	defer func() { err = errors.Join(err, c.Close()) }()
	w := worker.New(c, worker.Config{Heartbeat: time.Second, ClaimExpiry: 5 * time.Second})
	Register(w, &client{base, http.DefaultClient})
	ctx, cancel := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- w.Run(ctx) }()
	err = follow(ctx, c, ResearchInput{Question: *question, Strict: *strict}, out)
	cancel()
	if err := errors.Join(err, <-worked); err != nil {
		return err
	}
	refused, tooMany := books.refused()
	_, err = fmt.Fprintf(out, "the library refused %d requests, %d for being too many at a time\n", refused, tooMany)
	return err
}

// serve starts the library on a free port.
func serve(l *library) (base string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it listens at once
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{Handler: l, ReadHeaderTimeout: time.Second}
	go func() { _ = s.Serve(listener) }()
	return "http://" + listener.Addr().String(), func() { _ = s.Close() }, nil
}

// follow starts the run, or finds the existing one, and prints each step when it ends.
func follow(ctx context.Context, c *workflow.Client, in ResearchInput, out io.Writer) error {
	run, err := Research.Start(ctx, c, in, workflow.WithID(in.Question))
	if done, ok := errors.AsType[*workflow.FinishedRunError](err); ok {
		run, err = Research.Get(c, done.Run), nil
	}
	if err != nil {
		return err
	}
	names := map[uint64]string{}
	for e, err := range run.Events(ctx) {
		if err != nil {
			return err
		}
		if e.Type.Creates() {
			names[e.Seq] = e.Name[strings.LastIndexByte(e.Name, '.')+1:]
		}
		switch e.Type {
		case event.StepCompleted, event.ChildCompleted:
			_, _ = fmt.Fprintf(out, "%3d %s: %s\n", e.Seq, names[e.Ref], e.Payload)
		case event.StepFailed, event.ChildFailed:
			_, _ = fmt.Fprintf(out, "%3d %s failed: %s\n", e.Seq, names[e.Ref], e.Failure.Message)
		}
	}
	report, err := run.Result(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s %s (%s)\n", report.Title, report.Text, strings.Join(report.Sources, ", "))
	return err
}
