// Command onboarding runs a state machine for the signup of a user. The user receives a mail with a
// link and a reminder, and gets an account after following the link. The program prints the mails.
// It also simulates a user who follows the link in the second mail over HTTP. If the program is
// killed at any moment, it continues after a restart.
//
//	go run ./examples/onboarding
//
// See onboarding.go for the machine, and flow_gen.go for the generated code.
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
	"sync"
	"syscall"
	"time"

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
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "onboarding:", err)
		os.Exit(1)
	}
}

type options struct {
	store, email, effects string
	patience              time.Duration
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("onboarding", flag.ContinueOnError)
	f.StringVar(&o.store, "store", "sqlite:onboarding.db", "`URL` of where the run is kept: memory:, sqlite:PATH or redis://HOST:PORT")
	f.StringVar(&o.email, "email", "ann@example.com", "`ADDRESS` of who signs up; each does so once")
	f.DurationVar(&o.patience, "patience", time.Second, "how long to wait for a click before a reminder")
	f.StringVar(&o.effects, "effects", "", "append a line \"step key attempt\" to `FILE` for each execution of a step")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: see -help", f.Arg(0))
	}
	return o, nil
}

// wrap returns the store that the program uses instead of s. Tests replace wrap, so that the store
// kills the process.
var wrap = func(s store.Store) store.Store { return s }

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	st, err := store.Open(ctx, o.store)
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	client := workflow.NewClient(wrap(st), workflow.ClientConfig{
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	defer func() { _ = client.Close() }()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := serve(l, client)
	defer func() { _ = server.Close() }()

	ctx, cancel := context.WithCancel(ctx)
	ann := &person{ctx: ctx, out: out}
	defer ann.clicks.Wait()
	defer cancel()
	w := worker.New(client, worker.Config{Heartbeat: time.Second, ClaimExpiry: 5 * time.Second})
	Register(w, newSite("http://"+l.Addr().String(), o.effects, o.patience, ann.read))
	worked := make(chan error, 1)
	go func() { worked <- w.Run(ctx) }()
	followed := follow(ctx, client, o.email, out)
	cancel()
	return errors.Join(followed, <-worked)
}

// follow signs up a user, or finds the run that an earlier process has started. It follows the run
// until it ends.
func follow(ctx context.Context, client *workflow.Client, email string, out io.Writer) error {
	run, err := Onboarding.Start(ctx, client, Signup{Email: email}, workflow.WithID("onboarding:"+email),
		workflow.WithIDPolicy(workflow.IDPolicy{Finished: workflow.AllowFinishedAfterFailure}))
	if done, ok := errors.AsType[*workflow.FinishedRunError](err); ok {
		run = Onboarding.Get(client, done.Run)
	} else if err != nil {
		return err
	}
	for e, err := range run.Events(ctx, workflow.Types(event.StepCompleted, event.WaitCreated)) {
		if err != nil {
			return err
		}
		if e.Type == event.WaitCreated {
			_, _ = fmt.Fprintf(out, "%d it waits: %s %s\n", e.Seq, e.Wait, e.Name)
		} else {
			_, _ = fmt.Fprintf(out, "%d step %s\n", e.Seq, e.Key)
		}
	}
	profile, err := run.Result(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s: %q, refused: %q\n", profile.Email, profile.Account, profile.Refused)
	return err
}

// person simulates a user who reads mails and follows the link in each mail except the first.
type person struct {
	ctx    context.Context //nolint:containedctx // as long as the person lives
	out    io.Writer
	mu     sync.Mutex
	mails  int
	clicks sync.WaitGroup
}

func (p *person) read(m mail) {
	p.mu.Lock()
	p.mails++
	click := p.mails > 1 && m.link != ""
	_, _ = fmt.Fprintf(p.out, "mail to %s: %s %s\n", m.to, m.subject, m.link)
	p.mu.Unlock()
	if !click {
		return
	}
	p.clicks.Go(func() {
		req, err := http.NewRequestWithContext(p.ctx, http.MethodGet, m.link, nil)
		if err != nil {
			return
		}
		if answer, err := http.DefaultClient.Do(req); err == nil { // If the request fails, the user waits for the next reminder.
			_ = answer.Body.Close()
		}
	})
}
