package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // registers the SQL driver of the bank

	"github.com/flowgen/flowgen/lab/internal/harm"
	"github.com/flowgen/flowgen/lab/tour/flows"
	_ "github.com/flowgen/flowgen/memstore"
	_ "github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	_ "github.com/flowgen/flowgen/sqlitestore"
)

// openBank opens the database in which the steps record their effects.
func openBank(ctx context.Context, path string) (*flows.Bank, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)")
	if err == nil {
		_, err = db.ExecContext(ctx, flows.Schema)
	}
	if err != nil {
		return nil, fmt.Errorf("open bank: %w", err)
	}
	db.SetMaxOpenConns(2)
	return &flows.Bank{DB: db}, nil
}

// duty is the configuration of a worker process. The process receives it in its environment.
type duty struct {
	URL     string `json:"url"`
	Bank    string `json:"bank"`
	Queue   string `json:"queue"`
	Name    string `json:"name"`
	Verbose bool   `json:"verbose"`
}

const dutyVariable = "FLOWTEST_TOUR_WORKER"

// workerWanted reports whether this process was started as a worker.
func workerWanted() bool { return os.Getenv(dutyVariable) != "" }

// workerProcess runs a worker until the process is killed or its context ends.
func workerProcess(ctx context.Context) (err error) {
	var d duty
	if err := json.Unmarshal([]byte(os.Getenv(dutyVariable)), &d); err != nil {
		return fmt.Errorf("read %s: %w", dutyVariable, err)
	}
	st, err := store.Open(ctx, d.URL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	bank, err := openBank(ctx, d.Bank)
	if err != nil {
		return err
	}
	logs := io.Discard
	if d.Verbose {
		logs = os.Stderr
	}
	client, err := harm.NewClient(st, logs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close(), bank.DB.Close()) }()
	return newWorker(client, bank, d.Name, d.Queue).Run(ctx)
}

// newWorker returns a worker for one queue. Its claims expire quickly, so that other workers
// recover its runs soon after it was killed.
func newWorker(client *workflow.Client, bank *flows.Bank, name, queue string) *worker.Worker {
	w := worker.New(client, worker.Config{
		Name: name, Queues: []string{queue}, Heartbeat: 100 * time.Millisecond, ClaimExpiry: 600 * time.Millisecond, Recoveries: 1000,
		Capacity: map[string]int{flows.Ink.Name(): 5},
	})
	flows.Register(w, bank, &flows.Site{Name: queue})
	return w
}

// crew contains the workers of the tour. Two of them execute the runs, and one serves the queue
// far.
type crew struct {
	url      string
	bank     *flows.Bank
	bankPath string
	client   *workflow.Client
	logs     io.Writer

	stop  context.CancelFunc
	work  sync.WaitGroup
	mu    sync.Mutex
	errs  []error
	hands []*hand
	kills atomic.Int64  // number of processes that were killed
	peace chan struct{} // closed to stop the killing
}

// hand is a sequence of worker processes. Only one of them runs at a time.
type hand struct {
	duty duty
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

var queues = []string{workflow.DefaultQueue, workflow.DefaultQueue, "far"}

// begin starts the workers in this process or, if processes is true, in separate processes.
func (c *crew) begin(ctx context.Context, processes bool) error {
	ctx, c.stop = context.WithCancel(ctx)
	c.peace = make(chan struct{})
	for i, queue := range queues {
		name := fmt.Sprintf("worker-%d", i+1)
		if processes {
			h := &hand{duty: duty{URL: c.url, Bank: c.bankPath, Queue: queue, Name: name, Verbose: c.logs != io.Discard}}
			if err := h.start(c.logs); err != nil {
				return errors.Join(err, c.end())
			}
			c.hands = append(c.hands, h)
			continue
		}
		w := newWorker(c.client, c.bank, name, queue)
		c.work.Go(func() { c.note(w.Run(ctx)) })
	}
	return nil
}

func (c *crew) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.errs = append(c.errs, err)
	}
}

// start starts the next process.
func (h *hand) start(logs io.Writer) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start %s: %w", h.duty.Name, err)
	}
	text, err := json.Marshal(h.duty)
	if err != nil {
		return fmt.Errorf("start %s: %w", h.duty.Name, err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), dutyVariable+"="+string(text))
	cmd.Stdout, cmd.Stderr = logs, logs
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", h.duty.Name, err)
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // Wait returns an error because the process was killed.
		close(done)
	}()
	h.cmd, h.done = cmd, done
	return nil
}

// kill ends the process with SIGKILL. No deferred function is called, and nothing is flushed.
func (h *hand) kill() {
	_ = h.cmd.Process.Kill()
	<-h.done
}

// harass repeatedly kills a random worker and restarts it until end is called.
func (c *crew) harass(ctx context.Context, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	c.work.Go(func() {
		for {
			select {
			case <-time.After(time.Duration(300+rng.IntN(1200)) * time.Millisecond):
			case <-c.peace:
				return
			case <-ctx.Done():
				return
			}
			h := c.hands[rng.IntN(len(c.hands))]
			h.kill()
			if err := h.start(c.logs); err != nil {
				c.note(err)
				return
			}
			c.kills.Add(1)
		}
	})
}

// end stops all workers.
func (c *crew) end() error {
	c.stop()
	close(c.peace)
	c.work.Wait()
	for _, h := range c.hands {
		h.kill()
	}
	return errors.Join(c.errs...)
}
