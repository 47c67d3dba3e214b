package functions

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
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/invoke"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// InstanceRole is the first argument of the process of a function.
const InstanceRole = "function-process"

// Play executes the process of a function if args name it.
func Play(args []string, stderr io.Writer) (code int, ok bool) {
	if len(args) == 0 || args[0] != InstanceRole {
		return 0, false
	}
	if err := play(args[1:], stderr); err != nil {
		fmt.Fprintln(stderr, InstanceRole+":", err)
		return 1, true
	}
	return 0, true
}

func play(args []string, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet(InstanceRole, flag.ContinueOnError)
	url, dir, socket, when := flags.String("store", "", ""), flags.String("dir", "", ""), flags.String("socket", "", ""), flags.String("kill", "", "")
	secret := flags.String("secret", "", "")
	budget, lease := flags.Duration("budget", 0, ""), flags.Duration("lease", 0, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	st, err := store.Open(ctx, *url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	log, err := os.OpenFile(filepath.Join(*dir, ledgerFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	note := func(what string, run workflow.RunID, key string) {
		_, _ = fmt.Fprintf(log, "%s %s %s\n", what, run, key)
	} // one write, so lines do not mix
	c := workflow.NewClient(&killer{Store: st, dir: *dir, when: *when, note: note}, workflow.ClientConfig{Logger: slog.New(slog.NewTextHandler(stderr, nil))})
	defer func() { err = errors.Join(err, c.Close()) }()
	h, err := invoke.Handler(c, func(r workflow.Registrar) { register(r, note) }, invoke.Config{
		Secrets: [][]byte{[]byte(*secret)}, Budget: *budget, Lease: *lease, Concurrency: 1, Stop: ctx.Done(),
	})
	if err != nil {
		return err
	}
	l, err := net.Listen("unix", *socket) //nolint:noctx // ends with the process
	if err != nil {
		return err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = s.Shutdown(context.WithoutCancel(ctx))
	}()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// killer kills its process before and after commits, once for each commit of each run. It records the
// completions of steps when they are durable.
type killer struct {
	store.Store
	dir, when string
	note      func(what string, run workflow.RunID, key string)
}

// Unwrap returns the store.
func (k *killer) Unwrap() store.Store { return k.Store }

// Commit executes the commits, and may kill the process.
func (k *killer) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	for i := range commits {
		k.kill("before", &commits[i])
	}
	got, err := k.Store.Commit(ctx, commits)
	if err != nil {
		return nil, err
	}
	for i := range got {
		if got[i].Err == nil {
			k.completed(&commits[i])
			k.kill("after", &commits[i])
		}
	}
	return got, nil
}

// completed records the steps that a durable commit completes. The name of a step operation is not in
// its completion, so the number of its creation identifies it.
func (k *killer) completed(c *store.Commit) {
	if c.Frame == nil {
		return
	}
	f, err := event.DecodeFrame(c.Frame)
	if err != nil {
		panic(err) // the runtime has encoded it
	}
	for i := range f.Events {
		if e := &f.Events[i]; e.Type == event.StepCompleted {
			k.note("completed", c.Run, fmt.Sprint(e.Ref))
		}
	}
}

// kill kills the process, unless it or another one was killed at this point before. A commit that only
// repeats an attempt is no such point, because it exists only if there was a kill.
func (k *killer) kill(when string, c *store.Commit) {
	if c.Frame == nil || !strings.Contains(k.when, when) {
		return
	}
	frame, err := event.DecodeFrame(c.Frame)
	if err != nil {
		panic(err) // the runtime has encoded it
	}
	first := &frame.Events[0]
	if first.Type == event.StepStarted {
		return
	}
	f, err := os.OpenFile(filepath.Join(k.dir, killsDir, fmt.Sprintf("%s.%s.%d.%s", c.Run, first.Type, first.Ref, when)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_ = f.Close()
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

const (
	ledgerFile = "ledger"
	killsDir   = "kills"
)
