package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Store keeps runs in Redis. Make one with Open or New. All methods are safe for
// concurrent use.
type Store struct {
	client     redis.UniversalClient
	owned      bool // Close closes the client
	parts      []*partition
	cfg        Config
	injected   store.Clock // nil: the server's
	server     *serverClock
	pubsub     *pubsub
	retained   retained
	crowds     crowds
	names      *names
	pipes      sync.Pool     // of pipelines in which nothing is queued
	done       chan struct{} // closed by Close
	closing    sync.Once
	closed     error
	preparing  sync.Mutex
	prepared   atomic.Bool
	inspecting sync.Mutex
	inspected  map[int]*keySet
	manyRuns   int // see the constant
	damages    store.Damages
}

var (
	_ store.Store         = (*Store)(nil)
	_ store.Lister        = (*Store)(nil)
	_ store.Auditor       = (*Store)(nil)
	_ store.Inspector     = (*Store)(nil)
	_ store.StepDataStore = (*Store)(nil)
	_ store.Purger        = (*Store)(nil)
	_ store.Rebuilder     = (*Store)(nil)
)

// The defaults of Config.
const (
	DefaultPrefix      = "flowgen"
	DefaultPartitions  = 16
	DefaultWaitTimeout = time.Second
)

// Config configures a store. Open uses the zero value.
type Config struct {
	// Prefix is the beginning of the names of all keys and channels, in braces;
	// empty: DefaultPrefix. Stores of different prefixes know nothing of each
	// other. It may not hold braces or white space.
	Prefix string
	// Partitions is how many parts the store has, each in one slot of a cluster;
	// 0: DefaultPartitions. The first store that uses a prefix fixes it for ever:
	// another one is refused with a *PartitionsError. More of them spread the
	// load over more nodes, and cost a worker more commands while it is idle.
	Partitions int
	// Clock is the source of all times, for tests; nil: the clock of the server,
	// so that the clocks of the workers' machines do not matter.
	Clock store.Clock
	// WaitReplicas is the number of replicas that must have received a creation, a
	// commit or a delivery before it is answered; 0: none. A failover cannot lose
	// these writes, as long as one of those replicas is promoted. Without
	// enough replicas nothing makes progress.
	WaitReplicas int
	// WaitTimeout is how long one try waits for them; 0: DefaultWaitTimeout. It
	// must be less than the ReadTimeout of a client that is given to New.
	WaitTimeout time.Duration
}

// PartitionsError says that a prefix is in use with another number of
// partitions.
type PartitionsError struct {
	Prefix    string
	Got, Want int // configured, and in the database
}

// Permanent is true.
func (e *PartitionsError) Permanent() bool { return true }

// Error names both numbers and the fix.
func (e *PartitionsError) Error() string {
	return fmt.Sprintf("prefix %q has %d partitions, the store is configured with %d: set Config.Partitions (or ?partitions= in the URL) to %d, or use another prefix",
		e.Prefix, e.Want, e.Got, e.Want)
}

// New returns a store that uses a client of the caller: for a server, a group
// that Sentinel watches, or a cluster. It does not dial. Close does not close the
// client.
//
// The client may have its own retries switched on: operations that write are not
// repeated by it, whatever its options say.
func New(client redis.UniversalClient, cfg Config) (*Store, error) {
	s, err := open(client, cfg)
	if err != nil {
		return nil, fmt.Errorf("open redis store: %w", err)
	}
	return s, nil
}

func open(client redis.UniversalClient, cfg Config) (*Store, error) {
	switch client.(type) {
	case nil:
		return nil, errors.New("the client is nil")
	case *redis.Ring:
		return nil, errors.New("a redis.Ring does not keep the keys of a partition on one server: use a redis.ClusterClient")
	}
	if cfg.Prefix == "" {
		cfg.Prefix = DefaultPrefix
	}
	if strings.ContainsAny(cfg.Prefix, "{} \t\r\n") {
		return nil, fmt.Errorf("prefix %q has braces or white space", cfg.Prefix)
	}
	if cfg.Partitions == 0 {
		cfg.Partitions = DefaultPartitions
	}
	if cfg.Partitions < 0 || cfg.Partitions > maxPartitions {
		return nil, fmt.Errorf("%d partitions: use 1 to %d", cfg.Partitions, maxPartitions)
	}
	if cfg.WaitReplicas < 0 {
		return nil, fmt.Errorf("wait for %d replicas", cfg.WaitReplicas)
	}
	if cfg.WaitTimeout <= 0 {
		cfg.WaitTimeout = DefaultWaitTimeout
	}
	s := &Store{
		client: client, cfg: cfg, injected: cfg.Clock, server: newServerClock(),
		names: newNames(), done: make(chan struct{}), inspected: map[int]*keySet{}, manyRuns: manyRuns,
	}
	s.pubsub = newPubsub(client, s.done)
	for n := range cfg.Partitions {
		s.parts = append(s.parts, newPartition(cfg.Prefix, n))
	}
	return s, nil
}

// maxPartitions is the number of partitions that a slot can distinguish.
const maxPartitions = 1 << 12

// Clock returns the clock of the server, as this process knows it from its
// answers: to within the time that an answer takes. Before the first operation it
// is the clock of the machine.
func (s *Store) Clock() store.Clock {
	if s.injected != nil {
		return s.injected
	}
	return s.server
}

// Partitions returns the number of partitions.
func (s *Store) Partitions() int { return len(s.parts) }

// Close ends blocked calls with store.ErrClosed; every later call fails with it.
// Operations in flight end with an error if the store was made by Open.
func (s *Store) Close() error {
	s.closing.Do(func() {
		close(s.done)
		s.retained.close()
		s.pubsub.close()
		if s.owned {
			s.closed = s.client.Close()
		}
	})
	return s.closed
}

// enter is the first thing that every operation does.
func (s *Store) enter(ctx context.Context) error {
	select {
	case <-s.done:
		return store.ErrClosed
	default:
		return ctx.Err()
	}
}

// enterPartition is enter for an operation on a partition by its number.
func (s *Store) enterPartition(ctx context.Context, number int) (*partition, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	if number < 0 || number >= len(s.parts) {
		return nil, fmt.Errorf("partition %d of %d does not exist", number, len(s.parts))
	}
	return s.parts[number], nil
}

func (s *Store) partitionOf(run event.RunID) *partition {
	return s.parts[int(run.Slot())%len(s.parts)]
}

func (s *Store) partitionOfName(workflowID string) *partition {
	return s.parts[int(event.SlotOf(workflowID))%len(s.parts)]
}
