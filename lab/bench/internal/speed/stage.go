package speed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/flowgen/flowgen/lab/bench/internal/speed/flows/marked"
	"github.com/flowgen/flowgen/runtime/codec"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// stage is an empty store with a client and a worker.
type stage struct {
	bed      bed
	tap      *tap
	client   *workflow.Client
	probe    *marked.Probe
	o        *options
	size     size
	progress *progress
	log      *complaints
	reports  *telemetry

	stop   context.CancelFunc // nil if there is no worker
	worked chan error
}

// newStage returns a stage for a workload. If the worker fails, newStage calls fail with the cause.
func newStage(ctx context.Context, fail context.CancelCauseFunc, t target, w *workload, o *options, p *progress) (*stage, error) {
	b, err := t.fresh(ctx)
	if err != nil {
		return nil, fmt.Errorf("open an empty store: %w", err)
	}
	reports, err := newTelemetry(ctx, o.telemetry)
	if err != nil {
		return nil, errors.Join(err, b.discard())
	}
	s := &stage{bed: b, reports: reports, tap: newTap(b.store()), probe: &marked.Probe{}, o: o, size: o.size.or(w.size), progress: p, log: &complaints{}}
	cfg := workflow.ClientConfig{Logger: slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelWarn})), Interceptors: reports.interceptors}
	if o.codec {
		if cfg.Codec, err = newCodec(); err != nil {
			return nil, errors.Join(err, b.discard())
		}
	}
	s.client = workflow.NewClient(s.tap, cfg)
	if !w.alone {
		s.work(w, fail)
	}
	return s, nil
}

func newCodec() (*codec.Codec, error) {
	key, err := codec.NewKey("k1")
	if err != nil {
		return nil, err
	}
	return codec.New(codec.Config{Keys: codec.Keys(key)})
}

// work starts the worker.
func (s *stage) work(l *workload, fail context.CancelCauseFunc) {
	w := worker.New(s.client, worker.Config{Parked: l.parked, Interceptors: s.reports.interceptors, Observers: s.reports.observers})
	l.register(w, s)
	ctx, stop := context.WithCancel(context.Background())
	s.stop, s.worked = stop, make(chan error, 1)
	go func() {
		err := w.Run(ctx)
		if err != nil {
			fail(err)
		}
		s.worked <- err
	}()
}

// end waits until a run has ended, and returns its result. before is the number of runs that had
// ended before.
func end[T any](ctx context.Context, s *stage, run *workflow.Run[T], before int) (T, error) {
	ended := func() error {
		return s.tap.await(ctx, "the end of the run", func(n counts) bool { return n.finished > before })
	}
	var zero T
	if !s.o.follow {
		if err := ended(); err != nil {
			return zero, err
		}
	}
	v, err := run.Result(ctx)
	if err != nil {
		return zero, err
	}
	return v, ended() // The client may receive the result before the worker receives the response to its commit.
}

// close stops the worker and closes the client and the store. It returns an error if the worker has
// logged warnings.
func (s *stage) close() error {
	var err error
	if s.stop != nil {
		s.stop()
		err = <-s.worked
	}
	err = errors.Join(err, s.reports.close(), s.client.Close(), s.bed.discard())
	if said := s.log.String(); said != "" {
		err = errors.Join(err, fmt.Errorf("the worker has complained: %s", said))
	}
	return err
}

// complaints collects the warnings of the worker.
type complaints struct {
	mu sync.Mutex
	b  strings.Builder
}

var _ io.Writer = (*complaints)(nil)

// Write keeps the first few kilobytes. It discards warnings about long logs, because the workloads
// create them on purpose.
func (c *complaints) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(`msg="log of a run is long`)) {
		return len(p), nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.b.Len() < 4<<10 {
		c.b.Write(p)
	}
	return len(p), nil
}

// String returns the collected warnings.
func (c *complaints) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.b.String()
}
