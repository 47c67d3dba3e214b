package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"

	_ "github.com/flowgen/flowgen/redisstore"  // for redis://…
	_ "github.com/flowgen/flowgen/sqlitestore" // for sqlite:…
)

// Roles contains the roles in which a program starts itself, selected by the first argument.
type Roles struct {
	Guard  string
	Worker string
	// Work is called with the remaining arguments of a worker.
	Work func(args []string, stderr io.Writer) error
	// Failed is the exit code if Work returns an error. The exit code after a panic differs.
	Failed int
}

// Play runs the role that args name. ok is false if they name none.
func (r *Roles) Play(args []string, stderr io.Writer) (code int, ok bool) {
	switch {
	case len(args) > 0 && args[0] == r.Guard:
		Watch(os.Stdin)
		return 0, true
	case len(args) == 0 || args[0] != r.Worker:
		return 0, false
	}
	if err := r.Work(args[1:], stderr); err != nil {
		fmt.Fprintln(stderr, r.Worker+":", err)
		return r.Failed, true
	}
	return 0, true
}

// UntilStopped returns a context that ends with SIGTERM. A worker must call it before it reports
// that it is ready, because it may be stopped after that.
func UntilStopped() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGTERM)
}

// Work runs a worker on a store until ctx ends, see [UntilStopped]. It logs to stderr.
func Work(ctx context.Context, url string, stderr io.Writer, cfg worker.Config, register func(r workflow.Registrar)) (err error) {
	st, err := store.Open(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	client := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.NewTextHandler(stderr, nil))})
	w := worker.New(client, cfg)
	register(w)
	return w.Run(ctx)
}

// Connect opens the store for the driver of an experiment, which logs to driver.log in dir.
func (s *Site) Connect(ctx context.Context, dir string) (st store.Store, client *workflow.Client, disconnect func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "driver.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, nil, err
	}
	if st, err = store.Open(ctx, s.URL); err != nil {
		_ = f.Close() // nothing was written
		return nil, nil, nil, err
	}
	redis.SetLogger(redisLog{f}) // it reports servers that are down
	client = workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.NewTextHandler(f, nil))})
	return st, client, func() {
		_ = client.Close()
		_ = st.Close()
		_ = f.Close()
	}, nil
}

// redisLog writes the log lines of go-redis to a file.
type redisLog struct{ w io.Writer }

// Printf writes a line.
func (l redisLog) Printf(_ context.Context, format string, args ...any) {
	fmt.Fprintf(l.w, format+"\n", args...)
}
