package invoke

import (
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/worker"
)

// Config configures a handler. Only Secrets is required.
type Config struct {
	// Secrets are the keys of signatures, each of at least 32 bytes. A request must be signed with one
	// of them. To replace a key, add the new one here, then change the dispatchers, and then remove the
	// old one.
	Secrets [][]byte
	// Budget is how long an invocation executes its run. The default is 50 s. An attempt of a step
	// never takes longer. The platform must permit a request to take 15 s longer: the log is read
	// before, and interrupted steps have time to end.
	Budget time.Duration
	// Lease is the time after the begin of an invocation at which the store considers it dead, if it
	// has not ended. The default is Budget and 30 s. It must not be shorter than Budget. A shorter
	// lease lets the runs of killed functions continue earlier. But if an invocation takes longer than
	// its lease, another one may repeat the attempts that it has not committed.
	Lease time.Duration
	// Concurrency bounds how many runs the process executes at once. The default is 64. The handler
	// refuses further requests, which the dispatcher repeats later.
	Concurrency int
	// Stop is closed when the process must end, for example the Done channel of the context of
	// signal.NotifyContext. Invocations then give their runs back as a stopping worker does, and the
	// handler refuses further requests. If it is nil, invocations end only with their budgets.
	Stop <-chan struct{}
	// Worker has the settings of a worker that also hold for an invocation: Queues, Concurrency (steps
	// of one run at once), Recoveries, MaxLogEvents, MaxLogBytes, BlockedAfter, Observers, Alerts, Pin,
	// Logger, BaseContext, Interceptors, Name and Build. Handler refuses Capacity and AtOnce, which
	// bound a process and not a fleet of functions. The other settings are ignored.
	Worker worker.Config
}

// minSecret is the minimum length of a secret in bytes: the size of the hash.
const minSecret = 32

func checkSecrets(secrets [][]byte) error {
	if len(secrets) == 0 {
		return errors.New("invoke: no secret is set: create one with at least 32 random bytes")
	}
	for i, s := range secrets {
		if len(s) < minSecret {
			return fmt.Errorf("invoke: secret %d has %d bytes: it must have at least %d", i+1, len(s), minSecret)
		}
	}
	return nil
}

func (c *Config) setDefaults() {
	if c.Budget == 0 {
		c.Budget = 50 * time.Second
	}
	if c.Lease == 0 {
		c.Lease = c.Budget + 30*time.Second
	}
	if c.Concurrency == 0 {
		c.Concurrency = 64
	}
}

func (c *Config) check() error {
	if err := checkSecrets(c.Secrets); err != nil {
		return err
	}
	switch {
	case c.Budget < 0:
		return fmt.Errorf("invoke: the budget %v is negative", c.Budget)
	case c.Lease < c.Budget:
		return fmt.Errorf("invoke: the lease %v is shorter than the budget %v: a healthy invocation would be considered dead", c.Lease, c.Budget)
	case c.Concurrency < 0:
		return fmt.Errorf("invoke: the concurrency %d is negative", c.Concurrency)
	case len(c.Worker.Capacity)+len(c.Worker.AtOnce) > 0:
		return errors.New("invoke: Worker.Capacity and Worker.AtOnce bound a process: use limits of the store for functions")
	}
	return nil
}

// slowSteps returns an error if an attempt of a step may take longer than the budget. A step without
// a timeout of its own has the budget.
func slowSteps(steps []*flow.StepSpec, budget time.Duration) error {
	e := &StepTimeoutError{Budget: budget}
	for _, s := range steps {
		if s.Timeout > budget {
			e.Steps = append(e.Steps, SlowStep{s.Name, s.Timeout})
		}
	}
	if len(e.Steps) > 0 {
		return e
	}
	return nil
}
