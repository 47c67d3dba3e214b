// Command deployments replaces a build of a program by the next one while orders are in progress: a
// canary, a rollback, the whole deployment, and the end of the old build.
//
//	go run ./examples/deployments
//
// A worker stands for the processes of a build. In production each build is a deployment of its own,
// for example of Kubernetes, with FLOWGEN_WORKER_BUILD=v1 or v2, and the operator executes the
// commands that this program prints.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "deployments:", err)
		os.Exit(1)
	}
}

// run deploys v2 beside v1, prints on which build the new orders of each phase are, and stops v1.
func run(ctx context.Context, out io.Writer) (err error) {
	s := &shop{store: memstore.New(), out: out}
	s.client = workflow.NewClient(s.store, quiet)
	s.ops = ops.New(s.client)
	stopOld, err := s.deploy(ctx, "v1")
	if err != nil {
		return err
	}
	stopNew, err := s.deploy(ctx, "v2")
	if err == nil {
		err = s.replace(ctx)
	}
	if err == nil {
		err = stopOld()
	}
	return errors.Join(err, stopOld(), stopNew(), s.client.Close(), s.store.Close())
}

// quiet discards the log of clients and workers.
var quiet = workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)}

// shop is the demonstration.
type shop struct {
	store  store.Store
	client *workflow.Client
	ops    *ops.Client
	out    io.Writer
	orders []*workflow.Run[string]
}

// deploy starts a worker of a build, and returns when it takes runs.
func (s *shop) deploy(ctx context.Context, build string) (stop func() error, err error) {
	client := workflow.NewClient(s.store, quiet)
	w := worker.New(client, worker.Config{Build: build})
	Register(w, &parcels{build})
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- errors.Join(w.Run(ctx), client.Close()) }()
	stop = func() error {
		cancel()
		err := <-ended
		ended <- nil // a second call has nothing to stop
		return err
	}
	return stop, s.claims(ctx, build, true)
}

// claims waits until the workers of a build claim runs, or until they claim none.
func (s *shop) claims(ctx context.Context, build string, want bool) error {
	return until(ctx, func() (bool, error) {
		all, err := s.ops.Deploys(ctx)
		return want == slices.ContainsFunc(all.Builds, func(d ops.Deploy) bool { return d.Build == build && d.Claims }), err
	})
}

// replace gives all orders to v2, and returns when v1 is drained.
func (s *shop) replace(ctx context.Context) error {
	for _, phase := range []struct {
		what    string
		percent int // of v2
	}{{"v2 is deployed, without orders", 0}, {"canary", 50}, {"rollback", 0}, {"all new orders", 100}} {
		fmt.Fprintf(s.out, "flowctl deploys ramp v2=%d\n", phase.percent)
		if _, err := s.ops.Ramp(ctx, map[string]int{"v2": phase.percent}); err != nil {
			return err
		}
		if err := s.order(ctx, phase.what); err != nil {
			return err
		}
	}
	fmt.Fprintln(s.out, "flowctl deploys retire v1 --to v2")
	if err := errors.Join(s.ops.Retire(ctx, "v1", "v2"), s.claims(ctx, "v1", false)); err != nil {
		return err
	}
	if err := s.finish(ctx); err != nil { // v1 is needed until v2 has continued its orders
		return err
	}
	fmt.Fprintln(s.out, "flowctl deploys drained v1")
	return until(ctx, func() (bool, error) {
		d, err := s.ops.Drained(ctx, "v1")
		return d.Answer == ops.DrainedYes, err
	})
}

// order starts 20 orders, and prints on which builds they are. A program reads the distribution at
// its first order, and follows changes within 5 seconds; each call has a client of its own instead.
func (s *shop) order(ctx context.Context, what string) error {
	client := workflow.NewClient(s.store, quiet)
	defer client.Close()
	on := map[string]int{}
	for range 20 {
		run, err := Fulfil.Start(ctx, client, fmt.Sprintf("order %d", len(s.orders)+1))
		if err != nil {
			return err
		}
		info, err := run.Info(ctx)
		if err != nil {
			return err
		}
		on[info.Pin]++
		s.orders = append(s.orders, Fulfil.Get(s.client, run.ID()))
	}
	_, err := fmt.Fprintf(s.out, "  %s: %d orders on v1, %d on v2\n", what, on["v1"], on["v2"])
	return err
}

// finish sends each order the message that it is packed, and counts the builds that shipped them.
func (s *shop) finish(ctx context.Context) error {
	shipped := 0
	for _, order := range s.orders {
		if err := packed.Send(ctx, order, workflow.None{}); err != nil {
			return err
		}
		result, err := order.Result(ctx)
		if err != nil {
			return err
		}
		if strings.HasSuffix(result, "shipped by v2") {
			shipped++
		}
	}
	_, err := fmt.Fprintf(s.out, "  %d of %d orders are shipped by v2\n", shipped, len(s.orders))
	return err
}

// until polls a condition.
func until(ctx context.Context, holds func() (bool, error)) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if done, err := holds(); done || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
