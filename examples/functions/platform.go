package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/flowgen/flowgen/examples/quickstart/orders"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"

	_ "github.com/flowgen/flowgen/redisstore"
	_ "github.com/flowgen/flowgen/sqlitestore"
)

type options struct {
	order, store, effects string
	crashAfter            uint64
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("functions", flag.ContinueOnError)
	f.StringVar(&o.store, "store", "sqlite:functions.db", "`URL` of the store of the run: sqlite:PATH or redis://HOST:PORT")
	f.StringVar(&o.order, "order", "order-1001", "`ID` of the order; each is fulfilled once")
	f.StringVar(&o.effects, "effects", "", "append a line \"step-name attempt\" to `FILE` for each execution of a step")
	f.Uint64Var(&o.crashAfter, "crash-after", 0, "kill the first process of the function right after the commit that holds event `N` of the log; 0: never")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: see -help", f.Arg(0))
	}
	return o, nil
}

// run starts the function and the dispatcher, starts an order and follows it until it ends.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	p := &platform{out: &lines{out: out}, env: append(os.Environ(),
		"FLOWGEN_STORE="+o.store, "FUNCTIONS_SECRET="+rand.Text()+rand.Text(), "FUNCTIONS_EFFECTS="+o.effects,
		"HOST=127.0.0.1", "PORT="+port, "FUNCTIONS_URL=http://127.0.0.1:"+port+"/")}
	ctx, stop := context.WithCancelCause(ctx)
	var processes sync.WaitGroup
	defer func() { stop(nil); processes.Wait() }()
	processes.Go(func() { stop(p.keep(ctx, "function", o.crashAfter)) })
	processes.Go(func() {
		if listens(ctx, "127.0.0.1:"+port) {
			stop(p.keep(ctx, "dispatcher", 0))
		}
	})
	if err := follow(ctx, o, p.out); err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return nil
}

// follow starts the run of the order, and executes no part of it.
func follow(ctx context.Context, o options, out io.Writer) (err error) {
	st, err := store.Open(ctx, o.store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	client := workflow.NewClient(st, workflow.ClientConfig{})
	defer func() { err = errors.Join(err, client.Close()) }()
	return orders.Follow(ctx, client, o.order, out)
}

// platform keeps processes of this program running.
type platform struct {
	out *lines
	env []string
}

// keep starts a process with a role, and starts it again when it is killed, until ctx ends. Only the
// first process crashes. It returns an error if a process ends by itself.
func (p *platform) keep(ctx context.Context, role string, crashAfter uint64) error {
	for {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(p.env, "FUNCTIONS_ROLE="+role, "FUNCTIONS_CRASH_AFTER="+strconv.FormatUint(crashAfter, 10))
		crashAfter = 0
		err := p.execute(ctx, cmd, role)
		if ctx.Err() != nil {
			return nil
		}
		if killed, ok := errors.AsType[*exec.ExitError](err); !ok || killed.Exited() {
			return fmt.Errorf("the %s has ended: %w", role, errors.Join(err))
		}
		p.out.printf("platform: %s was killed\n", role)
	}
}

// execute executes a process until it ends or ctx ends, and prints its output.
func (p *platform) execute(ctx context.Context, cmd *exec.Cmd, role string) error {
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		return err
	}
	name := fmt.Sprintf("%s %d", role, cmd.Process.Pid)
	p.out.printf("platform: %s started\n", name)
	var printed sync.WaitGroup
	printed.Go(func() {
		for text := bufio.NewScanner(r); text.Scan(); {
			p.out.printf("%s: %s\n", name, text.Text())
		}
	})
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait(); _ = w.Close() }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		if cmd.Process.Signal(syscall.SIGTERM) != nil { // Windows has no signals.
			_ = cmd.Process.Kill()
		}
		<-ended
	}
	printed.Wait()
	return err
}

// listens waits until a process accepts connections. It returns false if ctx ends before.
func listens(ctx context.Context, address string) bool {
	for ctx.Err() == nil {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			_ = c.Close()
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}

// lines writes whole lines of several writers.
type lines struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

func (l *lines) printf(format string, args ...any) { _, _ = fmt.Fprintf(l, format, args...) }
