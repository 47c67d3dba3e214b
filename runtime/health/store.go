package health

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

const (
	// probeEvery is the minimum time between two probes of a store.
	probeEvery = time.Second
	// probePatience is how long a probe waits for the store.
	probePatience = 2 * time.Second
)

// Store returns a check of a process that uses a store and has no worker. The process is always
// live. It is ready if any partition of the store answers within two seconds. For that, Store reads
// a run that does not exist in each partition, at most once per second, however many requests there
// are. A request that arrives during a probe waits for that probe.
func Store(s store.Store) Check {
	p := &probe{store: s, patience: probePatience}
	return Check{name: "store", notLive: func() []string { return nil }, notReady: p.notReady}
}

// probe examines whether a store answers.
type probe struct {
	store    store.Store
	patience time.Duration

	mu      sync.Mutex
	current *probing // the last probe, or the one in progress; nil if there was none
}

// probing is one probe of all partitions.
type probing struct {
	done     chan struct{} // closed when a partition has answered, or none has in time
	over     chan struct{} // closed when no request is in flight
	ended    time.Time     // set before done is closed
	answered bool          // set before done is closed
}

func (p *probe) notReady(ctx context.Context) []string {
	c := p.begin()
	select {
	case <-ctx.Done():
		return []string{"the caller did not wait for the store"}
	case <-c.done:
	}
	if !c.answered {
		return []string{"the store does not answer"}
	}
	return nil
}

// begin returns the probe in progress, a recent probe, or a new one.
func (p *probe) begin() *probing {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.current; c != nil {
		select {
		case <-c.over:
			if time.Since(c.ended) < probeEvery {
				return c
			}
		default: // A store that ignores the end of a context gets no further probes until it answers.
			return c
		}
	}
	c := &probing{done: make(chan struct{}), over: make(chan struct{})}
	p.current = c
	go p.run(c)
	return c
}

// run makes one probe. It does not cancel reads after the first answer, because a canceled request
// costs a connection.
func (p *probe) run(c *probing) {
	ctx, cancel := context.WithTimeout(context.Background(), p.patience)
	defer cancel()
	n := p.store.Partitions()
	answers := make(chan bool, n)
	for partition := range n {
		go func() { answers <- p.read(ctx, partition) }()
	}
	settle := func(answered bool) {
		if c.ended.IsZero() {
			c.answered, c.ended = answered, time.Now()
			close(c.done)
		}
	}
	expired := ctx.Done()
	for left := n; left > 0; {
		select {
		case answered := <-answers:
			if left--; answered {
				settle(true)
			}
		case <-expired:
			settle(false)
			expired = nil
		}
	}
	settle(false)
	close(c.over)
}

// read reports whether a partition answers.
func (p *probe) read(ctx context.Context, partition int) bool {
	run := event.NewRunID(time.Now(), uint16(partition))
	loaded, err := p.store.Load(ctx, []store.Load{{Run: run, Limit: -1}})
	return err == nil && (loaded[0].Err == nil || errors.Is(loaded[0].Err, store.ErrRunNotFound))
}
