package chaos

import (
	"errors"
	"flag"
	"io"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/chaos/flows"
	"github.com/flowgen/flowgen/lab/bench/internal/chaos/record"
	"github.com/flowgen/flowgen/lab/bench/internal/fleet"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// The other roles of the program, in which it starts itself.
const (
	roleWorker = "chaos-worker"
	roleGuard  = "chaos-guard"
)

// exitNotStarted is the exit code of a worker whose Run returned an error. The code after a panic
// differs.
const exitNotStarted = 3

// Role runs the role that args name. ok is false if they name none.
func Role(args []string, stderr io.Writer) (code int, ok bool) {
	roles := fleet.Roles{Guard: roleGuard, Worker: roleWorker, Work: work, Failed: exitNotStarted}
	return roles.Play(args, stderr)
}

// member is the configuration of a worker process.
type member struct {
	name, store, records string
	lease, heartbeat     time.Duration
}

func (m *member) arguments() []string {
	return []string{
		roleWorker, "-name", m.name, "-store", m.store, "-records", m.records,
		"-lease", m.lease.String(), "-heartbeat", m.heartbeat.String(),
	}
}

// work runs a worker until SIGTERM.
func work(args []string, stderr io.Writer) (err error) {
	var m member
	flags := flag.NewFlagSet(roleWorker, flag.ContinueOnError)
	flags.StringVar(&m.name, "name", "", "")
	flags.StringVar(&m.store, "store", "", "")
	flags.StringVar(&m.records, "records", "", "")
	flags.DurationVar(&m.lease, "lease", 0, "")
	flags.DurationVar(&m.heartbeat, "heartbeat", 0, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, stop := fleet.UntilStopped()
	defer stop()
	records, err := record.NewWriter(m.records, m.name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	return fleet.Work(ctx, m.store, stderr, worker.Config{
		Name: m.name, Heartbeat: m.heartbeat, ClaimExpiry: m.lease,
		Grace:       m.lease / 2, // shorter than its longest steps
		Concurrency: 64,
		Parked:      200,     // causes many replays
		Recoveries:  1 << 20, // effectively unlimited, because runs do not cause the deaths of workers here
	}, func(r workflow.Registrar) { flows.Register(r, &flows.Hands{Record: records}) })
}
